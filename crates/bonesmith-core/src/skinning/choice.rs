//! Which bones a vertex has, and their weights: least squares on the simplex with a choice of columns.
//!
//! With rest position and motion fixed, the error of a vertex is `w^T G w - 2 q^T w + |v|^2` with `w >= 0`, `sum w = 1`. At most K
//! weights may be positive. The exact choice is a search over all subsets; [`InfluenceSolver`] has moves that only lower the error:
//!
//! * [`reweigh`](InfluenceSolver::reweigh): best weights of the present bones, by an active set [Le2014 alg. 1-2];
//! * [`dense`](InfluenceSolver::dense): of all bones;
//! * [`let_in`](InfluenceSolver::let_in): adds the bones towards which a line search gains most;
//! * [`shrink`](InfluenceSolver::shrink): drops the bone whose loss is estimated least, reweighs, until K are left;
//! * [`exchange`](InfluenceSolver::exchange): bones one for one; [`swap`](InfluenceSolver::swap): several newcomers against all.
//!
//! [`whole`](InfluenceSolver::whole) is the optimum over *all* bones by column generation [Le2014 s.3.7], then at most K of them: down
//! to K one at a time, and up to K from the single best bone and from the present ones, with swaps; the best of these.
//!
//! This is the plain choice, in float64, for one vertex. `vertex_step` is the fast one, for eight vertices at a time.

use crate::model::weights::{Row, normalise};
use crate::skinning::quadratic::Metric;
use crate::solve::kernels::add_scaled;
use crate::solve::simplex::SimplexSolver;

/// Weights below this are treated as zero.
const NEGLIGIBLE: f64 = 1e-7;
/// Exchange partners tried for each bone.
const PARTNERS: usize = 4;
/// Passes over the bones of a vertex looking for exchanges.
const EXCHANGE_PASSES: usize = 6;
/// Bones beyond K that a vertex may hold while it is solved.
const SPARE: usize = 12;
/// Bones let in at a time.
const NEWCOMERS: usize = 3;
/// Slopes below this share of the sums that they are differences of are rounding errors.
const ROUNDING: f64 = 1e-13;

/// `G` of one vertex, symmetric [B, B].
pub(crate) trait Form {
    /// B.
    fn bones(&self) -> usize;

    /// [B] row `j`.
    fn row(&mut self, j: usize) -> &[f64];

    /// `G_jj`.
    fn diagonal(&self, j: usize) -> f64;
}

/// A form of which all entries are known.
#[derive(Default)]
pub(crate) struct DenseForm {
    bones: usize,
    /// [B, B]
    pub gram: Vec<f64>,
}

impl Form for DenseForm {
    fn bones(&self) -> usize {
        self.bones
    }

    fn row(&mut self, j: usize) -> &[f64] {
        &self.gram[j * self.bones..][..self.bones]
    }

    fn diagonal(&self, j: usize) -> f64 {
        self.gram[j * self.bones + j]
    }
}

/// Solves vertices one after another with shared buffers.
pub(crate) struct InfluenceSolver<F> {
    pub form: F,
    /// [B] `q`.
    pub linear: Vec<f64>,
    /// `|v|^2`; 0 where it is not known.
    pub energy: f64,
    simplex: SimplexSolver,
    /// Variables that `simplex` has room for.
    capacity: usize,
    /// Form and right side of the chosen bones.
    small: Vec<f64>,
    right: Vec<f64>,
    weights: Vec<f64>,
    /// Estimated loss of each chosen bone, after [`InfluenceSolver::reweigh`].
    costs: Vec<f64>,
    /// [B] `G w`.
    product: Vec<f64>,
    /// (gain, bone)
    gains: Vec<(f64, usize)>,
}

impl InfluenceSolver<DenseForm> {
    pub fn dense_form() -> Self {
        Self::new(DenseForm::default())
    }

    /// Takes up a form [B, B] that `fill` writes, and `q` [B].
    pub fn load(&mut self, linear: &[f64], fill: impl FnOnce(&mut [f64])) {
        let bones = linear.len();
        self.form.bones = bones;
        self.form.gram.resize(bones * bones, 0.0);
        fill(&mut self.form.gram);
        self.linear.clear();
        self.linear.extend_from_slice(linear);
    }

    /// Takes up vertex `i`.
    pub fn load_vertex(&mut self, metric: &Metric, i: usize) {
        self.load(metric.linear(i), |gram| metric.gram(metric.features(i), gram));
    }
}

