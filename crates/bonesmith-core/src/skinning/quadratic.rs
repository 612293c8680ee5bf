//! The error of weights as a quadratic form, vertex by vertex.
//!
//! ```text
//! E_i(w) = e_i - 2 q_i . w + w^T G_i w,     G_i = sum_p f_ip M_p
//! ```
//!
//! `M_p` are [B, B] and shared by all vertices. In the space of poses `G_i = P_i^T P_i` with `P_i` the [L, B] positions
//! that the bones alone give vertex i; it is quadratic in the rest position, so 10 products of its coordinates are the
//! features `f_i`. In the space of weights [Course2014 eq. 44] `G = I`: one feature, always 1. Solvers that use a metric
//! read no frames.

use rayon::prelude::*;

use crate::model::SparseWeights;
use crate::observer::{Cancelled, Stages};
use crate::skinning::Poses;
use crate::skinning::products::{self, PAIRS, WORK_BETWEEN_CHECKS};
use crate::solve::kernels::squared;

/// Vertices whose trajectories are multiplied at once.
const BLOCK: usize = 128;

/// Quadratic error of weights for every vertex.
pub(crate) struct Metric {
    /// B.
    pub bones: usize,
    /// P: features of a vertex.
    pub forms: usize,
    /// [P, B, B] symmetric `M_p`.
    pub matrices: Vec<f64>,
    /// [N, P] `f_ip`.
    pub features: Vec<f64>,
    /// [N, B] `q_i`.
    pub linear: Vec<f64>,
    /// [N] `e_i`.
    pub energy: Vec<f64>,
    /// What a sum of squared errors is divided by: 3 N F, or B N for weights.
    pub samples: f64,
}

impl Metric {
    /// Squared distance to the poses.
    pub fn of_poses(poses: &Poses, stages: &mut Stages<'_>) -> Result<Self, Cancelled> {
        Ok(Self::of_projections(poses, &project(poses, stages)?))
    }

    /// As [`Metric::of_poses`], from the result of [`project`].
    pub fn of_projections(poses: &Poses, projections: &[f64]) -> Self {
        let (b, n) = (poses.motion.bones, poses.problem.vertices());
        let linear = projections.par_chunks(4 * b).enumerate().flat_map_iter(|(i, y)| {
            let u = poses.rest(i);
            (0..b).map(move |j| products::along(y, j, &u))
        });
        let energy = (0..n).into_par_iter().map(|i| squared(poses.problem.trajectory(i)));
        let features = |i: usize| {
            let u = poses.rest(i);
            PAIRS.map(|(c, d)| u[c] * u[d])
        };
        Self {
            bones: b,
            forms: 10,
            matrices: forms(poses.motion.gram(), b),
            features: (0..n).flat_map(features).collect(),
            linear: linear.collect(),
            energy: energy.collect(),
            samples: (n * poses.problem.length) as f64,
        }
    }

    /// Squared distance to given weights.
    pub fn of_weights(weights: &SparseWeights, bones: usize) -> Self {
        let n = weights.vertex_count();
        let mut matrices = vec![0.0; bones * bones];
        (0..bones).for_each(|j| matrices[j * bones + j] = 1.0);
        let mut linear = vec![0.0; n * bones];
        let mut energy = vec![0.0; n];
        for i in 0..n {
            for (j, w) in weights.of(i) {
                linear[i * bones + j] = f64::from(w);
                energy[i] += f64::from(w) * f64::from(w);
            }
        }
        Self { bones, forms: 1, matrices, features: vec![1.0; n], linear, energy, samples: (n * bones) as f64 }
    }

    /// Mean of the diagonals of all vertices' forms.
    pub fn mean_diagonal(&self) -> f64 {
        let b = self.bones;
        let mut diagonal = 0.0;
        for (p, matrix) in self.matrices.chunks_exact(b * b).enumerate() {
            let feature = (0..self.vertices()).map(|i| self.features(i)[p]).sum::<f64>() / self.vertices() as f64;
            diagonal += feature * (0..b).map(|j| matrix[j * b + j]).sum::<f64>() / b as f64;
        }
        diagonal
    }

