//! Weights and motion of known bones in turn, for one subject or several that share weights.
//!
//! Rounds of: exact weights for the present motion (`weights`), then the motion of all free bones for these weights
//! (`bone_newton`), with momentum. The rest poses stay. Bones, their tree and weights to start from are known.

use glam::{DMat3, DVec3};

use crate::model::{BoneKind, Row, add_to, keep_largest};
use crate::observer::Cancelled;
use crate::skinning::bone_newton::{self, Freedom};
use crate::skinning::descent::MAX_MOMENTUM;
use crate::skinning::joint_newton::{self, Chain};
use crate::skinning::weights::{self, Prior, Search, Subject, Task};
use crate::skinning::{
    BoneModel, Moments, Momentum, Motion, Problem, Run, Skin, Smoothness, StopReason, StopRule, bone_step, pass,
};
use crate::solve::transform::nearest_rotation;

/// Price of a distance to the weights that are known, per coordinate and frame in squared sphere units: that of a hundredth of an
/// E_RMS unit. Our own: where bones move alike to within that, the known weights decide between them.
pub(crate) const PULL: f64 = 1e-10;

/// Squared weight below which the vertices of a bone do not determine its motion: it follows its parent. Higher than
/// [`bone_step::EMPTY`], which is for bones without a parent to follow.
const FEW: f64 = 0.02;

/// Every so many rounds bones are chosen anew at each vertex; between, they are swapped where that helps.
const WHOLE_EVERY: usize = 8;

/// Maximum number of steps of a frame's bones in a round.
const STEPS: usize = 8;

/// Vertices times bones that are solved between two reports.
const BETWEEN_REPORTS: usize = 1 << 17;

/// The bones, those of a rig first, then new ones.
pub(crate) struct Bones {
    /// Kind and axes of scale.
    pub model: BoneModel,
    /// [B] whether the bone's motion is fitted.
    pub free: Vec<bool>,
    /// [B] parents; new bones have none yet.
    pub parents: Vec<Option<usize>>,
    /// [subjects][B] joints that only rotate, at rest in the unit space; empty where bones move freely.
    pub joints: Vec<Vec<Option<DVec3>>>,
}

impl Bones {
    /// Bones with axes of scale [B]; only trs bones have any.
    pub fn new(kind: BoneKind, axes: Vec<DMat3>, free: Vec<bool>, parents: Vec<Option<usize>>) -> Self {
        let plain = BoneModel::new(kind, free.len(), 1);
        let model = if kind == BoneKind::Trs { BoneModel { axes, ..plain } } else { plain };
        Self { model, free, parents, joints: Vec::new() }
    }

    /// B.
    pub fn count(&self) -> usize {
        self.free.len()
    }

    /// Room for more bones, all free.
    fn grow(&mut self, count: usize) {
        self.model.axes.extend(std::iter::repeat_n(DMat3::IDENTITY, count));
        self.free.extend(std::iter::repeat_n(true, count));
        self.parents.extend(std::iter::repeat_n(None, count));
    }
}

/// The unknowns and what is known about them, in units of the first subject's smallest enclosing sphere.
pub(crate) struct Alternation {
    /// [subjects]
    pub problems: Vec<Problem>,
    /// [subjects] motion of all bones.
    pub motions: Vec<Motion>,
    /// [subjects] motion of the bones that there were at the start; at rest where it is not known.
    given: Vec<Motion>,
    /// [subjects] whether the motion is known.
    known: Vec<bool>,
    /// Weights; its rest pose is the first subject's.
    pub skin: Skin,
    /// Weights at the start.
    held: Skin,
    /// [N] weights that a vertex is pulled to.
    prior: Vec<Vec<(u16, f32)>>,
    pub bones: Bones,
    /// K.
    limit: usize,
    /// Whether weights are fitted.
    pub weigh: bool,
    /// [N] 1: the vertex keeps its weights; 0: they are fitted; between: a blend of both.
    pub mask: Vec<f32>,
    pub smoothness: Option<Smoothness>,
    /// [N] squared errors after the last weights.
    errors: Vec<f64>,
    /// Squared error over all subjects.
    squared_error: f64,
}

