//! One vertex against all bones of known motion; see `weights` for the problem.

use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};
use glam::DVec3;

use crate::refit::kernels::{add_scaled, combine4};
use crate::refit::weights::{BLOCK, PAIRS, Prior, Shared};
use crate::solve::simplex::SimplexSolver;

/// Bones beyond the K wanted that a vertex may hold while it is solved.
const SPARE: usize = 12;

/// Bones let in at a time.
const NEWCOMERS: usize = 3;

/// Weights below this are none.
const NEGLIGIBLE: f64 = 1e-6;

/// A sparser set of bones that costs less than this, per coordinate and frame in squared sphere units, is as good: a
/// thousandth of an E_RMS unit.
const AS_GOOD: f64 = 1e-12;

/// A set of bones and their weights.
#[derive(Clone, Default)]
struct Choice {
    bones: Vec<usize>,
    weights: Vec<f64>,
}

/// Buffers, and the vertex being solved.
pub(super) struct Solver<'a> {
    shared: &'a [Shared<'a>],
    bones: usize,
    simplex: SimplexSolver,
    capacity: usize,
    /// [parts][BLOCK, 4 B] `Y = T^T v`.
    along: Vec<Vec<f64>>,
    /// [BLOCK, L] trajectories in float64.
    trajectories: Vec<f64>,
    /// [parts] homogeneous rest position.
    rest: Vec<[f64; 4]>,
    /// `|v|^2` over all subjects, and over how many numbers.
    squared: f64,
    samples: usize,
    /// [B] `q + e w0`.
    linear: Vec<f64>,
    /// [B] `G_jj + e`.
    diagonal: Vec<f64>,
    /// Rows of `G + e I` found so far, and where each bone's is.
    rows: Vec<f64>,
    row_of: Vec<u32>,
    found: Vec<usize>,
    strength: f64,
    wish: Vec<(u16, f32)>,
    /// [B] `(G + e I) w`.
    product: Vec<f64>,
    /// [B] by how much a line search towards each bone lowers the error.
    gains: Vec<f64>,
    /// [capacity, capacity], [capacity] of the candidates.
    gram: Vec<f64>,
    right: Vec<f64>,
    now: Choice,
    costs: Vec<f64>,
}

const NO_ROW: u32 = u32::MAX;

