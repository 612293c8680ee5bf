//! `reduce` and `compress`.

use crate::harness::{bonesmith, folder, names, walk};

/// A dense rig of the walk, as `dense.npz`.
fn dense(dir: &std::path::Path) {
    walk(dir);
    bonesmith(dir, "fit -q walk.npz --bones 6 --influences all --bone-kind affine -o dense.npz").fine();
}

#[test]
fn json_has_the_promised_keys() {
    let dir = folder();
    dense(dir.path());
    let reduced = bonesmith(dir.path(), "reduce -q dense.npz --influences 2 --examples walk.npz -o r.glb --json -");
    let compressed = bonesmith(dir.path(), "compress -q dense.npz --examples walk.npz -o c.npz --json -");
    for summary in [reduced.fine().json(), compressed.fine().json()] {
        for key in ["vertices", "frames", "bones", "influences", "e_rms", "max_error", "rmse_percent", "iterations"] {
            assert!(summary[key].is_number(), "{key}: {summary}");
        }
        for key in ["load", "prepare", "fit", "export", "total"] {
            assert!(summary["seconds"][key].is_number(), "{key}: {summary}");
        }
        assert!(summary["warnings"].is_array() && summary["params"].is_object() && summary["version"].is_string());
        assert!(summary["method"].is_string() && summary["stop"].is_string());
        assert_eq!(summary["influences"], 2);
    }
}

#[test]
fn every_method_writes_a_rig_that_eval_accepts() {
    let dir = folder();
    dense(dir.path());
    for method in ["bonesmith", "k-largest", "smooth", "geometric", "geometric-eq37", "poisson"] {
        let line =
            format!("reduce -q dense.npz --influences 2 --method {method} --examples walk.npz -o r.glb --json -");
        let reported = bonesmith(dir.path(), &line).fine().json();
        let seen = bonesmith(dir.path(), "eval -q r.glb walk.npz --json -").fine().json();
        assert_eq!((&reported["e_rms"], &reported["method"]), (&seen["e_rms"], &method.into()), "{method}");
    }
}

#[test]
fn two_layers_in_all_shapes_deform_alike() {
    let dir = folder();
    dense(dir.path());
    let mut errors = Vec::new();
    for line in [
        "compress -q dense.npz --examples walk.npz --virtual-bones 40 -o two.npz",
        "compress -q dense.npz --examples walk.npz --virtual-bones 40 -o baked.glb",
        "compress -q dense.npz --examples walk.npz --virtual-bones 40 --shape runtime -o runtime.glb",
        "convert -q two.npz converted.glb",
    ] {
        bonesmith(dir.path(), line).fine();
        let file = line.split(' ').next_back().unwrap();
        let seen = bonesmith(dir.path(), &format!("eval -q {file} walk.npz --json -")).fine().json();
        errors.push(seen["e_rms"].as_f64().unwrap());
    }
    assert!(errors.iter().all(|e| (e - errors[0]).abs() < 1e-2 * errors[0] + 1e-3), "{errors:?}");
    let info = bonesmith(dir.path(), "info runtime.glb --json -").fine().json();
    assert_eq!(info["layers"]["virtual_bones"], 40);
    assert_eq!(info["bones"], 6);
    assert!(bonesmith(dir.path(), "info two.npz").fine().stdout.contains("virtual bones  40"));
}

#[test]
fn more_influences_than_there_are_is_a_note_not_an_error() {
    let dir = folder();
    dense(dir.path());
    let run = bonesmith(dir.path(), "reduce dense.npz --influences 12 -o same.npz").fine();
    assert!(run.stderr.contains("nothing to take away"), "{}", run.stderr);
}

#[test]
fn what_does_not_fit_is_refused_with_both_numbers() {
    let dir = folder();
    dense(dir.path());
    bonesmith(dir.path(), "convert -q walk.npz short.npz --frames 0..5").fine();
    let before = names(dir.path());
    for command in ["reduce", "compress"] {
        let run = bonesmith(dir.path(), &format!("{command} dense.npz --examples short.npz -o x.npz"));
        assert_eq!(run.code, Some(2));
        assert!(run.stderr.contains("the examples have 5 frames") && run.stderr.contains(" 12"), "{}", run.stderr);
    }
    assert_eq!(bonesmith(dir.path(), "reduce dense.npz --influences 0 -o x.npz").code, Some(2));
    assert_eq!(bonesmith(dir.path(), "compress dense.npz --layer-influences 5 -o x.npz").code, Some(2));
    assert_eq!(bonesmith(dir.path(), "compress dense.npz --influences-equivalent 1 -o x.npz").code, Some(2));
    assert_eq!(names(dir.path()), before);
}