impl Alternation {
    /// From a skin with known weights to at most `limit` influences; all weights are fitted. `given`: known motions.
    pub fn new(problems: Vec<Problem>, given: Vec<Option<Motion>>, skin: Skin, bones: Bones, limit: usize) -> Self {
        let known = given.iter().map(Option::is_some).collect();
        let motion = |(motion, problem): (Option<Motion>, &Problem)| {
            motion.unwrap_or_else(|| Motion::identity(bones.count(), problem.frames()))
        };
        let given: Vec<Motion> = given.into_iter().zip(&problems).map(motion).collect();
        let mut motions = given.clone();
        if bones.model.kind == BoneKind::Rigid {
            motions.iter_mut().for_each(|motion| remove_scale(motion, &bones.free));
        }
        let n = skin.rest.len();
        Self {
            problems,
            motions,
            given,
            known,
            held: skin.clone(),
            prior: (0..n).map(|i| skin.of(i).map(|(j, w)| (j as u16, w as f32)).collect()).collect(),
            skin,
            bones,
            limit,
            weigh: true,
            mask: vec![0.0; n],
            smoothness: None,
            errors: Vec::new(),
            squared_error: f64::INFINITY,
        }
    }

    /// Room for more bones, which so far move like bone 0 and have no vertices.
    pub fn grow(&mut self, count: usize) {
        for motion in &mut self.motions {
            let picked: Vec<usize> = (0..motion.bones).chain(std::iter::repeat_n(0, count)).collect();
            *motion = motion.select(&picked);
        }
        self.bones.grow(count);
    }

    /// Rounds over weights and motion.
    ///
    /// Weights are optimal for any motion, so momentum is safe: where the error rises, the step ahead is taken back.
    pub fn rounds(&mut self, rounds: usize, tolerance: f64, run: &mut Run<'_>) -> Result<StopReason, Cancelled> {
        let mut momentum = Momentum::new(MAX_MOMENTUM);
        let mut rule = StopRule::new(rounds, tolerance, 2);
        let grown = self.bones.count() > self.given[0].bones;
        loop {
            let before = self.squared_error;
            let whole = rule.count.is_multiple_of(WHOLE_EVERY) || rule.count + 1 == rounds;
            let search = if whole { Search::Whole } else { Search::Nearby };
            self.solve_weights(search, run)?;
            if self.squared_error > before && momentum.is_ahead() {
                momentum.step_back(&mut self.motions);
                self.solve_weights(search, run)?;
            }
            // A known motion may be far from the sequence: the first round may start anew.
            let anew = rule.count == 0 && !grown && self.all_known();
            self.fit_motion(anew, STEPS, run)?;
            run.round(self.bones.count(), self.e_rms())?;
            if let Some(stop) = rule.after(self.e_rms(), run) {
                return Ok(stop);
            }
            if self.smoothness.is_none() {
                let bones = &self.bones;
                momentum.look_ahead(&mut self.motions, |new, old, beta| ahead(new, old, beta, bones));
            }
        }
    }

    /// Weights of all vertices that are not locked, then blends of those that are in part.
    pub fn solve_weights(&mut self, search: Search, run: &mut Run<'_>) -> Result<(), Cancelled> {
        let subjects: Vec<Subject> = run.timed("weights", || {
            self.problems.iter().zip(&self.motions).map(|(problem, motion)| Subject::new(problem, motion)).collect()
        });
        let means = self.smoothness.as_ref().map(|smoothness| (smoothness.means(&self.skin), smoothness.strength));
        let samples: usize = self.problems.iter().map(|problem| problem.length).sum();
        let prior = match &means {
            Some((means, strength)) => Prior { weights: means, strength: *strength },
            None => Prior { weights: &self.prior, strength: PULL * samples as f64 },
        };
        let free: Vec<bool> = self.mask.iter().map(|&m| self.weigh && m < 1.0).collect();
        let task = Task { limit: self.limit, search, prior, free: &free };
        let skin = &mut self.skin;
        self.errors = solve_blocks(&subjects, skin, &task, run)?;
        if self.weigh && blend(skin, &self.held, &self.mask, self.limit) {
            let none = vec![false; free.len()];
            self.errors = solve_blocks(&subjects, skin, &Task { free: &none, ..task }, run)?;
        }
        self.squared_error = self.errors.iter().sum();
        Ok(())
    }

