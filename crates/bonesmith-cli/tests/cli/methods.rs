//! Published methods, corrective shapes and the papers' tables through the binary.

use crate::harness::{bonesmith, folder, names, walk};

#[test]
fn every_method_writes_a_rig_that_eval_agrees_with() {
    let dir = folder();
    let here = dir.path();
    walk(here);
    for (method, kind) in
        [("ssdr", "rigid"), ("sma", "affine"), ("sad", "affine"), ("lssp", "rigid"), ("fsd", "affine")]
    {
        let line = format!("fit walk.npz --method {method} --bones 3 --influences 4 -o rig.glb -q --json -");
        let found = bonesmith(here, &line).fine().json();
        assert_eq!((&found["method"], &found["bone_kind"]), (&method.into(), &kind.into()));
        assert_eq!(found["bones"], 3, "{method}");
        let again = bonesmith(here, "eval rig.glb walk.npz --json -").fine().json();
        assert!((again["e_rms"].as_f64().unwrap() - found["e_rms"].as_f64().unwrap()).abs() < 1e-6, "{method}");
    }
    bonesmith(here, "fit walk.npz --method sma --bandwidth 0.2 -o rig.glb -q").fine();
    bonesmith(here, "fit walk.npz --method sma --bandwidth 0 -o rig.glb").refused(&["--bandwidth is 0"]);
    bonesmith(here, "fit walk.npz --bandwidth 0.1 -o rig.glb").refused(&["only the method sma"]);
    bonesmith(here, "fit walk.npz --method ssdr --bone-kind affine -o rig.glb").refused(&["ssdr", "rigid bones only"]);
    bonesmith(here, "fit walk.npz --method sad --smooth 1 -o rig.glb").refused(&["sad", "smoothing"]);
    bonesmith(here, "fit walk.npz --method sma --skeleton -o rig.glb").refused(&["method"]);
}

#[test]
fn representations_are_npz_only() {
    let dir = folder();
    let here = dir.path();
    walk(here);
    for method in ["svd", "cpca"] {
        let line = format!("fit walk.npz --method {method} --bones 3 -o out.npz -q --json -");
        let found = bonesmith(here, &line).fine().json();
        assert!(found["storage_bytes"].as_u64().unwrap() > 1000 && found["e_rms"].is_number());
        let again = bonesmith(here, "eval out.npz walk.npz --json -").fine().json();
        assert_eq!(again["e_rms"], found["e_rms"], "{method}");
        let info = bonesmith(here, "info out.npz --json -").fine().json();
        assert_eq!((info["holds"].as_str(), info["frames"].as_u64()), (Some("basis"), Some(12)));
        bonesmith(here, "convert out.npz back.glb -q").fine();
        let refused = format!("fit walk.npz --method {method} -o rig.glb");
        bonesmith(here, &refused).refused(&["rig.glb", "makes no rig", ".npz"]);
        let refused = format!("fit walk.npz --method {method} --eigenskin 3 -o out.npz");
        bonesmith(here, &refused).refused(&["makes no rig"]);
    }
}

#[test]
fn corrective_shapes_lower_the_error_in_every_format() {
    let dir = folder();
    let here = dir.path();
    walk(here);
    for ending in ["npz", "glb", "usda"] {
        let line = format!("fit walk.npz --bones 2 --eigenskin 4 -o rig.{ending} -q --json -");
        let found = bonesmith(here, &line).fine().json();
        let (with, without) = (found["e_rms"].as_f64().unwrap(), found["eigenskin"]["e_rms_without"].as_f64().unwrap());
        assert!(with < 0.5 * without, "{ending}: {with} {without}");
        let again = bonesmith(here, &format!("eval rig.{ending} walk.npz --json -")).fine().json();
        assert!((again["e_rms"].as_f64().unwrap() - with).abs() < 1e-4 * with, "{ending}");
        let info = bonesmith(here, &format!("info rig.{ending} --json -")).fine().json();
        assert_eq!(info["shapes"].as_array().unwrap().len(), 4, "{ending}");
    }
    bonesmith(here, "convert rig.glb other.npz -q").fine();
    let kept = bonesmith(here, "eval other.npz walk.npz --json -").fine().json();
    assert_eq!(kept["eigenskin"]["rank"], 4);
    bonesmith(here, "convert rig.glb baked.npz --bake -q").fine();
    bonesmith(here, "fit walk.npz --eigenskin 4 --pieces nodes -o rig.fbx").refused(&["--eigenskin", "--pieces nodes"]);
    bonesmith(here, "fit walk.npz --eigenskin 0 -o rig.glb").refused(&["--eigenskin is 0", "1 to 256"]);
}

#[test]
fn tables_resume_and_come_in_four_forms() {
    let dir = folder();
    let here = dir.path();
    walk(here);
    std::fs::create_dir(here.join("data")).unwrap();
    // Not the published sequence, but under its name: the table does not know.
    std::fs::rename(here.join("walk.npz"), here.join("data/pcow.npz")).unwrap();
    let line = "bench kavan2 --sequences data --resume state.json --csv a.csv --page a.md --json a.json -q";
    let first = bonesmith(here, line).fine();
    assert_eq!(names(here), ["a.csv", "a.json", "a.md", "data", "state.json"]);
    let csv = std::fs::read_to_string(here.join("a.csv")).unwrap();
    assert_eq!(csv.lines().count(), 7, "{csv}");
    assert!(csv.starts_with("sequence,bones,method,published,here,ratio"));
    let page = std::fs::read_to_string(here.join("a.md")).unwrap();
    assert!(page.starts_with("# Affine bones") && page.contains(&first.stdout));
    let rows: serde_json::Value = serde_json::from_slice(&std::fs::read(here.join("a.json")).unwrap()).unwrap();
    assert_eq!(rows["rows"][0]["methods"]["fsd"]["published"]["e_rms"], 3.6);
    // Nothing is measured again: seconds would differ.
    assert_eq!(bonesmith(here, line).fine().stdout, first.stdout);
    bonesmith(here, "bench ssdr1 --sequences data --resume state.json -q").refused(&["state.json", "kavan2"]);
    bonesmith(here, "bench ssdr1 --sequences data --only nothing -q").refused(&["--only nothing"]);
    bonesmith(here, "bench weights4.2 --sequences data -q").refused(&["none of the published sequences"]);
    bonesmith(here, "bench skeleton2 --sequences data --csv no/where.csv -q").refused(&["no such folder"]);
}
