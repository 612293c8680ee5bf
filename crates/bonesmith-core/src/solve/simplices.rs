//! Least squares on the simplex, eight problems at a time: `min |A w - y|^2` with `w >= 0`, `sum w = 1`, given
//! `G = A^T A` and `q = A^T y`.
//!
//! The primal active set of [`crate::solve::simplex`], one problem a lane, with masks instead of lists. Since weights sum to
//! 1, columns may be taken relative to any point: relative to the start's own prediction `p = A w0` the numbers are
//! as small as the bones' differences, and `G + 1 1^T` is definite as soon as those differences are independent. Step
//! on the free variables: `M d = m 1 - g` with `sum d = 0`, two right sides of one masked factor `L D L^T`.

use crate::solve::lanes::{Lanes, steps};

/// Pivots below this share of the diagonal are rounding: the variable does not change the error.
const RANK_TOLERANCE: f64 = 1e-10;

/// Differences of bones below this share of their size are rounding.
const DIFFERENCE_TOLERANCE: f64 = 1e-13;

/// Weights up to this are treated as zero.
pub(crate) const MIN_WEIGHT: f64 = 1e-7;

/// Eight problems of up to `capacity` variables.
pub(crate) struct Simplices {
    capacity: usize,
    /// Variables in use, the same in all lanes: what a lane lacks is not `allowed`.
    pub size: usize,
    /// [capacity, capacity] lower triangle: `G`, then centred, scaled and made definite.
    pub gram: Vec<Lanes>,
    /// [capacity] `q`, then centred and scaled.
    pub linear: Vec<Lanes>,
    /// [capacity] feasible weights.
    pub weights: Vec<Lanes>,
    /// [capacity] mask of variables that may be positive.
    pub allowed: Vec<Lanes>,
    /// [capacity] mask of variables that the present step may change.
    free: Vec<Lanes>,
    /// [capacity, capacity] unit `L` of the free part of `gram`, below the diagonal.
    factor: Vec<Lanes>,
    /// [capacity] reciprocals of `D`; 0 where the error does not change.
    pivots: Vec<Lanes>,
    /// [capacity] half the gradient.
    gradient: Vec<Lanes>,
    /// [capacity] `M^-1 1`.
    ones: Vec<Lanes>,
    /// [capacity] step.
    step: Vec<Lanes>,
    /// [capacity] weights to come back to.
    start: Vec<Lanes>,
    /// What 1 of [`Simplices::value`] stands for.
    pub unit: Lanes,
}

impl Simplices {
    pub fn new(capacity: usize) -> Self {
        let vector = || vec![Lanes::ZERO; capacity];
        let matrix = || vec![Lanes::ZERO; capacity * capacity];
        Self {
            capacity,
            size: 0,
            gram: matrix(),
            linear: vector(),
            weights: vector(),
            allowed: vector(),
            free: vector(),
            factor: matrix(),
            pivots: vector(),
            gradient: vector(),
            ones: vector(),
            step: vector(),
            start: vector(),
            unit: Lanes::ONE,
        }
    }

    /// Zeros for the variables in use.
    #[inline(always)]
    pub fn clear(&mut self) {
        for p in steps(self.size) {
            self.linear[p] = Lanes::ZERO;
            self.weights[p] = Lanes::ZERO;
            self.allowed[p] = Lanes::ZERO;
            let row = p * self.capacity;
            self.gram[row..=row + p].fill(Lanes::ZERO);
        }
    }

    /// Remembers the weights.
    #[inline(always)]
    pub fn keep_start(&mut self) {
        self.start[..self.size].copy_from_slice(&self.weights[..self.size]);
    }

    /// Comes back to the remembered weights in the lanes of `todo`.
    #[inline(always)]
    pub fn take_start(&mut self, todo: Lanes) {
        for p in steps(self.size) {
            self.weights[p] = todo.select(self.start[p], self.weights[p]);
        }
    }

    /// Holds variable `p` at 0 in the lanes of `todo`; its weight goes to the others.
    #[inline(always)]
    pub fn forbid(&mut self, p: usize, todo: Lanes) {
        self.allowed[p] = self.allowed[p] * todo.not();
        self.weights[p] = self.weights[p] * todo.not();
        self.normalise();
    }

    /// Takes [`Simplices::forbid`] back.
    #[inline(always)]
    pub fn allow(&mut self, p: usize, todo: Lanes) {
        self.allowed[p] = self.allowed[p].max(todo);
    }

