//! Files of other programs, end to end.

use std::io::Write;
use std::path::PathBuf;

use crate::harness::{bonesmith, folder};

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
