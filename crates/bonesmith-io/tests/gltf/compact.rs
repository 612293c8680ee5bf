//! Small files: within their bound, with or without the numbers of the source's vertices.

use std::sync::Arc;

use bonesmith_core::deform::lbs;
use bonesmith_core::mesh::surface::CornerAttribute;
use bonesmith_core::{BoneKind, Rig, SparseWeights};
use bonesmith_io::{
    Compact, CompactFile, Packing, bytes_by_part, file_bytes, is_compressed, load_rig, save_compact, save_rig,
};
use glam::Vec3;
use serde_json::Value;

use crate::rigs::Recipe;

/// Root mean square per coordinate between the poses of two rigs.
fn rms(a: &Rig, b: &Rig) -> f64 {
    assert_eq!((a.vertex_count(), a.clips.len()), (b.vertex_count(), b.clips.len()));
    let (mut sum, mut count) = (0.0, 0usize);
    for (clip, other) in a.clips.iter().zip(&b.clips) {
        assert_eq!(clip.times_secs.len(), other.times_secs.len(), "{}", clip.name);
        for (t, (secs, again)) in clip.times_secs.iter().zip(&other.times_secs).enumerate() {
            assert!((secs - again).abs() < 1e-6, "{secs} {again}");
            let (p, q) = (lbs(&a.rest, &a.weights, clip.frame(t)), lbs(&b.rest, &b.weights, other.frame(t)));
            sum += p.iter().zip(&q).map(|(p, q)| f64::from(p.distance_squared(*q))).sum::<f64>();
            count += 3 * p.len();
        }
    }
    (sum / count as f64).sqrt()
}

/// A rig in the order of a file that was written from it.
fn in_file_order(rig: &Rig, file: &CompactFile) -> Rig {
    let Some(order) = &file.order else { return rig.clone() };
    let mut sorted = order.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, (0..rig.vertex_count() as u32).collect::<Vec<_>>());
    let mut weights = SparseWeights::new(rig.vertex_count(), rig.weights.slots());
    for (at, &v) in order.iter().enumerate() {
        let row: Vec<(usize, f64)> = rig.weights.of(v as usize).map(|(j, w)| (j, f64::from(w))).collect();
        weights.set(at, &row);
    }
    Rig { rest: order.iter().map(|&v| rig.rest[v as usize]).collect(), weights, ..rig.clone() }
}

const PACKINGS: [Packing; 3] = [Packing::Ext, Packing::Khr, Packing::Plain];

fn small(rms: f64, packing: Packing) -> Compact {
    Compact { rms, packing, numbered: false }
}

fn recipes() -> Vec<Rig> {
    let plain = [BoneKind::Rigid, BoneKind::Trs, BoneKind::Affine].map(|kind| Recipe::new("plain", kind).build());
    let seams = Recipe { seams: true, ..Recipe::new("seams", BoneKind::Rigid) }.build();
    plain.into_iter().chain([seams]).collect()
}

/// Each mesh has the weights of its own vertices.
#[test]
fn scenes_of_several_meshes_keep_the_bound() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("small.glb");
    let scene = crate::common::scene();
    for packing in PACKINGS {
        for bound in [1e-2, 1e-4] {
            let file = save_compact(&scene, &path, &Compact { rms: bound, packing, numbered: true }).unwrap();
            let read = load_rig(&path).unwrap();
            let found = rms(&in_file_order(&scene, &file), &read);
            assert!(found <= bound * 1.01 + 1e-6, "{packing:?} {bound}: {found}");
            assert_eq!(read.surface.parts.meshes.len(), 3);
        }
    }
}

#[test]
fn the_bound_holds_on_the_file_and_the_file_is_smaller() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("small.glb");
    for rig in recipes() {
        save_rig(&rig, &path).unwrap();
        let whole = file_bytes(&path);
        let size = rig.rest.iter().map(|p| p.length()).fold(0.0, f32::max);
        for packing in PACKINGS {
            let mut last = u64::MAX;
            for share in [1e-5, 1e-3, 1e-2] {
                let compact = small(share * f64::from(size), packing);
                let file = save_compact(&rig, &path, &compact).unwrap();
                let back = load_rig(&path).unwrap();
                let found = rms(&in_file_order(&rig, &file), &back);
                let bytes = file_bytes(&path);
                let what = format!("{} {:?} {share} {packing:?}: {found:e}, {bytes} bytes", rig.name, rig.kind);
                assert!(found <= 1.02 * compact.rms, "{what}");
                // Steps and keys are whole: a wider bound may take a few bytes more.
                assert!(
                    bytes <= whole && bytes <= last.saturating_add(last / 50),
                    "{what}, {last} before, {whole} plain"
                );
                last = bytes;
                assert_eq!(back.surface.topology.face_count(), rig.surface.topology.face_count());
            }
        }
    }
}

