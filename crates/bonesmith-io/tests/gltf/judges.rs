//! Files for the outside judges in `tests/clients`: each `NAME.glb` with what we say it looks like in `NAME.json`.
//!
//! They go to `$BONESMITH_JUDGE_DIR`, or under the target folder.

use std::path::PathBuf;

use bonesmith_core::compress::{TwoLayerParams, TwoLayerSize, compress};
use bonesmith_core::corrective::eigenskin;
use bonesmith_core::deform::lbs;
use bonesmith_core::fit::{BoneCount, FitParams};
use bonesmith_core::methods::fit;
use bonesmith_core::synthetic::{PosedRigParams, posed_rig};
use bonesmith_core::{BoneKind, MeshSequence, RawFrame, RawSequence, Rig, Silent};
use bonesmith_io::{save_model, save_rig, save_sequence};
use glam::Vec3;
use serde_json::json;

use crate::rigs;

pub fn folder() -> PathBuf {
    let folder = match std::env::var_os("BONESMITH_JUDGE_DIR") {
        Some(folder) => PathBuf::from(folder),
        None => PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("judges"),
    };
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

pub fn write_reference(name: &str, fps: f64, rest: &[Vec3], frames: &[(usize, Vec<Vec3>)]) {
    let list = |positions: &[Vec3]| positions.iter().map(|p| p.to_array()).collect::<Vec<_>>();
    let frames: Vec<_> = frames.iter().map(|(t, p)| json!({ "frame": t, "positions": list(p) })).collect();
    let reference = json!({ "fps": fps.round() as u32, "rest": list(rest), "frames": frames });
    std::fs::write(folder().join(format!("{name}.json")), reference.to_string()).unwrap();
}

/// First, last and some frames between.
pub fn some_frames(count: usize) -> Vec<usize> {
    let mut frames = vec![0, 1, count / 3, count / 2, count - 1];
    frames.dedup();
    frames
}

fn write_rig(rig: &Rig) {
    save_rig(rig, &folder().join(format!("{}.glb", rig.name))).unwrap();
    let clip = &rig.clips[0];
    let pose = |t: usize| (t, lbs(&rig.rest, &rig.weights, clip.frame(t)));
    let frames: Vec<_> = some_frames(clip.frame_count()).into_iter().map(pose).collect();
    // The judge sets the scene to whole frames per second: clips here start at 0 and keep one rate.
    let fps = 1.0 / (clip.times_secs[1] - clip.times_secs[0]);
    write_reference(&rig.name, fps, &rig.rest, &frames);
}

#[test]
fn rigs_for_the_judges() {
    rigs::all().iter().for_each(write_rig);
    let seams = rigs::Recipe { seams: true, ..rigs::Recipe::new("two_files", Default::default()) }.build();
    save_rig(&seams, &folder().join("two_files.gltf")).unwrap();
    let mut points = rigs::Recipe::new("points", Default::default()).build();
    points.surface = Default::default();
    save_rig(&points, &folder().join("points.glb")).unwrap();
}

#[test]
fn a_morph_animation_for_the_judges() {
    let rig = rigs::Recipe { frames: 10, seams: true, ..rigs::Recipe::new("morph", Default::default()) }.build();
    let frame = |t| RawFrame { positions: lbs(&rig.rest, &rig.weights, rig.clips[0].frame(t)), ..RawFrame::default() };
    let raw = RawSequence {
        name: "morph".into(),
        rest: Some(RawFrame { positions: rig.rest.clone(), ..RawFrame::default() }),
        frames: (0..10).map(frame).collect(),
        fps: 24.0,
        surface: (*rig.surface).clone(),
        ..RawSequence::default()
    };
    let sequence = MeshSequence::try_from(raw).unwrap();
    save_sequence(&sequence, &folder().join("morph.glb")).unwrap();
    let frames: Vec<_> = some_frames(10).into_iter().map(|t| (t, sequence.frame(t).to_vec())).collect();
    write_reference("morph", 24.0, sequence.rest(), &frames);
}

#[test]
fn two_layers_for_the_judges() {
    let params =
        PosedRigParams { bones: 6, influences: 6, kind: BoneKind::Affine, frames: 8, softness: 0.5, detail: 2 };
    let dense = Rig { name: "two_layer_runtime".into(), ..posed_rig(4, &params).rig };
    let params = TwoLayerParams { size: TwoLayerSize::VirtualBones(40), ..TwoLayerParams::default() };
    let two = compress(&dense, None, &params, &mut Silent).unwrap().rig;
    write_rig(&Rig { name: "two_layer_baked".into(), ..two.bake() });
    // Blender does not know the extension: it shows the single-layer weights.
    write_rig(&two.master);
    save_model(&two, &folder().join("two_layer_runtime.glb")).unwrap();
}

#[test]
fn corrective_shapes_for_the_judges() {
    let params = PosedRigParams { frames: 12, detail: 2, ..PosedRigParams::default() };
    let known = posed_rig(6, &params);
    let sequence = MeshSequence::try_from(known.sequence).unwrap();
    let fit_params = FitParams { bones: BoneCount::Exact(3), ..FitParams::default() };
    let rig = Rig { name: "eigenskin".into(), ..fit(&sequence, &fit_params, &mut Silent).unwrap().rig };
    let shaped = eigenskin(&rig, &sequence, 4, &mut Silent).unwrap();
    save_model(&shaped, &folder().join("eigenskin.glb")).unwrap();
    let frames: Vec<_> = some_frames(12).into_iter().map(|t| (t, shaped.posed(0, t))).collect();
    let fps = 1.0 / (rig.clips[0].times_secs[1] - rig.clips[0].times_secs[0]);
    write_reference("eigenskin", fps, &rig.rest, &frames);
}
