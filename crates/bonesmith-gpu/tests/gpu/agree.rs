//! Kernels against the CPU: positions within 1e-5 of the size, and normals.

use bonesmith_core::ddm::compress::{DdmCompressParams, compress};
use bonesmith_core::ddm::{DdmMaps, DdmParams, precompute};
use bonesmith_core::deform::ddm_with_normals_f64;
use bonesmith_core::model::ddm::Variant;
use bonesmith_core::synthetic::{BarParams, PosedRigParams, bar, posed_rig};
use bonesmith_core::{DdmRig, Rig, Silent, TwoLayerRig, deform};
use bonesmith_gpu::{Batch, Bones, GpuModel, GpuOptions, Tuning};
use glam::{DAffine3, DVec3, Vec3};

use super::gpu;
use super::rigs::{self, Size};

/// What the CPU's float32 evaluator is held to: where blended matrices nearly collapse, directions lose digits.
const NORMAL: f32 = 2e-3;

const AWKWARD: [usize; 5] = [1, 31, 63, 64, 65];

type Mesh = (Vec<Vec3>, Vec<Vec3>);

fn rest_normals(rig: &Rig) -> Vec<Vec3> {
    let normals = bonesmith_core::mesh::normals::vertex_normals(&rig.rest, &rig.surface.topology.vertex_triangles());
    normals.iter().map(|n| n.try_normalize().unwrap_or(DVec3::ZERO).as_vec3()).collect()
}

fn lbs_on_cpu(rig: &Rig, pose: &[DAffine3]) -> Mesh {
    deform::lbs_with_normals(&rig.rest, &rest_normals(rig), &rig.weights, pose)
}

fn two_layer_on_cpu(rig: &TwoLayerRig, pose: &[DAffine3]) -> Mesh {
    let bones = rig.blends.pose(pose);
    deform::lbs_with_normals(&rig.master.rest, &rest_normals(&rig.master), &rig.weights, &bones)
}

/// Poses all frames as instances and compares each.
fn agrees(model: &GpuModel, rig: &Rig, name: &str, cpu: impl Fn(&[DAffine3]) -> Mesh) -> Batch {
    let clip = &rig.clips[0];
    let batch = model.batch(clip.frame_count()).unwrap();
    (0..clip.frame_count()).for_each(|t| batch.write_bones(t, clip.frame(t)).unwrap());
    batch.submit().unwrap();
    for t in 0..clip.frame_count() {
        let (points, normals) = cpu(clip.frame(t));
        let made = batch.read(t).unwrap();
        let low = points.iter().chain(&rig.rest).fold(Vec3::INFINITY, |a, b| a.min(*b));
        let high = points.iter().chain(&rig.rest).fold(Vec3::NEG_INFINITY, |a, b| a.max(*b));
        let size = (high - low).length().max(1e-3);
        assert_eq!(made.positions.len(), points.len());
        for i in 0..points.len() {
            let off = made.positions[i].distance(points[i]) / size;
            assert!(off < 1e-5, "{name}: vertex {i} of instance {t} is off by {off} of the size");
            let turned = made.normals[i].distance(normals[i]);
            assert!(turned < NORMAL, "{name}: normal {i} of instance {t}: {} for {}", made.normals[i], normals[i]);
        }
    }
    batch
}

#[test]
fn linear_blending_of_1_to_16_influences_and_awkward_sizes() {
    let Some(gpu) = gpu(&GpuOptions::default()) else { return };
    for (seed, vertices) in AWKWARD.into_iter().enumerate() {
        for influences in [1, 2, 3, 4, 7, 16] {
            let size = Size { vertices, bones: 1 + 5 * influences, influences, frames: 5 };
            for rig in [rigs::lbs(seed as u64, size), rigs::rigid(seed as u64, size)] {
                let model = GpuModel::lbs(&gpu, &rig).unwrap();
                let name = format!("{vertices} vertices, {influences} influences, {:?} bones", model.bones());
                agrees(&model, &rig, &name, |pose| lbs_on_cpu(&rig, pose));
            }
        }
    }
    // As many bones as there can be: 16 bits for the bone, 16 for the weight, and clusters of bones that agree.
    let mut rig = rigs::lbs(9, Size { vertices: 500, bones: 65536, influences: 4, frames: 1 });
    for (j, m) in rig.clips[0].posed_from_rest.iter_mut().enumerate() {
        *m = DAffine3::from_rotation_y(0.1 * (j % 5) as f64);
    }
    agrees(&GpuModel::lbs(&gpu, &rig).unwrap(), &rig, "65536 bones", |pose| lbs_on_cpu(&rig, pose));
}

