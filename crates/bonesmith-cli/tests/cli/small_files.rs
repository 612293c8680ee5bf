//! Small files that could ask for much: memory and processor time are bounded by the system while they are worked on.
#![cfg(target_os = "linux")]

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use bonesmith_core::{
    Bone, BoneKind, Clip, MeshSequence, RawFrame, RawSequence, Rig, SparseWeights, Surface, Topology,
};
use bonesmith_io::{save_rig, save_sequence};
use glam::{DAffine3, DVec3, Vec3};

use crate::harness::folder;

/// Runs the binary with at most so many megabytes of address space and seconds of processor time: exit code and messages.
fn bounded(folder: &Path, line: &str, megabytes: usize, seconds: usize) -> (Option<i32>, String) {
    let limited = format!(
        "ulimit -v {}; ulimit -t {seconds}; exec {} {line} -q --threads 2",
        1024 * megabytes,
        env!("CARGO_BIN_EXE_bonesmith")
    );
    let run = Command::new("sh").current_dir(folder).args(["-c", &limited]).output().expect("sh runs");
    (run.status.code(), String::from_utf8_lossy(&run.stderr).into_owned())
}

/// Bones side by side or, as a chain, one below the other; vertex i has the next `influences` bones from `i` on.
fn rig(vertices: usize, bones: usize, frames: usize, influences: usize, chain: bool) -> Rig {
    let bone = |j: usize| Bone {
        name: format!("b{j}"),
        parent: if chain { j.checked_sub(1) } else { None },
        world_from_bind: DAffine3::from_translation(DVec3::new(j as f64, 0.0, 0.0)),
        tip: None,
    };
    let mut weights = SparseWeights::new(vertices, influences);
    for i in 0..vertices {
        let slots: Vec<(usize, f64)> = (0..influences).map(|k| ((i + k) % bones, 1.0 + k as f64)).collect();
        weights.set(i, &slots);
    }
    let moved =
        |at: usize| DAffine3::from_translation(DVec3::new(0.0, 0.01 * ((at / bones) * (at % bones % 7)) as f64, 0.0));
    Rig {
        name: "many".into(),
        rest: (0..vertices).map(|i| Vec3::new(i as f32, (i % 3) as f32, (i % 5) as f32)).collect(),
        surface: Arc::new(Surface::default()),
        weights,
        bones: (0..bones).map(bone).collect(),
        kind: BoneKind::Rigid,
        clips: vec![Clip {
            name: "move".into(),
            times_secs: (0..frames).map(|t| t as f64 / 24.0).collect(),
            posed_from_rest: (0..frames * bones).map(moved).collect(),
        }],
        params_json: String::new(),
    }
}

/// Tables of all pairs of bones, of which there are too many: refused with the number, before the memory is asked for.
#[test]
fn compression_of_8000_bones_is_refused() {
    let dir = folder();
    save_rig(&rig(16_000, 8_000, 1, 2, false), &dir.path().join("many.npz")).unwrap();
    let (code, message) = bounded(dir.path(), "compress many.npz -o out.npz", 1000, 30);
    assert_eq!(code, Some(2), "{message}");
    assert!(message.contains("8000 bones") && message.contains("GiB"), "{message}");
}

/// 20,000 triangles about one vertex.
#[test]
fn a_fan_of_20_000_triangles_is_reduced_or_refused() {
    let dir = folder();
    let n = 20_001;
    let mut rig = rig(n, 8, 4, 6, false);
    let angle = |i: usize| i as f32 / (n - 1) as f32 * std::f32::consts::TAU;
    rig.rest =
        (0..n).map(|i| if i == 0 { Vec3::ZERO } else { Vec3::new(angle(i).cos(), angle(i).sin(), 0.0) }).collect();
    let mut topology = Topology::empty();
    (1..n as u32).for_each(|i| topology.push_face(&[0, i, i % (n as u32 - 1) + 1]));
    rig.surface = Arc::new(Surface { topology, ..Surface::default() });
    save_rig(&rig, &dir.path().join("fan.npz")).unwrap();
    for method in ["poisson", "smooth"] {
        let (code, message) =
            bounded(dir.path(), &format!("reduce fan.npz --influences 2 --method {method} -o out.npz"), 1000, 30);
        assert_eq!(code, Some(2), "{method}: {message}");
        assert!(message.contains("vertex 0 has 20000 neighbours"), "{method}: {message}");
    }
    for method in ["geometric", "k-largest", "bonesmith"] {
        let (code, message) =
            bounded(dir.path(), &format!("reduce fan.npz --influences 2 --method {method} -o out.npz"), 1000, 30);
        assert_eq!(code, Some(0), "{method}: {message}");
    }
}

/// A skeleton's method that has a bone for each part.
#[test]
fn thousands_of_loose_triangles_are_refused_as_bones() {
    let dir = folder();
    let parts = 7_000;
    let position = |v: usize, t: usize| {
        let (part, corner) = (v / 3, v % 3);
        let at = Vec3::new((part % 83) as f32, (part / 83) as f32, (t * (part % 5)) as f32 * 0.1);
        at + 0.5 * [Vec3::ZERO, Vec3::X, Vec3::Y][corner]
    };
    let frame = |t| RawFrame { positions: (0..3 * parts).map(|v| position(v, t)).collect(), ..RawFrame::default() };
    let mut topology = Topology::empty();
    (0..parts as u32).for_each(|part| topology.push_face(&[3 * part, 3 * part + 1, 3 * part + 2]));
    let raw = RawSequence {
        name: "loose".into(),
        rest: None,
        frames: (0..4).map(frame).collect(),
        times_secs: (0..4).map(|t| t as f64 / 24.0).collect(),
        fps: 0.0,
        surface: Surface { topology, ..Surface::default() },
        clips: Vec::new(),
    };
    save_sequence(&MeshSequence::try_from(raw).unwrap(), &dir.path().join("loose.npz")).unwrap();
    let line = "fit loose.npz --skeleton --skeleton-method schaefer -o out.npz";
    let (code, message) = bounded(dir.path(), line, 1000, 30);
    assert_eq!(code, Some(2), "{message}");
    assert!(message.contains("7000 parts"), "{message}");
}

/// 2,048 bones and 300 frames are 59 MB of matrices.
#[test]
fn writing_many_bones_as_fbx_takes_a_few_times_their_size() {
    let dir = folder();
    save_rig(&rig(4_096, 2_048, 300, 2, false), &dir.path().join("many.npz")).unwrap();
    let (code, message) = bounded(dir.path(), "convert many.npz out.fbx", 500, 60);
    assert_eq!(code, Some(0), "{message}");
}

/// Each bone is found from its parent, not from the root.
#[test]
fn a_chain_of_65_536_bones_is_read_in_no_time() {
    let dir = folder();
    save_rig(&rig(65_536, 65_536, 1, 1, true), &dir.path().join("chain.glb")).unwrap();
    let (code, message) = bounded(dir.path(), "info chain.glb", 1000, 10);
    assert_eq!(code, Some(0), "{message}");
}
