//! Rotations nearest to sixteen 3x3 matrices at once, in float32, from a start that may be bad.
//!
//! Newton steps on SO(3) as in [`crate::solve::polar`]. Where the Hessian is not safely positive, or the last step was not small
//! (a start too far away, a reflection, a rank below two), the exact decomposition in float64 takes over for that lane.

// Loops over lanes are written with indices: that is the shape the compiler vectorises.
#![allow(clippy::needless_range_loop)]

use glam::{DMat3, DVec3};

use crate::solve::transform::nearest_rotation;

/// Matrices per batch: one AVX-512 register of float32.
pub(crate) const LANES: usize = 16;

/// One number for each of [`LANES`] matrices.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C, align(64))]
pub(crate) struct Lane(pub [f32; LANES]);

const STEPS: usize = 4;
/// A last step up to this many radians, squared, has converged: the next one would be its square.
const SMALL_STEP: f32 = 1e-5;

/// Improves `rotation` (columns first) to the rotation nearest to `target` in every lane.
#[inline(always)]
pub(crate) fn nearest_rotations(target: &[[Lane; 3]; 3], rotation: &mut [[Lane; 3]; 3]) {
    let h = scaled(target);
    let mut sound = [1.0f32; LANES];
    let mut last = [0.0f32; LANES];
    for _ in 0..STEPS {
        step(&h, rotation, &mut sound, &mut last);
    }
    for l in 0..LANES {
        if sound[l] == 0.0 || last[l] > SMALL_STEP || last[l].is_nan() {
            let column = |c: usize| DVec3::new(h[c][0].0[l].into(), h[c][1].0[l].into(), h[c][2].0[l].into());
            let matrix = DMat3::from_cols(column(0), column(1), column(2));
            let exact = if matrix.is_finite() { nearest_rotation(&matrix) } else { DMat3::IDENTITY };
            for (c, column) in [exact.x_axis, exact.y_axis, exact.z_axis].into_iter().enumerate() {
                for a in 0..3 {
                    rotation[c][a].0[l] = column[a] as f32;
                }
            }
        }
    }
}

/// The largest entry becomes 1: products of three stay in range whatever the model's unit.
#[inline(always)]
fn scaled(target: &[[Lane; 3]; 3]) -> [[Lane; 3]; 3] {
    let mut largest = [1e-30f32; LANES];
    for c in 0..3 {
        for a in 0..3 {
            for l in 0..LANES {
                largest[l] = largest[l].max(target[c][a].0[l].abs());
            }
        }
    }
    let mut h = *target;
    for c in 0..3 {
        for a in 0..3 {
            for l in 0..LANES {
                h[c][a].0[l] /= largest[l];
            }
        }
    }
    h
}

