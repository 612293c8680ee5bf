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

// Loops over lanes are written with indices: that is the shape the compiler vectorises.
#![allow(clippy::needless_range_loop)]

use glam::{DMat3, DVec3};
use multiversion::multiversion;

use crate::solve::simplex::SimplexSolver;

/// What all vertices share: products of the bones' motions.
pub(crate) struct BoneProducts {
    /// B.
    pub bones: usize,
    /// [4 B, 4 B] `T T^T`; entry (c B + j, d B + k) is entry (c, d) of `K_jk`.
    pub gram: Vec<f64>,
    /// [10, B] monomial coefficients of `u^T K_jj u`.
    pub own: Vec<f64>,
}

/// Pairs (c, d), c <= d, in the order of `own`.
pub(crate) const PAIRS: [(usize, usize); 10] =
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
    #[inline(always)]
    fn rows(&self, k: usize) -> [&[f64]; 4] {
        let side = 4 * self.bones;
        std::array::from_fn(|c| &self.gram[(c * self.bones + k) * side..][..side])
    }

    /// `u^T K_jk u` for a homogeneous vector.
    #[inline(always)]
    pub fn form(&self, j: usize, k: usize, u: &[f64; 4]) -> f64 {
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
    /// A newcomer must promise to take this share off the vertex's error.
    pub min_gain: f64,
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

impl Influences {
    #[inline(always)]
    fn copy_from(&mut self, other: &Self) {
        self.clear();
        for (&j, &w) in other.bones.iter().zip(&other.weights) {
            self.push(j, w);
        }
    }

    #[inline(always)]
    pub fn push(&mut self, j: usize, w: f64) {
        self.bones.push(j);
        self.weights.push(w);
    }

    #[inline(always)]
    pub fn clear(&mut self) {
        self.bones.clear();
        self.weights.clear();
    }
}

/// What a vertex is solved from.
#[derive(Clone, Copy)]
pub(crate) struct VertexView<'a> {
    pub products: &'a BoneProducts,
    /// [4 B] product of the residual with each row of the motion.
    pub along: &'a [f32],
    /// Squared length of the residual.
    pub error: f64,
    /// Weights to agree with, and the price of not doing so.
    pub wish: Option<Wish<'a>>,
}

/// Smoothness as one vertex sees it: `strength |w - mean|^2` is added to its error.
#[derive(Clone, Copy)]
pub(crate) struct Wish<'a> {
    /// (bone, mean weight of the neighbours).
    pub mean: &'a [(u16, f32)],
    pub strength: f64,
}

impl Wish<'_> {
    #[inline(always)]
    fn of(&self, j: usize) -> f64 {
        self.mean.iter().find(|(bone, _)| *bone as usize == j).map_or(0.0, |(_, w)| f64::from(*w))
    }
}

/// Solves vertices one after another with shared buffers.
pub(crate) struct LocalSolver {
    params: LocalParams,
    simplex: SimplexSolver,
    /// Row length of `gram`: most bones a vertex may hold while being solved.
    capacity: usize,
    /// [4 B] `T^T pred`, then `Y = T^T v`.
    projections: Vec<f64>,
    /// [B] gain of a line search towards each bone.
    gains: Vec<f64>,
    /// [capacity, capacity] `u^T K_jk u` of the candidate's bones.
    gram: Vec<f64>,
    /// [capacity] `Y_j . u` of the candidate's bones.
    linear: Vec<f64>,
    /// What it would cost to drop each of the candidate's bones, while there are too many.
    drop_costs: Vec<f64>,
    candidate: Influences,
    /// The candidate before any bone was dropped, while costs are judged.
    whole: Influences,
}

/// Improves influences and rest position of one vertex.
#[multiversion(targets("x86_64+avx512f+avx512vl+fma", "x86_64+avx2+fma", "aarch64+neon"))]
pub(crate) fn solve_vertex(
    solver: &mut LocalSolver,
    vertex: VertexView<'_>,
    influences: &mut Influences,
    rest: &mut DVec3,
) {
    solver.solve(vertex, influences, rest);
}

