//! Least squares without negative numbers: `min |A w - y|^2` with `w >= 0`, given `G = A^T A` and `q = A^T y`.
//!
//! Lawson and Hanson's active set [Lawson1974 ch. 23] on the normal equations. Deviations: it may start from any
//! feasible point (warm starts between rounds); a variable whose column the others already span is left at 0 instead
//! of being freed with a meaningless sign.

use crate::solve::ldl::Ldl;

/// Reusable buffers for problems of up to `capacity` variables.
pub(crate) struct Nnls {
    capacity: usize,
    /// Variables that may be positive.
    passive: Vec<usize>,
    /// Variables that must not be freed again before something changed.
    banned: Vec<bool>,
    /// In the order of `passive`.
    ldl: Ldl,
}

impl Nnls {
    pub fn new(capacity: usize) -> Self {
        Self { capacity, passive: Vec::with_capacity(capacity), banned: vec![false; capacity], ldl: Ldl::new(capacity) }
    }

    /// Minimises `w^T G w - 2 q^T w` over `w >= 0`, from the feasible `w` on; `g` is row-major with `stride`.
    ///
    /// Stops early only at the iteration cap, with a feasible point.
    pub fn solve(&mut self, g: &[f64], stride: usize, q: &[f64], w: &mut [f64]) {
        let m = w.len();
        debug_assert!(m <= self.capacity && w.iter().all(|x| *x >= 0.0));
        self.banned[..m].fill(false);
        self.passive.clear();
        self.passive.extend((0..m).filter(|&j| w[j] > 0.0));
        self.descend(g, stride, q, w);
        for _ in 0..4 * m + 4 {
            let Some(j) = self.steepest(g, stride, q, w) else { break };
            self.passive.push(j);
            self.free_solution(g, stride, q);
            if self.ldl.solution[self.passive.len() - 1] <= 0.0 {
                self.passive.pop();
                self.banned[j] = true;
                continue;
            }
            self.banned[..m].fill(false);
            self.descend(g, stride, q, w);
        }
    }

    /// The variable at 0 whose growth lowers the error fastest.
    fn steepest(&self, g: &[f64], stride: usize, q: &[f64], w: &[f64]) -> Option<usize> {
        let slope = |j: usize| self.passive.iter().fold(q[j], |sum, &k| sum - g[j * stride + k] * w[k]);
        let held = (0..w.len()).filter(|j| !self.banned[*j] && !self.passive.contains(j));
        let falling = held.map(|j| (j, slope(j))).filter(|&(j, slope)| slope > 1e-12 * q[j].abs() + 1e-300);
        falling.reduce(|best, next| if next.1 > best.1 { next } else { best }).map(|(j, _)| j)
    }

    /// Walks to the optimum of the passive variables; those that reach 0 on the way stay there.
    fn descend(&mut self, g: &[f64], stride: usize, q: &[f64], w: &mut [f64]) {
        while !self.passive.is_empty() {
            self.free_solution(g, stride, q);
            let mut alpha = 1.0;
            let mut blocking = None;
            for (p, &j) in self.passive.iter().enumerate() {
                if self.ldl.solution[p] <= 0.0 {
                    let step = if w[j] > 0.0 { w[j] / (w[j] - self.ldl.solution[p]) } else { 0.0 };
                    if blocking.is_none() || step < alpha {
                        (alpha, blocking) = (step, Some(j));
                    }
                }
            }
            for (p, &j) in self.passive.iter().enumerate() {
                w[j] = (w[j] + alpha * (self.ldl.solution[p] - w[j])).max(0.0);
            }
            let Some(blocked) = blocking else { return };
            w[blocked] = 0.0;
            self.passive.retain(|&j| j != blocked);
        }
    }

    /// Least squares over the passive variables, signs ignored.
    fn free_solution(&mut self, g: &[f64], stride: usize, q: &[f64]) {
        let Self { passive, ldl, .. } = self;
        ldl.solve(passive.len(), |p, r| g[passive[p] * stride + passive[r]], |p| q[passive[p]]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use faer::linalg::solvers::Solve;
    use faer::{Mat, Side};
    use proptest::prelude::*;

    /// `w^T G w - 2 q^T w`.
    fn value(g: &[f64], q: &[f64], w: &[f64]) -> f64 {
        let m = w.len();
        (0..m).map(|j| w[j] * ((0..m).map(|k| g[j * m + k] * w[k]).sum::<f64>() - 2.0 * q[j])).sum()
    }

    /// The best of all sets of positive variables, each solved without signs and taken if it has none.
    fn by_all_sets(g: &[f64], q: &[f64]) -> f64 {
        let m = q.len();
        let mut best = 0.0f64;
        for set in 1u32..1 << m {
            let members: Vec<usize> = (0..m).filter(|j| set >> j & 1 == 1).collect();
            let n = members.len();
            let matrix = Mat::from_fn(n, n, |a, b| g[members[a] * m + members[b]]);
            let Ok(factor) = matrix.llt(Side::Lower) else { continue };
            let x = factor.solve(Mat::from_fn(n, 1, |a, _| q[members[a]]));
            if (0..n).all(|a| x[(a, 0)] >= 0.0) {
                let mut w = vec![0.0; m];
                members.iter().enumerate().for_each(|(a, &j)| w[j] = x[(a, 0)]);
                best = best.min(value(g, q, &w));
            }
        }
        best
    }

    proptest! {
        #[test]
        fn is_the_best_of_all_active_sets(
            m in 1usize..7,
            columns in prop::collection::vec(prop::array::uniform8(-1.0..1.0f64), 8),
            repeat in any::<bool>(),
            warm in prop::array::uniform8(0.0..1.0f64),
        ) {
            // Columns in 5 dimensions, so that 6 of them depend on each other; sometimes two are equal.
            let column = |j: usize| if repeat && j == 1 { columns[0] } else { columns[j] };
            let dot = |a: [f64; 8], b: [f64; 8]| (0..5).map(|d| a[d] * b[d]).sum::<f64>();
            let g: Vec<f64> = (0..m * m).map(|at| dot(column(at / m), column(at % m))).collect();
            let q: Vec<f64> = (0..m).map(|j| dot(column(j), columns[7])).collect();
            let best = by_all_sets(&g, &q);
            for start in [vec![0.0; m], warm[..m].to_vec()] {
                let mut w = start;
                Nnls::new(m).solve(&g, m, &q, &mut w);
                prop_assert!(w.iter().all(|&x| x >= 0.0));
                prop_assert!((value(&g, &q, &w) - best).abs() < 1e-7, "{} {best}", value(&g, &q, &w));
            }
        }
    }

    #[test]
    fn nothing_helps_where_all_products_are_negative() {
        let mut w = vec![0.5, 0.5];
        Nnls::new(2).solve(&[1.0, 0.2, 0.2, 1.0], 2, &[-1.0, -0.1], &mut w);
        assert_eq!(w, [0.0, 0.0]);
    }
}
