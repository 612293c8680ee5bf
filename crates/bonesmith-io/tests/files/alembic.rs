//! Alembic caches of Blender and Maya.

use bonesmith_core::{MeshSequence, RawSequence, UpAxis};
use bonesmith_io::{LoadOptions, list_meshes, load_sequence, save_sequence};

use crate::judges;
use crate::truth::{BLENDER, file, fixture, recorded, sequence, worst};

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
fn a_mesh_that_is_not_there_is_reported_with_those_that_are() {
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
            let (found, truth) = (one(&format!("{name}.abc"), object), recorded(name, object));
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
        let (mut found, mut truth) = (one("turntable_mixed_times.abc", object), recorded(name, object));
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

fn through(sequence: &MeshSequence) -> RawSequence {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.abc");
    save_sequence(sequence, &path).unwrap();
    load_sequence(&[path], &LoadOptions::default()).unwrap()
}

/// Positions to the bit, faces, texture coordinates and materials' names; even times, and times of their own.
#[test]
fn what_we_write_we_read_back() {
    let sequence = crate::common::sequence(5);
    let back = through(&sequence);
    for t in 0..5 {
        assert_eq!(back.frames[t].positions, *sequence.frame(t));
        assert!((back.times_secs[t] - sequence.times_secs()[t]).abs() < 1e-7);
    }
    let (a, b) = (sequence.surface(), &back.surface);
    assert_eq!(a.topology, b.topology);
    for (uv, again) in a.uv_sets.iter().zip(&b.uv_sets) {
        assert_eq!((&uv.values, &uv.indices), (&again.values, &again.indices));
    }
    let names = |s: &bonesmith_core::Surface| -> Vec<String> {
        s.face_materials.iter().map(|m| s.materials[*m as usize].name.clone()).collect()
    };
    assert_eq!(names(b), ["shiny \"é\"", "material", "shiny \"é\""]);
    let one = through(&crate::common::sequence(1));
    assert_eq!(one.frames.len(), 1);

    let mut raw = sequence_of(300);
    raw.times_secs = (0..300).map(|t| (t * t) as f64 * 0.01 - 3.0).collect();
    let odd = MeshSequence::try_from(raw).unwrap();
    let back = through(&odd);
    assert_eq!((back.frames.len(), back.times_secs.as_slice()), (300, odd.times_secs()));
}

fn sequence_of(frames: usize) -> RawSequence {
    let frame = |t| bonesmith_core::RawFrame { positions: crate::common::pose(t), ..Default::default() };
    RawSequence { frames: (0..frames).map(frame).collect(), surface: crate::common::surface(), ..Default::default() }
}

#[test]
fn caches_for_the_judges() {
    let mut raw = crate::fbx::baked(&crate::rigs::Recipe::new("abc_tube", Default::default()).build());
    for (name, up) in [("abc_y_up", UpAxis::Y), ("abc_z_up", UpAxis::Z)] {
        raw.name = name.into();
        raw.surface.space.up = Some(up);
        let sequence = MeshSequence::try_from(raw.clone()).unwrap();
        save_sequence(&sequence, &judges::folder().join(format!("{name}.abc"))).unwrap();
        let frames = judges::some_frames(sequence.frame_count());
        let frames: Vec<_> = frames.into_iter().map(|t| (t, sequence.frame(t).to_vec())).collect();
        judges::write_reference(name, 24.0, &raw.surface.space, sequence.rest(), &frames);
    }
}
