//! Broken and malicious files: an error that says where, never a panic, never gigabytes.

use std::path::{Path, PathBuf};

use bonesmith_core::{BoneKind, MeshSequence};
use bonesmith_io::{LoadOptions, load_model, load_rig, load_sequence, save_rig};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::rigs::Recipe;

fn small_glb() -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.glb");
    save_rig(&Recipe { seams: true, frames: 3, ..Recipe::new("x", BoneKind::Affine) }.build(), &path).unwrap();
    std::fs::read(&path).unwrap()
}

/// Everything that reads it; must return.
fn read_all(path: &Path) -> Result<(), String> {
    let rig = load_rig(path).map_err(|e| e.to_string());
    let _ = load_model(&[path.to_owned()], &LoadOptions::default());
    let options = LoadOptions { fps: Some(24.0), ..LoadOptions::default() };
    let sequence = load_sequence(&[path.to_owned()], &options);
    let _ = sequence.map(MeshSequence::try_from);
    rig.map(|_| ())
}

fn read_bytes(bytes: &[u8], name: &str) -> Result<(), String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    read_all(&path)
}

fn split(glb: &[u8]) -> (Value, Vec<u8>) {
    let length = u32::from_le_bytes(glb[12..16].try_into().unwrap()) as usize;
    let json = serde_json::from_slice(&glb[20..20 + length]).unwrap();
    (json, glb[28 + length..].to_vec())
}

/// As .gltf, with the bytes inline.
fn inline(mut json: Value, bin: &[u8]) -> Vec<u8> {
    use base64::Engine;
    let data = base64::engine::general_purpose::STANDARD.encode(bin);
    json["buffers"][0]["uri"] = json!(format!("data:application/octet-stream;base64,{data}"));
    serde_json::to_vec(&json).unwrap()
}

#[test]
fn the_file_itself_is_sound() {
    let glb = small_glb();
    read_bytes(&glb, "x.glb").unwrap();
    let (json, bin) = split(&glb);
    read_bytes(&inline(json, &bin), "x.gltf").unwrap();
}

#[test]
fn every_truncation_is_an_error() {
    let glb = small_glb();
    for length in (0..64).chain((64..glb.len()).step_by(997)) {
        let message = read_bytes(&glb[..length], "x.glb").unwrap_err();
        assert!(message.contains("x.glb"), "{length}: {message}");
    }
    assert!(read_bytes(&glb[..glb.len() / 2], "x.glb").unwrap_err().contains("truncated"));
    assert!(read_bytes(b"", "x.glb").unwrap_err().contains("empty"));
    let missing = load_rig(&PathBuf::from("no/such/file.glb")).unwrap_err().to_string();
    assert!(missing.contains("no/such/file.glb"), "{missing}");
}

/// Every number in the JSON, replaced by bad ones: nothing may panic.
#[test]
fn every_number_in_the_json_may_lie() {
    let (json, bin) = split(&small_glb());
    let mut places = Vec::new();
    numbers(&json, &mut Vec::new(), &mut places);
    let bad = [json!(-1), json!(0), json!(3), json!(1_000_000_007u64), json!(u64::MAX), json!(1e39)];
    // Accessors and views alone are some hundred: take every third place for each value, in turn.
    for (v, value) in bad.iter().enumerate() {
        for place in places.iter().skip(v % 3).step_by(3) {
            let mut broken = json.clone();
            *place.iter().fold(&mut broken, |at, step| match step {
                Step::Key(key) => &mut at[key.as_str()],
                Step::Index(index) => &mut at[*index],
            }) = value.clone();
            let _ = read_bytes(&glb(&broken, &bin), "x.glb");
        }
    }
}

#[derive(Clone)]
enum Step {
    Key(String),
    Index(usize),
}

fn numbers(value: &Value, path: &mut Vec<Step>, out: &mut Vec<Vec<Step>>) {
    let mut descend = |step: Step, child: &Value| {
        path.push(step);
        numbers(child, path, out);
        path.pop();
    };
    match value {
        Value::Object(map) => map.iter().for_each(|(key, child)| descend(Step::Key(key.clone()), child)),
        // Bounds and long lists are all alike.
        Value::Array(list) => list.iter().enumerate().take(40).for_each(|(i, child)| descend(Step::Index(i), child)),
        Value::Number(_) => out.push(path.clone()),
        _ => {}
    }
}

