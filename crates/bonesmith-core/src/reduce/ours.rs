//! Our reduction: bones chosen for the poses, smooth in what remains.
//!
//! With `r_i = x_i - v_i` the error of vertex i over all poses, weights minimise
//!
//! ```text
//! sum_i |r_i|^2  +  s sum_(i,k) edge |r_i - r_k|^2 / mean degree
//! ```
//!
//! over at most K bones per vertex. The first term is geometric reduction's; the second asks neighbours to err alike, so
//! that edges, and with them normals, keep their directions: Poisson reduction's aim, with edges in place of the
//! Laplacian. Unlike both, the bones are chosen for this sum, by `choice`: all bones, dropped one by one, then
//! exchanged; first vertex by vertex without the second term, then in sweeps in which each vertex sees its
//! neighbours' errors. Vertices of one colour share no edge and are solved side by side; each solve lowers the sum.
//!
//! Everything is arithmetic on products with the bones: `h_i = H r_i` [4 B] with `H` the bones' rows is all that a
//! neighbour needs to know of `r_i`.

use rayon::prelude::*;

use crate::mesh::topology::Adjacency;
use crate::skinning::choice::{DenseForm, InfluenceSolver, Row};
use crate::skinning::poses::Poses;
use crate::skinning::quadratic::{self, Metric};
use crate::solve::kernels::squared;

/// Sweeps stop when one lowers the sum by less than this share.
const TOLERANCE: f64 = 1e-3;

/// The problem and its products.
pub(crate) struct Ours {
    poses: Poses,
    metric: Metric,
    /// [4 B, 4 B] `H H^T`.
    gram: Vec<f64>,
    /// [N, 4 B] `H v_i`.
    projections: Vec<f64>,
    adjacency: Adjacency,
    /// Vertices by colour.
    colours: Vec<Vec<u32>>,
    /// Price of an edge's disagreement, relative to a vertex's error.
    edge: f64,
}

impl Ours {
    /// Gives the poses back.
    pub fn into_poses(self) -> Poses {
        self.poses
    }

    pub fn new(poses: Poses, adjacency: Adjacency, smooth: f64) -> Self {
        let gram = quadratic::products(&poses);
        let projections = quadratic::project(&poses);
        let metric = Metric::from_products(&poses, &gram, &projections);
        let ends: usize = (0..adjacency.len()).map(|i| adjacency.of(i).len()).sum();
        let degree = (ends as f64 / adjacency.len().max(1) as f64).max(1.0);
        let colours = colours(&adjacency);
        Self { poses, metric, gram, projections, adjacency, colours, edge: smooth / degree }
    }

    /// Best rows of at most `k` bones, each vertex for itself.
    pub fn alone(&self, start: &[Row], k: usize) -> Vec<Row> {
        let solve = |solver: &mut InfluenceSolver<_>, i: usize| {
            solver.load_vertex(&self.metric, i);
            let mut row = solver.dense(&start[i]);
            solver.shrink(k, &mut row);
            solver.exchange(k, &mut row);
            row
        };
        (0..start.len()).into_par_iter().map_init(InfluenceSolver::dense_form, solve).collect()
    }

    /// Sweeps with the neighbours' errors in view; `observe` is told each sweep's E_RMS and may say stop.
    pub fn together<E>(
        &self,
        rows: &mut [Row],
        k: usize,
        sweeps: usize,
        mut observe: impl FnMut(usize, f64) -> Result<(), E>,
    ) -> Result<usize, E> {
        let side = 4 * self.metric.bones;
        let mut errors: Vec<f32> = vec![0.0; rows.len() * side];
        errors.par_chunks_mut(side).enumerate().for_each(|(i, out)| self.project_error(i, &rows[i], out));
        let mut last = f64::INFINITY;
        for sweep in 0..sweeps {
            observe(sweep, self.e_rms(rows))?;
            for colour in &self.colours {
                let solve = |solver: &mut _, &i: &u32| self.solve(solver, i as usize, k, rows, &errors);
                let found: Vec<(Row, Vec<f32>)> =
                    colour.par_iter().map_init(InfluenceSolver::dense_form, solve).collect();
                for (&i, (row, error)) in colour.iter().zip(found) {
                    rows[i as usize] = row;
                    errors[i as usize * side..][..side].copy_from_slice(&error);
                }
            }
            let sum = self.objective(rows);
            if sum > last * (1.0 - TOLERANCE) {
                return Ok(sweep + 1);
            }
            last = sum;
        }
        Ok(sweeps)
    }

