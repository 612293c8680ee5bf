//! Fewer influences per vertex, the same bones: the four published reductions and ours.
//!
//! | paper [Course2014 s.3] | here |
//! |---|---|
//! | k-largest, eq. 33-34 | [`largest`] |
//! | smooth, eq. 35 (its square is missing in print) | [`smooth`] |
//! | geometric, eq. 37-40 | [`geometric`] |
//! | Poisson, eq. 42-43 | [`poisson`] |
//! | - | `ours` |
//! | B_i | the bones of `Row` i |
//!
//! Deviations. Weights are on the simplex exactly in all methods: geometric reduction solves the constrained problem
//! itself where the paper appends the sum as one more equation and normalises afterwards (eq. 40), smooth and Poisson
//! reduction are solved as quadratic programs with their constraints. Smooth reduction leaves the single pose of
//! eq. 35c and 36 out: weights that sum to 1 keep a rig's rest pose by themselves, and for a cage four
//! equations more leave no freedom with four points, and often no non-negative solution. Geometric reduction chooses
//! among the bones that a vertex has, as [Le2014 s.4.4] says. Poisson reduction needs a set of bones, for which the text
//! gives no rule: it takes geometric reduction's. A Laplacian hardly sees what changes slowly over the mesh, so that the
//! exact minima of eq. 35 and 43 drift: both get a small anchor (`ANCHOR`), without which E is up to twice as large.

mod motion;
mod ours;
mod params;
mod simplex_qp;
#[cfg(test)]
mod tests;

use std::ops::ControlFlow;

use rayon::prelude::*;

use crate::mesh::sequence::MeshSequence;
use crate::mesh::topology::Adjacency;
use crate::model::rig::Rig;
use crate::model::weights::SparseWeights;
use crate::observer::{Observer, Progress};
use crate::skinning::poses::Poses;
use crate::skinning::quadratic::{self, Metric};

use crate::mesh::laplacian::LaplacianRows;
use crate::skinning::choice::{Form, InfluenceSolver, Row, normalise};
use ours::Ours;
use simplex_qp::{QpInfo, SimplexQp};

pub use crate::mesh::laplacian::Laplacian;
pub use params::*;

/// Smooth and Poisson reduction: pull towards the weights or poses themselves, beside the Laplacian's 1.
const ANCHOR: f64 = 3e-3;

/// Takes influences away until each vertex has at most `params.influences`.
///
/// Methods that look at poses take those of `examples`, frame by frame with the first clip, or without examples what
/// the rig itself makes of it.
pub fn reduce(
    rig: &Rig,
    examples: Option<&MeshSequence>,
    params: &ReduceParams,
    observer: &mut dyn Observer,
) -> Result<Reduced, ReduceError> {
    params.validate()?;
    let before = rig.weights.max_influences();
    let mut info = ReduceInfo { iterations: 0, converged: true, influences_before: before, nothing_to_do: false };
    // Examples that do not fit are refused whether the method looks at them or not.
    let poses = match params.method.needs_poses() || examples.is_some() {
        true => Some(Poses::new(rig, examples)?),
        false => None,
    };
    if before <= params.influences {
        info.nothing_to_do = true;
        return Ok(Reduced { rig: rig.clone(), info });
    }
    let mut stage = Stage { name: "reading the weights", observer };
    stage.report(0, None, None)?;
    let k = params.influences.min(rig.bone_count());
    let rows = match (params.method, poses) {
        (ReduceMethod::KLargest, _) => largest(rig, k),
        (ReduceMethod::Smooth, _) => smooth(rig, k, params.laplacian, &mut info, &mut stage)?,
        (ReduceMethod::Geometric, Some(poses)) => geometric(rig, &Metric::of_poses(&poses), k),
        (ReduceMethod::Poisson, Some(poses)) => poisson(rig, &poses, k, params.laplacian, &mut info, &mut stage)?,
        (ReduceMethod::Bonesmith, Some(poses)) => bonesmith(rig, poses, k, params, &mut info, &mut stage)?,
        (_, None) => unreachable!("poses were made above for methods that need them"),
    };
    let rig = match params.method == ReduceMethod::Bonesmith && params.refit_motion {
        true => motion::refit_motion(rig, rows, examples, k, params, &mut info, &mut stage)?,
        false => with_rows(rig, &rows, k),
    };
    Ok(Reduced { rig, info })
}

