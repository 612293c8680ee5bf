//! `ddm`.

use std::path::Path;

use bonesmith_core::synthetic::{BarParams, bar};

use crate::harness::{bonesmith, folder, names};

/// A bar of four bones as `bar.npz`.
fn write_bar(dir: &Path) {
    let rig = bar(1, &BarParams { bones: 4, rings: 6, around: 12, ..BarParams::default() });
    bonesmith_io::save_rig(&rig, &dir.join("bar.npz")).unwrap();
}

#[test]
fn json_has_the_promised_keys_and_the_error_falls() {
    let dir = folder();
    write_bar(dir.path());
    let plain = bonesmith(dir.path(), "ddm -q bar.npz --rigid-bind -o d.npz --json -").fine().json();
    let small = bonesmith(dir.path(), "ddm -q bar.npz --rigid-bind --compress 16 -o c.glb --json -").fine().json();
    for summary in [&plain, &small] {
        for key in ["vertices", "frames", "bones", "influences", "e_rms", "max_error", "rmse_percent", "iterations"] {
            assert!(summary[key].is_number(), "{key}: {summary}");
        }
        assert!(summary["params"].is_object() && summary["stop"].is_string() && summary["method"].is_string());
    }
    assert!(plain["e_rms"].as_f64().unwrap() < 1e-2);
    assert!(small["model_bytes"].as_u64() < small["full_bytes"].as_u64());
    let history: Vec<f64> =
        small["history"].as_array().unwrap().iter().map(|round| round["error"].as_f64().unwrap()).collect();
    assert!(history.len() > 3 && history.windows(2).all(|e| e[1] <= e[0]), "{history:?}");
}

#[test]
fn every_shape_deforms_alike_and_every_command_knows_it() {
    let dir = folder();
    write_bar(dir.path());
    bonesmith(dir.path(), "ddm -q bar.npz --rigid-bind --compress 24 -o c.npz").fine();
    bonesmith(dir.path(), "ddm -q bar.npz --rigid-bind --compress 24 -o c.glb").fine();
    bonesmith(dir.path(), "ddm -q bar.npz --rigid-bind --compress 24 --shape baked -o baked.glb").fine();
    bonesmith(dir.path(), "convert -q c.npz converted.glb").fine();
    bonesmith(dir.path(), "convert -q c.npz frames.npz --bake --clip bend").fine();
    for file in ["c.npz", "c.glb", "baked.glb", "converted.glb"] {
        let seen = bonesmith(dir.path(), &format!("eval -q {file} frames.npz --clip bend --json -")).fine().json();
        assert!(seen["e_rms"].as_f64().unwrap() < 0.02, "{file}: {}", seen["e_rms"]);
    }
    let info = bonesmith(dir.path(), "info c.glb --json -").fine().json();
    assert_eq!((&info["ddm"]["virtual_bones"], &info["bones"]), (&24.into(), &4.into()));
    for variant in 1..=5 {
        bonesmith(dir.path(), &format!("ddm -q bar.npz --rigid-bind --variant {variant} -o v.glb")).fine();
        let info = bonesmith(dir.path(), "info v.glb --json -").fine().json();
        assert_eq!(info["ddm"]["variant"], variant);
    }
    bonesmith(dir.path(), "ddm -q bar.npz --rigid-bind --shape baked -o morphs.glb").fine();
    bonesmith(dir.path(), "ddm -q bar.npz --rigid-bind --delta-mush -o mush.npz").fine();
    bonesmith(dir.path(), "ddm -q bar.npz --rigid-bind --alpha 0 -o direct.npz").fine();
    let near = bonesmith(dir.path(), "eval -q direct.npz mush.npz --json -").fine().json();
    let stiff = bonesmith(dir.path(), "eval -q bar.npz mush.npz --json -").fine().json();
    assert!(near["e_rms"].as_f64().unwrap() < 0.3 * stiff["e_rms"].as_f64().unwrap(), "{near} {stiff}");
}

