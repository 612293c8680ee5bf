//! One vertex against fixed bones: which bones, which weights, which rest position.
//!
//! For vertex `v` (trajectory of length L) with homogeneous rest `u` and bones `T_j` the error is
//!
//! ```text
//! E(w, u) = |v|^2 - 2 sum_j w_j Y_j . u + sum_jk w_j w_k u^T K_jk u
//! Y_j = T_j^T v (4 numbers a bone and vertex)      K_jk = T_j^T T_k (4x4, shared by all vertices)
//! ```
//!
//! so after one product with the trajectories everything is arithmetic on tiny matrices, whatever the number of
//! frames. Choice of influences: [Kavan2010 s.4.4] takes the K bones that alone predict best, [Le2014 s.3.7] solves
//! with all bones and drops the least. We start from the present set, let in the bones with the best line search
//! towards them, solve on the simplex, and drop one at a time whose loss is least; a new set is taken only if it is
//! better. Repeated over the outer rounds this is greedy selection with refitting and swaps.

use glam::{DMat3, DVec3};

use crate::solve::kernels::add4;
use crate::solve::simplex::SimplexSolver;

/// What all vertices share: products of the bones' motions.
pub(crate) struct BoneProducts {
    /// B.
    pub bones: usize,
    /// [4 B, 4 B] `T T^T`; entry (c B + j, d B + k) is entry (c, d) of `K_jk`.
    pub gram: Vec<f64>,
    /// [10, B] monomial coefficients of `u^T K_jj u`.
    own: Vec<f64>,
}

/// Pairs (c, d), c <= d, in the order of `own`.
const PAIRS: [(usize, usize); 10] =
    [(0, 0), (1, 1), (2, 2), (3, 3), (0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)];

impl BoneProducts {
    /// From the gram matrix of a motion's rows.
    pub fn new(bones: usize, gram: Vec<f64>) -> Self {
        let side = 4 * bones;
        let mut own = vec![0.0; 10 * bones];
        for (p, &(c, d)) in PAIRS.iter().enumerate() {
            for j in 0..bones {
                let entry = gram[(c * bones + j) * side + d * bones + j];
                own[p * bones + j] = if c == d { entry } else { 2.0 * entry };
            }
        }
        Self { bones, gram, own }
    }

    /// Rows of coordinate 0..3 of bone `k`.
    fn rows(&self, k: usize) -> [&[f64]; 4] {
        let side = 4 * self.bones;
        std::array::from_fn(|c| &self.gram[(c * self.bones + k) * side..][..side])
    }

    /// `u^T K_jk u'` for homogeneous vectors.
    fn form(&self, j: usize, k: usize, u: &[f64; 4]) -> f64 {
        let (b, side) = (self.bones, 4 * self.bones);
        let mut sum = 0.0;
        for (c, uc) in u.iter().enumerate() {
            let row = &self.gram[(c * b + j) * side..][..side];
            sum += uc * (u[0] * row[k] + u[1] * row[b + k] + u[2] * row[2 * b + k] + u[3] * row[3 * b + k]);
        }
        sum
    }
}

/// Settings of the vertex solve.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LocalParams {
    /// K: most influences.
    pub slots: usize,
    /// Bones let in beyond the present ones, each round.
    pub newcomers: usize,
    /// Move the rest position too.
    pub move_rest: bool,
    /// Alternations between weights and rest position.
    pub rounds: usize,
}

/// Weights of one vertex while it is being solved.
#[derive(Clone, Debug, Default)]
pub(crate) struct Influences {
    pub bones: Vec<usize>,
    pub weights: Vec<f64>,
}

/// Solves vertices one after another with shared buffers.
pub(crate) struct LocalSolver {
    params: LocalParams,
    simplex: SimplexSolver,
    /// [4 B] `T^T pred`, then `Y = T^T v`.
    projections: Vec<f64>,
    /// [B] gain of a line search towards each bone.
    gains: Vec<f64>,
    gram: Vec<f64>,
    linear: Vec<f64>,
    trial_gram: Vec<f64>,
    trial_linear: Vec<f64>,
    candidate: Influences,
    trial: Influences,
}