impl<'a> Solver<'a> {
    /// For vertices of at most `limit` bones.
    pub fn new(shared: &'a [Shared<'a>], limit: usize) -> Self {
        let bones = shared.first().map_or(0, |s| s.part.motion.bones);
        let capacity = (limit + SPARE).min(bones).max(limit);
        let longest = shared.iter().map(|s| s.part.problem.length).max().unwrap_or(0);
        Self {
            shared,
            bones,
            simplex: SimplexSolver::new(capacity),
            capacity,
            along: shared.iter().map(|_| vec![0.0; BLOCK * 4 * bones]).collect(),
            trajectories: vec![0.0; BLOCK * longest],
            rest: vec![[0.0; 4]; shared.len()],
            squared: 0.0,
            samples: shared.iter().map(|s| s.part.problem.length).sum(),
            linear: vec![0.0; bones],
            diagonal: vec![0.0; bones],
            rows: Vec::new(),
            row_of: vec![NO_ROW; bones],
            found: Vec::new(),
            strength: 0.0,
            wish: Vec::new(),
            product: vec![0.0; bones],
            gains: vec![0.0; bones],
            gram: vec![0.0; capacity * capacity],
            right: vec![0.0; capacity],
            now: Choice::default(),
            costs: Vec::with_capacity(capacity),
        }
    }

    /// `Y = T^T v` of `count` vertices from `start` on.
    pub fn project(&mut self, start: usize, count: usize) {
        let side = 4 * self.bones;
        for (Shared { part, .. }, along) in self.shared.iter().zip(&mut self.along) {
            let length = part.problem.length;
            let source = &part.problem.trajectories[start * length..(start + count) * length];
            self.trajectories.iter_mut().zip(source).for_each(|(to, from)| *to = f64::from(*from));
            matmul(
                MatMut::from_row_major_slice_mut(&mut along[..count * side], count, side),
                Accum::Replace,
                MatRef::from_row_major_slice(&self.trajectories[..count * length], count, length),
                MatRef::from_row_major_slice(part.motion.rows(), side, length).transpose(),
                1.0,
                Par::Seq,
            );
        }
    }

    /// Vertex `i`, number `at` of the block.
    pub fn load(&mut self, i: usize, at: usize, prior: Prior) {
        let b = self.bones;
        self.linear.fill(0.0);
        self.diagonal.fill(prior.strength);
        self.squared = 0.0;
        for (s, Shared { part, own, .. }) in self.shared.iter().enumerate() {
            let p: DVec3 = part.problem.rest[i];
            let u = [p.x, p.y, p.z, 1.0];
            self.rest[s] = u;
            self.squared += squared(part.problem.trajectory(i));
            let y = &self.along[s][at * 4 * b..(at + 1) * 4 * b];
            (0..4).for_each(|c| add_scaled(&mut self.linear, u[c], &y[c * b..(c + 1) * b]));
            for (p, (c, d)) in PAIRS.into_iter().enumerate() {
                add_scaled(&mut self.diagonal, u[c] * u[d], &own[p * b..(p + 1) * b]);
            }
        }
        self.strength = prior.strength;
        self.wish.clear();
        self.wish.extend_from_slice(&prior.weights[i]);
        for &(j, w) in &self.wish {
            self.linear[j as usize] += prior.strength * f64::from(w);
        }
        self.found.drain(..).for_each(|j| self.row_of[j] = NO_ROW);
        self.rows.clear();
    }

    /// Starts from present weights; with none, from the single best bone.
    pub fn begin(&mut self, bones: &[u16], weights: &[f64]) {
        self.now.bones.clear();
        self.now.weights.clear();
        for (&j, &w) in bones.iter().zip(weights) {
            self.now.bones.push(j as usize);
            self.now.weights.push(w);
        }
        if self.now.bones.is_empty() {
            self.begin_single();
        }
        self.normalise();
    }

    fn begin_single(&mut self) {
        let error = |j: usize| self.diagonal[j] - 2.0 * self.linear[j];
        let best = (0..self.bones).min_by(|&a, &b| error(a).total_cmp(&error(b))).unwrap_or(0);
        self.now = Choice { bones: vec![best], weights: vec![1.0] };
    }

    /// The optimum over all bones, then at most `slots` of them.
    pub fn solve(&mut self, slots: usize) {
        if slots == 1 {
            return self.begin_single();
        }
        let present = self.now.clone();
        for _ in 0..4 * SPARE {
            self.refit();
            if self.now.bones.len() + NEWCOMERS > self.capacity && self.now.bones.len() > slots {
                self.shrink(self.capacity.saturating_sub(NEWCOMERS).max(slots));
            }
            if !self.let_in(0.1 * AS_GOOD * self.samples as f64) {
                break;
            }
        }
        if self.now.bones.len() <= slots {
            return;
        }
        let goal = self.value() + self.slack();
        self.shrink(slots);
        self.swap(slots);
        let mut best = (self.value(), self.now.clone());
        for start in [None, Some(present)] {
            if best.0 <= goal {
                break;
            }
            match start {
                Some(present) => self.now = present,
                None => self.begin_single(),
            }
            self.improve(slots);
            let value = self.value();
            if value < best.0 {
                best = (value, self.now.clone());
            }
        }
        self.now = best.1;
    }

    /// The present bones, refitted, and swapped for others as long as that helps.
    pub fn improve(&mut self, slots: usize) {
        if slots == 1 {
            return self.begin_single();
        }
        self.refit();
        self.shrink(slots);
        self.swap(slots);
    }

    /// Errors that differ by less are equal.
    fn slack(&self) -> f64 {
        AS_GOOD * self.samples as f64
    }

    /// Makes sure that the row of bone `j` is there.
    fn find_row(&mut self, j: usize) {
        if self.row_of[j] != NO_ROW {
            return;
        }
        let (b, side) = (self.bones, 4 * self.bones);
        let at = self.rows.len();
        self.row_of[j] = self.found.len() as u32;
        self.found.push(j);
        self.rows.resize(at + b, 0.0);
        let row = &mut self.rows[at..];
        for (shared, u) in self.shared.iter().zip(&self.rest) {
            for (c, uc) in u.iter().enumerate() {
                let source = &shared.gram[(c * b + j) * side..][..side];
                let planes = std::array::from_fn(|d| &source[d * b..(d + 1) * b]);
                combine4(row, u.map(|ud| uc * ud), planes);
            }
        }
        row[j] += self.strength;
    }

    fn row(&self, j: usize) -> &[f64] {
        &self.rows[self.row_of[j] as usize * self.bones..][..self.bones]
    }

    /// Best weights of the candidates; those that come out as nothing leave.
    fn refit(&mut self) {
        let stride = self.capacity;
        for p in 0..self.now.bones.len() {
            self.find_row(self.now.bones[p]);
        }
        for (p, &j) in self.now.bones.iter().enumerate() {
            let row = &self.rows[self.row_of[j] as usize * self.bones..][..self.bones];
            for (q, &k) in self.now.bones.iter().enumerate() {
                self.gram[p * stride + q] = row[k];
            }
            self.right[p] = self.linear[j];
        }
        self.simplex.solve(&self.gram, stride, &self.right, &mut self.now.weights);
        self.simplex.removal_estimates(&self.now.weights, &mut self.costs);
        for p in (0..self.now.bones.len()).rev() {
            if self.now.weights[p] <= NEGLIGIBLE && self.now.bones.len() > 1 {
                self.take_out(p);
            }
        }
        self.normalise();
    }

    fn take_out(&mut self, p: usize) {
        self.now.bones.remove(p);
        self.now.weights.remove(p);
        self.costs.remove(p);
    }

    fn normalise(&mut self) {
        let total: f64 = self.now.weights.iter().sum();
        let even = 1.0 / self.now.weights.len() as f64;
        self.now.weights.iter_mut().for_each(|w| *w = if total > 1e-12 { *w / total } else { even });
    }

    /// `(G + e I) w`.
    fn find_product(&mut self) {
        let mut product = std::mem::take(&mut self.product);
        product.fill(0.0);
        for p in 0..self.now.bones.len() {
            self.find_row(self.now.bones[p]);
            add_scaled(&mut product, self.now.weights[p], self.row(self.now.bones[p]));
        }
        self.product = product;
    }

    /// Lets in the bones towards which a line search gains most, more than `least`; false if there are none.
    ///
    /// From prediction p towards bone j: `(r . d)^2 / |d|^2` with `d = a_j - p`, going at most the whole way.
    fn let_in(&mut self, least: f64) -> bool {
        self.find_product();
        let (mut pred_pred, mut pred_truth) = (0.0, 0.0);
        for (&k, &w) in self.now.bones.iter().zip(&self.now.weights) {
            pred_pred += w * self.product[k];
            pred_truth += w * self.linear[k];
        }
        // The difference of large numbers: below this a slope is rounding.
        let noise = 1e-13 * (self.squared + pred_pred.abs());
        let columns = self.product.iter().zip(&self.linear).zip(&self.diagonal);
        for (gain, ((cross, truth), own)) in self.gains.iter_mut().zip(columns) {
            let slope = truth - cross - (pred_truth - pred_pred);
            let distance = (pred_pred - 2.0 * cross + own).max(1e-300);
            let step = if slope > noise { (slope / distance).min(1.0) } else { 0.0 };
            *gain = step * (2.0 * slope - step * distance);
        }
        self.now.bones.iter().for_each(|&k| self.gains[k] = 0.0);
        let before = self.now.bones.len();
        for _ in 0..NEWCOMERS.min(self.capacity.saturating_sub(before)) {
            let best = (0..self.bones).max_by(|&a, &b| self.gains[a].total_cmp(&self.gains[b]).then(b.cmp(&a)));
            let Some(j) = best.filter(|&j| self.gains[j] > least) else { break };
            self.now.bones.push(j);
            self.now.weights.push(0.0);
            self.gains[j] = 0.0;
        }
        self.now.bones.len() > before
    }

    /// Drops candidates until `slots` are left, each time the one whose loss is estimated least.
    fn shrink(&mut self, slots: usize) {
        while self.now.bones.len() > slots {
            let least = (0..self.costs.len()).min_by(|&p, &q| self.costs[p].total_cmp(&self.costs[q])).unwrap_or(0);
            self.take_out(least);
            self.normalise();
            self.refit();
        }
    }

    /// Lets promising outsiders compete for the `slots` as long as that helps.
    fn swap(&mut self, slots: usize) {
        let slack = self.slack();
        for _ in 0..3 * SPARE {
            let before = (self.value(), self.now.clone());
            if !self.let_in(slack) {
                return;
            }
            self.refit();
            self.shrink(slots);
            if self.value() > before.0 - slack {
                self.now = before.1;
                return;
            }
        }
    }

    /// What is minimised, less a constant: `w^T (G + e I) w - 2 (q + e w0)^T w`.
    fn value(&mut self) -> f64 {
        self.find_product();
        let pairs = self.now.bones.iter().zip(&self.now.weights);
        pairs.map(|(&j, &w)| w * (self.product[j] - 2.0 * self.linear[j])).sum()
    }

    /// Of the vertex, without the pull.
    pub fn squared_error(&mut self) -> f64 {
        let value = self.value();
        let pairs = self.now.bones.iter().zip(&self.now.weights);
        let wish =
            |j: usize| self.wish.iter().filter(|(k, _)| *k as usize == j).map(|(_, w)| f64::from(*w)).sum::<f64>();
        let pull: f64 = pairs.map(|(&j, &w)| w * (w - 2.0 * wish(j))).sum();
        (self.squared + value - self.strength * pull).max(0.0)
    }

    /// (bone, weight), largest first.
    pub fn sorted(&self) -> Vec<(usize, f64)> {
        let mut pairs: Vec<_> = self.now.bones.iter().copied().zip(self.now.weights.iter().copied()).collect();
        pairs.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        pairs
    }
}

fn squared(v: &[f32]) -> f64 {
    v.iter().map(|v| f64::from(*v) * f64::from(*v)).sum()
}
