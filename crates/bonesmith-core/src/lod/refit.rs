//! Bones, motion and rest poses of all levels.
//!
//! A cycle searches each level for bones, from the coarsest to the finest, with those of coarser levels locked (`search`); then all levels
//! alternate between weights and motion. For the motion they are stacked as one problem, whose moments are those of the sum
//!
//! ```text
//! sum_l E_l^2(T, W_l) / e_l^2          e_l = the present error of level l
//! ```
//!
//! which is the step of `sum_l log E_l`: a level's error counts in proportion to itself, not to the coarsest one's. That moves the bones that
//! levels share, so that other bones of their own suit the finer levels better: hence more cycles, each from the best state so far. Every second one leaves
//! out the coarsest level, whose search takes back what it gave up for the others.

use crate::observer::{Cancelled, Stage};
use crate::skinning::bone_step::{self, BoneModel};
use crate::skinning::loss::Loss;
use crate::skinning::weights::Search;
use crate::skinning::{Motion, Problem, Run, Skin, VertexParams, pass};

use super::{Draft, LodParams, NEWCOMERS, Work, search, weigh};

/// Rounds over all levels, for each round over one.
const JOINT_ROUNDS: usize = 3;
/// Rounds stop when none of the levels gains more than this share.
const TOLERANCE: f64 = 1e-3;
/// Cycles stop when so many in a row lower the geometric mean of the levels' errors by less than this share.
const PATIENCE: usize = 2;
const STALL: f64 = 2e-3;

/// What cycles change.
#[derive(Clone)]
struct State {
    motion: Motion,
    kind: BoneModel,
    levels: Vec<Draft>,
}

