//! Adding bones in the regions of largest error, removing the least useful ones.

use glam::{DMat3, DVec3};
use rayon::prelude::*;

use crate::skinning::moments::SecondMoments;
use crate::skinning::motion::Motion;
use crate::skinning::near::MANY_BONES;
use crate::skinning::problem::Problem;
use crate::skinning::skin::Skin;
use crate::solve::nearest::Points;
use crate::solve::transform::{nearest_rotation, rotation_svd};

/// Vertices of largest error whose surroundings are compared.
const TRIES: usize = 24;

/// Vertices that a patch of rigid ones is chosen from, for each of it.
const CANDIDATES: usize = 5;

/// A change of the distance to the seed counts like so many times that distance.
const STRETCH: f64 = 4.0;

/// Adds `count` bones, each moving rigidly with a patch of `patch` vertices around a vertex of large error.
///
/// Weights do not change: the next vertex step admits the new bones where they help.
pub(crate) fn plant(
    problem: &Problem,
    motion: &Motion,
    rest: &[DVec3],
    errors: &[f32],
    count: usize,
    patch: usize,
) -> (Motion, Vec<DMat3>) {
    let errors = errors.iter().map(|&e| f64::from(e)).collect();
    let patches = match motion.bones > MANY_BONES {
        true => many_patches(problem, errors, count, patch),
        false => patches(problem, errors, count, patch),
    };
    plant_patches(problem, motion, rest, &patches)
}

/// Adds a bone for each patch, which moves rigidly with it.
pub(crate) fn plant_patches(
    problem: &Problem,
    motion: &Motion,
    rest: &[DVec3],
    patches: &[Vec<usize>],
) -> (Motion, Vec<DMat3>) {
    let motions: Vec<Vec<[[f64; 4]; 3]>> =
        patches.par_iter().map(|members| rigid_motion(problem, rest, members)).collect();
    let present = motion.bones;
    let picked: Vec<usize> = (0..present + motions.len()).map(|j| j.min(present - 1)).collect();
    let mut out = motion.select(&picked);
    motions.iter().enumerate().for_each(|(at, motion)| out.set_bone(present + at, motion));
    let middle = |members: &Vec<usize>| members.iter().map(|&i| rest[i]).sum::<DVec3>() / members.len() as f64;
    out.set_planted(&patches.iter().map(middle).collect::<Vec<_>>());
    (out, patches.iter().map(|members| principal_axes(problem, members)).collect())
}

/// Up to `count` patches of `patch` vertices, each around a vertex of large error. `errors` [N] are squared.
///
/// Errors are summed over patches: one noisy vertex is no reason for a bone.
pub(crate) fn patches(problem: &Problem, mut errors: Vec<f64>, count: usize, patch: usize) -> Vec<Vec<usize>> {
    let mut patches = Vec::with_capacity(count);
    while patches.len() < count
        && let Some(seed) = worst_seed(problem, &errors, patch)
    {
        let members = nearest(problem, seed, patch);
        members.iter().for_each(|&i| errors[i] = 0.0);
        patches.push(members);
    }
    patches
}

/// As [`patches`], of vertices that keep their distances to the seed: of those near it, half the length of a finger away or on the
/// next finger, the ones that move with it.
pub(crate) fn rigid_patches(problem: &Problem, mut errors: Vec<f64>, count: usize, patch: usize) -> Vec<Vec<usize>> {
    let mut patches = Vec::with_capacity(count);
    while patches.len() < count
        && let Some(seed) = worst_seed(problem, &errors, patch)
    {
        let mut candidates = vec![seed];
        candidates.extend(nearest(problem, seed, CANDIDATES * patch));
        let distance = |i: usize| problem.rest[i].distance(problem.rest[seed]);
        let stretches = stretches(problem, &candidates);
        let mut around: Vec<(f64, usize)> = candidates
            .iter()
            .zip(stretches)
            .skip(1)
            .map(|(&i, stretch)| (distance(i) + STRETCH * stretch, i))
            .collect();
        around.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let members: Vec<usize> = around.into_iter().take(patch).map(|(_, i)| i).collect();
        members.iter().for_each(|&i| errors[i] = 0.0);
        errors[seed] = 0.0;
        patches.push(members);
    }
    patches
}

/// By how much the distance of each of some vertices to the first of them changes, RMS over frames.
fn stretches(problem: &Problem, vertices: &[usize]) -> Vec<f64> {
    let seed = vertices[0];
    let rest: Vec<f64> = vertices.iter().map(|&i| problem.rest[seed].distance(problem.rest[i])).collect();
    let mut sums = vec![0.0; vertices.len()];
    problem.visit_frames(vertices, |_, positions| {
        for ((sum, rest), p) in sums.iter_mut().zip(&rest).zip(positions) {
            let off = (positions[0] - *p).as_dvec3().length() - rest;
            *sum += off * off;
        }
    });
    sums.iter().map(|sum| (sum / problem.frames() as f64).sqrt()).collect()
}

