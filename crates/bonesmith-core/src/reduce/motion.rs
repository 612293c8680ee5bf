//! Bones that move to suit the fewer weights.
//!
//! Affine bones have their best motion for given weights in one linear solve [Kavan2010 s.4.2]; it alternates with sweeps
//! over the weights. Other kinds of bones are left to [`crate::refit::refit`].

use faer::linalg::solvers::Solve as _;
use faer::{Mat, MatMut, MatRef, Side};
use rayon::prelude::*;

use crate::deform;
use crate::mesh::sequence::{MeshSequence, RawSequence};
use crate::mesh::topology::Adjacency;
use crate::model::rig::{BoneKind, Rig};
use crate::model::weights::Row;
use crate::observer::Stages;
use crate::reduce::smooth_residuals::SmoothResiduals;
use crate::reduce::{ReduceError, ReduceInfo, ReduceParams, with_rows};
use crate::refit::{Locks, RefitParams, Subject, refit};
use crate::skinning::poses::{PoseError, Poses};

/// Rounds over motion and weights.
const ROUNDS: usize = 16;
/// Pull towards the present motion, relative to the mean of the diagonal: what no vertex sees stays.
const RIDGE: f64 = 1e-9;
/// Frames whose motion is solved at once, as columns.
const COLUMNS: usize = 64;

/// `rig` with at most `k` influences and the motion of its first clip refitted, from the weights `rows` on.
pub(crate) fn refit_motion(
    rig: &Rig,
    rows: Vec<Row>,
    examples: Option<&MeshSequence>,
    k: usize,
    params: &ReduceParams,
    info: &mut ReduceInfo,
    stages: &mut Stages<'_>,
) -> Result<Rig, ReduceError> {
    match rig.kind {
        BoneKind::Affine => affine(rig, rows, examples, k, params, info, stages),
        _ => other(rig, rows, examples, k, params, info, stages),
    }
}

fn affine(
    rig: &Rig,
    mut rows: Vec<Row>,
    examples: Option<&MeshSequence>,
    k: usize,
    params: &ReduceParams,
    info: &mut ReduceInfo,
    stages: &mut Stages<'_>,
) -> Result<Rig, ReduceError> {
    let mut poses = Poses::new(rig, examples)?;
    stages.begin("weights and bones", Some(ROUNDS))?;
    for round in 0..ROUNDS {
        solve(&mut poses, &rows);
        let adjacency = Adjacency::new(&rig.surface.topology, rig.vertex_count());
        let residuals = SmoothResiduals::new(poses, adjacency, params.smooth, stages)?;
        stages.at(round, Some(residuals.e_rms(&rows)))?;
        residuals.sweep(&mut rows, k, 1, stages)?;
        poses = residuals.poses;
    }
    info.iterations += ROUNDS;
    let mut reduced = with_rows(rig, &rows, k);
    if let Some(clip) = reduced.clips.first_mut() {
        clip.posed_from_rest = poses.motion.transforms(&poses.problem.space);
    }
    Ok(reduced)
}

/// Best motion for given weights: `(X X^T) H = X V` with `x_i[c B + j] = w_ij u_ic`.
fn solve(poses: &mut Poses, rows: &[Row]) {
    let (b, length) = (poses.motion.bones, poses.problem.length);
    let side = 4 * b;
    let columns = |i: usize| -> Vec<(usize, f64)> {
        let of_bone = |&(j, w): &(usize, f64)| (0..4).map(move |c| (c, j, w));
        rows[i].iter().flat_map(of_bone).map(|(c, j, w)| (c * b + j, w * poses.rest(i)[c])).collect()
    };
    let mut left = vec![0.0; side * side];
    for i in 0..rows.len() {
        let x = columns(i);
        for &(p, xp) in &x {
            x.iter().for_each(|&(q, xq)| left[p * side + q] += xp * xq);
        }
    }
    let trace: f64 = (0..side).map(|p| left[p * side + p]).sum();
    let ridge = RIDGE * trace / side as f64 + 1e-300;
    (0..side).for_each(|p| left[p * side + p] += ridge);
    let Ok(factor) = MatRef::from_row_major_slice(&left, side, side).llt(Side::Lower) else { return };
    // By blocks of columns: the same sums whoever makes them.
    let starts: Vec<usize> = (0..length).step_by(COLUMNS).collect();
    let solved: Vec<Mat<f64>> = starts
        .par_iter()
        .map(|&start| {
            let width = COLUMNS.min(length - start);
            let mut right: Vec<f64> = (0..side * width)
                .map(|at| ridge * poses.motion.rows()[(at / width) * length + start + at % width])
                .collect();
            for i in 0..rows.len() {
                let target = &poses.problem.trajectory(i)[start..start + width];
                for (p, x) in columns(i) {
                    let out = &mut right[p * width..(p + 1) * width];
                    out.iter_mut().zip(target).for_each(|(sum, v)| *sum += x * f64::from(*v));
                }
            }
            let mut right = MatMut::from_row_major_slice_mut(&mut right, side, width).to_owned();
            factor.solve_in_place(right.as_mut());
            right
        })
        .collect();
    for (&start, block) in starts.iter().zip(&solved) {
        for p in 0..side {
            (0..block.ncols()).for_each(|c| poses.motion.rows_mut()[p * length + start + c] = block[(p, c)]);
        }
    }
}

/// Rigid and trs bones: the fit that starts from a rig, then errors smoothed once more.
fn other(
    rig: &Rig,
    rows: Vec<Row>,
    examples: Option<&MeshSequence>,
    k: usize,
    params: &ReduceParams,
    info: &mut ReduceInfo,
    stages: &mut Stages<'_>,
) -> Result<Rig, ReduceError> {
    let Some(clip) = rig.clips.first() else { return Err(PoseError::NoClip.into()) };
    let positions = |t: usize| match examples {
        Some(examples) => examples.frame(t).to_vec(),
        None => deform::lbs(&rig.rest, &rig.weights, clip.frame(t)),
    };
    // The rest pose of the rig, which weights and bones belong to, not that of the examples.
    let target = RawSequence { times_secs: Vec::new(), ..rig.animation(positions).unwrap_or_default() };
    let target = MeshSequence::try_from(target).map_err(ReduceError::Target)?;
    let mut moved = with_rows(rig, &rows, k);
    let subject = Subject { sequence: &target, motion: Some(&clip.posed_from_rest), binds: None };
    let refit_params = RefitParams { influences: Some(k), ..RefitParams::default() };
    let refitted = refit(&moved, &[subject], &Locks::default(), &refit_params, stages.observer())?;
    info.iterations += refitted.info.iterations;
    if let Some(found) = refitted.rigs.into_iter().next() {
        moved.weights = found.weights;
        if let (Some(own), Some(new)) = (moved.clips.first_mut(), found.clips.into_iter().next()) {
            own.posed_from_rest = new.posed_from_rest;
        }
    }
    let poses = Poses::new(&moved, Some(&target))?;
    let rows = crate::reduce::bonesmith(&moved, poses, k, params, info, stages)?;
    Ok(with_rows(&moved, &rows, k))
}
