//! One JSON layout for all commands: `docs/formats/summary.schema.json`.

use serde_json::Value;

use crate::harness::{bonesmith, folder, known, walk};
use bonesmith_core::BoneKind;

fn schema() -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/formats/summary.schema.json");
    serde_json::from_slice(&std::fs::read(path).expect("the schema")).expect("JSON")
}

/// What of `value` the schema does not allow: the part of JSON Schema that it uses.
fn violations(value: &Value, schema: &Value) -> Vec<String> {
    let (object, properties) = (value.as_object().expect("an object"), schema["properties"].as_object().unwrap());
    let missing = schema["required"].as_array().unwrap().iter().map(|key| key.as_str().unwrap());
    let missing = missing.filter(|key| !object.contains_key(*key)).map(|key| format!("{key} is missing"));
    let wrong = object.iter().filter_map(|(key, value)| match properties.get(key) {
        None => Some(format!("{key} is not in the schema")),
        Some(property) => {
            let types = match &property["type"] {
                Value::String(one) => vec![one.as_str()],
                list => list.as_array().unwrap().iter().map(|one| one.as_str().unwrap()).collect(),
            };
            (!types.iter().any(|name| is(value, name))).then(|| format!("{key} is {value}, not {types:?}"))
        }
    });
    missing.chain(wrong).collect()
}

fn is(value: &Value, name: &str) -> bool {
    match name {
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "null" => value.is_null(),
        other => panic!("{other}"),
    }
}

#[test]
fn every_summary_has_the_layout_of_the_schema() {
    let dir = folder();
    walk(dir.path());
    bonesmith_io::save_rig(&known(BoneKind::Rigid).rig, &dir.path().join("rig.npz")).unwrap();
    let schema = schema();
    for line in [
        "fit walk.npz --bones 3 -o a.glb",
        "fit walk.npz --bones 3 --eigenskin 2 -o b.npz",
        "fit walk.npz --method svd --bones 2 -o c.npz",
        "fit walk.npz --skeleton -o d.npz",
        "fit walk.npz --rig rig.npz --align off -o e.npz",
        "shapes walk.npz --bones 3 --numbers 40 -o k.npz",
        "eval a.glb walk.npz",
        "reduce rig.npz --influences 2 -o f.npz",
        "compress rig.npz --force -o g.npz",
        "ddm rig.npz -o h.npz",
        "ddm rig.npz --compress 8 -o i.npz",
        "ddm rig.npz --delta-mush -o j.npz",
    ] {
        let summary = bonesmith(dir.path(), &format!("{line} -q --json -")).fine().json();
        assert_eq!(violations(&summary, &schema), [""; 0], "{line}");
        assert_eq!(summary["command"], line.split(' ').next().unwrap());
    }
}

#[test]
fn the_check_finds_what_is_wrong() {
    let schema = schema();
    let found = violations(&serde_json::json!({ "version": 1, "other": 2 }), &schema);
    assert!(
        found.iter().any(|text| text == "other is not in the schema")
            && found.iter().any(|text| text == "e_rms is missing")
    );
    assert!(found.iter().any(|text| text.starts_with("version is 1")), "{found:?}");
}
