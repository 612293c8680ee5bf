//! From a mesh animation to bones, weights and motion.
//!
//! Minimises `sum_it |v_it - sum_j w_ij T_jt u_i|^2` over convex sparse weights `w`, bone motions `T` (rigid, trs or
//! affine) and the rest pose `u` [Kavan2010 eq. 1, Le2014 eq. 3.1], in five stages:
//!
//! 1. `skinning::problem`: the unit space, trajectories by vertex;
//! 2. `cluster::split`, `skinning::search`: where bones should be, searched on a sample of vertices and frames (`skinning::sample`);
//! 3. back to all frames, then to all vertices, through a larger sample;
//! 4. `skinning::descent`: rounds of the vertex step and the bone step, until they no longer pay;
//! 5. `skinning::prune`: influences that buy little are removed.
//!
//! Parts that move rigidly are found first and have bones of their own (`pieces`); the stages see the vertices that remain.
//!
//! What each stage does is resolved before the first one starts (`plan`).
//!
//! | paper | here |
//! |---|---|
//! | X, column of vertex i [Kavan2010 s.1] | `x_i[c B + j] = w_ij u_ic`, never stored |
//! | T | `Motion::rows`, transposed |
//! | X X^T, C X^T [Kavan2010 s.4.2] | `Moments::second`, `Moments::residual` (of the residual: small numbers) |
//! | q, p* [Le2014 eq. 3.21] | `bone_step::target`, `bone_step::centred` |
//!
//! Where normals count (`skinning::normals`), they do in every stage but the first.
//!
//! Deviations are described where they happen: choice of influences (`vertex_step`), splitting (`cluster::split`), planting instead of
//! reinitialising (`search`), momentum, vertices and bones at once (`together`), several starting points (`basins`).

mod pieces;
mod plan;

use crate::cluster::split::split;
use crate::mesh::sequence::MeshSequence;
use crate::mesh::topology::Adjacency;
use crate::observer::{Cancelled, Observer};
use crate::skinning::descent::{Descent, State, VertexStep};
use crate::skinning::finish;
use crate::skinning::moments::Moments;
use crate::skinning::motion::Motion;
use crate::skinning::normals::Normals;
use crate::skinning::params::{VERTICES_PER_BONE, check_bones};
use crate::skinning::pass;
use crate::skinning::problem::Problem;
use crate::skinning::prune;
use crate::skinning::run::{Ending, Run};
use crate::skinning::sample::Sample;
use crate::skinning::search::{Explorer, Growth};
use crate::skinning::smooth::Smoothness;
use crate::skinning::stop::StopRule;
use crate::skinning::unit::UnitSpace;
use crate::skinning::vertex_step::VertexParams;
use plan::{Plan, Size};

pub use crate::skinning::params::*;
pub use crate::skinning::rates::{Rate, kernel_rates};

/// Positions from this many bytes on are not copied: the few passes over all of them read them in place.
const STREAMED_BYTES: usize = 4 << 20;

/// Maximum number of bones for a target error, as a share of the vertices: beyond it a rig is no smaller than the animation.
const MAX_BONE_SHARE: usize = 8;

/// Weight of normals in the search, in units of the sphere: an angle of a radian counts like a distance of this share of `shading`. Fitted
/// rigs of 10 to 30 bones have about this ratio of both errors.
const SEARCH_WEIGHT: f64 = 0.05;

/// With fewer vertices per bone, normals do not count in the fit.
const FEW_VERTICES: usize = 4;

/// Rounds with normals after rounds without, and tries, each with half the weight of the one before.
const SHADING_ROUNDS: usize = 12;
const SHADING_TRIES: usize = 4;

/// What those rounds may cost, as a share of E_RMS for each unit of `shading`: 1 % by default.
const SHADING_COST: f64 = 0.05;