#[test]
fn many_instances_and_many_tunings() {
    let Some(gpu) = gpu(&GpuOptions::default()) else { return };
    let size = Size { vertices: 130, bones: 20, influences: 4, frames: 11 };
    let (two, ddm, small) = (rigs::two_layer(2, size, 70), rigs::ddm(3, size, 0), rigs::ddm(4, size, 40));
    for workgroup in [32, 64, 256] {
        for (tile, staged) in [(1, true), (3, false), (8, true)] {
            let tuning = Some(Tuning { workgroup, tile, staged });
            let gpu = gpu.with_tuning(tuning, tuning);
            let name = format!("workgroup {workgroup}, tile {tile}, staged {staged}");
            for plain in [rigs::lbs(1, size), rigs::rigid(1, size)] {
                agrees(&GpuModel::lbs(&gpu, &plain).unwrap(), &plain, &name, |pose| lbs_on_cpu(&plain, pose));
            }
            agrees(&GpuModel::two_layer(&gpu, &two).unwrap(), &two.master, &name, |pose| two_layer_on_cpu(&two, pose));
            for rig in [&ddm, &small] {
                agrees(&GpuModel::ddm(&gpu, rig).unwrap(), &rig.rig, &name, |pose| ddm_with_normals_f64(rig, pose));
            }
        }
    }
}

/// Bones that workgroup memory holds and bones that it does not, in either form.
#[test]
fn few_and_many_bones() {
    for form in [Bones::Affine, Bones::Similar] {
        let Some(gpu) = gpu(&GpuOptions { bones: Some(form), ..GpuOptions::default() }) else { return };
        for bones in [1, 52, 64, 65, 96, 97, 400] {
            let size = Size { vertices: 300, bones, influences: 4, frames: 6 };
            let name = format!("{bones} {form:?} bones");
            let plain = rigs::rigid(bones as u64, size);
            let model = GpuModel::lbs(&gpu, &plain).unwrap();
            assert_eq!(model.bones(), form);
            agrees(&model, &plain, &name, |pose| lbs_on_cpu(&plain, pose));
            let ddm = rigs::ddm(3, size, 0);
            for rig in Variant::ALL.map(|variant| ddm.with_variant(variant)).iter().chain([&rigs::ddm(4, size, 40)]) {
                agrees(&GpuModel::ddm(&gpu, rig).unwrap(), &rig.rig, &name, |pose| ddm_with_normals_f64(rig, pose));
            }
            let mut two = rigs::two_layer(2, size, 70);
            two.master = plain;
            agrees(&GpuModel::two_layer(&gpu, &two).unwrap(), &two.master, &name, |pose| two_layer_on_cpu(&two, pose));
        }
    }
}

/// Bones that scale evenly: by 0 too, where that leaves no rotation open.
#[test]
fn delta_mush_of_bones_that_scale() {
    for form in [Bones::Affine, Bones::Similar] {
        let Some(gpu) = gpu(&GpuOptions { bones: Some(form), ..GpuOptions::default() }) else { return };
        // Variant 1 inverts what it finds.
        for variant in [Variant::V0, Variant::V2, Variant::V3, Variant::V4, Variant::V5] {
            let mut rig = rigs::ddm(5, Size { vertices: 70, bones: 9, influences: 4, frames: 4 }, 0);
            for (j, m) in rig.rig.clips[0].posed_from_rest.iter_mut().enumerate() {
                let least = if variant == Variant::V0 { 0.25 } else { 0.0 };
                m.matrix3 *= [1.0, 0.5, 2.0, least, 1.5][j % 5];
            }
            let rig = rig.with_variant(variant);
            let name = format!("{variant:?} of scaled {form:?} bones");
            agrees(&GpuModel::ddm(&gpu, &rig).unwrap(), &rig.rig, &name, |pose| ddm_with_normals_f64(&rig, pose));
        }
    }
}