/// Adds to `costs[j]` by how much the error of this vertex would rise without bone `j`.
#[multiversion(targets("x86_64+avx512f+avx512vl+fma", "x86_64+avx2+fma", "aarch64+neon"))]
pub(crate) fn add_removal_costs(
    solver: &mut LocalSolver,
    vertex: VertexView<'_>,
    influences: &mut Influences,
    rest: DVec3,
    costs: &mut [f64],
) {
    solver.removal_costs(vertex, influences, rest, costs);
}

impl LocalSolver {
    pub fn new(params: LocalParams) -> Self {
        let capacity = params.slots + params.newcomers;
        Self {
            params,
            simplex: SimplexSolver::new(capacity),
            capacity,
            projections: Vec::new(),
            gains: Vec::new(),
            gram: vec![0.0; capacity * capacity],
            linear: vec![0.0; capacity],
            drop_costs: Vec::new(),
            candidate: Influences::default(),
            whole: Influences::default(),
        }
    }

    #[inline(always)]
    fn solve(&mut self, vertex: VertexView<'_>, influences: &mut Influences, rest: &mut DVec3) {
        let products = vertex.products;
        let mut u = [rest.x, rest.y, rest.z, 1.0];
        self.project(vertex, influences, &u);
        if influences.bones.is_empty() || self.params.slots == 1 {
            let best = self.best_single(products, &u, influences.bones.first().copied());
            influences.clear();
            influences.push(best, 1.0);
            return;
        }
        self.choose(vertex, &u, influences);
        if !self.params.move_rest {
            return;
        }
        for round in 0..self.params.rounds {
            *rest = self.best_rest(products, influences, *rest);
            if round + 1 < self.params.rounds {
                u = [rest.x, rest.y, rest.z, 1.0];
                self.reweigh(vertex, &u, influences);
            }
        }
    }

    /// `Y = T^T v = T^T residual + T^T pred`, and the gain of each bone: that of a line search from the present
    /// prediction p towards the bone alone, `(r . d)^2 / |d|^2` with `d = a_j - p`, going at most the whole way.
    #[inline(always)]
    fn project(&mut self, vertex: VertexView<'_>, influences: &Influences, u: &[f64; 4]) {
        let VertexView { products, along, .. } = vertex;
        let b = products.bones;
        self.projections.clear();
        self.projections.resize(4 * b, 0.0);
        for (&k, &w) in influences.bones.iter().zip(&influences.weights) {
            let [r0, r1, r2, r3] = products.rows(k);
            let x = u.map(|x| w * x);
            for (l, y) in self.projections.iter_mut().enumerate() {
                *y += x[0] * r0[l] + x[1] * r1[l] + (x[2] * r2[l] + x[3] * r3[l]);
            }
        }
        let [a0, a1, a2, a3]: [&[f32]; 4] = std::array::from_fn(|c| &along[c * b..][..b]);
        let [p0, p1, p2, p3]: [&[f64]; 4] = std::array::from_fn(|c| &self.projections[c * b..][..b]);
        let slope =
            |j: usize| u[0] * f64::from(a0[j]) + u[1] * f64::from(a1[j]) + u[2] * f64::from(a2[j]) + f64::from(a3[j]);
        let cross = |j: usize| u[0] * p0[j] + u[1] * p1[j] + u[2] * p2[j] + p3[j];
        let (mut slope_pred, mut pred_pred) = (0.0, 0.0);
        for (&k, &w) in influences.bones.iter().zip(&influences.weights) {
            slope_pred += w * slope(k);
            pred_pred += w * cross(k);
        }
        let monomials: [f64; 10] = PAIRS.map(|(c, d)| u[c] * u[d]);
        let own: [&[f64]; 10] = std::array::from_fn(|p| &products.own[p * b..][..b]);
        self.gains.clear();
        self.gains.resize(b, 0.0);
        for (j, gain) in self.gains.iter_mut().enumerate() {
            let mut distance = pred_pred - 2.0 * cross(j);
            for p in 0..10 {
                distance += monomials[p] * own[p][j];
            }
            let slope = slope(j) - slope_pred;
            let step = (slope / distance.max(1e-300)).clamp(0.0, 1.0);
            *gain = step * (2.0 * slope - step * distance);
        }
        for (y, r) in self.projections.iter_mut().zip(along) {
            *y += f64::from(*r);
        }
        if let Some(wish) = vertex.wish {
            self.add_wish(wish, influences);
        }
    }