fn with_rows(rig: &Rig, rows: &[Row], k: usize) -> Rig {
    let mut weights = SparseWeights::new(rig.vertex_count(), k);
    rows.iter().enumerate().for_each(|(i, row)| weights.set(i, row));
    Rig { weights, ..rig.clone() }
}

/// Progress out, a wish to stop in.
struct Stage<'a> {
    name: &'static str,
    observer: &'a mut dyn Observer,
}

impl Stage<'_> {
    fn report(&mut self, step: usize, steps: Option<usize>, e_rms: Option<f64>) -> Result<(), ReduceError> {
        match self.observer.report(&Progress { stage: self.name, step, steps, e_rms }) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(crate::observer::Cancelled.into()),
        }
    }
}

/// The K largest weights of each vertex, scaled to 1.
fn largest(rig: &Rig, k: usize) -> Vec<Row> {
    let row = |i: usize| {
        let mut row: Row = rig.weights.of(i).take(k).map(|(j, w)| (j, f64::from(w))).collect();
        normalise(&mut row);
        row
    };
    (0..rig.vertex_count()).map(row).collect()
}

/// The K bones that alone predict best, and the best weights on them.
fn geometric(rig: &Rig, metric: &Metric, k: usize) -> Vec<Row> {
    let solve = |solver: &mut InfluenceSolver<_>, i: usize| {
        solver.load_vertex(metric, i);
        let q = metric.linear(i);
        // [Course2014 eq. 37] less |v|^2, which all bones share.
        let mut errors: Vec<(f64, usize)> =
            rig.weights.of(i).map(|(j, _)| (solver.form.diagonal(j) - 2.0 * q[j], j)).collect();
        errors.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        errors.truncate(k);
        let mut row: Row = errors.iter().enumerate().map(|(at, &(_, j))| (j, f64::from(at == 0))).collect();
        solver.reweigh(&mut row);
        row
    };
    (0..metric.vertices()).into_par_iter().map_init(InfluenceSolver::dense_form, solve).collect()
}

/// Bones of the K largest; weights whose Laplacian is that of the original weights.
fn smooth(
    rig: &Rig,
    k: usize,
    kind: Laplacian,
    info: &mut ReduceInfo,
    stage: &mut Stage<'_>,
) -> Result<Vec<Row>, ReduceError> {
    let squared = LaplacianRows::new(kind, &rig.surface.topology, &rig.rest).squared(ANCHOR);
    let rows = largest(rig, k);
    // c_ij = (Q w_j)_i of the original weights; the constant is w_j . Q w_j.
    let mut along = vec![0.0; rig.bone_count()];
    let mut constant = 0.0;
    let mut linear = Vec::with_capacity(rows.len());
    for (i, row) in rows.iter().enumerate() {
        for &(n, q) in &squared[i] {
            rig.weights.of(n as usize).for_each(|(j, w)| along[j] += q * f64::from(w));
        }
        linear.push(row.iter().map(|&(j, _)| along[j]).collect());
        constant += rig.weights.of(i).map(|(j, w)| f64::from(w) * along[j]).sum::<f64>();
        squared[i].iter().for_each(|&(n, _)| rig.weights.of(n as usize).for_each(|(j, _)| along[j] = 0.0));
    }
    let same = |i: usize, a: usize, n: usize, b: usize| f64::from(rows[i][a].0 == rows[n][b].0);
    let qp = SimplexQp::new(&squared, |i| rows[i].len(), same, linear, constant);
    stage.name = "smooth weights";
    solve_program(&qp, rows, |_| None, info, stage)
}

