//! Bones that shapes drive: the shapes of a face become bones whose transforms are linear in the weights of the shapes, with few numbers.
//!
//! Minimises `sum_si |d_si - sum_j w_ij N_sj (v_i, 1)|^2` over convex sparse weights `w` and transforms `N_sj` of shape `s`, of which only some
//! numbers are stored (`model::shape_bones`). `d_si` are the offsets of the shapes from the neutral `v`, which stays as it is. In five stages:
//!
//! 1. first bones: affine bones for the shapes as if these were frames of an animation, searched on a sample of the vertices;
//! 2. `rounds`: weights (`skinning::pass`) and numbers (`system`) in turn, with all numbers;
//! 3. the count of numbers falls in steps to the one asked for (`select`), with rounds after each step; then numbers are exchanged a few times;
//! 4. `shading`: rounds in which normals count;
//! 5. other norms: rounds with weighted residuals (`skinning::norm`).
//!
//! Rigid parts may have bones of their own first (`locked`); the stages then see the vertices that remain. Bones of a symmetric face may
//! come in pairs, or be their own image (`mirror`).
//!
//! The model is that of [Kavan2024] with three deviations: numbers are chosen by what they buy instead of by a threshold on their size; they
//! are moves about the bone's own place instead of the origin, so that one number turns an eye; and each step is exact least squares.

mod locked;
mod mirror;
mod pairs;
mod params;
mod rounds;
mod select;
mod shading;
mod system;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use crate::cluster::split::split;
use crate::mesh::sequence::MeshSequence;
use crate::model::rig::BoneKind;
use crate::model::shape_bones::{BoneShape, Driver, ShapeBones};
use crate::observer::{Cancelled, Observer, Stage};
use crate::skinning::loss::{self, Loss};
use crate::skinning::norm::{self, Schedule};
use crate::skinning::normals::{self, Normals};
use crate::skinning::params::{Effort, FitError, FitParams, Norm, StopReason, VERTICES_PER_BONE, Warning};
use crate::skinning::search::{Explorer, SearchPlan};
use crate::skinning::{Ending, Motion, Problem, Run, Sample, State, UnitSpace, VertexParams, finish};

use crate::mesh::sphere::Sphere;
use locked::{Locked, stored};
use mirror::Mirror;
use pairs::FirstPairs;
pub use params::*;
use rounds::Rounds;

/// Vertices that bones are searched on.
const SAMPLE: usize = 1500;

/// Rounds with all numbers: before some are removed, or where all are stored.
const DENSE_ROUNDS: usize = 4;
const ALL_ROUNDS: usize = 40;

/// Count of numbers that the steps begin with, as a multiple of the one asked for; steps; rounds after each.
const FIRST_COUNT: f64 = 4.0;
const STEPS: usize = 7;
const STEP_ROUNDS: usize = 3;

/// Times that numbers are exchanged, and rounds after each time.
const EXCHANGES: usize = 4;
const EXCHANGE_ROUNDS: usize = 8;

/// Other norms are lowered longer than in a fit of an animation: faces have few shapes, and large errors are seen.
const NORM: Schedule = Schedule { rounds: 10, repeats: 8, least: 0.005 };

/// Steps of a search for the fewest numbers; it ends where a step removes less than this share of them.
const TARGET_STEPS: usize = 14;
const TARGET_PROGRESS: f64 = 0.01;

/// Fits bones to shapes: frame `s` of `shapes` is the neutral, its rest pose, with shape `s` at weight 1.
pub fn fit(
    shapes: &MeshSequence,
    names: &[String],
    params: &ShapesParams,
    observer: &mut dyn Observer,
) -> Result<FittedShapes, FitError> {
    params.validate()?;
    check(shapes, names, params)?;
    let fit_params = FitParams { max_seconds: params.max_seconds, ..FitParams::default() };
    let mut run = Run::new(&fit_params, observer);
    run.stage(Stage::Prepare, None)?;
    let space = UnitSpace::fixed(UnitSpace::new(shapes).sphere);
    let mut warnings = Vec::new();
    let locked =
        if params.pieces { locked_pieces(shapes, names, &space, params, &mut run, &mut warnings)? } else { None };
    let (model, pieces) = match locked {
        None => (fit_vertices(shapes, names, params, space.sphere, &mut run, &mut warnings)?, 0),
        Some(locked) => {
            let params = soft_params(shapes, params, &locked);
            let soft = shapes.of_vertices(&locked.soft);
            let model = fit_vertices(&soft, names, &params, space.sphere, &mut run, &mut warnings)?;
            let pieces = locked.count();
            (locked.assembled(shapes, &space, model), pieces)
        }
    };
    let stop = if run.is_over() { StopReason::MaxSeconds } else { StopReason::Converged };
    let mut info = run.finish(Ending { stop, iterations: None, warnings, jitter_ratio: None });
    info.pieces = pieces;
    Ok(FittedShapes { model, info })
}

