//! Weights and rest position of one vertex on at most four bones, solved together.
//!
//! For fixed bones the error of a vertex is, but for `|v|^2` (see `local`),
//!
//! ```text
//! E(w, u) = -2 sum_j w_j Y_j . u + sum_jk w_j w_k u^T K_jk u
//! ```
//!
//! convex in the weights and in the rest position, but not in both: it has many minima, and taking turns creeps to the
//! nearest one. Here both move at once, by damped Gauss-Newton steps [Marquardt1963] over the weights but one and the
//! rest position, six numbers. A bone whose weight would fall below 0 is removed.

// Loops over bones of a vertex are written with indices: that is the shape the compiler unrolls.
#![allow(clippy::needless_range_loop)]

use crate::skinning::products::BonePairs;
use crate::solve::definite;
use crate::solve::lanes::Mat4;

/// Maximum number of bones of a guess.
pub(crate) const MAX_BONES: usize = 4;

/// Unknowns: weights but for one, and the rest position.
const UNKNOWNS: usize = MAX_BONES - 1 + 3;

/// First, least and largest damping, as a share of the diagonal.
const DAMPING: (f64, f64, f64) = (1e-3, 1e-7, 1e3);

/// A possible solution for a vertex.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Guess {
    /// Bones in use.
    pub count: usize,
    pub bones: [usize; MAX_BONES],
    /// Positive, with a sum of 1.
    pub weights: [f64; MAX_BONES],
    /// Homogeneous rest position.
    pub u: [f64; 4],
    /// The error, less `|v|^2`.
    pub value: f64,
}

/// When to stop improving a guess.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// Maximum steps.
    pub steps: usize,
    /// A step that gains less is the last one.
    pub least_gain: f64,
    /// The value to beat: a guess that will not reach it at the present pace is given up.
    pub rival: f64,
}

/// The error of one vertex.
#[derive(Clone, Copy)]
pub(crate) struct VertexError<'a> {
    pub pairs: &'a BonePairs,
    /// [B] `Y_j = T_j^T v`.
    pub y: &'a [[f64; 4]],
}

/// The error's parts at a guess.
struct Terms {
    /// `K_ab^T u`.
    turned: [[[f64; 4]; MAX_BONES]; MAX_BONES],
    /// `u^T K_ab u`.
    gram: [[f64; MAX_BONES]; MAX_BONES],
    /// `Y_a . u`.
    linear: [f64; MAX_BONES],
    value: f64,
}

impl Guess {
    /// Without the bone in slot `a`.
    #[inline(always)]
    fn leave_out(&mut self, a: usize) {
        self.count -= 1;
        for b in a..self.count {
            (self.bones[b], self.weights[b]) = (self.bones[b + 1], self.weights[b + 1]);
        }
        self.weights[self.count] = 0.0;
        let total: f64 = self.weights[..self.count].iter().sum();
        self.weights[..self.count].iter_mut().for_each(|w| *w /= total);
    }

    /// After a step; where a weight would fall below 0, as far as the first one allows, and without it.
    #[inline(always)]
    fn moved(&self, step: &[f64; UNKNOWNS]) -> Self {
        let n = self.count;
        let mut changes = [0.0; MAX_BONES];
        changes[1..n].copy_from_slice(&step[..n - 1]);
        step[..n - 1].iter().for_each(|d| changes[0] -= d);
        let (mut share, mut first) = (1.0, None);
        for a in 0..n {
            if self.weights[a] + share * changes[a] < 0.0 {
                (share, first) = (-self.weights[a] / changes[a], Some(a));
            }
        }
        let mut out = *self;
        (0..n).for_each(|a| out.weights[a] += share * changes[a]);
        (0..3).for_each(|c| out.u[c] += share * step[n - 1 + c]);
        if let Some(a) = first {
            out.leave_out(a);
        }
        out
    }
}

