//! Transforms of bones: rigid, rotation-translation-scale, affine.
//!
//! Names are `target_from_source`. Matrices are `glam::DAffine3`: the solver and far-away models need float64;
//! rounding to float32 happens in exporters.

use glam::{DAffine3, DMat3, DQuat, DVec3};

/// Translation, rotation and per-axis scale: what one glTF, USD or FBX node can hold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trs {
    /// Model units.
    pub translation: DVec3,
    /// Unit quaternion.
    pub rotation: DQuat,
    /// Factors along the rotated axes.
    pub scale: DVec3,
}

impl Trs {
    /// Nothing moved.
    pub const IDENTITY: Self = Self { translation: DVec3::ZERO, rotation: DQuat::IDENTITY, scale: DVec3::ONE };

    /// As a matrix: translation * rotation * scale.
    pub fn to_affine(self) -> DAffine3 {
        DAffine3::from_scale_rotation_translation(self.scale, self.rotation, self.translation)
    }

    /// Splits a matrix whose columns are orthogonal; `None` if it shears by more than `tolerance` (relative),
    /// or a column vanishes but not all of them: then the scale is 0. A reflection goes into the sign of the scale's x.
    pub fn from_affine(m: DAffine3, tolerance: f64) -> Option<Self> {
        let (x, y, z) = (m.matrix3.x_axis, m.matrix3.y_axis, m.matrix3.z_axis);
        let mut scale = DVec3::new(x.length(), y.length(), z.length());
        if scale == DVec3::ZERO {
            return Some(Self { translation: m.translation, rotation: DQuat::IDENTITY, scale });
        }
        if scale.min_element() <= 1e-12 * scale.max_element().max(1e-300) {
            return None;
        }
        let (ux, uy, uz) = (x / scale.x, y / scale.y, z / scale.z);
        if ux.dot(uy).abs().max(uy.dot(uz).abs()).max(uz.dot(ux).abs()) > tolerance {
            return None;
        }
        let mut rotation = DMat3::from_cols(ux, uy, uz);
        if rotation.determinant() < 0.0 {
            scale.x = -scale.x;
            rotation.x_axis = -rotation.x_axis;
        }
        let rotation = DQuat::from_mat3(&rotation).normalize();
        Some(Self { translation: m.translation, rotation, scale })
    }
}

/// `m = u * diag(sigma) * v^T` with `u` and `v` proper rotations; the last `sigma` is negative where `m` reflects.
#[derive(Clone, Copy, Debug)]
pub struct RotationSvd {
    /// Left rotation.
    pub u: DMat3,
    /// Signed singular values, falling in magnitude.
    pub sigma: DVec3,
    /// Right rotation.
    pub v: DMat3,
}

/// Singular value decomposition into proper rotations; works for any finite matrix, rank-deficient ones too.
///
/// One-sided Jacobi: rotates columns of `m` until they are orthogonal. Their lengths are the singular values,
/// accurate to rounding relative to the largest.
pub fn rotation_svd(m: &DMat3) -> RotationSvd {
    let mut a = [m.x_axis, m.y_axis, m.z_axis];
    let mut v = [DVec3::X, DVec3::Y, DVec3::Z];
    for _ in 0..30 {
        let mut off = 0.0f64;
        for (p, q) in [(0, 1), (0, 2), (1, 2)] {
            let (alpha, beta, gamma) = (a[p].length_squared(), a[q].length_squared(), a[p].dot(a[q]));
            let limit = 1e-16 * (alpha * beta).sqrt();
            if gamma.abs() <= limit || gamma == 0.0 {
                continue;
            }
            off = off.max(gamma.abs());
            let zeta = (beta - alpha) / (2.0 * gamma);
            let t = zeta.signum() / (zeta.abs() + (1.0 + zeta * zeta).sqrt());
            let c = 1.0 / (1.0 + t * t).sqrt();
            let s = c * t;
            (a[p], a[q]) = (c * a[p] - s * a[q], s * a[p] + c * a[q]);
            (v[p], v[q]) = (c * v[p] - s * v[q], s * v[p] + c * v[q]);
        }
        if off == 0.0 {
            break;
        }
    }
    let mut order = [0, 1, 2];
    order.sort_by(|&p, &q| a[q].length_squared().total_cmp(&a[p].length_squared()));
    let a = order.map(|k| a[k]);
    let mut v = DMat3::from_cols(v[order[0]], v[order[1]], v[order[2]]);
    if v.determinant() < 0.0 {
        v.z_axis = -v.z_axis;
        return finish_svd([a[0], a[1], -a[2]], v);
    }
    finish_svd(a, v)
}

