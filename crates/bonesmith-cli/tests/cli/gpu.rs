//! `eval --gpu` and `bench gpu`, on whatever adapter there is.

use std::io::Write;
use std::path::Path;

use bonesmith_core::BoneKind;
use serde_json::Value;

use crate::harness::{Run, bonesmith, folder, known, write_npz};

/// A rig as `rig.npz` and its animation as `walk.npz`.
fn write_rig(dir: &Path) {
    let known = known(BoneKind::Rigid);
    bonesmith_io::save_rig(&known.rig, &dir.join("rig.npz")).unwrap();
    write_npz(known.sequence, &dir.join("walk.npz"));
}

/// `None`, and a line that says so, where there is no adapter.
fn adapter(run: Run) -> Option<Run> {
    if run.code != Some(2) || !run.stderr.contains("no GPU") {
        return Some(run.fine());
    }
    let _ = std::io::stderr().write_all(b"SKIPPED: no GPU adapter\n");
    None
}

#[test]
fn eval_on_the_gpu_gives_the_figures_of_the_processor() {
    let dir = folder();
    write_rig(dir.path());
    bonesmith(dir.path(), "compress -q rig.npz --force -o two.npz").fine();
    bonesmith(dir.path(), "ddm -q rig.npz --rigid-bind -o ddm.npz").fine();
    bonesmith(dir.path(), "ddm -q rig.npz --rigid-bind --compress 12 -o small.npz").fine();
    for rig in ["rig.npz", "two.npz", "ddm.npz", "small.npz"] {
        let line = format!("eval -q {rig} walk.npz --json -");
        let Some(posed) = adapter(bonesmith(dir.path(), &format!("{line} --gpu"))) else { return };
        let (posed, own) = (posed.json(), bonesmith(dir.path(), &line).fine().json());
        assert!(posed["gpu"].is_string() && own["gpu"].is_null());
        let e_rms = |value: &Value| value["e_rms"].as_f64().unwrap();
        // Thousandths of the radius: 1e-5 of the size is 0.01.
        assert!((e_rms(&posed) - e_rms(&own)).abs() < 0.01, "{rig}: {} for {}", e_rms(&posed), e_rms(&own));
    }
}

#[test]
fn bench_measures_every_model() {
    let dir = folder();
    write_rig(dir.path());
    let line = "bench gpu -q rig.npz --instances 2 --virtual-bones 12 --json - --report gpu.html";
    let Some(run) = adapter(bonesmith(dir.path(), line)) else { return };
    let value = run.json();
    assert!(value["bandwidth"]["copy"].as_f64().unwrap() > 0.0 && value["adapter"].is_string());
    let rows = value["rows"].as_array().unwrap();
    let names: Vec<&str> = rows.iter().map(|row| row["model"].as_str().unwrap()).collect();
    assert_eq!((names.len(), names[0], names[1], names[8]), (11, "LBS", "two-layer", "DDM compressed"));
    assert!(names.contains(&"LBS, bones from shape weights"), "{names:?}");
    // Bones of this rig turn and move, so matrices are measured for comparison.
    assert_eq!(value["bone_form"], "similar");
    assert!(names.contains(&"LBS, bones as matrices"), "{names:?}");
    for row in rows {
        assert!(
            row["speed"]["ns_per_vertex"].as_f64().unwrap() > 0.0 && row["over_lbs"].as_f64().unwrap() > 0.0,
            "{row}"
        );
    }
    let html = std::fs::read_to_string(dir.path().join("gpu.html")).unwrap();
    let (page, _) = bonesmith_report::extract(&html).unwrap();
    assert_eq!(page["tables"][0]["rows"].as_array().unwrap().len(), rows.len(), "{}", page["tables"]);
}

#[test]
fn what_cannot_be_measured_is_refused() {
    let dir = folder();
    write_rig(dir.path());
    bonesmith(dir.path(), "compress -q rig.npz --force -o two.npz").fine();
    // A basis has no kernel: the processor does not take its place without a word.
    bonesmith(dir.path(), "fit -q walk.npz --method svd --bones 2 -o basis.npz").fine();
    bonesmith(dir.path(), "eval -q basis.npz walk.npz --gpu").refused(&["--gpu", "without bones"]);
    bonesmith(dir.path(), "bench gpu -q rig.npz --instances 0").refused(&["--instances 0"]);
    bonesmith(dir.path(), "bench gpu -q nowhere.npz").refused(&["nowhere.npz"]);
    bonesmith(dir.path(), "bench gpu -q two.npz").refused(&["the rig itself is missing"]);
    // Drivers have their own say on stderr.
    let run = bonesmith(dir.path(), "bench gpu -q rig.npz --adapter unicorn");
    assert!(run.code == Some(2) && run.stderr.contains("error: no GPU"), "{}", run.stderr);
}
