//! Bones driven by shapes against the CPU.

use bonesmith_core::model::shape_bones::{BoneShape, Driver, ShapeKind, ShapeNumber};
use bonesmith_core::{Rig, ShapeBones, deform};
use bonesmith_gpu::{GpuError, GpuModel, GpuOptions};
use glam::{DAffine3, DMat3, DQuat, Vec3};

use super::gpu;
use super::rigs::{self, Size};

/// Every component on some bones, whose places and axes differ.
fn face(vertices: usize, bones: usize) -> ShapeBones {
    let mut rig: Rig = rigs::lbs(3, Size { vertices, bones, influences: 4.min(bones), frames: 1 });
    for (j, bone) in rig.bones.iter_mut().enumerate() {
        let turn = DMat3::from_quat(DQuat::from_rotation_y(0.3 * j as f64));
        let place = rig.rest[j % rig.rest.len()].as_dvec3();
        bone.world_from_bind = DAffine3 { matrix3: turn, translation: place };
    }
    let value = |n: usize| 0.1 * ((n * 37 % 19) as f32 - 9.0) / 9.0;
    let number = |n: usize| ShapeNumber { bone: (n / 12) as u16, component: (n % 12) as u8, value: value(n) };
    let shape = |s: usize| BoneShape {
        name: s.to_string(),
        driver: Driver::Own,
        numbers: (0..12 * bones).filter(|n| s > 0 && (n + s).is_multiple_of(3)).map(number).collect(),
    };
    let mut face = ShapeBones { rig, kind: ShapeKind::Affine, shapes: (0..5).map(shape).collect() };
    face.rig.clips.clear();
    face.set_first_clip();
    face
}

#[test]
fn bones_follow_weights_as_on_the_cpu() {
    let Some(gpu) = gpu(&GpuOptions::default()) else { return };
    for (vertices, bones) in [(1, 1), (65, 7), (300, 70), (2000, 40)] {
        let face = face(vertices, bones);
        let model = GpuModel::shape_bones(&gpu, &face).unwrap();
        assert_eq!((model.shape_count(), model.bone_count()), (5, bones));
        let batch = model.batch(9).unwrap();
        let weights = |t: usize| (0..5).map(|s| 0.4 * ((3 * t + s) % 4) as f64 - 0.2).collect::<Vec<f64>>();
        (0..9).for_each(|t| batch.write_shape_weights(t, &weights(t)).unwrap());
        batch.submit().unwrap();
        for t in 0..9 {
            let (made, truth) = (
                batch.read(t).unwrap().positions,
                deform::lbs(&face.rig.rest, &face.rig.weights, &face.transforms_of(&weights(t))),
            );
            let size = truth.iter().map(|p| p.length()).fold(1f32, f32::max);
            let off = made.iter().zip(&truth).map(|(a, b): (&Vec3, &Vec3)| a.distance(*b)).fold(0.0, f32::max);
            assert!(off < 1e-5 * size, "{vertices} vertices, {bones} bones, instance {t}: {off}");
        }
    }
}

#[test]
fn weights_that_do_not_fit_are_refused() {
    let Some(gpu) = gpu(&GpuOptions::default()) else { return };
    let face = face(40, 4);
    let batch = GpuModel::shape_bones(&gpu, &face).unwrap().batch(2).unwrap();
    assert_eq!(batch.write_shape_weights(0, &[0.0; 4]), Err(GpuError::ShapeCount { given: 4, shapes: 5 }));
    assert_eq!(
        batch.write_shape_weights(1, &[0.0, f64::NAN, 0.0, 0.0, 0.0]),
        Err(GpuError::WeightNotFinite { instance: 1, shape: 1 })
    );
    assert!(batch.write_shape_weights(2, &[0.0; 5]).is_err());
    assert_eq!(batch.write_bones(0, face.rig.clips[0].frame(0)), Err(GpuError::Driven));
    let plain = GpuModel::lbs(&gpu, &face.rig).unwrap().batch(1).unwrap();
    assert_eq!(plain.write_shape_weights(0, &[]), Err(GpuError::ShapeCount { given: 0, shapes: 0 }));
}
