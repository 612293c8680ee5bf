//! What a fit finds, and that it finds the same again.

use bonesmith_core::BoneKind;
use bonesmith_core::synthetic::{PosedRigParams, posed_rig};

use crate::harness::{bonesmith, folder, walk, write_npz};

/// Pose a known affine rig, fit, get its error back: almost none.
#[test]
fn a_known_affine_rig_is_recovered() {
    let dir = folder();
    let params =
        PosedRigParams { kind: BoneKind::Affine, bones: 5, frames: 30, softness: 0.25, ..PosedRigParams::default() };
    for seed in 0..5 {
        write_npz(posed_rig(seed, &params).sequence, &dir.path().join("walk.npz"));
        let line =
            "fit -q walk.npz --bones 5 --bone-kind affine --tolerance 0 --max-iterations 1000 -o rig.npz --json -";
        let summary = bonesmith(dir.path(), line).fine().json();
        assert!(summary["e_rms"].as_f64().unwrap() < 0.1, "seed {seed}: E_RMS {}", summary["e_rms"]);
    }
}

#[test]
fn threads_do_not_change_a_byte() {
    let dir = folder();
    walk(dir.path());
    let bytes = |threads: usize, ending: &str| {
        let out = format!("out_{threads}.{ending}");
        bonesmith(dir.path(), &format!("fit -q walk.npz --bones 4 --threads {threads} -o {out}")).fine();
        std::fs::read(dir.path().join(out)).unwrap()
    };
    for ending in ["glb", "npz"] {
        let single = bytes(1, ending);
        assert!(single == bytes(2, ending), "2 threads give another .{ending}");
        assert!(single == bytes(1, ending), "a second run gives another .{ending}");
    }
}

/// The error of the file, not of the solver's own numbers: eval of the written file agrees to the last digit.
#[test]
fn figures_are_those_of_the_file() {
    let dir = folder();
    walk(dir.path());
    for (ending, kind) in [("glb", "rigid"), ("gltf", "affine"), ("npz", "trs")] {
        let fit = format!("fit -q walk.npz --bones 4 --bone-kind {kind} -o out.{ending} --json -");
        let fitted = bonesmith(dir.path(), &fit).fine().json();
        let measured = bonesmith(dir.path(), &format!("eval -q out.{ending} walk.npz --json -")).fine().json();
        for key in ["e_rms", "max_error", "rmse_percent", "normal_degrees", "bones", "influences", "vertices", "frames"]
        {
            assert_eq!(fitted[key], measured[key], "{ending}: {key}");
        }
        assert_eq!(measured["params"]["fit"]["bone_kind"], kind, "parameters are stored in the file");
    }
}

#[test]
fn target_error_reached_is_0_and_missed_is_1() {
    let dir = folder();
    walk(dir.path());
    let reached = bonesmith(dir.path(), "fit -q walk.npz --target-error 60 -o out.npz --json -").fine().json();
    assert!(reached["e_rms"].as_f64().unwrap() <= 60.0 * 1.001);
    let line = "fit walk.npz --target-error 1e-9 --bone-kind affine --max-iterations 5 -o missed.npz --json -";
    let missed = bonesmith(dir.path(), line);
    assert_eq!(missed.code, Some(1), "{}", missed.stderr);
    assert!(missed.stderr.contains("warning: target missed: an E_RMS"), "{}", missed.stderr);
    assert_eq!(missed.json()["warnings"].as_array().unwrap().last().unwrap()["kind"], "target-missed");
    assert!(dir.path().join("missed.npz").exists(), "the best there is was written");
}

/// The published method runs with its own defaults.
#[test]
fn fsd_has_fifteen_rounds_of_affine_bones() {
    let dir = folder();
    walk(dir.path());
    // Fewer bones than the animation has: no round is the last by being exact.
    let summary = bonesmith(dir.path(), "fit -q walk.npz --method fsd --bones 2 -o out.glb --json -").fine().json();
    assert_eq!((&summary["method"], &summary["bone_kind"]), (&"fsd".into(), &"affine".into()));
    assert_eq!((&summary["iterations"], &summary["stop"]), (&15.into(), &"max-iterations".into()));
}

#[test]
fn more_than_four_influences_are_warned_about_in_glb() {
    let dir = folder();
    let params = PosedRigParams { bones: 8, influences: 8, ..PosedRigParams::default() };
    write_npz(posed_rig(5, &params).sequence, &dir.path().join("walk.npz"));
    let run = |out: &str| bonesmith(dir.path(), &format!("fit walk.npz --bones 8 --influences 8 -o {out}")).fine();
    assert!(run("out.glb").stderr.contains("three.js"));
    assert!(!run("out.npz").stderr.contains("three.js"));
}
