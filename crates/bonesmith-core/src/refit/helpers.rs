//! Helper bones: planted where the error is, then given the parent that they follow best.

use glam::{DAffine3, DMat3, DVec3};
use rayon::prelude::*;

use crate::model::{Bone, BoneKind, Rig};
use crate::observer::{Cancelled, Stage};
use crate::refit::params::RefitParams;
use crate::skinning::alternation::Alternation;
use crate::skinning::weights::Search;
use crate::skinning::{Motion, Run, SecondMoments, StopReason, plant};

/// Helpers are planted in so many portions: later ones are placed by the error that the earlier ones left.
const PORTIONS: usize = 4;

/// Rounds after each portion.
const ROUNDS_AFTER: usize = 4;

/// Rounds at the end when no number is given.
const ROUNDS: usize = 24;

/// Vertices that a helper starts from, as a share of a bone's fair share.
const PATCH: f64 = 0.35;

/// Squared weight below which a helper is planted again elsewhere.
const USELESS: f64 = 0.5;

/// Parents this much worse than the best still count as equal; then shared vertices decide.
const NEARLY: f64 = 1.1;

/// Plants `count` bones and refits.
pub(super) fn add(
    fitting: &mut Alternation,
    count: usize,
    params: &RefitParams,
    run: &mut Run<'_>,
) -> Result<StopReason, Cancelled> {
    let first = fitting.bones.count();
    let portion = count.div_ceil(PORTIONS);
    let rounds = params.max_iterations.unwrap_or(ROUNDS);
    run.stage(Stage::HelperBones, Some(ROUNDS_AFTER * count.div_ceil(portion) + rounds))?;
    while fitting.bones.count() < first + count && !run.is_over() {
        fitting.solve_weights(Search::Whole, run)?;
        let present = fitting.bones.count();
        let planted: Vec<usize> = (present..(present + portion).min(first + count)).collect();
        fitting.grow(planted.len());
        plant(fitting, &planted);
        fitting.rounds(ROUNDS_AFTER, 0.0, run)?;
        let useless = useless(fitting, first);
        if !useless.is_empty() {
            plant(fitting, &useless);
            fitting.rounds(ROUNDS_AFTER, 0.0, run)?;
        }
    }
    fitting.rounds(rounds, params.tolerance, run)
}

/// Gives each of `bones` the rigid motion of a patch of vertices with a large error.
fn plant(fitting: &mut Alternation, bones: &[usize]) {
    let n = fitting.problems[0].vertices();
    let patch = ((PATCH * n as f64 / fitting.bones.count() as f64) as usize).clamp(4, n);
    let patches = plant::patches(&fitting.problems[0], fitting.errors_to_help(), bones.len(), patch);
    for (&j, members) in bones.iter().zip(&patches) {
        for (problem, motion) in fitting.problems.iter().zip(&mut fitting.motions) {
            motion.set_bone(j, &plant::rigid_motion(problem, &problem.rest, members));
        }
    }
}

/// Helpers that hardly any vertex has.
fn useless(fitting: &Alternation, first: usize) -> Vec<usize> {
    let mut mass = vec![0.0; fitting.bones.count()];
    for i in 0..fitting.skin.rest.len() {
        fitting.skin.of(i).for_each(|(j, w)| mass[j] += w * w);
    }
    (first..mass.len()).filter(|&j| mass[j] < USELESS).collect()
}

/// The helpers as bones of each subject: names, parents, binds.
pub(super) fn bones(rig: &Rig, fitting: &mut Alternation) -> Vec<Vec<Bone>> {
    let (given, subjects) = (rig.bone_count(), fitting.problems.len());
    if fitting.bones.count() == given {
        return vec![Vec::new(); subjects];
    }
    let helpers: Vec<usize> = (given..fitting.bones.count()).collect();
    let second: Vec<SecondMoments> = (0..subjects).map(|s| fitting.moments(s).second).collect();
    // Parents are one for all subjects.
    let parents: Vec<Option<usize>> =
        helpers.iter().map(|&h| parent(&fitting.motions[0], &second[0], h, given)).collect();
    let space = &fitting.problems[0].space;
    let of_subject = |second: &SecondMoments| {
        let named = helpers.iter().zip(&parents).zip(free_names(rig));
        let bone = |((&h, &parent), name): ((&usize, &Option<usize>), String)| {
            let matrix3 = match fitting.bones.model.kind {
                BoneKind::Trs => DMat3::IDENTITY,
                _ => parent.map_or(DMat3::IDENTITY, |p| rig.bones[p].world_from_bind.matrix3),
            };
            let translation = space.model_point(second.of[h].centre());
            Bone { name, parent, world_from_bind: DAffine3 { matrix3, translation }, tip: None }
        };
        named.map(bone).collect()
    };
    second.iter().map(of_subject).collect()
}

/// `helper_001`, `helper_002`, ... without those that the rig has already.
fn free_names(rig: &Rig) -> impl Iterator<Item = String> + '_ {
    (1..).map(|n| format!("helper_{n:03}")).filter(|name| rig.bones.iter().all(|bone| bone.name != *name))
}

/// The bone beside which helper `h` keeps its place best: least variance over time of its vertices in the space of that bone.
fn parent(motion: &Motion, second: &SecondMoments, h: usize, given: usize) -> Option<usize> {
    let points = representatives(second, h);
    let variances: Vec<f64> = (0..given).into_par_iter().map(|p| variance(motion, h, p, &points)).collect();
    let least = variances.iter().copied().fold(f64::INFINITY, f64::min);
    let close = (0..given).filter(|&p| variances[p] <= least * NEARLY + 1e-12);
    let shared = |p: usize| second.shared_mass(h, p);
    close.max_by(|&a, &b| shared(a).total_cmp(&shared(b)).then(variances[b].total_cmp(&variances[a])).then(b.cmp(&a)))
}

/// Four points that stand for the vertices of a bone: their centre, and one along each axis at their usual distance.
fn representatives(second: &SecondMoments, h: usize) -> [DVec3; 4] {
    let (own, center) = (&second.of[h].own, second.of[h].centre());
    let spread = (0..3).map(|c| own[c][c] / own[3][3].max(1e-300) - center[c] * center[c]).sum::<f64>();
    let reach = spread.max(0.0).sqrt().max(1e-3);
    [center, center + reach * DVec3::X, center + reach * DVec3::Y, center + reach * DVec3::Z]
}

fn variance(motion: &Motion, h: usize, p: usize, points: &[DVec3; 4]) -> f64 {
    let f = motion.frames();
    let (mut sum, mut squared) = ([DVec3::ZERO; 4], 0.0);
    for t in 0..f {
        let seen = motion.transform(p, t).inverse() * motion.transform(h, t);
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
