//! What a file should hold, from elsewhere.

use std::path::PathBuf;

use bonesmith_core::{RawFrame, RawSequence, Space, UpAxis};
use bonesmith_io::{LoadOptions, load_sequence};
use glam::Vec3;

use crate::common;

/// Truth is in Blender's axes.
pub const BLENDER: Space = Space { up: Some(UpAxis::Z), metres_per_unit: Some(1.0) };

/// A file of the data folder, if it is there.
pub fn file(name: &str) -> Option<PathBuf> {
    common::data().map(|data| data.join("files").join(name))
}

/// Reads an animation.
pub fn sequence(path: PathBuf, fps: Option<f64>) -> RawSequence {
    load_sequence(&[path], &LoadOptions { fps, ..LoadOptions::default() }).unwrap_or_else(|e| panic!("{e}"))
}

/// Largest distance over all frames, relative to the size of the truth, after `found` is turned from its own axes to
/// `axes`. Vertices are in the same order.
pub fn worst(found: &RawSequence, truth: &RawSequence, axes: &Space) -> f64 {
    assert_eq!(found.frames.len(), truth.frames.len(), "frames");
    let turn = axes.from_source(&found.surface.space);
    let all = || truth.frames[0].positions.iter().copied();
    let size = (all().fold(Vec3::MIN, Vec3::max) - all().fold(Vec3::MAX, Vec3::min)).length();
    let mut worst = 0.0f64;
    for (t, (a, b)) in found.frames.iter().zip(&truth.frames).enumerate() {
        assert_eq!(a.positions.len(), b.positions.len(), "vertices of frame {t}");
        for (p, q) in a.positions.iter().zip(&b.positions) {
            worst = worst.max(turn.transform_point3(p.as_dvec3()).distance(q.as_dvec3()));
        }
    }
    worst / f64::from(size)
}

/// A small file that lies beside the tests.
pub fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

/// What Blender said about one object of a fixture when it wrote it.
pub fn recorded(name: &str, object: &str) -> RawSequence {
    let text = std::fs::read_to_string(fixture(&format!("{name}.truth.json"))).unwrap();
    let recorded: serde_json::Value = serde_json::from_str(&text).unwrap();
    let frame = |frame: &serde_json::Value| RawFrame {
        positions: serde_json::from_value::<Vec<[f32; 3]>>(frame.clone())
            .unwrap()
            .into_iter()
            .map(Vec3::from)
            .collect(),
        ..RawFrame::default()
    };
    RawSequence {
        frames: recorded["meshes"][object].as_array().unwrap().iter().map(frame).collect(),
        times_secs: serde_json::from_value(recorded["secs"].clone()).unwrap(),
        ..RawSequence::default()
    }
}
