//! Skinning mesh animations [James2005, as described in Course2014 s.1.4, s.3.3, Le2014 s.3.10.2 and Kavan2010].
//!
//! 1. `rotations`: each triangle's rotations over all frames are one point, by polar decomposition of its deformation
//!    gradients [Course2014 s.1.4];
//! 2. `cluster::mean_shift` finds triangles that rotate alike; the bandwidth decides how many clusters there are;
//! 3. the vertices of a cluster's triangles give its bone's motion, rigid or affine;
//! 4. weights once, on the K bones that alone predict a vertex best: non-negative least squares with one more row, for a sum
//!    of 1, then scaled to it [Course2014 eq. 40].
//!
//! The rest pose is the first frame, as in the comparison of 2010, unless the input's is to be kept.
//!
//! Left open by the papers and chosen here: a cluster needs 40 triangles to be a bone. With a number of bones the
//! bandwidth is widened from the published one as long as there are too many; where there are too few, smaller clusters
//! are enough; the largest are kept. Deviation: clusters are found on at most [`MAX_TRIANGLES`] triangles and
//! [`MAX_FRAMES`] frames.

mod rotations;

use crate::baselines::published::{Attempt, FoundBones, Input, cluster_motion};
use crate::baselines::vertices::weigh;
use crate::cluster::mean_shift::{Clusters, mean_shift};
use crate::model::{keep_largest, normalise};
use crate::observer::{Cancelled, Stage};
use crate::skinning::{BoneCount, FitError, Form, MAX_PAIRED_BONES, Motion, Problem, Run, Skin, StopReason, pass};
use crate::solve::nnls::Nnls;
use rotations::TriangleRotations;

/// Triangles that are clustered.
const MAX_TRIANGLES: usize = 2000;

/// Frames in which their rotations are compared.
const MAX_FRAMES: usize = 40;

/// Share of the triangles that make a bone where larger ones are too few.
const MIN_SHARE: f64 = 0.002;

/// Bandwidth unless given [Le2014 s.3.10.2]: entries of rotation matrices may differ by so much on average.
const BANDWIDTH: f64 = 0.05;

/// By how much it widens, or narrows, from one try to the next.
const WIDER: f64 = 4.0 / 3.0;

/// Bandwidths that are tried, half of them to each side: 0.005 to 0.5.
const TRIES: i32 = 16;

/// Weight of the row for a sum of 1, over the mean length of the other columns.
const SUM_ROW: f64 = 1.0;

/// As many bones as the parameters say, or a bandwidth gives.
pub(super) fn fit(input: &Input, run: &mut Run<'_>) -> FoundBones {
    run.stage(Stage::RotationsOfTriangles, None)?;
    let rotations = TriangleRotations::new(&input.problem, input.topology(), MAX_TRIANGLES, MAX_FRAMES)?;
    run.prepared();
    match (input.params.bandwidth, input.params.bones) {
        (Some(bandwidth), _) => of_bandwidth(input, &rotations, bandwidth, run),
        (None, BoneCount::Auto) => of_bandwidth(input, &rotations, BANDWIDTH, run),
        _ => input.with_bones(run, |count, run| {
            let labels = search(&rotations, count, run)?;
            decompose(input, &rotations, &labels, count, run)
        }),
    }
}

/// As many bones as one bandwidth gives.
fn of_bandwidth(input: &Input, rotations: &TriangleRotations, bandwidth: f64, run: &mut Run<'_>) -> FoundBones {
    run.stage(Stage::MeanShift, Some(1))?;
    let clusters = shifted(rotations, bandwidth, run)?;
    let count = significant(&clusters, rotations.large_share()).clamp(1, MAX_PAIRED_BONES);
    decompose(input, rotations, &clusters.labels, count, run)
}

/// Clusters of one bandwidth.
fn shifted(rotations: &TriangleRotations, bandwidth: f64, run: &mut Run<'_>) -> Result<Clusters, Cancelled> {
    let reach = rotations.reach(bandwidth);
    let found = run.observed("mean shift", |run| mean_shift(&rotations.points, reach, &mut || run.report()))?;
    run.step().map(|()| found)
}

