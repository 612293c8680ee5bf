//! Animations as few trajectories that vertices mix: truncated SVD and clustered PCA, as published. No rigs: nothing
//! here has bones, and only our own evaluator and files know them. To compare rigs with.
//!
//! A vertex of cluster `c` follows `v_i(t) = mean(t) + sum_d x_id column_cd(t)` [Kavan2010 s.2]: rigs have this form
//! too, with four columns a bone and columns of `X` that follow from weights and rest position.

mod cpca;
mod svd;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use glam::{DVec3, Vec3};

use crate::baselines::frame::{Attempt, with_bones};
use crate::fit::problem::Problem;
use crate::fit::run::Run;
use crate::fit::{FitError, FitInfo, FitParams, Method, StopReason, Warning, check_bones};
use crate::metrics::{self, Metrics, MetricsError};
use crate::observer::Observer;
use crate::sequence::MeshSequence;
use crate::surface::Surface;

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
    /// [N, D] how much of each column of its cluster a vertex takes, in model units.
    pub coefficients: Vec<f32>,
    /// Parameters that made it, as JSON; empty when unknown.
    pub params_json: String,
}

/// Why a basis was refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum BasisError {
    /// Arrays that do not fit each other.
    #[error("{what} has {found} numbers, not {expected}")]
    Size {
        /// Which array.
        what: &'static str,
        /// Numbers it has.
        found: usize,
        /// Numbers it should have.
        expected: usize,
    },
    /// Nothing in it.
    #[error("there are {clusters} clusters of {dimension} columns and {frames} frames; each must be 1 or more")]
    Empty {
        /// C.
        clusters: usize,
        /// D.
        dimension: usize,
        /// F.
        frames: usize,
    },
    /// A cluster that does not exist.
    #[error("vertex {vertex} is in cluster {cluster}, but there are {clusters}")]
    NoSuchCluster {
        /// Vertex index.
        vertex: usize,
        /// The cluster it names.
        cluster: u16,
        /// Clusters there are.
        clusters: usize,
    },
    /// NaN or infinity.
    #[error("{what}, number {at}: not finite")]
    NotFinite {
        /// Which array.
        what: &'static str,
        /// Index of the number.
        at: usize,
    },
    /// Faces or corner attributes are wrong.
    #[error(transparent)]
    Surface(#[from] crate::surface::SurfaceError),
}

/// A basis and how it came about.
#[derive(Clone, Debug)]
pub struct Represented {
    /// The basis.
    pub basis: Basis,
    /// How it came about.
    pub info: FitInfo,
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

    /// What it takes as float32 and 16-bit cluster numbers: the columns and the mean of every frame, and the numbers of
    /// every vertex.
    pub fn bytes(&self) -> usize {
        let labels = if self.cluster_count > 1 { 2 * self.clusters.len() } else { 0 };
        4 * (self.mean.len() + self.columns.len() + self.coefficients.len()) + labels
    }

    /// [N] positions in frame `t`.
    pub fn frame(&self, t: usize) -> Vec<Vec3> {
        let f = self.frame_count();
        let at = |table: &[f32], row: usize| {
            let at = (row * f + t) * 3;
            DVec3::new(f64::from(table[at]), f64::from(table[at + 1]), f64::from(table[at + 2]))
        };
        let position = |(&cluster, mix): (&u16, &[f32])| {
            let c = usize::from(cluster);
            let columns =
                mix.iter().enumerate().map(|(d, x)| f64::from(*x) * at(&self.columns, c * self.dimension + d));
            (at(&self.mean, 0) + columns.sum::<DVec3>()).as_vec3()
        };
        self.clusters.iter().zip(self.coefficients.chunks_exact(self.dimension)).map(position).collect()
    }

    /// Checks invariants 1 to 3.
    pub fn check(&self) -> Result<(), BasisError> {
        let (n, f, c, d) = (self.vertex_count(), self.frame_count(), self.cluster_count, self.dimension);
        if c == 0 || d == 0 || f == 0 {
            return Err(BasisError::Empty { clusters: c, dimension: d, frames: f });
        }
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
            if let Some(at) = table.iter().position(|x| !x.is_finite()) {
                return Err(BasisError::NotFinite { what, at });
            }
        }
        Ok(self.surface.check(n)?)
    }
}

