//! Files of other programs, end to end.

use std::io::Write;
use std::path::PathBuf;

use crate::harness::{bonesmith, folder, known, obj, walk, write_objs};

/// The sample animation that comes with Dem Bones, if it is there.
fn bone_anim() -> Option<PathBuf> {
    let beside = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let data = std::env::var_os("BONESMITH_DATA").map_or_else(beside, PathBuf::from);
    let path = data.join("files/dembones/Bone_Anim.abc");
    if path.exists() {
        return Some(path.canonicalize().unwrap());
    }
    // Straight to the stream: the test harness would swallow `eprintln!` of a test that passes.
    let _ = writeln!(std::io::stderr(), "SKIPPED: {} is not there (set BONESMITH_DATA)", path.display());
    None
}

/// The job that Dem Bones ships with: Alembic in, 20 bones, FBX out. Its own best is an E_RMS of 1.00.
#[test]
fn the_sample_job_of_dem_bones() {
    let Some(animation) = bone_anim() else { return };
    let dir = folder();
    let line = format!("fit {} --bones 20 -o bone.fbx -q --json -", animation.display());
    let made = bonesmith(dir.path(), &line).fine().json();
    assert_eq!((made["bones"].as_u64(), made["influences"].as_u64()), (Some(20), Some(4)));
    assert!(made["e_rms"].as_f64().unwrap() < 1.0, "{}", made["e_rms"]);
    let line = format!("eval bone.fbx {} --json -", animation.display());
    let seen = bonesmith(dir.path(), &line).fine().json();
    assert!((seen["e_rms"].as_f64().unwrap() - made["e_rms"].as_f64().unwrap()).abs() < 1e-3, "{seen}");
    // Blender looks at it too (tests/clients), beside the rig as we read it back.
    let Some(judged) = std::env::var_os("BONESMITH_JUDGE_DIR").map(PathBuf::from) else { return };
    bonesmith(dir.path(), "convert bone.fbx bone.npz -q").fine();
    for name in ["bone.fbx", "bone.npz"] {
        std::fs::copy(dir.path().join(name), judged.join(format!("dembones_{name}"))).unwrap();
    }
}

/// A missing texture is reported once, before the work, and in the summary; not with --quiet.
#[test]
fn what_is_not_preserved_is_reported() {
    let dir = folder();
    let raw = known(bonesmith_core::BoneKind::Rigid).sequence;
    write_objs(&raw, &dir.path().join("walk"));
    let first = dir.path().join("walk/frame_0.obj");
    let painted = obj(&raw, 0).replacen("f ", "vt 0 0\nmtllib a.mtl\nusemtl skin\nf ", 1);
    let painted = painted.lines().map(|line| match line.strip_prefix("f ") {
        Some(corners) => format!("f {}\n", corners.split(' ').map(|v| format!("{v}/1 ")).collect::<String>().trim()),
        None => format!("{line}\n"),
    });
    std::fs::write(&first, painted.collect::<String>()).unwrap();
    std::fs::write(dir.path().join("walk/a.mtl"), "newmtl skin\nmap_Kd gone.png\n").unwrap();
    let warning_lines =
        |text: &str| text.lines().filter(|l| l.starts_with("warning: ")).map(str::to_owned).collect::<Vec<_>>();
    let fitted = bonesmith(dir.path(), "fit walk --bones 3 --effort fast -o walk.glb --json -").fine();
    let lines = warning_lines(&fitted.stderr);
    assert!(lines.len() == 1 && lines[0].contains("gone.png") && lines[0].contains("\"skin\""), "{}", fitted.stderr);
    let warnings = &fitted.json()["warnings"];
    assert_eq!((warnings[0]["kind"].as_str(), warnings[0]["material"].as_str()), (Some("texture"), Some("skin")));
    assert!(warnings[0]["text"].as_str().unwrap().contains("frame_0.obj") && warnings[1].is_null(), "{warnings}");
    assert_eq!(warning_lines(&bonesmith(dir.path(), "convert walk walk.npz").fine().stderr), lines);
    assert_eq!(warning_lines(&bonesmith(dir.path(), "convert walk walk.npz --quiet").fine().stderr), [""; 0]);
    // The rig that was written holds all there is.
    assert_eq!(warning_lines(&bonesmith(dir.path(), "info walk.glb").fine().stderr), [""; 0]);
}

/// Shapes are kept by whoever knows them, and missed by whoever does not.
#[test]
fn shapes_that_a_command_has_no_use_for_are_reported() {
    let dir = folder();
    walk(dir.path());
    bonesmith(dir.path(), "fit walk.npz --bones 2 --eigenskin 2 --effort fast -o walk.glb").fine();
    for (line, expected) in [
        ("eval walk.glb walk.npz", 0),
        ("info walk.glb", 0),
        ("convert walk.glb walk.usda", 0),
        ("convert walk.glb walk.fbx", 0),
        ("convert walk.glb unity.fbx --target unity", 0),
        ("reduce walk.glb --influences 2 -o less.glb", 1),
    ] {
        let run = bonesmith(dir.path(), line).fine();
        let shapes = run.stderr.lines().filter(|l| l.starts_with("warning: ") && l.contains("shape"));
        assert_eq!(shapes.count(), expected, "{line}\n{}", run.stderr);
    }
}