/// Clusters with this share of the triangles or more.
fn significant(clusters: &Clusters, share: f64) -> usize {
    let least = (share * clusters.labels.len() as f64).ceil() as usize;
    clusters.sizes.iter().filter(|&&size| size >= least).count()
}

/// [M] clusters of which the first `count` are bones.
fn search(rotations: &TriangleRotations, count: usize, run: &mut Run<'_>) -> Result<Vec<usize>, FitError> {
    run.stage(Stage::MeanShift, Some(TRIES as usize))?;
    let of = |widened: i32, run: &mut Run<'_>| shifted(rotations, BANDWIDTH * WIDER.powi(widened), run);
    let mut found = of(0, run)?;
    let large = |found: &Clusters| significant(found, rotations.large_share());
    if large(&found) >= count {
        // Too many: wider as long as they become fewer and are enough.
        for widened in 1..=TRIES / 2 {
            let wider = of(widened, run)?;
            if large(&wider) < count || large(&wider) > large(&found) {
                break;
            }
            found = wider;
        }
        return Ok(found.labels);
    }
    // Too few: smaller ones count too, if need be with narrower bandwidths, wider ones, narrower by more and so on.
    let mut most = 0;
    for k in 0..=TRIES {
        if k > 0 {
            found = of(if k % 2 == 1 { -(k + 1) / 2 } else { k / 2 }, run)?;
        }
        let bones = significant(&found, MIN_SHARE);
        if bones >= count {
            return Ok(found.labels);
        }
        most = most.max(bones);
    }
    Err(FitError::Unsuited(format!(
        "the method sma finds no {count} bones here: no bandwidth gives more than {most} clusters of triangles that rotate alike"
    )))
}

/// Bones of the first `count` clusters and weights for them.
fn decompose(
    input: &Input,
    rotations: &TriangleRotations,
    labels: &[usize],
    count: usize,
    run: &mut Run<'_>,
) -> FoundBones {
    let (problem, kind) = (&input.problem, input.params.bone_kind);
    run.stage(Stage::BonesAndWeights, Some(1))?;
    let of_vertices = rotations.vertex_labels(problem.vertices(), labels, count);
    let motion = run.timed("bones", || cluster_motion(problem, &of_vertices, count, kind));
    let mut skin = Skin::rigid(input.slots(count), &vec![0; problem.vertices()], problem.rest.clone());
    run.observed("weights", |run| weights(problem, &motion, &mut skin, run))?;
    let e_rms = problem.e_rms(pass::gather(problem, &motion, &skin).squared_error);
    run.round(count, e_rms)?;
    Ok(Attempt::new(motion, skin, kind, StopReason::MaxIterations, 1, e_rms))
}

/// Weights on the K bones that alone predict a vertex best.
fn weights(problem: &Problem, motion: &Motion, skin: &mut Skin, run: &mut Run<'_>) -> Result<(), Cancelled> {
    let (b, slots) = (motion.bones, skin.slots);
    weigh(
        problem,
        motion,
        skin,
        run,
        || Nnls::new(slots),
        |nnls, solver, _| {
            let mut row = solver.by_own_error(0..b);
            row.truncate(slots);
            let n = row.len();
            // [Course2014 eq. 40] the row c (1 .. 1) w = c.
            let c = SUM_ROW * row.iter().map(|&(j, _)| solver.form.diagonal(j)).sum::<f64>() / n as f64;
            let gram: Vec<f64> = (0..n * n).map(|at| solver.form.gram[row[at / n].0 * b + row[at % n].0] + c).collect();
            let linear: Vec<f64> = row.iter().map(|&(j, _)| solver.linear[j] + c).collect();
            let mut weights = vec![0.0; n];
            nnls.solve(&gram, n, &linear, &mut weights);
            // All weight stays on the best bone where none helps.
            if weights.iter().any(|w| *w > 0.0) {
                row.iter_mut().zip(weights).for_each(|((_, w), found)| *w = found);
            }
            normalise(&mut row);
            keep_largest(&mut row, slots);
            row
        },
    )
}