    /// Where entry (p, q), q <= p, of `gram` is.
    #[inline(always)]
    pub fn at(&self, p: usize, q: usize) -> usize {
        p * self.capacity + q
    }

    /// Makes a loaded problem (`gram`, `linear`, feasible `weights`) relative to its start. Values are differences
    /// to the start's from here on.
    #[inline(always)]
    pub fn center(&mut self) {
        let m = self.size;
        let mut start = Lanes::ZERO;
        let mut pull = Lanes::ZERO;
        for p in steps(m) {
            let mut along = Lanes::ZERO;
            for q in steps(m) {
                along += self.gram[self.at(p.max(q), p.min(q))] * self.weights[q];
            }
            // d_p . r = (q_p - a_p . p) up to what is the same for all p.
            self.step[p] = along;
            self.linear[p] -= along;
            start += self.weights[p] * along;
            pull += self.weights[p] * self.linear[p];
        }
        let (mut spread, mut size) = (Lanes::ZERO, start);
        for p in steps(m) {
            let own = self.gram[self.at(p, p)];
            size += own;
            spread += self.allowed[p] * (own - self.step[p] - self.step[p] + start);
        }
        self.unit = spread.max(size * Lanes::splat(DIFFERENCE_TOLERANCE)) + Lanes::splat(1e-300);
        let scale = Lanes::ONE / self.unit;
        for p in steps(m) {
            self.linear[p] = (self.linear[p] - pull) * scale;
            for q in steps(p + 1) {
                let at = self.at(p, q);
                self.gram[at] = (self.gram[at] - self.step[p] - self.step[q] + start) * scale + Lanes::ONE;
            }
        }
    }

    /// Minimises over the allowed variables from `weights` on, in the lanes of `todo`.
    ///
    /// Never ends higher than it starts. Stops early only at the iteration cap, with a feasible point.
    #[inline(always)]
    pub fn solve(&mut self, mut todo: Lanes) {
        let m = self.size;
        self.free[..m].copy_from_slice(&self.allowed[..m]);
        self.find_gradient();
        for _ in 0..3 * m + 4 {
            self.factorise();
            let level = self.find_step();
            let blocked = self.advance(todo);
            self.find_gradient();
            let released = self.release(level, todo * blocked.not());
            todo = todo * blocked.max(released);
            if !todo.any() {
                break;
            }
        }
    }

    /// `w^T G w - 2 q^T w` less that of the start, in units of the spread.
    #[inline(always)]
    pub fn value(&mut self) -> Lanes {
        self.find_gradient();
        let mut sum = -Lanes::ONE;
        for p in steps(self.size) {
            sum += self.weights[p] * (self.gradient[p] - self.linear[p]);
        }
        sum
    }

    /// Drops in each lane of `todo` the variable whose loss is estimated to cost least, and spreads its weight.
    ///
    /// Estimate: forced to 0 while the others adjust freely, `w_j^2 / C_jj` with `C` the inverse on the sum
    /// constraint. Valid after [`Simplices::solve`].
    #[inline(always)]
    pub fn drop_least(&mut self, todo: Lanes) {
        let m = self.size;
        // The factor is that before the last advance, and may lack what that released or blocked.
        self.free[..m].copy_from_slice(&self.allowed[..m]);
        self.factorise();
        let total = self.find_ones();
        let inverse_total = Lanes::ONE / total;
        let (mut least, mut which) = (Lanes::splat(f64::INFINITY), Lanes::splat(-1.0));
        for p in steps(m) {
            let own = self.inverse_entry(p) - self.ones[p] * self.ones[p] * inverse_total;
            let cost = self.weights[p] * self.weights[p] / own.max(Lanes::splat(1e-300));
            let cost = self.allowed[p].select(cost, Lanes::splat(f64::INFINITY));
            let better = cost.below(least);
            least = least.min(cost);
            which = better.select(Lanes::splat(p as f64), which);
        }
        for p in steps(m) {
            let chosen = todo * which.equals(p as f64);
            self.allowed[p] = self.allowed[p] * chosen.not();
            self.weights[p] = self.weights[p] * chosen.not();
        }
        self.normalise();
    }

