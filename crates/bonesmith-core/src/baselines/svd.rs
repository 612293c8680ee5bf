//! Truncated singular value decomposition [Alexa2000, as compared with in Kavan2010 s.5]: `4 P` columns for the whole
//! mesh, as many numbers in every frame as P affine bones have.
//!
//! Trajectories are relative to the mean of all vertices in each frame, which is one trajectory more. (Those of the problem are moved by
//! the *travel* of that mean, see [`unit`](crate::skinning::unit), so that their own mean is not 0.) Singular vectors are the
//! eigenvectors of the sum of the trajectories' products, [3 F, 3 F] in float64: values below 1e-8 of the largest are lost in
//! rounding, which is less than float32 positions hold. Animations too long for that matrix are refused.

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
    /// [L] mean of all trajectories.
    mean: Vec<f64>,
}

impl Decomposed {
    pub fn new(problem: &Problem, run: &mut Run<'_>) -> Result<Self, FitError> {
        let length = problem.length;
        check_memory("products of the method svd", length, length, 8).map_err(FitError::Unsuited)?;
        run.stage(Stage::SingularValues, Some(problem.vertices().div_ceil(BLOCK) + 1))?;
        let mean = mean(problem);
        let mut gram = Mat::<f64>::zeros(length, length);
        for rows in problem.trajectories.chunks(BLOCK * length) {
            let wide: Vec<f64> = rows.iter().zip(mean.iter().cycle()).map(|(&x, mean)| f64::from(x) - mean).collect();
            let rows = matrix::rows(&wide, length);
            matmul(gram.as_mut(), Accum::Add, rows.transpose(), rows, 1.0, Par::Seq);
            run.step()?;
        }
        let Some((squares, vectors)) = run.timed("singular values", || matrix::eigen(&gram)) else {
            return Err(FitError::Unsuited("the singular values of this animation cannot be computed".into()));
        };
        Ok(Self { vectors, squares: squares.into_iter().map(|square| square.max(0.0)).collect(), mean })
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
        let of_mean: Vec<f64> = columns
            .chunks_exact(length)
            .map(|column| column.iter().zip(&self.mean).map(|(c, mean)| c * mean).sum())
            .collect();
        let (mut wide, mut projected, mut coefficients) = (Vec::new(), Vec::new(), Vec::new());
        for rows in problem.trajectories.chunks(BLOCK * length) {
            run.report()?;
            projected.resize(rows.len() / length * (columns.len() / length), 0.0);
            products::project(&columns, length, rows, &mut wide, &mut projected);
            coefficients.extend(projected.iter().zip(of_mean.iter().cycle()).map(|(x, mean)| x - mean));
        }
        let stop = if dimension == length { StopReason::Exact } else { StopReason::MaxIterations };
        let clusters = vec![0; problem.vertices()];
        let result = Mixed { clusters, dimension, columns, coefficients, mean: self.mean.clone() };
        Ok(Attempt { result, bones: count, stop, rounds: 1, e_rms })
    }
}

/// [L] mean of all trajectories.
fn mean(problem: &Problem) -> Vec<f64> {
    let mut sum = vec![0.0; problem.length];
    for row in problem.trajectories.chunks_exact(problem.length) {
        sum.iter_mut().zip(row).for_each(|(sum, x)| *sum += f64::from(*x));
    }
    sum.iter_mut().for_each(|sum| *sum /= problem.vertices() as f64);
    sum
}