#[test]
fn weights_sum_to_one_as_stored() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("small.glb");
    let rig = Recipe::new("weights", BoneKind::Rigid).build();
    save_compact(&rig, &path, &small(1e-2, Packing::Ext)).unwrap();
    let back = load_rig(&path).unwrap();
    for i in 0..back.vertex_count() {
        let sum: f64 = back.weights.of(i).map(|(_, w)| f64::from(w)).sum();
        assert!((sum - 1.0).abs() < 1e-6, "vertex {i}: {sum}");
    }
}

#[test]
fn a_pose_without_motion_and_a_bound_of_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("small.glb");
    let mut rig = Recipe::new("still", BoneKind::Rigid).build();
    let bones = rig.bone_count();
    for clip in &mut rig.clips {
        clip.times_secs.truncate(1);
        clip.posed_from_rest.truncate(bones);
    }
    for packing in PACKINGS {
        for rms in [0.0, 1e-3, 1e6] {
            save_compact(&rig, &path, &small(rms, packing)).unwrap();
            assert_eq!(load_rig(&path).unwrap().vertex_count(), rig.vertex_count());
        }
    }
    rig.clips.clear();
    save_compact(&rig, &path, &small(1e-3, Packing::Ext)).unwrap();
    assert_eq!(load_rig(&path).unwrap().clips.len(), 0);
}

#[test]
fn numbers_keep_the_order_of_vertices() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("small.glb");
    for rig in recipes() {
        let compact = Compact { numbered: true, ..small(1e-3, Packing::Ext) };
        assert_eq!(save_compact(&rig, &path, &compact).unwrap().order, None);
        let numbered = file_bytes(&path);
        assert!(rms(&rig, &load_rig(&path).unwrap()) <= 1.02 * compact.rms);
        save_compact(&rig, &path, &small(1e-3, Packing::Ext)).unwrap();
        assert!(file_bytes(&path) <= numbered);
    }
}

#[test]
fn bytes_are_counted_by_part() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("small.glb");
    let rig = Recipe::new("parts", BoneKind::Rigid).build();
    save_rig(&rig, &path).unwrap();
    let whole = bytes_by_part(&path);
    assert_eq!(whole["positions"], 12 * rig.vertex_count() as u64);
    // Beside the parts: headers of the container, and padding.
    let all: u64 = whole.values().sum();
    assert!(file_bytes(&path).abs_diff(all) < 64, "{all} of {}", file_bytes(&path));
    let file = save_compact(&rig, &path, &small(1e-2, Packing::Ext)).unwrap();
    let parts = bytes_by_part(&path);
    assert!(parts["positions"] < whole["positions"] && parts["weights"] < whole["weights"]);
    assert!((file.shares.iter().map(|(_, share)| share).sum::<f64>() - 1.0).abs() < 1e-9);
}

fn json_of(path: &std::path::Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

#[test]
fn free_bones_have_parents_in_the_file_only() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("small.gltf");
    let mut rig = Recipe { bones: 8, frames: 60, ..Recipe::new("free", BoneKind::Rigid) }.build();
    // All bones follow one far motion: relative to each other they move little.
    for clip in &mut rig.clips {
        let bones = rig.bones.len();
        for (t, frame) in clip.posed_from_rest.chunks_mut(bones).enumerate() {
            let swing =
                glam::DAffine3::from_rotation_y(0.3 * t as f64) * glam::DAffine3::from_rotation_z(0.2 * t as f64);
            frame.iter_mut().for_each(|bone| *bone = swing * *bone);
        }
    }
    let compact = Compact { numbered: true, ..small(1e-3, Packing::Ext) };
    save_compact(&rig, &path, &compact).unwrap();
    let json = json_of(&path);
    let below = |node: &Value| node["children"].as_array().map_or(0, Vec::len);
    let joints = json["skins"][0]["joints"].as_array().unwrap();
    let nested: usize = joints.iter().map(|j| below(&json["nodes"][j.as_u64().unwrap() as usize])).sum();
    assert!(nested >= 6, "{nested} of 8 joints are below others");
    let back = load_rig(&path).unwrap();
    assert!(back.bones.iter().all(|bone| bone.parent.is_none()));
    assert!(rms(&rig, &back) <= 1.02 * compact.rms);
    // A skeleton keeps its own parents.
    let chained = Recipe { chained: true, ..Recipe::new("chain", BoneKind::Rigid) }.build();
    save_compact(&chained, &path, &compact).unwrap();
    let parents = |rig: &Rig| rig.bones.iter().map(|bone| bone.parent).collect::<Vec<_>>();
    assert_eq!(parents(&load_rig(&path).unwrap()), parents(&chained));
}