/// The figure is that of `eval` against the full model, in every format, over all clips and for each.
#[test]
fn the_figure_is_the_one_that_eval_gives() {
    let dir = folder();
    write_bar(dir.path());
    for ending in ["npz", "glb"] {
        bonesmith(dir.path(), &format!("ddm -q bar.npz --rigid-bind -o full.{ending}")).fine();
        let line = format!("ddm -q bar.npz --rigid-bind --compress 12 -o small.{ending} --json -");
        let made = bonesmith(dir.path(), &line).fine().json();
        let seen = bonesmith(dir.path(), &format!("eval -q small.{ending} full.{ending} --json -")).fine().json();
        let (made_e, seen_e) = (made["e_rms"].as_f64().unwrap(), seen["e_rms"].as_f64().unwrap());
        assert!((made_e - seen_e).abs() < 1e-3 * seen_e, "{ending}: {made_e} {seen_e}");
        let names = |summary: &serde_json::Value| -> Vec<String> {
            let clips = summary["clips"].as_array().unwrap().iter();
            clips.map(|clip| clip["name"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(
            (names(&made), names(&seen)),
            (vec!["bend".into(), "twist".into()], vec!["bend".into(), "twist".into()])
        );
        let bend = bonesmith(dir.path(), &format!("convert -q full.{ending} bend.npz --bake --clip bend"));
        bend.fine();
        let one = bonesmith(dir.path(), &format!("eval -q small.{ending} bend.npz --clip bend --json -")).fine().json();
        let part = made["clips"][0]["e_rms"].as_f64().unwrap();
        assert!((one["e_rms"].as_f64().unwrap() - part).abs() < 1e-3 * part, "{ending}: {one} {part}");
    }
}

#[test]
fn threads_make_no_difference_to_the_bytes() {
    let dir = folder();
    write_bar(dir.path());
    let bytes = |threads: usize| {
        let line = format!("ddm -q bar.npz --rigid-bind --compress 12 --threads {threads} -o t.npz");
        bonesmith(dir.path(), &line).fine();
        std::fs::read(dir.path().join("t.npz")).unwrap()
    };
    assert!(bytes(1) == bytes(3));
}

#[test]
fn what_makes_no_sense_is_refused() {
    let dir = folder();
    write_bar(dir.path());
    let before = names(dir.path());
    for (line, word) in [
        ("ddm bar.npz --variant 6 -o x.npz", "0 to 5"),
        ("ddm bar.npz --alpha 2 -o x.npz", "alpha"),
        ("ddm bar.npz --steps 0 -o x.npz", "steps"),
        ("ddm bar.npz --compress 0 -o x.npz", "virtual bones"),
        ("ddm bar.npz --compress 8 --layer-influences 9 -o x.npz", "1 to 8"),
        ("ddm bar.npz --maps bar.npz -o x.npz", "rotation_smooth"),
        ("ddm bar.npz --compress 8 --range-of-motion bar.npz -o x.npz", "range_of_motion"),
        ("ddm missing.npz -o x.npz", "missing.npz"),
    ] {
        bonesmith(dir.path(), line).refused(&[word]);
    }
    assert_eq!(names(dir.path()), before);
}

/// What can be known before the work is checked before the work.
#[test]
fn formats_that_cannot_hold_the_result_are_refused_at_once() {
    let dir = folder();
    write_bar(dir.path());
    // No rig at all: only a check before reading can refuse these.
    std::fs::write(dir.path().join("broken.npz"), "PK\x03\x04 not an archive").unwrap();
    for (line, words) in [
        ("ddm broken.npz -o x.fbx", &["x.fbx", "Direct Delta Mush", ".glb, .gltf and .npz"][..]),
        ("ddm broken.npz --compress 8 -o x.usda", &["x.usda", "compressed Direct Delta Mush"]),
        ("ddm broken.npz --delta-mush -o x.obj", &["x.obj", "an animation", ".abc"]),
        ("compress broken.npz --shape runtime -o x.fbx", &["x.fbx", "two layers", ".glb, .gltf and .npz"]),
        ("reduce broken.npz --influences 12 -o x.glb", &["x.glb", "at most 8 influences per vertex, not 12"]),
        ("fit broken.npz --influences 9 -o x.gltf", &["x.gltf", "at most 8"]),
        ("fit broken.npz --eigenskin 3 -o x.abc", &["x.abc", "corrective shapes"]),
        ("fit broken.npz --pieces nodes -o x.npz", &["x.npz", ".usdz and .fbx"]),
        ("fit broken.npz --method svd -o x.glb", &["x.glb", ".npz"]),
        ("fit broken.npz -o x.abc", &["x.abc", "a rig can be written as"]),
        ("reduce broken.npz -o x.xyz", &[".xyz", ".glb"]),
    ] {
        bonesmith(dir.path(), line).refused(words);
    }
    assert_eq!(names(dir.path()), ["bar.npz", "broken.npz"]);
}

fn kind_and_name(model: &serde_json::Value) -> (&str, &str) {
    (model["kind"].as_str().unwrap(), model["name"].as_str().unwrap())
}

#[test]
fn delta_mush_is_an_animation_in_any_format_that_holds_one() {
    let dir = folder();
    write_bar(dir.path());
    for ending in ["abc", "npz", "glb", "usdc"] {
        let line = format!("ddm -q bar.npz --rigid-bind --delta-mush -o m.{ending} --json - --report m.html");
        let summary = bonesmith(dir.path(), &line).fine().json();
        assert_eq!((&summary["command"], &summary["method"]), (&"ddm".into(), &"delta-mush".into()), "{summary}");
        assert!(summary["frames"].as_u64().unwrap() > 1 && summary["file_bytes"].as_u64().unwrap() > 1000);
        // The page shows the file, and the rig beside it.
        let html = std::fs::read_to_string(dir.path().join("m.html")).unwrap();
        let (page, _) = bonesmith_report::extract(&html).unwrap();
        let models: Vec<(&str, &str)> = page["models"].as_array().unwrap().iter().map(kind_and_name).collect();
        assert_eq!(models, [("sequence", format!("m.{ending}").as_str()), ("lbs", "bar (input)")], "{ending}");
    }
    let info = bonesmith(dir.path(), "info m.abc --json -").fine().json();
    assert_eq!(info["holds"], "animation");
}
