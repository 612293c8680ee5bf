//! Bytes of a file by what they are for.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use super::{container, meshopt};
use crate::atomic;
use crate::detect::Format;

/// Bytes of a .glb or .gltf by part: positions, weights, rotations and so on; what is not read as one is in no part.
pub fn by_part(path: &Path) -> BTreeMap<String, u64> {
    let mut parts = BTreeMap::new();
    let Some((root, length)) = description(path) else { return parts };
    parts.insert("description".to_owned(), length as u64);
    let views = uses(&root);
    for (index, view) in list(&root["bufferViews"]).enumerate() {
        let coded = meshopt::EXTENSIONS.iter().find_map(|name| view["extensions"].get(name));
        let length = coded.unwrap_or(view)["byteLength"].as_u64().unwrap_or(0);
        let name = views.get(&(index as u64)).map_or("others", String::as_str);
        *parts.entry(name.to_owned()).or_insert(0) += length;
    }
    parts
}

/// Whether a file is a glTF file with compressed views. False where it cannot be read.
pub fn is_compressed(path: &Path) -> bool {
    let is_gltf = matches!(Format::from_extension(path), Some(Format::Glb | Format::Gltf));
    let used =
        |root: &Value| list(&root["extensionsUsed"]).any(|name| meshopt::EXTENSIONS.iter().any(|own| name == own));
    is_gltf && description(path).is_some_and(|(root, _)| used(&root))
}

/// The JSON of a file and its length.
fn description(path: &Path) -> Option<(Value, usize)> {
    let bytes = std::fs::read(atomic::pending(path).unwrap_or_else(|| path.to_owned())).ok()?;
    let json = match container::is_glb(&bytes) {
        true => container::unpack(&bytes).map_or(&[][..], |glb| glb.json),
        false => &bytes[..],
    };
    Some((serde_json::from_slice(json).ok()?, json.len()))
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// What each view is for.
fn uses(root: &Value) -> BTreeMap<u64, String> {
    let mut views = BTreeMap::new();
    let mut mark = |accessor: &Value, name: &str| {
        let view = accessor.as_u64().and_then(|at| root["accessors"].get(at as usize)?["bufferView"].as_u64());
        if let Some(view) = view {
            views.insert(view, name.to_owned());
        }
    };
    for primitive in list(&root["meshes"]).flat_map(|mesh| list(&mesh["primitives"])) {
        mark(&primitive["indices"], "indices");
        for (name, accessor) in primitive["attributes"].as_object().into_iter().flatten() {
            let name = match name.split('_').next().unwrap_or_default() {
                "POSITION" => "positions",
                "NORMAL" => "normals",
                "TANGENT" => "tangents",
                "TEXCOORD" => "texture coordinates",
                "COLOR" => "colours",
                "JOINTS" => "joints",
                "WEIGHTS" => "weights",
                _ => "others",
            };
            mark(accessor, name);
        }
        list(&primitive["targets"]).filter_map(Value::as_object).flatten().for_each(|(_, at)| mark(at, "shapes"));
    }
    for animation in list(&root["animations"]) {
        for channel in list(&animation["channels"]) {
            let sampler = &animation["samplers"][channel["sampler"].as_u64().unwrap_or(u64::MAX) as usize];
            let path = channel["target"]["path"].as_str().unwrap_or_default();
            mark(&sampler["input"], "times");
            mark(&sampler["output"], &if path == "weights" { "shape weights".to_owned() } else { format!("{path}s") });
        }
    }
    views
}