/// Rigid pieces, where they leave bones and numbers for the rest.
fn locked_pieces(
    shapes: &MeshSequence,
    names: &[String],
    space: &UnitSpace,
    params: &ShapesParams,
    run: &mut Run<'_>,
    warnings: &mut Vec<Warning>,
) -> Result<Option<Locked>, FitError> {
    let Some(mut locked) = Locked::find(shapes, space, params.kind, run)? else { return Ok(None) };
    if let Some(axis) = params.mirror {
        let offsets = offsets(&Problem::in_space(shapes, space.clone()));
        locked.mirror(&Mirror::find(&offsets, names, axis.number())?.0);
    }
    let (pieces, numbers) = (locked.count(), locked.number_count());
    let too_many = matches!(params.numbers, Numbers::Count(count) if 2 * numbers > count);
    if too_many || 2 * pieces > params.bones {
        warnings.push(Warning::PiecesNotLocked { pieces, numbers });
        return Ok(None);
    }
    Ok(Some(locked))
}

/// Parameters of the soft vertices: bones and numbers that are left, and an error that gives the one requested over all vertices.
fn soft_params(shapes: &MeshSequence, params: &ShapesParams, locked: &Locked) -> ShapesParams {
    let pick = |all: &Arc<Vec<f32>>| Arc::new(locked.soft.iter().map(|&i| all[i as usize]).collect());
    let share = shapes.vertex_count() as f64 / locked.soft.len() as f64;
    ShapesParams {
        bones: params.bones - locked.count(),
        numbers: match params.numbers {
            Numbers::Count(count) => Numbers::Count(count - locked.number_count()),
            Numbers::TargetError(target) => Numbers::TargetError(target * share.sqrt()),
            all => all,
        },
        importance: params.importance.as_ref().map(pick),
        ..params.clone()
    }
}

/// Fits bones to shapes in the unit space of a sphere.
fn fit_vertices(
    shapes: &MeshSequence,
    names: &[String],
    params: &ShapesParams,
    sphere: Sphere,
    run: &mut Run<'_>,
    warnings: &mut Vec<Warning>,
) -> Result<ShapeBones, FitError> {
    let importance = loss::importance(shapes, params.importance.as_ref().map(|given| given.as_slice()), params.area);
    let loss = importance.map(Loss::of_vertices).unwrap_or_default();
    let space = UnitSpace::fixed(sphere);
    let stored = shapes.frame_count();
    // With the images of shapes that have none.
    let mut closed = None;
    let mut mirror = None;
    if let Some(axis) = params.mirror {
        let offsets = offsets(&Problem::in_space(shapes, space.clone()));
        let (mut found, warning) = Mirror::find(&offsets, names, axis.number())?;
        warnings.extend(warning);
        closed = Some(found.closed(shapes));
        mirror = Some(found);
    }
    let shapes = closed.as_ref().unwrap_or(shapes);
    let poses = Problem::in_space(shapes, space);
    let problem = offsets(&poses).with_loss(loss);
    run.prepared();
    if !poses.moves() {
        warnings.push(Warning::NoMotion);
    }
    let still: Vec<bool> = (0..shapes.frame_count()).map(|s| *shapes.frame(s) == *shapes.rest()).collect();
    let still = (still, stored);
    let (mirror, mut state, fitted) = match mirror {
        None => {
            let mut state = first_bones(shapes, &poses, params.bones, params, run)?;
            state.motion = without_identity(&state.motion);
            (None, state, problem.clone())
        }
        Some(mirror) => {
            let fitted = mirror.symmetrised(&problem);
            let pairs = FirstPairs { shapes, poses: &poses, fitted: &fitted, mirror: &mirror, still: &still, params };
            let (mirror, state) = pairs.find(run)?;
            (Some(mirror), state, fitted)
        }
    };
    drop(poses);
    let bones = state.bones();
    let mut rounds = Rounds::new(&fitted, &mut state, vertex_params(params, bones), params.kind, still, mirror);
    reduce_numbers(&mut rounds, &fitted, &mut state, params, run)?;
    // Rounds for another norm come last and use distances only: they would undo what normals gained.
    if params.shading > 0.0
        && params.norm == Norm::default()
        && !run.is_over()
        && bones * normals::FEW_VERTICES <= shapes.vertex_count()
        && let Some(normals) = run.timed("normals", || Normals::from_rest(shapes))
    {
        let most = match params.numbers {
            Numbers::TargetError(target) => fitted.squared_error(target),
            _ => f64::INFINITY,
        };
        shading::shade(&mut rounds, &fitted, &mut state, normals, (params.shading, most), run)?;
    }
    if params.norm != Norm::default() && !run.is_over() {
        let allowed = norm::allowed(&fitted, &state, params.norm);
        norm::lower_with(&fitted, &mut state, params.norm, allowed, NORM, run, |weighted, state, count, run| {
            rounds.rounds(weighted, state, count, run).map(drop)
        })?;
    }
    let plain = problem.with_loss(Loss::default());
    let e_rms = plain.e_rms(rounds.stored_error(&plain, &state) / rounds.stored_share());
    if let Numbers::TargetError(target) = params.numbers
        && e_rms > target
    {
        warnings.push(Warning::TargetMissed { target, reached: e_rms, bones });
    }
    Ok(finished(shapes, names, &problem, &state, &rounds))
}

