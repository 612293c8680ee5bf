//! Reports for the judge in `tests/clients`, a browser: each `NAME.html` with what its models look like in `NAME.json`.
//!
//! They go to `$BONESMITH_JUDGE_DIR/report`, or under the target folder. Positions come from the core's evaluators and from the
//! animation itself, not from the report.

use std::path::{Path, PathBuf};

use bonesmith_core::synthetic::{BarParams, bar, jointed_body};
use bonesmith_core::{MeshSequence, Model, metrics};
use glam::Vec3;
use serde_json::{Value, json};

use crate::harness::{bonesmith, folder, walk, write_npz};

fn judge_folder() -> PathBuf {
    let folder = match std::env::var_os("BONESMITH_JUDGE_DIR") {
        Some(folder) => PathBuf::from(folder),
        None => PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("judges"),
    };
    let folder = folder.join("report");
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn animation(path: &Path) -> MeshSequence {
    let raw = bonesmith_io::load_sequence(&[path.to_owned()], &Default::default()).unwrap();
    MeshSequence::try_from(raw).unwrap()
}

fn model(path: &Path) -> Model {
    bonesmith_io::load_model(&[path.to_owned()], &Default::default()).unwrap()
}

/// Every frame of a file of any kind.
fn posed(path: &Path) -> Vec<Vec<Vec3>> {
    let model = model(path);
    let frames = model.view().clips()[0].frame_count();
    (0..frames).map(|t| model.view().posed(0, t)).collect()
}

/// The strongest bone of some vertices, through all layers, where it is clear.
fn strongest(path: &Path) -> Value {
    let model = model(path);
    let Some(rig) = model.view().rig() else { return json!({}) };
    let row = |i: usize| -> Vec<f64> {
        let mut row = vec![0.0; rig.bone_count()];
        match &model {
            Model::TwoLayer(two) => two.weights.of(i).for_each(|(m, a)| {
                two.blends.of(m).for_each(|(j, d)| row[j] += f64::from(a * d));
            }),
            Model::Ddm(ddm) if ddm.layer.is_none() => ddm.weights.of(i).for_each(|(j, v)| row[j] += f64::from(v[0])),
            Model::Ddm(_) => {}
            _ => rig.weights.of(i).for_each(|(j, w)| row[j] += f64::from(w)),
        }
        row
    };
    let mut found = serde_json::Map::new();
    for i in (0..rig.vertex_count()).step_by(1 + rig.vertex_count() / 24) {
        if let Some(j) = row(i).iter().position(|w| *w >= 0.6) {
            found.insert(i.to_string(), json!(rig.bones[j].name));
        }
    }
    found.into()
}

/// What some frames look like; all are in the report.
fn some(frames: &[Vec<Vec3>]) -> Value {
    let mut some = vec![0, 1, frames.len() / 2, frames.len() - 1];
    some.dedup();
    let positions = |t: usize| frames[t].iter().map(|p| p.to_array()).collect::<Vec<_>>();
    some.into_iter().map(|t| json!({ "frame": t, "source": t, "positions": positions(t) })).collect()
}

/// Puts `NAME.html`, made from `models` and `original`, and its reference into the judge's folder.
fn hand_over(name: &str, page: &Path, models: &[&Path], original: Option<&Path>) {
    let original = original.map(animation);
    let mut box_of: Vec<Vec3> = Vec::new();
    let model = |path: &&Path| {
        let frames = posed(path);
        let metrics = original.as_ref().map(|truth| metrics::compare(truth, |t| frames[t].clone()));
        let max = metrics.as_ref().map(
            |m| json!({ "value": m.max_error_model_units, "frame": m.max_error_at.0, "vertex": m.max_error_at.1 }),
        );
        let e_rms = metrics.as_ref().map(|m| m.e_rms);
        let name = path.file_name().unwrap().to_string_lossy();
        let reported =
            json!({ "name": name, "e_rms": e_rms, "max": max, "frames": some(&frames), "bones": strongest(path) });
        (reported, frames)
    };
    let all: Vec<Value> = models
        .iter()
        .map(|path| {
            let (reported, frames) = model(path);
            box_of.extend(frames.concat());
            reported
        })
        .collect();
    let low = box_of.iter().fold(Vec3::INFINITY, |a, b| a.min(*b));
    let high = box_of.iter().fold(Vec3::NEG_INFINITY, |a, b| a.max(*b));
    let truth = original.as_ref().map(|s| some(&(0..s.frame_count()).map(|t| s.frame(t).to_vec()).collect::<Vec<_>>()));
    let reference = json!({ "size": high.distance(low), "models": all, "original": truth });
    std::fs::copy(page, judge_folder().join(format!("{name}.html"))).unwrap();
    std::fs::write(judge_folder().join(format!("{name}.json")), reference.to_string()).unwrap();
}

#[test]
fn the_demo() {
    let dir = folder();
    bonesmith(dir.path(), "demo -q --bones 16 --effort fast").fine();
    let demo = dir.path().join("demo");
    hand_over("demo", &demo.join("report.html"), &[&demo.join("demo.glb")], Some(&demo.join("demo.npz")));
}

#[test]
fn fits_of_all_kinds() {
    let dir = folder();
    let at = |name: &str| dir.path().join(name);
    walk(dir.path());
    write_npz(jointed_body(5, 16, 2).sequence, &at("body.npz"));
    bonesmith(dir.path(), "fit -q walk.npz --bones 5 -o fit.glb --report fit.html").fine();
    hand_over("fit", &at("fit.html"), &[&at("fit.glb")], Some(&at("walk.npz")));
    bonesmith(dir.path(), "fit -q body.npz --skeleton --effort fast -o skeleton.glb --report skeleton.html").fine();
    hand_over("skeleton", &at("skeleton.html"), &[&at("skeleton.glb")], Some(&at("body.npz")));
    bonesmith(dir.path(), "fit -q walk.npz --bones 6 --influences all --bone-kind affine -o dense.npz").fine();
    bonesmith(dir.path(), "compress -q dense.npz --examples walk.npz -o two_layer.npz --report two_layer.html").fine();
    hand_over("two_layer", &at("two_layer.html"), &[&at("two_layer.npz")], Some(&at("walk.npz")));
    bonesmith(dir.path(), "view -q walk.npz --no-open -o sequence.html").fine();
    hand_over("sequence", &at("sequence.html"), &[&at("walk.npz")], None);
    bonesmith(dir.path(), "view -q fit.glb --no-open -o rig.html").fine();
    hand_over("rig", &at("rig.html"), &[&at("fit.glb")], None);
    bonesmith(dir.path(), "compare -q fit.glb dense.npz two_layer.npz --against walk.npz --report compare.html").fine();
    let models = [at("fit.glb"), at("dense.npz"), at("two_layer.npz")];
    hand_over("compare", &at("compare.html"), &models.each_ref().map(|m| m.as_path()), Some(&at("walk.npz")));
    bonesmith(dir.path(), "bench files -q walk.npz --repeats 1 --report tables.html").fine();
    hand_over_tables(&at("tables.html"));
}

/// A face whose shapes have sliders: combinations and in-betweens follow. Mixed shapes go along, and the file itself for the example of a loader.
#[test]
fn faces() {
    let dir = folder();
    let at = |name: &str| dir.path().join(name);
    walk(dir.path());
    let rules = r#"[{"shape": "shape_2", "product": ["shape_0", "shape_1"]},
        {"shape": "shape_3", "between": "shape_0", "range": [0.2, 0.5, 0.8]}]"#;
    std::fs::write(at("rules.json"), rules).unwrap();
    let line =
        "shapes -q walk.npz --bones 6 --influences 4 --numbers 200 --drivers rules.json -o face.glb --report face.html";
    bonesmith(dir.path(), line).fine();
    hand_over("face", &at("face.html"), &[&at("face.glb")], Some(&at("walk.npz")));
    let Model::ShapeBones(face) = model(&at("face.glb")) else { panic!("bones driven by shapes") };
    let truth = animation(&at("walk.npz"));
    let flat = |positions: &[Vec3]| positions.iter().map(|p| p.to_array()).collect::<Vec<_>>();
    let sets = [vec![], vec![(0, 0.6), (1, 0.5), (7, 0.25)], vec![(4, 1.0), (11, 0.4)]];
    let mixes = sets.iter().map(|set| {
        let mut weights = vec![0.0f32; 12];
        set.iter().for_each(|(s, w)| weights[*s] = *w);
        let mut original: Vec<Vec3> = truth.rest().to_vec();
        for (s, weight) in face.driven(&weights).into_iter().enumerate() {
            let frame = truth.frame(s);
            let offsets = frame.iter().zip(truth.rest()).map(|(p, rest)| *p - *rest);
            original.iter_mut().zip(offsets).for_each(|(p, offset)| *p += weight as f32 * offset);
        }
        json!({ "weights": weights, "model": flat(&face.posed(&weights)), "original": flat(&original) })
    });
    let mixes: Vec<Value> = mixes.collect();
    let beside = judge_folder().join("face.json");
    let mut reference: Value = serde_json::from_slice(&std::fs::read(&beside).unwrap()).unwrap();
    let size = reference["size"].clone();
    reference["mixes"] = json!(mixes);
    std::fs::write(&beside, reference.to_string()).unwrap();
    let loader = judge_folder().with_file_name("shape_bones");
    std::fs::create_dir_all(&loader).unwrap();
    std::fs::copy(at("face.glb"), loader.join("face.glb")).unwrap();
    let named = |mix: &Value| {
        let weights: serde_json::Map<String, Value> =
            face.shapes.iter().enumerate().map(|(s, shape)| (shape.name.clone(), mix["weights"][s].clone())).collect();
        let positions: Vec<Value> =
            mix["model"].as_array().unwrap().iter().flat_map(|p| p.as_array().unwrap().clone()).collect();
        json!({ "weights": weights, "positions": positions })
    };
    let poses: Vec<Value> = mixes.iter().map(named).collect();
    std::fs::write(loader.join("face.json"), json!({ "size": size, "poses": poses }).to_string()).unwrap();
}