/// Geometric reduction's bones; weights for which the Laplacian of the poses is that of the examples.
fn poisson(
    rig: &Rig,
    poses: &Poses,
    k: usize,
    kind: Laplacian,
    info: &mut ReduceInfo,
    stage: &mut Stage<'_>,
) -> Result<Vec<Row>, ReduceError> {
    let laplacian = LaplacianRows::new(kind, &rig.surface.topology, &rig.rest);
    let squared = laplacian.squared(ANCHOR);
    let (gram, projections) = (quadratic::products(poses), quadratic::project(poses));
    let (b, side) = (poses.bones, 4 * poses.bones);
    let metric = Metric::from_products(poses, &gram, &projections);
    let rows = geometric(rig, &metric, k);
    let linear_row = |i: usize| {
        let u = &poses.rest[i];
        let toward = |j: usize, n: usize| {
            let y = &projections[n * side..][..side];
            u[0] * y[j] + u[1] * y[b + j] + u[2] * y[2 * b + j] + u[3] * y[3 * b + j]
        };
        let entry = |j: usize| squared[i].iter().map(|&(n, q)| q * toward(j, n as usize)).sum::<f64>();
        rows[i].iter().map(|&(j, _)| entry(j)).collect()
    };
    let linear = (0..rows.len()).into_par_iter().map(linear_row).collect();
    // |L v|^2 over all vertices and frames.
    let match_of = |row: &Vec<(u32, f64)>| {
        let mut sum = vec![0.0; poses.length];
        for &(n, value) in row {
            sum.iter_mut().zip(poses.target(n as usize)).for_each(|(s, x)| *s += value * f64::from(*x));
        }
        sum.iter().map(|s| s * s).sum::<f64>()
    };
    let anchored = ANCHOR * metric.energy.iter().sum::<f64>();
    let constant = anchored + laplacian.rows.par_iter().map(match_of).collect::<Vec<f64>>().iter().sum::<f64>();
    // Product of bone j at vertex i with bone l at vertex n: u_i^T K_jl u_n.
    let product = |i: usize, at: usize, n: usize, bt: usize| {
        let ((j, _), (l, _)) = (rows[i][at], rows[n][bt]);
        let (u, v) = (&poses.rest[i], &poses.rest[n]);
        let form = |c: usize| {
            let row = &gram[(c * b + j) * side..][..side];
            u[c] * (v[0] * row[l] + v[1] * row[b + l] + v[2] * row[2 * b + l] + v[3] * row[3 * b + l])
        };
        form(0) + form(1) + form(2) + form(3)
    };
    let qp = SimplexQp::new(&squared, |i| rows[i].len(), product, linear, constant);
    stage.name = "Poisson equation";
    solve_program(&qp, rows, |value| Some(metric.rms(value)), info, stage)
}

/// Runs a program from the weights of `rows` on.
fn solve_program(
    qp: &SimplexQp,
    mut rows: Vec<Row>,
    e_rms: impl Fn(f64) -> Option<f64>,
    info: &mut ReduceInfo,
    stage: &mut Stage<'_>,
) -> Result<Vec<Row>, ReduceError> {
    let mut weights: Vec<Vec<f64>> = rows.iter().map(|row| row.iter().map(|&(_, w)| w).collect()).collect();
    let QpInfo { steps, converged } = qp.solve(&mut weights, |step, value| stage.report(step, None, e_rms(value)))?;
    (info.iterations, info.converged) = (steps, converged);
    for (row, weights) in rows.iter_mut().zip(weights) {
        row.iter_mut().zip(weights).for_each(|((_, w), found)| *w = found);
    }
    Ok(rows)
}

/// Ours: each vertex for itself, then with its neighbours in view.
fn bonesmith(
    rig: &Rig,
    poses: Poses,
    k: usize,
    params: &ReduceParams,
    info: &mut ReduceInfo,
    stage: &mut Stage<'_>,
) -> Result<Vec<Row>, ReduceError> {
    let adjacency = Adjacency::new(&rig.surface.topology, rig.vertex_count());
    let start: Vec<Row> =
        (0..rig.vertex_count()).map(|i| rig.weights.of(i).map(|(j, w)| (j, f64::from(w))).collect()).collect();
    let ours = Ours::new(poses, adjacency, params.smooth);
    stage.name = "choosing bones";
    stage.report(0, None, None)?;
    let mut rows = ours.alone(&start, k);
    if params.smooth > 0.0 && params.max_sweeps > 0 {
        stage.name = "smoothing errors";
        let sweeps = params.max_sweeps;
        let made =
            ours.together(&mut rows, k, sweeps, |sweep, e_rms| stage.report(sweep, Some(sweeps), Some(e_rms)))?;
        info.iterations += made;
        info.converged = made < sweeps;
    }
    Ok(rows)
}