#[test]
fn texture_coordinates_are_kept_where_a_material_has_a_picture() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("small.gltf");
    let mut rig = Recipe { seams: true, ..Recipe::new("seams", BoneKind::Rigid) }.build();
    let compact = Compact { numbered: true, ..small(1e-3, Packing::Ext) };
    for pictures in [true, false] {
        if !pictures {
            let surface = std::sync::Arc::make_mut(&mut rig.surface);
            surface.materials.iter_mut().for_each(|material| material.textures = Default::default());
            surface.images.clear();
        }
        save_compact(&rig, &path, &compact).unwrap();
        let back = load_rig(&path).unwrap();
        assert_eq!(back.surface.uv_sets.len(), if pictures { 2 } else { 0 });
        assert!(rms(&rig, &back) <= 1.02 * compact.rms);
        assert!(is_compressed(&path));
        // Two primitives, one view for an attribute of both.
        let json = json_of(&path);
        assert_eq!(json["meshes"][0]["primitives"].as_array().unwrap().len(), 2);
        let view = |p: usize| {
            let accessor = json["meshes"][0]["primitives"][p]["attributes"]["POSITION"].as_u64().unwrap();
            json["accessors"][accessor as usize]["bufferView"].as_u64().unwrap()
        };
        assert_eq!(view(0), view(1));
    }
    save_rig(&rig, &path).unwrap();
    assert!(!is_compressed(&path));
}

/// [N] a normal of each vertex.
fn vertex_normals(rig: &Rig) -> Vec<Vec3> {
    let normals = rig.surface.normals.as_ref().unwrap();
    let mut of_vertices = vec![Vec3::ZERO; rig.vertex_count()];
    for (&v, &n) in rig.surface.topology.faces().flatten().zip(&normals.indices) {
        of_vertices[v as usize] = Vec3::from_array(normals.values[n as usize]);
    }
    of_vertices
}

/// Streaks on glossy surfaces are no part of the error, so the bound has no say.
#[test]
fn normals_are_fine_with_any_bound() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("small.glb");
    let mut rig = Recipe::new("normals", BoneKind::Rigid).build();
    let values = rig.rest.iter().map(|p| p.normalize_or(Vec3::Y).to_array()).collect();
    let indices = rig.surface.topology.faces().flatten().copied().collect();
    Arc::make_mut(&mut rig.surface).normals = Some(CornerAttribute { name: String::new(), values, indices });
    let size = f64::from(rig.rest.iter().map(|p| p.length()).fold(0.0, f32::max));
    for share in [1e-6, 1e-2] {
        save_compact(&rig, &path, &Compact { numbered: true, ..small(share * size, Packing::Ext) }).unwrap();
        let back = load_rig(&path).unwrap();
        let angle = |(n, m): (&Vec3, &Vec3)| n.angle_between(*m).to_degrees();
        let worst = vertex_normals(&rig).iter().zip(&vertex_normals(&back)).map(angle).fold(0.0, f32::max);
        assert!(worst < 0.8, "{share}: {worst} degrees");
    }
}

#[test]
fn joints_are_numbered_for_the_file_only() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("small.gltf");
    for chained in [true, false] {
        let rig = Recipe { bones: 9, chained, ..Recipe::new("order", BoneKind::Rigid) }.build();
        save_compact(&rig, &path, &Compact { numbered: true, ..small(1e-4, Packing::Ext) }).unwrap();
        let json = json_of(&path);
        let mut numbers: Vec<u64> = (json["skins"][0]["extras"]["bonesmith"]["bones"].as_array().unwrap().iter())
            .map(|number| number.as_u64().unwrap())
            .collect();
        let back = load_rig(&path).unwrap();
        let names = |rig: &Rig| rig.bones.iter().map(|bone| bone.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&back), names(&rig));
        assert!(rms(&rig, &back) <= 1.02e-4);
        numbers.sort_unstable();
        assert_eq!(numbers, (0..9).collect::<Vec<u64>>());
    }
}

