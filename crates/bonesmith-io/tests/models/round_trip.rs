//! Save, load, compare.

use std::path::Path;

use bonesmith_core::deform::lbs;
use bonesmith_core::{MeshSequence, Model, Rig};
use bonesmith_io::{LoadOptions, load_model, load_rig, load_sequence, save_rig, save_sequence};

use crate::common;

fn reload(sequence: &MeshSequence, path: &Path) -> MeshSequence {
    save_sequence(sequence, path).unwrap();
    MeshSequence::try_from(load_sequence(&[path.to_owned()], &LoadOptions::default()).unwrap()).unwrap()
}

#[test]
fn an_npz_rig_comes_back_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rig.npz");
    let mut rig = common::rig();
    rig.check().unwrap();
    for case in 0..3 {
        match case {
            0 => {}
            1 => rig.clips.clear(),
            _ => (rig.params_json, rig.surface) = (String::new(), Default::default()),
        }
        save_rig(&rig, &path).unwrap();
        common::assert_same_rig(&load_rig(&path).unwrap(), &rig);
        assert!(matches!(load_model(std::slice::from_ref(&path), &LoadOptions::default()).unwrap(), Model::Rig(_)));
    }
}

#[test]
fn an_npz_sequence_comes_back_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let sequence = common::sequence(5);
    let again = reload(&sequence, &folder.path().join("sequence.npz"));
    assert_eq!(again.name(), sequence.name());
    assert_eq!(again.rest(), sequence.rest());
    assert_eq!(again.times_secs(), sequence.times_secs());
    assert_eq!(again.surface(), sequence.surface());
    for t in 0..5 {
        assert_eq!(again.frame(t), sequence.frame(t));
    }
}

#[test]
fn a_rig_stands_in_for_its_sequence() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rig.npz");
    let rig = common::rig();
    save_rig(&rig, &path).unwrap();
    let posed = load_sequence(&[path], &LoadOptions::default()).unwrap();
    // All its clips, end to end, as of every other format.
    let frames: usize = rig.clips.iter().map(|clip| clip.frame_count()).sum();
    assert_eq!((posed.frames.len(), &posed.times_secs[..4]), (frames, &rig.clips[0].times_secs[..]));
    assert!(posed.times_secs.is_sorted_by(|a, b| a < b));
    assert_eq!(posed.frames[3].positions, lbs(&rig.rest, &rig.weights, rig.clips[0].frame(3)));
}

/// Tangents of every corner, in the formats that have a place for them.
#[test]
fn tangents_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let rig = common::rig();
    let on_corners = |rig: &Rig| -> Vec<[f32; 4]> {
        let tangents = rig.surface.tangents.as_ref().expect("tangents");
        tangents.indices.iter().map(|&at| tangents.values[at as usize]).collect()
    };
    for ending in ["npz", "glb", "gltf", "fbx"] {
        let path = folder.path().join(format!("rig.{ending}"));
        save_rig(&rig, &path).unwrap();
        assert_eq!(on_corners(&load_rig(&path).unwrap()), on_corners(&rig), "{ending}");
    }
}

#[test]
fn the_same_rig_gives_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = |name: &str| {
        let path = folder.path().join(name);
        save_rig(&common::rig(), &path).unwrap();
        std::fs::read(path).unwrap()
    };
    assert_eq!(bytes("a.npz"), bytes("b.npz"));
}
