//! Rigid pieces from the command line: demo, nodes, numbers of bones, warnings and exit codes.

use bonesmith_core::synthetic::pieces::{Hidden, WallParams, appearing, beside, soft_body, wall};

use crate::harness::{bonesmith, folder, names, walk, write_npz};

const WALL: WallParams =
    WallParams { columns: 6, rows: 4, frames: 16, split: true, welded: false, standing: 0.0, gap: 0.0 };

#[test]
fn a_wall_breaks_in_the_demo() {
    let dir = folder();
    let run = bonesmith(dir.path(), "demo -q --scene wall -o wall --json -").fine();
    let summary = run.json();
    assert!(summary["e_rms"].as_f64().unwrap() < 0.01);
    assert_eq!((&summary["bones"], &summary["pieces"], &summary["influences"]), (&300.into(), &300.into(), &1.into()));
    assert_eq!(names(&dir.path().join("wall")), ["demo.glb", "demo.npz", "report.html"]);
}

#[test]
fn pieces_as_nodes_are_measured_from_the_file() {
    let dir = folder();
    write_npz(wall(&WALL), &dir.path().join("wall.npz"));
    let summary = bonesmith(dir.path(), "fit -q wall.npz --pieces nodes -o wall.glb --json -").fine().json();
    assert!(summary["e_rms"].as_f64().unwrap() < 0.01 && summary["bones"] == 24, "{summary}");
    let fewer = bonesmith(dir.path(), "fit -q wall.npz --bones 9 --pieces nodes -o few.gltf --json -").fine().json();
    assert!(fewer["bones"] == 9 && fewer["e_rms"].as_f64().unwrap() > 0.1, "{fewer}");
    let info = bonesmith(dir.path(), "info wall.glb").fine().stdout;
    assert!(info.contains("vertices   576"), "{info}");
    // The same bytes with any number of threads.
    let bytes = |threads: usize| {
        bonesmith(dir.path(), &format!("fit -q wall.npz --pieces nodes -o t.glb --threads {threads}")).fine();
        std::fs::read(dir.path().join("t.glb")).unwrap()
    };
    assert!(bytes(1) == bytes(3));
}

#[test]
fn nodes_and_a_skin_in_every_format() {
    let dir = folder();
    let mixed = beside(soft_body(16), wall(&WALL), glam::Vec3::new(9.0, 0.0, 0.0));
    write_npz(mixed, &dir.path().join("mixed.npz"));
    let skin = bonesmith(dir.path(), "fit -q mixed.npz -o mixed.npz.glb --json -").fine().json();
    for ending in ["glb", "gltf", "usda", "usdc", "usdz", "fbx"] {
        let line = format!("fit -q mixed.npz --pieces nodes -o nodes.{ending} --json -");
        let nodes = bonesmith(dir.path(), &line).fine().json();
        assert_eq!((&nodes["pieces"], &nodes["bones"]), (&24.into(), &skin["bones"]), "{ending}");
        let (a, b) = (nodes["e_rms"].as_f64().unwrap(), skin["e_rms"].as_f64().unwrap());
        assert!((a - b).abs() < 1e-3 * b, "{ending}: {a} {b}");
    }
}

#[test]
fn pieces_that_appear_later_are_exact() {
    let dir = folder();
    for hidden in [Hidden::InPlace, Hidden::AtOrigin] {
        write_npz(appearing(&WALL, hidden), &dir.path().join("later.npz"));
        for output in ["later.glb", "later.fbx", "later.usdc", "nodes.glb --pieces nodes", "nodes.usda --pieces nodes"]
        {
            let summary = bonesmith(dir.path(), &format!("fit -q later.npz -o {output} --json -")).fine().json();
            assert!(summary["e_rms"].as_f64().unwrap() < 0.01, "{hidden:?} {output}: {summary}");
            assert_eq!((&summary["bones"], &summary["influences"]), (&24.into(), &1.into()), "{hidden:?} {output}");
        }
    }
}

#[test]
fn skins_of_few_joints() {
    let dir = folder();
    walk(dir.path());
    let whole = bonesmith(dir.path(), "fit -q walk.npz --bones 24 -o whole.glb --json -").fine().json();
    let split =
        bonesmith(dir.path(), "fit -q walk.npz --bones 24 --max-joints 18 -o split.gltf --json -").fine().json();
    assert_eq!((&whole["bones"], &whole["e_rms"]), (&split["bones"], &split["e_rms"]));
    bonesmith(dir.path(), "convert -q whole.glb again.gltf --max-joints 18").fine();
    for name in ["split.gltf", "again.gltf"] {
        let json: serde_json::Value = serde_json::from_slice(&std::fs::read(dir.path().join(name)).unwrap()).unwrap();
        let skins = json["skins"].as_array().unwrap();
        assert!(skins.len() > 1 && skins.iter().all(|skin| skin["joints"].as_array().unwrap().len() <= 18), "{name}");
    }
    let refused = |line: &str, words: &[&str]| bonesmith(dir.path(), &format!("convert -q {line}")).refused(words);
    refused("walk.npz x.glb --max-joints 18", &["--max-joints", "an animation"]);
    refused("whole.glb x.usda --max-joints 18", &["--max-joints", ".glb"]);
}

