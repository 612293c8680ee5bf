//! A sparse quadratic program over the weights of all vertices at once, each vertex on its own simplex:
//!
//! ```text
//! min  sum_ik Q_ik sum_jl w_ij w_kl X_ij,kl  -  2 sum_ij c_ij w_ij      w_ij >= 0,  sum_j w_ij = 1
//! ```
//!
//! with `Q = L^T L` a squared Laplacian and `X` the product of bone j at vertex i with bone l at vertex k. Smooth and
//! Poisson reduction [Course2014 eq. 35, 43] are of this form.
//!
//! Projected Newton steps: weights at 0 with a positive gradient are held, one weight of each vertex is 1 minus
//! the others, the rest is one sparse Cholesky solve; then a search along the step projected on the
//! simplices. Every step lowers the value or is not taken.

use rayon::prelude::*;

use crate::observer::{Cancelled, Stages};
use crate::solve::simplex::SimplexSolver;
use crate::solve::sparse_spd;

/// Most Newton steps; about 10 are usual.
const MAX_STEPS: usize = 60;
/// Stop when a step lowers the value by less than this share of it.
const TOLERANCE: f64 = 1e-6;
/// Sweeps over the vertices where a Newton step does not help.
const SWEEPS: usize = 4;
/// Added to the diagonal, relative to its mean: the Laplacian of a constant is 0.
const RIDGE: f64 = 1e-9;

/// The program; `N` vertices with their own bones.
pub(crate) struct SimplexQp {
    /// [N] blocks of row i: (vertex k, [n_i, n_k] values `Q_ik X_ij,kl`).
    blocks: Vec<Vec<(u32, Vec<f64>)>>,
    /// [N] `c_ij`.
    linear: Vec<Vec<f64>>,
    /// Added to the value so that 0 is a perfect match.
    constant: f64,
}

impl SimplexQp {
    /// `squared` are the rows of `Q`, `product(i, a, k, b)` is `X` of slot a of vertex i and slot b of vertex k,
    /// `slots(i)` the number of bones of vertex i.
    pub fn new(
        squared: &[Vec<(u32, f64)>],
        slots: impl Fn(usize) -> usize + Sync,
        product: impl Fn(usize, usize, usize, usize) -> f64 + Sync,
        linear: Vec<Vec<f64>>,
        constant: f64,
    ) -> Self {
        let block = |i: usize, &(k, q): &(u32, f64)| {
            let (rows, columns) = (slots(i), slots(k as usize));
            let entry = |at: usize| q * product(i, at / columns, k as usize, at % columns);
            (k, (0..rows * columns).map(entry).collect())
        };
        let blocks = squared.par_iter().enumerate().map(|(i, row)| row.iter().map(|entry| block(i, entry)).collect());
        Self { blocks: blocks.collect(), linear, constant }
    }

    /// Improves feasible weights until no step helps. Returns the number of steps, and whether they converged.
    pub fn solve(
        &self,
        weights: &mut Vec<Vec<f64>>,
        e_rms: impl Fn(f64) -> Option<f64>,
        stages: &mut Stages<'_>,
    ) -> Result<(usize, bool), Cancelled> {
        let mut gradient = self.gradient(weights);
        let mut value = self.value(weights, &gradient);
        for step in 0..MAX_STEPS {
            stages.at(step, e_rms(value))?;
            let before = value;
            let direction = self.newton(weights, &gradient, stages)?;
            if let Some(found) = direction.and_then(|direction| self.search(weights, &direction, value)) {
                (*weights, gradient, value) = found;
            }
            // Newton ends where a projected step no longer helps, which need not be the minimum; sweeps end nowhere else.
            if before - value <= TOLERANCE * before {
                self.sweep(weights, stages)?;
                gradient = self.gradient(weights);
                value = self.value(weights, &gradient);
            }
            if before - value <= TOLERANCE * before {
                return Ok((step + 1, true));
            }
        }
        Ok((MAX_STEPS, false))
    }

