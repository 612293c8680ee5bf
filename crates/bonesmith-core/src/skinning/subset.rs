//! At most K bones for one vertex, and their weights: least squares on the simplex with a choice of columns.
//!
//! The exact choice is a search over all subsets. Here: solve with all bones, drop the bone whose loss raises the error
//! least until K are left, each time solving again, then exchange bones one for one while that helps.

use crate::model::weights::{Row, normalise};
use crate::skinning::quadratic::Metric;
use crate::solve::simplex::SimplexSolver;

/// Exchange partners tried for each bone.
const PARTNERS: usize = 4;
/// Passes over the bones of a vertex looking for exchanges.
const EXCHANGE_PASSES: usize = 6;
/// Weights below this count as none.
const NOTHING: f64 = 1e-7;

/// Solves vertices one after another with shared buffers.
pub(crate) struct SubsetSolver {
    bones: usize,
    /// Most bones that `simplex` has room for.
    capacity: usize,
    simplex: SimplexSolver,
    /// [B, B] quadratic form of the present vertex.
    gram: Vec<f64>,
    /// Form and right side restricted to chosen bones.
    small: Vec<f64>,
    right: Vec<f64>,
    weights: Vec<f64>,
    costs: Vec<f64>,
    gains: Vec<(f64, usize)>,
}

impl SubsetSolver {
    pub fn new(bones: usize) -> Self {
        Self {
            bones,
            capacity: bones,
            simplex: SimplexSolver::new(bones),
            gram: vec![0.0; bones * bones],
            small: Vec::new(),
            right: Vec::new(),
            weights: Vec::new(),
            costs: Vec::new(),
            gains: Vec::new(),
        }
    }

    /// Takes up vertex `i`.
    pub fn load(&mut self, metric: &Metric, i: usize) {
        metric.gram(metric.features(i), &mut self.gram);
    }

    /// Takes up any [m, m] form.
    pub fn load_form(&mut self, m: usize, form: &[f64]) {
        if m > self.capacity {
            self.capacity = m;
            self.simplex = SimplexSolver::new(m);
        }
        self.bones = m;
        self.gram.clear();
        self.gram.extend_from_slice(form);
    }

    /// Entry of the present vertex's form.
    pub fn form(&self, j: usize, k: usize) -> f64 {
        self.gram[j * self.bones + k]
    }

    /// `w^T G w - 2 q . w`.
    pub fn value(&self, q: &[f64], row: &Row) -> f64 {
        let along = |j: usize| row.iter().map(|&(k, w)| w * self.form(j, k)).sum::<f64>();
        row.iter().map(|&(j, w)| w * (along(j) - 2.0 * q[j])).sum()
    }

    /// Best weights on the bones of `row`, from its present ones on; bones that come out with nothing leave.
    pub fn reweigh(&mut self, q: &[f64], row: &mut Row) {
        let m = row.len();
        self.small.clear();
        self.right.clear();
        for &(j, _) in row.iter() {
            let form = &self.gram[j * self.bones..][..self.bones];
            self.small.extend(row.iter().map(|&(k, _)| form[k]));
            self.right.push(q[j]);
        }
        normalise(row);
        self.weights.clear();
        self.weights.extend(row.iter().map(|&(_, w)| w));
        self.simplex.solve(&self.small, m, &self.right, &mut self.weights);
        self.simplex.removal_estimates(&self.weights, &mut self.costs);
        let mut kept = 0;
        for p in 0..m {
            if self.weights[p] > NOTHING {
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
    pub fn dense(&mut self, q: &[f64], start: &Row) -> Row {
        let mut all: Row = (0..self.bones).map(|j| (j, 0.0)).collect();
        start.iter().for_each(|&(j, w)| all[j].1 += w);
        self.reweigh(q, &mut all);
        all
    }

    /// At most `k` bones and their weights, starting from the bones of `row`.
    pub fn choose(&mut self, q: &[f64], k: usize, row: &mut Row) {
        self.shrink(q, k, row);
        self.exchange(q, k, row);
    }

    /// Drops bones from `row` until at most `k` are left.
    pub fn shrink(&mut self, q: &[f64], k: usize, row: &mut Row) {
        self.reweigh(q, row);
        while row.len() > k {
            let least = |best: usize, p: usize| if self.costs[p] < self.costs[best] { p } else { best };
            row.remove((0..row.len()).fold(0, least));
            self.reweigh(q, row);
        }
    }

    /// Exchanges bones one for one, and takes in more where there is room, while that lowers the error.
    pub fn exchange(&mut self, q: &[f64], k: usize, row: &mut Row) {
        let mut value = self.value(q, row);
        for _ in 0..EXCHANGE_PASSES {
            let before = value;
            if row.len() < k {
                self.try_partners(q, row.clone(), row, &mut value);
            }
            for j in row.iter().map(|&(j, _)| j).collect::<Vec<_>>() {
                let mut without = row.clone();
                without.retain(|&(other, _)| other != j);
                if !without.is_empty() && without.len() < row.len() {
                    self.reweigh(q, &mut without);
                    self.try_partners(q, without, row, &mut value);
                }
            }
            if value >= before - 1e-9 * before.abs() {
                break;
            }
        }
    }

    /// Adds each of the most promising bones to `base`, and keeps the best result in `row` if it is better.
    fn try_partners(&mut self, q: &[f64], base: Row, row: &mut Row, value: &mut f64) {
        self.rank(q, &base);
        for at in 0..PARTNERS.min(self.gains.len()) {
            let (_, j) = self.gains[at];
            let mut candidate = base.clone();
            candidate.push((j, 0.0));
            self.reweigh(q, &mut candidate);
            let found = self.value(q, &candidate);
            if found < *value {
                *value = found;
                *row = candidate;
            }
        }
    }

    /// Bones outside `row` by the gain of a line search from its prediction p towards them: `(r . d)^2 / |d|^2` with
    /// `d = a_j - p`, going at most the whole way.
    fn rank(&mut self, q: &[f64], row: &Row) {
        let b = self.bones;
        let cross = |j: usize| row.iter().map(|&(k, w)| w * self.gram[j * b + k]).sum::<f64>();
        let own: f64 = row.iter().map(|&(j, w)| w * cross(j)).sum();
        let along: f64 = row.iter().map(|&(j, w)| w * q[j]).sum();
        self.gains.clear();
        for j in (0..b).filter(|j| row.iter().all(|(k, _)| k != j)) {
            let cross = cross(j);
            let slope = q[j] - cross - (along - own);
            let distance = self.gram[j * b + j] - 2.0 * cross + own;
            let step = (slope / distance.max(1e-300)).clamp(0.0, 1.0);
            let gain = step * (2.0 * slope - step * distance);
            if gain > 0.0 {
                self.gains.push((gain, j));
            }
        }
        self.gains.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    }
}
