//! Fewer influences per vertex, the same bones: the four published reductions and Bonesmith's own.
//!
//! | paper [Course2014 s.3] | here |
//! |---|---|
//! | k-largest, eq. 33-34 | [`SparseWeights::largest`] |
//! | smooth, eq. 35 (its square is missing in print) | [`smooth`] |
//! | geometric, eq. 38-40; with the bones of eq. 14 or of eq. 37 | [`geometric`] |
//! | Poisson, eq. 42-43 | [`poisson`] |
//! | - | [`SmoothResiduals`] |
//! | B_i | the bones of `Row` i |
//!
//! Deviations. Weights are on the simplex exactly in all methods: geometric reduction solves the constrained problem
//! itself where the paper appends the sum as one more equation and normalises afterwards (eq. 40), smooth and Poisson
//! reduction are solved as quadratic programs with their constraints. Smooth reduction leaves the single pose of
//! eq. 35c and 36 out: weights that sum to 1 keep a rig's rest pose by themselves, and for a cage four
//! equations more leave no freedom with four points, and often no non-negative solution. Geometric reduction chooses
//! among the bones that a vertex has, as [Le2014 s.4.4] says: those of largest effect `w^2 |T v|^2` (eq. 14), which is what the published
//! figures are of, and not the printed eq. 37, which is a variant of its own. Poisson reduction needs a set of bones, for which the text
//! gives no rule: it takes geometric reduction's, those too whose weight is 0 there. A Laplacian is almost 0 for what changes slowly over the mesh, so that the
//! exact minima of eq. 35 and 43 drift: both get a small anchor (`ANCHOR`), without which E is up to twice as large.

mod motion;
mod params;
mod simplex_qp;
mod smooth_residuals;
#[cfg(test)]
mod tests;

use rayon::prelude::*;

use crate::mesh::{Adjacency, LaplacianRows, MeshSequence};
use crate::model::{Rig, Row, SparseWeights};
use crate::observer::{Cancelled, Observer, Stage, Stages};
use crate::skinning::products::{along, form};
use crate::skinning::quadratic::project;
use crate::skinning::{InfluenceSolver, Metric, Poses};
use crate::solve::check::check_memory;

use simplex_qp::SimplexQp;
use smooth_residuals::SmoothResiduals;

pub use crate::mesh::laplacian::Laplacian;
pub use params::*;

/// Smooth and Poisson reduction: pull towards the weights or poses themselves, beside the Laplacian's 1.
const ANCHOR: f64 = 3e-3;

/// Removes influences until each vertex has at most `params.influences`.
///
/// Methods that need poses use those of all clips: `examples` in the clips that they are of, else the rig's own.
pub fn reduce(
    rig: &Rig,
    examples: Option<&MeshSequence>,
    params: &ReduceParams,
    observer: &mut dyn Observer,
) -> Result<Reduced, ReduceError> {
    params.validate()?;
    rig.check()?;
    let refits = params.method == ReduceMethod::Bonesmith && params.refit_motion;
    if refits && let Some((bone, parent)) = rig.rotating_joint() {
        let name = |bone: usize| rig.bones[bone].name.clone();
        return Err(ReduceError::Skeleton { bone: name(bone), parent: name(parent) });
    }
    let mut stages = Stages::new(observer);
    stages.begin(Stage::Poses, None)?;
    let before = rig.weights.max_influences();
    let info = ReduceInfo { iterations: 0, converged: true, influences_before: before, nothing_to_do: false };
    // Examples that do not fit are refused whether the method needs them or not.
    let poses = match params.method.needs_poses() || examples.is_some() {
        true => Some(Poses::new(rig, examples)?),
        false => None,
    };
    if before <= params.influences {
        return Ok(Reduced { rig: rig.clone(), info: ReduceInfo { nothing_to_do: true, ..info } });
    }
    let k = params.influences.min(rig.bone_count());
    let mut this = Reduction { rig, params, k, info, stages };
    let rows = match (params.method, poses) {
        (ReduceMethod::KLargest, _) => rig.weights.largest(k),
        (ReduceMethod::Smooth, _) => this.smooth()?,
        (ReduceMethod::Geometric | ReduceMethod::GeometricEq37, Some(poses)) => {
            let metric = Metric::of_poses(&poses, &mut this.stages)?;
            this.geometric(&metric)?
        }
        (ReduceMethod::Poisson, Some(poses)) => this.poisson(&poses)?,
        (ReduceMethod::Bonesmith, Some(poses)) => this.bonesmith(rig, poses)?,
        (_, None) => unreachable!("poses were made above for methods that need them"),
    };
    let rig = match refits {
        true => this.refit_motion(rows, examples)?,
        false => with_rows(rig, &rows, k),
    };
    Ok(Reduced { rig, info: this.info })
}