/// No model, nothing to pose.
fn hand_over_tables(page: &Path) {
    std::fs::copy(page, judge_folder().join("tables.html")).unwrap();
    let reference = json!({ "size": null, "models": [], "original": null });
    std::fs::write(judge_folder().join("tables.json"), reference.to_string()).unwrap();
}

#[test]
fn direct_delta_mush() {
    let dir = folder();
    let at = |name: &str| dir.path().join(name);
    let rig = bar(1, &BarParams { bones: 4, rings: 6, around: 12, ..BarParams::default() });
    bonesmith_io::save_rig(&rig, &at("bar.npz")).unwrap();
    // Held against variant 0, which has the frames of the full model.
    bonesmith(dir.path(), "ddm -q bar.npz --rigid-bind -o ddm.npz --report ddm.html").fine();
    bonesmith(dir.path(), "convert -q ddm.npz truth.npz --bake --clip bend").fine();
    hand_over("ddm", &at("ddm.html"), &[&at("ddm.npz")], Some(&at("truth.npz")));
    let line = "ddm -q bar.npz --rigid-bind --compress 16 -o compressed_ddm.npz --report compressed_ddm.html";
    bonesmith(dir.path(), line).fine();
    hand_over("compressed_ddm", &at("compressed_ddm.html"), &[&at("compressed_ddm.npz")], Some(&at("truth.npz")));
}
