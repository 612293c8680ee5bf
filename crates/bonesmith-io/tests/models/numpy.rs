//! NumPy reads our archives and we read its own; see `tests/clients/numpy_check.py`.

use std::io::Write;
use std::path::Path;
use std::process::Command;

use bonesmith_core::MeshSequence;
use bonesmith_io::{LoadOptions, load_sequence, save_rig, save_sequence};

use crate::common;

/// A Python with NumPy: `$BONESMITH_PYTHON`, else `python3`, if it has it.
fn python() -> Option<String> {
    let python = std::env::var("BONESMITH_PYTHON").unwrap_or_else(|_| "python3".into());
    let has_numpy = Command::new(&python).args(["-c", "import numpy"]).output().is_ok_and(|out| out.status.success());
    if !has_numpy {
        let line = format!("SKIPPED: {python} has no NumPy (set BONESMITH_PYTHON)\n");
        let _ = std::io::stderr().write_all(line.as_bytes());
    }
    has_numpy.then_some(python)
}

#[test]
fn numpy_agrees() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let load = |name: &str| load_sequence(&[folder.path().join(name)], &LoadOptions::default()).unwrap();
    save_rig(&common::rig(), &folder.path().join("rig.npz")).unwrap();
    let posed = MeshSequence::try_from(load("rig.npz")).unwrap();
    save_sequence(&posed, &folder.path().join("posed.npz")).unwrap();

    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/clients/numpy_check.py");
    let out = Command::new(python).arg(script).arg(folder.path()).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));

    let foreign = load("foreign.npz");
    assert_eq!((foreign.name.as_str(), foreign.fps, foreign.frames.len()), ("foreign", 50.0, posed.frame_count()));
    for (t, frame) in foreign.frames.iter().enumerate() {
        assert_eq!(frame.positions, *posed.frame(t));
    }
    assert_eq!(foreign.surface.topology.corners(), posed.surface().topology.vertex_triangles().as_flattened());
}
