//! Multi-weights of virtual bones: the exact minimum, one bone after the other.
//!
//! [Le2021 s.4.3] updates the linearised `Delta'` and approximates the way back with determinants. Here: with the total
//! `S_k = sum_j Delta_jk` held, E is quadratic in the symmetric `Delta_jk` themselves. With `v_i = S_k^-1 u_i`, what
//! is missed `r_i`, and changes `d_j` that sum to 0,
//!
//! ```text
//! sum_i |r_i + a_ki sum_j F_j d_j v_i|^2,   F_j = the rows of all joints that carry j,
//!     gradient at (j):    sum_i a_ki (F_j^T r_i) v_i^T, its symmetric part
//!     Hessian at (j, j'): d -> W_jj' d Phi, its symmetric part,   Phi = sum_i a_ki^2 v_i v_i^T,   W_jj' = F_j^T F_j'
//! ```
//!
//! ten unknowns a bone, solved by Cholesky with a small pull to where it was. The minimum over some unknowns with the
//! others fixed never raises E. What the pull leaves to do is done in later rounds.

use faer::linalg::solvers::Solve;
use faer::{Mat as Dense, Side};
use glam::DVec4;

use crate::ddm::compress::metric::{Mat, outer};
use crate::ddm::compress::model::{Model, VirtualBone};

/// Pull to where it was, over the mean of the Hessian's diagonal.
const PULL: f64 = 1e-4;

/// (row, column) of the ten numbers of a symmetric matrix.
const PAIRS: [(usize, usize); 10] = [(0, 0), (0, 1), (0, 2), (0, 3), (1, 1), (1, 2), (1, 3), (2, 2), (2, 3), (3, 3)];

impl Model<'_> {
    /// One step over all virtual bones. Returns how many were changed.
    pub fn update_multi_weights(&mut self) -> usize {
        let size = self.metric.size;
        let users = self.users();
        let mut misses = vec![0.0; self.points.len() * size];
        for (i, out) in misses.chunks_exact_mut(size.max(1)).enumerate() {
            self.error(&self.weights[i], i, out);
        }
        let mut changed = 0;
        for (k, users) in users.iter().enumerate() {
            let Some(bone) = self.improved(k, users, &misses) else { continue };
            changed += self.accept(k, bone, users, &mut misses);
        }
        changed
    }

    /// Puts the bone in place if E falls; keeps what is missed up to date.
    fn accept(&mut self, k: usize, bone: VirtualBone, users: &[(usize, f64)], misses: &mut [f64]) -> usize {
        let size = self.metric.size;
        let change: Vec<DVec4> = bone.mapped.iter().zip(&self.bones[k].mapped).map(|(new, old)| *new - *old).collect();
        let squared = |miss: &[f64]| miss.iter().map(|x| x * x).sum::<f64>();
        let mut moved: Vec<(usize, f64)> = Vec::with_capacity(users.len());
        let mut gain = 0.0;
        for &(i, a) in users {
            let (u, miss) = (self.points[i] * a, &mut misses[i * size..(i + 1) * size]);
            miss.iter_mut().zip(&change).for_each(|(miss, row)| *miss += row.dot(u));
            let error = squared(miss);
            gain += self.errors[i] - error;
            moved.push((i, error));
        }
        if gain > 0.0 {
            moved.into_iter().for_each(|(i, error)| self.errors[i] = error);
            self.bones[k] = bone;
            return 1;
        }
        for &(i, a) in users {
            let (u, miss) = (self.points[i] * a, &mut misses[i * size..(i + 1) * size]);
            miss.iter_mut().zip(&change).for_each(|(miss, row)| *miss -= row.dot(u));
        }
        0
    }

    /// The minimum over the multi-weights of one virtual bone; `None` where there is nothing to solve.
    fn improved(&self, k: usize, users: &[(usize, f64)], misses: &[f64]) -> Option<VirtualBone> {
        let bone = &self.bones[k];
        let m = bone.terms.len();
        if users.is_empty() || m < 2 {
            return None;
        }
        let (phi, gradients) = self.sums(bone, users, misses);
        // The first bone takes what the others give: changes sum to 0.
        let free = m - 1;
        let (first, rest) = (bone.terms[0].0, &bone.terms[1..]);
        let w = |a: usize, b: usize| *self.metric.coupling(a, b);
        let mut hessian = Dense::<f64>::zeros(10 * free, 10 * free);
        let mut right = Dense::<f64>::zeros(10 * free, 1);
        for p in 0..free {
            let pull = gradients[p + 1] - gradients[0];
            PAIRS.iter().enumerate().for_each(|(a, &(r, c))| right[(10 * p + a, 0)] = -symmetric(&pull, r, c));
            for q in 0..=p {
                let (j, other) = (rest[p].0, rest[q].0);
                let coupling = w(j, other) - w(j, first) - w(first, other) + w(first, first);
                block(&coupling, &phi, |a, b, value| hessian[(10 * p + a, 10 * q + b)] = value);
            }
        }
        let trace: f64 = (0..10 * free).map(|at| hessian[(at, at)]).sum();
        let pull = PULL * trace / (10 * free) as f64;
        if !(pull > 0.0 && pull.is_finite()) {
            return None;
        }
        (0..10 * free).for_each(|at| hessian[(at, at)] += pull);
        let step = hessian.llt(Side::Lower).ok()?.solve(&right);
        let mut terms = bone.terms.clone();
        for p in 0..free {
            let entries: [f64; 10] = std::array::from_fn(|a| step[(10 * p + a, 0)]);
            let change = matrix(&entries);
            terms[p + 1].1 += change;
            terms[0].1 -= change;
        }
        terms.iter().all(|(_, m)| m.is_finite()).then(|| self.finished(terms, bone.total, bone.place))
    }

    /// Phi, and for each of the bone's terms `sum_i a_ki (F_j^T r_i) v_i^T`.
    fn sums(&self, bone: &VirtualBone, users: &[(usize, f64)], misses: &[f64]) -> (Mat, Vec<Mat>) {
        let size = self.metric.size;
        let mut phi = Mat::ZERO;
        let mut gradients = vec![Mat::ZERO; bone.terms.len()];
        let mut pulls = vec![DVec4::ZERO; self.metric.bones()];
        for &(i, a) in users {
            let v = bone.inverse * self.points[i] * a;
            phi += outer(v, v);
            self.metric.pull(&misses[i * size..(i + 1) * size], &mut pulls);
            for (gradient, (j, _)) in gradients.iter_mut().zip(&bone.terms) {
                *gradient += outer(pulls[*j], v);
            }
        }
        (phi, gradients)
    }
}

