//! First bones: rigid clusters by repeated splitting.
//!
//! Linde-Buzo-Gray splitting as in [Le2014 s.3.4]: a cluster is split at the vertex of largest error times distance
//! from the cluster's centre, then vertices go to the bone that predicts them best and bones are refitted, a few
//! times. Deviations: the split is by nearness to that vertex or to the centre; clusters without error are split by
//! size when more bones are needed; an emptied cluster gets half of another one. So the number of bones is exact.

use glam::DVec3;

use crate::model::rig::BoneKind;
use crate::observer::{Cancelled, Check};
use crate::skinning::bone_step::{self, BoneModel};
use crate::skinning::motion::Motion;
use crate::skinning::pass;
use crate::skinning::problem::Problem;
use crate::skinning::skin::Skin;
use crate::skinning::vertex_step::VertexParams;

/// Rounds of assignment and refitting after each doubling.
const ROUNDS: usize = 3;

/// Rigid clusters: motion of each and the bone of every vertex.
pub(crate) fn split(problem: &Problem, count: usize, check: Check<'_>) -> Result<(Motion, Vec<u16>), Cancelled> {
    let n = problem.vertices();
    let count = count.min(n);
    let mut labels = vec![0u16; n];
    let mut motion = Motion::identity(1, problem.frames());
    let mut errors = refit(problem, &mut motion, &mut labels, 1, check)?;
    while motion.bones < count {
        let clusters = motion.bones;
        let order = by_error(&errors, &labels, clusters);
        let more = (count - clusters).min(clusters.max(1));
        let mut members = vec![Vec::new(); clusters];
        labels.iter().enumerate().for_each(|(i, &j)| members[j as usize].push(i));
        let mut parents: Vec<usize> = (0..clusters).collect();
        for &j in &order {
            if parents.len() == clusters + more {
                break;
            }
            if split_cluster(problem, &errors, &mut labels, &members[j], (j, parents.len())) {
                parents.push(j);
            }
        }
        // Enough vertices exist (count <= n), so some cluster has two of them.
        debug_assert!(parents.len() > clusters);
        motion = motion.select(&parents);
        errors = refit(problem, &mut motion, &mut labels, ROUNDS, check)?;
        revive(problem, &errors, &mut labels, motion.bones);
        errors = refit(problem, &mut motion, &mut labels, 0, check)?;
    }
    Ok((motion, labels))
}

/// Refits motion to labels, then `rounds` times reassigns and refits; squared error of each vertex.
pub(crate) fn refit(
    problem: &Problem,
    motion: &mut Motion,
    labels: &mut [u16],
    rounds: usize,
    check: Check<'_>,
) -> Result<Vec<f32>, Cancelled> {
    let model = BoneModel::new(BoneKind::Rigid, motion.bones, 1);
    let mut skin = Skin::rigid(1, labels, problem.rest.clone());
    let mut moments = pass::gather(problem, motion, &skin);
    bone_step::update(motion, &moments, &model);
    for _ in 0..rounds {
        check()?;
        let params = VertexParams { slots: 1, newcomers: 0, min_gain: 0.0, move_rest: false, rounds: 0 };
        moments = pass::solve(problem, motion, &mut skin, params, None);
        bone_step::update(motion, &moments, &model);
    }
    labels.copy_from_slice(&skin.bones);
    check()?;
    Ok(pass::gather(problem, motion, &skin).per_vertex)
}

/// Clusters, largest total error first; then, where there is none, most vertices first.
fn by_error(errors: &[f32], labels: &[u16], clusters: usize) -> Vec<usize> {
    let mut total = vec![(0.0f64, 0usize); clusters];
    for (&e, &j) in errors.iter().zip(labels) {
        total[j as usize].0 += f64::from(e);
        total[j as usize].1 += 1;
    }
    let mut order: Vec<usize> = (0..clusters).collect();
    order.sort_by(|&a, &b| total[b].partial_cmp(&total[a]).unwrap_or(std::cmp::Ordering::Equal).then(a.cmp(&b)));
    order
}

/// Moves the vertices of cluster `from`, its `members`, that are nearer to its worst vertex than to its centre into cluster `to`.
fn split_cluster(
    problem: &Problem,
    errors: &[f32],
    labels: &mut [u16],
    members: &[usize],
    (from, to): (usize, usize),
) -> bool {
    if members.len() < 2 {
        return false;
    }
    let center = members.iter().map(|&i| problem.rest[i]).sum::<DVec3>() / members.len() as f64;
    let score = |i: usize| f64::from(errors[i]).sqrt() * problem.rest[i].distance(center);
    let largest = |f: &dyn Fn(usize) -> f64| {
        members.iter().copied().max_by(|&a, &b| f(a).total_cmp(&f(b)).then(b.cmp(&a))).unwrap_or(members[0])
    };
    let mut seed = largest(&score);
    if score(seed) <= 0.0 {
        seed = largest(&|i| problem.rest[i].distance(center));
    }
    for &i in members {
        let p = problem.rest[i];
        if i == seed || p.distance_squared(problem.rest[seed]) < p.distance_squared(center) {
            labels[i] = to as u16;
        }
    }
    // All in one point: the seed alone leaves.
    if members.iter().all(|&i| labels[i] as usize == to) {
        members[1..].iter().filter(|&&i| i != seed).for_each(|&i| labels[i] = from as u16);
        if members.iter().all(|&i| labels[i] as usize == to) {
            labels[members[0]] = from as u16;
        }
    }
    true
}

/// Gives every emptied cluster half of the worst one that can be split.
fn revive(problem: &Problem, errors: &[f32], labels: &mut [u16], clusters: usize) {
    let mut used = vec![false; clusters];
    labels.iter().for_each(|&j| used[j as usize] = true);
    for empty in (0..clusters).filter(|&j| !used[j]) {
        for from in by_error(errors, labels, clusters) {
            let members: Vec<usize> = (0..labels.len()).filter(|&i| labels[i] as usize == from).collect();
            if split_cluster(problem, errors, labels, &members, (from, empty)) {
                break;
            }
        }
    }
}
