//! Vertices against fixed bones, for the methods that solve one vertex at a time.
//!
//! With `Y_j = T_j^T v` and `K_jk = T_j^T T_k` (see `fit::local`) weights and rest positions are arithmetic on tiny
//! matrices. All in float64: sums are of the size of the trajectories, differences of the size of the error.

use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};
use glam::{DMat3, DVec3};
use rayon::prelude::*;

use crate::skinning::motion::Motion;
use crate::skinning::problem::Problem;
use crate::skinning::products::BoneProducts;
use crate::skinning::quadratic;
use crate::skinning::skin::Skin;
use crate::solve::kernels::squared;
use crate::solve::transform::rotation_svd;

/// Vertices that are projected on the bones at once.
const BLOCK: usize = 64;

/// One vertex: what is known about it, and what may be changed.
pub(super) struct Vertex<'a> {
    /// [4 B] `Y`: products of its trajectory with the rows of the motion.
    pub y: &'a [f64],
    /// `|v|^2`.
    pub energy: f64,
    /// [K] bone of each slot.
    pub bones: &'a mut [u16],
    /// [K] weight of each slot; those in use come first.
    pub weights: &'a mut [f64],
    pub rest: &'a mut DVec3,
}

impl Vertex<'_> {
    /// Homogeneous rest position.
    pub fn homogeneous(&self) -> [f64; 4] {
        [self.rest.x, self.rest.y, self.rest.z, 1.0]
    }

    /// Fills the slots; what is not positive is left out.
    pub fn set(&mut self, influences: impl Iterator<Item = (usize, f64)>) {
        self.bones.fill(0);
        self.weights.fill(0.0);
        for (slot, (j, w)) in influences.filter(|(_, w)| *w > 0.0).take(self.weights.len()).enumerate() {
            (self.bones[slot], self.weights[slot]) = (j as u16, w);
        }
    }
}