impl<F: Form> InfluenceSolver<F> {
    pub fn new(form: F) -> Self {
        Self {
            form,
            linear: Vec::new(),
            energy: 0.0,
            simplex: SimplexSolver::new(0),
            capacity: 0,
            small: Vec::new(),
            right: Vec::new(),
            weights: Vec::new(),
            costs: Vec::new(),
            product: Vec::new(),
            gains: Vec::new(),
        }
    }

    /// `w^T G w - 2 q . w`.
    pub fn value(&mut self, row: &Row) -> f64 {
        let mut sum = 0.0;
        for &(j, w) in row {
            let form = self.form.row(j);
            let along = row.iter().map(|&(k, w)| w * form[k]).sum::<f64>();
            sum += w * (along - 2.0 * self.linear[j]);
        }
        sum
    }

    /// Error of bone `j` alone [Course2014 eq. 37], less `|v|^2`.
    fn alone(&self, j: usize) -> f64 {
        self.form.diagonal(j) - 2.0 * self.linear[j]
    }

    /// The single best bone.
    pub fn single(&self) -> Row {
        let best = (0..self.form.bones()).min_by(|&a, &b| self.alone(a).total_cmp(&self.alone(b))).unwrap_or(0);
        vec![(best, 1.0)]
    }

    /// Some bones, those first that alone predict best; all weight on the first.
    pub fn by_own_error(&self, bones: impl Iterator<Item = usize>) -> Row {
        let mut errors: Vec<(f64, usize)> = bones.map(|j| (self.alone(j), j)).collect();
        errors.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        errors.iter().enumerate().map(|(at, &(_, j))| (j, f64::from(at == 0))).collect()
    }

    /// Some bones with their weights, those first whose effect `w^2 |T v|^2` is largest [Course2014 eq. 14].
    pub fn by_effect(&self, bones: impl Iterator<Item = (usize, f64)>) -> Row {
        let effect = |w: f64, j: usize| w * w * self.form.diagonal(j);
        let mut row: Row = bones.collect();
        row.sort_by(|a, b| effect(b.1, b.0).total_cmp(&effect(a.1, a.0)).then(a.0.cmp(&b.0)));
        row
    }

    /// Best weights on the bones of `row`, from its present ones on; bones whose weight becomes zero are removed.
    pub fn reweigh(&mut self, row: &mut Row) {
        let m = row.len();
        self.small.clear();
        self.right.clear();
        for &(j, _) in row.iter() {
            let form = self.form.row(j);
            self.small.extend(row.iter().map(|&(k, _)| form[k]));
            self.right.push(self.linear[j]);
        }
        normalise(row);
        self.weights.clear();
        self.weights.extend(row.iter().map(|&(_, w)| w));
        if m > self.capacity {
            self.capacity = m;
            self.simplex = SimplexSolver::new(m);
        }
        self.simplex.solve(&self.small, m, &self.right, &mut self.weights);
        self.simplex.removal_estimates(&self.weights, &mut self.costs);
        let mut kept = 0;
        for p in 0..m {
            if self.weights[p] > NEGLIGIBLE {
                row[kept] = (row[p].0, self.weights[p]);
                self.costs[kept] = self.costs[p];
                kept += 1;
            }
        }
        row.truncate(kept);
        self.costs.truncate(kept);
        normalise(row);
    }

    /// Best weights on all bones.
    pub fn dense(&mut self, start: &Row) -> Row {
        let mut all: Row = (0..self.form.bones()).map(|j| (j, 0.0)).collect();
        start.iter().for_each(|&(j, w)| all[j].1 += w);
        self.reweigh(&mut all);
        all
    }

    /// At most `k` bones and their weights, from the bones of `row`.
    pub fn choose(&mut self, k: usize, row: &mut Row) {
        self.shrink(k, row);
        self.exchange(k, row);
    }

    /// Drops bones from `row` until at most `k` are left.
    pub fn shrink(&mut self, k: usize, row: &mut Row) {
        self.reweigh(row);
        self.drop_cheapest(k, row);
    }

    /// The least estimated loss of a bone of the row that was reweighed last.
    pub fn least_cost(&self) -> f64 {
        self.costs.iter().copied().fold(f64::INFINITY, f64::min)
    }

    /// As [`InfluenceSolver::shrink`], of a row that has its best weights.
    fn drop_cheapest(&mut self, k: usize, row: &mut Row) {
        while row.len() > k {
            let least = |best: usize, p: usize| if self.costs[p] < self.costs[best] { p } else { best };
            row.remove((0..row.len()).fold(0, least));
            self.reweigh(row);
        }
    }

