//! Files for the outside judges in `tests/clients`, with what we say they look like, in glTF's axes and metres.

use std::path::PathBuf;

use bonesmith_core::deform::lbs;
use bonesmith_core::{Rig, Space};
use bonesmith_io::save_rig;
use glam::Vec3;
use serde_json::json;

/// `$BONESMITH_JUDGE_DIR`, or a folder under the target folder.
pub fn folder() -> PathBuf {
    let folder = match std::env::var_os("BONESMITH_JUDGE_DIR") {
        Some(folder) => PathBuf::from(folder),
        None => PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("judges"),
    };
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// `NAME.json` beside the file of that name.
pub fn write_reference(name: &str, fps: f64, space: &Space, rest: &[Vec3], frames: &[(usize, Vec<Vec3>)]) {
    let turn = Space::GLTF.from_source(space);
    let list = |positions: &[Vec3]| {
        positions.iter().map(|p| turn.transform_point3(p.as_dvec3()).to_array()).collect::<Vec<_>>()
    };
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

/// A rig by its name, with some frames of its first clip.
pub fn write_rig(rig: &Rig, ending: &str) {
    save_rig(rig, &folder().join(format!("{}.{ending}", rig.name))).unwrap();
    let clip = &rig.clips[0];
    let pose = |t: usize| (t, lbs(&rig.rest, &rig.weights, clip.frame(t)));
    let frames: Vec<_> = some_frames(clip.frame_count()).into_iter().map(pose).collect();
    // The judge sets the scene to whole frames per second: clips here start at 0 and keep one rate.
    let fps = 1.0 / (clip.times_secs[1] - clip.times_secs[0]);
    write_reference(&rig.name, fps, &rig.surface.space, &rig.rest, &frames);
}
