//! Rigid pieces as nodes: no skin, every vertex where the animation has it.

use bonesmith_core::fit::FitParams;
use bonesmith_core::methods::fit;
use bonesmith_core::synthetic::pieces::{WallParams, wall};
use bonesmith_core::{MeshSequence, Rig, Silent};
use bonesmith_io::{LoadOptions, load_sequence, piece_order, save_pieces, with_warnings};
use glam::{DVec3, Vec3};

use crate::judges::{folder, some_frames, write_reference};

const WALL: WallParams =
    WallParams { columns: 6, rows: 4, frames: 14, split: false, welded: false, standing: 0.2, gap: 0.1 };

fn fitted(params: &WallParams) -> (MeshSequence, Rig) {
    let sequence = MeshSequence::try_from(wall(params)).unwrap();
    let rig = fit(&sequence, &FitParams::default(), &mut Silent).unwrap().rig;
    (sequence, rig)
}

/// Largest distance of the file's vertices from the animation.
fn worst(sequence: &MeshSequence, rig: &Rig, path: &std::path::Path) -> f32 {
    let read = load_sequence(&[path.to_owned()], &LoadOptions::default()).unwrap();
    assert_eq!((read.frames.len(), read.times_secs.len()), (sequence.frame_count(), sequence.frame_count()));
    let order = piece_order(rig).unwrap();
    let apart = |t: usize| {
        assert_eq!(read.frames[t].positions.len(), order.len());
        let pairs = order.iter().zip(&read.frames[t].positions);
        pairs.map(|(&i, p)| p.distance(sequence.frame(t)[i as usize])).fold(0.0, f32::max)
    };
    (0..sequence.frame_count()).map(apart).fold(0.0, f32::max)
}

#[test]
fn pieces_come_back_where_they_were() {
    let folder = tempfile::tempdir().unwrap();
    for (name, params) in [("plain.glb", WALL), ("split.gltf", WallParams { split: true, ..WALL })] {
        let (sequence, rig) = fitted(&params);
        let path = folder.path().join(name);
        save_pieces(&rig, &path).unwrap();
        assert!(worst(&sequence, &rig, &path) < 1e-5, "{name}: {}", worst(&sequence, &rig, &path));
    }
    let (_, rig) = fitted(&WALL);
    let path = folder.path().join("plain.gltf");
    save_pieces(&rig, &path).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    assert!(json.get("skins").is_none());
    let with_mesh = json["nodes"].as_array().unwrap().iter().filter(|node| node.get("mesh").is_some());
    let names: Vec<&str> = with_mesh.map(|node| node["name"].as_str().unwrap()).collect();
    assert_eq!((names.len(), names[0]), (rig.bone_count(), "piece_0001"));
}

#[test]
fn pieces_for_the_judges() {
    let (sequence, mut rig) = fitted(&WALL);
    rig.name = "pieces".into();
    save_pieces(&rig, &folder().join("pieces.glb")).unwrap();
    let frames: Vec<(usize, Vec<Vec3>)> =
        some_frames(sequence.frame_count()).into_iter().map(|t| (t, sequence.frame(t).to_vec())).collect();
    write_reference("pieces", 24.0, sequence.rest(), &frames);
}

#[test]
fn far_away_and_in_other_formats() {
    let folder = tempfile::tempdir().unwrap();
    let mut raw = wall(&WALL);
    let offset = DVec3::new(3e4, -2e4, 1e4).as_vec3();
    raw.frames.iter_mut().for_each(|frame| frame.positions.iter_mut().for_each(|p| *p += offset));
    let sequence = MeshSequence::try_from(raw).unwrap();
    let rig = fit(&sequence, &FitParams::default(), &mut Silent).unwrap().rig;
    let path = folder.path().join("far.glb");
    save_pieces(&rig, &path).unwrap();
    // What float32 can hold so far from the origin.
    assert!(worst(&sequence, &rig, &path) < 0.01, "{}", worst(&sequence, &rig, &path));
    let refused = save_pieces(&rig, &folder.path().join("far.npz")).unwrap_err().to_string();
    assert!(refused.contains(".glb"), "{refused}");
}

#[test]
fn faces_between_pieces_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.glb");
    let (_, rig) = fitted(&WallParams { welded: true, standing: 0.0, ..WALL });
    let (saved, warnings) = with_warnings(|| save_pieces(&rig, &path));
    saved.unwrap();
    assert!(warnings.len() == 1 && warnings[0].to_string().contains("faces between pieces"), "{warnings:?}");
}
