//! What the device's limits and ends look like from outside.

use bonesmith_gpu::{Bones, Gpu, GpuError, GpuModel, GpuOptions, Kernel, Setup};
use glam::{DAffine3, DVec3};

use super::gpu;
use super::rigs::{self, Size};

const SMALL: Size = Size { vertices: 50, bones: 4, influences: 2, frames: 1 };

#[test]
fn an_adapter_that_is_not_there_is_named() {
    let options = GpuOptions { adapter: Some("no such adapter".into()), ..GpuOptions::default() };
    let error = Gpu::new(&options).unwrap_err();
    assert!(matches!(&error, GpuError::NoAdapter { .. }), "{error}");
    assert!(error.to_string().contains("no GPU"), "{error}");
}

#[test]
fn poses_of_another_rig_are_refused() {
    let Some(gpu) = gpu(&GpuOptions::default()) else { return };
    let batch = GpuModel::lbs(&gpu, &rigs::lbs(1, SMALL)).unwrap().batch(2).unwrap();
    let pose = [DAffine3::IDENTITY; 4];
    assert_eq!(batch.write_bones(0, &pose[..3]), Err(GpuError::BoneCount { given: 3, bones: 4 }));
    assert_eq!(batch.write_bones(2, &pose), Err(GpuError::NoSuchInstance { instance: 2, instances: 2 }));
    assert!(matches!(batch.read(7), Err(GpuError::NoSuchInstance { instance: 7, .. })));
    let mut broken = pose;
    broken[2] = DAffine3::from_translation(DVec3::new(0.0, f64::NAN, 0.0));
    assert_eq!(batch.write_bones(1, &broken), Err(GpuError::NotFinite { instance: 1, bone: 2 }));
    broken[2] = DAffine3::from_scale(DVec3::splat(1e300));
    assert_eq!(batch.write_bones(1, &broken), Err(GpuError::NotFinite { instance: 1, bone: 2 }));
    let small = GpuModel::lbs(&gpu, &rigs::rigid(1, SMALL)).unwrap().batch(2).unwrap();
    assert_eq!(small.write_bones(1, &broken), Err(GpuError::NotFinite { instance: 1, bone: 2 }));
}

/// A rig whose clips only turn and move takes no other poses, unless it was asked to.
#[test]
fn poses_of_another_kind_are_refused_with_advice() {
    let Some(gpu) = gpu(&GpuOptions::default()) else { return };
    let rig = rigs::rigid(1, SMALL);
    let mut pose = rig.clips[0].frame(0).to_vec();
    pose[3].matrix3.x_axis *= 1.5;
    let batch = GpuModel::lbs(&gpu, &rig).unwrap().batch(2).unwrap();
    let error = batch.write_bones(1, &pose).unwrap_err();
    assert!(matches!(error, GpuError::NotSimilar { instance: 1, bone: 3, off } if off > 0.1), "{error}");
    assert!(error.to_string().contains("Bones::Affine"), "{error}");
    let Some(any) = self::gpu(&GpuOptions { bones: Some(Bones::Affine), ..GpuOptions::default() }) else { return };
    let model = GpuModel::lbs(&any, &rig).unwrap();
    assert_eq!(model.bones(), Bones::Affine);
    model.batch(2).unwrap().write_bones(1, &pose).unwrap();
}

#[test]
fn a_rig_that_is_not_sound_is_refused() {
    let Some(gpu) = gpu(&GpuOptions::default()) else { return };
    let mut rig = rigs::lbs(1, SMALL);
    rig.bones.truncate(2);
    assert!(matches!(GpuModel::lbs(&gpu, &rig), Err(GpuError::BadRig { .. })));
}

#[test]
fn too_many_instances_are_an_error_with_figures() {
    let Some(gpu) = gpu(&GpuOptions::default()) else { return };
    let model = GpuModel::lbs(&gpu, &rigs::lbs(1, SMALL)).unwrap();
    let error = model.batch(1 << 50).unwrap_err();
    assert!(matches!(&error, GpuError::Limit { needs, limit, .. } if needs > limit), "{error}");
    // Nothing is broken by it.
    model.batch(1).unwrap().submit().unwrap();
    assert_eq!(model.batch(0).unwrap().dispatch_count(), 0);
}

#[test]
fn a_lost_device_says_so() {
    let Some(gpu) = gpu(&GpuOptions::default()) else { return };
    let batch = GpuModel::lbs(&gpu, &rigs::lbs(1, SMALL)).unwrap().batch(1).unwrap();
    gpu.device.destroy();
    let _ = gpu.wait();
    assert!(matches!(batch.submit(), Err(GpuError::Lost { .. })));
    assert!(matches!(batch.read(0), Err(GpuError::Lost { .. })));
}

/// The text that engines take has what the documentation says.
#[test]
fn wgsl_is_whole() {
    for kernel in [Kernel::Lbs, Kernel::Blend, Kernel::DdmBones, Kernel::Ddm(bonesmith_core::model::ddm::Variant::V2)] {
        for bones in [Bones::Affine, Bones::Similar] {
            let text = kernel.wgsl(&Setup {
                tuning: kernel.tuning(true),
                bones,
                bone_cache: 3,
                kept: 0,
                equal: false,
                instance_origins: 16,
            });
            assert!(text.contains("fn main(") && text.contains("@binding(6)"), "{kernel:?} of {bones:?} bones");
        }
    }
}