/// Fits bones, weights and bone motion to a mesh animation.
pub fn fit(sequence: &MeshSequence, params: &FitParams, observer: &mut dyn Observer) -> Result<Fitted, FitError> {
    params.validate()?;
    pieces::check_bones(sequence, params)?;
    let mut run = Run::new(params, observer);
    run.stage("prepare", None)?;
    let space = UnitSpace::new(sequence);
    if let Some(parts) = pieces::Parts::find(sequence, &space, params, &mut run)? {
        return parts.fit(sequence, &space, params, run);
    }
    check_bones(sequence, params)?;
    let problem = problem(sequence, space, params);
    let goal = Goal::new(params.bones, sequence.vertex_count());
    let fit = Fit::new(sequence, &problem, params, goal);
    run.prepared();
    let (state, stop, reached) = fit.bones(goal, &mut run)?;
    let mut warnings: Vec<Warning> = missed(params.bones, reached, state.bones()).into_iter().collect();
    if !problem.moves() {
        warnings.push(Warning::NoMotion);
    }
    let mut rig = finish::rig(sequence, &problem, &state, String::new());
    if params.shading > 0.0 {
        run.timed("normals", || finish::shade(&mut rig, sequence));
    }
    let jitter_ratio = finish::jitter_ratio(&problem, &state);
    let info = run.finish(Ending { stop, iterations: None, warnings, jitter_ratio });
    Ok(Fitted { rig, info })
}

/// What is to be fitted, in a unit space.
fn problem(sequence: &MeshSequence, space: UnitSpace, params: &FitParams) -> Problem {
    // Smoothness reads neighbours in any order; a small sequence is quickly copied.
    let stored = params.smooth > 0.0 || sequence.position_bytes() < STREAMED_BYTES;
    if stored { Problem::in_space(sequence, space) } else { Problem::streamed_in(sequence, space) }
}

/// How many bones to fit, resolved for a mesh.
#[derive(Clone, Copy, Debug)]
enum Goal {
    Count(usize),
    /// The fewest for an E_RMS, at most `limit`.
    Error {
        target: f64,
        limit: usize,
    },
}

impl Goal {
    fn new(bones: BoneCount, vertices: usize) -> Self {
        match bones {
            BoneCount::Exact(count) => Self::Count(count),
            BoneCount::TargetError(target) => {
                Self::Error { target, limit: vertices.div_ceil(MAX_BONE_SHARE).min(MAX_BONES) }
            }
            BoneCount::Auto => Self::Error { target: AUTO_TARGET, limit: vertices.div_ceil(4).min(AUTO_MAX_BONES) },
        }
    }

    /// The same goal where errors are counted in another unit: `factor` times as large.
    fn scaled(self, factor: f64) -> Self {
        match self {
            Self::Error { target, limit } => Self::Error { target: target * factor, limit },
            count => count,
        }
    }
}

/// What to report where an error was the goal and was not reached.
fn missed(goal: BoneCount, reached: f64, bones: usize) -> Option<Warning> {
    match goal {
        BoneCount::TargetError(target) if reached > target => Some(Warning::TargetMissed { target, reached, bones }),
        BoneCount::Auto if reached > AUTO_TARGET => Some(Warning::AutoMissed { target: AUTO_TARGET, reached, bones }),
        _ => None,
    }
}

/// A fit with everything that is known before it starts.
struct Fit<'a> {
    sequence: &'a MeshSequence,
    problem: &'a Problem,
    /// True normals, where they count.
    normals: Option<Normals>,
    params: &'a FitParams,
    plan: Plan,
}

impl<'a> Fit<'a> {
    fn new(sequence: &'a MeshSequence, problem: &'a Problem, params: &'a FitParams, goal: Goal) -> Self {
        // Bones of a few vertices follow them by position alone, exactly.
        let few = matches!(goal, Goal::Count(count) if count * FEW_VERTICES > sequence.vertex_count());
        let normals = if params.shading > 0.0 && !few { Normals::new(sequence) } else { None };
        Self { sequence, problem, normals, params, plan: Plan::new(params) }
    }

    /// The sample for a search with `count` bones: each bone is judged by some vertices.
    fn sample(&self, count: usize) -> Sample {
        let Size { vertices, frames } = self.plan.sample;
        let sample = Sample::new(self.problem, vertices.max(VERTICES_PER_BONE * count), frames, self.params.seed);
        self.bounded(sample)
    }

    /// The problem that bones are searched on.
    fn search_problem(&self, sample: &Sample) -> Problem {
        let weight = SEARCH_WEIGHT * self.params.shading;
        let normals = self.normals.as_ref().map(|normals| sample.normals(normals).weighing(weight));
        sample.problem(self.problem, self.sequence).with_normals(normals)
    }

