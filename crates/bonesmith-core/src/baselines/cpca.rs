//! Clustered principal component analysis [Sattler2005, as Kavan2010 s.2 and s.5 compare with it]: vertices in P
//! clusters, each with four trajectories of its own that its vertices mix.
//!
//! Clusters and their components alternate: components of each cluster's vertices, then every vertex to the cluster
//! that reproduces it best, until none moves. Components are taken without a mean, so that P affine bones have as many
//! numbers in every frame, and could be such clusters. Left open by the papers and chosen here: the start is cells around
//! farthest points of the rest pose; a cluster without vertices takes the worst one. Deviation: all in a subspace that
//! leaves out a ten-thousandth of the radius.

use faer::{Mat, Side};
use rayon::prelude::*;

use crate::baselines::basis::Mixed;
use crate::baselines::frame::Rounds;
use crate::baselines::subspace::{self, Subspace};
use crate::baselines::svd::project;
use crate::cluster::region_growing::{cells, centers};
use crate::skinning::params::{FitError, FitParams, StopReason};
use crate::skinning::problem::Problem;
use crate::skinning::run::Run;

/// Trajectories of a cluster [Kavan2010 s.5].
const COMPONENTS: usize = 4;

/// What the subspace leaves out of each coordinate, in radii.
const TOLERANCE: f64 = 1e-4;

/// Most rounds.
const MOST_ROUNDS: usize = 60;

/// Directions between two reports while the subspace grows.
const REPORT_EVERY: usize = 8;

/// Trajectories in fewer dimensions.
pub(super) struct Space(Subspace);

/// One cluster in the subspace.
struct Cluster {
    /// [COMPONENTS, d] orthonormal; zero where the cluster has fewer directions.
    components: Vec<f64>,
}

impl Space {
    pub fn new(problem: &Problem, run: &mut Run<'_>) -> Result<Self, FitError> {
        let epsilon = TOLERANCE * (problem.trajectories.len() as f64).sqrt();
        run.stage("subspace", None)?;
        let reduced = subspace::reduce(&problem.trajectories, problem.length, epsilon, |directions| {
            if directions % REPORT_EVERY == 0 { run.step() } else { Ok(()) }
        });
        Ok(Self(reduced?))
    }

    /// Alternates with `count` clusters.
    pub fn cluster(
        &self,
        problem: &Problem,
        count: usize,
        params: &FitParams,
        run: &mut Run<'_>,
    ) -> Result<Mixed, FitError> {
        let mut labels = cells(&problem.rest, &centers(&problem.rest, count));
        let mut rounds = Rounds::new(params, MOST_ROUNDS, 0.0);
        run.stage("clusters and components", Some(rounds.most()))?;
        let mut last = Vec::new();
        loop {
            let clusters = run.timed("components", || self.components(&labels, count));
            let (nearest, errors) = run.timed("clusters", || self.assign(&clusters));
            let e_rms = problem.e_rms(errors.iter().sum::<f64>() + self.0.squared_error);
            run.round(count, e_rms)?;
            let settled = (nearest == last).then_some(StopReason::Converged);
            if let Some(stop) = rounds.ended(e_rms, run).or(settled) {
                return Ok(self.mixed(problem, &clusters, nearest, (stop, rounds.count, e_rms)));
            }
            last.clone_from(&nearest);
            labels = nearest;
            fill_empty(&mut labels, &errors, count);
        }
    }

    fn row(&self, i: usize) -> &[f32] {
        &self.0.coordinates[i * self.0.dimension..(i + 1) * self.0.dimension]
    }

    fn components(&self, labels: &[u16], count: usize) -> Vec<Cluster> {
        let mut members = vec![Vec::new(); count];
        labels.iter().enumerate().for_each(|(i, &c)| members[usize::from(c)].push(i));
        members.par_iter().map(|members| self.components_of(members)).collect()
    }