impl LocalSolver {
    pub fn new(params: LocalParams) -> Self {
        let capacity = params.slots + params.newcomers;
        Self {
            params,
            simplex: SimplexSolver::new(capacity),
            projections: Vec::new(),
            gains: Vec::new(),
            gram: Vec::new(),
            linear: Vec::new(),
            trial_gram: Vec::new(),
            trial_linear: Vec::new(),
            candidate: Influences::default(),
            trial: Influences::default(),
        }
    }

    /// Improves `influences` and `rest` of one vertex; `along[c B + j]` is the residual's product with row c of bone j.
    pub fn solve(&mut self, products: &BoneProducts, along: &[f32], influences: &mut Influences, rest: &mut DVec3) {
        self.project(products, along, influences, *rest);
        let mut u = [rest.x, rest.y, rest.z, 1.0];
        self.choose(products, &u, influences);
        for round in 0..self.params.rounds {
            if !self.params.move_rest {
                break;
            }
            *rest = self.best_rest(products, influences, *rest);
            u = [rest.x, rest.y, rest.z, 1.0];
            if round + 1 < self.params.rounds {
                self.reweigh(products, &u, influences);
            }
        }
    }

    /// `Y = T^T v = T^T residual + T^T pred` and the gains of all bones.
    fn project(&mut self, products: &BoneProducts, along: &[f32], influences: &Influences, rest: DVec3) {
        let b = products.bones;
        let u = [rest.x, rest.y, rest.z, 1.0];
        self.projections.clear();
        self.projections.resize(4 * b, 0.0);
        for (&k, &w) in influences.bones.iter().zip(&influences.weights) {
            add4(&mut self.projections, u.map(|x| w * x), products.rows(k));
        }
        // Line search from the present prediction p towards bone j alone: direction d = a_j - p,
        // gain (r . d)^2 / |d|^2, or at most the whole way.
        let along_row = |c: usize| &along[c * b..(c + 1) * b];
        let pred_row = |c: usize| &self.projections[c * b..(c + 1) * b];
        let dot = |rows: [f64; 4]| u[0] * rows[0] + u[1] * rows[1] + u[2] * rows[2] + rows[3];
        let mut along_pred = 0.0;
        let mut pred_pred = 0.0;
        for (&k, &w) in influences.bones.iter().zip(&influences.weights) {
            along_pred += w * dot(std::array::from_fn(|c| f64::from(along_row(c)[k])));
            pred_pred += w * dot(std::array::from_fn(|c| pred_row(c)[k]));
        }
        let monomials: [f64; 10] = PAIRS.map(|(c, d)| u[c] * u[d]);
        self.gains.clear();
        self.gains.resize(b, 0.0);
        for j in 0..b {
            let slope = dot(std::array::from_fn(|c| f64::from(along_row(c)[j]))) - along_pred;
            let cross = dot(std::array::from_fn(|c| pred_row(c)[j]));
            let own: f64 = (0..10).map(|p| monomials[p] * products.own[p * b + j]).sum();
            let distance = (own - 2.0 * cross + pred_pred).max(1e-300);
            let step = (slope / distance).clamp(0.0, 1.0);
            self.gains[j] = step * (2.0 * slope - step * distance);
        }
        for (y, r) in self.projections.iter_mut().zip(along) {
            *y += f64::from(*r);
        }
    }

