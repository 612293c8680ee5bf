//! Least squares on the simplex: `min |A w - y|^2` with `w >= 0`, `sum w = 1`, given `G = A^T A` and `q = A^T y`.
//!
//! A primal active set [Le2014 alg. 1-2] on precomputed products. Deviations: the step length is the minimum over
//! falling variables only (the printed `max` hides that); the sum constraint is eliminated with differences to the
//! largest free weight instead of a QR factorisation, which keeps the system small and well scaled; a direction in
//! which the error does not change (two bones that move alike, common and not pathological) is left alone.

use crate::solve::ldl::Ldl;

/// Reusable buffers for problems of up to `capacity` variables.
pub(crate) struct SimplexSolver {
    capacity: usize,
    /// Variables that may be positive.
    free: Vec<usize>,
    /// `free` without `base`.
    others: Vec<usize>,
    /// The variable that differences are taken to.
    base: usize,
    /// The problem in differences, in the order of `others`.
    ldl: Ldl,
    /// [capacity] `G w - q`.
    gradient: Vec<f64>,
}

impl SimplexSolver {
    pub fn new(capacity: usize) -> Self {
        Self {
            capacity,
            free: Vec::with_capacity(capacity),
            others: Vec::with_capacity(capacity),
            base: 0,
            ldl: Ldl::new(capacity),
            gradient: vec![0.0; capacity],
        }
    }

    /// Minimises `w^T G w - 2 q^T w` from the feasible `w` on; `g` is row-major with `stride`.
    ///
    /// Never ends higher than it starts. Stops early only at the iteration cap, with a feasible point.
    #[inline(always)]
    pub fn solve(&mut self, g: &[f64], stride: usize, q: &[f64], w: &mut [f64]) {
        let m = w.len();
        debug_assert!(m <= self.capacity && (w.iter().sum::<f64>() - 1.0).abs() < 1e-6);
        self.free.clear();
        self.free.extend((0..m).filter(|&j| w[j] > 0.0));
        self.half_gradient(g, stride, q, w);
        for _ in 0..4 * m + 4 {
            let base = self.largest(w);
            self.free_step(g, stride, base);
            let blocked = self.advance(w, base);
            self.half_gradient(g, stride, q, w);
            if !blocked && !self.release(w, base) {
                break;
            }
        }
    }

    /// Cheap estimates of by how much the error rises when a variable is forced to 0 and the others adjust freely:
    /// `w_j^2 / C_jj` with `C` the inverse Hessian on the sum constraint. Valid after [`SimplexSolver::solve`], for
    /// variables that it left free; those that can be traded for others at no loss get 0.
    #[inline(always)]
    pub fn removal_estimates(&mut self, w: &[f64], estimates: &mut Vec<f64>) {
        let Self { ldl, others, .. } = self;
        let n = others.len();
        estimates.clear();
        estimates.resize(w.len(), 0.0);
        // C = H^-1 in differences; for the base variable the sum over all of C. With H = L D L^T (unit L, stored
        // below the diagonal, D on it): C_jj = |D^-1/2 L^-1 e_j|^2.
        let variables = others.iter().copied().chain(std::iter::once(self.base));
        for (own, j) in variables.enumerate() {
            let mut squared = 0.0;
            let mut sound = true;
            for p in 0..n {
                let right = if own == n || own == p { 1.0 } else { 0.0 };
                let sum = (0..p).fold(right, |sum, r| sum - ldl.factor(p, r) * ldl.solution[r]);
                let pivot = ldl.factor(p, p);
                sound &= pivot > 0.0 || right == 0.0;
                ldl.solution[p] = sum;
                squared += if pivot > 0.0 { sum * sum / pivot } else { 0.0 };
            }
            estimates[j] = if !sound {
                0.0
            } else if squared > 0.0 {
                w[j] * w[j] / squared
            } else {
                f64::INFINITY
            };
        }
    }

    /// `G w - q`.
    #[inline(always)]
    fn half_gradient(&mut self, g: &[f64], stride: usize, q: &[f64], w: &[f64]) {
        let gradient = &mut self.gradient[..w.len()];
        gradient.iter_mut().zip(q).for_each(|(c, q)| *c = -q);
        for &k in &self.free {
            let row = &g[k * stride..][..gradient.len()];
            gradient.iter_mut().zip(row).for_each(|(c, x)| *c += w[k] * x);
        }
    }

    /// The largest free weight: differences are taken to it.
    #[inline(always)]
    fn largest(&self, w: &[f64]) -> usize {
        self.free.iter().fold(self.free[0], |base, &j| if w[j] > w[base] { j } else { base })
    }

