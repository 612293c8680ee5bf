//! From a mesh animation to bones, weights and motion.
//!
//! Minimises `sum_it |v_it - sum_j w_ij T_jt u_i|^2` over convex sparse weights `w`, bone motions `T` (rigid, trs or
//! affine) and the rest pose `u` [Kavan2010 eq. 1, Le2014 eq. 3.1], in four stages:
//!
//! 1. `problem`: the unit sphere, trajectories by vertex;
//! 2. `levels`, `init`, `explore`: where bones should be, searched on a sample of vertices and frames;
//! 3. `levels`: back to all frames, then to all vertices, by way of a larger sample;
//! 4. `descend`: rounds of `vertices` (weights and rest pose, `local`) and `bones`, until they no longer pay.
//!
//! | paper | here |
//! |---|---|
//! | X, column of vertex i [Kavan2010 s.1] | `x_i[c B + j] = w_ij u_ic`, never stored |
//! | T | `Motion::rows`, transposed |
//! | X X^T, C X^T [Kavan2010 s.4.2] | `Moments::second`, `Moments::residual` (of the residual: small numbers) |
//! | q, p* [Le2014 eq. 3.21] | `bones::target`, `bones::centred` |
//!
//! Deviations are told where they happen: choice of influences (`local`), splitting (`init`), planting instead of
//! reinitialising (`explore`), momentum (`descend`), vertices and bones at once (`joint`), other starts (`basins`).

use crate::cluster::split::split;
use crate::mesh::sequence::MeshSequence;
use crate::mesh::topology::Adjacency;
use crate::observer::Observer;
use crate::skinning::descent::{Descent, State};
use crate::skinning::finish;
use crate::skinning::motion::Motion;
use crate::skinning::params::{VERTICES_PER_BONE, check_bones};
use crate::skinning::problem::Problem;
use crate::skinning::run::{Ending, Run};
use crate::skinning::sample::Sample;
use crate::skinning::schedule::Schedule;
use crate::skinning::search::{Explorer, Growth};
use crate::skinning::smooth::Smoothness;
use crate::skinning::stop::StopRule;
use crate::skinning::vertex_step::LocalParams;

pub use crate::skinning::params::*;
pub use crate::skinning::rates::{Rate, kernel_rates};

/// Positions from this many bytes on are not copied: the few passes over all of them read them in place.
const STREAMED_BYTES: usize = 4 << 20;

/// Most bones for a target error, as a share of the vertices: beyond it a rig is no smaller than the animation.
const MAX_BONE_SHARE: usize = 8;

/// Fits bones, weights and bone motion to a mesh animation.
pub fn fit(sequence: &MeshSequence, params: &FitParams, observer: &mut dyn Observer) -> Result<Fitted, FitError> {
    params.validate()?;
    check_bones(sequence, params)?;
    let mut run = Run::new(params, observer);
    run.stage("prepare", None)?;
    // Smoothness looks at neighbours in any order; little is soon copied.
    let stored = params.smooth > 0.0 || sequence.position_bytes() < STREAMED_BYTES;
    let problem = if stored { Problem::new(sequence) } else { Problem::streamed(sequence) };
    run.prepared();
    let mut warnings = Vec::new();
    let (state, stop) = match params.bones {
        BoneCount::Exact(count) => fit_count(sequence, &problem, count, params, &mut run)?,
        BoneCount::TargetError(target) => {
            let limit = sequence.vertex_count().div_ceil(MAX_BONE_SHARE).min(MAX_BONES);
            fit_error(sequence, &problem, target, limit, params, &mut run, &mut warnings)?
        }
        BoneCount::Auto => {
            let limit = sequence.vertex_count().div_ceil(4).min(AUTO_MAX_BONES);
            fit_error(sequence, &problem, AUTO_TARGET, limit, params, &mut run, &mut Vec::new())?
        }
    };
    if !problem.moves() {
        warnings.push(Warning::NoMotion);
    }
    let rig = finish::rig(sequence, &problem, &state, String::new());
    let jitter_ratio = finish::jitter_ratio(&problem, &state);
    let info = run.finish(Ending { stop, iterations: None, warnings, jitter_ratio });
    Ok(Fitted { rig, info })
}