    /// Lets in promising bones, solves, and drops what is too much; keeps the result if it is better.
    fn choose(&mut self, products: &BoneProducts, u: &[f64; 4], influences: &mut Influences) {
        if self.params.slots == 1 {
            return self.choose_one(products, u, influences);
        }
        let kept = influences.bones.len();
        self.candidate.clone_from(influences);
        for _ in 0..self.params.newcomers {
            let best = (0..self.gains.len())
                .filter(|j| self.gains[*j] > 0.0 && !self.candidate.bones.contains(j))
                .max_by(|&a, &b| self.gains[a].total_cmp(&self.gains[b]).then(b.cmp(&a)));
            if let Some(j) = best {
                self.candidate.bones.push(j);
                self.candidate.weights.push(0.0);
            }
        }
        self.load(products, u);
        let before = value(&self.gram, &self.linear, &self.candidate.weights);
        let m = self.candidate.weights.len();
        self.simplex.solve(&self.gram, m, &self.linear, &mut self.candidate.weights);
        self.compact();
        while self.candidate.bones.len() > self.params.slots {
            self.drop_least();
        }
        let after = value(&self.gram, &self.linear, &self.candidate.weights);
        if after <= before {
            std::mem::swap(influences, &mut self.candidate);
        } else {
            // The larger set had to give up more than it won: solve within the old one.
            self.candidate.clone_from(influences);
            self.candidate.bones.truncate(kept);
            self.load(products, u);
            self.simplex.solve(&self.gram, kept, &self.linear, &mut self.candidate.weights);
            self.compact();
            std::mem::swap(influences, &mut self.candidate);
        }
    }

    /// The single best bone: least `u^T K_jj u - 2 Y_j . u`.
    fn choose_one(&self, products: &BoneProducts, u: &[f64; 4], influences: &mut Influences) {
        let b = products.bones;
        let error = |j: usize| {
            let own: f64 = PAIRS.iter().enumerate().map(|(p, &(c, d))| u[c] * u[d] * products.own[p * b + j]).sum();
            let y = |c: usize| self.projections[c * b + j];
            own - 2.0 * (u[0] * y(0) + u[1] * y(1) + u[2] * y(2) + y(3))
        };
        let present = influences.bones[0];
        let mut best = (error(present), present);
        for j in 0..b {
            let e = error(j);
            if e < best.0 {
                best = (e, j);
            }
        }
        influences.bones[0] = best.1;
        influences.weights[0] = 1.0;
    }

    /// Same bones, new weights.
    fn reweigh(&mut self, products: &BoneProducts, u: &[f64; 4], influences: &mut Influences) {
        self.candidate.clone_from(influences);
        self.load(products, u);
        let m = self.candidate.weights.len();
        self.simplex.solve(&self.gram, m, &self.linear, &mut self.candidate.weights);
        self.compact();
        std::mem::swap(influences, &mut self.candidate);
    }

    /// Fills `gram` and `linear` for the candidate's bones.
    fn load(&mut self, products: &BoneProducts, u: &[f64; 4]) {
        let (b, m) = (products.bones, self.candidate.bones.len());
        self.gram.clear();
        self.gram.resize(m * m, 0.0);
        self.linear.clear();
        for (p, &j) in self.candidate.bones.iter().enumerate() {
            let y = |c: usize| self.projections[c * b + j];
            self.linear.push(u[0] * y(0) + u[1] * y(1) + u[2] * y(2) + y(3));
            for (q, &k) in self.candidate.bones[..=p].iter().enumerate() {
                let form = products.form(j, k, u);
                self.gram[p * m + q] = form;
                self.gram[q * m + p] = form;
            }
        }
    }

    /// Takes bones of weight 0 out of the candidate and its matrices.
    fn compact(&mut self) {
        let m = self.candidate.bones.len();
        let used: Vec<usize> = (0..m).filter(|&p| self.candidate.weights[p] > 1e-9).collect();
        if used.len() == m {
            return;
        }
        let total: f64 = used.iter().map(|&p| self.candidate.weights[p]).sum();
        for (to, &from) in used.iter().enumerate() {
            self.candidate.bones[to] = self.candidate.bones[from];
            self.candidate.weights[to] = self.candidate.weights[from] / total;
            self.linear[to] = self.linear[from];
            for (to2, &from2) in used.iter().enumerate() {
                self.gram[to * used.len() + to2] = self.gram[from * m + from2];
            }
        }
        let n = used.len();
        self.candidate.bones.truncate(n);
        self.candidate.weights.truncate(n);
        self.linear.truncate(n);
        self.gram.truncate(n * n);
    }

