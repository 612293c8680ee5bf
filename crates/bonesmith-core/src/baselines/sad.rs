//! Skinning arbitrary deformations [Kavan2007, as described in Kavan2010 s.2 and s.5]: nothing about the motion is clustered.
//!
//! 1. Bones are spread evenly over the rest pose: p-centers of its vertices;
//! 2. weights fall smoothly with the distance to the nearest K of them;
//! 3. transformations are the least squares solution for these weights, all bones together.
//!
//! The rest pose is the first frame, as in the comparison of 2010, unless the input's is to be kept.
//!
//! Left open by the descriptions and chosen here: centers are farthest points, each then moved to the middle
//! of its cell; the weight of center j is `(1 - d_j / d)^2` with `d` the distance of the first center that has no
//! share, scaled to sum 1; distances are straight lines in the rest pose (along the surface legs that touch would not
//! share bones, and errors on dancers would be a third of the published ones). Deviation: normal equations by Cholesky
//! (`skinning::bone_step`) instead of LSQR. Affine bones as in the comparison of 2010; rigid and trs ones are swept over until
//! they converge.

use glam::DVec3;

use crate::baselines::published::{Attempt, FoundBones, Input};
use crate::cluster::spread::centers;
use crate::model::BoneKind;
use crate::observer::{Cancelled, Stage};
use crate::skinning::{BoneModel, Motion, Problem, Run, Skin, bone_step, pass};

/// Rounds over bones that are not affine: affine ones are solved at once.
const SWEEP_ROUNDS: usize = 20;

/// A round that lowers E_RMS by less is the last.
const TOLERANCE: f64 = 1e-3;

/// Vertices whose weights are found between two reports of progress.
const VERTICES_AT_ONCE: usize = 1024;

/// `count` bones, spread over the rest pose.
pub(super) fn decompose(input: &Input, count: usize, run: &mut Run<'_>) -> FoundBones {
    let Input { params, problem, .. } = input;
    run.stage(Stage::SmoothWeights, None)?;
    let skin = run.observed("weights", |run| smooth_weights(&problem.rest, count, input.slots(count), run))?;
    let mut motion = Motion::identity(count, problem.frames());
    let (kind, affine) = (params.bone_kind, params.bone_kind == BoneKind::Affine);
    let mut rule = input.stop_rule(if affine { 1 } else { SWEEP_ROUNDS }, TOLERANCE);
    run.stage(Stage::Transformations, Some(rule.rounds))?;
    if affine {
        // A direction in which a bone's vertices have no extent follows the rigid motion: see `published::cluster_motion`.
        solve(problem, &mut motion, &skin, BoneKind::Rigid, run);
    }
    loop {
        let e_rms = solve(problem, &mut motion, &skin, kind, run);
        run.round(count, e_rms)?;
        if let Some(stop) = rule.after(e_rms, run) {
            return Ok(Attempt::new(motion, skin, kind, stop, rule.count, e_rms));
        }
    }
}

/// Transformations for these weights; the error afterwards.
fn solve(problem: &Problem, motion: &mut Motion, skin: &Skin, kind: BoneKind, run: &mut Run<'_>) -> f64 {
    let moments = run.timed("sums", || pass::gather(problem, motion, skin));
    let model = BoneModel::new(kind, motion.bones, 1);
    let gain = run.timed("bones", || bone_step::update(motion, &moments, &model));
    problem.e_rms(moments.squared_error - gain)
}

/// Weights that fall to 0 where the next center takes over.
fn smooth_weights(rest: &[DVec3], count: usize, slots: usize, run: &mut Run<'_>) -> Result<Skin, Cancelled> {
    let centers = centers(rest, count, &mut || run.report())?;
    let mut skin = Skin::rigid(slots, &vec![0; rest.len()], rest.to_vec());
    let mut order: Vec<usize> = Vec::with_capacity(count);
    for i in 0..rest.len() {
        if i.is_multiple_of(VERTICES_AT_ONCE) {
            run.report()?;
        }
        let distance = |j: usize| rest[centers[j]].distance(rest[i]);
        order.clear();
        order.extend(0..count);
        order.sort_by(|&a, &b| distance(a).total_cmp(&distance(b)).then(a.cmp(&b)));
        let reach = order.get(slots).map_or_else(|| 2.0 * distance(order[slots - 1]), |&j| distance(j));
        let weight = |j: usize| (1.0 - distance(j) / reach.max(1e-12)).max(0.0).powi(2);
        let shares: Vec<f64> = order[..slots].iter().map(|&j| weight(j)).collect();
        let sum: f64 = shares.iter().sum();
        for (k, (&j, share)) in order[..slots].iter().zip(&shares).enumerate() {
            let (bone, w) = (&mut skin.bones[i * slots + k], &mut skin.weights[i * slots + k]);
            // All centers as far as the next: the nearest has all weight.
            *w = if sum > 0.0 { share / sum } else { f64::from(u8::from(k == 0)) };
            *bone = if *w > 0.0 { j as u16 } else { 0 };
        }
    }
    Ok(skin)
}
