//! Bones, motion and rest poses of all levels.
//!
//! A cycle searches each level for bones, from the coarsest to the finest, with those of coarser levels locked (`search`); then all levels
//! alternate between weights and motion, which lowers
//!
//! ```text
//! sum_l (E_l(T, W_l) / own_l)^p          own_l = the error of a fit of level l's own size
//! ```
//!
//! in rounds of squared errors, level l weighted by its derivative, `(E_l / own_l)^(p - 2) / own_l^2`. With a large p the level whose ratio is
//! largest decides. That moves the bones that levels share, so that other bones of their own suit the finer levels better: hence more cycles,
//! each from the best state so far. Every second one leaves out the coarsest level, whose search takes back what it gave up for the others.
//!
//! Cycles see a sample of the vertices; the last rounds all of them.

use crate::observer::{Cancelled, Stage};
use crate::skinning::bone_step::{self, BoneModel};
use crate::skinning::descent::MAX_MOMENTUM;
use crate::skinning::params::VERTICES_PER_BONE;
use crate::skinning::weights::Search;
use crate::skinning::{Moments, Momentum, Motion, Problem, Run, Sample, VertexParams, pass};

use super::{Draft, LodParams, Work, search, weigh};

/// Positions of the sample: vertices times frames. Fewer are followed too closely by bones of their own.
const SAMPLE: usize = 800_000;
/// p.
const POWER: f64 = 12.0;
/// Rounds over all levels, for each round over one.
const JOINT_ROUNDS: usize = 2;
/// Rounds over all levels on all vertices.
const LAST_ROUNDS: usize = 40;
/// Rounds stop when the error of no level falls by more than this share.
const TOLERANCE: f64 = 1e-3;
/// Cycles stop when so many in a row lower the mean ratio by less than this share.
const PATIENCE: usize = 2;
const STALL: f64 = 2e-3;
/// Fits of a level's own size below this E_RMS are exact: no level has to be as good.
const EXACT: f64 = 0.01;

/// Levels on one problem: all vertices, or a sample.
#[derive(Clone)]
struct Nested {
    motion: Motion,
    kind: BoneModel,
    levels: Vec<Draft>,
}

/// What levels are fitted to, and compared with.
struct Task<'a> {
    problem: &'a Problem,
    /// [levels] E_RMS of fits of their own size.
    own: Vec<f64>,
    /// p; 0: the product of the ratios.
    power: f64,
    /// Rounds over one level.
    rounds: usize,
}

impl Work<'_> {
    /// Bones, motion, weights and rest poses of all levels. `own` may be empty.
    pub(super) fn refit(&mut self, params: &LodParams, own: &[f64], run: &mut Run<'_>) -> Result<(), Cancelled> {
        let frames = self.problem.frames().max(1);
        let vertices = SAMPLE.div_ceil(frames).max(2 * VERTICES_PER_BONE * self.used.len());
        let sample = Sample::new(self.problem, vertices, usize::MAX, 0);
        let picked = sample.picked().0.to_vec();
        let part = run.timed("sample", || self.problem.pick(&picked));
        let mut nested = Nested { motion: self.motion.clone(), kind: self.kind.clone(), levels: self.levels.clone() };
        nested.levels.iter_mut().for_each(|level| level.skin = level.skin.pick(&picked));
        nested.search(&Task::new(&part, own, self.levels.len(), params.rounds), params.cycles, run)?;
        for level in &mut nested.levels {
            level.skin = sample.all_vertices(self.problem, &level.skin);
        }
        let task = Task::new(self.problem, own, self.levels.len(), params.rounds);
        nested.all_levels(LAST_ROUNDS, &task, run)?;
        (0..nested.levels.len()).try_for_each(|at| nested.weigh(at, Search::Nearby, self.problem, run))?;
        (self.motion, self.kind, self.levels) = (nested.motion, nested.kind, nested.levels);
        Ok(())
    }
}

impl<'a> Task<'a> {
    /// Without errors of fits of their own size each level counts relative to its own error: the mean of logarithms.
    fn new(problem: &'a Problem, own: &[f64], levels: usize, rounds: usize) -> Self {
        let power = if own.is_empty() { 0.0 } else { POWER };
        let own = (0..levels).map(|at| own.get(at).map_or(1.0, |own| own.max(EXACT))).collect();
        Self { problem, own, power, rounds }
    }

    /// [levels] `E_l / own_l`.
    fn ratios(&self, nested: &Nested) -> Vec<f64> {
        nested.levels.iter().zip(&self.own).map(|(level, own)| level.e_rms / own).collect()
    }

    /// The power mean of the ratios.
    fn cost(&self, nested: &Nested) -> f64 {
        let ratios = self.ratios(nested);
        let mean =
            |f: &dyn Fn(f64) -> f64| ratios.iter().map(|ratio| f(ratio.max(1e-12))).sum::<f64>() / ratios.len() as f64;
        match self.power {
            0.0 => mean(&f64::ln).exp(),
            p => {
                let largest = ratios.iter().copied().fold(1e-12, f64::max);
                largest * mean(&|ratio| (ratio / largest).powf(p)).powf(1.0 / p)
            }
        }
    }