#[test]
fn two_layers_of_awkward_sizes() {
    let Some(gpu) = gpu(&GpuOptions::default()) else { return };
    for (seed, vertices) in AWKWARD.into_iter().enumerate() {
        for virtual_bones in [2, 33, 64, 300] {
            let rig =
                rigs::two_layer(seed as u64, Size { vertices, bones: 9, influences: 4, frames: 3 }, virtual_bones);
            let model = GpuModel::two_layer(&gpu, &rig).unwrap();
            assert_eq!(model.virtual_count(), virtual_bones);
            let name = format!("{vertices} vertices, {virtual_bones} virtual bones");
            agrees(&model, &rig.master, &name, |pose| two_layer_on_cpu(&rig, pose));
        }
    }
}

#[test]
fn delta_mush_of_all_variants_and_awkward_sizes() {
    let Some(gpu) = gpu(&GpuOptions::default()) else { return };
    for (seed, vertices) in AWKWARD.into_iter().enumerate() {
        let size = Size { vertices, bones: 11, influences: 6, frames: 3 };
        let full = rigs::ddm(seed as u64, size, 0);
        for variant in Variant::ALL {
            let rig = full.with_variant(variant);
            let model = GpuModel::ddm(&gpu, &rig).unwrap();
            let name = format!("{vertices} vertices, {variant:?}");
            agrees(&model, &rig.rig, &name, |pose| ddm_with_normals_f64(&rig, pose));
        }
        for virtual_bones in [1, 32, 65] {
            let rig = rigs::ddm(seed as u64, size, virtual_bones);
            let name = format!("{vertices} vertices, {virtual_bones} virtual bones");
            agrees(&GpuModel::ddm(&gpu, &rig).unwrap(), &rig.rig, &name, |pose| ddm_with_normals_f64(&rig, pose));
        }
    }
}

/// What `precompute` and `compress` make of a bar that bends and twists far, and far from the origin.
#[test]
fn delta_mush_of_a_bent_bar() {
    let Some(gpu) = gpu(&GpuOptions::default()) else { return };
    let bent = bar(3, &BarParams { bones: 4, bend: 1.5, twist: 2.0, jitter: 0.3, ..BarParams::default() });
    for by in [DVec3::ZERO, DVec3::new(300.0, -200.0, 100.0)] {
        let mut rig = bent.clone();
        let (there, back) = (DAffine3::from_translation(by), DAffine3::from_translation(-by));
        rig.rest.iter_mut().for_each(|p| *p = (p.as_dvec3() + by).as_vec3());
        rig.clips.iter_mut().flat_map(|clip| &mut clip.posed_from_rest).for_each(|m| *m = there * *m * back);
        let full = precompute(&rig, &DdmParams::default(), &DdmMaps::default(), &mut Silent).unwrap();
        let params = DdmCompressParams { virtual_bones: 20, ..DdmCompressParams::default() };
        let (small, _) = compress(&full, &params, &mut Silent).unwrap();
        let all = Variant::ALL.map(|variant| full.with_variant(variant));
        for rig in all.iter().chain([&small]) {
            let mut twisted = rig.clone();
            twisted.rig.clips.reverse();
            for rig in [rig, &twisted] {
                let name = format!("{:?} of {}", rig.variant, rig.rig.clips[0].name);
                agrees(&GpuModel::ddm(&gpu, rig).unwrap(), &rig.rig, &name, |pose| ddm_with_normals_f64(rig, pose));
            }
        }
    }
}