    /// Adds the squared distance to given weights, times `strength`, so that what the poses do not show stays as it was.
    pub fn add_weights(&mut self, weights: &SparseWeights, strength: f64) {
        // The form of the product 1 * 1.
        const CONSTANT: usize = 3;
        let b = self.bones;
        (0..b).for_each(|j| self.matrices[(CONSTANT * b + j) * b + j] += strength);
        for i in 0..self.vertices() {
            for (j, w) in weights.of(i) {
                self.linear[i * b + j] += strength * f64::from(w);
                self.energy[i] += strength * f64::from(w) * f64::from(w);
            }
        }
    }

    /// N.
    pub fn vertices(&self) -> usize {
        self.energy.len()
    }

    /// [B] `q_i`.
    pub fn linear(&self, i: usize) -> &[f64] {
        &self.linear[i * self.bones..(i + 1) * self.bones]
    }

    /// [P] `f_i`.
    pub fn features(&self, i: usize) -> &[f64] {
        &self.features[i * self.forms..(i + 1) * self.forms]
    }

    /// [B, B] `sum_p f_p M_p`.
    pub fn gram(&self, features: &[f64], gram: &mut [f64]) {
        mix(&self.matrices, features, gram);
    }

    /// Squared error of sparse weights of vertex `i`; not below 0.
    pub fn error(&self, i: usize, weights: impl Iterator<Item = (usize, f64)> + Clone) -> f64 {
        let (b, q) = (self.bones, self.linear(i));
        let mut sum = self.energy[i];
        for (j, wj) in weights.clone() {
            sum -= 2.0 * wj * q[j];
            for (k, wk) in weights.clone() {
                for (p, f) in self.features(i).iter().enumerate() {
                    sum += wj * wk * f * self.matrices[(p * b + j) * b + k];
                }
            }
        }
        sum.max(0.0)
    }

    /// Root mean square of a sum of squared errors, times 1000: E_RMS for poses, Delta_W for weights.
    pub fn rms(&self, squared: f64) -> f64 {
        1000.0 * (squared.max(0.0) / self.samples).sqrt()
    }
}

/// [10, B, B] `M_p`, one matrix for each of [`PAIRS`], from the [4 B, 4 B] products of the bones' rows.
pub(crate) fn forms(gram: &[f64], b: usize) -> Vec<f64> {
    let side = 4 * b;
    let mut matrices = vec![0.0; 10 * b * b];
    for (p, &(c, d)) in PAIRS.iter().enumerate() {
        for j in 0..b {
            for k in 0..b {
                let entry = gram[(c * b + j) * side + d * b + k];
                let mirrored = if c == d { 0.0 } else { gram[(d * b + j) * side + c * b + k] };
                matrices[(p * b + j) * b + k] = entry + mirrored;
            }
        }
    }
    matrices
}

/// `sum_p f_p M_p`.
pub(crate) fn mix(matrices: &[f64], features: &[f64], gram: &mut [f64]) {
    gram.fill(0.0);
    for (matrix, f) in matrices.chunks_exact(gram.len()).zip(features) {
        gram.iter_mut().zip(matrix).for_each(|(g, m)| *g += f * m);
    }
}

/// [N, 4 B] products of each vertex's target with the bones' rows.
pub(crate) fn project(poses: &Poses, stages: &mut Stages<'_>) -> Result<Vec<f64>, Cancelled> {
    let (side, length) = (4 * poses.motion.bones, poses.problem.length);
    poses.motion.prepare_gram(&mut || stages.report(None))?;
    let mut out = vec![0.0; poses.problem.vertices() * side];
    let stride = BLOCK * (WORK_BETWEEN_CHECKS / (BLOCK * side * length).max(1)).max(1);
    for (out, targets) in out.chunks_mut(stride * side).zip(poses.problem.trajectories.chunks(stride * length)) {
        stages.report(None)?;
        let blocks = out.par_chunks_mut(BLOCK * side).zip(targets.par_chunks(BLOCK * length));
        let rows = poses.motion.rows();
        blocks.for_each_init(Vec::new, |wide, (out, targets)| products::project(rows, length, targets, wide, out));
    }
    Ok(out)
}