    /// Finds the `count` bones outside `row` with the largest gain of a line search from its prediction p towards them:
    /// `(r . d)^2 / |d|^2` with `d = a_j - p`, going at most the whole way. `rounding`: see [`ROUNDING`].
    fn rank(&mut self, row: &Row, count: usize, rounding: f64) {
        let b = self.form.bones();
        self.product.clear();
        self.product.resize(b, 0.0);
        row.iter().for_each(|&(k, w)| add_scaled(&mut self.product, w, self.form.row(k)));
        let own: f64 = row.iter().map(|&(j, w)| w * self.product[j]).sum();
        let along: f64 = row.iter().map(|&(j, w)| w * self.linear[j]).sum();
        let least_slope = rounding * (self.energy + own.abs());
        self.gains.clear();
        for (j, (&cross, &truth)) in self.product.iter().zip(&self.linear).enumerate() {
            let slope = truth - cross - (along - own);
            if slope <= least_slope {
                continue;
            }
            let distance = self.form.diagonal(j) - 2.0 * cross + own;
            let step = (slope / distance.max(1e-300)).clamp(0.0, 1.0);
            let gain = step * (2.0 * slope - step * distance);
            if gain > 0.0 && row.iter().all(|(k, _)| *k != j) {
                self.gains.push((gain, j));
            }
        }
        let order = |a: &(f64, usize), b: &(f64, usize)| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1));
        if count < self.gains.len() {
            self.gains.select_nth_unstable_by(count, order);
            self.gains.truncate(count);
        }
        self.gains.sort_by(order);
    }

    /// Adds up to `count` bones that gain more than `least`, with weight 0; false if there are none.
    pub fn let_in(&mut self, count: usize, least: f64, row: &mut Row) -> bool {
        self.rank(row, count, ROUNDING);
        let before = row.len();
        row.extend(self.gains.iter().filter(|(gain, _)| *gain > least).map(|&(_, j)| (j, 0.0)));
        row.len() > before
    }

    /// Exchanges bones one for one, and takes in more where there is room, while that lowers the error.
    pub fn exchange(&mut self, k: usize, row: &mut Row) {
        let mut value = self.value(row);
        for _ in 0..EXCHANGE_PASSES {
            let before = value;
            if row.len() < k {
                self.try_partners(row.clone(), row, &mut value);
            }
            for j in row.iter().map(|&(j, _)| j).collect::<Vec<_>>() {
                let mut without = row.clone();
                without.retain(|&(other, _)| other != j);
                if !without.is_empty() && without.len() < row.len() {
                    self.reweigh(&mut without);
                    self.try_partners(without, row, &mut value);
                }
            }
            if value >= before - 1e-9 * before.abs() {
                break;
            }
        }
    }

    /// Adds each of the most promising bones to `base`, and keeps the best result in `row` if it is better.
    fn try_partners(&mut self, base: Row, row: &mut Row, value: &mut f64) {
        self.rank(&base, PARTNERS, 0.0);
        for at in 0..self.gains.len() {
            let mut candidate = base.clone();
            candidate.push((self.gains[at].1, 0.0));
            self.reweigh(&mut candidate);
            let found = self.value(&candidate);
            if found < *value {
                *value = found;
                *row = candidate;
            }
        }
    }

    /// Lets newcomers compete for the `k` places while that lowers the error by more than `slack`.
    pub fn swap(&mut self, k: usize, slack: f64, row: &mut Row) {
        let mut value = self.value(row);
        for _ in 0..3 * SPARE {
            let before = row.clone();
            if !self.let_in(NEWCOMERS, slack, row) {
                return;
            }
            self.shrink(k, row);
            let found = self.value(row);
            if found > value - slack {
                *row = before;
                return;
            }
            value = found;
        }
    }

    /// The present bones, reweighed, and swapped for others while that helps: between rounds that change the motion a little.
    pub fn nearby(&mut self, k: usize, slack: f64, row: &mut Row) {
        if k == 1 {
            *row = self.single();
            return;
        }
        self.shrink(k, row);
        self.swap(k, slack, row);
    }

    /// The optimum over all bones, then at most `k` of them. Errors that differ by less than `slack` are equal.
    pub fn whole(&mut self, k: usize, slack: f64, row: &mut Row) {
        if k == 1 {
            *row = self.single();
            return;
        }
        let present = row.clone();
        let capacity = (k + SPARE).min(self.form.bones()).max(k);
        for _ in 0..4 * SPARE {
            self.reweigh(row);
            if row.len() + NEWCOMERS > capacity {
                self.drop_cheapest(capacity.saturating_sub(NEWCOMERS).max(k), row);
            }
            let room = NEWCOMERS.min(capacity.saturating_sub(row.len()));
            if !self.let_in(room, 0.1 * slack, row) {
                break;
            }
        }
        if row.len() <= k {
            return;
        }
        let goal = self.value(row) + slack;
        self.shrink(k, row);
        self.swap(k, slack, row);
        let mut value = self.value(row);
        for start in [self.single(), present] {
            if value <= goal {
                break;
            }
            let mut other = start;
            self.nearby(k, slack, &mut other);
            let found = self.value(&other);
            if found < value {
                (value, *row) = (found, other);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::solve::random::Random;

    /// Positions that six bones alone give a vertex in twelve coordinates, and a target that is near a blend of some of them.
    fn loaded(random: &mut Random, bones: usize) -> InfluenceSolver<DenseForm> {
        const LENGTH: usize = 12;
        let columns: Vec<f64> = (0..bones * LENGTH).map(|_| random.unit() - 0.5).collect();
        let column = |j: usize| &columns[j * LENGTH..][..LENGTH];
        let shares: Vec<f64> = (0..bones).map(|_| random.unit().powi(3)).collect();
        let total: f64 = shares.iter().sum();
        let target: Vec<f64> = (0..LENGTH)
            .map(|l| (0..bones).map(|j| shares[j] / total * column(j)[l]).sum::<f64>() + 0.1 * (random.unit() - 0.5))
            .collect();
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let mut solver = InfluenceSolver::dense_form();
        let linear: Vec<f64> = (0..bones).map(|j| dot(column(j), &target)).collect();
        solver.load(&linear, |gram| {
            (0..bones * bones).for_each(|at| gram[at] = dot(column(at / bones), column(at % bones)));
        });
        solver.energy = dot(&target, &target);
        solver
    }

    /// The least error over all sets of at most `k` bones.
    fn enumerated(solver: &mut InfluenceSolver<DenseForm>, bones: usize, k: usize) -> f64 {
        let sets = (1u32..1 << bones).filter(|set| set.count_ones() as usize <= k);
        sets.map(|set| {
            let mut row: Row = (0..bones).filter(|j| set >> j & 1 == 1).map(|j| (j, 1.0)).collect();
            solver.reweigh(&mut row);
            solver.value(&row)
        })
        .fold(f64::INFINITY, f64::min)
    }

    #[test]
    fn choices_are_mostly_the_best_and_never_worse_than_their_start() {
        const SLACK: f64 = 1e-12;
        let mut random = Random::new(7);
        let (mut cases, mut whole_best, mut from_all_best) = (0, 0, 0);
        for case in 0..300 {
            let (bones, k) = (4 + case % 5, 1 + case % 3);
            let mut solver = loaded(&mut random, bones);
            let best = enumerated(&mut solver, bones, k);
            let start: Row = (0..k).map(|at| ((at * 2 + case) % bones, 1.0 / k as f64)).collect();
            let before = solver.value(&start);
            let (mut whole, mut nearby, mut exchanged) = (start.clone(), start.clone(), start.clone());
            solver.whole(k, SLACK, &mut whole);
            solver.nearby(k, SLACK, &mut nearby);
            solver.exchange(k, &mut exchanged);
            let mut from_all = solver.dense(&start);
            solver.shrink(k, &mut from_all);
            solver.exchange(k, &mut from_all);
            for (what, row) in [("whole", &whole), ("nearby", &nearby), ("exchange", &exchanged), ("all", &from_all)] {
                assert!(row.len() <= k && (row.iter().map(|(_, w)| w).sum::<f64>() - 1.0).abs() < 1e-9);
                let found = solver.value(row);
                assert!(found >= best - 1e-9, "{what}, case {case}: {found} is below the best {best}");
                assert!(what == "all" || found <= before + SLACK, "{what}, case {case}: {found} from {before}");
            }
            whole_best += usize::from(solver.value(&whole) <= best + 1e-9);
            from_all_best += usize::from(solver.value(&from_all) <= best + 1e-9);
            cases += 1;
        }
        assert!(whole_best * 100 >= 90 * cases, "{whole_best} of {cases}");
        assert!(from_all_best * 100 >= 90 * cases, "{from_all_best} of {cases}");
    }

    #[test]
    fn column_generation_reaches_the_optimum_over_all_bones() {
        let mut random = Random::new(11);
        for case in 0..50 {
            let mut solver = loaded(&mut random, 30);
            let dense = solver.dense(&vec![(case % 30, 1.0)]);
            let mut row = vec![(case % 30, 1.0)];
            solver.whole(30, 1e-12, &mut row);
            let (found, best) = (solver.value(&row), solver.value(&dense));
            assert!((found - best).abs() < 1e-9, "case {case}: {found} {best}");
        }
    }
}