#[test]
fn a_million_vertices() {
    let Some(gpu) = gpu(&GpuOptions::default()) else { return };
    let size = Size { vertices: 1_000_000, bones: 40, influences: 4, frames: 1 };
    let rig = rigs::lbs(5, size);
    agrees(&GpuModel::lbs(&gpu, &rig).unwrap(), &rig, "linear blending", |pose| lbs_on_cpu(&rig, pose));
    let rig = rigs::two_layer(6, size, 2000);
    agrees(&GpuModel::two_layer(&gpu, &rig).unwrap(), &rig.master, "two layers", |pose| two_layer_on_cpu(&rig, pose));
    let delta_mush = |rig: &DdmRig, name: &str| {
        agrees(&GpuModel::ddm(&gpu, rig).unwrap(), &rig.rig, name, |pose| ddm_with_normals_f64(rig, pose));
    };
    let full = rigs::ddm(7, Size { influences: 3, ..size }, 0);
    Variant::ALL.into_iter().for_each(|variant| delta_mush(&full.with_variant(variant), &format!("{variant:?}")));
    delta_mush(&rigs::ddm(8, size, 200), "compressed");
}

/// What cannot be bound or counted at once takes several dispatches and gives the same.
#[test]
fn limits_split_the_work() {
    let options = GpuOptions { binding_bytes: Some(40_000), workgroups: Some(9), ..GpuOptions::default() };
    let Some(gpu) = gpu(&options) else { return };
    for vertices in [100, 1000, 4000] {
        let size = Size { vertices, bones: 20, influences: 5, frames: 23 };
        let rig = rigs::lbs(1, size);
        let batch = agrees(&GpuModel::lbs(&gpu, &rig).unwrap(), &rig, "split", |pose| lbs_on_cpu(&rig, pose));
        assert!(batch.dispatch_count() > 1, "{} dispatches", batch.dispatch_count());
        let rig = rigs::two_layer(2, size, 90);
        agrees(&GpuModel::two_layer(&gpu, &rig).unwrap(), &rig.master, "split", |pose| two_layer_on_cpu(&rig, pose));
        for variant in Variant::ALL {
            let rig = rigs::ddm(3, size, 0).with_variant(variant);
            agrees(&GpuModel::ddm(&gpu, &rig).unwrap(), &rig.rig, "split", |pose| ddm_with_normals_f64(&rig, pose));
        }
    }
}

/// Batches that end within a tile, a pair or a slice, and as many as a benchmark has.
#[test]
fn any_number_of_instances() {
    let Some(gpu) = gpu(&GpuOptions::default()) else { return };
    for frames in [1, 2, 31, 32, 33, 300, 5000] {
        let size = Size { vertices: 70, bones: 12, influences: 4, frames };
        let name = format!("{frames} instances");
        for rig in [rigs::lbs(1, size), rigs::rigid(1, size)] {
            let batch = agrees(&GpuModel::lbs(&gpu, &rig).unwrap(), &rig, &name, |pose| lbs_on_cpu(&rig, pose));
            // 4096 origins fit a uniform buffer, at most.
            assert_eq!(batch.dispatch_count() > 1, frames == 5000, "{name}: {}", batch.dispatch_count());
        }
        let rig = rigs::two_layer(2, size, 40);
        agrees(&GpuModel::two_layer(&gpu, &rig).unwrap(), &rig.master, &name, |pose| two_layer_on_cpu(&rig, pose));
        // Among more than these random matrices some have no clear rotation.
        let size = Size { frames: frames.min(300), ..size };
        for rig in [rigs::ddm(3, size, 0), rigs::ddm(4, size, 40)] {
            agrees(&GpuModel::ddm(&gpu, &rig).unwrap(), &rig.rig, &name, |pose| ddm_with_normals_f64(&rig, pose));
        }
    }
}

/// A rig as `fit` makes them, rigid bones.
#[test]
fn a_posed_body() {
    let Some(gpu) = gpu(&GpuOptions::default()) else { return };
    let rig = posed_rig(2, &PosedRigParams { bones: 12, frames: 6, ..PosedRigParams::default() }).rig;
    agrees(&GpuModel::lbs(&gpu, &rig).unwrap(), &rig, "posed body", |pose| lbs_on_cpu(&rig, pose));
}