    /// Best zero-sum step of the free variables, ignoring signs: the solution for `others`, minus its sum for `base`.
    #[inline(always)]
    fn free_step(&mut self, g: &[f64], stride: usize, base: usize) {
        let Self { free, others, ldl, gradient, .. } = self;
        self.base = base;
        others.clear();
        others.extend(free.iter().copied().filter(|&j| j != base));
        let base_row = &g[base * stride..][..stride];
        // (A_a - A_base) . (A_b - A_base)
        let entry = |p: usize, q: usize| {
            let (row, b) = (&g[others[p] * stride..][..stride], others[q]);
            row[b] - base_row[b] + (base_row[base] - row[base])
        };
        ldl.solve(others.len(), entry, |p| gradient[base] - gradient[others[p]]);
    }

    /// Walks along the step until a weight reaches 0, which is then held there; true if one did.
    #[inline(always)]
    fn advance(&mut self, w: &mut [f64], base: usize) -> bool {
        let base_step = -self.ldl.solution[..self.others.len()].iter().sum::<f64>();
        let steps = self.others.iter().copied().zip(self.ldl.solution.iter().copied());
        let mut alpha = 1.0;
        let mut blocking = None;
        for (j, step) in steps.clone().chain([(base, base_step)]) {
            if step < 0.0 && w[j] + alpha * step < 0.0 {
                alpha = -w[j] / step;
                blocking = Some(j);
            }
        }
        for (j, step) in steps.chain([(base, base_step)]) {
            w[j] = (w[j] + alpha * step).max(0.0);
        }
        if let Some(blocked) = blocking {
            w[blocked] = 0.0;
            self.free.retain(|&j| j != blocked);
        }
        blocking.is_some()
    }

    /// Frees the variable at 0 whose growth lowers the error fastest; false if none does.
    #[inline(always)]
    fn release(&mut self, w: &[f64], base: usize) -> bool {
        let level = self.gradient[base];
        let tolerance = 1e-12 * (level.abs() + 1e-30);
        let falls = |&j: &usize| w[j] == 0.0 && !self.free.contains(&j) && self.gradient[j] < level - tolerance;
        let best = (0..w.len()).filter(falls).min_by(|&a, &b| self.gradient[a].total_cmp(&self.gradient[b]));
        self.free.extend(best);
        best.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// `w^T G w - 2 q^T w`.
    fn value(g: &[f64], q: &[f64], w: &[f64]) -> f64 {
        let m = w.len();
        (0..m).map(|j| w[j] * ((0..m).map(|k| g[j * m + k] * w[k]).sum::<f64>() - 2.0 * q[j])).sum()
    }

    /// Brute force: the best of all faces of the simplex, each by projected gradient with many small steps.
    fn by_projected_gradient(g: &[f64], q: &[f64]) -> f64 {
        let m = q.len();
        let mut w = vec![1.0 / m as f64; m];
        let trace: f64 = (0..m).map(|j| g[j * m + j]).sum();
        for _ in 0..40_000 {
            let gradient: Vec<f64> = (0..m).map(|j| (0..m).map(|k| g[j * m + k] * w[k]).sum::<f64>() - q[j]).collect();
            let moved: Vec<f64> = w.iter().zip(&gradient).map(|(w, d)| w - d / trace).collect();
            w = project(&moved);
        }
        value(g, q, &w)
    }

    /// Euclidean projection on the simplex by sorting.
    fn project(v: &[f64]) -> Vec<f64> {
        let mut sorted = v.to_vec();
        sorted.sort_by(|a, b| b.total_cmp(a));
        let (mut sum, mut theta) = (0.0, 0.0);
        for (k, x) in sorted.iter().enumerate() {
            sum += x;
            let candidate = (sum - 1.0) / (k + 1) as f64;
            if x - candidate > 0.0 {
                theta = candidate;
            }
        }
        v.iter().map(|x| (x - theta).max(0.0)).collect()
    }

    proptest! {
        #[test]
        fn reaches_the_optimum(
            m in 1usize..7,
            rows in prop::collection::vec(prop::array::uniform8(-1.0..1.0f64), 8),
            repeat in any::<bool>(),
        ) {
            // Columns a_j in 5 dimensions; sometimes two of them are equal.
            let column = |j: usize| if repeat && j == 1 { rows[0] } else { rows[j] };
            let dot = |a: [f64; 8], b: [f64; 8]| (0..5).map(|d| a[d] * b[d]).sum::<f64>();
            let g: Vec<f64> = (0..m * m).map(|at| dot(column(at / m), column(at % m))).collect();
            let q: Vec<f64> = (0..m).map(|j| dot(column(j), rows[7])).collect();
            let mut w = vec![0.0; m];
            w[0] = 1.0;
            SimplexSolver::new(m).solve(&g, m, &q, &mut w);
            prop_assert!((w.iter().sum::<f64>() - 1.0).abs() < 1e-9);
            prop_assert!(w.iter().all(|&x| x >= 0.0));
            prop_assert!(value(&g, &q, &w) <= by_projected_gradient(&g, &q) + 1e-6);
        }
    }
}
