//! Rotations nearest to many 3x3 matrices at once, from a good start.
//!
//! For each lane maximises `trace(R^T H)` over rotations by Newton steps on SO(3): with `Q = R^T H`, gradient
//! `a = (Q32 - Q23, Q13 - Q31, Q21 - Q12)` and Hessian `trace(Q) I - sym(Q)`, the step `w` solves `Hess w = a` and
//! `R <- R cay(w)` (a unit quaternion `(1, w / 2)`), which agrees with `R exp([w])` to second order. Where the
//! Hessian is not positive (a start more than a right angle away, a reflection) the exact SVD takes over.

use std::ops::{Add, Div, Mul, Neg, Sub};

use glam::DMat3;

use crate::solve::transform::nearest_rotation;

/// Matrices per batch: one AVX-512 register, two AVX2 registers of float64.
pub(crate) const LANES: usize = 8;

/// One number for each of [`LANES`] frames.
pub(crate) type Lane = [f64; LANES];

/// `[column][row]` matrices in lanes, as glam stores them.
pub(crate) type LaneMat = [[Lane; 3]; 3];

const NEWTON_STEPS: usize = 3;

/// Improves `rotation` (columns first) to the rotation nearest to `target` in every lane.
///
/// Inlined into its callers, which are compiled for several instruction sets.
#[inline(always)]
pub(crate) fn nearest_rotations(target: &LaneMat, rotation: &mut LaneMat) {
    let mut sound = [1.0; LANES];
    for _ in 0..NEWTON_STEPS {
        newton_step(target, rotation, &mut sound);
    }
    for lane in 0..LANES {
        if sound[lane] == 0.0 || !is_stationary(target, rotation, lane) {
            let exact = nearest_rotation(&extract(target, lane));
            for (c, column) in [exact.x_axis, exact.y_axis, exact.z_axis].into_iter().enumerate() {
                for a in 0..3 {
                    rotation[c][a][lane] = column[a];
                }
            }
        }
    }
}

/// One Newton step in all lanes; clears `sound` where the Hessian is not safely positive.
#[inline(always)]
fn newton_step(h: &LaneMat, r: &mut LaneMat, sound: &mut Lane) {
    // q[i][j] = row i, column j of R^T H.
    let mut q = [[[0.0; LANES]; 3]; 3];
    for i in 0..3 {
        for j in 0..3 {
            for l in 0..LANES {
                q[i][j][l] = r[i][0][l] * h[j][0][l] + r[i][1][l] * h[j][1][l] + r[i][2][l] * h[j][2][l];
            }
        }
    }
    let mut half = [[0.0; LANES]; 3];
    for l in 0..LANES {
        let (positive, step) = half_step(q.map(|row| row.map(|lane| lane[l])), 1e-9, 1e-9);
        sound[l] = if positive { sound[l] } else { 0.0 };
        (half[0][l], half[1][l], half[2][l]) = (step[0], step[1], step[2]);
    }
    for l in 0..LANES {
        let (x, y, z) = (half[0][l], half[1][l], half[2][l]);
        let m = cayley([x, y, z], 1.0 + x * x + y * y + z * z);
        for a in 0..3 {
            let row = [r[0][a][l], r[1][a][l], r[2][a][l]];
            for c in 0..3 {
                r[c][a][l] = row[0] * m[0][c] + row[1] * m[1][c] + row[2] * m[2][c];
            }
        }
    }
}

/// float32 or float64.
pub(super) trait Real:
    Copy
    + PartialOrd
    + From<f32>
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
{
}

impl Real for f32 {}
impl Real for f64 {}

