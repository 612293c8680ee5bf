//! Truncated singular value decomposition [Alexa2000, as Kavan2010 s.5 compares with it]: `4 P` columns for the whole
//! mesh, as many numbers in every frame as P affine bones have.
//!
//! Trajectories are taken about the mean of all vertices in each frame ([`UnitSpace`](crate::skinning::unit::UnitSpace)), which is one trajectory
//! more. Singular vectors are the eigenvectors of the sum of the trajectories' products, [3 F, 3 F] in float64: values
//! below 1e-8 of the largest are lost in rounding, which is less than float32 positions hold. Animations too long for
//! that matrix are refused.

use faer::linalg::matmul::matmul;
use faer::{Accum, Mat, MatMut, MatRef, Par, Side};

use crate::baselines::basis::Mixed;
use crate::baselines::frame::check_memory;
use crate::skinning::params::{FitError, StopReason};
use crate::skinning::problem::Problem;
use crate::skinning::run::Run;

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
        run.stage("singular values", Some(problem.vertices().div_ceil(BLOCK) + 1))?;
        let mut gram = Mat::<f64>::zeros(length, length);
        for rows in problem.trajectories.chunks(BLOCK * length) {
            let wide: Vec<f64> = rows.iter().map(|&x| f64::from(x)).collect();
            let rows = MatRef::from_row_major_slice(&wide, rows.len() / length, length);
            matmul(gram.as_mut(), Accum::Add, rows.transpose(), rows, 1.0, Par::Seq);
            run.step()?;
        }
        let eigen = run.timed("singular values", || gram.self_adjoint_eigen(Side::Lower));
        let Ok(eigen) = eigen else {
            return Err(FitError::Unsuited("the singular values of this animation cannot be computed".into()));
        };
        let squares = (0..length).map(|l| eigen.S().column_vector()[l].max(0.0)).collect();
        Ok(Self { vectors: eigen.U().to_owned(), squares })
    }

    /// The leading `4 count` directions.
    pub fn cut(&self, problem: &Problem, count: usize, run: &mut Run<'_>) -> Result<Mixed, FitError> {
        let length = problem.length;
        let dimension = (4 * count).min(length);
        let columns: Vec<f64> = (0..dimension)
            .flat_map(|d| (0..length).map(move |l| (l, length - 1 - d)))
            .map(|at| self.vectors[at])
            .collect();
        let left: f64 = self.squares[..length - dimension].iter().sum();
        let e_rms = problem.e_rms(left);
        run.round(count, e_rms)?;
        Ok(Mixed {
            clusters: vec![0; problem.vertices()],
            dimension,
            coefficients: project(&problem.trajectories, length, &columns),
            columns,
            stop: if dimension == length { StopReason::Exact } else { StopReason::MaxIterations },
            rounds: 1,
            e_rms,
            bones: count,
        })
    }
}

/// [n, D] products of rows with columns.
pub(super) fn project(rows: &[f32], length: usize, columns: &[f64]) -> Vec<f64> {
    let dimension = columns.len() / length;
    let columns = MatRef::from_row_major_slice(columns, dimension, length);
    let mut out = vec![0.0; rows.len() / length * dimension];
    for (rows, out) in rows.chunks(BLOCK * length).zip(out.chunks_mut(BLOCK * dimension)) {
        let wide: Vec<f64> = rows.iter().map(|&x| f64::from(x)).collect();
        let n = rows.len() / length;
        let rows = MatRef::from_row_major_slice(&wide, n, length);
        matmul(
            MatMut::from_row_major_slice_mut(out, n, dimension),
            Accum::Replace,
            rows,
            columns.transpose(),
            1.0,
            Par::Seq,
        );
    }
    out
}
