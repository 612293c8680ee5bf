//! Animations as few trajectories that vertices mix: truncated SVD and clustered PCA, as published, to compare rigs with.

use glam::DVec3;

use crate::baselines::published::{Input, Rest};
use crate::baselines::{cpca, svd};
use crate::mesh::MeshSequence;
use crate::model::Basis;
use crate::observer::Observer;
use crate::skinning::{FitError, FitInfo, FitParams, MAX_PAIRED_BONES, Method, Problem, Run, check_bones};
use crate::solve::check::ensure;

/// A basis and how it came about.
#[derive(Clone, Debug)]
pub struct Represented {
    /// The basis.
    pub basis: Basis,
    /// How it came about.
    pub info: FitInfo,
}

/// A result in the unit of the problem: trajectories by vertex, all x over time, then y, then z.
pub(super) struct Mixed {
    /// [N]
    pub clusters: Vec<u16>,
    /// D.
    pub dimension: usize,
    /// [C, D, L]
    pub columns: Vec<f64>,
    /// [N, D]
    pub coefficients: Vec<f64>,
    /// [L] trajectory that all vertices add.
    pub mean: Vec<f64>,
}

/// Represents a sequence with as many numbers in every frame as `params.bones` bones would have: [`Method::Svd`] or
/// [`Method::Cpca`].
pub fn represent(
    sequence: &MeshSequence,
    params: &FitParams,
    observer: &mut dyn Observer,
) -> Result<Represented, FitError> {
    params.validate()?;
    check_bones(sequence, params, MAX_PAIRED_BONES)?;
    let text = || format!("the method {} makes rigs, not a basis of trajectories", params.method.name());
    ensure(!params.method.makes_rigs(), || FitError::Unsupported(text()))?;
    let mut run = Run::new(params, observer);
    let input = &Input::new(sequence, params, Rest::Input, &mut run)?;
    let attempt = if params.method == Method::Svd {
        let full = svd::Decomposed::new(&input.problem, &mut run)?;
        run.prepared();
        input.with_bones(&mut run, |count, run| full.cut(&input.problem, count, run))?
    } else {
        let space = cpca::Space::new(input, &mut run)?;
        run.prepared();
        input.with_bones(&mut run, |count, run| space.cluster(count, run))?
    };
    let info = input.record(&attempt, None, run);
    Ok(Represented { basis: basis(sequence, &input.problem, attempt.result), info })
}

/// Back to model units, frame by frame.
fn basis(sequence: &MeshSequence, problem: &Problem, mixed: Mixed) -> Basis {
    let (f, space) = (problem.frames(), &problem.space);
    let by_frame =
        |row: &[f64]| -> Vec<DVec3> { (0..f).map(|t| DVec3::new(row[t], row[f + t], row[2 * f + t])).collect() };
    let numbers = |p: DVec3| p.as_vec3().to_array();
    let mean = by_frame(&mixed.mean).into_iter().enumerate();
    let mean = mean.flat_map(|(t, mean)| numbers(space.model_point(space.shift(t) + mean)));
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
        coefficients: mixed.coefficients.iter().map(|x| (x * space.sphere.radius) as f32).collect(),
        clusters: mixed.clusters,
        params_json: String::new(),
    }
}