/// As [`patches`], for many of them: vertices are found in a tree, and sorted by their errors once.
pub(crate) fn many_patches(problem: &Problem, mut errors: Vec<f64>, count: usize, patch: usize) -> Vec<Vec<usize>> {
    let tree = Points::new(problem.rest.iter().copied().zip(0..));
    let mut order: Vec<usize> = (0..errors.len()).filter(|&i| errors[i] > 0.0).collect();
    order.sort_by(|&a, &b| errors[b].total_cmp(&errors[a]).then(a.cmp(&b)));
    let mut next = order.into_iter();
    let mut worst: Vec<usize> = Vec::with_capacity(TRIES);
    let (mut patches, mut found) = (Vec::with_capacity(count), Vec::new());
    while patches.len() < count {
        worst.retain(|&i| errors[i] > 0.0);
        let missing = TRIES - worst.len();
        worst.extend(next.by_ref().filter(|&i| errors[i] > 0.0).take(missing));
        let mut score = |i: usize| {
            tree.nearest(problem.rest[i], patch, &mut found);
            found.iter().map(|(_, k)| errors[*k as usize]).sum::<f64>()
        };
        let mut best: Option<(f64, usize)> = None;
        for &i in &worst {
            let score = score(i);
            if best.is_none_or(|(most, seed)| score > most || (score == most && i < seed)) {
                best = Some((score, i));
            }
        }
        let Some((_, seed)) = best else { break };
        tree.nearest(problem.rest[seed], patch, &mut found);
        // Where many vertices lie in one place, the seed may not be among the nearest of its own.
        errors[seed] = 0.0;
        found.iter().for_each(|(_, k)| errors[*k as usize] = 0.0);
        patches.push(found.iter().map(|(_, k)| *k as usize).collect());
    }
    patches
}

/// Principal axes of some vertices in the rest pose: where scale acts if the bone has any.
fn principal_axes(problem: &Problem, members: &[usize]) -> DMat3 {
    let center = members.iter().map(|&i| problem.rest[i]).sum::<DVec3>() / members.len() as f64;
    let outer = |p: DVec3| DMat3::from_cols(p * p.x, p * p.y, p * p.z);
    rotation_svd(&members.iter().map(|&i| outer(problem.rest[i] - center)).sum()).v
}

/// The vertex whose surroundings hold the most error, among the worst few.
fn worst_seed(problem: &Problem, errors: &[f64], patch: usize) -> Option<usize> {
    let mut order: Vec<usize> = (0..errors.len()).filter(|&i| errors[i] > 0.0).collect();
    let tries = order.len().min(TRIES);
    if tries == 0 {
        return None;
    }
    order.select_nth_unstable_by(tries - 1, |&a, &b| errors[b].total_cmp(&errors[a]).then(a.cmp(&b)));
    let score = |i: usize| nearest(problem, i, patch).iter().map(|&k| errors[k]).sum::<f64>();
    let mut scored: Vec<(f64, usize)> = order[..tries].par_iter().map(|&i| (score(i), i)).collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    scored.first().map(|s| s.1)
}

/// The `count` vertices nearest to `seed` in the rest pose, itself included.
pub(crate) fn nearest(problem: &Problem, seed: usize, count: usize) -> Vec<usize> {
    let mut all: Vec<(f64, usize)> =
        problem.rest.iter().enumerate().map(|(i, p)| (p.distance_squared(problem.rest[seed]), i)).collect();
    let count = count.clamp(1, all.len());
    if count < all.len() {
        all.select_nth_unstable_by(count - 1, |a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    }
    all[..count].iter().map(|&(_, i)| i).collect()
}

/// [F] best rigid motion of some vertices from their present rest positions.
pub(crate) fn rigid_motion(problem: &Problem, rest: &[DVec3], members: &[usize]) -> Vec<[[f64; 4]; 3]> {
    let count = members.len() as f64;
    let rest_center = members.iter().map(|&i| rest[i]).sum::<DVec3>() / count;
    let mut motion = Vec::with_capacity(problem.frames());
    problem.visit_frames(members, |_, positions| {
        let center = positions.iter().map(|p| p.as_dvec3()).sum::<DVec3>() / count;
        let mut h = DMat3::ZERO;
        for (&i, position) in members.iter().zip(positions) {
            let (p, q) = (rest[i] - rest_center, position.as_dvec3() - center);
            h += DMat3::from_cols(q * p.x, q * p.y, q * p.z);
        }
        let r = nearest_rotation(&h);
        let shift = center - r * rest_center;
        motion.push(std::array::from_fn(|a| [r.x_axis[a], r.y_axis[a], r.z_axis[a], shift[a]]));
    });
    motion
}

/// Bones to remove: least cost first, at most `count`, no two of which share vertices noticeably. The first `locked` bones stay.
pub(crate) fn least_useful(costs: &[f64], second: &SecondMoments, locked: usize, count: usize) -> Vec<usize> {
    let b = costs.len();
    let mut order: Vec<usize> = (locked..b).collect();
    order.sort_by(|&x, &y| costs[x].total_cmp(&costs[y]).then(x.cmp(&y)));
    let mut out: Vec<usize> = Vec::new();
    let mut barred = vec![false; b];
    for j in order {
        if out.len() == count {
            break;
        }
        if !barred[j] {
            out.push(j);
            for (k, block) in &second.of[j].others {
                barred[*k] |= block[3][3] > 0.05 * second.mass(j).min(second.mass(*k));
            }
        }
    }
    out
}

/// Removes bones from motion and weights.
pub(crate) fn remove(motion: &Motion, skin: &mut Skin, gone: &[usize]) -> Motion {
    skin.remove(motion.bones, gone);
    let mut stays = vec![true; motion.bones];
    gone.iter().for_each(|&j| stays[j] = false);
    let kept: Vec<usize> = (0..motion.bones).filter(|&j| stays[j]).collect();
    motion.select(&kept)
}