    /// Drops the least useful variables one by one in the lanes of `todo`, the others solved again, until at most `most` have a weight.
    /// Valid after [`Simplices::solve`].
    #[inline(always)]
    pub fn thin_out(&mut self, todo: Lanes, most: Lanes) {
        let mut crowded = todo * most.below(self.take_out_zeros(todo));
        while crowded.any() {
            self.drop_least(crowded);
            self.solve(crowded);
            crowded = crowded * most.below(self.take_out_zeros(crowded));
        }
    }

    /// Takes out what has no weight; counts what is left.
    #[inline(always)]
    pub fn take_out_zeros(&mut self, todo: Lanes) -> Lanes {
        let mut count = Lanes::ZERO;
        for p in steps(self.size) {
            let present = Lanes::splat(MIN_WEIGHT).below(self.weights[p]);
            let keep = todo.select(present, Lanes::ONE);
            self.allowed[p] = self.allowed[p] * keep;
            self.weights[p] = self.weights[p] * keep;
            count += present;
        }
        self.normalise();
        count
    }

    /// Makes weights sum to 1; where hardly any is left, all allowed variables get the same.
    #[inline(always)]
    fn normalise(&mut self) {
        let (mut total, mut count) = (Lanes::ZERO, Lanes::ZERO);
        for p in steps(self.size) {
            total += self.weights[p];
            count += self.allowed[p];
        }
        let some = Lanes::splat(1e-6).below(total);
        let scale = Lanes::ONE / some.select(total, Lanes::ONE);
        let even = Lanes::ONE / count.max(Lanes::ONE);
        for p in steps(self.size) {
            self.weights[p] = some.select(self.weights[p] * scale, self.allowed[p] * even);
        }
    }

    /// `L D L^T` of `gram` on the free variables; held ones become rows of the identity.
    #[inline(always)]
    fn factorise(&mut self) {
        let stride = self.capacity;
        for p in steps(self.size) {
            let (above, row) = self.factor.split_at_mut(p * stride);
            let diagonal = self.gram[p * stride + p];
            let mut pivot = self.free[p].select(diagonal, Lanes::ONE);
            for q in steps(p) {
                // L_pq D_q
                let mut sum = self.gram[p * stride + q] * (self.free[p] * self.free[q]);
                for r in steps(q) {
                    sum -= row[r] * above[q * stride + r];
                }
                row[q] = sum;
            }
            for q in steps(p) {
                let scaled = row[q];
                row[q] = scaled * self.pivots[q];
                pivot -= scaled * row[q];
            }
            let sound = (diagonal * Lanes::splat(RANK_TOLERANCE)).below(pivot);
            self.pivots[p] = sound.select(Lanes::ONE / pivot, Lanes::ZERO);
        }
    }

    /// `M^-1 x` in place.
    #[inline(always)]
    fn back_substitute(size: usize, stride: usize, factor: &[Lanes], pivots: &[Lanes], x: &mut [Lanes]) {
        for p in steps(size) {
            let mut sum = x[p];
            for q in steps(p) {
                sum -= factor[p * stride + q] * x[q];
            }
            x[p] = sum;
        }
        for back in steps(size) {
            let p = size - 1 - back;
            let mut sum = x[p] * pivots[p];
            for over in steps(size - p - 1) {
                let q = p + 1 + over;
                sum -= factor[q * stride + p] * x[q];
            }
            // A variable without effect stays.
            x[p] = Lanes::ZERO.below(pivots[p]).select(sum, Lanes::ZERO);
        }
    }

    /// `M^-1 1` on the free variables, and its sum.
    #[inline(always)]
    fn find_ones(&mut self) -> Lanes {
        let m = self.size;
        self.ones[..m].copy_from_slice(&self.free[..m]);
        Self::back_substitute(m, self.capacity, &self.factor, &self.pivots, &mut self.ones);
        let mut total = Lanes::splat(1e-300);
        for p in steps(m) {
            total += self.ones[p];
        }
        total
    }

    /// Best zero-sum step of the free variables, signs ignored; the gradient that all of them have after it.
    #[inline(always)]
    fn find_step(&mut self) -> Lanes {
        let m = self.size;
        let total = self.find_ones();
        for p in steps(m) {
            self.step[p] = -(self.free[p] * self.gradient[p]);
        }
        Self::back_substitute(m, self.capacity, &self.factor, &self.pivots, &mut self.step);
        let mut sum = Lanes::ZERO;
        for p in steps(m) {
            sum += self.step[p];
        }
        let level = -sum / total;
        for p in steps(m) {
            self.step[p] += level * self.ones[p];
        }
        level
    }