impl VertexError<'_> {
    #[inline(always)]
    fn terms(&self, guess: &Guess) -> Terms {
        let (n, u) = (guess.count, &guess.u);
        let (mut turned, mut gram, mut linear) =
            ([[[0.0; 4]; MAX_BONES]; MAX_BONES], [[0.0; MAX_BONES]; MAX_BONES], [0.0; MAX_BONES]);
        let mut value = 0.0;
        for a in 0..n {
            linear[a] = dot(&self.y[guess.bones[a]], u);
            value -= 2.0 * guess.weights[a] * linear[a];
            for b in 0..n {
                // K_ab^T = K_ba.
                turned[a][b] = self.pairs.block(guess.bones[b], guess.bones[a]).times(u);
                gram[a][b] = dot(&turned[a][b], u);
                value += guess.weights[a] * guess.weights[b] * gram[a][b];
            }
        }
        Terms { turned, gram, linear, value }
    }

    /// Best weights for a fixed rest position; bones that would need negative ones are removed.
    #[inline(always)]
    pub fn find_weights(&self, guess: &mut Guess) {
        let Terms { mut gram, mut linear, .. } = self.terms(guess);
        loop {
            let n = guess.count;
            let (_, weights) = affine_mix(n, &gram, &linear);
            let least = (1..n).fold(0, |least, a| if weights[a] < weights[least] { a } else { least });
            if weights[least] >= 0.0 || n == 1 {
                guess.weights = weights;
                return;
            }
            guess.leave_out(least);
            for a in least..n - 1 {
                linear[a] = linear[a + 1];
                gram[a] = gram[a + 1];
            }
            gram.iter_mut().for_each(|row| row.copy_within(least + 1..n, least));
        }
    }

    /// Moves weights and rest position together while it pays; sets `value`.
    #[inline(always)]
    pub fn minimise(&self, guess: &mut Guess, patience: Patience) {
        let mut damping = DAMPING.0;
        let mut terms = self.terms(guess);
        for _ in 0..patience.steps {
            let next = guess.moved(&self.step(guess, &terms, damping));
            let after = self.terms(&next);
            let gain = terms.value - after.value;
            if gain > 0.0 {
                (*guess, terms) = (next, after);
                damping = (0.1 * damping).max(DAMPING.1);
                if gain < patience.least_gain || terms.value - 3.0 * gain > patience.rival {
                    break;
                }
            } else {
                damping *= 30.0;
                if damping > DAMPING.2 {
                    break;
                }
            }
        }
        guess.value = terms.value;
    }

    /// A damped Gauss-Newton step: changes of the weights but the first, then of the rest position.
    #[inline(always)]
    fn step(&self, guess: &Guess, terms: &Terms, damping: f64) -> [f64; UNKNOWNS] {
        let (n, w) = (guess.count, &guess.weights);
        let Terms { turned, gram, linear, .. } = terms;
        let mut mixed = Mat4::default();
        // Slope of the error along each bone, and products of each bone's prediction with those of the rest axes.
        let (mut slopes, mut crosses) = (*linear, [[0.0; 3]; MAX_BONES]);
        let mut right = [0.0; UNKNOWNS];
        for a in 0..n {
            (0..3).for_each(|c| right[n - 1 + c] += w[a] * self.y[guess.bones[a]][c]);
            for b in 0..n {
                slopes[a] -= w[b] * gram[a][b];
                (0..3).for_each(|c| crosses[a][c] += w[b] * turned[a][b][c]);
                mixed.add_scaled(w[a] * w[b], self.pairs.block(guess.bones[a], guess.bones[b]));
            }
        }
        let mut matrix = [[0.0; UNKNOWNS]; UNKNOWNS];
        for a in 1..n {
            right[a - 1] = slopes[a] - slopes[0];
            for b in 1..=a {
                matrix[a - 1][b - 1] = gram[a][b] - gram[a][0] - gram[b][0] + gram[0][0];
            }
            (0..3).for_each(|c| matrix[n - 1 + c][a - 1] = crosses[a][c] - crosses[0][c]);
        }
        let pull = mixed.times(&guess.u);
        for c in 0..3 {
            right[n - 1 + c] -= pull[c];
            (0..=c).for_each(|d| matrix[n - 1 + c][n - 1 + d] = mixed.get(c, d));
        }
        let size = n + 2;
        let trace: f64 = (0..size).map(|q| matrix[q][q]).sum();
        (0..size).for_each(|q| matrix[q][q] += damping * matrix[q][q] + 1e-9 * trace);
        definite::solve(&mut matrix, &mut right, size);
        right
    }
}

/// Least value of `w^T G w - 2 l^T w` over weights with a sum of 1, whatever their sign, and those weights.
#[inline(always)]
pub(crate) fn affine_mix(
    n: usize,
    gram: &[[f64; MAX_BONES]; MAX_BONES],
    linear: &[f64; MAX_BONES],
) -> (f64, [f64; MAX_BONES]) {
    let (mut matrix, mut right) = ([[0.0; MAX_BONES - 1]; MAX_BONES - 1], [0.0; MAX_BONES - 1]);
    let own = gram[0][0];
    let mut trace = 0.0;
    for a in 1..n {
        right[a - 1] = (linear[a] - gram[a][0]) - (linear[0] - own);
        for b in 1..=a {
            matrix[a - 1][b - 1] = gram[a][b] - gram[a][0] - gram[b][0] + own;
        }
        trace += matrix[a - 1][a - 1];
    }
    (1..n).for_each(|a| matrix[a - 1][a - 1] += 1e-10 * trace);
    let gain = definite::solve(&mut matrix, &mut right, n - 1);
    let mut weights = [0.0; MAX_BONES];
    weights[0] = 1.0;
    weights[1..n].copy_from_slice(&right[..n - 1]);
    right[..n - 1].iter().for_each(|w| weights[0] -= w);
    (own - 2.0 * linear[0] - gain, weights)
}

#[inline(always)]
pub(crate) fn dot(a: &[f64; 4], b: &[f64; 4]) -> f64 {
    (a[0] * b[0] + a[1] * b[1]) + (a[2] * b[2] + a[3] * b[3])
}
