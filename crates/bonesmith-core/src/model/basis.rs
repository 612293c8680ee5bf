//! Animations as few trajectories that vertices mix: truncated SVD and clustered PCA, as published. They have no bones and
//! exist to compare rigs with.
//!
//! A vertex of cluster `c` follows `v_i(t) = mean(t) + sum_d x_id column_cd(t)` [Kavan2010 s.2]: rigs have this form
//! too, with four columns per bone and columns of `X` that follow from weights and rest position.

use std::sync::Arc;

use glam::Vec3;

use crate::mesh::{Surface, SurfaceError};
use crate::solve::check::ensure;

/// An animation as trajectories that vertices mix.
///
/// Invariants, checked by [`Basis::check`]:
/// 1. At least one cluster, one dimension and one frame; times rise.
/// 2. Sizes are as stated; every vertex names a cluster that exists; all numbers are finite.
/// 3. `surface` fits the N vertices.
#[derive(Clone, Debug)]
pub struct Basis {
    /// Short name for outputs.
    pub name: String,
    /// [N] rest pose of the input, in model units.
    pub rest: Vec<Vec3>,
    /// Faces, corner attributes, materials.
    pub surface: Arc<Surface>,
    /// [F] seconds, rising.
    pub times_secs: Vec<f64>,
    /// C.
    pub cluster_count: usize,
    /// D: columns of each cluster.
    pub dimension: usize,
    /// [N] cluster of each vertex.
    pub clusters: Vec<u16>,
    /// [F, 3] mean of all vertices, in model units.
    pub mean: Vec<f32>,
    /// [C, D, F, 3] columns, of unit length.
    pub columns: Vec<f32>,
    /// [N, D] weight of each column of its cluster for a vertex, in model units.
    pub coefficients: Vec<f32>,
    /// Parameters that made it, as JSON; empty when unknown.
    pub params_json: String,
}

/// Why a basis was refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it all")]
#[non_exhaustive]
pub enum BasisError {
    #[error("{what} has {found} numbers, not {expected}")]
    Size { what: &'static str, found: usize, expected: usize },
    #[error("there are {clusters} clusters of {dimension} columns and {frames} frames; each must be 1 or more")]
    Empty { clusters: usize, dimension: usize, frames: usize },
    #[error("vertex {vertex} is in cluster {cluster}, but there are {clusters}")]
    NoSuchCluster { vertex: usize, cluster: u16, clusters: usize },
    #[error("{what}, number {at}: not finite")]
    NotFinite { what: &'static str, at: usize },
    #[error(transparent)]
    Surface(#[from] SurfaceError),
}

impl Basis {
    /// N.
    pub fn vertex_count(&self) -> usize {
        self.rest.len()
    }

    /// F.
    pub fn frame_count(&self) -> usize {
        self.times_secs.len()
    }

    /// Bytes at run time: columns, mean and coefficients as float32, clusters as 16 bits where there are several.
    pub fn bytes(&self) -> usize {
        let labels = if self.cluster_count > 1 { 2 * self.clusters.len() } else { 0 };
        4 * (self.mean.len() + self.columns.len() + self.coefficients.len()) + labels
    }

    /// Checks invariants 1 to 3.
    pub fn check(&self) -> Result<(), BasisError> {
        let (n, f, c, d) = (self.vertex_count(), self.frame_count(), self.cluster_count, self.dimension);
        ensure(c != 0 && d != 0 && f != 0, || BasisError::Empty { clusters: c, dimension: d, frames: f })?;
        let sizes = [
            ("basis_clusters", self.clusters.len(), n),
            ("basis_mean", self.mean.len(), f * 3),
            ("basis_columns", self.columns.len(), c * d * f * 3),
            ("basis_coefficients", self.coefficients.len(), n * d),
        ];
        if let Some(&(what, found, expected)) = sizes.iter().find(|(_, found, expected)| found != expected) {
            return Err(BasisError::Size { what, found, expected });
        }
        if let Some(vertex) = self.clusters.iter().position(|&cluster| usize::from(cluster) >= c) {
            return Err(BasisError::NoSuchCluster { vertex, cluster: self.clusters[vertex], clusters: c });
        }
        let tables =
            [("basis_mean", &self.mean), ("basis_columns", &self.columns), ("basis_coefficients", &self.coefficients)];
        for (what, table) in tables {
            table.iter().position(|x| !x.is_finite()).map_or(Ok(()), |at| Err(BasisError::NotFinite { what, at }))?;
        }
        Ok(self.surface.check(n)?)
    }
}
