//! Vertices against fixed bones, for the methods that solve one vertex at a time.
//!
//! With `Y_j = T_j^T v` and `K_jk = T_j^T T_k` (see [`products`](crate::skinning::products)) weights and rest positions are arithmetic on
//! small matrices. All in float64: sums are of the size of the trajectories, differences of the size of the error.

use glam::{DMat3, DVec3};
use rayon::prelude::*;

use crate::model::Row;
use crate::observer::Cancelled;
use crate::skinning::products::{PAIRS, along, project};
use crate::skinning::skin::SkinRows;
use crate::skinning::{DenseForm, InfluenceSolver, Motion, Problem, Run, Skin, quadratic};
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
    pub fn set(&mut self, influences: impl IntoIterator<Item = (usize, f64)>) {
        let SkinRows { bones, weights, .. } = &mut self.skin;
        bones.fill(0);
        weights.fill(0.0);
        for (slot, (j, w)) in influences.into_iter().filter(|(_, w)| *w > 0.0).take(weights.len()).enumerate() {
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
                projected.resize(trajectories.len() / length * side, 0.0);
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

/// New weights for every vertex of a stored problem, from its present ones and its error as a quadratic in the weights of all bones.
pub(super) fn weigh<S>(
    problem: &Problem,
    motion: &Motion,
    skin: &mut Skin,
    run: &mut Run<'_>,
    make: impl Fn() -> S + Sync + Send,
    solve: impl Fn(&mut S, &mut InfluenceSolver<DenseForm>, Row) -> Row + Sync + Send,
) -> Result<(), Cancelled> {
    let b = motion.bones;
    let forms = quadratic::forms(motion.gram(), b);
    let make = || (make(), InfluenceSolver::dense_form());
    let solve = |(scratch, solver): &mut (S, InfluenceSolver<_>), mut vertex: Vertex<'_>| {
        let (u, y) = (vertex.homogeneous(), vertex.y);
        let linear: Vec<f64> = (0..b).map(|j| along(y, j, &u)).collect();
        solver.load(&linear, |gram| quadratic::mix(&forms, &PAIRS.map(|(c, d)| u[c] * u[d]), gram));
        let present = vertex.influences().collect();
        vertex.set(solve(scratch, solver, present));
        0.0
    };
    for_each_vertex(problem, motion, skin, run, make, solve).map(|_| ())
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
