//! Alternating descent over weights, rest pose and bones, with momentum.

use glam::DMat3;

use crate::model::rig::BoneKind;
use crate::observer::Cancelled;
use crate::skinning::axes;
use crate::skinning::basins::Basins;
use crate::skinning::bone_step::{self, BoneModel};
use crate::skinning::moments::Moments;
use crate::skinning::momentum::Momentum;
use crate::skinning::motion::Motion;
use crate::skinning::pass;
use crate::skinning::problem::Problem;
use crate::skinning::run::Run;
use crate::skinning::skin::Skin;
use crate::skinning::smooth::Smoothness;
use crate::skinning::together::{self, Joint};
use crate::skinning::vertex_step::LocalParams;

/// All unknowns of a fit.
#[derive(Clone)]
pub(crate) struct State {
    pub motion: Motion,
    pub skin: Skin,
    pub model: BoneModel,
}

/// Largest momentum: how far ahead of the last step the next one starts.
pub(super) const MAX_MOMENTUM: f64 = 0.97;

/// Every so many rounds all promising bones are let in at each vertex, however little each promises alone: some
/// vertices are stuck with bones of which two would have to be changed at once.
const DEEP_EVERY: usize = 8;

/// Every so many rounds bones that scale may do so along other axes.
const AXES_EVERY: usize = 3;

/// Alternates on one problem; remembers the last motions to look ahead.
///
/// Each round solves all vertices for the present bones, then moves the bones, with momentum. Where it pays, steps over everything at
/// once take its place (`together`), and vertices try more than the nearest minimum (`basins`).
pub(crate) struct Descent<'a> {
    pub problem: &'a Problem,
    pub local: LocalParams,
    /// Draws weights of neighbours together.
    smoothness: Option<Smoothness>,
    /// Squared error after the last round.
    pub squared_error: f64,
    /// What the last round charged for weights unlike the neighbours', in the unit of the squared error.
    penalty: f64,
    /// What the last round left: errors of vertices, second moments of bones.
    pub moments: Moments,
    momentum: Momentum<Motion>,
    /// Rounds so far.
    count: usize,
    /// Moves vertices and affine bones together after each round, instead of momentum.
    joint: Option<Joint>,
    /// Lets vertices look further than the nearest minimum.
    basins: Option<Basins>,
}

impl<'a> Descent<'a> {
    pub fn new(problem: &'a Problem, local: LocalParams) -> Self {
        Self {
            problem,
            local,
            smoothness: None,
            squared_error: f64::INFINITY,
            penalty: 0.0,
            moments: Moments::default(),
            momentum: Momentum::new(MAX_MOMENTUM),
            count: 0,
            joint: None,
            basins: None,
        }
    }

    /// With steps that move vertices and bones together, where those can be made.
    pub fn jointly(self, wanted: bool, state: &State) -> Self {
        let possible = state.model.kind == BoneKind::Affine
            && self.smoothness.is_none()
            && self.local.slots <= together::MOST_SLOTS
            && state.bones() <= together::MOST_BONES;
        Self { joint: (wanted && possible).then(Joint::default), ..self }
    }

    /// With vertices that look further than the nearest minimum. For at most [`crate::skinning::guess::MOST`] influences, a rest pose
    /// that may move and weights that need not be smooth: `Schedule::of` sees to that.
    pub fn far_sighted(self, wanted: bool) -> Self {
        Self { basins: wanted.then(|| Basins::new(&self.problem.rest)), ..self }
    }

    /// With smooth weights.
    pub fn smoothed(self, smoothness: Option<Smoothness>) -> Self {
        Self { smoothness, ..self }
    }

    /// Without momentum, to compare with.
    #[cfg(test)]
    pub fn plain(self) -> Self {
        Self { momentum: Momentum::new(0.0), ..self }
    }

    /// E_RMS after the last round.
    pub fn e_rms(&self) -> f64 {
        self.problem.e_rms(self.squared_error)
    }