/// How vertices are solved with `count` bones.
fn local_params(params: &FitParams, count: usize) -> LocalParams {
    LocalParams {
        slots: params.influences.unwrap_or(count).min(count.max(1)),
        newcomers: Schedule::new(params.effort).newcomers,
        min_gain: 1e-2,
        move_rest: !params.keep_rest,
        rounds: 2,
    }
}

/// The sample for a search with `count` bones: each bone needs some vertices to be judged by.
fn sample(problem: &Problem, schedule: &Schedule, count: usize, seed: u64) -> Sample {
    let sample = Sample::new(problem, schedule.vertices.max(VERTICES_PER_BONE * count), schedule.frames, seed);
    bounded(problem, sample)
}

/// A sample of at most a quarter of all positions, as long as there are frames enough: it is copied.
fn bounded(problem: &Problem, sample: Sample) -> Sample {
    const FRAMES_ENOUGH: usize = 80;
    let most = problem.vertices() * problem.frames() / 4 / sample.picked().0.len();
    sample.with_frames(problem, most.max(FRAMES_ENOUGH))
}

/// Rigid clusters that the search starts from.
fn first_bones(problem: &Problem, count: usize, run: &mut Run<'_>) -> Result<(Motion, Vec<u16>), FitError> {
    run.stage("first bones", None)?;
    Ok(run.observed("split", |run| split(problem, count, &mut || run.step()))?)
}

/// Fits a given number of bones.
fn fit_count(
    sequence: &MeshSequence,
    problem: &Problem,
    count: usize,
    params: &FitParams,
    run: &mut Run<'_>,
) -> Result<(State, StopReason), FitError> {
    let schedule = Schedule::of(params);
    let local = local_params(params, count);
    let wide = LocalParams { slots: (local.slots + schedule.spare).min(count), ..local };
    let sample = sample(problem, &schedule, count, params.seed);
    let coarse = run.timed("sample", || sample.problem(problem, sequence));
    let mut best: Option<(f64, State)> = None;
    for start in 0..schedule.starts {
        if best.is_some() && run.is_over() {
            break;
        }
        let first = first_bones(&coarse, count, run)?;
        let mut explorer = Explorer::new(&coarse, first, params.bone_kind, wide, schedule.varied(start), params.seed);
        explorer.search(run)?;
        let found = explorer.e_rms();
        if best.as_ref().is_none_or(|best| found < best.0) {
            best = Some((found, explorer.state));
        }
    }
    let Some((_, state)) = best else { unreachable!("at least one search is made") };
    drop(coarse);
    let mut state = run.timed("lift", || sample.lift(problem, sequence, state));
    let stop = refine(sequence, problem, &mut state, local, params, run)?;
    Ok((state, stop))
}