fn glb(json: &Value, bin: &[u8]) -> Vec<u8> {
    let mut json = serde_json::to_vec(json).unwrap();
    json.resize(json.len().next_multiple_of(4), b' ');
    let mut out = b"glTF\x02\0\0\0".to_vec();
    out.extend(((28 + json.len() + bin.len()) as u32).to_le_bytes());
    out.extend((json.len() as u32).to_le_bytes());
    out.extend(b"JSON");
    out.extend(&json);
    out.extend((bin.len() as u32).to_le_bytes());
    out.extend(b"BIN\0");
    out.extend(bin);
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn flipped_bytes_do_not_panic(at in prop::collection::vec((0usize..1 << 20, any::<u8>()), 1..8)) {
        thread_local!(static GLB: Vec<u8> = small_glb());
        let mut bytes = GLB.with(Clone::clone);
        let length = bytes.len();
        at.iter().for_each(|(at, byte)| bytes[at % length] = *byte);
        let _ = read_bytes(&bytes, "x.glb");
    }
}

#[test]
fn small_files_do_not_get_gigabytes() {
    let file = |accessor: Value| {
        let json = json!({
            "asset": { "version": "2.0" },
            "scenes": [{ "nodes": [0] }],
            "nodes": [{ "mesh": 0 }],
            "meshes": [{ "primitives": [{ "attributes": { "POSITION": 0 }, "mode": 0 }] }],
            "accessors": [accessor],
        });
        serde_json::to_vec(&json).unwrap()
    };
    let zeros = file(json!({ "componentType": 5126, "type": "VEC3", "count": 4_000_000_000u64 }));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.gltf");
    std::fs::write(&path, zeros).unwrap();
    let message = load_sequence(std::slice::from_ref(&path), &LoadOptions::default()).unwrap_err().to_string();
    assert!(message.contains("4000000000 elements"), "{message}");
}

/// Two keys a billion seconds apart, at 24 fps.
#[test]
fn a_long_wait_is_refused() {
    let (mut json, mut bin) = split(&small_glb());
    let accessor = json["animations"][0]["samplers"][0]["input"].as_u64().unwrap() as usize;
    let view = json["accessors"][accessor]["bufferView"].as_u64().unwrap() as usize;
    let offset = json["bufferViews"][view]["byteOffset"].as_u64().unwrap() as usize;
    bin[offset + 8..offset + 12].copy_from_slice(&1e9f32.to_le_bytes());
    json["accessors"][accessor]["max"] = json!([1e9]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.gltf");
    std::fs::write(&path, inline(json, &bin)).unwrap();
    let options = LoadOptions { fps: Some(24.0), ..LoadOptions::default() };
    let message = load_sequence(&[path], &options).unwrap_err().to_string();
    assert!(message.contains("fps"), "{message}");
}

#[test]
fn extensions_that_are_not_read_are_refused_by_name() {
    let (mut json, bin) = split(&small_glb());
    json["extensionsRequired"] = json!(["KHR_mesh_quantization", "EXT_other_compression"]);
    let message = read_bytes(&inline(json.clone(), &bin), "x.gltf").unwrap_err();
    assert!(message.contains("EXT_other_compression"), "{message}");
    json["extensionsRequired"] =
        json!(["KHR_mesh_quantization", "EXT_meshopt_compression", "KHR_draco_mesh_compression"]);
    read_bytes(&inline(json, &bin), "x.gltf").unwrap();
}

#[test]
fn broken_compressed_views_are_refused() {
    let (mut json, bin) = split(&small_glb());
    let sound = json["bufferViews"][0]["byteLength"].as_u64().unwrap() / 4 * 4;
    json["bufferViews"][0]["byteLength"] = json!(sound);
    let stream = |changed: serde_json::Value| {
        let mut view =
            json!({ "buffer": 0, "byteLength": sound, "byteStride": 4, "count": sound / 4, "mode": "ATTRIBUTES" });
        view.as_object_mut().unwrap().extend(changed.as_object().unwrap().clone());
        let mut json = json.clone();
        json["bufferViews"][0]["extensions"] = json!({ "EXT_meshopt_compression": view });
        read_bytes(&inline(json, &bin), "x.gltf").unwrap_err()
    };
    for (changed, said) in [
        (json!({}), "does not start"),
        (json!({ "mode": "PICTURES" }), "PICTURES"),
        (json!({ "filter": "MIRROR" }), "MIRROR"),
        (json!({ "buffer": 7 }), "buffer 7"),
        (json!({ "byteOffset": u64::MAX }), "buffer 0"),
        (json!({ "count": sound }), "expected"),
        (json!({ "count": u64::MAX }), "too many"),
        (json!({ "byteStride": -1 }), "compressed buffer view 0"),
    ] {
        let message = stream(changed);
        assert!(message.contains(said), "{message}");
    }
}

#[test]
fn devices_and_far_places_are_not_read() {
    let (mut json, _) = split(&small_glb());
    for uri in ["../../../../../../../../../dev/zero", "/dev/zero", "http://example.com/x.bin"] {
        json["buffers"][0]["uri"] = json!(uri);
        read_bytes(&serde_json::to_vec(&json).unwrap(), "x.gltf").unwrap_err();
    }
}