    /// A sample of at most a quarter of all positions, as long as there are frames enough: it is copied.
    fn bounded(&self, sample: Sample) -> Sample {
        const FRAMES_ENOUGH: usize = 80;
        let limit = self.problem.vertices() * self.problem.frames() / 4 / sample.picked().0.len();
        sample.with_frames(self.problem, limit.max(FRAMES_ENOUGH))
    }

    /// Fits as many bones as the goal takes; returns the E_RMS reached, too.
    fn bones(&self, goal: Goal, run: &mut Run<'_>) -> Result<(State, StopReason, f64), Cancelled> {
        let (mut state, stop, reached) = match goal {
            Goal::Count(count) => {
                let (state, stop) = self.count(count, run)?;
                (state, stop, run.history.last().map_or(0.0, |round| round.e_rms))
            }
            Goal::Error { target, limit } => self.error(target, limit, run)?,
        };
        let reached = self.prune(goal, &mut state, reached, run)?;
        Ok((state, stop, reached))
    }

    /// Removes influences that buy little; a goal that was reached stays so. Returns the E_RMS.
    fn prune(&self, goal: Goal, state: &mut State, reached: f64, run: &mut Run<'_>) -> Result<f64, Cancelled> {
        let FitParams { prune: share, smooth, influences, .. } = *self.params;
        if share == 0.0 || smooth > 0.0 || influences.is_none() || state.skin.slots < 2 || run.is_over() {
            return Ok(reached);
        }
        let vertices = VertexParams { slots: state.skin.slots, ..self.plan.vertices(state.bones()) };
        let problem = run.timed("normals", || self.shaded(self.problem, self.normals.clone(), state, vertices));
        let limit = |e_rms: f64| match goal {
            Goal::Error { target, .. } if e_rms <= target => (e_rms * (1.0 + share)).min(target),
            _ => e_rms * (1.0 + share),
        };
        prune::prune(&problem, state, vertices, limit, run)
    }

    /// Fits a given number of bones.
    fn count(&self, count: usize, run: &mut Run<'_>) -> Result<(State, StopReason), Cancelled> {
        let Self { sequence, problem, params, plan, .. } = self;
        let vertices = plan.vertices(count);
        let wide = VertexParams { slots: (vertices.slots + plan.spare).min(count), ..vertices };
        let sample = self.sample(count);
        let coarse = run.timed("sample", || self.search_problem(&sample));
        let mut best: Option<(f64, State)> = None;
        for start in 0..plan.starts {
            if best.is_some() && run.is_over() {
                break;
            }
            let first = first_bones(&coarse, count, run)?;
            let search = plan.search.varied(start);
            let mut explorer = Explorer::new(&coarse, first, params.bone_kind, wide, search, params.seed);
            explorer.search(run)?;
            let found = explorer.e_rms();
            if best.as_ref().is_none_or(|best| found < best.0) {
                best = Some((found, explorer.state));
            }
        }
        let Some((_, state)) = best else { unreachable!("at least one search is made") };
        drop(coarse);
        let mut state = run.observed("lift", |run| sample.lift(problem, sequence, state, &mut || run.report()))?;
        let stop = self.refine(&mut state, vertices, run)?;
        Ok((state, stop))
    }

