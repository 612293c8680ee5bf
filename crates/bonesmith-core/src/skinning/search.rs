//! Where the bones should be: a search on the sampled problem.
//!
//! Alternating descent ends in the nearest local minimum, and which bones serve which region is decided early.
//! So more bones than wanted are planted in the worst regions, and after a few rounds the least useful ones are removed again, each
//! judged by how much the error would rise without it. The best state is kept. The same two moves find the number of bones for a target
//! error, without ever starting again.

use crate::model::rig::BoneKind;
use crate::observer::{Cancelled, Stage};
use crate::skinning::bone_step::{self, BoneModel};
use crate::skinning::descent::{Descent, State};
use crate::skinning::motion::Motion;
use crate::skinning::near::MANY_BONES;
use crate::skinning::params::Effort;
use crate::skinning::problem::Problem;
use crate::skinning::run::Run;
use crate::skinning::skin::Skin;
use crate::skinning::vertex_step::VertexParams;
use crate::skinning::{pass, plant};
use crate::solve::random::Random;

/// A quarter more bones that leave more than this share of the error did not help.
const STALL: f64 = 0.98;

/// Sweeps over rigid and trs bones in a round.
pub(crate) const SWEEPS: usize = 3;

/// How hard bones are searched for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SearchPlan {
    /// Rounds before the first planting.
    pub warm_up: usize,
    /// Times that bones are planted and removed again.
    pub cycles: usize,
    /// Rounds after planting, and after removing.
    pub rounds: usize,
    /// Bones planted in a cycle, as a share of those wanted.
    pub extra: f64,
}

impl SearchPlan {
    pub fn new(effort: Effort) -> Self {
        let cycles = match effort {
            Effort::Fast => 3,
            Effort::Balanced => 8,
            Effort::Best => 10,
        };
        Self { warm_up: 1, cycles, rounds: 2, extra: 0.2 }
    }

    /// The plan of independent search number `start`: the same work, spent differently, so that the searches end in different places.
    /// Few rounds before planting keep bones free to move; many extra bones at a time move further.
    pub fn varied(self, start: usize) -> Self {
        const WARM_UPS: [usize; 4] = [1, 8, 3, 16];
        const EXTRAS: [f64; 4] = [1.0, 3.0, 5.0, 1.0];
        let at = start % WARM_UPS.len();
        Self {
            warm_up: self.warm_up * WARM_UPS[at],
            extra: (self.extra * EXTRAS[at]).min(1.0),
            // More bones at a time cost more rounds to remove.
            cycles: if EXTRAS[at] > 1.0 { self.cycles.div_ceil(2) } else { self.cycles },
            ..self
        }
    }
}

/// Vertices that a planted bone is fitted to, as a share of a bone's fair share.
const PATCH: f64 = 0.35;

/// Share of the excess bones removed at a time.
const BATCH: f64 = 0.6;

/// Of many bones, one in so many may go at a time in any case.
const MANY_AT_ONCE: usize = 40;

/// A search for many bones ends with a cycle that leaves more than this share of the squared error: rounds on everything gain more in
/// the same time.
const MANY_STALL: f64 = 0.98;

/// How adding bones ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Growth {
    /// At the error asked for.
    Reached,
    /// At the most bones allowed.
    Full,
    /// Where more bones no longer help.
    Stalled,
}

/// A search in progress on one problem.
pub(crate) struct Explorer<'a> {
    plan: SearchPlan,
    /// Varies which of the bad regions get new bones; none: the worst ones.
    random: Option<Random>,
    descent: Descent<'a>,
    pub state: State,
}

impl<'a> Explorer<'a> {
    /// Starts from rigid clusters: their motion, and the cluster of every vertex.
    pub fn new(
        problem: &'a Problem,
        (motion, labels): (Motion, Vec<u16>),
        kind: BoneKind,
        local: VertexParams,
        plan: SearchPlan,
        seed: u64,
    ) -> Self {
        let skin = Skin::rigid(local.slots, &labels, problem.rest.clone());
        let mut model = BoneModel::new(kind, motion.bones, SWEEPS);
        if kind == BoneKind::Trs {
            let moments = pass::gather(problem, &motion, &skin);
            model.axes = bone_step::principal_axes(&moments);
        }
        let random = (seed != 0).then(|| Random::new(seed));
        Self { plan, random, descent: Descent::new(problem, local), state: State { motion, skin, model } }
    }

    /// Goes on from a state for this problem.
    pub fn resume(problem: &'a Problem, state: State, local: VertexParams, plan: SearchPlan, seed: u64) -> Self {
        let random = (seed != 0).then(|| Random::new(seed));
        Self { plan, random, descent: Descent::new(problem, local), state }
    }

    /// E_RMS of the present state on this problem.
    pub fn e_rms(&self) -> f64 {
        self.descent.e_rms()
    }

    /// Descends, then replants `plan.cycles` times; keeps the best.
    pub fn search(&mut self, run: &mut Run<'_>) -> Result<(), Cancelled> {
        let SearchPlan { warm_up, rounds, cycles, .. } = self.plan;
        let count = self.state.bones();
        run.stage(Stage::Search, Some(warm_up + cycles * (2 * rounds + 3)))?;
        self.descend(warm_up, run)?;
        let mut best = (self.descent.squared_error, self.state.clone());
        for _ in 0..cycles {
            if run.is_over() || self.descent.squared_error <= 0.0 || count < 2 {
                break;
            }
            let extra = (count as f64 * self.plan.extra).ceil() as usize;
            self.plant(extra, run)?;
            // What is best so far has the count of bones; those that were planted have to be removed first.
            if run.is_over() {
                break;
            }
            self.thin_out(count, run)?;
            let before = best.0;
            if self.descent.squared_error < best.0 {
                best = (self.descent.squared_error, self.state.clone());
            }
            if count > MANY_BONES && best.0 > MANY_STALL * before {
                break;
            }
        }
        (self.descent.squared_error, self.state) = best;
        Ok(())
    }

