//! glTF files around Draco streams.

use base64::Engine;
use serde_json::{Value, json};

/// A file around a stream, with `indices` stated.
pub fn document(stream: &[u8], indices: usize) -> Value {
    let data = base64::engine::general_purpose::STANDARD.encode(stream);
    let accessor = |component: u32, kind: &str, normalized: bool| json!({ "componentType": component, "type": kind, "count": 180, "normalized": normalized });
    let mut indices_accessor = accessor(5125, "SCALAR", false);
    indices_accessor["count"] = json!(indices);
    json!({
        "asset": { "version": "2.0" },
        "extensionsRequired": ["KHR_draco_mesh_compression"],
        "extensionsUsed": ["KHR_draco_mesh_compression"],
        "buffers": [{ "byteLength": stream.len(), "uri": format!("data:application/octet-stream;base64,{data}") }],
        "bufferViews": [{ "buffer": 0, "byteLength": stream.len() }],
        "accessors": [
            indices_accessor,
            accessor(5126, "VEC3", false),
            accessor(5126, "VEC3", false),
            accessor(5126, "VEC2", false),
            accessor(5121, "VEC4", true),
        ],
        "meshes": [{ "name": "torus", "primitives": [{
            "indices": 0,
            "attributes": { "POSITION": 1, "NORMAL": 2, "TEXCOORD_0": 3, "COLOR_0": 4 },
            "extensions": { "KHR_draco_mesh_compression": {
                "bufferView": 0,
                "attributes": { "POSITION": 0, "NORMAL": 1, "TEXCOORD_0": 2, "COLOR_0": 3 },
            } },
        }] }],
        "nodes": [{ "name": "torus", "mesh": 0 }],
        "scenes": [{ "nodes": [0] }],
        "scene": 0,
    })
}

/// The same with the stream in the binary chunk.
pub fn glb(stream: &[u8], indices: usize) -> Vec<u8> {
    let mut json = document(stream, indices);
    json["buffers"] = json!([{ "byteLength": stream.len() }]);
    let mut out = b"glTF\x02\0\0\0\0\0\0\0".to_vec();
    for (kind, content, filler) in [(b"JSON", json.to_string().as_bytes(), b' '), (b"BIN\0", stream, 0)] {
        let padded = content.len().next_multiple_of(4);
        out.extend((padded as u32).to_le_bytes());
        out.extend(kind);
        out.extend(content);
        out.resize(out.len() + padded - content.len(), filler);
    }
    let length = out.len() as u32;
    out[8..12].copy_from_slice(&length.to_le_bytes());
    out
}