impl Work<'_> {
    /// Bones, motion, weights and rest poses of all levels.
    pub(super) fn refit(&mut self, params: &LodParams, run: &mut Run<'_>) -> Result<(), Cancelled> {
        let count = self.levels.len();
        self.cycle(count, params.rounds, 0, run)?;
        let mut best = (self.mean_log(), self.state());
        let mut idle = 0;
        for cycle in 1..=params.cycles {
            if count < 2 || idle == PATIENCE || best.0 == f64::NEG_INFINITY {
                break;
            }
            let searched = if cycle % 2 == 1 { count - 1 } else { count };
            self.cycle(searched, params.rounds, cycle, run)?;
            let (before, now) = (best.0, self.mean_log());
            idle = if now > before - STALL { idle + 1 } else { 0 };
            if now < before {
                best = (now, self.state());
            } else {
                self.restore(best.1.clone());
            }
        }
        self.restore(best.1);
        (0..count).try_for_each(|at| self.weigh_level(at, Search::Nearby, run))
    }

    /// Mean logarithm of the errors of the levels.
    fn mean_log(&self) -> f64 {
        self.levels.iter().map(|level| level.e_rms.ln()).sum::<f64>() / self.levels.len() as f64
    }

    fn state(&self) -> State {
        State { motion: self.motion.clone(), kind: self.kind.clone(), levels: self.levels.clone() }
    }

    fn restore(&mut self, State { motion, kind, levels }: State) {
        (self.motion, self.kind, self.levels) = (motion, kind, levels);
    }

    /// Searches the finest `count` levels for bones, then rounds over all levels.
    fn cycle(&mut self, count: usize, rounds: usize, cycle: usize, run: &mut Run<'_>) -> Result<(), Cancelled> {
        let mut locked = vec![false; self.used.len()];
        self.levels[count..].iter().flat_map(|level| &level.bones).for_each(|&j| locked[j] = true);
        for at in (0..count).rev() {
            // Bones of coarser levels may be others by now.
            self.weigh_level(at, Search::Whole, run)?;
            let draft = &mut self.levels[at];
            let task = search::Task { locked: &locked, rounds, cycle };
            search::improve(self.problem, &mut self.motion, &mut self.kind, draft, &task, run)?;
            run.round(draft.bones.len(), draft.e_rms)?;
            draft.bones.iter().for_each(|&j| locked[j] = true);
        }
        self.all_levels(JOINT_ROUNDS * rounds, run)
    }

    /// Rounds over the motion, weights and rest poses of all levels.
    fn all_levels(&mut self, rounds: usize, run: &mut Run<'_>) -> Result<(), Cancelled> {
        let stacked = self.stacked();
        run.stage(Stage::WeightsAndMotion, Some(rounds))?;
        for _ in 0..rounds {
            let before: Vec<f64> = self.levels.iter().map(|level| level.e_rms).collect();
            let (problem, skin) = self.stack(&stacked);
            let moments = run.timed("moments", || pass::gather(&problem, &self.motion, &skin));
            run.report()?;
            run.timed("motion", || bone_step::update(&mut self.motion, &moments, &self.kind));
            for at in 0..self.levels.len() {
                let motion = self.motion.select(&self.levels[at].bones);
                self.reweigh(at, &motion, run)?;
            }
            let mean = self.levels.iter().map(|level| level.e_rms).sum::<f64>() / self.levels.len() as f64;
            run.round(self.bones.len(), mean)?;
            let gains = self.levels.iter().zip(&before).map(|(level, before)| 1.0 - level.e_rms / before.max(1e-300));
            if gains.fold(f64::NEG_INFINITY, f64::max) < TOLERANCE {
                break;
            }
        }
        Ok(())
    }

    /// Exact weights of a level, for its own rest pose.
    fn weigh_level(&mut self, at: usize, search: Search, run: &mut Run<'_>) -> Result<(), Cancelled> {
        let level = &mut self.levels[at];
        let motion = self.motion.select(&level.bones);
        let mut problem = self.problem.clone();
        problem.rest.clone_from(&level.skin.rest);
        let error = weigh(&problem, &motion, &mut level.skin, level.influences, search, run)?;
        level.e_rms = self.problem.e_rms(error);
        Ok(())
    }

    /// Weights and rest pose of a level, one vertex step.
    fn reweigh(&mut self, at: usize, motion: &Motion, run: &mut Run<'_>) -> Result<(), Cancelled> {
        let level = &mut self.levels[at];
        let slots = level.influences.min(motion.bones);
        let vertices = VertexParams { slots, newcomers: NEWCOMERS, min_gain: 1e-4, move_rest: true, rounds: 2 };
        let moments = run.timed("weights", || pass::solve(self.problem, motion, &mut level.skin, vertices, None));
        level.e_rms = self.problem.e_rms(moments.squared_error);
        run.report()
    }

    /// The problem of all levels' vertices, without their weights.
    fn stacked(&self) -> Problem {
        let (problem, levels) = (self.problem, self.levels.len());
        let rest = (0..levels).flat_map(|_| problem.rest.iter().copied()).collect();
        let trajectories = (0..levels).flat_map(|_| problem.trajectories.iter().copied()).collect();
        Problem::stored(problem.length, rest, trajectories, problem.space.clone())
    }

    /// The stacked problem with the present weights and rest poses, each level counted relative to its error.
    fn stack(&self, stacked: &Problem) -> (Problem, Skin) {
        let n = self.problem.vertices();
        let slots = self.levels.iter().map(|level| level.influences).max().unwrap_or(1);
        let rest = self.levels.iter().flat_map(|level| level.skin.rest.iter().copied()).collect();
        let mut skin = Skin::empty(slots, rest);
        let mut importance = Vec::with_capacity(stacked.rest.len());
        let least = self.levels.iter().map(|level| level.e_rms).fold(f64::INFINITY, f64::min).max(1e-9);
        for (at, level) in self.levels.iter().enumerate() {
            let share = (least / level.e_rms.max(1e-9)).powi(2);
            importance.extend(std::iter::repeat_n(share as f32, n));
            for i in 0..n {
                skin.set(at * n + i, level.skin.of(i).map(|(j, w)| (level.bones[j], w)));
            }
        }
        (stacked.with_loss(Loss::of_vertices(importance)), skin)
    }
}