    /// Each vertex in turn to its minimum with the others fixed.
    fn sweep(&self, weights: &mut [Vec<f64>], stages: &mut Stages<'_>) -> Result<(), Cancelled> {
        let most = weights.iter().map(Vec::len).max().unwrap_or(1);
        let mut solver = SimplexSolver::new(most);
        for _ in 0..SWEEPS {
            stages.report(None)?;
            for i in 0..weights.len() {
                let mut right = self.linear[i].clone();
                let mut own: &[f64] = &[];
                for (k, block) in &self.blocks[i] {
                    let other = &weights[*k as usize];
                    if *k as usize == i {
                        own = block;
                        continue;
                    }
                    for (out, row) in right.iter_mut().zip(block.chunks_exact(other.len())) {
                        *out -= row.iter().zip(other).map(|(h, w)| h * w).sum::<f64>();
                    }
                }
                let width = weights[i].len();
                solver.solve(own, width, &right, &mut weights[i]);
                let sum: f64 = weights[i].iter().sum();
                weights[i].iter_mut().for_each(|w| *w /= sum);
            }
        }
        Ok(())
    }

    /// [N] half gradient `H w - c`.
    fn gradient(&self, weights: &[Vec<f64>]) -> Vec<Vec<f64>> {
        let row = |i: usize| {
            let mut sum: Vec<f64> = self.linear[i].iter().map(|c| -c).collect();
            for (k, block) in &self.blocks[i] {
                let w = &weights[*k as usize];
                for (out, row) in sum.iter_mut().zip(block.chunks_exact(w.len())) {
                    *out += row.iter().zip(w).map(|(h, w)| h * w).sum::<f64>();
                }
            }
            sum
        };
        (0..self.blocks.len()).into_par_iter().map(row).collect()
    }

    /// `w^T H w - 2 c . w + constant`.
    pub fn value(&self, weights: &[Vec<f64>], gradient: &[Vec<f64>]) -> f64 {
        let terms = weights.iter().zip(gradient).zip(&self.linear);
        let sum: f64 = terms.map(|((w, g), c)| (0..w.len()).map(|a| w[a] * (g[a] - c[a])).sum::<f64>()).sum();
        sum + self.constant
    }

    /// [N] Newton direction with held weights and eliminated ones; `None` when the system cannot be solved.
    fn newton(
        &self,
        weights: &[Vec<f64>],
        gradient: &[Vec<f64>],
        stages: &mut Stages<'_>,
    ) -> Result<Option<Vec<Vec<f64>>>, Cancelled> {
        let free: Vec<Free> = weights.iter().zip(gradient).map(|(w, g)| Free::new(w, g)).collect();
        let mut firsts = vec![0usize];
        free.iter().for_each(|f| firsts.push(firsts[firsts.len() - 1] + f.others.len()));
        let n = firsts[free.len()];
        let (mut starts, mut rows, mut values) = (vec![0usize], Vec::new(), Vec::new());
        for (i, own) in free.iter().enumerate() {
            for (at, &a) in own.others.iter().enumerate() {
                // Lower triangle, column by column; blocks are symmetric, so row (i, a) serves as column.
                for (k, block) in self.blocks[i].iter().filter(|(k, _)| *k as usize >= i) {
                    let (k, width) = (*k as usize, weights[*k as usize].len());
                    let other = &free[k];
                    let entry = |a: usize, b: usize| block[a * width + b];
                    for (bt, &b) in other.others.iter().enumerate().filter(|(bt, _)| k > i || *bt >= at) {
                        // The weight of `base` is 1 minus the others: differences to it.
                        let h = entry(a, b) - entry(own.base, b) - entry(a, other.base) + entry(own.base, other.base);
                        rows.push(firsts[k] + bt);
                        values.push(h);
                    }
                }
                starts.push(rows.len());
            }
        }
        let diagonal: f64 = (0..n).map(|v| values[starts[v]]).sum::<f64>() / n.max(1) as f64;
        // Each column starts with its diagonal: the blocks of a row are sorted by vertex.
        (0..n).for_each(|v| values[starts[v]] += RIDGE * diagonal + f64::MIN_POSITIVE);
        let mut step: Vec<f64> = Vec::with_capacity(n);
        for (own, g) in free.iter().zip(gradient) {
            step.extend(own.others.iter().map(|&a| g[own.base] - g[a]));
        }
        let (solved, step) = stages.wait(move || (sparse_spd::solve(&starts, &rows, &values, &mut step), step))?;
        Ok(solved.then(|| {
            let spread = |(i, own): (usize, &Free)| {
                let mut direction = vec![0.0; weights[i].len()];
                for (at, &a) in own.others.iter().enumerate() {
                    direction[a] = step[firsts[i] + at];
                    direction[own.base] -= step[firsts[i] + at];
                }
                direction
            };
            free.iter().enumerate().map(spread).collect()
        }))
    }

