//! Files for the outside judges in `tests/clients`: each `NAME.usdc` (or `.usda`, `.usdz`) with what we say it looks like
//! in `NAME.usd.json`. They go to `$BONESMITH_JUDGE_DIR`, or under the target folder.

use std::path::PathBuf;

use bonesmith_core::deform::lbs;
use bonesmith_core::{BoneKind, CorrectiveRig, MeshSequence, RawFrame, RawSequence, Rig, Space, UpAxis};
use bonesmith_io::{BlendShape, save_model, save_rig, save_sequence};
use glam::Vec3;
use serde_json::json;

use crate::rigs::{self, Recipe};

fn folder() -> PathBuf {
    let folder = match std::env::var_os("BONESMITH_JUDGE_DIR") {
        Some(folder) => PathBuf::from(folder),
        None => PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("judges"),
    };
    let folder = folder.join("usd");
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// Positions in the file's own axes and units; `bones`: how many joints are bones, for files with a skeleton.
fn write_reference(file: &str, fps: f64, space: Space, rest: &[Vec3], frames: &[(f64, Vec<Vec3>)], bones: usize) {
    let list = |positions: &[Vec3]| positions.iter().map(|p| p.to_array()).collect::<Vec<_>>();
    let frames: Vec<_> = frames.iter().map(|(t, p)| json!({ "secs": t, "positions": list(p) })).collect();
    let up = if space.up == Some(UpAxis::Z) { "Z" } else { "Y" };
    let reference = json!({
        "fps": fps, "up": up, "metres_per_unit": space.metres_per_unit.unwrap_or(1.0), "bones": bones,
        "rest": list(rest), "frames": frames,
    });
    std::fs::write(folder().join(format!("{file}.json")), reference.to_string()).unwrap();
}

/// First, last and some frames between.
fn some_frames(count: usize) -> Vec<usize> {
    let mut frames = vec![0, 1, count / 3, count / 2, count - 1];
    frames.dedup();
    frames
}

fn write_rig(rig: &Rig, ending: &str) {
    let file = format!("{}.{ending}", rig.name);
    save_rig(rig, &folder().join(&file)).unwrap();
    let clip = &rig.clips[0];
    let pose = |t: usize| (clip.times_secs[t], lbs(&rig.rest, &rig.weights, clip.frame(t)));
    let frames: Vec<_> = some_frames(clip.frame_count()).into_iter().map(pose).collect();
    write_reference(&file, 24.0, rig.surface.space, &rig.rest, &frames, rig.bone_count());
}

#[test]
fn rigs_for_the_judges() {
    for (at, rig) in rigs::all().iter().enumerate() {
        write_rig(rig, ["usdc", "usda", "usdz"][at % 3]);
    }
    let mut rig = Recipe { chained: true, seams: true, ..Recipe::new("z_up_centimetres", BoneKind::Affine) }.build();
    let space = Space { up: Some(UpAxis::Z), metres_per_unit: Some(0.01) };
    std::sync::Arc::make_mut(&mut rig.surface).space = space;
    write_rig(&rig, "usda");
}

#[test]
fn a_point_cache_for_the_judges() {
    for (ending, name) in [("usda", "cache_text"), ("usdc", "cache_binary"), ("usdz", "cache_archive")] {
        let rig = Recipe { frames: 10, seams: true, ..Recipe::new(name, BoneKind::Affine) }.build();
        let frame =
            |t| RawFrame { positions: lbs(&rig.rest, &rig.weights, rig.clips[0].frame(t)), ..RawFrame::default() };
        let raw = RawSequence {
            name: name.into(),
            rest: Some(RawFrame { positions: rig.rest.clone(), ..RawFrame::default() }),
            frames: (0..10).map(frame).collect(),
            fps: 24.0,
            surface: (*rig.surface).clone(),
            ..RawSequence::default()
        };
        let sequence = MeshSequence::try_from(raw).unwrap();
        let file = format!("{name}.{ending}");
        save_sequence(&sequence, &folder().join(&file)).unwrap();
        let frames: Vec<_> =
            some_frames(10).into_iter().map(|t| (t as f64 / 24.0, sequence.frame(t).to_vec())).collect();
        write_reference(&file, 24.0, Space::default(), sequence.rest(), &frames, 0);
    }
}

#[test]
fn blend_shapes_for_the_judges() {
    let rig = Recipe { frames: 9, chained: true, ..Recipe::new("blend_shapes", BoneKind::Rigid) }.build();
    let offset =
        |i: usize, s: f32| Vec3::new(0.0, s * (i % 5) as f32 * 0.05, if i.is_multiple_of(3) { 0.2 * s } else { 0.0 });
    let shape = |name: &str, s: f32| BlendShape {
        name: name.into(),
        offsets: (0..rig.vertex_count()).map(|i| offset(i, s)).collect(),
        weights: vec![(0..9).map(|t| (t as f32 * s).sin()).collect()],
    };
    let shapes = [shape("up", 1.0), shape("down", -0.7)];
    let shaped = CorrectiveRig { rig: rig.clone(), shapes: shapes.to_vec() };
    save_model(&shaped, &folder().join("blend_shapes.usdc")).unwrap();
    let pose = |t: usize| {
        let shaped = |i: usize| shapes.iter().fold(rig.rest[i], |p, shape| p + shape.weights[0][t] * shape.offsets[i]);
        let rest: Vec<Vec3> = (0..rig.vertex_count()).map(shaped).collect();
        (t as f64 / 24.0, lbs(&rest, &rig.weights, rig.clips[0].frame(t)))
    };
    let frames: Vec<_> = some_frames(9).into_iter().map(pose).collect();
    write_reference("blend_shapes.usdc", 24.0, Space::default(), &rig.rest, &frames, rig.bone_count());
}
