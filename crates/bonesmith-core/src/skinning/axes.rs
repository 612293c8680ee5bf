//! The axes that trs bones scale along.
//!
//! With the others fixed, bone `j` would best be the affine `M_t` in frame `t`. What it can be is `R_t diag(s_t) Q^T`, so `Q`
//! should make every `M_t^T M_t` diagonal: exactly so where the motion is of that kind. Over many frames that is joint
//! diagonalisation, by Jacobi turns whose angle is the best for all frames at once [Cardoso1996]. It looks at the matrices, not
//! at the vertices, so a new `Q` is taken only where the bone then fits better.

use glam::{DMat3, DVec3};
use rayon::prelude::*;

use crate::skinning::bone_step::EMPTY;
use crate::skinning::{BoneModel, Moments, Motion};
use crate::solve::transform::nearest_rotation;

/// Maximum frames used, spread evenly.
const MAX_FRAMES: usize = 64;

/// Turns about all three axes.
const JACOBI_SWEEPS: usize = 8;

/// Rotation and scale in turn, to judge some axes.
const ALTERNATIONS: usize = 4;

/// The best affine motion of a bone with the others fixed, in some frames.
struct Target {
    /// Second moment about the weighted centre.
    covariance: DMat3,
    /// Keeps what the vertices do not determine.
    ridge: f64,
    /// Best affine matrices.
    affine: Vec<DMat3>,
}

/// [B] axes that suit the motion better than those of `model`, or those.
pub(crate) fn turned(motion: &Motion, moments: &Moments, model: &BoneModel) -> Vec<DMat3> {
    (0..motion.bones)
        .into_par_iter()
        .map(|j| {
            let old = model.axes[j];
            let Some(target) = Target::new(motion, moments, j) else { return old };
            let new = diagonalise(&target.affine, old);
            if target.explained(&new) > target.explained(&old) { new } else { old }
        })
        .collect()
}

impl Target {
    fn new(motion: &Motion, moments: &Moments, j: usize) -> Option<Self> {
        let (bones, frames) = (motion.bones, motion.frames());
        let coupling = &moments.second.of[j];
        let own = &coupling.own;
        if own[3][3] < EMPTY {
            return None;
        }
        let covariance = coupling.covariance();
        let trace = covariance.x_axis.x + covariance.y_axis.y + covariance.z_axis.z;
        let ridge = 1e-5 * trace + 1e-6 * own[3][3];
        let softened = (covariance + DMat3::from_diagonal(DVec3::splat(ridge))).inverse();
        let column = |row: &[f64], t: usize| DVec3::from_array(std::array::from_fn(|a| row[a * frames + t]));
        let residual = |c: usize| &moments.residual[(c * bones + j) * motion.length..][..motion.length];
        let affine = |t: usize| {
            // P = D_j + T_j S_jj, about the weighted centre.
            let present: [DVec3; 4] = std::array::from_fn(|c| column(motion.row(c, j), t));
            let target: [DVec3; 4] = std::array::from_fn(|c| {
                column(residual(c), t) + present.iter().zip(&own[c]).map(|(m, s)| *m * *s).sum::<DVec3>()
            });
            let centred = |c: usize| target[c] - target[3] * (own[c][3] / own[3][3]) + ridge * present[c];
            DMat3::from_cols(centred(0), centred(1), centred(2)) * softened
        };
        let affine = (0..frames).step_by(frames.div_ceil(MAX_FRAMES)).map(affine).collect();
        Some(Self { covariance, ridge, affine })
    }

    /// How much of the motion `R diag(s) Q^T` reproduces: `sum_t |M C^1/2|^2 - |(M - R diag(s) Q^T) C^1/2|^2`.
    fn explained(&self, axes: &DMat3) -> f64 {
        let moments = axes.transpose() * self.covariance * *axes;
        let spread = DVec3::new(moments.x_axis.x, moments.y_axis.y, moments.z_axis.z).max(DVec3::ZERO);
        let of = |affine: &DMat3| {
            let aim = *affine * self.covariance * *axes;
            let stretched = *affine * *axes;
            let mut scale = DVec3::new(stretched.x_axis.length(), stretched.y_axis.length(), stretched.z_axis.length());
            let mut explained = 0.0;
            for _ in 0..ALTERNATIONS {
                let rotation = nearest_rotation(&(aim * DMat3::from_diagonal(scale)));
                let along = DVec3::from_array(std::array::from_fn(|c| rotation.col(c).dot(aim.col(c))));
                scale = ((along + self.ridge * scale) / (spread + self.ridge)).max(DVec3::ZERO);
                explained = (2.0 * scale * along - scale * scale * spread).element_sum();
            }
            explained
        };
        self.affine.iter().map(of).sum()
    }
}

/// Turns `axes` until `Q^T M_t^T M_t Q` are as diagonal as one `Q` makes them.
fn diagonalise(affine: &[DMat3], mut axes: DMat3) -> DMat3 {
    let stretches: Vec<DMat3> = affine.iter().map(|m| m.transpose() * *m).collect();
    for _ in 0..JACOBI_SWEEPS {
        let mut largest: f64 = 0.0;
        for (p, q) in [(0, 1), (0, 2), (1, 2)] {
            let angle = jacobi_angle(&stretches, &axes, p, q);
            let (sin, cos) = angle.sin_cos();
            let (old_p, old_q) = (axes.col(p), axes.col(q));
            *axes.col_mut(p) = cos * old_p + sin * old_q;
            *axes.col_mut(q) = cos * old_q - sin * old_p;
            largest = largest.max(angle.abs());
        }
        if largest < 1e-6 {
            break;
        }
    }
    axes
}

/// The turn in the plane of axes `p` and `q` that leaves the least off the diagonal, over all frames.
fn jacobi_angle(stretches: &[DMat3], axes: &DMat3, p: usize, q: usize) -> f64 {
    let (p, q) = (axes.col(p), axes.col(q));
    // Differences on the diagonal against what is off it.
    let (mut both, mut differences) = (0.0, 0.0);
    for stretch in stretches {
        let (on, off) = (p.dot(*stretch * p) - q.dot(*stretch * q), 2.0 * p.dot(*stretch * q));
        both += 2.0 * on * off;
        differences += on * on - off * off;
    }
    0.25 * both.atan2(differences)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::solve::random::Random;

    #[test]
    fn axes_of_known_stretches_are_found() {
        for seed in 0..20 {
            let random = &mut Random::new(seed);
            let truth = DMat3::from_quat(random.rotation());
            let stretched = |random: &mut Random| {
                let scale = DVec3::ONE + 0.4 * random.vector();
                DMat3::from_quat(random.rotation()) * DMat3::from_diagonal(scale) * truth.transpose()
            };
            let affine: Vec<DMat3> = (0..9).map(|_| stretched(random)).collect();
            let found = diagonalise(&affine, DMat3::from_quat(random.rotation()));
            assert!((found.determinant() - 1.0).abs() < 1e-9);
            // The same lines, in any order and direction.
            let turn = found.transpose() * truth;
            for c in 0..3 {
                assert!((turn.col(c).abs().max_element() - 1.0).abs() < 1e-6, "seed {seed}: {turn}");
            }
        }
    }
}