/// One Newton step; clears `sound` where the Hessian is not safely positive. `last` becomes its squared angle.
#[inline(always)]
fn step(h: &[[Lane; 3]; 3], r: &mut [[Lane; 3]; 3], sound: &mut [f32; LANES], last: &mut [f32; LANES]) {
    // q[i][j] = row i, column j of R^T H.
    let mut q = [[Lane::default(); 3]; 3];
    for i in 0..3 {
        for j in 0..3 {
            for l in 0..LANES {
                q[i][j].0[l] = r[i][0].0[l] * h[j][0].0[l] + r[i][1].0[l] * h[j][1].0[l] + r[i][2].0[l] * h[j][2].0[l];
            }
        }
    }
    for l in 0..LANES {
        let at = |i: usize, j: usize| q[i][j].0[l];
        let (q00, q11, q22) = (at(0, 0), at(1, 1), at(2, 2));
        let (s01, s02, s12) = (0.5 * (at(0, 1) + at(1, 0)), 0.5 * (at(0, 2) + at(2, 0)), 0.5 * (at(1, 2) + at(2, 1)));
        let a = [at(2, 1) - at(1, 2), at(0, 2) - at(2, 0), at(1, 0) - at(0, 1)];
        // Hessian trace(Q) I - sym(Q); its cofactors give the inverse.
        let (h00, h11, h22) = (q11 + q22, q00 + q22, q00 + q11);
        let (h01, h02, h12) = (-s01, -s02, -s12);
        let c00 = h11 * h22 - h12 * h12;
        let c01 = h02 * h12 - h01 * h22;
        let c02 = h01 * h12 - h02 * h11;
        let c11 = h00 * h22 - h02 * h02;
        let c12 = h01 * h02 - h00 * h12;
        let c22 = h00 * h11 - h01 * h01;
        let det = h00 * c00 + h01 * c01 + h02 * c02;
        let size = h00.abs() + h11.abs() + h22.abs();
        let positive = h00 > 1e-4 * size && c22 > 1e-4 * size * size && det > 1e-5 * size * size * size;
        sound[l] = if positive { sound[l] } else { 0.0 };
        let half = if positive { 0.5 / det } else { 0.0 };
        let x = (c00 * a[0] + c01 * a[1] + c02 * a[2]) * half;
        let y = (c01 * a[0] + c11 * a[1] + c12 * a[2]) * half;
        let z = (c02 * a[0] + c12 * a[1] + c22 * a[2]) * half;
        // R <- R * rotation of the unit quaternion along (1, w / 2).
        let squared = x * x + y * y + z * z;
        last[l] = 4.0 * squared;
        let s = 2.0 / (1.0 + squared);
        let m = [
            [1.0 - s * (y * y + z * z), s * (x * y - z), s * (x * z + y)],
            [s * (x * y + z), 1.0 - s * (x * x + z * z), s * (y * z - x)],
            [s * (x * z - y), s * (y * z + x), 1.0 - s * (x * x + y * y)],
        ];
        for b in 0..3 {
            let row = [r[0][b].0[l], r[1][b].0[l], r[2][b].0[l]];
            for c in 0..3 {
                r[c][b].0[l] = row[0] * m[0][c] + row[1] * m[1][c] + row[2] * m[2][c];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use glam::DQuat;
    use proptest::prelude::*;

    proptest! {
        /// From starts near, far and opposite, of any rank and scale: as good as the exact decomposition.
        #[test]
        fn agrees_with_the_exact_decomposition(
            entries in prop::collection::vec(-1.0..1.0f64, 9 * LANES),
            scale in -8..6i32,
        ) {
            let mut target: [[Lane; 3]; 3] = Default::default();
            let mut rotation = target;
            let mut matrices = Vec::new();
            for l in 0..LANES {
                let mut m = DMat3::from_cols_slice(&entries[9 * l..9 * l + 9]);
                if l % 5 == 3 {
                    m.z_axis = m.x_axis * 0.5 - m.y_axis; // rank two
                }
                if l == 9 {
                    m.y_axis = m.x_axis; // rank one
                    m.z_axis = -m.x_axis;
                }
                let start = nearest_rotation(&m) * DMat3::from_quat(DQuat::from_rotation_y(0.4 * l as f64));
                for c in 0..3 {
                    for a in 0..3 {
                        target[c][a].0[l] = (m.col(c)[a] * 10f64.powi(scale)) as f32;
                        rotation[c][a].0[l] = start.col(c)[a] as f32;
                    }
                }
                matrices.push(m);
            }
            nearest_rotations(&target, &mut rotation);
            for (l, m) in matrices.iter().enumerate() {
                let column = |c: usize| DVec3::new(rotation[c][0].0[l].into(), rotation[c][1].0[l].into(), rotation[c][2].0[l].into());
                let r = DMat3::from_cols(column(0), column(1), column(2));
                prop_assert!((r * r.transpose()).abs_diff_eq(DMat3::IDENTITY, 1e-4) && r.determinant() > 0.0);
                let score = |r: &DMat3| { let q = r.transpose() * *m; q.x_axis.x + q.y_axis.y + q.z_axis.z };
                prop_assert!(score(&r) >= score(&nearest_rotation(m)) - 1e-4, "lane {l}");
            }
        }
    }
}
