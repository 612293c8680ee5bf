//! Alembic caches of Blender and Maya.

use bonesmith_core::{MeshSequence, RawSequence};
use bonesmith_io::{LoadOptions, list_meshes, load_sequence};

use crate::truth::{BLENDER, file, fixture, sequence, told, worst};

#[test]
fn caches_equal_their_truth() {
    let cases = [
        ("cloth", "Grid", 60, 4225, true),
        ("softbody", "Suzanne", 60, 2012, true),
        ("character", "character", 72, 9314, false),
        ("dembones/Bone_Anim", "BoneShape", 400, 754, false),
    ];
    for (name, mesh, frames, vertices, has_uvs) in cases {
        let Some(path) = file(&format!("{name}.abc")) else { return };
        let truth = sequence(path.with_extension("truth.npz"), None);
        let found = sequence(path.clone(), None);
        let off = worst(&found, &truth, &BLENDER);
        assert!(off < 1e-6, "{name}: {off:e}");
        // Some of the truth has triangles only.
        let triangles = |topology: &bonesmith_core::Topology| topology.vertex_triangles();
        assert_eq!(triangles(&found.surface.topology), triangles(&truth.surface.topology), "{name}");
        assert_eq!((found.surface.uv_sets.len(), found.name.as_str()), (usize::from(has_uvs), mesh), "{name}");
        let entries = list_meshes(&path).unwrap();
        assert_eq!(entries.iter().map(|e| (e.name.as_str(), e.vertices)).collect::<Vec<_>>(), [(mesh, vertices)]);
        let sequence = MeshSequence::try_from(found).unwrap();
        assert_eq!((sequence.frame_count(), sequence.vertex_count()), (frames, vertices));
        let step = (sequence.times_secs()[frames - 1] - sequence.times_secs()[0]) / (frames - 1) as f64;
        assert!((step - 1.0 / 24.0).abs() < 1e-9, "{name}: {step}");
    }
}

#[test]
fn normals_point_outwards() {
    let Some(path) = file("softbody.abc") else { return };
    let found = sequence(path, None);
    let normals = found.surface.normals.as_ref().unwrap();
    let rest = &found.frames[0].positions;
    let mut along = 0;
    let faces = found.surface.topology.face_count();
    for f in 0..faces {
        let corners = found.surface.topology.corner_range(f);
        let face = found.surface.topology.face(f);
        let [a, b, c] = [0, 1, 2].map(|k| rest[face[k] as usize]);
        let normal = normals.values[normals.indices[corners.start] as usize];
        along += usize::from((b - a).cross(c - a).dot(normal.into()) > 0.0);
    }
    assert!(along * 100 > faces * 99, "{along} of {faces} faces agree with their normals");
}

#[test]
fn a_mesh_that_is_not_there_is_told_with_those_that_are() {
    let Some(path) = file("cloth.abc") else { return };
    let load = |mesh: &str| {
        load_sequence(std::slice::from_ref(&path), &LoadOptions { mesh: Some(mesh.into()), ..LoadOptions::default() })
    };
    assert!(load("Grid").is_ok());
    let message = load("cape").unwrap_err().to_string();
    assert!(message.contains("\"cape\"") && message.contains("Grid"), "{message}");
}

fn one(path: &str, mesh: &str) -> RawSequence {
    let options = LoadOptions { mesh: Some(mesh.into()), ..LoadOptions::default() };
    load_sequence(&[fixture(path)], &options).unwrap()
}

/// Two meshes under transforms that move, one of them moving by itself; samples at whole and broken frames.
#[test]
fn animated_transforms_are_baked() {
    for (name, frames) in [("turntable", 5), ("turntable_half_frames", 10)] {
        for object in ["cube", "cone"] {
            let (found, truth) = (one(&format!("{name}.abc"), object), told(name, object));
            assert_eq!((found.frames.len(), found.times_secs.len()), (frames, frames), "{name}");
            for (a, b) in found.times_secs.iter().zip(&truth.times_secs) {
                assert!((a - b).abs() < 1e-9, "{name}: {:?} {:?}", found.times_secs, truth.times_secs);
            }
            let off = worst(&found, &truth, &BLENDER);
            assert!(off < 1e-6, "{name}, {object}: {off:e}");
            MeshSequence::try_from(found).unwrap();
        }
    }
}

/// Transforms four times a frame, points once: points are mixed between their samples.
#[test]
fn samples_at_different_times_meet() {
    for object in ["cube", "cone"] {
        let name = "turntable_mixed_times";
        let (mut found, mut truth) = (one("turntable_mixed_times.abc", object), told(name, object));
        assert_eq!(found.frames.len(), truth.frames.len());
        // Behind the last sample of the points there is nothing to mix with.
        found.frames.truncate(17);
        truth.frames.truncate(17);
        let off = worst(&found, &truth, &BLENDER);
        assert!(off < 1e-6, "{object}: {off:e}");
    }
}

#[test]
fn several_meshes_are_listed_and_merged() {
    let path = fixture("turntable.abc");
    let mut listed: Vec<(String, usize)> =
        list_meshes(&path).unwrap().into_iter().map(|e| (e.name, e.vertices)).collect();
    listed.sort();
    assert_eq!(listed, [("Cone".to_owned(), 6), ("Cube".to_owned(), 8)]);
    let all = sequence(path, None);
    assert!(all.frames.iter().all(|frame| frame.positions.len() == 14));
    assert_eq!((all.surface.topology.face_count(), all.name.as_str()), (12, "turntable"));
    let count = |name: &str| {
        let at = all.surface.materials.iter().position(|m| m.name == name).unwrap() as u32;
        all.surface.face_materials.iter().filter(|m| **m == at).count()
    };
    assert_eq!((count("red"), count("blue"), count("none")), (5, 1, 6));
    MeshSequence::try_from(all).unwrap();
}