    /// Gains with smoothness: only bones that neighbours use gain more than the error alone says.
    #[inline(always)]
    fn add_wish(&mut self, wish: Wish<'_>, influences: &Influences) {
        for &(bone, mean) in wish.mean {
            if !influences.bones.contains(&(bone as usize)) {
                self.gains[bone as usize] += wish.strength * f64::from(mean) * f64::from(mean);
            }
        }
    }

    /// Lets in promising bones, solves, and drops what is too much; keeps the result if it is better.
    #[inline(always)]
    fn choose(&mut self, vertex: VertexView<'_>, u: &[f64; 4], influences: &mut Influences) {
        self.candidate.copy_from(influences);
        self.let_in(self.params.min_gain * vertex.error);
        self.load(vertex, u);
        let before = self.value();
        self.refit();
        while self.candidate.bones.len() > self.params.slots {
            self.drop_least();
            self.refit();
        }
        if self.value() <= before {
            std::mem::swap(influences, &mut self.candidate);
        } else {
            // The larger set had to give up more than it won: solve within the old one.
            self.reweigh(vertex, u, influences);
        }
    }

    /// Adds the bones of best gain to the candidate.
    #[inline(always)]
    fn let_in(&mut self, least_gain: f64) {
        for &j in &self.candidate.bones {
            self.gains[j] = 0.0;
        }
        for _ in 0..self.params.newcomers {
            let mut best = None;
            let mut best_gain = least_gain.max(0.0);
            for (j, &gain) in self.gains.iter().enumerate() {
                if gain > best_gain {
                    best = Some(j);
                    best_gain = gain;
                }
            }
            match best {
                Some(j) => {
                    self.candidate.push(j, 0.0);
                    self.gains[j] = 0.0;
                }
                None => break,
            }
        }
    }

    /// The single best bone: least `u^T K_jj u - 2 Y_j . u`; the present one if none is better.
    #[inline(always)]
    fn best_single(&self, products: &BoneProducts, u: &[f64; 4], present: Option<usize>) -> usize {
        let b = products.bones;
        let error = |j: usize| {
            let own: f64 = PAIRS.iter().enumerate().map(|(p, &(c, d))| u[c] * u[d] * products.own[p * b + j]).sum();
            own - 2.0 * self.along(b, j, u)
        };
        let mut best = present.unwrap_or(0);
        let mut least = error(best);
        for j in 0..b {
            let e = error(j);
            if e < least {
                (best, least) = (j, e);
            }
        }
        best
    }

    /// `Y_j . u`.
    #[inline(always)]
    fn along(&self, b: usize, j: usize, u: &[f64; 4]) -> f64 {
        let y = |c: usize| self.projections[c * b + j];
        u[0] * y(0) + u[1] * y(1) + u[2] * y(2) + y(3)
    }

    /// Adds to `costs[j]` by how much the error of this vertex would rise without bone `j`, others and the most
    /// promising newcomers refitted; a vertex with one bone goes to the best mix of newcomers.
    #[inline(always)]
    fn removal_costs(&mut self, vertex: VertexView<'_>, influences: &mut Influences, rest: DVec3, costs: &mut [f64]) {
        let u = [rest.x, rest.y, rest.z, 1.0];
        self.project(vertex, influences, &u);
        if vertex.products.bones < 2 {
            return;
        }
        self.candidate.copy_from(influences);
        self.let_in(0.0);
        if self.candidate.bones.len() == 1 {
            self.candidate.push(usize::from(self.candidate.bones[0] == 0), 0.0);
        }
        self.load(vertex, &u);
        let before = self.value();
        self.whole.copy_from(&self.candidate);
        for out in 0..influences.bones.len() {
            if out > 0 {
                self.candidate.copy_from(&self.whole);
                self.load(vertex, &u);
            }
            let gone = self.candidate.bones[out];
            self.drop(out);
            self.refit();
            costs[gone] += (self.value() - before).max(0.0);
        }
    }

