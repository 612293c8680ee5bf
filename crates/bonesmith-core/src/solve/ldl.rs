//! Small positive semidefinite systems: `L D L^T` row by row, with variables that others already span left at 0.

/// Pivots below this share of the diagonal are rounding: the variable depends on those before it.
const RANK_TOLERANCE: f64 = 1e-10;

/// Reusable buffers for systems of up to `capacity` unknowns.
pub(crate) struct Ldl {
    capacity: usize,
    /// [capacity, capacity] `D` on the diagonal, 0 where a variable depends on others; unit `L` below it.
    factor: Vec<f64>,
    /// [capacity] solution.
    pub solution: Vec<f64>,
}

impl Ldl {
    pub fn new(capacity: usize) -> Self {
        Self { capacity, factor: vec![0.0; capacity * capacity], solution: vec![0.0; capacity] }
    }

    /// Entry (p, q), q <= p, of the last factor.
    #[inline(always)]
    pub fn factor(&self, p: usize, q: usize) -> f64 {
        self.factor[p * self.capacity + q]
    }

    /// Solves `A x = r` with `n` unknowns: `x` in `solution`. `entry(p, q)`, q <= p, is that of `A`.
    #[inline(always)]
    pub fn solve(&mut self, n: usize, entry: impl Fn(usize, usize) -> f64, right: impl Fn(usize) -> f64) {
        let Self { capacity, factor, solution } = self;
        let at = |p: usize, q: usize| p * *capacity + q;
        for p in 0..n {
            // Entries left of the diagonal, still multiplied by D.
            for q in 0..p {
                factor[at(p, q)] = (0..q).fold(entry(p, q), |sum, r| sum - factor[at(p, r)] * factor[at(q, r)]);
            }
            let own = entry(p, p);
            let mut pivot = own;
            for r in 0..p {
                let (scaled, d) = (factor[at(p, r)], factor[at(r, r)]);
                factor[at(p, r)] = if d > 0.0 { scaled / d } else { 0.0 };
                pivot -= scaled * factor[at(p, r)];
            }
            factor[at(p, p)] = if pivot > RANK_TOLERANCE * own { pivot } else { 0.0 };
            solution[p] = (0..p).fold(right(p), |sum, r| sum - factor[at(p, r)] * solution[r]);
        }
        for p in (0..n).rev() {
            let pivot = factor[at(p, p)];
            let start = if pivot > 0.0 { solution[p] / pivot } else { 0.0 };
            let sum = (p + 1..n).fold(start, |sum, r| sum - factor[at(r, p)] * solution[r]);
            solution[p] = if pivot > 0.0 { sum } else { 0.0 };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_that_others_span_stays_at_zero() {
        // Columns (1, 0), (1, 2), (2, 2): the third is the sum of the others.
        let a = [[1.0, 1.0, 2.0], [1.0, 5.0, 6.0], [2.0, 6.0, 8.0]];
        let mut ldl = Ldl::new(4);
        ldl.solve(3, |p, q| a[p][q], |p| [3.0, 7.0, 10.0][p]);
        assert_eq!(ldl.factor(2, 2), 0.0);
        assert!(
            ldl.solution[..3].iter().zip([2.0, 1.0, 0.0]).all(|(x, y)| (x - y).abs() < 1e-12),
            "{:?}",
            ldl.solution
        );
    }
}
