//! Learning skeletons for shape and pose [Hasler2010, as described in Course2014 s.2.2 and Le2014 s.3.10.2], up to the joints.
//!
//! 1. `cluster::spectral`: vertices that keep their distances, with local scales;
//! 2. ten rounds of weights, sparse by an L1 penalty and not negative but not bound to sum to 1, and of bones that are
//!    drawn towards rotations;
//! 3. weights are scaled to sum 1.
//!
//! With weights that are not negative the L1 norm is linear, so the penalty goes into the right side of non-negative
//! least squares: exact, where the papers use a general minimiser. Nothing bounds the number of influences.
//!
//! Deviations: bones alternate between their nearest rotations and least squares with a pull towards them
//! ([`STIFFNESS`]), where the paper runs Levenberg-Marquardt on the same penalty; at the end they are rotations. Weights
//! are scaled before every update of the bones, not at the very end alone: else bones grow round by round to make up
//! for what the penalty takes, which is left over once weights are scaled.
//! Affinities are dense in the number of vertices, which is what kept the paper's method from more than 10,000: above
//! [`MAX_SEEDS`] vertices, that many seeds spread over the mesh stand for all of them. Weights are dense in vertices
//! and bones, and refused where they would not fit. With `--influences` the largest weights are kept.

use faer::linalg::solvers::Solve;
use faer::{Mat, Side};
use glam::{DAffine3, DVec3};

use crate::baselines::published::{Attempt, FoundBones, Input, cluster_motion};
use crate::baselines::vertices::weigh;
use crate::cluster::spectral;
use crate::mesh::Adjacency;
use crate::model::{BoneKind, Row, keep_largest, normalise};
use crate::observer::{Cancelled, Stage};
use crate::skinning::{FitError, Form, Moments, Motion, Problem, Run, Skin, pass};
use crate::solve::check::check_memory;
use crate::solve::matrix::rows;
use crate::solve::nnls::Nnls;
use crate::solve::transform::nearest_rotation;

/// Vertices between which affinities are held: a matrix of their square, 18 MB, and its eigenvectors. More only where
/// there are more bones than this, at most [`crate::skinning::params::MAX_PAIRED_BONES`]: 34 MB.
const MAX_SEEDS: usize = 1500;

/// Rounds of weights and bones [Course2014 s.2.2].
const ROUNDS: usize = 10;

/// Weight of the L1 penalty with columns of length 1 [Le2014 s.3.10.2].
const SPARSENESS: f64 = 0.1;

/// Pull to rotations over the squared weight on a bone, in units of the model's radius: as much as of vertices at so
/// much of a radius about the bone's centre.
const STIFFNESS: f64 = 1.0;

/// Weights below this share of a vertex's sum are treated as zero.
const NEGLIGIBLE: f64 = 1e-3;

/// Rounds with `count` bones.
pub(super) fn decompose(input: &Input, count: usize, run: &mut Run<'_>) -> FoundBones {
    let problem = &input.problem;
    // Nothing bounds the influences: a weight and a bone for every pair.
    check_memory("weights of the method lssp", problem.vertices(), count, 10).map_err(FitError::Unsuited)?;
    run.stage(Stage::SpectralClusters, None)?;
    let seeds = problem.vertices().min(MAX_SEEDS.max(count));
    let adjacency = Adjacency::new(input.topology(), problem.vertices());
    let labels =
        run.observed("clusters", |run| spectral::cluster(problem, &adjacency, seeds, count, true, &mut || run.step()))?;
    let labels: Vec<Option<u16>> = labels.into_iter().map(Some).collect();
    let mut motion = cluster_motion(problem, &labels, count, BoneKind::Rigid);
    let mut skin = Skin::rigid(count, &vec![0; problem.vertices()], problem.rest.clone());
    let mut rule = input.stop_rule(ROUNDS, 0.0);
    run.stage(Stage::WeightsAndBones, Some(rule.rounds))?;
    let stop = loop {
        run.observed("weights", |run| sparse_weights(problem, &motion, &mut skin, run))?;
        let scaled = normalised(&skin, count);
        let moments = run.timed("sums", || pass::gather(problem, &motion, &scaled));
        run.timed("bones", || soft_rotations(&mut motion, &moments));
        let e_rms = problem.e_rms(moments.squared_error);
        run.round(count, e_rms)?;
        if let Some(stop) = rule.after(e_rms, run) {
            run.timed("bones", || rotations(&mut motion, &moments));
            break stop;
        }
    };
    run.observed("weights", |run| sparse_weights(problem, &motion, &mut skin, run))?;
    let skin = normalised(&skin, input.slots(count));
    let e_rms = problem.e_rms(pass::gather(problem, &motion, &skin).squared_error);
    run.round(count, e_rms)?;
    Ok(Attempt::new(motion, skin, BoneKind::Rigid, stop, rule.count, e_rms))
}