    /// [levels] what the squared error of a level counts; 1 at most.
    fn shares(&self, nested: &Nested) -> Vec<f64> {
        let ratios = self.ratios(nested).into_iter().zip(&self.own);
        let log = |(ratio, own): (f64, &f64)| (self.power - 2.0) * ratio.max(1e-9).ln() - 2.0 * own.ln();
        let logs: Vec<f64> = ratios.map(log).collect();
        let largest = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        logs.into_iter().map(|log| (log - largest).exp()).collect()
    }
}

impl Nested {
    /// Cycles, each from the best state so far.
    fn search(&mut self, task: &Task<'_>, cycles: usize, run: &mut Run<'_>) -> Result<(), Cancelled> {
        let count = self.levels.len();
        self.cycle(count, 0, task, run)?;
        let mut best = (task.cost(self), self.clone());
        let mut idle = 0;
        for cycle in 1..=cycles {
            if count < 2 || idle == PATIENCE || best.0 <= 1e-9 {
                break;
            }
            let searched = if cycle % 2 == 1 { count - 1 } else { count };
            self.cycle(searched, cycle, task, run)?;
            let now = task.cost(self);
            idle = if now > best.0 * (1.0 - STALL) { idle + 1 } else { 0 };
            if now < best.0 {
                best = (now, self.clone());
            } else {
                self.clone_from(&best.1);
            }
        }
        *self = best.1;
        Ok(())
    }

    /// Searches the finest `count` levels for bones, then rounds over all levels.
    fn cycle(&mut self, count: usize, cycle: usize, task: &Task<'_>, run: &mut Run<'_>) -> Result<(), Cancelled> {
        let mut locked = vec![false; self.motion.bones];
        self.levels[count..].iter().flat_map(|level| &level.bones).for_each(|&j| locked[j] = true);
        for at in (0..count).rev() {
            // Bones of coarser levels may be others by now.
            self.weigh(at, Search::Whole, task.problem, run)?;
            let Self { motion, kind, levels } = self;
            let draft = &mut levels[at];
            let task = search::Task { locked: &locked, rounds: task.rounds, cycle, problem: task.problem };
            search::improve(motion, kind, draft, &task, run)?;
            run.round(draft.bones.len(), draft.e_rms)?;
            draft.bones.iter().for_each(|&j| locked[j] = true);
        }
        self.all_levels(JOINT_ROUNDS * task.rounds, task, run)
    }

    /// Rounds over the motion, weights and rest poses of all levels, with momentum.
    fn all_levels(&mut self, rounds: usize, task: &Task<'_>, run: &mut Run<'_>) -> Result<(), Cancelled> {
        run.stage(Stage::WeightsAndMotion, Some(rounds))?;
        let mut momentum = Momentum::new(MAX_MOMENTUM);
        let mut last = f64::INFINITY;
        let mut poor = 0;
        for _ in 0..rounds {
            let before: Vec<f64> = self.levels.iter().map(|level| level.e_rms).collect();
            let mut moments = self.solve(task, run)?;
            if momentum.is_ahead() && task.cost(self) > last {
                momentum.step_back(&mut self.motion);
                moments = self.solve(task, run)?;
            }
            last = task.cost(self);
            run.timed("motion", || {
                bone_step::update(&mut self.motion, &moments, &self.kind);
                let kind = &self.kind;
                momentum.look_ahead(&mut self.motion, |new, old, beta| bone_step::extrapolate(new, old, beta, kind));
            });
            let mean = self.levels.iter().map(|level| level.e_rms).sum::<f64>() / self.levels.len() as f64;
            run.round(self.motion.bones, mean)?;
            let gains = self.levels.iter().zip(&before).map(|(level, before)| 1.0 - level.e_rms / before.max(1e-300));
            poor = if gains.fold(f64::NEG_INFINITY, f64::max) < TOLERANCE { poor + 1 } else { 0 };
            if poor == 2 {
                break;
            }
        }
        momentum.step_back(&mut self.motion);
        self.solve(task, run)?;
        Ok(())
    }

    /// Weights and rest poses of all levels, one vertex step each; the moments of all, each level's times its share.
    fn solve(&mut self, task: &Task<'_>, run: &mut Run<'_>) -> Result<Moments, Cancelled> {
        let mut parts = Vec::with_capacity(self.levels.len());
        for level in &mut self.levels {
            let motion = self.motion.select(&level.bones);
            let slots = level.influences.min(motion.bones);
            let vertices = VertexParams { slots, newcomers: 1, min_gain: 1e-4, move_rest: true, rounds: 2 };
            let part = run.timed("weights", || pass::solve(task.problem, &motion, &mut level.skin, vertices, None));
            level.e_rms = task.problem.e_rms(part.squared_error);
            parts.push(part);
            run.report()?;
        }
        let mut sum = Moments::of_none(self.motion.bones, self.motion.length);
        for ((level, part), share) in self.levels.iter().zip(&parts).zip(task.shares(self)) {
            sum.add_part(part, &level.bones, share);
        }
        Ok(sum)
    }

    /// Exact weights of a level, for its own rest pose.
    fn weigh(&mut self, at: usize, search: Search, problem: &Problem, run: &mut Run<'_>) -> Result<(), Cancelled> {
        let level = &mut self.levels[at];
        let motion = self.motion.select(&level.bones);
        let mut own = problem.clone();
        own.rest.clone_from(&level.skin.rest);
        let error = weigh(&own, &motion, &mut level.skin, level.influences, search, run)?;
        level.e_rms = problem.e_rms(error);
        Ok(())
    }
}
