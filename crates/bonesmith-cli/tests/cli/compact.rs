//! `--compact`: bounds on files of all formats, refits, files that are small already, bad input.

use std::path::Path;

use crate::harness::{bonesmith, folder, walk};

/// E_RMS of a file as `eval` measures it.
fn e_rms(dir: &Path, file: &str) -> f64 {
    bonesmith(dir, &format!("eval -q {file} walk.npz --json -")).fine().json()["e_rms"].as_f64().unwrap()
}

#[test]
fn the_bound_is_kept_in_every_format() {
    let dir = folder();
    let here = dir.path();
    walk(here);
    bonesmith(here, "fit -q walk.npz --bones 6 -o plain.glb").fine();
    let before = e_rms(here, "plain.glb");
    for file in ["s.glb", "s.gltf", "s.usdc", "s.usda", "s.usdz", "s.fbx"] {
        for (value, additional) in [("5%", 0.05 * before), ("0.3", 0.3)] {
            let line = format!("fit -q walk.npz --bones 6 --compact={value} -o {file} --json -");
            let summary = bonesmith(here, &line).fine().json();
            let (bytes, plain) = (&summary["compact"]["bytes"], &summary["compact"]["bytes_before"]);
            assert!(bytes.as_u64().unwrap() <= plain.as_u64().unwrap(), "{file} {value}: {bytes} {plain}");
            let found = e_rms(here, file);
            assert!(found <= before + additional + 1e-3 * (1.0 + before), "{file} {value}: {found}, {before} before");
        }
        bonesmith(here, &format!("convert -q plain.glb plain-{file}")).fine();
        let size = |name: &str| bonesmith_io::file_bytes(&here.join(name));
        assert!(size(file) < size(&format!("plain-{file}")), "{file}");
    }
}

#[test]
fn a_refit_is_made_small() {
    let dir = folder();
    let here = dir.path();
    walk(here);
    bonesmith(here, "fit -q walk.npz --bones 6 -o rig.glb").fine();
    bonesmith(here, "fit -q walk.npz --rig rig.glb -o refit.glb").fine();
    for words in ["", "=khr", "=plain"] {
        let summary = bonesmith(here, &format!("fit -q walk.npz --rig rig.glb --compact{words} -o small.glb --json -"))
            .fine()
            .json();
        let compact = &summary["compact"];
        assert!(compact["bytes"].as_u64() < compact["bytes_before"].as_u64(), "{words}: {compact}");
        assert!(compact["e_rms"].as_f64() <= compact["bound"].as_f64(), "{words}: {compact}");
        let bones = |file: &str| {
            let rig = bonesmith_io::load_rig(&here.join(file)).unwrap();
            rig.bones.into_iter().map(|bone| bone.name).collect::<Vec<String>>()
        };
        assert_eq!(bones("small.glb"), bones("refit.glb"), "{words}");
        assert!(e_rms(here, "small.glb") <= 1.021 * e_rms(here, "refit.glb") + 1e-3, "{words}");
    }
}

/// A second time it is compared with itself, and says so.
#[test]
fn what_is_small_already_is_said() {
    let dir = folder();
    let here = dir.path();
    walk(here);
    bonesmith(here, "fit -q walk.npz --bones 6 --compact=0.1 -o small.glb").fine();
    let again = bonesmith(here, "convert small.glb again.glb --compact=0.02").fine();
    assert!(again.stderr.contains("compressed before"), "{}", again.stderr);
    let size = |name: &str| bonesmith_io::file_bytes(&here.join(name));
    assert!(size("again.glb") <= size("small.glb") + size("small.glb") / 20);
    assert!(e_rms(here, "again.glb") <= e_rms(here, "small.glb") + 0.03);
}

#[test]
fn one_frame_and_values_without_meaning() {
    let dir = folder();
    let here = dir.path();
    walk(here);
    bonesmith(here, "fit -q walk.npz --bones 4 -o rig.glb").fine();
    for value in ["0", "-1", "nan", "inf", "1e9", "-5%", "0%", "101e9%", "tiny"] {
        let run = bonesmith(here, &format!("convert -q rig.glb x.glb --compact={value}"));
        assert_eq!(run.code, Some(2), "{value}");
        assert!(!here.join("x.glb").exists(), "{value}");
    }
    for file in ["x.npz", "x.abc"] {
        assert_eq!(bonesmith(here, &format!("convert -q rig.glb {file} --compact")).code, Some(2), "{file}");
    }
    bonesmith(here, "convert -q walk.npz still.npz --frames 0..1").fine();
    for file in ["still.glb", "still.usdc", "still.fbx"] {
        bonesmith(here, &format!("fit -q still.npz --bones 2 --compact -o {file}")).fine();
        assert!(bonesmith(here, &format!("info {file} --json -")).fine().json()["vertices"].as_u64().is_some());
    }
}