/// Solves every vertex of a stored problem by itself; the sum of what `solve` returns, floored at 0 and added in
/// the vertices' order, so that it does not depend on threads. `make` makes one thread's buffers.
pub(super) fn for_each_vertex<S>(
    problem: &Problem,
    motion: &Motion,
    skin: &mut Skin,
    make: impl Fn() -> S + Sync + Send,
    solve: impl Fn(&mut S, Vertex<'_>) -> f64 + Sync + Send,
) -> f64 {
    let (slots, length, side) = (skin.slots, problem.length, 4 * motion.bones);
    let blocks = skin
        .bones
        .par_chunks_mut(BLOCK * slots)
        .zip(skin.weights.par_chunks_mut(BLOCK * slots))
        .zip(skin.rest.par_chunks_mut(BLOCK))
        .zip(problem.trajectories.par_chunks(BLOCK * length));
    let errors: Vec<f64> = blocks
        .map_init(
            || (make(), Vec::new(), Vec::new()),
            |(scratch, wide, projected), (((bones, weights), rest), trajectories)| {
                project(motion, trajectories, wide, projected);
                let rows = bones.chunks_mut(slots).zip(weights.chunks_mut(slots)).zip(rest);
                let vertices = rows.zip(projected.chunks_exact(side)).zip(trajectories.chunks_exact(length));
                let solved = vertices.map(|((((bones, weights), rest), y), trajectory)| {
                    let vertex = Vertex { y, energy: squared(trajectory), bones, weights, rest };
                    solve(scratch, vertex).max(0.0)
                });
                solved.sum::<f64>()
            },
        )
        .collect();
    errors.iter().sum()
}

/// `Y = T^T v` of a block of vertices.
fn project(motion: &Motion, trajectories: &[f32], wide: &mut Vec<f64>, projected: &mut Vec<f64>) {
    let (side, length) = (4 * motion.bones, motion.length);
    let n = trajectories.len() / length;
    wide.clear();
    wide.extend(trajectories.iter().map(|&x| f64::from(x)));
    projected.resize(n * side, 0.0);
    matmul(
        MatMut::from_row_major_slice_mut(projected, n, side),
        Accum::Replace,
        MatRef::from_row_major_slice(wide, n, length),
        MatRef::from_row_major_slice(motion.rows(), side, length).transpose(),
        1.0,
        Par::Seq,
    );
}

/// Rest position of least error for given weights: `Lambda^T Lambda u = Lambda^T Gamma` [Kavan2010 s.4.3].
///
/// Solved for the step, so that directions in which no frame tells anything leave the vertex where it is.
pub(super) fn best_rest(products: &BoneProducts, y: &[f64], influences: &[(usize, f64)], rest: DVec3) -> DVec3 {
    let (b, side) = (products.bones, 4 * products.bones);
    let mut columns = [DVec3::ZERO; 4];
    let mut gradient = DVec3::ZERO;
    for &(j, wj) in influences {
        for c in 0..3 {
            gradient[c] += wj * y[c * b + j];
            let row = &products.gram[(c * b + j) * side..][..side];
            for &(k, wk) in influences {
                for (d, column) in columns.iter_mut().enumerate() {
                    column[c] += wj * wk * row[d * b + k];
                }
            }
        }
    }
    let normal = DMat3::from_cols(columns[0], columns[1], columns[2]);
    gradient -= normal * rest + columns[3];
    let size = (columns[0].x + columns[1].y + columns[2].z) / 3.0;
    if normal.determinant() > 1e-6 * size.powi(3) {
        return rest + normal.inverse() * gradient;
    }
    let svd = rotation_svd(&normal);
    let inverse = svd.sigma.to_array().map(|s| if s > 1e-6 * svd.sigma.x { 1.0 / s } else { 0.0 });
    rest + svd.v * (DVec3::from(inverse) * (svd.u.transpose() * gradient))
}

/// The error of a vertex as a quadratic in the weights of all bones: `w^T G w - 2 q^T w + |v|^2`.
pub(super) struct Quadratic {
    /// [10, B, B] what `G` is mixed from, shared by all vertices.
    matrices: Vec<f64>,
    pub bones: usize,
}

impl Quadratic {
    pub fn new(motion: &Motion) -> Self {
        Self { matrices: quadratic::forms(&motion.gram(), motion.bones), bones: motion.bones }
    }

    /// `G` [B, B] and `q` [B] of a vertex.
    pub fn load(&self, y: &[f64], u: &[f64; 4], g: &mut [f64], q: &mut [f64]) {
        quadratic::mix(&self.matrices, &quadratic::PAIRS.map(|(c, d)| u[c] * u[d]), g);
        let b = self.bones;
        for (j, q) in q.iter_mut().enumerate() {
            *q = (0..4).map(|c| u[c] * y[c * b + j]).sum();
        }
    }
}

/// A few bones of a vertex, solved apart from the others.
pub(super) struct Part {
    /// K.
    slots: usize,
    pub bones: Vec<usize>,
    pub weights: Vec<f64>,
    /// [K, K], stride K.
    pub gram: Vec<f64>,
    /// [K]
    pub linear: Vec<f64>,
}

impl Part {
    pub fn new(slots: usize) -> Self {
        let (gram, linear) = (vec![0.0; slots * slots], vec![0.0; slots]);
        Self { slots, bones: Vec::with_capacity(slots), weights: Vec::with_capacity(slots), gram, linear }
    }

    /// Takes rows and columns of some bones out of the whole; weights are left empty.
    pub fn load(&mut self, bones: impl Iterator<Item = usize>, g: &[f64], q: &[f64]) {
        self.weights.clear();
        self.bones.clear();
        self.bones.extend(bones.take(self.slots));
        for (p, &j) in self.bones.iter().enumerate() {
            self.linear[p] = q[j];
            for (r, &k) in self.bones.iter().enumerate() {
                self.gram[p * self.slots + r] = g[j * q.len() + k];
            }
        }
    }

    /// K: the stride of `gram`.
    pub fn stride(&self) -> usize {
        self.slots
    }

    /// Squared error less `|v|^2`.
    pub fn value(&self) -> f64 {
        let mut sum = 0.0;
        for (p, wp) in self.weights.iter().enumerate() {
            let row = &self.gram[p * self.slots..][..self.weights.len()];
            let product: f64 = row.iter().zip(&self.weights).map(|(g, w)| g * w).sum();
            sum += wp * (product - 2.0 * self.linear[p]);
        }
        sum
    }

    /// Bones with their weights.
    pub fn influences(&self) -> impl Iterator<Item = (usize, f64)> + '_ {
        self.bones.iter().copied().zip(self.weights.iter().copied())
    }
}