/// A reduction in progress.
struct Reduction<'a> {
    rig: &'a Rig,
    params: &'a ReduceParams,
    /// K: not more than there are bones.
    k: usize,
    info: ReduceInfo,
    stages: Stages<'a>,
}

/// Refuses meshes whose squared Laplacian with `k` x `k` numbers an entry would not fit into memory. Its size grows with the
/// mesh, except around a vertex with very many neighbours: all of these are then neighbours of each other.
fn check_squared(laplacian: &LaplacianRows, k: usize) -> Result<(), ReduceError> {
    // As many as a mesh of valence 7 has.
    let usual = 64 * laplacian.rows.len();
    let entries = laplacian.squared_entries();
    let (vertex, neighbours) =
        laplacian.rows.iter().map(|row| row.len() - 1).enumerate().max_by_key(|row| row.1).unwrap_or_default();
    let refused = |what| ReduceError::TooLarge { vertex, neighbours, what };
    check_memory("the table", entries.saturating_sub(usual), k * k, size_of::<f64>()).map_err(refused)
}

fn with_rows(rig: &Rig, rows: &[Row], k: usize) -> Rig {
    Rig { weights: SparseWeights::from_rows(k, rows), ..rig.clone() }
}

impl Reduction<'_> {
    /// K bones, and the best weights on them. A bone with weight 0 stays in its row.
    fn geometric(&mut self, metric: &Metric) -> Result<Vec<Row>, Cancelled> {
        let Self { rig, params, k, stages, .. } = self;
        stages.begin(Stage::Weights, None)?;
        stages.map(metric.vertices(), InfluenceSolver::dense_form, |solver, i| {
            solver.load_vertex(metric, i);
            let own = rig.weights.of(i).map(|(j, w)| (j, f64::from(w)));
            let mut row = match params.method {
                ReduceMethod::GeometricEq37 => solver.by_own_error(own.map(|(j, _)| j)),
                _ => solver.by_effect(own),
            };
            row.truncate(*k);
            let chosen: Vec<usize> = row.iter().map(|(j, _)| *j).collect();
            solver.reweigh(&mut row);
            let weight = |j: usize| row.iter().find(|(other, _)| *other == j).map_or(0.0, |(_, w)| *w);
            chosen.into_iter().map(|j| (j, weight(j))).collect()
        })
    }

    /// Bones of the K largest; weights whose Laplacian is that of the original weights.
    fn smooth(&mut self) -> Result<Vec<Row>, ReduceError> {
        let Self { rig, params, k, stages, .. } = self;
        stages.begin(Stage::SmoothWeights, None)?;
        let laplacian = LaplacianRows::new(params.laplacian, &rig.surface.topology, &rig.rest);
        check_squared(&laplacian, *k)?;
        let squared = laplacian.squared(ANCHOR);
        let rows = rig.weights.largest(*k);
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
        Ok(self.solve_program(&qp, rows, |_| None)?)
    }

    /// Geometric reduction's bones; weights for which the Laplacian of the poses is that of the examples.
    fn poisson(&mut self, poses: &Poses) -> Result<Vec<Row>, ReduceError> {
        let rig = self.rig;
        let laplacian = LaplacianRows::new(self.params.laplacian, &rig.surface.topology, &rig.rest);
        check_squared(&laplacian, self.k)?;
        let squared = laplacian.squared(ANCHOR);
        let (gram, projections) = (poses.motion.gram(), project(poses, &mut self.stages)?);
        let (b, side) = (poses.motion.bones, 4 * poses.motion.bones);
        let metric = Metric::of_projections(poses, &projections);
        let rows = self.geometric(&metric)?;
        self.stages.begin(Stage::PoissonEquation, None)?;
        let linear_of = |(): &mut (), i: usize| {
            let toward = |j: usize, n: u32| along(&projections[n as usize * side..][..side], j, &poses.rest(i));
            let entry = |j: usize| squared[i].iter().map(|&(n, q)| q * toward(j, n)).sum::<f64>();
            rows[i].iter().map(|&(j, _)| entry(j)).collect()
        };
        let linear = self.stages.map(rows.len(), || (), linear_of)?;
        // |L v|^2 over all vertices and frames.
        let match_of = |row: &Vec<(u32, f64)>| {
            let mut sum = vec![0.0; poses.problem.length];
            for &(n, value) in row {
                let target = poses.problem.trajectory(n as usize);
                sum.iter_mut().zip(target).for_each(|(s, x)| *s += value * f64::from(*x));
            }
            sum.iter().map(|s| s * s).sum::<f64>()
        };
        let anchored = ANCHOR * metric.energy.iter().sum::<f64>();
        let constant = anchored + laplacian.rows.par_iter().map(match_of).collect::<Vec<f64>>().iter().sum::<f64>();
        // Product of bone j at vertex i with bone l at vertex n: u_i^T K_jl u_n.
        let product = |i: usize, at: usize, n: usize, bt: usize| {
            form(b, gram, (rows[i][at].0, &poses.rest(i)), (rows[n][bt].0, &poses.rest(n)))
        };
        let qp = SimplexQp::new(&squared, |i| rows[i].len(), product, linear, constant);
        Ok(self.solve_program(&qp, rows, |value| Some(metric.rms(value)))?)
    }

    /// Solves a program from the weights of `rows` on.
    fn solve_program(
        &mut self,
        qp: &SimplexQp,
        mut rows: Vec<Row>,
        e_rms: impl Fn(f64) -> Option<f64>,
    ) -> Result<Vec<Row>, Cancelled> {
        let Self { info, stages, .. } = self;
        let mut weights: Vec<Vec<f64>> = rows.iter().map(|row| row.iter().map(|&(_, w)| w).collect()).collect();
        (info.iterations, info.converged) = qp.solve(&mut weights, e_rms, stages)?;
        for (row, weights) in rows.iter_mut().zip(weights) {
            row.iter_mut().zip(weights).for_each(|((_, w), found)| *w = found);
        }
        Ok(rows)
    }

    /// Each vertex by itself, then with the residuals of its neighbours.
    fn bonesmith(&mut self, rig: &Rig, poses: Poses) -> Result<Vec<Row>, Cancelled> {
        let Self { params, k, info, stages, .. } = self;
        let adjacency = Adjacency::new(&rig.surface.topology, rig.vertex_count());
        let residuals = SmoothResiduals::new(poses, adjacency, params.smooth, stages)?;
        stages.begin(Stage::ChoosingBones, None)?;
        let mut rows = residuals.choose(&rig.weights.rows(), *k, stages)?;
        if params.smooth > 0.0 && params.max_sweeps > 0 {
            stages.begin(Stage::SmoothingErrors, Some(params.max_sweeps))?;
            let made = residuals.sweep(&mut rows, *k, params.max_sweeps, stages)?;
            info.iterations += made;
            info.converged = made < params.max_sweeps;
        }
        Ok(rows)
    }
}
