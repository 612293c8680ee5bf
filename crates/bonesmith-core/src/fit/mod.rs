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
//! Parts that move rigidly are found first and have bones of their own (`pieces`); the stages see the vertices that remain. Vertices that do
//! not move have a bone that does not (`still`).
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
//! Where normals count (`skinning::normals`), they do in the last three stages: bones are searched by position alone.
//!
//! Deviations are described where they happen: choice of influences (`vertex_step`), splitting (`cluster::split`), planting instead of
//! reinitialising (`search`), momentum, vertices and bones at once (`together`), several starting points (`basins`).

mod goal;
mod pieces;
mod plan;
mod still;
mod sweep;

use crate::cluster::split::split;
use crate::mesh::sequence::MeshSequence;
use crate::mesh::topology::Adjacency;
use crate::model::rig::BoneKind;
use crate::observer::{Cancelled, Observer, Stage};
use crate::skinning::descent::{Descent, State, VertexStep};
use crate::skinning::finish;
use crate::skinning::limits::{self, Beyond};
use crate::skinning::loss::{self, Loss};
use crate::skinning::moments::Moments;
use crate::skinning::motion::Motion;
use crate::skinning::near::MANY_BONES;
use crate::skinning::norm::{self, Lowered};
use crate::skinning::normals::{self, Normals};
use crate::skinning::params::{VERTICES_PER_BONE, check_bones};
use crate::skinning::pass;
use crate::skinning::problem::Problem;
use crate::skinning::prune;
use crate::skinning::run::{Ending, Run};
use crate::skinning::sample::Sample;
use crate::skinning::search::Explorer;
use crate::skinning::smooth::Smoothness;
use crate::skinning::stop::StopRule;
use crate::skinning::unit::UnitSpace;
use crate::skinning::vertex_step::VertexParams;
use goal::{Goal, LocalMiss, missed};
use plan::{Plan, Size};
use still::Still;

pub use crate::skinning::params::*;
pub use crate::skinning::rates::{Rate, kernel_rates};
pub use sweep::{SWEEP_COUNTS, Sweep, SweepPoint, sweep};

/// Positions from this many bytes on are not copied: the few passes over all of them read them in place.
const STREAMED_BYTES: usize = 4 << 20;

/// Rounds with normals after rounds without, and tries, each with half the weight of the one before.
const SHADING_ROUNDS: usize = 12;
const SHADING_TRIES: usize = 4;

/// Times that the weight of normals is set anew on the larger sample.
const SHADING_TRIALS: usize = 2;

/// Fits bones, weights and bone motion to a mesh animation.
pub fn fit(sequence: &MeshSequence, params: &FitParams, observer: &mut dyn Observer) -> Result<Fitted, FitError> {
    params.validate()?;
    check_bones(sequence, params, MAX_BONES)?;
    check_importance(sequence, params)?;
    let mut run = Run::new(params, observer);
    run.stage(Stage::Prepare, None)?;
    let space = UnitSpace::new(sequence);
    if let Some(parts) = pieces::Parts::find(sequence, &space, params, &mut run)? {
        return parts.fit(sequence, &space, params, run);
    }
    let problem = problem(sequence, space, params)?;
    let goal = Goal::new(params.bones, sequence.vertex_count());
    let still = Still::find(sequence, problem.space.sphere.radius, goal);
    let goal = still.as_ref().map_or(goal, |still| still.goal(goal));
    let fit = Fit::new(sequence, &problem, params, goal);
    run.prepared();
    let (state, Refined { stop, e_rms, local, beyond, .. }) = fit.bones(goal, &mut run)?;
    let e_rms = still.as_ref().map_or(e_rms, |still| still.e_rms(&problem, &state));
    let bones = state.bones() + usize::from(still.is_some());
    let mut warnings: Vec<Warning> = missed(params.bones, e_rms, bones).into_iter().collect();
    warnings.extend(local.map(|local| local.warning(local.vertex, bones)));
    warnings.extend(beyond.map(|Beyond { bones, frames }| Warning::Mirrored { bones, frames }));
    if !problem.moves() {
        warnings.push(Warning::NoMotion);
    }
    let mut rig = finish::rig(sequence, &problem, &state, String::new());
    if let Some(still) = still {
        still.hold(sequence, &mut rig);
    }
    if params.shading > 0.0 {
        run.timed("normals", || finish::shade(&mut rig, sequence, fit.normals.as_ref()));
    }
    let jitter_ratio = finish::jitter_ratio(&problem, &state);
    let info = run.finish(Ending { stop, iterations: None, warnings, jitter_ratio });
    Ok(Fitted { rig, info })
}

