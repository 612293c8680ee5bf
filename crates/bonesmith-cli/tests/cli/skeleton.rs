//! `fit --skeleton`: a tree of bones that turn, in files that others read.

use std::path::{Path, PathBuf};

use bonesmith_core::synthetic::jointed_body;
use serde_json::Value;

use crate::harness::{bonesmith, folder, write_npz};

fn body(folder: &Path) {
    write_npz(jointed_body(5, 16, 2).sequence, &folder.join("body.npz"));
}

/// JSON of a GLB.
fn gltf(path: &Path) -> Value {
    let bytes = std::fs::read(path).unwrap();
    let length = u32::from_le_bytes(bytes[12..16].try_into().unwrap()) as usize;
    serde_json::from_slice(&bytes[20..20 + length]).unwrap()
}

#[test]
fn joints_turn_and_only_the_root_moves() {
    let dir = folder();
    body(dir.path());
    let line = "fit -q body.npz --skeleton --effort fast -o body.glb --picture body.svg --json -";
    let summary = bonesmith(dir.path(), line).fine().json();
    assert!(summary["skeleton"]["start_bones"].as_u64().unwrap() > 1);
    assert_eq!(summary["skeleton"]["params"]["method"], "multipass");
    assert!(summary["e_rms"].as_f64().unwrap() < 3.0, "{}", summary["e_rms"]);
    let root = gltf(&dir.path().join("body.glb"));
    let name = |channel: &Value| {
        let node = channel["target"]["node"].as_u64().unwrap() as usize;
        (
            root["nodes"][node]["name"].as_str().unwrap().to_owned(),
            channel["target"]["path"].as_str().unwrap().to_owned(),
        )
    };
    let channels: Vec<(String, String)> =
        root["animations"][0]["channels"].as_array().unwrap().iter().map(name).collect();
    let translated: Vec<&str> = channels.iter().filter(|(_, path)| path == "translation").map(|(n, _)| &**n).collect();
    assert_eq!(translated, ["root"]);
    assert!(channels.iter().all(|(_, path)| path != "scale"));
    assert!(channels.iter().filter(|(_, path)| path == "rotation").count() > 3);
    assert!(root["nodes"].as_array().unwrap().iter().any(|n| n["name"].as_str().unwrap_or("").ends_with("_tip")));
    let picture = std::fs::read_to_string(dir.path().join("body.svg")).unwrap();
    assert!(picture.starts_with("<svg") && picture.trim_end().ends_with("</svg>"));
    assert_eq!(picture.matches("<circle").count(), 2 * summary["bones"].as_u64().unwrap() as usize);
}

/// Names, tree and tips survive the way through the files.
#[test]
fn a_skeleton_survives_conversion() {
    let dir = folder();
    body(dir.path());
    bonesmith(dir.path(), "fit -q body.npz --skeleton --effort fast -o body.glb").fine();
    bonesmith(dir.path(), "convert -q body.glb rig.npz").fine();
    bonesmith(dir.path(), "convert -q rig.npz again.glb").fine();
    let load = |name: &str| bonesmith_io::load_rig(&dir.path().join(name)).unwrap();
    let (first, second, third) = (load("body.glb"), load("rig.npz"), load("again.glb"));
    for other in [&second, &third] {
        for (a, b) in first.bones.iter().zip(&other.bones) {
            assert_eq!((&a.name, a.parent, a.tip.is_some()), (&b.name, b.parent, b.tip.is_some()));
            assert!(a.tip.zip(b.tip).is_none_or(|(a, b)| a.distance(b) < 1e-5));
        }
    }
    assert!(first.bones.iter().any(|bone| bone.tip.is_some()));
}

/// What Blender is shown: the GLB, and the rig as we read it back.
#[test]
fn a_skeleton_for_the_judges() {
    let judged = match std::env::var_os("BONESMITH_JUDGE_DIR") {
        Some(folder) => PathBuf::from(folder),
        None => PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("judges"),
    };
    std::fs::create_dir_all(&judged).unwrap();
    let dir = folder();
    body(dir.path());
    bonesmith(dir.path(), "fit -q body.npz --skeleton -o skeleton.glb").fine();
    bonesmith(dir.path(), "convert -q skeleton.glb skeleton.npz").fine();
    for name in ["skeleton.glb", "skeleton.npz"] {
        std::fs::copy(dir.path().join(name), judged.join(name)).unwrap();
    }
}

#[test]
fn what_has_no_meaning_is_refused() {
    let dir = folder();
    body(dir.path());
    let refused = |line: &str, words: &[&str]| bonesmith(dir.path(), &format!("fit body.npz {line}")).refused(words);
    refused("--skeleton --bone-kind affine -o x.glb", &["--bone-kind"]);
    refused("--skeleton --target-error 1 -o x.glb", &["--target-error"]);
    refused("--skeleton --detail 0 -o x.glb", &["--detail is 0"]);
    refused("--skeleton --method fsd -o x.glb", &["--skeleton"]);
    refused("--skeleton --picture x.png -o x.glb", &["x.png", ".svg"]);
    refused("--skeleton --effort fast -q --root elbow -o x.glb", &["elbow", "root"]);
    assert!(!dir.path().join("x.glb").exists());
}