    /// Fits the smallest number of bones that reaches an error, at most `limit`; returns the error reached, too.
    ///
    /// The search runs on the sample. When all vertices turn out worse than the sample promised, it goes on from where it
    /// stopped with a goal corrected by as much; when the sample is too small for the bones needed, on a larger one.
    fn error(&self, target: f64, limit: usize, run: &mut Run<'_>) -> Result<(State, StopReason, f64), Cancelled> {
        const ATTEMPTS: usize = 8;
        // So far below the target, fewer bones are worth a try.
        const SLACK: f64 = 0.96;
        let Self { sequence, problem, params, plan, .. } = self;
        let vertices = plan.vertices(limit);
        let mut allowed = limit.min(plan.sample.vertices / VERTICES_PER_BONE);
        let mut goal = target;
        let mut best: Option<(State, StopReason, f64)> = None;
        for _ in 0..ATTEMPTS {
            let sample = self.sample(allowed);
            let coarse = run.timed("sample", || self.search_problem(&sample));
            let mut explorer = match &best {
                None => {
                    let first = first_bones(&coarse, 1, run)?;
                    Explorer::new(&coarse, first, params.bone_kind, vertices, plan.search, params.seed)
                }
                Some((state, ..)) => {
                    Explorer::resume(&coarse, sample.lower(problem, state), vertices, plan.search, params.seed)
                }
            };
            let growth = explorer.search_for_error(goal, allowed, run)?;
            let promised = explorer.e_rms();
            let state = explorer.state;
            let mut state = run.observed("lift", |run| sample.lift(problem, sequence, state, &mut || run.report()))?;
            let stop = self.refine(&mut state, vertices, run)?;
            let reached = run.history.last().map_or(0.0, |round| round.e_rms);
            let hit = reached <= target;
            // The fewest bones that reach the target; failing that, the least error.
            let better = |best: &(State, StopReason, f64)| match (hit, best.2 <= target) {
                (true, true) => state.bones() < best.0.bones(),
                (false, false) => reached < best.2,
                (hit, _) => hit,
            };
            let best_was_hit = best.as_ref().is_some_and(|best| best.2 <= target);
            if best.as_ref().is_none_or(better) {
                best = Some((state, stop, reached));
            }
            let at_limit = growth == Growth::Stalled || (growth == Growth::Full && allowed == limit);
            let close = hit && reached > SLACK * target;
            if run.is_over() || close || best_was_hit || (!hit && at_limit) {
                break;
            }
            match growth {
                Growth::Full if !hit => allowed = (3 * allowed).min(limit),
                _ if hit => goal = SLACK * promised.max(goal) * target / reached,
                _ => goal = (goal * target / reached).min(0.98 * promised.min(goal)),
            }
        }
        let Some(best) = best else { unreachable!("at least one attempt is made") };
        Ok(best)
    }

    /// Rounds on a larger sample where there is much more than that, then on everything. Vertices may come with more influences
    /// than `vertices` allows.
    fn refine(&self, state: &mut State, vertices: VertexParams, run: &mut Run<'_>) -> Result<StopReason, Cancelled> {
        let Self { sequence, problem, params, plan, .. } = self;
        let enough = plan.middle.vertices.max(2 * VERTICES_PER_BONE * state.bones());
        let middle = Sample::new(problem, enough, plan.middle.frames, params.seed);
        if plan.direct || 2 * middle.size() > problem.vertices() * problem.frames() || run.is_over() {
            self.narrow(problem, state, vertices, run)?;
            return self.polish(state, plan.only_rounds, vertices, run);
        }
        let middle = self.bounded(middle);
        let part = run.timed("sample", || middle.problem(problem, sequence));
        let mut seen = middle.lower(problem, state);
        // Found again from the sample: not kept meanwhile.
        (state.motion, state.skin) = (Motion::identity(0, 0), seen.skin.pick(&[]));
        self.narrow(&part, &mut seen, vertices, run)?;
        run.stage("bones on more vertices", Some(plan.middle_rounds))?;
        let normals = self.normals.as_ref().filter(|_| plan.shades_all_rounds()).map(|normals| middle.normals(normals));
        let part = run.timed("normals", || self.shaded(&part, normals, &mut seen, vertices));
        let together = plan.together(&seen, &vertices);
        let mut descent = Descent::with_step(&part, vertices, plan.vertex_step(&part, seen.bones()), together);
        descent.rounds(&mut seen, plan.middle_rounds, run)?;
        drop(descent);
        drop(part);
        *state = run.observed("lift", |run| middle.lift(problem, sequence, seen, &mut || run.report()))?;
        self.polish(state, plan.last_rounds, vertices, run)
    }

    /// A problem in which normals count, with the rest normals that fit the present weights best.
    ///
    /// Their weight is a share of the present errors' ratio, so that it depends neither on the size of the faces nor on how well the bones
    /// fit: where they fit exactly, normals do not count.
    fn shaded(
        &self,
        problem: &Problem,
        normals: Option<Normals>,
        state: &mut State,
        vertices: VertexParams,
    ) -> Problem {
        let weighed = |weight: f64| problem.with_normals(normals.clone().map(|normals| normals.weighing(weight)));
        if normals.is_none() {
            return weighed(0.0);
        }
        let of_one = weighed(1.0);
        pass::solve_normals(&of_one, &state.motion, &mut state.skin, vertices);
        let Moments { squared_error, normal_error, .. } = pass::gather(&of_one, &state.motion, &state.skin);
        let weight = self.params.shading * ((squared_error - normal_error) / normal_error.max(1e-30)).sqrt();
        state.skin.normals.iter_mut().for_each(|n| *n *= weight);
        weighed(weight)
    }

