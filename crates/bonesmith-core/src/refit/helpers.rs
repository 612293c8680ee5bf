//! Helper bones: planted where the error is, and hung on the bone that they follow best.

use glam::{DAffine3, DMat3, DVec3};
use rayon::prelude::*;

use crate::model::rig::{Bone, BoneKind, Rig};
use crate::observer::Cancelled;
use crate::refit::fitting::Fitting;
use crate::refit::moments::Moments;
use crate::refit::params::RefitParams;
use crate::refit::space::{affine, rows};
use crate::refit::weights::Search;
use crate::skinning::motion::Motion;
use crate::skinning::params::StopReason;
use crate::skinning::problem::Problem;
use crate::skinning::run::Run;
use crate::solve::transform::nearest_rotation;

/// Helpers come in so many portions: those of a later one see what the earlier ones left.
const PORTIONS: usize = 4;

/// Rounds after each portion.
const SETTLE: usize = 4;

/// Rounds at the end when nothing is said.
const ROUNDS: usize = 24;

/// Vertices that a helper starts from, as a share of a bone's fair share.
const PATCH: f64 = 0.35;

/// Squared weight below which a helper has missed: it is planted again.
const USELESS: f64 = 0.5;

/// Parents this much worse than the best still count as equal; then shared vertices decide.
const NEARLY: f64 = 1.1;

/// Plants `count` bones and refits.
pub(super) fn add(
    fitting: &mut Fitting,
    count: usize,
    params: &RefitParams,
    run: &mut Run<'_>,
) -> Result<StopReason, Cancelled> {
    let first = fitting.bones();
    let portion = count.div_ceil(PORTIONS);
    let rounds = params.max_iterations.unwrap_or(ROUNDS);
    run.stage("helper bones", Some(SETTLE * count.div_ceil(portion) + rounds))?;
    while fitting.bones() < first + count && !run.is_over() {
        fitting.solve_weights(Search::Whole, run);
        let now = portion.min(first + count - fitting.bones());
        let places: Vec<usize> = (fitting.bones()..fitting.bones() + now).collect();
        grow(fitting, now);
        plant(fitting, &places);
        fitting.rounds(SETTLE, 0.0, run)?;
        replant_useless(fitting, first, run)?;
    }
    fitting.rounds(rounds, params.tolerance, run)
}

/// Room for more bones, which so far move like bone 0 and have no vertices.
fn grow(fitting: &mut Fitting, count: usize) {
    for motion in &mut fitting.motions {
        let picked: Vec<usize> = (0..motion.bones).chain(std::iter::repeat_n(0, count)).collect();
        *motion = motion.select(&picked);
    }
    fitting.axes.extend(std::iter::repeat_n(DMat3::IDENTITY, count));
    fitting.free.extend(std::iter::repeat_n(true, count));
    fitting.parents.extend(std::iter::repeat_n(None, count));
}

/// Gives each of `bones` the rigid motion of a patch of vertices with much error.
fn plant(fitting: &mut Fitting, bones: &[usize]) {
    let n = fitting.problems[0].vertices();
    let patch = ((PATCH * n as f64 / fitting.bones() as f64) as usize).clamp(4, n);
    let mut left = fitting.errors_to_help();
    for &j in bones {
        let Some(seed) = worst_seed(&fitting.problems[0], &left, patch) else { return };
        let members = nearest(&fitting.problems[0], seed, patch);
        members.iter().for_each(|&i| left[i] = 0.0);
        for (problem, motion) in fitting.problems.iter().zip(&mut fitting.motions) {
            for (t, m) in rigid_motion(problem, &members).iter().enumerate() {
                motion.set(j, t, &rows(m));
            }
        }
    }
}

/// Helpers that no vertex took get another chance elsewhere.
fn replant_useless(fitting: &mut Fitting, first: usize, run: &mut Run<'_>) -> Result<(), Cancelled> {
    let mut mass = vec![0.0; fitting.bones()];
    for i in 0..fitting.skin.rest.len() {
        fitting.skin.of(i).for_each(|(j, w)| mass[j] += w * w);
    }
    let useless: Vec<usize> = (first..fitting.bones()).filter(|&j| mass[j] < USELESS).collect();
    if useless.is_empty() {
        return Ok(());
    }
    plant(fitting, &useless);
    fitting.rounds(SETTLE, 0.0, run).map(|_| ())
}

/// The vertex whose surroundings hold the most error, among the worst few.
fn worst_seed(problem: &Problem, errors: &[f64], patch: usize) -> Option<usize> {
    let mut order: Vec<usize> = (0..errors.len()).filter(|&i| errors[i] > 0.0).collect();
    let tries = order.len().min(24);
    if tries == 0 {
        return None;
    }
    order.select_nth_unstable_by(tries - 1, |&a, &b| errors[b].total_cmp(&errors[a]).then(a.cmp(&b)));
    let score = |&i: &usize| (nearest(problem, i, patch).iter().map(|&k| errors[k]).sum::<f64>(), i);
    let scored: Vec<(f64, usize)> = order[..tries].par_iter().map(score).collect();
    scored.into_iter().max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1))).map(|(_, i)| i)
}

