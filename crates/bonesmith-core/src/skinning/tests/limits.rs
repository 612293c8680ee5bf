//! Affine bones within limits.

use crate::skinning::limits::{Beyond, STRETCH, beyond, hold, nearest_within, step};
use crate::skinning::tests::*;
use crate::skinning::{bone_step, pass};
use crate::solve::transform::rotation_svd;
use glam::DAffine3;

const SIZES: Sizes = Sizes { vertices: 120, bones: 5, frames: 9, slots: 3 };

#[test]
fn the_nearest_matrix_is_within() {
    let random = &mut Random::new(4);
    for _ in 0..200 {
        let m = DMat3::from_cols(random.vector() * 3.0, random.vector(), random.vector() * 0.1);
        let Some(near) = nearest_within(&DAffine3 { matrix3: m, translation: DVec3::ZERO }) else { continue };
        let svd = rotation_svd(&near);
        assert!(near.determinant() > 0.0 && svd.sigma.min_element() > 0.999 * STRETCH.0);
        assert!(nearest_within(&DAffine3 { matrix3: near, translation: DVec3::ZERO }).is_none());
    }
}

/// Mirrored bones come back within the limits, and the error is that of bones solved for it, not of matrices that are cut off.
#[test]
fn bones_come_back_within_the_limits() {
    let mut case = case(7, SIZES, BoneKind::Affine);
    let vertices = usual(SIZES.slots);
    for _ in 0..3 {
        let moments = pass::solve(&case.problem, &case.state.motion, &mut case.state.skin, vertices, None);
        bone_step::update(&mut case.state.motion, &moments, &case.state.model);
    }
    for t in 0..SIZES.frames {
        let mut m = case.state.motion.transform(t % 2, t);
        m.matrix3 *= DMat3::from_diagonal(DVec3::new(-0.3, 1.0, 1.0));
        case.state.motion.set_transform(t % 2, t, &m);
    }
    let moments = pass::gather(&case.problem, &case.state.motion, &case.state.skin);
    assert!(beyond(&case.state.motion, &moments).frames >= SIZES.frames);
    let mut cut = case.state.motion.clone();
    for j in 0..SIZES.bones {
        for t in 0..SIZES.frames {
            let m = cut.transform(j, t);
            if let Some(matrix3) = nearest_within(&m) {
                cut.set_transform(j, t, &DAffine3 { matrix3, ..m });
            }
        }
    }
    let of_cut = pass::gather(&case.problem, &cut, &case.state.skin).squared_error;
    step(&mut case.state.motion, &moments);
    let after = pass::gather(&case.problem, &case.state.motion, &case.state.skin);
    assert_eq!(beyond(&case.state.motion, &after), Beyond::default());
    assert!(after.squared_error < 0.97 * of_cut, "{} {of_cut}", after.squared_error);
    let held = hold(&case.problem, &mut case.state, vertices);
    assert!(held.squared_error <= after.squared_error * (1.0 + 1e-6));
    assert_eq!(beyond(&case.state.motion, &held), Beyond::default());
}