/// Readers that do not know the new extension must not take the file for one of the old.
#[test]
fn the_successor_is_named_and_shorter() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("small.gltf");
    let rig = Recipe { frames: 40, ..Recipe::new("khr", BoneKind::Rigid) }.build();
    let bytes = [(Packing::Ext, "EXT_meshopt_compression"), (Packing::Khr, "KHR_meshopt_compression")].map(
        |(packing, name)| {
            save_compact(&rig, &path, &small(1e-3, packing)).unwrap();
            let json = json_of(&path);
            let required: Vec<&str> =
                json["extensionsRequired"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
            assert!(
                required.contains(&name) && required.iter().filter(|own| own.contains("meshopt")).count() == 1,
                "{required:?}"
            );
            assert!(is_compressed(&path));
            file_bytes(&path)
        },
    );
    assert!(bytes[1] < bytes[0], "{bytes:?}");
}

/// A vertex between two bones that are far apart needs finer steps than others.
#[test]
fn no_vertex_is_left_behind() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("small.glb");
    let mut rig = Recipe { frames: 24, ..Recipe::new("far", BoneKind::Rigid) }.build();
    let bones = rig.bones.len();
    for clip in &mut rig.clips {
        for (t, frame) in clip.posed_from_rest.chunks_mut(bones).enumerate() {
            // Two bones that swing against each other, far from where they are.
            for (j, side) in [(0, 1.0), (1, -1.0)] {
                frame[j] = glam::DAffine3::from_rotation_z(side * 0.4 * (t as f64 * 0.3).sin());
                frame[j].translation = glam::DVec3::new(side * 40.0 * (t as f64 * 0.2).sin(), 0.0, 0.0);
            }
        }
    }
    for packing in [Packing::Ext, Packing::Khr] {
        let compact = small(2e-3, packing);
        let file = save_compact(&rig, &path, &compact).unwrap();
        let (own, back) = (in_file_order(&rig, &file), load_rig(&path).unwrap());
        assert!(rms(&own, &back) <= 1.02 * compact.rms);
        let clip = &own.clips[0];
        let mut squares = vec![0.0; own.vertex_count()];
        for t in 0..clip.frame_count() {
            let posed = lbs(&own.rest, &own.weights, clip.frame(t));
            let again = lbs(&back.rest, &back.weights, back.clips[0].frame(t));
            squares
                .iter_mut()
                .zip(posed.iter().zip(&again))
                .for_each(|(sum, (p, q))| *sum += f64::from(p.distance_squared(*q)));
        }
        let worst = squares.iter().copied().fold(0.0, f64::max) / (3 * clip.frame_count()) as f64;
        assert!(worst.sqrt() <= 6.0 * compact.rms, "{packing:?}: {:e}", worst.sqrt());
    }
}

/// Without streams: fewer keys and rounded numbers, all frames read again.
#[test]
fn usd_and_fbx_have_fewer_keys_and_all_frames() {
    let folder = tempfile::tempdir().unwrap();
    let mut rig = Recipe { bones: 5, frames: 60, ..Recipe::new("keys", BoneKind::Rigid) }.build();
    // Slow, so that lines are near.
    let bones = rig.bones.len();
    for clip in &mut rig.clips {
        for (t, frame) in clip.posed_from_rest.chunks_mut(bones).enumerate() {
            let swing = |j: usize| glam::DAffine3::from_rotation_y(0.2 * (t as f64 * 0.05 + j as f64).sin());
            frame.iter_mut().enumerate().for_each(|(j, bone)| *bone = swing(j));
        }
    }
    for ending in ["usda", "usdc", "usdz", "fbx"] {
        let [plain, path] = ["plain", "small"].map(|name| folder.path().join(format!("{name}.{ending}")));
        save_rig(&rig, &plain).unwrap();
        let compact = small(5e-3, Packing::Ext);
        save_compact(&rig, &path, &compact).unwrap();
        let found = rms(&rig, &load_rig(&path).unwrap());
        assert!(found <= 2.0 * compact.rms && found > 0.0, "{ending}: {found:e}");
        assert!(
            file_bytes(&path) < file_bytes(&plain) * 9 / 10,
            "{ending}: {} of {}",
            file_bytes(&path),
            file_bytes(&plain)
        );
    }
}