#[test]
fn a_missed_target_exits_with_1_and_writes_the_best() {
    let dir = folder();
    dense(dir.path());
    let run = bonesmith(dir.path(), "compress dense.npz --examples walk.npz --target-error 0.000001 -o x.npz");
    assert_eq!(run.code, Some(1));
    assert!(run.stderr.contains("was asked for") && dir.path().join("x.npz").is_file());
    bonesmith(dir.path(), "compress dense.npz --examples walk.npz --target-error 50 -o y.npz").fine();
}

#[test]
fn threads_make_no_difference_to_the_bytes() {
    let dir = folder();
    dense(dir.path());
    for (command, options) in
        [("reduce", "--influences 2 --method poisson"), ("reduce", "--influences 2"), ("compress", "")]
    {
        let files: Vec<Vec<u8>> = [1, 3]
            .iter()
            .map(|threads| {
                let line = format!("{command} -q dense.npz {options} --examples walk.npz --threads {threads} -o t.glb");
                bonesmith(dir.path(), &line).fine();
                std::fs::read(dir.path().join("t.glb")).unwrap()
            })
            .collect();
        assert!(files[0] == files[1], "{command} {options}");
    }
}

#[test]
fn a_rig_with_few_influences_is_not_made_larger() {
    let dir = folder();
    walk(dir.path());
    bonesmith(dir.path(), "fit -q walk.npz --bones 6 -o rig.npz").fine();
    let before = names(dir.path());
    bonesmith(dir.path(), "compress -q rig.npz -o x.npz").refused(&["nothing to gain", "at most 4 influences"]);
    assert_eq!(names(dir.path()), before);
    bonesmith(dir.path(), "compress -q rig.npz --force -o x.npz").fine();
}

/// Two clips of which the second moves more: both are kept, and both are reported.
#[test]
fn all_clips_count_and_are_reported() {
    use bonesmith_core::synthetic::{BarParams, bar};
    let dir = folder();
    let mut rig = bar(1, &BarParams { bones: 4, rings: 6, around: 12, ..BarParams::default() });
    let many = |i: usize| -> Vec<(usize, f64)> { (0..4).map(|j| (j, 1.0 + ((i + 3 * j) % 5) as f64)).collect() };
    (0..rig.vertex_count()).for_each(|i| rig.weights.set(i, &many(i)));
    bonesmith_io::save_rig(&rig, &dir.path().join("bar.npz")).unwrap();
    let made =
        bonesmith(dir.path(), "reduce -q bar.npz --influences 2 -o r.glb --json - --report r.html").fine().json();
    let clips = made["clips"].as_array().unwrap();
    assert_eq!(clips.iter().map(|clip| clip["name"].as_str().unwrap()).collect::<Vec<_>>(), ["bend", "twist"]);
    // The mean over all frames; and what eval gives for the file.
    let frames = |clip: &serde_json::Value| clip["frames"].as_f64().unwrap();
    let squared = |clip: &serde_json::Value| frames(clip) * clip["e_rms"].as_f64().unwrap().powi(2);
    let mean = (clips.iter().map(squared).sum::<f64>() / clips.iter().map(frames).sum::<f64>()).sqrt();
    let e_rms = made["e_rms"].as_f64().unwrap();
    assert!((mean - e_rms).abs() < 1e-6 * e_rms, "{mean} {e_rms}");
    let seen = bonesmith(dir.path(), "eval -q r.glb bar.npz --json -").fine().json();
    assert!((seen["e_rms"].as_f64().unwrap() - e_rms).abs() < 1e-6 * e_rms, "{seen} {e_rms}");
    let table = bonesmith(dir.path(), "reduce bar.npz --influences 2 -o r.npz").fine().stdout;
    assert!(table.contains("E_RMS of bend") && table.contains("E_RMS of twist"), "{table}");
}
