//! Dense matrices by faer: products of row-major tables, on one thread, so that bits do not depend on how many there are; small
//! symmetric systems and eigenvectors.

use faer::linalg::matmul::matmul;
use faer::linalg::solvers::Solve;
use faer::traits::ComplexField;
use faer::{Accum, Mat, MatMut, MatRef, Par, Side};

/// A row-major matrix with so many columns.
pub(crate) fn rows<T>(values: &[T], columns: usize) -> MatRef<'_, T> {
    MatRef::from_row_major_slice(values, values.len() / columns, columns)
}

/// `out = a b`, row by row.
pub(crate) fn product_into<T: ComplexField + From<f32>>(out: &mut [T], a: MatRef<'_, T>, b: MatRef<'_, T>) {
    let to = MatMut::from_row_major_slice_mut(out, a.nrows(), b.ncols());
    matmul(to, Accum::Replace, a, b, T::from(1.0), Par::Seq);
}

/// `a b`, row by row.
pub(crate) fn product(a: MatRef<'_, f64>, b: MatRef<'_, f64>) -> Vec<f64> {
    let mut out = vec![0.0; a.nrows() * b.ncols()];
    product_into(&mut out, a, b);
    out
}

/// `(A + ridge I)^-1 b` of symmetric positive `A` [n, n]; `None` where it is not.
pub(crate) fn solve_ridged(
    n: usize,
    ridge: f64,
    entry: impl Fn(usize, usize) -> f64,
    right: impl Fn(usize) -> f64,
) -> Option<Vec<f64>> {
    let matrix = Mat::from_fn(n, n, |r, c| entry(r, c) + if r == c { ridge } else { 0.0 });
    let solved = matrix.llt(Side::Lower).ok()?.solve(Mat::from_fn(n, 1, |r, _| right(r)));
    Some((0..n).map(|r| solved[(r, 0)]).collect())
}

/// Rising eigenvalues of a symmetric matrix, and their vectors by columns.
pub(crate) fn eigen(symmetric: &Mat<f64>) -> Option<(Vec<f64>, Mat<f64>)> {
    let eigen = symmetric.self_adjoint_eigen(Side::Lower).ok()?;
    Some((eigen.S().column_vector().iter().copied().collect(), eigen.U().to_owned()))
}