    /// What rounds lower: the squared error, and the price of weights that are not smooth.
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
        self.settle(state);
        Ok(())
    }

    /// One round: vertices, then bones, then a look ahead; [`Descent::settle`] takes that back.
    pub fn round(&mut self, state: &mut State, run: &mut Run<'_>) -> Result<(), Cancelled> {
        let State { motion, skin, model } = state;
        self.count += 1;
        let mut local = self.local;
        if self.count.is_multiple_of(DEEP_EVERY) {
            local = LocalParams { newcomers: 2 * local.newcomers, min_gain: 0.0, ..local };
        }
        // Not needed any more, and as large as the new ones.
        self.moments = Moments::default();
        let before = self.smoothness.as_ref().map(|_| skin.clone());
        let mut penalty = run.timed("vertices", || self.solve_vertices(motion, skin, local));
        if self.momentum.is_ahead() && self.moments.squared_error + penalty > self.objective() {
            self.momentum.step_back(motion);
            if let Some(before) = before {
                *skin = before;
            }
            penalty = run.timed("vertices", || self.solve_vertices(motion, skin, local));
        }
        self.penalty = penalty;
        run.timed("bones", || {
            let gain = self.update_bones(motion, model);
            self.squared_error = (self.moments.squared_error - gain).max(0.0);
            if self.joint.is_none() {
                self.momentum.look_ahead(motion, |new, old, beta| bone_step::extrapolate(new, old, beta, model));
            }
        });
        if let Some(joint) = &mut self.joint {
            let (moments, move_rest) = (&self.moments, self.local.move_rest);
            let better =
                run.timed("together", || joint.step(self.problem, state, moments, self.squared_error, move_rest));
            if let Some(better) = better {
                (self.squared_error, self.moments) = better;
            }
        }
        run.round(state.bones(), self.e_rms())
    }

    /// Solves all vertices; returns the price of weights that are not smooth.
    fn solve_vertices(&mut self, motion: &Motion, skin: &mut Skin, local: LocalParams) -> f64 {
        if let Some(basins) = &self.basins {
            basins.improve(self.problem, motion, skin, self.count - 1);
            self.moments = pass::pass(self.problem, motion, skin, None);
            return 0.0;
        }
        let smoothness = self.smoothness.as_ref();
        self.moments = pass::smooth_pass(self.problem, motion, skin, Some(local), smoothness);
        smoothness.map_or(0.0, |smoothness| smoothness.penalty(skin))
    }

    /// Moves the bones, and now and then turns the axes they scale along; returns the gain.
    fn update_bones(&self, motion: &mut Motion, model: &mut BoneModel) -> f64 {
        if model.kind != BoneKind::Trs || !self.count.is_multiple_of(AXES_EVERY) {
            return bone_step::update(motion, &self.moments, model);
        }
        let mut turned = motion.clone();
        let axes = axes::turned(motion, &self.moments, model);
        let turned_model = BoneModel { axes, ..model.clone() };
        let gain = bone_step::update(motion, &self.moments, model);
        let gain_turned = bone_step::update(&mut turned, &self.moments, &turned_model);
        if gain_turned <= gain {
            return gain;
        }
        (*motion, *model) = (turned, turned_model);
        gain_turned
    }

    /// Takes the look-ahead back, so that `state` is what the last error belongs to.
    pub fn settle(&mut self, state: &mut State) {
        self.momentum.step_back(&mut state.motion);
    }

    /// Forgets the error after bones were added or taken out.
    pub fn restart(&mut self) {
        self.squared_error = f64::INFINITY;
        self.momentum.forget();
    }
}

impl State {
    /// B.
    pub fn bones(&self) -> usize {
        self.motion.bones
    }

    /// Adds bones that move rigidly with patches of vertices.
    pub fn plant(&mut self, problem: &Problem, errors: &[f32], count: usize, patch: usize) {
        let (motion, axes) =
            crate::skinning::plant::plant(problem, &self.motion, &self.skin.rest, errors, count, patch);
        self.motion = motion;
        let scales = self.model.kind == BoneKind::Trs;
        self.model.axes.extend(axes.into_iter().map(|axes| if scales { axes } else { DMat3::IDENTITY }));
    }

    /// Takes bones out.
    pub fn remove(&mut self, gone: &[usize]) {
        self.motion = crate::skinning::plant::remove(&self.motion, &mut self.skin, gone);
        let kept = |j: &usize| !gone.contains(j);
        let axes: Vec<DMat3> = (0..self.model.axes.len()).filter(kept).map(|j| self.model.axes[j]).collect();
        self.model.axes = axes;
    }
}
