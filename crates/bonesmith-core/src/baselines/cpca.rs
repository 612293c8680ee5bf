//! Clustered principal component analysis [Sattler2005, as compared with in Kavan2010 s.2 and s.5]: vertices in P
//! clusters, each with four trajectories of its own that its vertices mix.
//!
//! Clusters and their components alternate: components of each cluster's vertices, then every vertex to the cluster
//! that reproduces it best, until none moves. Components are taken without a mean, so that P affine bones have as many
//! numbers in every frame, and could be such clusters. Left open by the papers and chosen here: the start is cells around
//! farthest points of the rest pose; a cluster without vertices takes the worst one. Deviation: all in a subspace that
//! leaves out a ten-thousandth of the radius.

use faer::Mat;
use rayon::prelude::*;

use crate::baselines::basis::Mixed;
use crate::baselines::published::{Attempt, Input};
use crate::baselines::subspace::Subspace;
use crate::cluster::labels::fill_empty;
use crate::cluster::spread::{cells, centers};
use crate::observer::Stage;
use crate::skinning::{FitError, Run, StopReason, products};
use crate::solve::matrix::eigen;

/// Trajectories of a cluster [Kavan2010 s.5].
const COMPONENTS: usize = 4;

/// What the subspace leaves out of each coordinate, in radii.
const TOLERANCE: f64 = 1e-4;

/// Most rounds.
const MAX_ROUNDS: usize = 60;

/// Trajectories in fewer dimensions.
pub(super) struct Space<'a> {
    input: &'a Input<'a>,
    subspace: Subspace,
}

impl<'a> Space<'a> {
    pub fn new(input: &'a Input<'a>, run: &mut Run<'_>) -> Result<Self, FitError> {
        run.stage(Stage::Subspace, None)?;
        Ok(Self { input, subspace: Subspace::new(&input.problem, TOLERANCE, run)? })
    }

    /// Alternates with `count` clusters.
    pub fn cluster(&self, count: usize, run: &mut Run<'_>) -> Result<Attempt<Mixed>, FitError> {
        let rest = &self.input.problem.rest;
        let mut labels = cells(rest, &centers(rest, count, &mut || run.report())?);
        let mut rule = self.input.stop_rule(MAX_ROUNDS, 0.0);
        run.stage(Stage::ClustersAndComponents, Some(rule.rounds))?;
        let mut last = Vec::new();
        loop {
            let components = run.timed("components", || self.components(&labels, count));
            let (nearest, errors) = run.timed("clusters", || self.assign(&components));
            let e_rms = self.input.problem.e_rms(errors.iter().sum::<f64>() + self.subspace.squared_error);
            run.round(count, e_rms)?;
            let unchanged = (nearest == last).then_some(StopReason::Converged);
            if let Some(stop) = rule.after(e_rms, run).or(unchanged) {
                let result = self.mixed(&components, nearest);
                return Ok(Attempt { result, bones: count, stop, rounds: rule.count, e_rms });
            }
            last.clone_from(&nearest);
            labels = nearest;
            fill_empty(&mut labels, count, |i, _| errors[i]);
        }
    }

    /// [N] coordinates in the subspace.
    fn rows(&self) -> rayon::slice::ChunksExact<'_, f32> {
        self.subspace.coordinates.par_chunks_exact(self.subspace.dimension)
    }

    /// [C, COMPONENTS, d] leading directions of each cluster, orthonormal; zero where it has fewer.
    fn components(&self, labels: &[u16], count: usize) -> Vec<f64> {
        let mut members = vec![Vec::new(); count];
        labels.iter().enumerate().for_each(|(i, &c)| members[usize::from(c)].push(i));
        members.par_iter().flat_map_iter(|members| self.components_of(members)).collect()
    }

    fn components_of(&self, members: &[usize]) -> Vec<f64> {
        let d = self.subspace.dimension;
        let rows = Mat::from_fn(members.len(), d, |r, l| f64::from(self.subspace.coordinates[members[r] * d + l]));
        let mut components = vec![0.0; COMPONENTS * d];
        if let Some((squares, vectors)) = eigen(&(rows.transpose() * &rows)) {
            for k in (0..COMPONENTS.min(d)).filter(|&k| squares[d - 1 - k] > 1e-12 * squares[d - 1]) {
                (0..d).for_each(|l| components[k * d + l] = vectors[(l, d - 1 - k)]);
            }
        }
        components
    }

    /// [N] cluster that reproduces each vertex best, and its squared error.
    fn assign(&self, components: &[f64]) -> (Vec<u16>, Vec<f64>) {
        let clusters = || components.chunks_exact(COMPONENTS * self.subspace.dimension);
        let best = |row: &[f32]| {
            let errors = clusters().enumerate().map(|(c, components)| (mix_error(components, row), c as u16));
            errors.fold((f64::INFINITY, 0), |best, next| if next.0 < best.0 { next } else { best })
        };
        let found: Vec<(f64, u16)> = self.rows().map(best).collect();
        found.into_iter().map(|(error, c)| (c, error)).unzip()
    }

    /// Back to all frames.
    fn mixed(&self, components: &[f64], clusters: Vec<u16>) -> Mixed {
        let length = self.input.problem.length;
        let columns = self.subspace.in_all_frames(components);
        let (mut wide, mut coefficients, mut projected) = (Vec::new(), Vec::new(), Vec::new());
        for (i, &c) in clusters.iter().enumerate() {
            let own = &columns[usize::from(c) * COMPONENTS * length..][..COMPONENTS * length];
            projected.resize(own.len() / length, 0.0);
            products::project(own, length, self.input.problem.trajectory(i), &mut wide, &mut projected);
            coefficients.extend_from_slice(&projected);
        }
        Mixed { clusters, dimension: COMPONENTS, columns, coefficients, mean: vec![0.0; length] }
    }
}

/// Squared error of the best mix of some components.
fn mix_error(components: &[f64], row: &[f32]) -> f64 {
    let d = row.len();
    let mut products = [0.0; COMPONENTS];
    let mut squared = 0.0;
    for (l, x) in row.iter().enumerate() {
        let x = f64::from(*x);
        squared += x * x;
        products.iter_mut().enumerate().for_each(|(k, p)| *p += x * components[k * d + l]);
    }
    (squared - products.iter().map(|p| p * p).sum::<f64>()).max(0.0)
}
