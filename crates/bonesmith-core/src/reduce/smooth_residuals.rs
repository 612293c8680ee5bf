//! Bonesmith's own reduction: influences chosen for the poses, with smooth residuals.
//!
//! With `r_i = x_i - v_i` the residual of vertex i over all poses, weights minimise
//!
//! ```text
//! sum_i |r_i|^2  +  s sum_(i,k) edge |r_i - r_k|^2 / mean degree
//! ```
//!
//! over at most K bones per vertex. The first term is geometric reduction's. The second makes residuals of neighbours alike, so
//! that edges, and with them normals, keep their directions: Poisson reduction's aim, with edges in place of the
//! Laplacian. Unlike both, the bones are chosen for this sum by [`InfluenceSolver`]: first vertex by vertex without the second
//! term, then in sweeps with the residuals of the neighbours fixed. Vertices of one colour share no edge and are solved side
//! by side; each solve lowers the sum.
//!
//! Everything is arithmetic on products with the bones: `h_i = H r_i` [4 B], with `H` the bones' rows, is all that the
//! neighbours of vertex i need of `r_i`.

use rayon::prelude::*;

use crate::mesh::Adjacency;
use crate::model::Row;
use crate::observer::{Cancelled, Stages};
use crate::skinning::quadratic::project;
use crate::skinning::{DenseForm, InfluenceSolver, Metric, Poses};
use crate::solve::kernels::squared;

/// Sweeps stop when one lowers the sum by less than this share.
const TOLERANCE: f64 = 1e-3;

type Solver = InfluenceSolver<DenseForm>;

/// The problem and its products.
pub(crate) struct SmoothResiduals {
    pub poses: Poses,
    metric: Metric,
    /// [N, 4 B] `H v_i`.
    projections: Vec<f64>,
    adjacency: Adjacency,
    /// Vertices by colour.
    colours: Vec<Vec<u32>>,
    /// Factor of an edge's term.
    edge: f64,
}

impl SmoothResiduals {
    pub fn new(poses: Poses, adjacency: Adjacency, smooth: f64, stages: &mut Stages<'_>) -> Result<Self, Cancelled> {
        let projections = project(&poses, stages)?;
        let metric = Metric::of_projections(&poses, &projections);
        let ends: usize = (0..adjacency.len()).map(|i| adjacency.of(i).len()).sum();
        let degree = (ends as f64 / adjacency.len().max(1) as f64).max(1.0);
        let colours = colours(&adjacency);
        Ok(Self { poses, metric, projections, adjacency, colours, edge: smooth / degree })
    }

    /// Best rows of at most `k` bones without the second term, from the rows `start`.
    pub fn choose(&self, start: &[Row], k: usize, stages: &mut Stages<'_>) -> Result<Vec<Row>, Cancelled> {
        stages.map(start.len(), InfluenceSolver::dense_form, |solver, i| {
            solver.load_vertex(&self.metric, i);
            let mut row = solver.dense(&start[i]);
            solver.choose(k, &mut row);
            row
        })
    }

    /// At most `sweeps` sweeps over all vertices; returns how many were made.
    pub fn sweep(&self, rows: &mut [Row], k: usize, sweeps: usize, stages: &mut Stages) -> Result<usize, Cancelled> {
        let side = 4 * self.metric.bones;
        let mut errors: Vec<f32> = vec![0.0; rows.len() * side];
        errors.par_chunks_mut(side).enumerate().for_each(|(i, out)| self.project_error(i, &rows[i], out));
        let mut last = f64::INFINITY;
        for sweep in 0..sweeps {
            stages.at(sweep, Some(self.e_rms(rows)))?;
            for colour in &self.colours {
                let solve = |solver: &mut _, at: usize| self.solve(solver, colour[at] as usize, k, rows, &errors);
                let solved = stages.map(colour.len(), InfluenceSolver::dense_form, solve)?;
                for (&i, (row, error)) in colour.iter().zip(solved) {
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

    /// Vertex `i` with the residuals of its n neighbours fixed: `(1 + n s) |r|^2 - 2 s r . sum_k r_k`.
    fn solve(&self, solver: &mut Solver, i: usize, k: usize, rows: &[Row], errors: &[f32]) -> (Row, Vec<f32>) {
        let (b, u) = (self.metric.bones, self.poses.rest(i));
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
        let side = out.len();
        let start = self.projections[i * side..][..side].iter().map(|y| -y);
        self.blend(i, row, start, |at| &self.poses.motion.gram()[at * side..][..side], out);
    }

    /// `r_i`.
    fn residual(&self, i: usize, row: &Row, out: &mut [f32]) {
        let length = out.len();
        let start = self.poses.problem.trajectory(i).iter().map(|v| -f64::from(*v));
        self.blend(i, row, start, |at| &self.poses.motion.rows()[at * length..][..length], out);
    }

    /// `start + sum_cj w_j u_c rows(c B + j)`.
    fn blend<'a>(
        &self,
        i: usize,
        row: &Row,
        start: impl Iterator<Item = f64>,
        rows: impl Fn(usize) -> &'a [f64],
        out: &mut [f32],
    ) {
        let mut sums: Vec<f64> = start.collect();
        for &(j, w) in row {
            for (c, u) in self.poses.rest(i).iter().enumerate() {
                let x = w * u;
                sums.iter_mut().zip(rows(c * self.metric.bones + j)).for_each(|(sum, h)| *sum += x * h);
            }
        }
        out.iter_mut().zip(&sums).for_each(|(out, sum)| *out = *sum as f32);
    }

    /// E_RMS of weights.
    pub fn e_rms(&self, rows: &[Row]) -> f64 {
        let of = |i: usize| self.metric.error(i, rows[i].iter().copied());
        self.metric.rms((0..rows.len()).into_par_iter().map(of).collect::<Vec<f64>>().iter().sum())
    }

    /// The sum that is minimised.
    pub fn objective(&self, rows: &[Row]) -> f64 {
        let length = self.poses.problem.length;
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