    /// Adds bones until the error is at most `target`, there are `limit`, or more of them no longer help; then takes
    /// out what is not needed.
    pub fn search_for_error(&mut self, target: f64, limit: usize, run: &mut Run<'_>) -> Result<Growth, Cancelled> {
        run.stage(Stage::NumberOfBones, None)?;
        self.descend(self.plan.rounds.max(self.plan.warm_up), run)?;
        let growth = self.grow(target, limit, run)?;
        let mut kept = (self.descent.squared_error, self.state.clone());
        while self.e_rms() <= target && self.state.bones() > 1 && !run.is_over() {
            kept = (self.descent.squared_error, self.state.clone());
            let count = self.state.bones() - (self.state.bones() / 16).max(1);
            self.thin_out(count, run)?;
            if self.e_rms() > target {
                // One more chance with other bones before the number is taken as needed.
                self.plant((count / 4).max(1), run)?;
                self.thin_out(count, run)?;
            }
        }
        (self.descent.squared_error, self.state) = kept;
        Ok(growth)
    }

    /// Adds bones until there are `count`, then replants as a search does.
    pub fn grow_to(&mut self, count: usize, run: &mut Run<'_>) -> Result<(), Cancelled> {
        self.descend(self.plan.rounds, run)?;
        while self.state.bones() < count && !run.is_over() {
            let bones = self.state.bones();
            self.add((bones / 4).max(1).min(count - bones), run)?;
            if self.state.bones() == bones {
                break;
            }
        }
        self.search(run)
    }

    /// Plants more bones than wanted and removes the least useful ones, so that there are `more`.
    fn add(&mut self, more: usize, run: &mut Run<'_>) -> Result<(), Cancelled> {
        // With few bones rest positions stray far to make up for them; new bones need the true ones.
        self.state.skin.rest.clone_from(&self.descent.problem.rest);
        let bones = self.state.bones();
        self.plant(2 * more + 1, run)?;
        self.thin_out(bones + more, run)
    }

    /// Plants a quarter more bones at a time.
    fn grow(&mut self, target: f64, limit: usize, run: &mut Run<'_>) -> Result<Growth, Cancelled> {
        let mut stalls = 0;
        while self.e_rms() > target && !run.is_over() {
            let (bones, before) = (self.state.bones(), self.e_rms());
            if bones >= limit {
                return Ok(Growth::Full);
            }
            self.add((bones / 4).max(1).min(limit - bones), run)?;
            stalls = if self.e_rms() > STALL * before && bones >= 8 { stalls + 1 } else { 0 };
            if stalls == 3 || self.state.bones() == bones {
                return Ok(Growth::Stalled);
            }
        }
        Ok(Growth::Reached)
    }

    pub fn descend(&mut self, rounds: usize, run: &mut Run<'_>) -> Result<(), Cancelled> {
        self.descent.rounds(&mut self.state, rounds, run)
    }

    /// Plants `extra` bones in the worst regions and lets them find their vertices.
    fn plant(&mut self, extra: usize, run: &mut Run<'_>) -> Result<(), Cancelled> {
        let problem = self.descent.problem;
        let share = problem.vertices() as f64 / (self.state.bones() + extra) as f64;
        let patch = ((share * PATCH) as usize).max(4);
        let errors = self.weighed_errors();
        run.timed("plant", || self.state.plant(problem, &errors, extra, patch));
        run.report()?;
        self.descent.restart();
        self.descend(self.plan.rounds, run)
    }

    /// Errors of vertices as planting sees them: with a seed, each taken more or less seriously.
    fn weighed_errors(&mut self) -> Vec<f32> {
        let errors = &self.descent.moments.per_vertex;
        match &mut self.random {
            Some(random) => errors.iter().map(|e| e * (0.8 + 0.4 * random.unit() as f32)).collect(),
            None => errors.clone(),
        }
    }

    /// Takes out the least useful bones, a share of the excess at a time, until `count` are left.
    pub fn thin_out(&mut self, count: usize, run: &mut Run<'_>) -> Result<(), Cancelled> {
        let (problem, local) = (self.descent.problem, self.descent.params);
        while self.state.bones() > count {
            let excess = self.state.bones() - count;
            let least = if count > MANY_BONES { count / MANY_AT_ONCE } else { 1 };
            let batch = ((excess as f64 * BATCH).ceil() as usize).max(least).min(excess);
            run.timed("removal costs", || {
                let costs = pass::removal_costs(problem, &self.state.motion, &self.state.skin, local);
                let locked = self.state.model.locked;
                let gone = plant::least_useful(&costs, &self.descent.moments.second, locked, batch);
                self.state.remove(&gone);
            });
            run.report()?;
            self.descent.restart();
            let last = self.state.bones() == count;
            self.descend(if last { self.plan.rounds } else { 1 }, run)?;
        }
        Ok(())
    }
}