    /// Walks along the step until a weight reaches 0, which is then held there; mask of lanes where one did.
    #[inline(always)]
    fn advance(&mut self, todo: Lanes) -> Lanes {
        let (mut alpha, mut which) = (Lanes::ONE, Lanes::splat(-1.0));
        for p in steps(self.size) {
            let (w, step) = (self.weights[p], self.step[p]);
            let hits = (w + alpha * step).below(Lanes::ZERO);
            alpha = hits.select(-(w / step), alpha);
            which = hits.select(Lanes::splat(p as f64), which);
        }
        let alpha = alpha * todo;
        let mut blocked = Lanes::ZERO;
        for p in steps(self.size) {
            let hit = todo * which.equals(p as f64);
            self.weights[p] = (self.weights[p] + alpha * self.step[p]).max(Lanes::ZERO) * hit.not();
            self.free[p] = self.free[p] * hit.not();
            blocked += hit;
        }
        blocked
    }

    /// `G w - q`.
    #[inline(always)]
    fn find_gradient(&mut self) {
        let stride = self.capacity;
        for p in steps(self.size) {
            let mut sum = -self.linear[p];
            for q in steps(p + 1) {
                sum += self.gram[p * stride + q] * self.weights[q];
            }
            for over in steps(self.size - p - 1) {
                let q = p + 1 + over;
                sum += self.gram[q * stride + p] * self.weights[q];
            }
            self.gradient[p] = sum;
        }
    }

    /// Frees, in the lanes of `todo`, the held variable whose growth lowers the error fastest; mask of lanes with one.
    #[inline(always)]
    fn release(&mut self, level: Lanes, todo: Lanes) -> Lanes {
        let (mut least, mut which) = (Lanes::splat(-1e-12), Lanes::splat(-1.0));
        for p in steps(self.size) {
            let held = self.allowed[p] * self.free[p].not();
            let slope = held.select(self.gradient[p] - level, Lanes::ZERO);
            which = slope.below(least).select(Lanes::splat(p as f64), which);
            least = least.min(slope);
        }
        let mut released = Lanes::ZERO;
        for p in steps(self.size) {
            let chosen = todo * which.equals(p as f64);
            self.free[p] = self.free[p].max(chosen);
            released += chosen;
        }
        released
    }

