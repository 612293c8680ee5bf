//! What the commands print and write.

use bonesmith_core::BoneKind;
use bonesmith_core::synthetic::awkward;

use crate::harness::{bonesmith, folder, known, names, obj, walk, write_npz, write_objs};

/// The keys that scripts depend on.
#[test]
fn json_of_fit_and_eval_has_the_promised_keys() {
    let dir = folder();
    walk(dir.path());
    let fitted = bonesmith(dir.path(), "fit -q walk.npz --bones 4 -o out.glb --json -").fine().json();
    let measured = bonesmith(dir.path(), "eval -q out.glb walk.npz --json -").fine().json();
    for summary in [&fitted, &measured] {
        for key in ["vertices", "frames", "bones", "influences", "e_rms", "max_error", "rmse_percent"] {
            assert!(summary[key].is_number(), "{key}: {summary}");
        }
        for key in ["method", "iterations", "stop"] {
            assert!(summary.get(key).is_some(), "{key}: {summary}");
        }
        for key in ["load", "prepare", "fit", "export", "total"] {
            assert!(summary["seconds"][key].is_number(), "{key}: {summary}");
        }
        assert!(summary["warnings"].is_array() && summary["params"].is_object() && summary["version"].is_string());
    }
    assert_eq!(fitted["method"], "bonesmith");
    assert!(fitted["iterations"].is_number() && fitted["stop"].is_string());
    assert_eq!(fitted["params"]["bones"]["exact"], 4);
    assert_eq!((fitted["bones"].as_u64(), fitted["frames"].as_u64()), (Some(4), Some(12)));
}

#[test]
fn quiet_is_quiet_and_a_pipe_gets_lines() {
    let dir = folder();
    walk(dir.path());
    let quiet = bonesmith(dir.path(), "fit walk.npz --bones 4 --influences 8 -o out.glb --quiet").fine();
    assert_eq!((quiet.stdout.as_str(), quiet.stderr.as_str()), ("", ""));
    let loud = bonesmith(dir.path(), "fit walk.npz --bones 4 -o out.glb").fine();
    assert!(loud.stderr.lines().count() >= 3 && loud.stderr.lines().count() < 40, "{}", loud.stderr);
    assert!(!loud.stderr.contains('\u{1b}'), "no terminal codes in a pipe");
    for word in ["E_RMS", "max error", "normals", "bones", "seconds", "out.glb"] {
        assert!(loud.stdout.contains(word), "{word}\n{}", loud.stdout);
    }
    let json = bonesmith(dir.path(), "fit walk.npz --bones 4 -o out.glb --json -").fine();
    assert!(json.json().is_object(), "nothing but JSON on stdout");
}

#[test]
fn json_to_a_file_leaves_the_table() {
    let dir = folder();
    walk(dir.path());
    let run = bonesmith(dir.path(), "fit walk.npz --bones 4 -o out.npz --json out.json").fine();
    assert!(run.stdout.contains("E_RMS"));
    assert_eq!(names(dir.path()), ["out.json", "out.npz", "walk.npz"]);
}

#[test]
fn rest_and_frames_pick_from_the_animation() {
    let dir = folder();
    let raw = awkward::bending_tube();
    write_objs(&raw, &dir.path().join("in"));
    std::fs::write(dir.path().join("tpose.obj"), obj(&raw, 3)).unwrap();
    let run = |options: &str| bonesmith(dir.path(), &format!("convert -q in out.npz {options}")).fine();
    let written = || {
        let loaded = bonesmith_io::load_sequence(&[dir.path().join("out.npz")], &Default::default()).unwrap();
        (loaded.frames.len(), loaded.rest.map(|rest| rest.positions))
    };
    run("--frames 2..6 --rest 3");
    assert_eq!(written(), (4, Some(raw.frames[3].positions.clone())));
    run("--rest tpose.obj");
    assert_eq!(written(), (10, Some(raw.frames[3].positions.clone())));
    run("--frames 2.. --rest first");
    assert_eq!(written(), (8, Some(raw.frames[2].positions.clone())));
}