/// What depends on the shapes.
fn check(shapes: &MeshSequence, names: &[String], params: &ShapesParams) -> Result<(), FitError> {
    let (count, vertices) = (shapes.frame_count(), shapes.vertex_count());
    if names.len() != count {
        return Err(FitError::Unsupported(format!("{} names for {count} shapes", names.len())));
    }
    let mut sorted: Vec<&String> = names.iter().collect();
    sorted.sort_unstable();
    if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(FitError::Unsupported(format!("two shapes are called {:?}", pair[0])));
    }
    match params.importance.as_ref().map(|given| given.len()) {
        Some(numbers) if numbers != vertices => Err(FitError::Importance { numbers, vertices }),
        _ => Ok(()),
    }
}

fn vertex_params(params: &ShapesParams, bones: usize) -> VertexParams {
    let slots = params.influences.min(bones);
    VertexParams { slots, newcomers: 2, min_gain: 1e-2, move_rest: false, rounds: 1 }
}

/// Affine bones that fit the shapes as frames.
fn first_bones(
    shapes: &MeshSequence,
    poses: &Problem,
    bones: usize,
    params: &ShapesParams,
    run: &mut Run<'_>,
) -> Result<State, Cancelled> {
    let bones = bones.min(poses.vertices());
    let sample = Sample::new(poses, SAMPLE.max(VERTICES_PER_BONE * bones), usize::MAX, params.seed);
    let coarse = sample.problem(poses, shapes);
    run.stage(Stage::FirstBones, None)?;
    let first = run.observed("split", |run| split(&coarse, bones, &mut || run.step()))?;
    let plan = SearchPlan::new(Effort::Balanced);
    let vertices = vertex_params(params, bones);
    let mut explorer = Explorer::new(&coarse, first, BoneKind::Affine, vertices, plan, params.seed);
    explorer.search(run)?;
    run.observed("lift", |run| sample.lift(poses, shapes, explorer.state, &mut || run.report()))
}

/// Rounds with all numbers, then with as many as are asked for.
fn reduce_numbers(
    rounds: &mut Rounds,
    problem: &Problem,
    state: &mut State,
    params: &ShapesParams,
    run: &mut Run<'_>,
) -> Result<(), Cancelled> {
    let all = rounds.number_count();
    let count = match params.numbers {
        Numbers::Count(count) => count.min(all),
        _ => all,
    };
    let target = if let Numbers::TargetError(target) = params.numbers { Some(target) } else { None };
    let dense = if count == all && target.is_none() { ALL_ROUNDS } else { DENSE_ROUNDS };
    run.stage(Stage::WeightsAndBones, Some(dense))?;
    rounds.rounds(problem, state, dense, run)?;
    if let Some(target) = target {
        return fewest_numbers(rounds, problem, state, target, run);
    }
    if count == all {
        return Ok(());
    }
    run.stage(Stage::FewerNumbers, Some(STEPS * STEP_ROUNDS + EXCHANGES * EXCHANGE_ROUNDS))?;
    for step in (0..STEPS).rev() {
        // The last step is needed in any case: it gives the count.
        if run.is_over() && step > 0 {
            continue;
        }
        let share = step as f64 / (STEPS - 1) as f64;
        let now = (count as f64 * FIRST_COUNT.powf(share)).round() as usize;
        rounds.reselect(problem, state, now.min(all), run)?;
        if !run.is_over() {
            rounds.rounds(problem, state, STEP_ROUNDS, run)?;
        }
    }
    for _ in 0..EXCHANGES {
        if run.is_over() {
            break;
        }
        rounds.reselect(problem, state, count, run)?;
        rounds.rounds(problem, state, EXCHANGE_ROUNDS, run)?;
    }
    Ok(())
}

