//! `bonesmith shapes`: faces in, bones driven by shapes out.

use std::path::Path;

use bonesmith_core::{BoneKind, MeshSequence, Model};
use bonesmith_io::LoadOptions;

use crate::harness::{bonesmith, folder, known, names, obj, walk};

fn model(path: &Path) -> Model {
    bonesmith_io::load_model(&[path.to_owned()], &LoadOptions::default()).unwrap()
}

#[test]
fn a_face_becomes_bones_that_shapes_drive() {
    let dir = folder();
    walk(dir.path());
    let line = "shapes walk.npz --bones 6 --influences 4 --numbers 120 -o face.npz --json -";
    let summary = bonesmith(dir.path(), line).fine().json();
    let part = &summary["shape_bones"];
    assert_eq!((&summary["command"], &summary["bones"]), (&"shapes".into(), &6.into()));
    assert_eq!((part["shapes"].as_u64(), part["all_numbers"].as_u64()), (Some(12), Some(12 * 6 * 12)));
    assert!(part["numbers"].as_u64().unwrap() <= 120, "{part}");
    let each = part["per_shape"].as_array().unwrap();
    assert_eq!(each.len(), 12);
    let squares: f64 = each.iter().map(|shape| shape["rms_distance"].as_f64().unwrap().powi(2)).sum();
    let (all, most) = (part["rms_distance"].as_f64().unwrap(), part["max_distance"].as_f64().unwrap());
    assert!(((squares / 12.0).sqrt() - all).abs() < 1e-9 * all, "{each:?}");
    assert!(each.iter().any(|shape| shape["max_distance"].as_f64() == Some(most)));
    let angles: f64 = each.iter().map(|shape| shape["shading_degrees"].as_f64().unwrap()).sum();
    let mean = summary["skinned_normals"]["degrees"].as_f64().unwrap();
    assert!((angles / 12.0 - mean).abs() < 1e-6 * mean, "{angles} {mean}");
    let stored: u64 = each.iter().map(|shape| shape["numbers"].as_u64().unwrap()).sum();
    assert_eq!(Some(stored), part["numbers"].as_u64());
    // The same figures from the file, and from the same model as GLB.
    bonesmith(dir.path(), "convert face.npz face.glb -q").fine();
    for file in ["face.npz", "face.glb"] {
        let again = bonesmith(dir.path(), &format!("eval {file} walk.npz --json -")).fine().json();
        let (a, b) = (part["rms_distance"].as_f64().unwrap(), again["shape_bones"]["rms_distance"].as_f64().unwrap());
        assert!((a - b).abs() < 1e-4 * a, "{file}: {a} {b}");
    }
    let all = bonesmith(dir.path(), "shapes walk.npz --bones 6 --influences 4 -o all.npz --json -").fine().json();
    assert!(all["e_rms"].as_f64().unwrap() < summary["e_rms"].as_f64().unwrap());
    let shown = bonesmith(dir.path(), "info face.npz").fine().stdout;
    assert!(shown.contains("shape_0"), "{shown}");
}

#[test]
fn the_fewest_numbers_for_an_error() {
    let dir = folder();
    walk(dir.path());
    let run = |target: &str, out: &str| {
        let line = format!("shapes walk.npz --bones 6 --influences 4 --target-error {target} -o {out} --json -");
        bonesmith(dir.path(), &line)
    };
    let reached = run("20", "a.npz").fine().json();
    assert!(reached["e_rms"].as_f64().unwrap() <= 20.02, "{}", reached["e_rms"]);
    let missed = run("0.0001", "b.npz");
    assert_eq!(missed.code, Some(1), "{}", missed.stderr);
    let numbers = |run: &serde_json::Value| run["shape_bones"]["numbers"].as_u64().unwrap();
    assert!(numbers(&reached) < numbers(&missed.json()) && dir.path().join("b.npz").is_file());
}

