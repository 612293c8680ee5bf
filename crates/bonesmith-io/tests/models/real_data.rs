//! Third-party files, against their truth.

use std::path::PathBuf;

use bonesmith_core::{MeshSequence, RawSequence};
use bonesmith_io::{Format, LoadOptions, detect, load_rest, load_sequence};

use crate::common;

fn load(paths: &[PathBuf]) -> RawSequence {
    load_sequence(paths, &LoadOptions::default()).unwrap_or_else(|e| panic!("{e}"))
}

fn assert_same_frames(a: &RawSequence, b: &RawSequence) {
    assert_eq!(a.frames.len(), b.frames.len());
    for (t, (a, b)) in a.frames.iter().zip(&b.frames).enumerate() {
        assert_eq!(a.positions, b.positions, "frame {t}");
    }
}

#[test]
fn every_npz_sequence_is_sound() {
    let Some(data) = common::data() else { return };
    let known = [("chickenCrossing", 400, 3030), ("horse-gallop", 48, 8431), ("gt_fox", 129, 290)];
    for (name, frames, vertices) in known {
        let sequence = MeshSequence::try_from(load(&[data.join(format!("sequences/{name}.npz"))])).unwrap();
        assert_eq!((sequence.frame_count(), sequence.vertex_count(), sequence.name()), (frames, vertices, name));
        assert!(sequence.surface().topology.face_count() > 0);
    }
    for entry in std::fs::read_dir(data.join("sequences")).unwrap() {
        MeshSequence::try_from(load(&[entry.unwrap().path()])).unwrap();
    }
}

#[test]
fn horse_poses_come_in_natural_order_with_their_rest() {
    let Some(data) = common::data() else { return };
    let truth = load(&[data.join("sequences/horse-poses.npz")]);
    let folder = data.join("files/horse-poses");
    let list = ["10", "REST_horse-poses", "9", "1", "2"].map(|n| folder.join(format!("{n}.obj"))).to_vec();
    for inputs in [vec![folder.clone()], vec![folder.join("*.obj")], list] {
        let objs = load(&inputs);
        let labels: Vec<&str> = objs.frames.iter().map(|frame| frame.label.as_str()).collect();
        assert_eq!(labels, ["1.obj", "2.obj", "9.obj", "10.obj"]);
        for (frame, t) in objs.frames.iter().zip([0, 1, 8, 9]) {
            assert_eq!(frame.positions, truth.frames[t].positions, "{}", frame.label);
        }
        assert_eq!(objs.rest.as_ref().unwrap().positions, truth.rest.as_ref().unwrap().positions);
        assert_eq!(objs.surface.topology, truth.surface.topology);
        assert_eq!(objs.name, "horse-poses");
        MeshSequence::try_from(objs).unwrap();
    }
    let rest = load_rest(&folder.join("REST_horse-poses.obj")).unwrap();
    assert_eq!(rest.positions, truth.rest.unwrap().positions);
}

#[test]
fn point_caches_are_the_simulated_cloth() {
    let Some(data) = common::data() else { return };
    let file = |name: &str| data.join("files").join(name);
    let truth = load(&[file("cloth.truth.npz")]);
    assert_eq!((truth.frames.len(), truth.fps), (60, 24.0));
    let inputs = [
        vec![file("cloth.pc2"), file("cloth_rest.obj")],
        vec![file("cloth_rest.obj"), file("cloth.mdd")],
        vec![file("cloth.mdd")],
    ];
    for input in inputs {
        let cloth = load(&input);
        assert_same_frames(&cloth, &truth);
        assert_eq!(cloth.surface.topology, truth.surface.topology);
        let sequence = MeshSequence::try_from(cloth).unwrap();
        for (t, secs) in sequence.times_secs().iter().enumerate() {
            assert!((secs - t as f64 / 24.0).abs() < 1e-6, "frame {t} at {secs}");
        }
    }
}

#[test]
fn formats_are_detected_from_content() {
    let Some(data) = common::data() else { return };
    let folder = tempfile::tempdir().unwrap();
    let known = [
        ("cloth.pc2", Format::Pc2),
        ("cloth.mdd", Format::Mdd),
        ("cloth_rest.obj", Format::Obj),
        ("cloth.truth.npz", Format::Npz),
        ("Fox.glb", Format::Glb),
        ("cloth.abc", Format::Alembic),
        ("character.fbx", Format::Fbx),
    ];
    for (name, format) in known {
        let nameless = folder.path().join("nameless");
        std::fs::copy(data.join("files").join(name), &nameless).unwrap();
        assert_eq!(detect(&nameless).unwrap(), format);
        std::fs::remove_file(nameless).unwrap();
    }
}