/// The `count` vertices nearest to `seed` in the rest pose, itself included.
fn nearest(problem: &Problem, seed: usize, count: usize) -> Vec<usize> {
    let at = problem.rest[seed];
    let mut all: Vec<(f64, usize)> =
        problem.rest.iter().enumerate().map(|(i, p)| (p.distance_squared(at), i)).collect();
    if count < all.len() {
        all.select_nth_unstable_by(count - 1, |a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    }
    all[..count.min(all.len())].iter().map(|&(_, i)| i).collect()
}

/// [F] best rigid motion of some vertices.
fn rigid_motion(problem: &Problem, members: &[usize]) -> Vec<DAffine3> {
    let f = problem.frames();
    let from = members.iter().map(|&i| problem.rest[i]).sum::<DVec3>() / members.len() as f64;
    let frame = |t: usize| {
        let position = |i: usize| {
            let v = problem.trajectory(i);
            DVec3::new(f64::from(v[t]), f64::from(v[f + t]), f64::from(v[2 * f + t]))
        };
        let to = members.iter().map(|&i| position(i)).sum::<DVec3>() / members.len() as f64;
        let outer = |i: usize| {
            let (p, q) = (problem.rest[i] - from, position(i) - to);
            DMat3::from_cols(q * p.x, q * p.y, q * p.z)
        };
        let matrix3 = nearest_rotation(&members.iter().map(|&i| outer(i)).sum());
        DAffine3 { matrix3, translation: to - matrix3 * from }
    };
    (0..f).into_par_iter().map(frame).collect()
}

/// The helpers as bones of subject `s`: names, parents, binds.
pub(super) fn bones(rig: &Rig, fitting: &Fitting, s: usize) -> Vec<Bone> {
    let given = rig.bone_count();
    if fitting.bones() == given {
        return Vec::new();
    }
    let moments = Moments::new(&fitting.problems[s], &fitting.skin, fitting.bones());
    // Parents are one for all subjects.
    let first = if s == 0 { None } else { Some(Moments::new(&fitting.problems[0], &fitting.skin, fitting.bones())) };
    let space = &fitting.problems[0].space;
    let mut names = free_names(rig);
    (given..fitting.bones())
        .map(|h| {
            let parent = parent(&fitting.motions[0], first.as_ref().unwrap_or(&moments), h, given);
            let matrix3 = match fitting.kind {
                BoneKind::Trs => DMat3::IDENTITY,
                _ => parent.map_or(DMat3::IDENTITY, |p| rig.bones[p].world_from_bind.matrix3),
            };
            let translation = space.model_point(moments.center(h));
            let name = names.next().unwrap_or_default();
            Bone { name, parent, world_from_bind: DAffine3 { matrix3, translation }, tip: None }
        })
        .collect()
}

/// `helper_001`, `helper_002`, ... without those that the rig has already.
fn free_names(rig: &Rig) -> impl Iterator<Item = String> + '_ {
    (1..).map(|n| format!("helper_{n:03}")).filter(|name| rig.bones.iter().all(|bone| bone.name != *name))
}

/// The bone beside which helper `h` keeps its place best: least variance over time of its vertices as that bone sees them.
fn parent(motion: &Motion, moments: &Moments, h: usize, given: usize) -> Option<usize> {
    let points = representatives(moments, h);
    let shared = |p: usize| {
        moments.second[h].binary_search_by_key(&p, |(k, _)| *k).map_or(0.0, |at| moments.second[h][at].1[3][3])
    };
    let loose: Vec<f64> = (0..given).into_par_iter().map(|p| variance(motion, h, p, &points)).collect();
    let least = loose.iter().copied().fold(f64::INFINITY, f64::min);
    let close = (0..given).filter(|&p| loose[p] <= least * NEARLY + 1e-12);
    close.max_by(|&a, &b| shared(a).total_cmp(&shared(b)).then(loose[b].total_cmp(&loose[a])).then(b.cmp(&a)))
}

/// Four points that stand for the vertices of a bone: their centre, and one along each axis at their usual distance.
fn representatives(moments: &Moments, h: usize) -> [DVec3; 4] {
    let (own, center) = (moments.own(h), moments.center(h));
    let spread = (0..3).map(|c| own[c][c] / own[3][3].max(1e-300) - center[c] * center[c]).sum::<f64>();
    let reach = spread.max(0.0).sqrt().max(1e-3);
    [center, center + reach * DVec3::X, center + reach * DVec3::Y, center + reach * DVec3::Z]
}

fn variance(motion: &Motion, h: usize, p: usize, points: &[DVec3; 4]) -> f64 {
    let f = motion.frames();
    let (mut sum, mut squared) = ([DVec3::ZERO; 4], 0.0);
    for t in 0..f {
        let seen = affine(&motion.get(p, t)).inverse() * affine(&motion.get(h, t));
        if !seen.is_finite() {
            return f64::INFINITY;
        }
        for (sum, point) in sum.iter_mut().zip(points) {
            // Relative to where it is at rest: small numbers, nothing lost in the difference of squares.
            let moved = seen.transform_point3(*point) - *point;
            *sum += moved;
            squared += moved.length_squared();
        }
    }
    squared / f as f64 - sum.iter().map(|s| (*s / f as f64).length_squared()).sum::<f64>()
}
