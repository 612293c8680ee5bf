//! Skinning mesh animations [James2005, as Course2014 s.1.4, s.3.3, Le2014 s.3.10.2 and Kavan2010 tell it].
//!
//! 1. `turning`: each triangle's rotations over all frames are one point, by polar decomposition of its deformation
//!    gradients [Course2014 s.1.4];
//! 2. `cluster::mean_shift` gathers triangles that turn alike; the bandwidth decides how many clusters there are;
//! 3. the vertices of a cluster's triangles give its bone's motion, rigid or affine;
//! 4. weights once, on the K bones that alone predict a vertex best: non-negative least squares with one row more that
//!    asks for a sum of 1, then scaled to it [Course2014 eq. 40].
//!
//! The rest pose is the first frame, as in the comparison of 2010, unless the input's is to be kept.
//!
//! Left open by the papers and chosen here: a cluster needs 40 triangles to be a bone. With a number of bones the
//! bandwidth is widened from the published one as long as there are too many; where there are too few, smaller clusters
//! will do; the largest are kept. Deviation: clusters are found on at most [`MOST_TRIANGLES`] triangles and
//! [`MOST_FRAMES`] frames.

mod turning;

use crate::baselines::frame::{self, Attempt, Rest, Solved, cluster_motion, prepare, refuse_smooth, with_bones};
use crate::baselines::products::{Part, Quadratic, Vertex, for_each_vertex};
use crate::cluster::mean_shift::{Clusters, mean_shift};
use crate::mesh::sequence::MeshSequence;
use crate::observer::Observer;
use crate::skinning::bone_step::BoneModel;
use crate::skinning::descent::State;
use crate::skinning::motion::Motion;
use crate::skinning::params::{BoneCount, FitError, FitParams, Fitted, StopReason};
use crate::skinning::pass;
use crate::skinning::problem::Problem;
use crate::skinning::run::Run;
use crate::skinning::skin::Skin;
use crate::solve::nnls::Nnls;
use turning::Turning;

/// Triangles that are clustered.
const MOST_TRIANGLES: usize = 2000;

/// Frames in which their rotations are compared.
const MOST_FRAMES: usize = 40;

/// Share of the triangles that make a bone where larger ones are too few.
const LEAST_SHARE: f64 = 0.002;

/// Bandwidth unless given [Le2014 s.3.10.2]: entries of rotation matrices may differ by so much on average.
const BANDWIDTH: f64 = 0.05;

/// By how much it widens, or narrows, from one try to the next.
const WIDER: f64 = 4.0 / 3.0;

/// Bandwidths that are tried, half of them to each side: 0.005 to 0.5.
const TRIES: i32 = 16;

/// Weight of the row that asks for a sum of 1, over the mean length of the other columns.
const SUM_ROW: f64 = 1.0;

/// Fits bones by the method of 2005.
pub(crate) fn sma(
    sequence: &MeshSequence,
    params: &FitParams,
    observer: &mut dyn Observer,
) -> Result<Fitted, FitError> {
    refuse_smooth(params)?;
    let mut run = Run::new(params, observer);
    run.stage("prepare", None)?;
    let problem = run.timed("normalise", || prepare(sequence, params, Rest::FirstFrame));
    run.stage("rotations of triangles", None)?;
    let turning = Turning::new(&problem, &sequence.surface().topology, MOST_TRIANGLES, MOST_FRAMES)?;
    let prepare_secs = run.seconds();
    let mut warnings = Vec::new();
    let solved = match (params.bandwidth, params.bones) {
        (Some(bandwidth), _) => of_bandwidth(&problem, &turning, bandwidth, params, &mut run)?,
        (None, BoneCount::Auto) => of_bandwidth(&problem, &turning, BANDWIDTH, params, &mut run)?,
        (None, bones) => with_bones(bones, sequence.vertex_count(), &mut run, &mut warnings, |count, run| {
            let labels = search(&turning, count, run)?;
            decompose(&problem, &turning, &labels, count, params, run)
        })?,
    };
    Ok(frame::fitted(sequence, &problem, solved, warnings, prepare_secs, run))
}

/// As many bones as one bandwidth gives.
fn of_bandwidth(
    problem: &Problem,
    turning: &Turning,
    bandwidth: f64,
    params: &FitParams,
    run: &mut Run<'_>,
) -> Result<Solved, FitError> {
    run.stage("mean shift", Some(1))?;
    let clusters = run.timed("mean shift", || mean_shift(&turning.points, turning.reach(bandwidth)));
    let count = significant(&clusters, turning.large_share()).clamp(1, crate::skinning::params::MAX_BONES);
    decompose(problem, turning, &clusters.labels, count, params, run)
}

/// Clusters with this share of the triangles or more.
fn significant(clusters: &Clusters, share: f64) -> usize {
    let least = (share * clusters.labels.len() as f64).ceil() as usize;
    clusters.sizes.iter().filter(|&&size| size >= least).count()
}

