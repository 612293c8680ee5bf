//! Sparse symmetric positive definite systems by faer's Cholesky factorisation, on one thread: the same bits always.

use faer::dyn_stack::{MemBuffer, MemStack};
use faer::sparse::linalg::cholesky::{LltRef, SymbolicCholesky, factorize_symbolic_cholesky};
use faer::sparse::{SparseColMatRef, SymbolicSparseColMatRef};
use faer::{Conj, MatMut, Par, Side};

/// A symmetric matrix by the columns of its lower triangle: `starts` [n + 1], `rows` rising within each column, `values`.
pub(crate) struct Lower {
    pub starts: Vec<usize>,
    pub rows: Vec<usize>,
    pub values: Vec<f64>,
}

/// The Cholesky factor of a sparse matrix.
pub(crate) struct Factor {
    symbolic: SymbolicCholesky<usize>,
    values: Vec<f64>,
}

impl Lower {
    /// The order in which unknowns are taken out and where the factor has entries: the pattern decides, not the values.
    pub fn analyse(&self) -> Option<SymbolicCholesky<usize>> {
        let n = self.starts.len() - 1;
        let pattern = SymbolicSparseColMatRef::new_checked(n, n, &self.starts, None, &self.rows);
        factorize_symbolic_cholesky(pattern, Side::Lower, Default::default(), Default::default()).ok()
    }

    /// `None` if it is not positive definite, or memory is out.
    #[allow(clippy::result_large_err, reason = "the analysis is used again with another ridge")]
    pub fn factor(&self, symbolic: SymbolicCholesky<usize>) -> Result<Factor, SymbolicCholesky<usize>> {
        let n = self.starts.len() - 1;
        let pattern = SymbolicSparseColMatRef::new_checked(n, n, &self.starts, None, &self.rows);
        let mut values = vec![0.0; symbolic.len_val()];
        let matrix = SparseColMatRef::new(pattern, &self.values);
        let scratch = symbolic.factorize_numeric_llt_scratch::<f64>(Par::Seq, Default::default());
        let Ok(mut memory) = MemBuffer::try_new(scratch) else { return Err(symbolic) };
        let (stack, regularise) = (MemStack::new(&mut memory), Default::default());
        let done = symbolic
            .factorize_numeric_llt::<f64>(
                &mut values,
                matrix,
                Side::Lower,
                regularise,
                Par::Seq,
                stack,
                Default::default(),
            )
            .is_ok();
        if done { Ok(Factor { symbolic, values }) } else { Err(symbolic) }
    }
}

impl Factor {
    /// Solves `A x = right` in place, for `columns` right sides one after another; `false` if memory is out.
    pub fn solve(&self, right: &mut [f64], columns: usize) -> bool {
        let scratch = self.symbolic.solve_in_place_scratch::<f64>(columns, Par::Seq);
        let Ok(mut memory) = MemBuffer::try_new(scratch) else { return false };
        let right = MatMut::from_column_major_slice_mut(right, right.len() / columns, columns);
        let factor = LltRef::new(&self.symbolic, &self.values);
        factor.solve_in_place_with_conj(Conj::No, right, Par::Seq, MemStack::new(&mut memory));
        true
    }
}

/// Solves `A x = right` in place. `A` is given by the columns of its lower triangle: `starts` [n + 1], `rows` rising
/// within each column, `values`. `false` if it is not positive definite, or memory is out.
pub(crate) fn solve(starts: &[usize], rows: &[usize], values: &[f64], right: &mut [f64]) -> bool {
    debug_assert!(starts.len() == right.len() + 1 && rows.len() == values.len());
    if right.is_empty() {
        return true;
    }
    let lower = Lower { starts: starts.to_vec(), rows: rows.to_vec(), values: values.to_vec() };
    let Some(symbolic) = lower.analyse() else { return false };
    lower.factor(symbolic).is_ok_and(|factor| factor.solve(right, 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_of_springs() {
        // Tridiagonal (2.5, -1): right side made from a known solution.
        let n = 500;
        let (mut starts, mut rows, mut values) = (vec![0], Vec::new(), Vec::new());
        for j in 0..n {
            rows.push(j);
            values.push(2.5);
            if j + 1 < n {
                rows.push(j + 1);
                values.push(-1.0);
            }
            starts.push(rows.len());
        }
        let truth: Vec<f64> = (0..n).map(|j| (0.1 * j as f64).sin()).collect();
        let at = |j: isize| if (0..n as isize).contains(&j) { truth[j as usize] } else { 0.0 };
        let mut x: Vec<f64> = (0..n as isize).map(|j| 2.5 * at(j) - at(j - 1) - at(j + 1)).collect();
        assert!(solve(&starts, &rows, &values, &mut x));
        assert!(x.iter().zip(&truth).all(|(a, b)| (a - b).abs() < 1e-12));
    }

    #[test]
    fn what_is_not_positive_definite_is_an_error() {
        assert!(!solve(&[0, 2, 3], &[0, 1, 1], &[1.0, 2.0, 1.0], &mut [1.0, 1.0]));
        assert!(solve(&[0], &[], &[], &mut []));
    }
}