    fn components_of(&self, members: &[usize]) -> Cluster {
        let d = self.0.dimension;
        let rows = Mat::from_fn(members.len(), d, |r, l| f64::from(self.row(members[r])[l]));
        let mut components = vec![0.0; COMPONENTS * d];
        if let Ok(eigen) = (rows.transpose() * &rows).self_adjoint_eigen(Side::Lower) {
            let largest = eigen.S().column_vector()[d - 1];
            for k in (0..COMPONENTS.min(d)).filter(|&k| eigen.S().column_vector()[d - 1 - k] > 1e-12 * largest) {
                (0..d).for_each(|l| components[k * d + l] = eigen.U()[(l, d - 1 - k)]);
            }
        }
        Cluster { components }
    }

    /// [N] cluster that reproduces each vertex best, and the squared error of it.
    fn assign(&self, clusters: &[Cluster]) -> (Vec<u16>, Vec<f64>) {
        let best = |i: usize| {
            let errors = clusters.iter().enumerate().map(|(c, cluster)| (cluster.error(self.row(i)), c as u16));
            errors.fold((f64::INFINITY, 0), |best, next| if next.0 < best.0 { next } else { best })
        };
        let found: Vec<(f64, u16)> =
            (0..self.0.coordinates.len() / self.0.dimension).into_par_iter().map(best).collect();
        found.into_iter().map(|(error, c)| (c, error)).unzip()
    }

    /// Back to all frames.
    fn mixed(
        &self,
        problem: &Problem,
        clusters: &[Cluster],
        labels: Vec<u16>,
        (stop, rounds, e_rms): (StopReason, usize, f64),
    ) -> Mixed {
        let length = problem.length;
        let columns: Vec<f64> = clusters
            .iter()
            .flat_map(|cluster| cluster.components.chunks_exact(self.0.dimension))
            .flat_map(|component| self.in_all_frames(component))
            .collect();
        let coefficients = labels.iter().enumerate().flat_map(|(i, &c)| {
            let at = usize::from(c) * COMPONENTS * length;
            project(problem.trajectory(i), length, &columns[at..at + COMPONENTS * length])
        });
        let coefficients = coefficients.collect();
        let bones = clusters.len();
        Mixed { clusters: labels, dimension: COMPONENTS, columns, coefficients, stop, rounds, e_rms, bones }
    }

    /// [L] a point of the subspace.
    fn in_all_frames(&self, point: &[f64]) -> Vec<f64> {
        let mut out = vec![0.0; self.0.length];
        for (x, row) in point.iter().zip(self.0.basis.chunks_exact(self.0.length)) {
            out.iter_mut().zip(row).for_each(|(o, b)| *o += x * b);
        }
        out
    }
}

impl Cluster {
    /// Squared error of the best mix.
    fn error(&self, row: &[f32]) -> f64 {
        let d = row.len();
        let mut products = [0.0; COMPONENTS];
        let mut squared = 0.0;
        for (l, x) in row.iter().enumerate() {
            let x = f64::from(*x);
            squared += x * x;
            products.iter_mut().enumerate().for_each(|(k, p)| *p += x * self.components[k * d + l]);
        }
        (squared - products.iter().map(|p| p * p).sum::<f64>()).max(0.0)
    }
}

/// Gives every cluster without vertices the worst vertex of those that have more than one.
fn fill_empty(labels: &mut [u16], errors: &[f64], count: usize) {
    let mut sizes = vec![0usize; count];
    labels.iter().for_each(|&c| sizes[usize::from(c)] += 1);
    let mut order: Vec<usize> = (0..labels.len()).collect();
    if sizes.iter().all(|&size| size > 0) {
        return;
    }
    order.sort_by(|&a, &b| errors[b].total_cmp(&errors[a]).then(a.cmp(&b)));
    let mut worst = order.into_iter();
    for c in 0..count {
        if sizes[c] == 0
            && let Some(i) = worst.find(|&i| sizes[usize::from(labels[i])] > 1)
        {
            sizes[usize::from(labels[i])] -= 1;
            sizes[c] = 1;
            labels[i] = c as u16;
        }
    }
}
