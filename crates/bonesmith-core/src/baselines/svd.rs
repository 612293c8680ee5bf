//! Truncated singular value decomposition [Alexa2000, as compared with in Kavan2010 s.5]: `4 P` columns for the whole
//! mesh, as many numbers in every frame as P affine bones have.
//!
//! Trajectories are relative to the mean of all vertices in each frame (see [`unit`](crate::skinning::unit)), which is one trajectory more. Singular vectors are the eigenvectors of the sum of the trajectories' products, [3 F, 3 F] in float64: values
//! below 1e-8 of the largest are lost in rounding, which is less than float32 positions hold. Animations too long for
//! that matrix are refused.

use faer::linalg::matmul::matmul;
use faer::{Accum, Mat, Par};

use crate::baselines::basis::Mixed;
use crate::baselines::published::Attempt;
use crate::observer::Stage;
use crate::skinning::{FitError, Problem, Run, StopReason, products};
use crate::solve::check::check_memory;
use crate::solve::matrix;

/// Vertices that are added to the sums between two reports.
const BLOCK: usize = 512;

/// Directions of all trajectories.
pub(super) struct Decomposed {
    /// [L, L] columns by rising singular value.
    vectors: Mat<f64>,
    /// [L] squared singular values, rising.
    squares: Vec<f64>,
}

impl Decomposed {
    pub fn new(problem: &Problem, run: &mut Run<'_>) -> Result<Self, FitError> {
        let length = problem.length;
        check_memory("products of the method svd", length, length, 8).map_err(FitError::Unsuited)?;
        run.stage(Stage::SingularValues, Some(problem.vertices().div_ceil(BLOCK) + 1))?;
        let mut gram = Mat::<f64>::zeros(length, length);
        for rows in problem.trajectories.chunks(BLOCK * length) {
            let wide: Vec<f64> = rows.iter().map(|&x| f64::from(x)).collect();
            let rows = matrix::rows(&wide, length);
            matmul(gram.as_mut(), Accum::Add, rows.transpose(), rows, 1.0, Par::Seq);
            run.step()?;
        }
        let Some((squares, vectors)) = run.timed("singular values", || matrix::eigen(&gram)) else {
            return Err(FitError::Unsuited("the singular values of this animation cannot be computed".into()));
        };
        Ok(Self { vectors, squares: squares.into_iter().map(|square| square.max(0.0)).collect() })
    }

    /// The leading `4 count` directions.
    pub fn cut(&self, problem: &Problem, count: usize, run: &mut Run<'_>) -> Result<Attempt<Mixed>, FitError> {
        let length = problem.length;
        let dimension = (4 * count).min(length);
        let columns: Vec<f64> = (0..dimension)
            .flat_map(|d| (0..length).map(move |l| (l, length - 1 - d)))
            .map(|at| self.vectors[at])
            .collect();
        let left: f64 = self.squares[..length - dimension].iter().sum();
        let e_rms = problem.e_rms(left);
        run.round(count, e_rms)?;
        let (mut wide, mut projected, mut coefficients) = (Vec::new(), Vec::new(), Vec::new());
        for rows in problem.trajectories.chunks(BLOCK * length) {
            run.report()?;
            projected.resize(rows.len() / length * (columns.len() / length), 0.0);
            products::project(&columns, length, rows, &mut wide, &mut projected);
            coefficients.extend_from_slice(&projected);
        }
        let stop = if dimension == length { StopReason::Exact } else { StopReason::MaxIterations };
        let result = Mixed { clusters: vec![0; problem.vertices()], dimension, columns, coefficients };
        Ok(Attempt { result, bones: count, stop, rounds: 1, e_rms })
    }
}