    /// Drops the bone whose loss raises the error least after refitting the others.
    fn drop_least(&mut self) {
        let m = self.candidate.bones.len();
        let mut best: Option<(f64, Influences)> = None;
        for out in 0..m {
            let rest = |p: usize| if p < out { p } else { p + 1 };
            let n = m - 1;
            self.trial_gram.clear();
            self.trial_gram.extend((0..n * n).map(|at| self.gram[rest(at / n) * m + rest(at % n)]));
            self.trial_linear.clear();
            self.trial_linear.extend((0..n).map(|p| self.linear[rest(p)]));
            let kept = 1.0 - self.candidate.weights[out];
            self.trial.bones.clear();
            self.trial.bones.extend((0..n).map(|p| self.candidate.bones[rest(p)]));
            self.trial.weights.clear();
            self.trial.weights.extend((0..n).map(|p| self.candidate.weights[rest(p)] / kept.max(1e-12)));
            if kept < 1e-6 {
                self.trial.weights.fill(1.0 / n as f64);
            }
            self.simplex.solve(&self.trial_gram, n, &self.trial_linear, &mut self.trial.weights);
            let error = value(&self.trial_gram, &self.trial_linear, &self.trial.weights);
            if best.as_ref().is_none_or(|(least, _)| error < *least) {
                best = Some((error, self.trial.clone()));
            }
        }
        if let Some((_, trial)) = best {
            let keep: Vec<usize> = trial.bones.iter().filter_map(|j| self.candidate.bones.iter().position(|k| k == j)).collect();
            let n = keep.len();
            let gram: Vec<f64> = (0..n * n).map(|at| self.gram[keep[at / n] * m + keep[at % n]]).collect();
            let linear: Vec<f64> = keep.iter().map(|&p| self.linear[p]).collect();
            self.gram = gram;
            self.linear = linear;
            self.candidate = trial;
            self.compact();
        }
    }

    /// Rest position of least error for given weights: `(sum w_j w_k K_jk) u = sum w_j Y_j` [Kavan2010 s.4.3].
    ///
    /// A small ridge keeps the vertex where it is in directions that no frame sees.
    fn best_rest(&self, products: &BoneProducts, influences: &Influences, rest: DVec3) -> DVec3 {
        let (b, side) = (products.bones, 4 * products.bones);
        let mut normal = [[0.0f64; 4]; 3];
        let mut right = DVec3::ZERO;
        for (&j, &wj) in influences.bones.iter().zip(&influences.weights) {
            for c in 0..3 {
                right[c] += wj * self.projections[c * b + j];
                let row = &products.gram[(c * b + j) * side..][..side];
                for (&k, &wk) in influences.bones.iter().zip(&influences.weights) {
                    for d in 0..4 {
                        normal[c][d] += wj * wk * row[d * b + k];
                    }
                }
            }
        }
        let column = |d: usize| DVec3::new(normal[0][d], normal[1][d], normal[2][d]);
        let matrix = DMat3::from_cols(column(0), column(1), column(2));
        let ridge = 1e-6 * (matrix.x_axis.x + matrix.y_axis.y + matrix.z_axis.z) + 1e-12;
        let gradient = right - matrix * rest - column(3);
        rest + (matrix + DMat3::from_diagonal(DVec3::splat(ridge))).inverse() * gradient
    }
}

/// `w^T G w - 2 q^T w`.
fn value(gram: &[f64], linear: &[f64], w: &[f64]) -> f64 {
    let m = w.len();
    let mut sum = 0.0;
    for p in 0..m {
        let row: f64 = gram[p * m..(p + 1) * m].iter().zip(w).map(|(g, w)| g * w).sum();
        sum += w[p] * (row - 2.0 * linear[p]);
    }
    sum
}
