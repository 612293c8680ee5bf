//! Alternating descent over weights, rest pose and bones.

use glam::DMat3;

use crate::model::rig::BoneKind;
use crate::observer::Cancelled;
use crate::skinning::axes;
use crate::skinning::basins::Basins;
use crate::skinning::bone_step::{self, BoneModel};
use crate::skinning::moments::Moments;
use crate::skinning::momentum::Momentum;
use crate::skinning::motion::Motion;
use crate::skinning::problem::Problem;
use crate::skinning::run::Run;
use crate::skinning::skin::Skin;
use crate::skinning::smooth::Smoothness;
use crate::skinning::together::Together;
use crate::skinning::vertex_step::VertexParams;
use crate::skinning::{pass, plant};

/// All unknowns of a fit.
#[derive(Clone)]
pub(crate) struct State {
    pub motion: Motion,
    pub skin: Skin,
    pub model: BoneModel,
}

/// Largest momentum factor.
pub(crate) const MAX_MOMENTUM: f64 = 0.97;

/// In every round with this number all promising bones are admitted at each vertex, however small the gain of each alone: some
/// vertices are stuck with bones of which two have to change at once.
const DEEP_EVERY: usize = 8;

/// In every round with this number bones that scale may do so along other axes.
const AXES_EVERY: usize = 3;

/// How vertices are solved in a round.
pub(crate) enum VertexStep {
    /// From the present influences, with a few others.
    Choose,
    /// The same, weights drawn towards those of the neighbours.
    Smooth(Smoothness),
    /// From several starting points: for at most [`crate::skinning::guess::MAX_BONES`] influences and a rest pose that may move.
    Basins(Basins),
}

/// What makes rounds converge faster.
#[allow(clippy::large_enum_variant, reason = "there is one per descent")]
enum Acceleration {
    Momentum(Momentum<Motion>),
    Together(Together),
}

/// Alternates on one problem: each round solves all vertices for the present bones, then moves the bones.
pub(crate) struct Descent<'a> {
    pub problem: &'a Problem,
    pub params: VertexParams,
    step: VertexStep,
    acceleration: Acceleration,
    /// Squared error after the last round, normals included.
    pub squared_error: f64,
    /// Penalty on weights that are not smooth after the last round, in the unit of the squared error.
    penalty: f64,
    /// The moments of the last round.
    pub moments: Moments,
    /// Rounds so far.
    count: usize,
    /// Whether vertices try other bones in every second round only.
    alternates: bool,
}

impl<'a> Descent<'a> {
    /// Vertices from their present influences, bones with momentum.
    pub fn new(problem: &'a Problem, params: VertexParams) -> Self {
        Self::with_step(problem, params, VertexStep::Choose, None)
    }

    /// Another vertex step; steps over vertices and bones together take the place of momentum.
    pub fn with_step(problem: &'a Problem, params: VertexParams, step: VertexStep, together: Option<Together>) -> Self {
        let momentum = || Acceleration::Momentum(Momentum::new(MAX_MOMENTUM));
        Self {
            problem,
            params,
            step,
            acceleration: together.map_or_else(momentum, Acceleration::Together),
            squared_error: f64::INFINITY,
            penalty: 0.0,
            moments: Moments::default(),
            count: 0,
            alternates: false,
        }
    }

    /// Whether vertices try other bones in every second round only; rounds between are short: twice the rounds in little more time.
    pub fn alternating(self, alternates: bool) -> Self {
        Self { alternates, ..self }
    }

    /// Without momentum, to compare with.
    #[cfg(test)]
    pub fn plain(self) -> Self {
        Self { acceleration: Acceleration::Momentum(Momentum::new(0.0)), ..self }
    }

    /// E_RMS after the last round. Where normals count, of the vertices' step: the bones' step gains for both together.
    pub fn e_rms(&self) -> f64 {
        self.problem.e_rms(match self.problem.normals.is_some() {
            true => self.moments.squared_error - self.moments.normal_error,
            false => self.squared_error,
        })
    }

    /// What rounds lower: the squared error, and the penalty on weights that are not smooth.
    pub fn objective(&self) -> f64 {
        self.squared_error + self.penalty
    }

    /// Up to `count` rounds, fewer when time is up; leaves `state` as the last error says.
    pub fn rounds(&mut self, state: &mut State, count: usize, run: &mut Run<'_>) -> Result<(), Cancelled> {
        for _ in 0..count {
            self.round(state, run)?;
            if run.is_over() {
                break;
            }
        }
        self.step_back(state);
        Ok(())
    }

