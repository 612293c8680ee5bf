//! Rotations nearest to sixteen 3x3 matrices at once, in float32, from a start that may be bad.
//!
//! Newton steps on SO(3) as in [`crate::solve::polar`]. Where the Hessian is not safely positive, or the last step was not small
//! (a start too far away, a reflection, a rank below two), the exact decomposition in float64 takes over for that lane.

use glam::DMat3;

use crate::solve::polar::{cayley, half_step};
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
            let matrix = DMat3::from_cols_array_2d(&h.map(|column| column.map(|lane| lane.0[l].into())));
            let exact = if matrix.is_finite() { nearest_rotation(&matrix) } else { DMat3::IDENTITY };
            for (c, column) in [exact.x_axis, exact.y_axis, exact.z_axis].into_iter().enumerate() {
                for a in 0..3 {
                    rotation[c][a].0[l] = column[a] as f32;
                }
            }
        }
    }
}

/// The largest entry becomes 1: products of three stay in range in any unit.
#[inline(always)]
fn scaled(target: &[[Lane; 3]; 3]) -> [[Lane; 3]; 3] {
    let mut largest = [1e-30f32; LANES];
    for lane in target.as_flattened() {
        for l in 0..LANES {
            largest[l] = largest[l].max(lane.0[l].abs());
        }
    }
    let mut h = *target;
    for lane in h.as_flattened_mut() {
        for l in 0..LANES {
            lane.0[l] /= largest[l];
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
        let (positive, half) = half_step(q.map(|row| row.map(|lane| lane.0[l])), 1e-4, 1e-5);
        sound[l] = if positive { sound[l] } else { 0.0 };
        let squared = half[0] * half[0] + half[1] * half[1] + half[2] * half[2];
        last[l] = 4.0 * squared;
        let m = cayley(half, 1.0 + squared);
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
    use glam::{DQuat, DVec3};
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