/// `<E_rc, m>` with the symmetric basis matrix of entry (r, c).
fn symmetric(m: &Mat, r: usize, c: usize) -> f64 {
    if r == c { m.col(c)[r] } else { m.col(c)[r] + m.col(r)[c] }
}

/// The symmetric matrix of ten entries.
fn matrix(entries: &[f64; 10]) -> Mat {
    let mut m = Mat::ZERO;
    for (&value, &(r, c)) in entries.iter().zip(&PAIRS) {
        m.col_mut(c)[r] = value;
        m.col_mut(r)[c] = value;
    }
    m
}

/// `tr(E_a W E_b Phi)` for all pairs of basis matrices.
fn block(w: &Mat, phi: &Mat, mut set: impl FnMut(usize, usize, f64)) {
    let (w, phi): ([[f64; 4]; 4], [[f64; 4]; 4]) = (w.to_cols_array_2d(), phi.to_cols_array_2d());
    // E_a has ones at (r, c) and (c, r); tr(e_r e_c^T W e_s e_t^T Phi) = W_cs Phi_tr. Both matrices here are symmetric
    // in their roles, but W_jj' need not be: columns first, so entry (c, s) is w[s][c].
    let term = |r: usize, c: usize, s: usize, t: usize| w[s][c] * phi[r][t];
    for (a, &(r, c)) in PAIRS.iter().enumerate() {
        for (b, &(s, t)) in PAIRS.iter().enumerate() {
            let mut sum = term(r, c, s, t);
            if r != c {
                sum += term(c, r, s, t);
            }
            if s != t {
                sum += term(r, c, t, s);
            }
            if r != c && s != t {
                sum += term(c, r, t, s);
            }
            set(a, b, sum);
        }
    }
}