/// What is to be fitted, in a unit space.
fn problem(sequence: &MeshSequence, space: UnitSpace, params: &FitParams) -> Result<Problem, FitError> {
    check_importance(sequence, params)?;
    let importance = loss::importance(sequence, params.importance.as_ref().map(|given| given.as_slice()), params.area);
    // Smoothness reads neighbours in any order; a small sequence is quickly copied.
    let held = params.smooth > 0.0 || sequence.position_bytes() < STREAMED_BYTES;
    let problem = if held { Problem::held_in(sequence, space) } else { Problem::streamed_in(sequence, space) };
    Ok(problem.with_loss(importance.map(Loss::of_vertices).unwrap_or_default()))
}

/// Whether there is a number for every vertex.
fn check_importance(sequence: &MeshSequence, params: &FitParams) -> Result<(), FitError> {
    let (vertices, numbers) = (sequence.vertex_count(), params.importance.as_ref().map(|given| given.len()));
    match numbers {
        Some(numbers) if numbers != vertices => Err(FitError::Importance { numbers, vertices }),
        _ => Ok(()),
    }
}

/// How rounds on all vertices and frames ended.
struct Refined {
    stop: StopReason,
    e_rms: f64,
    /// What they lowered the error of: with normals, where these count.
    problem: Problem,
    /// A region that misses the goal.
    local: Option<LocalMiss>,
    /// Affine bones that mirror or flatten.
    beyond: Option<Beyond>,
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
        let few = matches!(goal, Goal::Count(count) if count * normals::FEW_VERTICES > sequence.vertex_count());
        let normals = if params.shading > 0.0 && !few { Normals::new(sequence) } else { None };
        Self { sequence, problem, normals, params, plan: Plan::new(params) }
    }

    /// The sample for a search with `count` bones: each bone is judged by some vertices.
    fn sample(&self, count: usize) -> Sample {
        let Size { vertices, frames } = self.plan.sample;
        let sample = Sample::new(self.problem, vertices.max(VERTICES_PER_BONE * count), frames, self.params.seed);
        self.bounded(sample)
    }

    /// A sample of at most a quarter of all positions, as long as there are frames enough: it is copied.
    fn bounded(&self, sample: Sample) -> Sample {
        const FRAMES_ENOUGH: usize = 80;
        let limit = self.problem.vertices() * self.problem.frames() / 4 / sample.picked().0.len();
        sample.with_frames(self.problem, limit.max(FRAMES_ENOUGH))
    }

    /// Fits as many bones as the goal takes.
    fn bones(&self, goal: Goal, run: &mut Run<'_>) -> Result<(State, Refined), Cancelled> {
        let (mut state, mut refined) = match goal {
            Goal::Count(count) => self.count(count, run)?,
            Goal::Error { target, limit } => self.error(target, limit, run)?,
        };
        if self.params.norm != Norm::default() && !run.is_over() {
            self.lower_norm(&mut state, &mut refined, run)?;
        }
        self.prune(goal, &mut state, &mut refined, run)?;
        refined.e_rms = self.e_rms(&refined, &state);
        self.hold_limits(goal, &mut state, &mut refined);
        Ok((state, refined))
    }

    /// Lowers another norm than the mean square, twice: from the fit by mean squares, then from a fit in which vertices count by the weights that
    /// the first one ended with. So bones are also searched where the largest distances are. The lower one is kept.
    fn lower_norm(&self, state: &mut State, refined: &mut Refined, run: &mut Run<'_>) -> Result<(), Cancelled> {
        let norm = self.params.norm;
        let vertices = |state: &State| VertexParams { slots: state.skin.slots, ..self.plan.vertices(state.bones()) };
        let allowed = norm::allowed(&refined.problem, state, norm);
        let lower = |state: &mut State, refined: &Refined, run: &mut Run<'_>| {
            norm::lower(&refined.problem, state, norm, allowed, vertices(state), run)
        };
        let Lowered { reached, cost: Some(cost) } = lower(state, refined, run)? else { return Ok(()) };
        refined.problem = refined.problem.with_loss(cost);
        if !run.is_over() {
            // Half-way between all alike and the weights at the end, which are those of a few vertices.
            let root = |i: usize| (self.problem.loss.of(i) * refined.problem.loss.of(i)).sqrt();
            let roots: Vec<f64> = (0..self.problem.vertices()).map(root).collect();
            let mean = roots.iter().sum::<f64>() / roots.len() as f64;
            let loss = Loss::of_vertices(roots.iter().map(|root| (root / mean) as f32).collect());
            let problem = self.problem.with_loss(loss);
            let fit = Fit { problem: &problem, normals: self.normals.clone(), plan: self.plan.clone(), ..*self };
            let (mut other, mut found) = fit.count(state.bones(), run)?;
            found.problem = found.problem.with_loss(self.problem.loss.clone());
            let lowered = lower(&mut other, &found, run)?;
            if lowered.reached < reached {
                found.problem = found.problem.with_loss(lowered.cost.unwrap_or_else(|| self.problem.loss.clone()));
                (*state, *refined) = (other, found);
            }
        }
        refined.e_rms = self.e_rms(refined, state);
        Ok(())
    }

    /// Brings affine bones within their limits; where that costs more than it may, they stay beyond them, which is said.
    fn hold_limits(&self, goal: Goal, state: &mut State, refined: &mut Refined) {
        if self.params.bone_kind != BoneKind::Affine {
            return;
        }
        let before = pass::gather(&refined.problem, &state.motion, &state.skin);
        let beyond = limits::beyond(&state.motion, &before);
        if beyond == Beyond::default() {
            return;
        }
        let vertices = VertexParams { slots: state.skin.slots, ..self.plan.vertices(state.bones()) };
        let mut held = state.clone();
        let after = limits::hold(&refined.problem, &mut held, vertices);
        let e_rms = |moments: &Moments| self.problem.e_rms(moments.squared_error - moments.normal_error);
        let rise = e_rms(&after) / e_rms(&before).max(1e-9);
        let reached = refined.e_rms * rise;
        let misses = matches!(goal, Goal::Error { target, .. } if refined.e_rms <= target && reached > target);
        let is_close = rise <= 1.0 + limits::MAX_COST;
        if !is_close || misses {
            refined.beyond = Some(beyond);
            return;
        }
        *state = held;
        refined.e_rms = if refined.problem.loss.is_plain() { reached } else { self.e_rms(refined, state) };
    }

    /// E_RMS of a state, each vertex counted once.
    fn e_rms(&self, refined: &Refined, state: &State) -> f64 {
        if refined.problem.loss.is_plain() {
            return refined.e_rms;
        }
        let plain = self.problem.with_loss(Loss::default());
        plain.e_rms(pass::gather(&plain, &state.motion, &state.skin).squared_error)
    }

    /// Removes influences that buy little; a goal that was reached stays so.
    fn prune(&self, goal: Goal, state: &mut State, refined: &mut Refined, run: &mut Run<'_>) -> Result<(), Cancelled> {
        let FitParams { prune: share, smooth, influences, .. } = *self.params;
        if share == 0.0 || smooth > 0.0 || influences.is_none() || state.skin.slots < 2 || run.is_over() {
            return Ok(());
        }
        let vertices = VertexParams { slots: state.skin.slots, ..self.plan.vertices(state.bones()) };
        if !self.plan.shades_all_rounds() {
            refined.problem =
                run.timed("normals", || self.shaded(self.problem, self.normals.clone(), None, state, vertices));
        }
        let limit = |e_rms: f64| match goal {
            Goal::Error { target, .. } if e_rms <= target => (e_rms * (1.0 + share)).min(target),
            _ => e_rms * (1.0 + share),
        };
        refined.e_rms = prune::prune(&refined.problem, state, vertices, limit, run)?;
        if matches!(goal, Goal::Error { .. }) {
            // The figure that decides is measured.
            let error = || pass::squared_error(&refined.problem, &state.motion, &state.skin);
            refined.e_rms = refined.problem.e_rms(run.timed("prune", error));
        }
        Ok(())
    }

    /// Fits a given number of bones.
    fn count(&self, count: usize, run: &mut Run<'_>) -> Result<(State, Refined), Cancelled> {
        let Self { sequence, problem, params, plan, .. } = self;
        let vertices = plan.vertices(count);
        let wide = VertexParams { slots: (vertices.slots + plan.spare).min(count), ..vertices };
        let sample = self.sample(count);
        let coarse = run.timed("sample", || sample.problem(self.problem, self.sequence));
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
        let refined = self.refine(&mut state, vertices, run)?;
        Ok((state, refined))
    }

    /// Rounds on a larger sample where there is much more than that, then on everything. Vertices may come with more influences
    /// than `vertices` allows.
    fn refine(&self, state: &mut State, vertices: VertexParams, run: &mut Run<'_>) -> Result<Refined, Cancelled> {
        let Self { sequence, problem, params, plan, .. } = self;
        let enough = plan.middle.vertices.max(2 * VERTICES_PER_BONE * state.bones());
        let middle = Sample::new(problem, enough, plan.middle.frames, params.seed);
        if plan.direct || 2 * middle.size() > problem.vertices() * problem.frames() || run.is_over() {
            self.narrow(problem, state, vertices, run)?;
            return self.polish(state, plan.only_rounds, vertices, None, run);
        }
        let middle = self.bounded(middle);
        let part = run.timed("sample", || middle.problem(problem, sequence));
        let mut seen = middle.lower(problem, state);
        // Found again from the sample: not kept meanwhile.
        (state.motion, state.skin) = (Motion::identity(0, 0), seen.skin.pick(&[]));
        self.narrow(&part, &mut seen, vertices, run)?;
        run.stage(Stage::BonesOnMoreVertices, Some(plan.middle_rounds))?;
        let weight = self.middle_rounds(&part, &middle, &mut seen, vertices, run)?;
        drop(part);
        *state = run.observed("lift", |run| middle.lift(problem, sequence, seen, &mut || run.report()))?;
        self.polish(state, plan.last_rounds, vertices, weight, run)
    }

    /// Rounds on the larger sample, the last ones with normals. Returns the weight of normals, which follows what it costs.
    fn middle_rounds(
        &self,
        part: &Problem,
        middle: &Sample,
        seen: &mut State,
        vertices: VertexParams,
        run: &mut Run<'_>,
    ) -> Result<Option<f64>, Cancelled> {
        let Self { params, plan, .. } = self;
        let rounds = |problem: &Problem, seen: &mut State, count: usize, run: &mut Run<'_>| {
            let (step, together) = (plan.vertex_step(problem, seen.bones()), plan.together(seen, &vertices));
            let mut descent = Descent::with_step(problem, vertices, step, together).alternating(plan.alternates());
            descent.rounds(seen, count, run).map(|()| descent.e_rms())
        };
        let Some(normals) = self.normals.as_ref().filter(|_| plan.shades_all_rounds()) else {
            rounds(part, seen, plan.middle_rounds, run)?;
            return Ok(None);
        };
        let before = rounds(part, seen, plan.middle_rounds / 2, run)?;
        let (normals, mut weight) = (middle.normals(normals), None);
        for _ in 0..SHADING_TRIALS {
            let problem = run.timed("normals", || self.shaded(part, Some(normals.clone()), weight, seen, vertices));
            let after = rounds(&problem, seen, plan.middle_rounds / 2 / SHADING_TRIALS, run)?;
            let (cost, allowed) = (after / before.max(1e-9) - 1.0, normals::COST * params.shading);
            let factor = (allowed / cost.max(0.1 * allowed)).sqrt().clamp(0.5, 1.5);
            weight = problem.normals.map(|normals| factor * normals.weight);
        }
        Ok(weight)
    }

    /// A problem in which normals count, with the rest normals that fit the present weights best. Without a known weight it is a share of the
    /// ratio of both errors, so that it depends neither on the size of the faces nor on how well the bones fit.
    fn shaded(
        &self,
        problem: &Problem,
        normals: Option<Normals>,
        weight: Option<f64>,
        state: &mut State,
        vertices: VertexParams,
    ) -> Problem {
        let Some(normals) = normals else { return problem.with_normals(None) };
        let of_one = problem.with_normals(Some(normals.clone().weighing(1.0)));
        let errors = pass::solve_normals(&of_one, &state.motion, &mut state.skin, vertices);
        let normals = normals.balanced(&problem.loss, &errors, self.params.shading, weight);
        state.skin.normals.iter_mut().enumerate().for_each(|(i, n)| *n *= normals.factor(i));
        problem.with_normals(Some(normals))
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
            run.stage(Stage::FewerInfluences, Some(spare * rounds))?;
        }
        for slots in (vertices.slots + 1..=state.skin.slots).rev() {
            let wide = VertexParams { slots, ..vertices };
            let together = self.plan.together(state, &wide);
            Descent::with_step(problem, wide, VertexStep::Choose, together).rounds(state, rounds, run)?;
            state.skin = state.skin.with_slots(slots - 1);
        }
        Ok(())
    }

    /// Rounds on all vertices and frames until they no longer pay, with normals of a weight that is known or found first.
    fn polish(
        &self,
        state: &mut State,
        rounds: usize,
        vertices: VertexParams,
        weight: Option<f64>,
        run: &mut Run<'_>,
    ) -> Result<Refined, Cancelled> {
        let normals = self.normals.clone().filter(|_| self.plan.shades_all_rounds());
        let mut rounds = rounds;
        if normals.is_some() && weight.is_none() {
            // A state that was found on a sample is far off at first: what normals may weigh shows later.
            let plain = self.problem.with_normals(None);
            self.rounds(&plain, state, rounds / 2, vertices, run)?;
            rounds -= rounds / 2;
            // Rounds with normals go on from bones within their limits.
            if self.params.bone_kind == BoneKind::Affine {
                limits::keep_within(&plain, state, vertices, |_, _| true);
            }
        }
        let problem = run.timed("normals", || self.shaded(self.problem, normals, weight, state, vertices));
        let stop = self.rounds(&problem, state, rounds, vertices, run)?;
        if problem.normals.is_none() && self.normals.is_some() && !run.is_over() {
            self.shade(state, vertices, run)?;
        }
        Ok(Refined {
            stop,
            e_rms: run.history.last().map_or(0.0, |round| round.error),
            problem,
            local: None,
            beyond: None,
        })
    }

    /// Rounds with normals from where those without ended, as long as they cost no more than they may.
    fn shade(&self, state: &mut State, vertices: VertexParams, run: &mut Run<'_>) -> Result<(), Cancelled> {
        run.stage(Stage::Shading, Some(SHADING_ROUNDS))?;
        let error = |state: &State| {
            let moments = pass::gather(self.problem, &state.motion, &state.skin);
            self.problem.e_rms(moments.squared_error)
        };
        let (before, start) = (error(state), state.clone());
        let limit = before * (1.0 + normals::COST * self.params.shading);
        let mut problem = self.shaded(self.problem, self.normals.clone(), None, state, vertices);
        let shaded = state.skin.normals.clone();
        for tried in 0..SHADING_TRIES {
            if tried > 0 {
                state.clone_from(&start);
                let share = 0.5f64.powi(tried as i32);
                state.skin.normals = shaded.iter().map(|n| *n * share).collect();
                problem = problem.with_normals(problem.normals.clone().map(|of| {
                    let weight = 0.5 * of.weight;
                    of.weighing(weight)
                }));
            }
            Descent::new(&problem, vertices).rounds(state, SHADING_ROUNDS, run)?;
            let reached = error(state);
            if reached <= limit || run.is_over() {
                return run.round(state.bones(), reached);
            }
        }
        *state = start;
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
        let Self { sequence, params, plan, .. } = self;
        let many = state.bones() > MANY_BONES && params.max_iterations.is_none();
        let rounds = if many { 2 * rounds } else { rounds };
        run.stage(Stage::WeightsAndBones, Some(rounds))?;
        let step = match params.smooth > 0.0 {
            true => {
                let adjacency = Adjacency::new(&sequence.surface().topology, sequence.vertex_count());
                VertexStep::Smooth(Smoothness::new(problem, adjacency, params.smooth))
            }
            false => plan.vertex_step(problem, state.bones()),
        };
        let together = plan.together(state, &vertices);
        let mut descent = Descent::with_step(problem, vertices, step, together);
        let mut rule = StopRule::new(rounds, plan.tolerance, 2);
        loop {
            descent.round(state, run)?;
            if let Some(stop) = rule.after_round(problem.e_rms(descent.objective()), descent.e_rms(), run) {
                descent.step_back(state);
                return Ok(stop);
            }
        }
    }
}

/// Rigid clusters that the search starts from.
fn first_bones(problem: &Problem, count: usize, run: &mut Run<'_>) -> Result<(Motion, Vec<u16>), Cancelled> {
    run.stage(Stage::FirstBones, None)?;
    run.observed("split", |run| split(problem, count, &mut || run.step()))
}