    /// Vertex `i` with its neighbours' errors in view: `(1 + n s) |r|^2 - 2 s r . sum_k r_k`.
    fn solve(
        &self,
        solver: &mut InfluenceSolver<DenseForm>,
        i: usize,
        k: usize,
        rows: &[Row],
        errors: &[f32],
    ) -> (Row, Vec<f32>) {
        let (b, u) = (self.metric.bones, &self.poses.rest[i]);
        let neighbours = self.adjacency.of(i);
        let share = self.edge / (1.0 + self.edge * neighbours.len() as f64);
        let mut q = self.metric.linear(i).to_vec();
        for &n in neighbours {
            let h = &errors[n as usize * 4 * b..][..4 * b];
            for (j, q) in q.iter_mut().enumerate() {
                let h = |c: usize| f64::from(h[c * b + j]);
                *q += share * (u[0] * h(0) + u[1] * h(1) + u[2] * h(2) + u[3] * h(3));
            }
        }
        solver.load(&q, |gram| self.metric.gram(self.metric.features(i), gram));
        let mut row = rows[i].clone();
        solver.reweigh(&mut row);
        solver.exchange(k, &mut row);
        let mut error = vec![0f32; 4 * b];
        self.project_error(i, &row, &mut error);
        (row, error)
    }

    /// `H r_i = H H^T x_i - H v_i` with `x_i[c B + j] = w_ij u_ic`.
    fn project_error(&self, i: usize, row: &Row, out: &mut [f32]) {
        let (b, side, u) = (self.metric.bones, out.len(), &self.poses.rest[i]);
        let mut sums: Vec<f64> = self.projections[i * side..][..side].iter().map(|y| -y).collect();
        for &(j, w) in row {
            for (c, u) in u.iter().enumerate() {
                let x = w * u;
                let products = &self.gram[(c * b + j) * side..][..side];
                sums.iter_mut().zip(products).for_each(|(sum, g)| *sum += x * g);
            }
        }
        out.iter_mut().zip(&sums).for_each(|(out, sum)| *out = *sum as f32);
    }

    /// E_RMS of weights.
    pub fn e_rms(&self, rows: &[Row]) -> f64 {
        let of = |i: usize| self.metric.error(i, rows[i].iter().copied());
        self.metric.rms((0..rows.len()).into_par_iter().map(of).collect::<Vec<f64>>().iter().sum())
    }

    /// What is minimised.
    pub fn objective(&self, rows: &[Row]) -> f64 {
        let length = self.poses.length;
        let mut residuals = vec![0f32; rows.len() * length];
        residuals.par_chunks_mut(length).enumerate().for_each(|(i, out)| self.residual(i, &rows[i], out));
        let of_vertex = |i: usize| {
            let own = &residuals[i * length..][..length];
            let distance = |&k: &u32| {
                let other = &residuals[k as usize * length..][..length];
                own.iter().zip(other).map(|(a, b)| f64::from(a - b) * f64::from(a - b)).sum::<f64>()
            };
            let once = self.adjacency.of(i).iter().filter(|&&k| (k as usize) < i);
            squared(own) + self.edge * once.map(distance).sum::<f64>()
        };
        (0..rows.len()).into_par_iter().map(of_vertex).collect::<Vec<f64>>().iter().sum()
    }

    /// `r_i`.
    fn residual(&self, i: usize, row: &Row, out: &mut [f32]) {
        let (b, length, u) = (self.metric.bones, self.poses.length, &self.poses.rest[i]);
        let mut sums: Vec<f64> = self.poses.target(i).iter().map(|v| -f64::from(*v)).collect();
        for &(j, w) in row {
            for (c, u) in u.iter().enumerate() {
                let motion = &self.poses.rows[(c * b + j) * length..][..length];
                sums.iter_mut().zip(motion).for_each(|(r, h)| *r += w * u * h);
            }
        }
        out.iter_mut().zip(&sums).for_each(|(out, sum)| *out = *sum as f32);
    }
}

/// Greedy colours: vertices of one colour share no edge.
fn colours(adjacency: &Adjacency) -> Vec<Vec<u32>> {
    let mut colour = vec![usize::MAX; adjacency.len()];
    let mut colours: Vec<Vec<u32>> = Vec::new();
    let mut taken = Vec::new();
    for i in 0..adjacency.len() {
        taken.clear();
        taken.extend(adjacency.of(i).iter().map(|&k| colour[k as usize]).filter(|&c| c != usize::MAX));
        taken.sort_unstable();
        taken.dedup();
        // The first gap in the sorted colours of the neighbours.
        let own = taken.iter().enumerate().find(|&(at, &c)| at != c).map_or(taken.len(), |(at, _)| at);
        colour[i] = own;
        if own == colours.len() {
            colours.push(Vec::new());
        }
        colours[own].push(i as u32);
    }
    colours
}