/// Weights of every vertex: `min |A w - v|^2 + rho sum_j |a_j| w_j`, `w >= 0`.
fn sparse_weights(problem: &Problem, motion: &Motion, skin: &mut Skin, run: &mut Run<'_>) -> Result<(), Cancelled> {
    let b = motion.bones;
    let make = || (Nnls::new(b), vec![0.0; b]);
    weigh(problem, motion, skin, run, make, |(nnls, weights), solver, _| {
        (0..b).for_each(|j| solver.linear[j] -= 0.5 * SPARSENESS * solver.form.diagonal(j).sqrt());
        weights.fill(0.0);
        nnls.solve(&solver.form.gram, b, &solver.linear, weights);
        let mut row: Row = weights.iter().copied().enumerate().filter(|(_, w)| *w > 0.0).collect();
        keep_largest(&mut row, b);
        if row.is_empty() { solver.single() } else { row }
    })
}

/// Least squares over all bones at once, each drawn to its nearest rotation in every frame.
fn soft_rotations(motion: &mut Motion, moments: &Moments) {
    let (b, length) = (motion.bones, motion.length);
    let side = 4 * b;
    let dense = moments.second.dense();
    let second = rows(&dense, side);
    // The pull acts on the linear part alone: rows 0 to 3 B.
    let pull: Vec<f64> = (0..3 * b).map(|r| STIFFNESS * second[(3 * b + r % b, 3 * b + r % b)]).collect();
    let mut system = second.to_owned();
    let largest = (0..side).map(|r| second[(r, r)]).fold(0.0, f64::max);
    (0..side).for_each(|r| system[(r, r)] += 1e-9 * largest + 1e-12 + pull.get(r).copied().unwrap_or(0.0));
    let Ok(factor) = system.llt(Side::Lower) else { return };
    let targets = nearest_rotations(motion);
    let right = Mat::from_fn(side, length, |r, l| {
        let at = r * length + l;
        let pull = if r < 3 * b { pull[r] * (targets.rows()[at] - motion.rows()[at]) } else { 0.0 };
        moments.residual[at] + pull
    });
    let step = factor.solve(right);
    motion.rows_mut().iter_mut().enumerate().for_each(|(at, x)| *x += step[(at / length, at % length)]);
}

/// The linear parts' nearest rotations; translations as they are.
fn nearest_rotations(motion: &Motion) -> Motion {
    let mut out = motion.clone();
    for (j, t) in (0..motion.bones).flat_map(|j| (0..motion.frames()).map(move |t| (j, t))) {
        let m = motion.transform(j, t);
        out.set_transform(j, t, &DAffine3 { matrix3: nearest_rotation(&m.matrix3), ..m });
    }
    out
}

/// Makes bones rotations about the centres of their vertices, which stay where they were.
fn rotations(motion: &mut Motion, moments: &Moments) {
    let frames = motion.frames();
    for (j, t) in (0..motion.bones).flat_map(|j| (0..frames).map(move |t| (j, t))) {
        let own = &moments.second.of[j].own[3];
        let centre = if own[3] > 0.0 { DVec3::new(own[0], own[1], own[2]) / own[3] } else { DVec3::ZERO };
        let m = motion.transform(j, t);
        let matrix3 = nearest_rotation(&m.matrix3);
        let translation = m.translation + (m.matrix3 - matrix3) * centre;
        motion.set_transform(j, t, &DAffine3 { matrix3, translation });
    }
}

/// At most `slots` weights a vertex, without negligible ones, scaled to sum 1.
fn normalised(skin: &Skin, slots: usize) -> Skin {
    let row = |i: usize| {
        let total: f64 = skin.of(i).map(|(_, w)| w).sum();
        let mut row: Row = skin.of(i).filter(|(_, w)| *w > NEGLIGIBLE * total).take(slots).collect();
        normalise(&mut row);
        row
    };
    let rows: Vec<Row> = (0..skin.rest.len()).map(row).collect();
    let mut out = Skin::empty(rows.iter().map(Vec::len).max().unwrap_or(1).max(1), skin.rest.clone());
    rows.into_iter().enumerate().for_each(|(i, row)| out.set(i, row));
    out
}