    /// One round: vertices, then bones, then a step ahead, which [`Descent::step_back`] takes back.
    pub fn round(&mut self, state: &mut State, run: &mut Run<'_>) -> Result<(), Cancelled> {
        self.count += 1;
        // Not needed any more, and as large as the new ones.
        self.moments = Moments::default();
        let before = matches!(self.step, VertexStep::Smooth(_)).then(|| state.skin.clone());
        let mut penalty = run.timed("vertices", || self.solve_vertices(state));
        if self.is_ahead() && self.moments.squared_error + penalty > self.objective() {
            run.report()?;
            self.step_back(state);
            if let Some(before) = before {
                state.skin = before;
            }
            penalty = run.timed("vertices", || self.solve_vertices(state));
        }
        self.penalty = penalty;
        run.report()?;
        let gain = run.timed("bones", || self.move_bones(state));
        self.squared_error = (self.moments.squared_error - gain).max(0.0);
        run.report()?;
        match &mut self.acceleration {
            Acceleration::Momentum(momentum) => run.timed("bones", || {
                let State { motion, model, .. } = state;
                momentum.look_ahead(motion, |new, old, beta| bone_step::extrapolate(new, old, beta, model));
            }),
            Acceleration::Together(together) => {
                let (moments, error) = (&self.moments, self.squared_error);
                let better = run.timed("together", || together.step(self.problem, state, moments, error));
                if let Some(better) = better {
                    (self.squared_error, self.moments) = better;
                }
            }
        }
        run.round(state.bones(), self.e_rms())
    }

    /// Solves all vertices; returns the penalty on weights that are not smooth.
    fn solve_vertices(&mut self, state: &mut State) -> f64 {
        let State { motion, skin, .. } = state;
        let mut params = self.params;
        if self.count.is_multiple_of(DEEP_EVERY) {
            params = VertexParams { newcomers: 2 * params.newcomers, min_gain: 0.0, ..params };
        } else if self.alternates && self.count.is_multiple_of(2) {
            params = VertexParams { newcomers: 0, rounds: 1, ..params };
        }
        self.moments = match &self.step {
            VertexStep::Choose => pass::solve(self.problem, motion, skin, params, None),
            VertexStep::Smooth(smoothness) => pass::solve(self.problem, motion, skin, params, Some(smoothness)),
            VertexStep::Basins(basins) => {
                basins.improve(self.problem, motion, skin, self.count - 1);
                pass::gather(self.problem, motion, skin)
            }
        };
        if let VertexStep::Smooth(smoothness) = &self.step { smoothness.penalty(skin) } else { 0.0 }
    }

    /// Moves the bones, and now and then turns the axes they scale along; returns the gain.
    fn move_bones(&self, state: &mut State) -> f64 {
        let State { motion, model, .. } = state;
        if model.kind != BoneKind::Trs || !self.count.is_multiple_of(AXES_EVERY) {
            return bone_step::update(motion, &self.moments, model);
        }
        let mut turned = motion.clone();
        let mut axes = axes::turned(motion, &self.moments, model);
        axes.iter_mut().zip(&model.axes).take(model.locked).for_each(|(turned, own)| *turned = *own);
        let turned_model = BoneModel { axes, ..model.clone() };
        let gain = bone_step::update(motion, &self.moments, model);
        let gain_turned = bone_step::update(&mut turned, &self.moments, &turned_model);
        if gain_turned <= gain {
            return gain;
        }
        (*motion, *model) = (turned, turned_model);
        gain_turned
    }

    fn is_ahead(&self) -> bool {
        matches!(&self.acceleration, Acceleration::Momentum(momentum) if momentum.is_ahead())
    }

    /// Takes the step ahead back, so that `state` is what the last error belongs to.
    pub fn step_back(&mut self, state: &mut State) {
        if let Acceleration::Momentum(momentum) = &mut self.acceleration {
            momentum.step_back(&mut state.motion);
        }
    }

    /// Discards the error after bones were added or removed.
    pub fn restart(&mut self) {
        self.squared_error = f64::INFINITY;
        if let Acceleration::Momentum(momentum) = &mut self.acceleration {
            momentum.reset();
        }
    }
}

impl State {
    /// B.
    pub fn bones(&self) -> usize {
        self.motion.bones
    }

    /// Adds bones that move rigidly with patches of vertices.
    pub fn plant(&mut self, problem: &Problem, errors: &[f32], count: usize, patch: usize) {
        let (motion, axes) = plant::plant(problem, &self.motion, &self.skin.rest, errors, count, patch);
        self.motion = motion;
        let scales = self.model.kind == BoneKind::Trs;
        self.model.axes.extend(axes.into_iter().map(|axes| if scales { axes } else { DMat3::IDENTITY }));
    }

    /// Removes bones.
    pub fn remove(&mut self, gone: &[usize]) {
        self.motion = plant::remove(&self.motion, &mut self.skin, gone);
        let mut stays = vec![true; self.model.axes.len()];
        gone.iter().for_each(|&j| stays[j] = false);
        let mut stays = stays.into_iter();
        self.model.axes.retain(|_| stays.next().unwrap_or(true));
    }
}
