//! Real files against truth from elsewhere; skipped, loudly, without the data folder.

use std::path::Path;

use bonesmith_core::deform::lbs;
use bonesmith_core::{MeshSequence, Model, RawSequence, Space, UpAxis};
use bonesmith_io::{LoadOptions, list_meshes, load_model, load_rig, load_sequence};
use glam::Vec3;

use crate::common::{data, truth};

fn sequence(path: &Path, options: &LoadOptions) -> RawSequence {
    load_sequence(&[path.to_owned()], options).unwrap()
}

fn size(rest: &[Vec3]) -> f32 {
    let low = rest.iter().copied().fold(Vec3::INFINITY, Vec3::min);
    (rest.iter().copied().fold(Vec3::NEG_INFINITY, Vec3::max) - low).length()
}

/// [F, N] positions of a `.truth.npz`.
fn truth_frames(path: &Path) -> Vec<Vec<Vec3>> {
    let (shape, values) = truth::array(path, "positions");
    let frame = |values: &[f32]| values.as_chunks::<3>().0.iter().map(|p| Vec3::from_array(*p)).collect();
    values.chunks(shape[1] * 3).map(frame).collect()
}

/// Largest distance over all frames, relative to the size.
fn worst(found: &RawSequence, truth: &[Vec<Vec3>]) -> f32 {
    assert_eq!(found.frames.len(), truth.len(), "frames");
    let pairs = found.frames.iter().zip(truth);
    let frame = |(f, t): (&bonesmith_core::RawFrame, &Vec<Vec3>)| {
        assert_eq!(f.positions.len(), t.len());
        f.positions.iter().zip(t).map(|(p, q)| p.distance(*q)).fold(0.0, f32::max)
    };
    pairs.map(frame).fold(0.0, f32::max) / size(&truth[0])
}

#[test]
fn softbody_is_its_truth() {
    let Some(data) = data() else { return };
    let path = data.join("files/softbody.usdc");
    let found = sequence(&path, &LoadOptions::default());
    let error = worst(&found, &truth_frames(&data.join("files/softbody.truth.npz")));
    println!("softbody.usdc: {error:e} of the size");
    assert!(error < 1e-5, "{error}");
    assert_eq!(found.surface.topology.face_count(), 1968);
    assert_eq!(found.surface.uv_sets.len(), 1);
    assert_eq!(found.surface.uv_sets[0].name, "st");
    assert!(found.surface.normals.is_some());
    assert_eq!(found.surface.space, Space { up: Some(UpAxis::Z), metres_per_unit: Some(1.0) });
    assert!((found.times_secs[0] - 1.0 / 24.0).abs() < 1e-12 && (found.times_secs[59] - 2.5).abs() < 1e-12);
    for name in ["Suzanne", "softbody", "/root/softbody/Suzanne"] {
        let options = LoadOptions { mesh: Some(name.into()), ..LoadOptions::default() };
        assert_eq!(sequence(&path, &options).frames.len(), 60, "{name}");
    }
    let options = LoadOptions { mesh: Some("nobody".into()), ..LoadOptions::default() };
    let message = load_sequence(std::slice::from_ref(&path), &options).unwrap_err().to_string();
    assert!(message.contains("Suzanne"), "{message}");
    assert_eq!(list_meshes(&path).unwrap()[0].vertices, 2012);
    // Twice the rate: every other frame is one of the file's.
    let fine = sequence(&path, &LoadOptions { fps: Some(48.0), ..LoadOptions::default() });
    assert_eq!(fine.frames.len(), 119);
    assert_eq!(fine.frames[2].positions, found.frames[1].positions);
    MeshSequence::try_from(found).unwrap();
}

#[test]
fn character_is_its_truth() {
    let Some(data) = data() else { return };
    let path = data.join("files/character_skel.usdc");
    let found = sequence(&path, &LoadOptions::default());
    let truth = truth_frames(&data.join("files/character.truth.npz"));
    let error = worst(&found, &truth);
    println!("character_skel.usdc: {error:e} of the size");
    assert!(error < 1e-5, "{error}");
    let Model::Corrective(whole) = load_model(std::slice::from_ref(&path), &LoadOptions::default()).unwrap() else {
        panic!("no rig with shapes")
    };
    assert!(!whole.shapes.is_empty());
    let rig = load_rig(&path).unwrap();
    assert_eq!((rig.bone_count(), rig.clips.len()), (12, 1));
    assert_eq!(rig.clips[0].name, "rigAction");
    let head = rig.bones.iter().find(|b| b.name == "head").unwrap();
    assert_eq!(rig.bones[head.parent.unwrap()].name, "neck");
    // As a rig it lacks the shape keys, which move the head and the belly; elsewhere it is exact.
    let posed = lbs(&rig.rest, &rig.weights, rig.clips[0].frame(40));
    let same = |(p, q): &(&Vec3, &Vec3)| p.distance(**q) < 1e-5 * size(&rig.rest);
    let found = posed.iter().zip(&truth[40]).filter(same).count();
    assert!(found > posed.len() / 3, "{found} of {} vertices", posed.len());
    assert_eq!(load_rig(&path).unwrap().bone_count(), 12);
}
