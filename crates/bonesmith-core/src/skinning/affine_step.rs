//! Affine bones for fixed weights and rest positions: all of them and all frames at once, `S d = D` [Kavan2010 s.4.2].
//!
//! Nothing in the squared error keeps a bone from turning space inside out: two bones that mirror can blend to a good position. Normals do
//! not blend so, and an engine shows such vertices black. So bones of a fit have singular values within [`Stretch`] in every frame: where a
//! bone leaves it, its linear part is drawn towards the nearest allowed one, `mu_j sum_t |A_jt - G_jt|^2`, and all bones are solved again,
//! with `mu_j` ten times larger until every frame is within. The other bones and the translations make up for it. `G` is the bone's own solution in
//! the frames that are allowed.

use faer::linalg::solvers::{Llt, Solve};
use faer::{Mat, MatRef, Side};
use glam::{DMat3, DVec3};

use crate::skinning::moments::Moments;
use crate::skinning::motion::Motion;
use crate::solve::transform::rotation_svd;

/// Columns of the motion that are solved for at once: the step is as large as the motion itself.
const COLUMNS: usize = 192;

/// First weight of a pull, as a share of the bone's own second moment, and how often it is raised.
const PULL: f64 = 0.01;
const RAISES: usize = 9;

/// Singular values that an affine bone may have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stretch {
    pub least: f64,
    pub most: f64,
}

/// A tenth to ten times the rest pose's size: soft bodies stay within, and rest normals keep their precision.
pub(crate) const STRETCH: Stretch = Stretch { least: 0.1, most: 10.0 };

/// Draws the linear part of a bone to where it is allowed.
struct Pull {
    weight: f64,
    /// [3, L] `G`, laid out as the rows of the motion.
    target: Vec<f64>,
}

/// Solves for all free bones; the gain.
pub(super) fn update_affine(
    motion: &mut Motion,
    moments: &Moments,
    is_free: impl Fn(usize) -> bool,
    stretch: Option<Stretch>,
) -> f64 {
    let free: Vec<usize> = (0..4 * motion.bones).filter(|r| is_free(r % motion.bones)).collect();
    let Some(stretch) = stretch else { return step(motion, moments, &free, &[]) };
    let before = motion.clone();
    let mut pulls: Vec<Option<Pull>> = (0..motion.bones).map(|_| None).collect();
    let mut gain = step(motion, moments, &free, &pulls);
    for _ in 0..RAISES {
        let mut any = false;
        for j in (0..motion.bones).filter(|&j| is_free(j)) {
            let Some(target) = stretch.nearest(motion, j) else { continue };
            any = true;
            let own = &moments.second.of[j].own;
            let first = PULL * (own[0][0] + own[1][1] + own[2][2]) / 3.0 + f64::MIN_POSITIVE;
            let weight = pulls[j].as_ref().map_or(first, |pull| 10.0 * pull.weight);
            pulls[j] = Some(Pull { weight, target });
        }
        if !any {
            break;
        }
        motion.clone_from(&before);
        gain = step(motion, moments, &free, &pulls);
    }
    gain
}

/// `(S + mu P) d = D + mu (G - A)`; how much the squared error falls.
fn step(motion: &mut Motion, moments: &Moments, free: &[usize], pulls: &[Option<Pull>]) -> f64 {
    let (b, length, side) = (motion.bones, motion.length, free.len());
    let second = moments.second.dense();
    // Rows of the linear part only.
    let pull_of = |r: usize| if r < 3 * b { pulls.get(r % b).and_then(Option::as_ref) } else { None };
    let weights: Vec<f64> = free.iter().map(|&r| pull_of(r).map_or(0.0, |pull| pull.weight)).collect();
    let mut system: Vec<f64> = match side == 4 * b {
        true => second,
        false => free.iter().flat_map(|&r| free.iter().map(move |&q| r * 4 * b + q)).map(|at| second[at]).collect(),
    };
    weights.iter().enumerate().for_each(|(at, weight)| system[at * side + at] += weight);
    let Some((factor, ridge)) = regular(&system, side) else { return 0.0 };
    let mut gain = 0.0;
    for first in (0..length).step_by(COLUMNS) {
        let columns = first..length.min(first + COLUMNS);
        let slope = |r: usize, l: usize| moments.residual[free[r] * length + l];
        let drawn = |r: usize, l: usize| {
            let at = free[r];
            pull_of(at)
                .map_or(0.0, |pull| pull.weight * (pull.target[(at / b) * length + l] - motion.rows()[at * length + l]))
        };
        let right = Mat::from_fn(side, columns.len(), |r, l| slope(r, first + l) + drawn(r, first + l));
        let step: Mat<f64> = factor.solve(&right);
        // `<d, 2 D - S d>` with `S d = right - ridge d - mu P d`.
        let mut part = 0.0;
        for (at, &r) in free.iter().enumerate() {
            for (l, x) in motion.rows_mut()[r * length..][columns.clone()].iter_mut().enumerate() {
                let d = step[(at, l)];
                let slope = moments.residual[r * length + first + l];
                part += d * (2.0 * slope - right[(at, l)] + (ridge + weights[at]) * d);
                *x += d;
            }
        }
        gain += part;
    }
    gain
}

impl Stretch {
    /// [3, L] allowed linear parts of bone `j`, those of the motion where they are; `None` where all are.
    fn nearest(&self, motion: &Motion, j: usize) -> Option<Vec<f64>> {
        let (frames, length) = (motion.frames(), motion.length);
        let mut target: Option<Vec<f64>> = None;
        for t in 0..frames {
            let m = motion.get(j, t);
            let linear = DMat3::from_cols_array_2d(&std::array::from_fn(|c| std::array::from_fn(|a| m[a][c])));
            let Some(allowed) = self.allowed(&linear) else { continue };
            let rows = target.get_or_insert_with(|| (0..3).flat_map(|c| motion.row(c, j).to_vec()).collect());
            for c in 0..3 {
                (0..3).for_each(|a| rows[c * length + a * frames + t] = allowed.col(c)[a]);
            }
        }
        target
    }

    /// The nearest matrix well within the limits; `None` for one that is within.
    fn allowed(&self, linear: &DMat3) -> Option<DMat3> {
        // The squared norm is at least twice the product of the two larger singular values.
        let squared: f64 = [linear.x_axis, linear.y_axis, linear.z_axis].iter().map(|c| c.length_squared()).sum();
        if squared < self.most * self.most && 2.0 * linear.determinant() > self.least * squared {
            return None;
        }
        let svd = rotation_svd(linear);
        if svd.sigma.min_element() >= self.least && svd.sigma.max_element() <= self.most {
            return None;
        }
        let sigma = svd.sigma.clamp(DVec3::splat(1.5 * self.least), DVec3::splat(self.most / 1.5));
        Some(svd.u * DMat3::from_diagonal(sigma) * svd.v.transpose())
    }
}

/// Cholesky factor of `S` with a ridge, and the ridge. `S` is singular where a bone has too few vertices or they lie in a
/// plane: the ridge then leaves it as it is.
pub(crate) fn regular(second: &[f64], side: usize) -> Option<(Llt<f64>, f64)> {
    let second = MatRef::from_row_major_slice(second, side, side);
    let largest = (0..side).map(|r| second[(r, r)]).fold(0.0, f64::max);
    let first = 1e-9 * largest + 1e-12;
    (0..8).find_map(|raised| {
        let ridge = first * 100f64.powi(raised);
        let mut system = second.to_owned();
        (0..side).for_each(|r| system[(r, r)] += ridge);
        system.llt(Side::Lower).ok().map(|factor| (factor, ridge))
    })
}