/// [M] clusters of which the first `count` are bones.
fn search(turning: &Turning, count: usize, run: &mut Run<'_>) -> Result<Vec<usize>, FitError> {
    run.stage("mean shift", Some(TRIES as usize))?;
    let of = |widened: i32, run: &mut Run<'_>| {
        let reach = turning.reach(BANDWIDTH * WIDER.powi(widened));
        let found = run.timed("mean shift", || mean_shift(&turning.points, reach));
        run.step().map(|()| found)
    };
    let mut found = of(0, run)?;
    let large = |found: &Clusters| significant(found, turning.large_share());
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
    // Too few: smaller ones will do, if need be with narrower bandwidths, wider ones, narrower by more and so on.
    let mut most = 0;
    for k in 0..=TRIES {
        if k > 0 {
            found = of(if k % 2 == 1 { -(k + 1) / 2 } else { k / 2 }, run)?;
        }
        let bones = significant(&found, LEAST_SHARE);
        if bones >= count {
            return Ok(found.labels);
        }
        most = most.max(bones);
    }
    Err(FitError::Unsuited(format!(
        "the method sma finds no {count} bones here: no bandwidth gives more than {most} clusters of triangles that turn alike"
    )))
}

/// Bones of the first `count` clusters and weights for them.
fn decompose(
    problem: &Problem,
    turning: &Turning,
    labels: &[usize],
    count: usize,
    params: &FitParams,
    run: &mut Run<'_>,
) -> Result<Solved, FitError> {
    run.stage("bones and weights", Some(1))?;
    let of_vertices = turning.vertex_labels(problem.vertices(), labels, count);
    let motion = run.timed("bones", || cluster_motion(problem, &of_vertices, count, params.bone_kind));
    let slots = params.influences.unwrap_or(count).min(count);
    let mut skin = Skin::rigid(slots, &vec![0; problem.vertices()], problem.rest.clone());
    run.timed("weights", || weigh(problem, &motion, &mut skin));
    let e_rms = problem.e_rms(pass::gather(problem, &motion, &skin).squared_error);
    run.round(count, e_rms)?;
    let model = BoneModel::new(params.bone_kind, count, 1);
    let solved = Solved { state: State { motion, skin, model }, stop: StopReason::MaxIterations, rounds: 1, e_rms };
    debug_assert_eq!(solved.bones(), count);
    Ok(solved)
}

/// Buffers for one vertex.
struct Solver {
    nnls: Nnls,
    /// [B, B] and [B]: the error as a quadratic in all weights.
    gram: Vec<f64>,
    linear: Vec<f64>,
    order: Vec<usize>,
    part: Part,
}

impl Solver {
    fn new(bones: usize, slots: usize) -> Self {
        Self {
            nnls: Nnls::new(slots),
            gram: vec![0.0; bones * bones],
            linear: vec![0.0; bones],
            order: Vec::with_capacity(bones),
            part: Part::new(slots),
        }
    }

    fn vertex(&mut self, quadratic: &Quadratic, mut vertex: Vertex<'_>) -> f64 {
        let Self { nnls, gram, linear, order, part } = self;
        let b = quadratic.bones;
        quadratic.load(vertex.y, &vertex.homogeneous(), gram, linear);
        let alone = |j: usize| gram[j * b + j] - 2.0 * linear[j];
        order.clear();
        order.extend(0..b);
        order.sort_by(|&x, &y| alone(x).total_cmp(&alone(y)).then(x.cmp(&y)));
        part.load(order.iter().copied(), gram, linear);
        let (n, stride) = (part.bones.len(), part.stride());
        // [Course2014 eq. 40] the row c (1 .. 1) w = c.
        let c = SUM_ROW * (0..n).map(|p| part.gram[p * stride + p]).sum::<f64>() / n as f64;
        (0..n).for_each(|p| (0..n).for_each(|r| part.gram[p * stride + r] += c));
        (0..n).for_each(|p| part.linear[p] += c);
        part.weights.resize(n, 0.0);
        nnls.solve(&part.gram, stride, &part.linear, &mut part.weights);
        let sum: f64 = part.weights.iter().sum();
        if sum > 0.0 {
            part.weights.iter_mut().for_each(|w| *w /= sum);
        } else {
            part.weights[0] = 1.0;
        }
        let mut sorted: Vec<(usize, f64)> = part.influences().collect();
        sorted.sort_by(|x, y| y.1.total_cmp(&x.1));
        vertex.set(sorted.into_iter());
        0.0
    }
}

fn weigh(problem: &Problem, motion: &Motion, skin: &mut Skin) {
    let (quadratic, slots) = (Quadratic::new(motion), skin.slots);
    let make = || Solver::new(motion.bones, slots);
    for_each_vertex(problem, motion, skin, make, |solver, vertex| solver.vertex(&quadratic, vertex));
}