#[test]
fn info_tells_what_is_there() {
    let dir = folder();
    let known = known(BoneKind::Rigid);
    bonesmith_io::save_rig(&known.rig, &dir.path().join("rig.glb")).unwrap();
    write_objs(&awkward::many_corners(), &dir.path().join("in"));
    let rig = bonesmith(dir.path(), "info rig.glb --json -").fine().json();
    assert_eq!((rig["holds"].as_str(), rig["bones"].as_u64()), (Some("rig"), Some(4)));
    assert_eq!(rig["vertices"].as_u64(), Some(known.rig.vertex_count() as u64));
    let histogram: u64 = rig["influence_histogram"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).sum();
    assert_eq!(histogram, known.rig.vertex_count() as u64);
    assert_eq!(rig["clips"][0]["frames"], 12);
    let animation = bonesmith(dir.path(), "info in --json -").fine().json();
    assert_eq!((animation["polygons"].as_u64(), animation["components"].as_u64()), (Some(2), Some(1)));
    let text = bonesmith(dir.path(), "info rig.glb").fine().stdout;
    for word in ["vertices", "bounds", "radius", "influences", "animation", "12 frames"] {
        assert!(text.contains(word), "{word}\n{text}");
    }
}

/// A rig goes to every format and back without a change in what it shows.
#[test]
fn convert_keeps_rigs_and_bakes_them() {
    let dir = folder();
    for kind in [BoneKind::Rigid, BoneKind::Trs, BoneKind::Affine] {
        let known = known(kind);
        bonesmith_io::save_rig(&known.rig, &dir.path().join("a.npz")).unwrap();
        write_npz(known.sequence, &dir.path().join("truth.npz"));
        for step in ["a.npz b.glb", "b.glb c.gltf", "c.gltf d.npz", "d.npz baked.npz --bake"] {
            bonesmith(dir.path(), &format!("convert -q {step}")).fine();
        }
        for rig in ["b.glb", "c.gltf", "d.npz"] {
            let summary = bonesmith(dir.path(), &format!("eval -q {rig} truth.npz --json -")).fine().json();
            assert!(summary["e_rms"].as_f64().unwrap() < 1e-3, "{kind:?} {rig}: {}", summary["e_rms"]);
        }
        let summary = bonesmith(dir.path(), "eval -q a.npz baked.npz --json -").fine().json();
        assert!(summary["e_rms"].as_f64().unwrap() < 1e-3, "{kind:?} baked: {}", summary["e_rms"]);
    }
}

#[test]
fn demo_writes_what_it_says() {
    let dir = folder();
    let run = bonesmith(dir.path(), "demo --bones 6 --max-iterations 3 -o made/here").fine();
    assert!(run.stdout.contains("made/here/demo.glb") && run.stdout.contains("Blender"), "{}", run.stdout);
    assert_eq!(names(&dir.path().join("made/here")), ["demo.glb", "demo.npz", "report.html"]);
    let summary = bonesmith(dir.path(), "eval -q made/here/demo.glb made/here/demo.npz --json -").fine().json();
    assert_eq!((summary["bones"].as_u64(), summary["frames"].as_u64()), (Some(6), Some(60)));
}

#[test]
fn bench_without_sequences_runs_the_demo_and_says_so() {
    let dir = folder();
    std::fs::create_dir(dir.path().join("none")).unwrap();
    let line = "bench fit --sequences none --max-iterations 1 --quiet";
    let text = bonesmith(dir.path(), line).fine().stdout;
    assert!(text.contains("demo animation"), "{text}");
    assert_eq!(text.lines().filter(|l| l.starts_with("| demo")).count(), 4, "{text}");
    assert_eq!(names(dir.path()), ["none"]);
    bonesmith(dir.path(), "bench fit --sequences none --only unicorn --quiet").refused(&["--only unicorn"]);
    bonesmith(dir.path(), "bench fit --sequences nowhere --quiet").refused(&["--sequences nowhere"]);
}

#[test]
fn completions_and_manual_come_from_the_definitions() {
    let dir = folder();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = bonesmith(dir.path(), &format!("completions {shell}")).fine().stdout;
        assert!(script.contains("target-error"), "{shell}");
    }
    let page = bonesmith(dir.path(), "man").fine().stdout;
    assert!(page.starts_with(".ie") && page.contains("BONESMITH CONVERT") && page.contains("target\\-error"));
}

/// `info` describes a mesh that is too small for a fit: a triangle, two points.
#[test]
fn info_of_a_triangle() {
    let dir = folder();
    for (name, text) in [("tri.obj", "v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n"), ("two.obj", "v 0 0 0\nv 1 2 3\n")] {
        std::fs::write(dir.path().join(name), text).unwrap();
        let info = bonesmith(dir.path(), &format!("info -q {name} --json -")).fine().json();
        assert_eq!(info["vertices"].as_u64(), Some(text.matches('v').count() as u64));
        assert_eq!(info["faces"].as_u64(), Some(text.matches('f').count() as u64));
        bonesmith(dir.path(), &format!("fit -q {name} -o out.glb")).refused(&[name, "at least 4"]);
    }
}