/// Fits the smallest number of bones that reaches an error, at most `limit`.
///
/// The search runs on the sample. When all vertices turn out worse than the sample promised, it goes on from where it
/// stopped with a goal corrected by as much; when the sample is too small for the bones needed, on a larger one.
fn fit_error(
    sequence: &MeshSequence,
    problem: &Problem,
    target: f64,
    limit: usize,
    params: &FitParams,
    run: &mut Run<'_>,
    warnings: &mut Vec<Warning>,
) -> Result<(State, StopReason), FitError> {
    const ATTEMPTS: usize = 8;
    // So far below the target, fewer bones are worth a try.
    const SLACK: f64 = 0.96;
    let schedule = Schedule::of(params);
    let local = local_params(params, limit);
    let mut allowed = limit.min(schedule.vertices / VERTICES_PER_BONE);
    let mut goal = target;
    let mut best: Option<(State, StopReason, f64)> = None;
    for _ in 0..ATTEMPTS {
        let sample = sample(problem, &schedule, allowed, params.seed);
        let coarse = run.timed("sample", || sample.problem(problem, sequence));
        let mut explorer = match &best {
            None => {
                let first = first_bones(&coarse, 1, run)?;
                Explorer::new(&coarse, first, params.bone_kind, local, schedule, params.seed)
            }
            Some((state, ..)) => Explorer::resume(&coarse, sample.lower(problem, state), local, schedule, params.seed),
        };
        let growth = explorer.search_for_error(goal, allowed, run)?;
        let promised = explorer.e_rms();
        let state = explorer.state;
        let mut state = run.timed("lift", || sample.lift(problem, sequence, state));
        let stop = refine(sequence, problem, &mut state, local, params, run)?;
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
    let Some((state, stop, reached)) = best else { unreachable!("at least one attempt is made") };
    if reached > target {
        warnings.push(Warning::TargetMissed { target, reached, bones: state.bones() });
    }
    Ok((state, stop))
}

/// Rounds on a larger sample where there is much more than that, then on everything. Vertices may come with more influences
/// than `local` allows.
fn refine(
    sequence: &MeshSequence,
    problem: &Problem,
    state: &mut State,
    local: LocalParams,
    params: &FitParams,
    run: &mut Run<'_>,
) -> Result<StopReason, FitError> {
    let schedule = Schedule::of(params);
    let enough = schedule.middle_vertices.max(2 * VERTICES_PER_BONE * state.bones());
    // Rounds asked for are rounds on everything; smooth weights need everybody's neighbours.
    let direct = params.max_iterations.is_some() || params.smooth > 0.0;
    let middle = Sample::new(problem, enough, schedule.middle_frames, params.seed);
    if direct || 2 * middle.size() > problem.vertices() * problem.frames() || run.is_over() {
        let rounds = params.max_iterations.unwrap_or(schedule.fine_rounds);
        narrow(problem, state, local, &schedule, run)?;
        return polish(sequence, problem, state, rounds, local, params, run);
    }
    let middle = bounded(problem, middle);
    let part = run.timed("sample", || middle.problem(problem, sequence));
    let mut seen = middle.lower(problem, state);
    // Found again from the sample: no need to keep it meanwhile.
    (state.motion, state.skin) = (Motion::identity(0, 0), seen.skin.pick(&[]));
    narrow(&part, &mut seen, local, &schedule, run)?;
    run.stage("bones on more vertices", Some(schedule.middle_rounds))?;
    let mut descent = Descent::new(&part, local).jointly(schedule.jointly, &seen).far_sighted(schedule.far_sighted);
    descent.rounds(&mut seen, schedule.middle_rounds, run)?;
    drop(descent);
    drop(part);
    *state = run.timed("lift", || middle.lift(problem, sequence, seen));
    polish(sequence, problem, state, schedule.last_rounds, local, params, run)
}

/// Rounds with more influences than `local` allows, one less at a time, until it allows them.
fn narrow(
    problem: &Problem,
    state: &mut State,
    local: LocalParams,
    schedule: &Schedule,
    run: &mut Run<'_>,
) -> Result<(), FitError> {
    let spare = state.skin.slots - local.slots;
    if spare > 0 {
        run.stage("fewer influences", Some(spare * schedule.spare_rounds))?;
    }
    for slots in (local.slots + 1..=state.skin.slots).rev() {
        let mut descent = Descent::new(problem, LocalParams { slots, ..local }).jointly(schedule.jointly, state);
        descent.rounds(state, schedule.spare_rounds, run)?;
        state.skin = state.skin.with_slots(slots - 1);
    }
    Ok(())
}

/// Rounds on all vertices and frames until they no longer pay.
fn polish(
    sequence: &MeshSequence,
    problem: &Problem,
    state: &mut State,
    rounds: usize,
    local: LocalParams,
    params: &FitParams,
    run: &mut Run<'_>,
) -> Result<StopReason, FitError> {
    run.stage("weights and bones", Some(rounds))?;
    let schedule = Schedule::of(params);
    let tolerance = params.tolerance.unwrap_or(schedule.tolerance);
    let smoothness = (params.smooth > 0.0).then(|| {
        let adjacency = Adjacency::new(&sequence.surface().topology, sequence.vertex_count());
        Smoothness::new(problem, adjacency, params.smooth)
    });
    let descent = Descent::new(problem, local).smoothed(smoothness).jointly(schedule.jointly, state);
    let mut descent = descent.far_sighted(schedule.far_sighted);
    let mut rule = StopRule::new(rounds, tolerance, 2);
    let stop = loop {
        descent.round(state, run)?;
        if let Some(stop) = rule.after_round(problem.e_rms(descent.objective()), descent.e_rms(), run) {
            break stop;
        }
    };
    descent.settle(state);
    Ok(stop)
}