/// Removes numbers as long as the error stays below the target: rounds lower it after each removal.
fn fewest_numbers(
    rounds: &mut Rounds,
    problem: &Problem,
    state: &mut State,
    target: f64,
    run: &mut Run<'_>,
) -> Result<(), Cancelled> {
    run.stage(Stage::FewerNumbers, Some(TARGET_STEPS * EXCHANGE_ROUNDS))?;
    // Images that are not stored count in the choice of numbers, but not in the error that is to be reached.
    let (mut limit, of_stored) = (problem.squared_error(target), rounds.stored_share() * problem.squared_error(target));
    let mut best: Option<(State, Rounds)> = None;
    for _ in 0..TARGET_STEPS {
        let before = rounds.number_count();
        rounds.reselect_within(problem, state, limit, run)?;
        rounds.rounds(problem, state, EXCHANGE_ROUNDS, run)?;
        let error = rounds.stored_error(problem, state);
        let (count, reached) = (rounds.number_count(), error <= of_stored);
        if !reached && rounds.stored_share() < 1.0 {
            limit *= of_stored / error;
        }
        if reached && best.as_ref().is_none_or(|(_, best)| count < best.number_count()) {
            best = Some((state.clone(), rounds.clone()));
        }
        let slow = reached && count as f64 > before as f64 * (1.0 - TARGET_PROGRESS);
        if slow || run.is_over() {
            break;
        }
    }
    if let Some((fewest, with)) = best {
        (*state, *rounds) = (fewest, with);
    }
    Ok(())
}

/// The same problem in offsets from the rest pose.
fn offsets(poses: &Problem) -> Problem {
    let f = poses.frames();
    let mut trajectories = poses.trajectories.to_vec();
    for (row, u) in trajectories.chunks_exact_mut(poses.length).zip(&poses.rest) {
        for (axis, row) in row.chunks_exact_mut(f).enumerate() {
            row.iter_mut().for_each(|x| *x = (f64::from(*x) - u[axis]) as f32);
        }
    }
    Problem::stored(poses.length, poses.rest.clone(), trajectories, poses.space.clone())
}

/// A motion of poses as one of offsets.
fn without_identity(motion: &Motion) -> Motion {
    let (b, f, length) = (motion.bones, motion.frames(), motion.length);
    let mut rows = motion.rows().to_vec();
    for j in 0..b {
        for a in 0..3 {
            rows[(a * b + j) * length + a * f..][..f].iter_mut().for_each(|x| *x -= 1.0);
        }
    }
    Motion::from_rows(b, length, rows)
}

/// The model, in model units.
fn finished(shapes: &MeshSequence, names: &[String], problem: &Problem, state: &State, rounds: &Rounds) -> ShapeBones {
    let (space, q) = (&problem.space, rounds.kind.numbers());
    let mut rig = finish::rig(shapes, problem, state, String::new());
    rig.kind = BoneKind::Affine;
    rig.rest = shapes.rest().to_vec();
    for (bone, place) in rig.bones.iter_mut().zip(&rounds.places) {
        bone.world_from_bind.translation = space.model_point(*place);
    }
    let numbers = rounds.numbers(&state.motion);
    let shape = |(s, name): (usize, &String)| {
        let number = |(u, x): (&u32, &f64)| stored(*u as usize / q, *u as usize % q, *x, space);
        let numbers = rounds.support[s].iter().zip(&numbers[s]).map(number).filter(|x| x.value != 0.0).collect();
        BoneShape { name: name.clone(), driver: Driver::Own, numbers }
    };
    let shapes = names.iter().enumerate().map(shape).collect();
    let mut model = ShapeBones { rig, kind: rounds.kind, shapes };
    model.set_first_clip();
    model
}