    /// Motion of all free bones; with `anew` frames may leave their present motion for a guess from the vertices.
    pub fn fit_motion(&mut self, anew: bool, steps: usize, run: &mut Run<'_>) -> Result<(), Cancelled> {
        self.squared_error = 0.0;
        for s in 0..self.problems.len() {
            let mut moments = run.timed("moments", || self.moments(s));
            let enough = |j: usize| self.bones.free[j] && moments.second.mass(j) >= FEW;
            let fitted: Vec<bool> = (0..self.bones.count()).map(enough).collect();
            run.report()?;
            if anew {
                let motion = &mut self.motions[s];
                run.timed("motion", || bone_newton::guess(motion, &moments, &fitted, self.known[s]));
                // Residuals are float32: those of the guess are small numbers.
                moments = run.timed("moments", || self.moments(s));
                run.report()?;
            }
            if !self.bones.joints.is_empty() {
                self.fit_joints(s, &fitted, steps, run)?;
                continue;
            }
            let freedom = Freedom { model: &self.bones.model, free: &fitted, steps, tolerance: 1e-5 };
            let gain = bone_newton::solve(&mut self.motions[s], &moments, &freedom, run)?;
            self.squared_error += (moments.squared_error - gain).max(0.0);
            self.follow(s, &fitted);
        }
        Ok(())
    }

    /// Motion of all free bones of subject `s`, each attached to its parent by a joint that only rotates, where it has one.
    fn fit_joints(&mut self, s: usize, fitted: &[bool], steps: usize, run: &mut Run<'_>) -> Result<(), Cancelled> {
        self.follow(s, fitted);
        let order = parents_first(&self.bones.parents);
        let attach = |this: &mut Self| {
            let Bones { parents, joints, free, .. } = &this.bones;
            Chain { parents, order: &order, joints: &joints[s], free }.attach(&mut this.motions[s]);
        };
        attach(self);
        let moments = run.timed("moments", || self.moments(s));
        run.report()?;
        let Bones { parents, joints, free, .. } = &self.bones;
        let chain = Chain { parents, order: &order, joints: &joints[s], free };
        let gain = joint_newton::solve(&mut self.motions[s], &moments, &chain, steps, 1e-5, run)?;
        self.squared_error += (moments.squared_error - gain).max(0.0);
        Ok(())
    }

    /// Sums over the vertices of subject `s`, with the errors of its frames.
    pub fn moments(&mut self, s: usize) -> Moments {
        let problem = &self.problems[s];
        let rest = std::mem::replace(&mut self.skin.rest, problem.rest.clone());
        let moments = pass::gather_frames(problem, &self.motions[s], &self.skin);
        self.skin.rest = rest;
        moments
    }

    /// Free bones without vertices keep their place beside their parent.
    fn follow(&mut self, s: usize, fitted: &[bool]) {
        let (given, motion) = (&self.given[s], &mut self.motions[s]);
        for j in parents_first(&self.bones.parents) {
            let Some(p) = self.bones.parents[j].filter(|_| self.bones.free[j] && !fitted[j]) else { continue };
            for t in 0..if j.max(p) < given.bones { motion.frames() } else { 0 } {
                let parent_from_own = given.transform(p, t).inverse() * given.transform(j, t);
                if parent_from_own.is_finite() {
                    motion.set_transform(j, t, &(motion.transform(p, t) * parent_from_own));
                }
            }
        }
    }