    /// Rounds with more influences than `vertices` allows, one less at a time, until it allows them.
    fn narrow(
        &self,
        problem: &Problem,
        state: &mut State,
        vertices: VertexParams,
        run: &mut Run<'_>,
    ) -> Result<(), Cancelled> {
        let (spare, rounds) = (state.skin.slots - vertices.slots, self.plan.spare_rounds);
        if spare > 0 {
            run.stage("fewer influences", Some(spare * rounds))?;
        }
        for slots in (vertices.slots + 1..=state.skin.slots).rev() {
            let wide = VertexParams { slots, ..vertices };
            let together = self.plan.together(state, &wide);
            Descent::with_step(problem, wide, VertexStep::Choose, together).rounds(state, rounds, run)?;
            state.skin = state.skin.with_slots(slots - 1);
        }
        Ok(())
    }

    /// Rounds on all vertices and frames until they no longer pay.
    fn polish(
        &self,
        state: &mut State,
        rounds: usize,
        vertices: VertexParams,
        run: &mut Run<'_>,
    ) -> Result<StopReason, Cancelled> {
        let plan = &self.plan;
        if plan.shades_all_rounds() {
            let problem = run.timed("normals", || self.shaded(self.problem, self.normals.clone(), state, vertices));
            return self.rounds(&problem, state, rounds, vertices, run);
        }
        let stop = self.rounds(self.problem, state, rounds, vertices, run)?;
        if self.normals.is_some() && !run.is_over() {
            self.shade(state, vertices, run)?;
        }
        Ok(stop)
    }

    /// Rounds with normals from where those without ended, as long as they cost no more than they may.
    fn shade(&self, state: &mut State, vertices: VertexParams, run: &mut Run<'_>) -> Result<(), Cancelled> {
        run.stage("shading", Some(SHADING_ROUNDS))?;
        let error = |state: &State| {
            let moments = pass::gather(self.problem, &state.motion, &state.skin);
            self.problem.e_rms(moments.squared_error)
        };
        let (before, start) = (error(state), state.clone());
        let limit = before * (1.0 + SHADING_COST * self.params.shading);
        for tried in 0..SHADING_TRIES {
            let problem = self.shaded(self.problem, self.normals.clone(), state, vertices);
            let halved = |normals: Normals| {
                let weight = normals.weight / f64::from(1 << tried);
                normals.weighing(weight)
            };
            state.skin.normals.iter_mut().for_each(|n| *n /= f64::from(1 << tried));
            let problem = problem.with_normals(problem.normals.clone().map(halved));
            Descent::new(&problem, vertices).rounds(state, SHADING_ROUNDS, run)?;
            let reached = error(state);
            if reached <= limit || run.is_over() {
                return run.round(state.bones(), reached);
            }
            state.clone_from(&start);
        }
        run.round(state.bones(), before)
    }

    fn rounds(
        &self,
        problem: &Problem,
        state: &mut State,
        rounds: usize,
        vertices: VertexParams,
        run: &mut Run<'_>,
    ) -> Result<StopReason, Cancelled> {
        run.stage("weights and bones", Some(rounds))?;
        let Self { sequence, params, plan, .. } = self;
        let step = match params.smooth > 0.0 {
            true => {
                let adjacency = Adjacency::new(&sequence.surface().topology, sequence.vertex_count());
                VertexStep::Smooth(Smoothness::new(problem, adjacency, params.smooth))
            }
            false => plan.vertex_step(problem, state.bones()),
        };
        let mut descent = Descent::with_step(problem, vertices, step, plan.together(state, &vertices));
        let mut rule = StopRule::new(rounds, plan.tolerance, 2);
        loop {
            descent.round(state, run)?;
            if let Some(stop) = rule.after_round(problem.e_rms(descent.objective()), descent.e_rms(), run) {
                descent.settle(state);
                return Ok(stop);
            }
        }
    }
}

/// Rigid clusters that the search starts from.
fn first_bones(problem: &Problem, count: usize, run: &mut Run<'_>) -> Result<(Motion, Vec<u16>), Cancelled> {
    run.stage("first bones", None)?;
    run.observed("split", |run| split(problem, count, &mut || run.step()))
}