    /// Entry (j, j) of `M^-1`: `|D^-1/2 L^-1 e_j|^2`.
    #[inline(always)]
    fn inverse_entry(&mut self, j: usize) -> Lanes {
        let (m, stride) = (self.size, self.capacity);
        self.step[j] = Lanes::ONE;
        // A variable that can be traded for others at no loss.
        let endless = Lanes::splat(1e30);
        let inverse = |pivot: Lanes| Lanes::ZERO.below(pivot).select(pivot, endless);
        let mut sum = inverse(self.pivots[j]);
        for over in steps(m - j - 1) {
            let p = j + 1 + over;
            let mut x = Lanes::ZERO;
            for over in steps(p - j) {
                let q = j + over;
                x -= self.factor[p * stride + q] * self.step[q];
            }
            self.step[p] = x;
            sum += x * x * inverse(self.pivots[p]);
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::solve::lanes::LANES;
    use crate::solve::simplex::SimplexSolver;
    use proptest::prelude::*;

    /// Columns of eight problems in five dimensions, and the point to reach.
    struct Problems {
        /// [8] how many columns each has.
        sizes: Vec<usize>,
        /// [8, 7, 5] the last column is the point.
        columns: Vec<[[f64; 5]; 7]>,
    }

    impl Problems {
        fn new(sizes: &[usize], numbers: &[f64], alike: bool, offset: f64) -> Self {
            let columns = (0..LANES).map(|l| {
                std::array::from_fn(|p| {
                    // Sometimes two columns are equal; all of them may lie far from the origin.
                    let p = if alike && p == 1 { 0 } else { p };
                    std::array::from_fn(|d| numbers[(l * 7 + p) * 5 + d] + offset)
                })
            });
            Self { sizes: sizes.to_vec(), columns: columns.collect() }
        }

        fn dot(&self, l: usize, p: usize, q: usize) -> f64 {
            (0..5).map(|d| self.columns[l][p][d] * self.columns[l][q][d]).sum()
        }

        fn load(&self) -> Simplices {
            let mut out = Simplices::new(6);
            out.size = *self.sizes.iter().max().unwrap();
            out.clear();
            for (l, &size) in self.sizes.iter().enumerate() {
                for p in 0..size {
                    out.linear[p].0[l] = self.dot(l, p, 6);
                    out.allowed[p].0[l] = 1.0;
                    out.weights[p].0[l] = if p == 0 { 1.0 } else { 0.0 };
                    for q in 0..=p {
                        let at = out.at(p, q);
                        out.gram[at].0[l] = self.dot(l, p, q);
                    }
                }
            }
            out
        }

        /// `|A w - y|^2`.
        fn error(&self, l: usize, w: &[f64]) -> f64 {
            let left = |d: usize| {
                w.iter().zip(&self.columns[l]).fold(-self.columns[l][6][d], |sum, (w, column)| sum + w * column[d])
            };
            (0..5).map(|d| left(d).powi(2)).sum()
        }

        /// Least error of problem `l` over some of its columns.
        fn least(&self, l: usize, used: &[usize]) -> f64 {
            let m = used.len();
            let g: Vec<f64> = (0..m * m).map(|at| self.dot(l, used[at / m], used[at % m])).collect();
            let q: Vec<f64> = used.iter().map(|&p| self.dot(l, p, 6)).collect();
            let mut w = vec![0.0; m];
            w[0] = 1.0;
            SimplexSolver::new(m).solve(&g, m, &q, &mut w);
            let mut all = vec![0.0; self.sizes[l]];
            used.iter().zip(w).for_each(|(&p, w)| all[p] = w);
            self.error(l, &all)
        }

        fn weights(&self, solved: &Simplices, l: usize) -> Vec<f64> {
            (0..self.sizes[l]).map(|p| solved.weights[p].0[l]).collect()
        }
    }

    fn assert_convex(w: &[f64]) {
        assert!((w.iter().sum::<f64>() - 1.0).abs() < 1e-9 && w.iter().all(|&x| x >= 0.0), "{w:?}");
    }

    proptest! {
        #[test]
        fn all_lanes_reach_the_optimum(
            sizes in prop::collection::vec(1usize..7, LANES),
            numbers in prop::collection::vec(-1.0..1.0f64, LANES * 7 * 5),
            alike: bool,
            offset in prop::sample::select(vec![0.0, 30.0]),
        ) {
            let problems = Problems::new(&sizes, &numbers, alike, offset);
            let mut solved = problems.load();
            solved.center();
            solved.solve(Lanes::ONE);
            let (value, unit) = (solved.value(), solved.unit);
            for (l, &size) in sizes.iter().enumerate() {
                let w = problems.weights(&solved, l);
                assert_convex(&w);
                let all: Vec<usize> = (0..size).collect();
                let (error, least) = (problems.error(l, &w), problems.least(l, &all));
                prop_assert!(error <= least + 1e-6, "lane {l}: {error}, possible {least}");
                // The value is the difference to the start.
                let start = problems.error(l, &[1.0]);
                prop_assert!((value.0[l] * unit.0[l] - (error - start)).abs() < 1e-6 * (1.0 + start));
            }
        }

        /// Down to two columns: the best weights for those, and mostly the best two.
        #[test]
        fn drops_a_column_that_costs_little(
            numbers in prop::collection::vec(-1.0..1.0f64, LANES * 7 * 5),
        ) {
            let problems = Problems::new(&[5; LANES], &numbers, false, 0.0);
            let mut solved = problems.load();
            solved.center();
            solved.solve(Lanes::ONE);
            let most = Lanes::splat(2.0);
            solved.thin_out(Lanes::ONE, most);
            let mut hits = 0;
            for l in 0..LANES {
                let w = problems.weights(&solved, l);
                assert_convex(&w);
                prop_assert!(w.iter().filter(|&&w| w > 0.0).count() <= 2);
                let used: Vec<usize> = (0..5).filter(|&p| w[p] > 0.0).collect();
                prop_assert!(problems.error(l, &w) <= problems.least(l, &used) + 1e-6);
                let pairs = (0..5).flat_map(|p| (p + 1..5).map(move |q| [p, q]));
                let best = pairs.map(|pair| problems.least(l, &pair)).fold(f64::INFINITY, f64::min);
                prop_assert!(problems.error(l, &w) >= best - 1e-6);
                hits += usize::from(problems.error(l, &w) <= best + 1e-6);
            }
            prop_assert!(hits >= 2, "{hits} of 8");
        }
    }
}
