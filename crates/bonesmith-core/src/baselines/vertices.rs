//! Vertices against fixed bones, for the methods that solve one vertex at a time.
//!
//! With `Y_j = T_j^T v` and `K_jk = T_j^T T_k` (see [`products`](crate::skinning::products)) weights and rest positions are arithmetic on
//! small matrices. All in float64: sums are of the size of the trajectories, differences of the size of the error.

use glam::{DMat3, DVec3};
use rayon::prelude::*;

use crate::observer::Cancelled;
use crate::skinning::motion::Motion;
use crate::skinning::problem::Problem;
use crate::skinning::products::{PAIRS, project};
use crate::skinning::quadratic;
use crate::skinning::run::Run;
use crate::skinning::skin::{Skin, SkinRows};
use crate::solve::kernels::squared;
use crate::solve::transform::rotation_svd;

/// Vertices that are projected on the bones at once.
const BLOCK: usize = 64;

/// Vertices that are solved between two reports of progress.
const VERTICES_AT_ONCE: usize = 16 * BLOCK;

/// One vertex.
pub(super) struct Vertex<'a> {
    /// [4 B] `Y`: products of its trajectory with the rows of the motion.
    pub y: &'a [f64],
    /// `|v|^2`.
    pub energy: f64,
    /// Its bones, weights and rest position, to be changed.
    skin: SkinRows<'a>,
}

impl Vertex<'_> {
    pub fn rest(&mut self) -> &mut DVec3 {
        &mut self.skin.rest[0]
    }

    /// Homogeneous rest position.
    pub fn homogeneous(&self) -> [f64; 4] {
        self.skin.rest[0].extend(1.0).to_array()
    }

    /// Bones with their weights.
    pub fn influences(&self) -> impl Iterator<Item = (usize, f64)> + '_ {
        self.skin.view().of(0)
    }

    /// Fills the slots; what is not positive is left out.
    pub fn set(&mut self, influences: impl Iterator<Item = (usize, f64)>) {
        let SkinRows { bones, weights, .. } = &mut self.skin;
        bones.fill(0);
        weights.fill(0.0);
        for (slot, (j, w)) in influences.filter(|(_, w)| *w > 0.0).take(weights.len()).enumerate() {
            (bones[slot], weights[slot]) = (j as u16, w);
        }
    }
}

/// Solves every vertex of a stored problem by itself; the sum of what `solve` returns, floored at 0 and added in
/// the vertices' order, so that it does not depend on threads. `make` makes one thread's buffers.
pub(super) fn for_each_vertex<S>(
    problem: &Problem,
    motion: &Motion,
    skin: &mut Skin,
    run: &mut Run<'_>,
    make: impl Fn() -> S + Sync + Send,
    solve: impl Fn(&mut S, Vertex<'_>) -> f64 + Sync + Send,
) -> Result<f64, Cancelled> {
    let (length, side) = (problem.length, 4 * motion.bones);
    let mut errors: Vec<f64> = Vec::new();
    let mut all = skin.rows_mut();
    for start in (0..problem.vertices()).step_by(VERTICES_AT_ONCE) {
        run.report()?;
        let end = (start + VERTICES_AT_ONCE).min(problem.vertices());
        let blocks = all.part(start..end).into_par_chunks(BLOCK);
        let blocks = blocks.zip(problem.trajectories[start * length..end * length].par_chunks(BLOCK * length));
        errors.par_extend(blocks.map_init(
            || (make(), Vec::new(), Vec::new()),
            |(scratch, wide, projected), (mut rows, trajectories)| {
                project(motion.rows(), length, trajectories, wide, projected);
                let vertices = projected.chunks_exact(side).zip(trajectories.chunks_exact(length)).enumerate();
                let solved = vertices.map(|(at, (y, trajectory))| {
                    let vertex = Vertex { y, energy: squared(trajectory), skin: rows.part(at..at + 1) };
                    solve(scratch, vertex).max(0.0)
                });
                solved.sum::<f64>()
            },
        ));
    }
    Ok(errors.iter().sum())
}

/// New weights for every vertex of a stored problem, from its error as a quadratic in the weights of all bones.
pub(super) fn weigh<S>(
    problem: &Problem,
    motion: &Motion,
    skin: &mut Skin,
    run: &mut Run<'_>,
    make: impl Fn() -> S + Sync + Send,
    solve: impl Fn(&mut S, &mut Quadratic, Vertex<'_>) + Sync + Send,
) -> Result<(), Cancelled> {
    let b = motion.bones;
    let forms = quadratic::forms(motion.gram(), b);
    let make = || (make(), Quadratic { gram: vec![0.0; b * b], linear: vec![0.0; b] });
    let solve = |(scratch, quadratic): &mut (S, Quadratic), vertex: Vertex<'_>| {
        quadratic.load(&forms, vertex.y, &vertex.homogeneous());
        solve(scratch, quadratic, vertex);
        0.0
    };
    for_each_vertex(problem, motion, skin, run, make, solve).map(|_| ())
}

/// The error of a vertex as a quadratic in the weights of all bones: `w^T G w - 2 q^T w + |v|^2`.
pub(super) struct Quadratic {
    /// [B, B] `G`.
    pub gram: Vec<f64>,
    /// [B] `q`.
    pub linear: Vec<f64>,
}

impl Quadratic {
    /// From [10, B, B] `forms`, which all vertices share.
    fn load(&mut self, forms: &[f64], y: &[f64], u: &[f64; 4]) {
        quadratic::mix(forms, &PAIRS.map(|(c, d)| u[c] * u[d]), &mut self.gram);
        let b = self.linear.len();
        for (j, q) in self.linear.iter_mut().enumerate() {
            *q = (0..4).map(|c| u[c] * y[c * b + j]).sum();
        }
    }

    /// Error of bone `j` alone, less `|v|^2`.
    pub fn alone(&self, j: usize) -> f64 {
        self.gram[j * self.linear.len() + j] - 2.0 * self.linear[j]
    }
}

/// Rest position of least error for given weights: `Lambda^T Lambda u = Lambda^T Gamma` [Kavan2010 s.4.3].
///
/// Solved for the step, so that directions in which no frame depends on it leave the vertex where it is.
pub(super) fn best_rest(motion: &Motion, y: &[f64], influences: &[(usize, f64)], rest: DVec3) -> DVec3 {
    let (b, side) = (motion.bones, 4 * motion.bones);
    let mut columns = [DVec3::ZERO; 4];
    let mut gradient = DVec3::ZERO;
    for &(j, wj) in influences {
        for c in 0..3 {
            gradient[c] += wj * y[c * b + j];
            let row = &motion.gram()[(c * b + j) * side..][..side];
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

/// A few bones of a vertex, solved apart from the others.
pub(super) struct Part {
    /// K: also the stride of `gram`.
    pub slots: usize,
    pub bones: Vec<usize>,
    pub weights: Vec<f64>,
    /// [K, K]
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
    pub fn load(&mut self, bones: &[usize], all: &Quadratic) {
        self.weights.clear();
        self.bones.clear();
        self.bones.extend(bones.iter().take(self.slots));
        for (p, &j) in self.bones.iter().enumerate() {
            self.linear[p] = all.linear[j];
            for (r, &k) in self.bones.iter().enumerate() {
                self.gram[p * self.slots + r] = all.gram[j * all.linear.len() + k];
            }
        }
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
