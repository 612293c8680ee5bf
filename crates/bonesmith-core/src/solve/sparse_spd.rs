//! Sparse symmetric positive definite systems by faer's Cholesky factorisation, on one thread: the same bits always.

use faer::dyn_stack::{MemBuffer, MemStack};
use faer::sparse::linalg::cholesky::{LltRef, factorize_symbolic_cholesky};
use faer::sparse::{SparseColMatRef, SymbolicSparseColMatRef};
use faer::{Conj, MatMut, Par, Side};

/// Solves `A x = right` in place. `A` is given by the columns of its lower triangle: `starts` [n + 1], `rows` rising
/// within each column, `values`. `false` if it is not positive definite, or memory is out.
pub(crate) fn solve(starts: &[usize], rows: &[usize], values: &[f64], right: &mut [f64]) -> bool {
    let n = right.len();
    debug_assert!(starts.len() == n + 1 && rows.len() == values.len());
    if n == 0 {
        return true;
    }
    let pattern = SymbolicSparseColMatRef::new_checked(n, n, starts, None, rows);
    let Ok(symbolic) = factorize_symbolic_cholesky(pattern, Side::Lower, Default::default(), Default::default()) else {
        return false;
    };
    let mut factor = vec![0.0; symbolic.len_val()];
    let matrix = SparseColMatRef::new(pattern, values);
    let scratch = symbolic.factorize_numeric_llt_scratch::<f64>(Par::Seq, Default::default());
    let Ok(mut memory) = MemBuffer::try_new(scratch) else { return false };
    let stack = MemStack::new(&mut memory);
    let regularise = Default::default();
    if symbolic
        .factorize_numeric_llt::<f64>(&mut factor, matrix, Side::Lower, regularise, Par::Seq, stack, Default::default())
        .is_err()
    {
        return false;
    }
    let Ok(mut memory) = MemBuffer::try_new(symbolic.solve_in_place_scratch::<f64>(1, Par::Seq)) else { return false };
    let right = MatMut::from_column_major_slice_mut(right, n, 1);
    LltRef::new(&symbolic, &factor).solve_in_place_with_conj(Conj::No, right, Par::Seq, MemStack::new(&mut memory));
    true
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
    fn what_is_not_positive_definite_is_told() {
        assert!(!solve(&[0, 2, 3], &[0, 1, 1], &[1.0, 2.0, 1.0], &mut [1.0, 1.0]));
        assert!(solve(&[0], &[], &[], &mut []));
    }
}