    /// [N] squared errors, without the share of locked vertices: new bones cannot help them.
    pub fn errors_to_help(&self) -> Vec<f64> {
        self.errors.iter().zip(&self.mask).map(|(error, &m)| error * f64::from(1.0 - m)).collect()
    }

    /// Whether the motion of every subject is known.
    pub fn all_known(&self) -> bool {
        !self.known.contains(&false)
    }

    /// Motions and their error, to return to.
    pub fn motion_state(&self) -> (Vec<Motion>, f64) {
        (self.motions.clone(), self.squared_error)
    }

    /// Back to an earlier motion.
    pub fn restore(&mut self, (motions, squared_error): (Vec<Motion>, f64)) {
        (self.motions, self.squared_error) = (motions, squared_error);
    }

    /// Error over all subjects [Kavan2010 s.5].
    pub fn e_rms(&self) -> f64 {
        let samples: usize = self.problems.iter().map(|p| p.vertices() * p.length).sum();
        1000.0 * (self.squared_error.max(0.0) / samples as f64).sqrt()
    }
}

/// [`weights::solve`] in blocks, with reports between.
fn solve_blocks(subjects: &[Subject], skin: &mut Skin, task: &Task, run: &mut Run<'_>) -> Result<Vec<f64>, Cancelled> {
    let n = skin.rest.len();
    let block = (BETWEEN_REPORTS / subjects.first().map_or(1, |s| s.bones())).max(256);
    let mut errors = Vec::with_capacity(n);
    for start in (0..n).step_by(block) {
        let range = start..n.min(start + block);
        errors.extend(run.timed("weights", || weights::solve(subjects, skin, range, task)));
        run.report()?;
    }
    Ok(errors)
}

/// All motions carried on; bones that are not free stay.
fn ahead(new: &[Motion], old: Vec<Motion>, beta: f64, bones: &Bones) -> Vec<Motion> {
    let one = |(new, old): (&Motion, Motion)| {
        let mut ahead = bone_step::extrapolate(new, old, beta, &bones.model);
        for j in (0..new.bones).filter(|&j| !bones.free[j]) {
            (0..4).for_each(|c| ahead.row_mut(c, j).copy_from_slice(new.row(c, j)));
        }
        ahead
    };
    new.iter().zip(old).map(one).collect()
}

/// Free bones keep their rotation and where they move the origin.
fn remove_scale(motion: &mut Motion, free: &[bool]) {
    for j in (0..motion.bones).filter(|&j| free[j]) {
        for t in 0..motion.frames() {
            let mut m = motion.transform(j, t);
            m.matrix3 = nearest_rotation(&m.matrix3);
            motion.set_transform(j, t, &m);
        }
    }
}

/// Bones in an order in which every parent comes before its children.
pub(crate) fn parents_first(parents: &[Option<usize>]) -> Vec<usize> {
    let depth = |j: usize| std::iter::successors(parents[j], |&p| parents[p]).count();
    let mut order: Vec<usize> = (0..parents.len()).collect();
    order.sort_by_cached_key(|&j| depth(j));
    order
}

/// Mixes held and fitted weights where the mask is between 0 and 1; false where there is nothing to mix.
fn blend(skin: &mut Skin, held: &Skin, mask: &[f32], limit: usize) -> bool {
    let mut any = false;
    for (i, &m) in mask.iter().enumerate().filter(|(_, m)| **m > 0.0 && **m < 1.0) {
        any = true;
        let share = f64::from(m);
        let mut mixed: Row = held.of(i).map(|(j, w)| (j, share * w)).collect();
        for (j, w) in skin.of(i) {
            add_to(&mut mixed, j, (1.0 - share) * w);
        }
        keep_largest(&mut mixed, limit);
        let total: f64 = mixed.iter().map(|(_, w)| w).sum();
        skin.set(i, mixed.into_iter().map(|(j, w)| (j, w / total)));
    }
    any
}
