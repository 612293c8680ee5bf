//! Odd but sound animations give a sound rig.

use bonesmith_core::synthetic::awkward;
use bonesmith_core::{MeshSequence, RawSequence, Surface, metrics};

use crate::harness::{bonesmith, folder, write_npz, write_objs};

/// As OBJ files, through the fit, to each format, and measured from there.
#[test]
fn awkward_meshes_are_fitted() {
    for (name, raw) in awkward::all() {
        let dir = folder();
        write_objs(&raw, &dir.path().join("in"));
        let sequence = MeshSequence::try_from(RawSequence { rest: None, ..raw.clone() }).unwrap();
        let still = metrics::compare(&sequence, |_| sequence.rest().to_vec()).e_rms;
        for (kind, ending) in [("rigid", "glb"), ("affine", "npz"), ("trs", "gltf")] {
            let line = format!("fit -q in --bones 2 --bone-kind {kind} -o out.{ending} --json -");
            let summary = bonesmith(dir.path(), &line).fine().json();
            let e_rms = summary["e_rms"].as_f64().unwrap_or(f64::NAN);
            // Bones that do nothing leave the motion itself.
            assert!(e_rms <= still + 1e-3, "{name} {kind}: E_RMS {e_rms}, {still} without any bones");
            assert_eq!(summary["vertices"], raw.frames[0].positions.len(), "{name} {kind}");
            assert_eq!(summary["frames"], raw.frames.len(), "{name} {kind}");
        }
        bonesmith(dir.path(), "info out.glb").fine();
    }
}

#[test]
fn no_motion_is_exact_and_said_so() {
    let dir = folder();
    write_npz(awkward::no_motion(), &dir.path().join("still.npz"));
    let run = bonesmith(dir.path(), "fit still.npz -o out.glb --json out.json").fine();
    assert!(run.stderr.contains("warning: nothing moves"), "{}", run.stderr);
    let summary: serde_json::Value =
        serde_json::from_slice(&std::fs::read(dir.path().join("out.json")).unwrap()).unwrap();
    assert!(summary["e_rms"].as_f64().unwrap() < 1e-3, "{summary}");
    assert!(summary["warnings"].as_array().unwrap().iter().any(|w| w["kind"] == "no-motion"));
}

/// Points without faces have no normals: the table says so, and the fit goes on.
#[test]
fn points_without_faces_are_fitted_without_normals() {
    let dir = folder();
    let raw = RawSequence { surface: Surface::default(), ..awkward::bending_tube() };
    write_npz(raw, &dir.path().join("points.npz"));
    let run = bonesmith(dir.path(), "fit points.npz --bones 4 -o out.glb").fine();
    assert!(run.stdout.contains("normals     none"), "{}", run.stdout);
}

/// frame_10 comes after frame_9, and the clock follows --fps.
#[test]
fn obj_files_are_read_in_natural_order() {
    let dir = folder();
    let mut raw = awkward::bending_tube();
    let last = raw.frames[9].clone();
    raw.frames.extend([last.clone(), last]);
    write_objs(&raw, &dir.path().join("in"));
    let summary = bonesmith(dir.path(), "info -q in --fps 30 --json -").fine().json();
    assert_eq!((summary["frames"].as_u64(), summary["polygons"].as_u64()), (Some(12), Some(0)));
    assert!((summary["times"]["fps"].as_f64().unwrap() - 30.0).abs() < 1e-9);
    write_npz(raw, &dir.path().join("truth.npz"));
    bonesmith(dir.path(), "fit -q in --bones 8 --bone-kind affine -o rig.npz").fine();
    let summary = bonesmith(dir.path(), "eval -q rig.npz truth.npz --json -").fine().json();
    assert!(summary["e_rms"].as_f64().unwrap() < 5.0, "{}", summary["e_rms"]);
}