#[test]
fn what_has_no_meaning_is_refused() {
    let dir = folder();
    write_npz(wall(&WALL), &dir.path().join("wall.npz"));
    walk(dir.path());
    let refused = |line: &str, words: &[&str]| bonesmith(dir.path(), &format!("fit -q {line}")).refused(words);
    refused("wall.npz --pieces nodes -o x.npz", &["x.npz", "--pieces nodes", ".glb"]);
    refused("wall.npz --pieces nodes --max-joints 8 -o x.glb", &["--max-joints", "--pieces nodes"]);
    refused("wall.npz --max-joints 0 -o x.glb", &["--max-joints is 0"]);
    refused("wall.npz --max-joints 3 -o x.glb", &["--max-joints is 3", "4 influences"]);
    refused("wall.npz --max-joints 8 -o x.fbx", &["x.fbx", "--max-joints", ".glb"]);
    refused("wall.npz --max-joints 8 --eigenskin 2 -o x.glb", &["--max-joints", "--eigenskin"]);
    refused("walk.npz walk.npz --bones 4 --max-joints 8 -o x.glb", &["--max-joints", "several"]);
    // Known before the fit, which would take longer than the test.
    let many = "walk.npz --bones 12 --effort best --max-iterations 1000000 --tolerance 0";
    refused(&format!("{many} --max-joints 4 -o x.glb"), &["--max-joints is 4", "4 corners", "12 joints"]);
    refused(&format!("{many} --influences 2 --max-joints 5 -o x.glb"), &["--max-joints is 5", "8 joints"]);
    refused("wall.npz --pieces nodes --eigenskin 2 -o x.glb", &["--eigenskin"]);
    refused("walk.npz walk.npz --bones 4 --pieces nodes -o x.glb", &["--pieces nodes", "several"]);
    refused("walk.npz --prune 1.5 -o x.glb", &["--prune is 1.5", "0 to 1"]);
    refused("walk.npz --prune -0.1 -o x.glb", &["--prune is -0.1"]);
    refused("wall.npz --bones 577 -o x.glb", &["577 bones", "576 vertices"]);
    assert_eq!(names(dir.path()), ["walk.npz", "wall.npz"]);
    // Whether there are pieces is known after the fit: without any it is written as a skin.
    let run = bonesmith(dir.path(), "fit walk.npz --bones 4 --pieces nodes -o x.glb --json x.json").fine();
    assert!(run.stderr.contains("written as a skin"), "{}", run.stderr);
    bonesmith(dir.path(), "fit -q walk.npz --bones 4 -o skin.glb").fine();
    let bytes = |name: &str| std::fs::read(dir.path().join(name)).unwrap();
    assert!(bytes("x.glb") == bytes("skin.glb"));
}

#[test]
fn a_goal_that_was_missed_is_reported() {
    let dir = folder();
    let mut raw = soft_body(12);
    raw.surface = Default::default();
    for (t, frame) in raw.frames.iter_mut().enumerate().skip(1) {
        for (i, p) in frame.positions.iter_mut().enumerate() {
            p.x += ((i * 7 + t * 13) % 11) as f32 * 0.2;
            p.y += ((i * 5 + t * 3) % 7) as f32 * 0.2;
        }
    }
    write_npz(raw, &dir.path().join("storm.npz"));
    let run = bonesmith(dir.path(), "fit storm.npz --effort fast -o auto.npz").fine();
    assert!(run.stderr.contains("auto aims at an E_RMS of 2"), "{}", run.stderr);
    let run = bonesmith(dir.path(), "fit storm.npz --effort fast --target-error 2 -o target.npz");
    assert!(run.code == Some(1) && run.stderr.contains("E_RMS of 2 was asked for"), "{:?} {}", run.code, run.stderr);
}

#[test]
fn pruning_takes_influences_and_little_else() {
    let dir = folder();
    walk(dir.path());
    let run = |prune: &str| {
        bonesmith(dir.path(), &format!("fit -q walk.npz --bones 6 --prune {prune} -o rig.npz --json -")).fine().json()
    };
    let influences = || {
        let rig = bonesmith_io::load_rig(&dir.path().join("rig.npz")).unwrap();
        (0..rig.vertex_count()).map(|i| rig.weights.of(i).count()).sum::<usize>()
    };
    let (all, before) = (run("0")["e_rms"].as_f64().unwrap(), influences());
    let (some, after) = (run("0.01")["e_rms"].as_f64().unwrap(), influences());
    assert!(some <= 1.0101 * all && after < before, "{all} {some}: {before} {after}");
    let (few, fewest) = (run("0.3")["e_rms"].as_f64().unwrap(), influences());
    assert!(few <= 1.301 * all && fewest < after, "{all} {few}: {after} {fewest}");
}