    /// Same bones, new weights.
    #[inline(always)]
    fn reweigh(&mut self, vertex: VertexView<'_>, u: &[f64; 4], influences: &mut Influences) {
        self.candidate.copy_from(influences);
        self.load(vertex, u);
        self.refit();
        std::mem::swap(influences, &mut self.candidate);
    }

    /// Fills `gram` and `linear` for the candidate's bones.
    #[inline(always)]
    fn load(&mut self, vertex: VertexView<'_>, u: &[f64; 4]) {
        let VertexView { products, wish, .. } = vertex;
        let stride = self.capacity;
        for (p, &j) in self.candidate.bones.iter().enumerate() {
            self.linear[p] = self.along(products.bones, j, u);
            for (q, &k) in self.candidate.bones[..=p].iter().enumerate() {
                let form = products.form(j, k, u);
                self.gram[p * stride + q] = form;
                self.gram[q * stride + p] = form;
            }
            if let Some(wish) = wish {
                self.gram[p * stride + p] += wish.strength;
                self.linear[p] += wish.strength * wish.of(j);
            }
        }
    }

    /// Best weights for the candidate's bones; those that come out as 0 leave.
    #[inline(always)]
    fn refit(&mut self) {
        self.simplex.solve(&self.gram, self.capacity, &self.linear, &mut self.candidate.weights);
        if self.candidate.bones.len() > self.params.slots {
            self.simplex.removal_estimates(&self.candidate.weights, &mut self.drop_costs);
        }
        let mut total = 0.0;
        for p in (0..self.candidate.bones.len()).rev() {
            if self.candidate.weights[p] <= 1e-7 && self.candidate.bones.len() > 1 {
                self.take_out(p);
            } else {
                total += self.candidate.weights[p];
            }
        }
        self.candidate.weights.iter_mut().for_each(|w| *w /= total);
    }

    /// Drops the bone whose loss is estimated to raise the error least.
    #[inline(always)]
    fn drop_least(&mut self) {
        let mut least = (f64::INFINITY, 0);
        for (p, &cost) in self.drop_costs.iter().enumerate() {
            if cost < least.0 {
                least = (cost, p);
            }
        }
        self.drop(least.1);
    }

    /// Drops bone `p` of the candidate and spreads its weight over the others.
    #[inline(always)]
    fn drop(&mut self, p: usize) {
        self.take_out(p);
        let n = self.candidate.weights.len();
        let total: f64 = self.candidate.weights.iter().sum();
        for w in &mut self.candidate.weights {
            *w = if total > 1e-6 { *w / total } else { 1.0 / n as f64 };
        }
    }

    /// Removes entry `p` of the candidate by moving the last one into its place.
    #[inline(always)]
    fn take_out(&mut self, p: usize) {
        let (stride, last) = (self.capacity, self.candidate.bones.len() - 1);
        self.candidate.bones.swap_remove(p);
        self.candidate.weights.swap_remove(p);
        self.linear[p] = self.linear[last];
        if self.drop_costs.len() > last {
            self.drop_costs.swap_remove(p);
        }
        for q in 0..last {
            let entry = if q == p { self.gram[last * stride + last] } else { self.gram[last * stride + q] };
            self.gram[p * stride + q] = entry;
            self.gram[q * stride + p] = entry;
        }
    }

    /// `w^T G w - 2 q^T w` of the candidate.
    #[inline(always)]
    fn value(&self) -> f64 {
        let w = &self.candidate.weights;
        let mut sum = 0.0;
        for (p, wp) in w.iter().enumerate() {
            let row = &self.gram[p * self.capacity..][..w.len()];
            let product: f64 = row.iter().zip(w).map(|(g, w)| g * w).sum();
            sum += wp * (product - 2.0 * self.linear[p]);
        }
        sum
    }

    /// Rest position of least error for given weights: `(sum w_j w_k K_jk) u = sum w_j Y_j` [Kavan2010 s.4.3].
    ///
    /// A small ridge keeps the vertex where it is in directions that no frame sees.
    #[inline(always)]
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