/// Left rotation from the orthogonal columns `a = u * sigma`, completed where they vanish.
fn finish_svd(a: [DVec3; 3], v: DMat3) -> RotationSvd {
    let largest = a[0].length();
    if largest < 1e-300 {
        return RotationSvd { u: v, sigma: DVec3::ZERO, v };
    }
    let u0 = a[0] / largest;
    let s1 = a[1].length();
    // A vanishing second column leaves a free direction: any one orthogonal to the first will do.
    let u1 = if s1 > 1e-14 * largest { (a[1] - u0 * u0.dot(a[1])).normalize() } else { u0.any_orthonormal_vector() };
    let u2 = u0.cross(u1);
    RotationSvd { u: DMat3::from_cols(u0, u1, u2), sigma: DVec3::new(largest, u1.dot(a[1]), u2.dot(a[2])), v }
}

/// The rotation nearest to `m` in the Frobenius norm: `u * v^T`, which also maximises `trace(R^T m)`.
pub fn nearest_rotation(m: &DMat3) -> DMat3 {
    let svd = rotation_svd(m);
    svd.u * svd.v.transpose()
}

/// Inverse of a symmetric positive matrix; what is singular gives the identity rather than infinities.
pub(crate) fn inverse(m: &DMat3) -> DMat3 {
    let det = m.determinant();
    let size = (m.x_axis.x + m.y_axis.y + m.z_axis.z).abs() / 3.0;
    if det.abs() > 1e-18 * size * size * size && det != 0.0 { m.inverse() } else { DMat3::IDENTITY }
}

/// Makes consecutive quaternions of one bone lie on one hemisphere, so that they interpolate the short way.
pub fn continue_signs(rotations: &mut [DQuat]) {
    for t in 1..rotations.len() {
        if rotations[t - 1].dot(rotations[t]) < 0.0 {
            rotations[t] = -rotations[t];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn matrix() -> impl Strategy<Value = DMat3> {
        prop::array::uniform9(-2.0..2.0f64).prop_map(|a| DMat3::from_cols_array(&a))
    }

    fn is_rotation(r: &DMat3) -> bool {
        (*r * r.transpose()).abs_diff_eq(DMat3::IDENTITY, 1e-10) && r.determinant() > 0.0
    }

    proptest! {
        #[test]
        fn svd_multiplies_back(m in matrix()) {
            let svd = rotation_svd(&m);
            prop_assert!(is_rotation(&svd.u) && is_rotation(&svd.v));
            let back = svd.u * DMat3::from_diagonal(svd.sigma) * svd.v.transpose();
            prop_assert!(back.abs_diff_eq(m, 1e-9), "{m:?} {back:?}");
        }

        #[test]
        fn nearest_rotation_beats_random_ones(m in matrix(), axis in prop::array::uniform3(-1.0..1.0f64), angle in -3.0..3.0f64) {
            let r = nearest_rotation(&m);
            prop_assert!(is_rotation(&r));
            let other = DMat3::from_quat(DQuat::from_axis_angle(
                DVec3::from_array(axis).try_normalize().unwrap_or(DVec3::X), angle));
            let distance = |r: &DMat3| (*r - m).to_cols_array().iter().map(|x| x * x).sum::<f64>();
            prop_assert!(distance(&r) <= distance(&other) + 1e-9);
        }

        #[test]
        fn trs_round_trip(t in prop::array::uniform3(-5.0..5.0f64), s in prop::array::uniform3(0.1..3.0f64), q in prop::array::uniform4(-1.0..1.0f64)) {
            let rotation = DQuat::from_array(q);
            prop_assume!(rotation.length() > 0.1);
            let trs = Trs { translation: t.into(), rotation: rotation.normalize(), scale: s.into() };
            let back = Trs::from_affine(trs.to_affine(), 1e-9).unwrap();
            prop_assert!(back.to_affine().abs_diff_eq(trs.to_affine(), 1e-9));
        }
    }

    #[test]
    fn rank_deficient_matrices_still_give_rotations() {
        for m in [
            DMat3::ZERO,
            DMat3::from_diagonal(DVec3::new(1.0, 0.0, 0.0)),
            DMat3::from_diagonal(DVec3::new(1.0, -1.0, 0.0)),
            DMat3::from_cols(DVec3::X, DVec3::X, DVec3::X),
            DMat3::from_diagonal(DVec3::new(-1.0, -1.0, -1.0)),
        ] {
            assert!(is_rotation(&nearest_rotation(&m)), "{m:?}");
        }
    }

    #[test]
    fn a_sheared_matrix_is_not_trs() {
        let m = DAffine3::from_mat3(DMat3::from_cols(DVec3::X, DVec3::new(0.5, 1.0, 0.0), DVec3::Z));
        assert!(Trs::from_affine(m, 1e-6).is_none());
    }
}