/// Half the Newton step `w` for `q = R^T H`, row by row, and whether the Hessian is safely positive: its minors above these shares of
/// its size. Else the step is 0.
#[inline(always)]
pub(super) fn half_step<T: Real>(q: [[T; 3]; 3], least_minor: T, least_det: T) -> (bool, [T; 3]) {
    let (zero, half) = (T::from(0.0), T::from(0.5));
    let abs = |x: T| if x < zero { -x } else { x };
    let a = [q[2][1] - q[1][2], q[0][2] - q[2][0], q[1][0] - q[0][1]];
    // Hessian trace(Q) I - sym(Q); its cofactors give the inverse.
    let (h00, h11, h22) = (q[1][1] + q[2][2], q[0][0] + q[2][2], q[0][0] + q[1][1]);
    let (h01, h02, h12) = (-(half * (q[0][1] + q[1][0])), -(half * (q[0][2] + q[2][0])), -(half * (q[1][2] + q[2][1])));
    let c00 = h11 * h22 - h12 * h12;
    let c01 = h02 * h12 - h01 * h22;
    let c02 = h01 * h12 - h02 * h11;
    let c11 = h00 * h22 - h02 * h02;
    let c12 = h01 * h02 - h00 * h12;
    let c22 = h00 * h11 - h01 * h01;
    let det = h00 * c00 + h01 * c01 + h02 * c02;
    let size = abs(h00) + abs(h11) + abs(h22);
    let positive = h00 > least_minor * size && c22 > least_minor * size * size && det > least_det * size * size * size;
    let scale = if positive { half / det } else { zero };
    let step = [
        (c00 * a[0] + c01 * a[1] + c02 * a[2]) * scale,
        (c01 * a[0] + c11 * a[1] + c12 * a[2]) * scale,
        (c02 * a[0] + c12 * a[1] + c22 * a[2]) * scale,
    ];
    (positive, step)
}

/// `cay(w)`, row by row: the rotation of the unit quaternion along `(1, w / 2)`, whose squared length is `norm`.
#[inline(always)]
pub(super) fn cayley<T: Real>([x, y, z]: [T; 3], norm: T) -> [[T; 3]; 3] {
    let (one, s) = (T::from(1.0), T::from(2.0) / norm);
    [
        [one - s * (y * y + z * z), s * (x * y - z), s * (x * z + y)],
        [s * (x * y + z), one - s * (x * x + z * z), s * (y * z - x)],
        [s * (x * z - y), s * (y * z + x), one - s * (x * x + y * y)],
    ]
}

/// Whether the last Newton step left the gradient small against the matrix.
#[inline(always)]
fn is_stationary(h: &LaneMat, r: &LaneMat, l: usize) -> bool {
    let dot = |i: usize, j: usize| r[i][0][l] * h[j][0][l] + r[i][1][l] * h[j][1][l] + r[i][2][l] * h[j][2][l];
    let size = dot(0, 0).abs() + dot(1, 1).abs() + dot(2, 2).abs();
    let gradient = (dot(2, 1) - dot(1, 2)).abs() + (dot(0, 2) - dot(2, 0)).abs() + (dot(1, 0) - dot(0, 1)).abs();
    gradient <= 1e-6 * size
}

/// The matrix in one lane.
pub(crate) fn extract(m: &LaneMat, lane: usize) -> DMat3 {
    DMat3::from_cols_array_2d(&m.map(|column| column.map(|row| row[lane])))
}

#[cfg(test)]
mod tests {
    use super::*;
    use glam::{DQuat, DVec3};
    use proptest::prelude::*;

    fn insert(m: &DMat3, lanes: &mut LaneMat, lane: usize) {
        for (c, column) in [m.x_axis, m.y_axis, m.z_axis].into_iter().enumerate() {
            for a in 0..3 {
                lanes[c][a][lane] = column[a];
            }
        }
    }

    proptest! {
        /// From starts near, far and opposite: always as good as the SVD.
        #[test]
        fn agrees_with_the_svd(
            entries in prop::collection::vec(-1.0..1.0f64, 9 * LANES),
            axis in prop::array::uniform3(-1.0..1.0f64),
        ) {
            let mut target: LaneMat = Default::default();
            let mut rotation: LaneMat = Default::default();
            for lane in 0..LANES {
                let m = DMat3::from_cols_slice(&entries[9 * lane..9 * lane + 9]);
                insert(&m, &mut target, lane);
                let axis = DVec3::from_array(axis).try_normalize().unwrap_or(DVec3::Z);
                let off = DQuat::from_axis_angle(axis, 0.4 * lane as f64);
                insert(&(nearest_rotation(&m) * DMat3::from_quat(off)), &mut rotation, lane);
            }
            nearest_rotations(&target, &mut rotation);
            for lane in 0..LANES {
                let (h, r) = (extract(&target, lane), extract(&rotation, lane));
                let score = |r: &DMat3| (r.transpose() * h).to_cols_array()[0]
                    + (r.transpose() * h).to_cols_array()[4] + (r.transpose() * h).to_cols_array()[8];
                prop_assert!(score(&r) >= score(&nearest_rotation(&h)) - 1e-8);
                prop_assert!((r * r.transpose()).abs_diff_eq(DMat3::IDENTITY, 1e-9));
            }
        }
    }
}
