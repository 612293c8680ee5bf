//! Multi-weights of virtual bones: the exact minimum, one bone after the other.
//!
//! [Le2021 s.4.3] updates the linearised `Delta'` and approximates the way back with determinants. Here: with the total
//! `S_k = sum_j Delta_jk` held, E is quadratic in the symmetric `Delta_jk` themselves. With `v_i = S_k^-1 u_i`, the
//! residual `r_i`, and changes `d_j` that sum to 0,
//!
//! ```text
//! sum_i |r_i + a_ki sum_j F_j d_j v_i|^2,   F_j = the rows of all joints that carry j,
//!     gradient at (j):    sum_i a_ki (F_j^T r_i) v_i^T, its symmetric part
//!     Hessian at (j, j'): d -> W_jj' d Phi, its symmetric part,   Phi = sum_i a_ki^2 v_i v_i^T,   W_jj' = F_j^T F_j'
//! ```
//!
//! ten unknowns per bone, solved by Cholesky with a small pull to the present multi-weights. The minimum over some unknowns with
//! the others fixed never raises E.

use faer::linalg::solvers::Solve;
use faer::{Mat as Dense, Side};
use glam::DVec4;
use rayon::prelude::*;

use crate::ddm::compress::layers::{Layers, VirtualBone};
use crate::ddm::compress::maps::{Mat, outer};
use crate::observer::{Cancelled, Stages};

/// Pull to the present multi-weights, over the mean of the Hessian's diagonal.
const PULL: f64 = 1e-4;

/// (row, column) of the ten numbers of a symmetric matrix.
const PAIRS: [(usize, usize); 10] = [(0, 0), (0, 1), (0, 2), (0, 3), (1, 1), (1, 2), (1, 3), (2, 2), (2, 3), (3, 3)];

impl Layers<'_> {
    /// One step over all virtual bones.
    pub fn update_bones(&mut self, stages: &mut Stages<'_>) -> Result<(), Cancelled> {
        let size = self.maps.size;
        let users = self.users();
        let mut residuals = vec![0.0; self.points.len() * size];
        residuals.par_chunks_mut(size.max(1)).enumerate().for_each(|(i, out)| {
            self.error(&self.weights[i], i, out);
        });
        for (k, users) in users.iter().enumerate() {
            stages.report(None)?;
            if let Some(bone) = self.improved(k, users, &residuals) {
                self.accept(k, bone, users, &mut residuals);
            }
        }
        Ok(())
    }

    /// Replaces the bone if E falls; keeps residuals up to date.
    fn accept(&mut self, k: usize, bone: VirtualBone, users: &[(usize, f64)], residuals: &mut [f64]) {
        let size = self.maps.size;
        let change: Vec<DVec4> = bone.mapped.iter().zip(&self.bones[k].mapped).map(|(new, old)| *new - *old).collect();
        let mut add = |sign: f64, (i, a): (usize, f64)| -> f64 {
            let (u, residual) = (self.points[i] * a, &mut residuals[i * size..(i + 1) * size]);
            residual.iter_mut().zip(&change).for_each(|(r, row)| *r += sign * row.dot(u));
            residual.iter().map(|r| r * r).sum()
        };
        let errors: Vec<f64> = users.iter().map(|&user| add(1.0, user)).collect();
        let gain: f64 = users.iter().zip(&errors).map(|(&(i, _), error)| self.errors[i] - error).sum();
        if gain > 0.0 {
            users.iter().zip(errors).for_each(|(&(i, _), error)| self.errors[i] = error);
            self.bones[k] = bone;
        } else {
            users.iter().for_each(|&user| {
                add(-1.0, user);
            });
        }
    }

    /// The minimum over the multi-weights of one virtual bone; `None` where there is nothing to solve.
    fn improved(&self, k: usize, users: &[(usize, f64)], residuals: &[f64]) -> Option<VirtualBone> {
        let bone = &self.bones[k];
        let m = bone.terms.len();
        if users.is_empty() || m < 2 {
            return None;
        }
        let (phi, gradients) = self.sums(bone, users, residuals);
        // The first bone takes what the others give: changes sum to 0.
        let free = m - 1;
        let (first, rest) = (bone.terms[0].0, &bone.terms[1..]);
        let w = |a: usize, b: usize| *self.maps.coupling(a, b);
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
    fn sums(&self, bone: &VirtualBone, users: &[(usize, f64)], residuals: &[f64]) -> (Mat, Vec<Mat>) {
        let size = self.maps.size;
        let mut phi = Mat::ZERO;
        let mut gradients = vec![Mat::ZERO; bone.terms.len()];
        let mut pulls = vec![DVec4::ZERO; self.maps.bones()];
        for &(i, a) in users {
            let v = bone.inverse * self.points[i] * a;
            phi += outer(v, v);
            self.maps.gradient(&residuals[i * size..(i + 1) * size], &mut pulls);
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
    // E_a has ones at (r, c) and (c, r); tr(e_r e_c^T W e_s e_t^T Phi) = W_cs Phi_tr. W need not be symmetric: columns come
    // first, so entry (c, s) is w[s][c].
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