    /// Longest of a few steps along the projected direction that lowers the value; `None` if none does.
    #[allow(clippy::type_complexity, reason = "weights, gradient and value belong together here and nowhere else")]
    fn search(
        &self,
        weights: &[Vec<f64>],
        direction: &[Vec<f64>],
        value: f64,
    ) -> Option<(Vec<Vec<f64>>, Vec<Vec<f64>>, f64)> {
        let mut length = 1.0;
        for _ in 0..12 {
            let moved: Vec<Vec<f64>> = weights
                .par_iter()
                .zip(direction)
                .map(|(w, d)| project(w.iter().zip(d).map(|(w, d)| w + length * d).collect()))
                .collect();
            let gradient = self.gradient(&moved);
            let found = self.value(&moved, &gradient);
            if found < value {
                return Some((moved, gradient, found));
            }
            length *= 0.4;
        }
        None
    }
}

/// Which weights of a vertex may move.
struct Free {
    /// The largest: 1 minus the others.
    base: usize,
    /// The others, less those held at 0.
    others: Vec<usize>,
}

impl Free {
    fn new(weights: &[f64], gradient: &[f64]) -> Self {
        let base = (0..weights.len()).fold(0, |best, a| if weights[a] > weights[best] { a } else { best });
        let held = |a: usize| weights[a] <= 0.0 && gradient[a] >= gradient[base];
        Self { base, others: (0..weights.len()).filter(|&a| a != base && !held(a)).collect() }
    }
}

/// Nearest point of the simplex [Michelot 1986].
pub(crate) fn project(mut point: Vec<f64>) -> Vec<f64> {
    let mut sorted = point.clone();
    sorted.sort_by(|a, b| b.total_cmp(a));
    let (mut sum, mut shift) = (0.0, 0.0);
    for (k, x) in sorted.iter().enumerate() {
        sum += x;
        let candidate = (sum - 1.0) / (k + 1) as f64;
        if *x > candidate {
            shift = candidate;
        }
    }
    point.iter_mut().for_each(|x| *x = (*x - shift).max(0.0));
    point
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observer::Silent;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 0, ..ProptestConfig::default() })]
        /// Against block coordinate descent by projected gradient, run until nothing moves.
        #[test]
        fn reaches_the_optimum(
            factors in prop::collection::vec(-1.0..1.0f64, 8 * 12),
            linear in prop::collection::vec(-1.0..1.0f64, 12),
        ) {
            // 4 vertices with 3 slots; H = M^T M for an 8 x 12 matrix M, so it is singular too.
            let h = |a: usize, b: usize| (0..8).map(|r| factors[r * 12 + a] * factors[r * 12 + b]).sum::<f64>();
            let squared: Vec<Vec<(u32, f64)>> = vec![(0..4).map(|k| (k, 1.0)).collect(); 4];
            let rows: Vec<Vec<f64>> = linear.chunks(3).map(<[f64]>::to_vec).collect();
            // The constant only has to keep the value positive.
            let qp = SimplexQp::new(&squared, |_| 3, |i, a, k, b| h(3 * i + a, 3 * k + b), rows, 100.0);
            let start = vec![vec![1.0, 0.0, 0.0]; 4];
            let mut weights = start.clone();
            let info = qp.solve(&mut weights, |_| None, &mut Stages::new(&mut Silent)).unwrap();
            let value = qp.value(&weights, &qp.gradient(&weights));
            let mut naive = start;
            let trace: f64 = (0..12).map(|a| h(a, a)).sum();
            for _ in 0..3000 {
                let gradient = qp.gradient(&naive);
                for (w, g) in naive.iter_mut().zip(&gradient) {
                    *w = project(w.iter().zip(g).map(|(w, g)| w - g / trace).collect());
                }
            }
            let best = qp.value(&naive, &qp.gradient(&naive));
            prop_assert!(value <= best + 2e-4, "{value} {best} {info:?}");
            prop_assert!(weights.iter().flatten().all(|w| *w >= 0.0));
            prop_assert!(weights.iter().all(|w| (w.iter().sum::<f64>() - 1.0).abs() < 1e-9));
        }
    }

    #[test]
    fn projections_on_the_simplex() {
        assert_eq!(project(vec![0.5, 0.5]), [0.5, 0.5]);
        assert_eq!(project(vec![3.0, 0.0, -1.0]), [1.0, 0.0, 0.0]);
        assert_eq!(project(vec![1.0, 1.0, -5.0]), [0.5, 0.5, 0.0]);
    }
}