/// How well a basis reproduces a sequence.
pub fn evaluate(basis: &Basis, sequence: &MeshSequence) -> Result<Metrics, MetricsError> {
    let (n, f) = (sequence.vertex_count(), sequence.frame_count());
    if basis.vertex_count() != n {
        return Err(MetricsError::VertexCount { rig: basis.vertex_count(), sequence: n });
    }
    if basis.frame_count() != f {
        return Err(MetricsError::FrameCount { clip: basis.name.clone(), rig: basis.frame_count(), sequence: f });
    }
    Ok(metrics::compare(sequence, |t| basis.frame(t)))
}

/// A result in the unit of the problem: trajectories by vertex, all x over time, then y, then z.
pub(crate) struct Mixed {
    pub clusters: Vec<u16>,
    /// D.
    pub dimension: usize,
    /// [C, D, L]
    pub columns: Vec<f64>,
    /// [N, D]
    pub coefficients: Vec<f64>,
    pub stop: StopReason,
    pub rounds: usize,
    pub e_rms: f64,
    /// P: bones of a rig with as many numbers in every frame.
    pub bones: usize,
}

impl Attempt for Mixed {
    fn e_rms(&self) -> f64 {
        self.e_rms
    }

    fn bones(&self) -> usize {
        self.bones
    }
}

/// Represents a sequence with as many numbers in every frame as `params.bones` bones would have: [`Method::Svd`] or
/// [`Method::Cpca`].
pub fn represent(
    sequence: &MeshSequence,
    params: &FitParams,
    observer: &mut dyn Observer,
) -> Result<Represented, FitError> {
    params.validate()?;
    check_bones(sequence, params)?;
    let mut run = Run::new(params, observer);
    run.stage("prepare", None)?;
    let problem = run.timed("normalise", || Problem::centered(sequence));
    let mut warnings = Vec::new();
    let vertices = sequence.vertex_count();
    let (mixed, prepare_secs) = match params.method {
        Method::Svd => {
            let full = svd::Decomposed::new(&problem, &mut run)?;
            let prepared = run.seconds();
            let cut = |count: usize, run: &mut Run<'_>| full.cut(&problem, count, run);
            (with_bones(params.bones, vertices, &mut run, &mut warnings, cut)?, prepared)
        }
        Method::Cpca => {
            let space = cpca::Space::new(&problem, &mut run)?;
            let prepared = run.seconds();
            let cluster = |count: usize, run: &mut Run<'_>| space.cluster(&problem, count, params, run);
            (with_bones(params.bones, vertices, &mut run, &mut warnings, cluster)?, prepared)
        }
        method => {
            let text = format!("the method {} makes rigs, not a basis of trajectories", method.name());
            return Err(FitError::Unsupported(text));
        }
    };
    if !problem.moves() {
        warnings.push(Warning::NoMotion);
    }
    let info = FitInfo {
        iterations: mixed.rounds,
        stop: mixed.stop,
        warnings,
        prepare_secs,
        jitter_ratio: None,
        fit_secs: run.seconds() - prepare_secs,
        history: run.history,
        profile: run.profile,
    };
    Ok(Represented { basis: basis(sequence, &problem, mixed), info })
}

/// Back to model units, frame by frame.
fn basis(sequence: &MeshSequence, problem: &Problem, mixed: Mixed) -> Basis {
    let (f, radius, center) = (problem.frames(), problem.sphere.radius, problem.sphere.center);
    let by_frame =
        |row: &[f64]| -> Vec<DVec3> { (0..f).map(|t| DVec3::new(row[t], row[f + t], row[2 * f + t])).collect() };
    let numbers = |p: DVec3| p.as_vec3().to_array();
    let mean = (0..f).flat_map(|t| numbers(problem.shift(t) * radius + center));
    let columns =
        mixed.columns.chunks_exact(problem.length).flat_map(|row| by_frame(row).into_iter().flat_map(numbers));
    Basis {
        name: sequence.name().to_owned(),
        rest: sequence.rest().to_vec(),
        surface: sequence.surface().clone(),
        times_secs: sequence.times_secs().to_vec(),
        cluster_count: mixed.columns.len() / (problem.length * mixed.dimension),
        dimension: mixed.dimension,
        mean: mean.collect(),
        columns: columns.collect(),
        coefficients: mixed.coefficients.iter().map(|x| (x * radius) as f32).collect(),
        clusters: mixed.clusters,
        params_json: String::new(),
    }
}