#[test]
fn shapes_come_from_meshes_and_morph_targets() {
    let dir = folder();
    let raw = known(BoneKind::Affine).sequence;
    let obj_folder = dir.path().join("objs");
    std::fs::create_dir(&obj_folder).unwrap();
    for (t, name) in [(0, "Neutral"), (4, "smile"), (9, "frown")] {
        std::fs::write(obj_folder.join(format!("{name}.obj")), obj(&raw, t)).unwrap();
    }
    bonesmith(dir.path(), "shapes objs --bones 4 -o objs.npz -q").fine();
    let Model::ShapeBones(face) = model(&dir.path().join("objs.npz")) else { panic!("bones driven by shapes") };
    let found: Vec<&str> = face.shapes.iter().map(|shape| shape.name.as_str()).collect();
    assert_eq!(found, ["frown", "smile"]);
    let sequence = MeshSequence::try_from(raw).unwrap();
    bonesmith_io::save_sequence(&sequence, &dir.path().join("morphs.glb")).unwrap();
    let line = "shapes morphs.glb --bones 6 --numbers 200 -o m.npz --json -";
    let summary = bonesmith(dir.path(), line).fine().json();
    assert_eq!(summary["shape_bones"]["shapes"], 12);
    std::fs::remove_file(obj_folder.join("Neutral.obj")).unwrap();
    bonesmith(dir.path(), "shapes objs -o x.npz -q").refused(&["neutral"]);
}

#[test]
fn drivers_are_stored_and_checked() {
    let dir = folder();
    walk(dir.path());
    let rules = r#"[{"shape": "shape_2", "product": ["shape_0", "shape_1"]},
        {"shape": "shape_3", "between": "shape_0", "range": [0.2, 0.5, 0.8]}]"#;
    std::fs::write(dir.path().join("rules.json"), rules).unwrap();
    bonesmith(dir.path(), "shapes walk.npz --bones 4 --drivers rules.json -o a.glb -q").fine();
    let Model::ShapeBones(face) = model(&dir.path().join("a.glb")) else { panic!("bones driven by shapes") };
    let weights = face.driven(&[0.5, 0.4, 9.0, 9.0]);
    assert!((weights[2] - 0.2).abs() < 1e-6 && (weights[3] - 1.0).abs() < 1e-6, "{weights:?}");
    std::fs::write(dir.path().join("bad.json"), r#"[{"shape": "shape_2", "product": ["nobody"]}]"#).unwrap();
    bonesmith(dir.path(), "shapes walk.npz --drivers bad.json -o b.glb -q").refused(&["nobody"]);
    assert!(!names(dir.path()).contains(&"b.glb".to_owned()));
}

#[test]
fn curves_become_a_clip_of_bones() {
    let dir = folder();
    walk(dir.path());
    bonesmith(dir.path(), "shapes walk.npz --bones 6 --influences 4 -o face.npz -q").fine();
    std::fs::write(dir.path().join("talk.csv"), "time,shape_0,Shape_7,other\n0,0,0,1\n0.5,0.5,0,1\n1,0,1,1\n").unwrap();
    let run = bonesmith(dir.path(), "convert face.npz talk.glb --curves talk.csv").fine();
    assert!(run.stderr.contains("other"), "{}", run.stderr);
    let (Model::ShapeBones(face), Model::Rig(rig)) =
        (model(&dir.path().join("face.npz")), model(&dir.path().join("talk.glb")))
    else {
        panic!("a face and a rig")
    };
    assert_eq!(rig.clips[0].times_secs, [0.0, 0.5, 1.0]);
    let mut weights = [0.0; 12];
    weights[7] = 1.0;
    let (now, then) = (bonesmith_core::deform::posed((&rig).into(), 0, 2), face.posed(&weights));
    let off = now.iter().zip(&then).map(|(a, b)| a.distance(*b)).fold(0.0, f32::max);
    assert!(off < 1e-4, "{off}");
    bonesmith(dir.path(), "convert walk.npz x.glb --curves talk.csv -q").refused(&["walk.npz"]);
    std::fs::write(dir.path().join("no.csv"), "time,smile\n0,0\n").unwrap();
    bonesmith(dir.path(), "convert face.npz x.glb --curves no.csv -q").refused(&["smile"]);
}

#[test]
fn bad_faces_are_refused() {
    let dir = folder();
    walk(dir.path());
    bonesmith(dir.path(), "shapes walk.npz --numbers 0 -o a.npz").refused(&["--numbers"]);
    bonesmith(dir.path(), "shapes walk.npz --influences 12 -o a.glb").refused(&["at most 8"]);
    bonesmith(dir.path(), "shapes walk.npz -o a.obj").refused(&["a.obj"]);
    bonesmith(dir.path(), "shapes none.npz -o a.npz").refused(&["none.npz"]);
    bonesmith(dir.path(), "shapes walk.npz --shading -1 -o a.npz").refused(&["--shading"]);
}
