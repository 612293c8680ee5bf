//! Draco streams as Google's encoder writes them (tests/clients/draco_streams.mjs), against the arithmetic that made their meshes; damaged streams.

use std::f32::consts::TAU;
use std::path::PathBuf;

use base64::Engine;
use bonesmith_core::RawSequence;
use bonesmith_io::{LoadOptions, load_sequence};
use glam::{Vec2, Vec3};
use proptest::prelude::*;
use serde_json::{Value, json};

/// Name, rows and columns of quads, number of faces, largest error of positions, normals and texture coordinates.
#[allow(clippy::type_complexity, reason = "a table")]
const STREAMS: [(&str, &[u8], [usize; 2], [f32; 3]); 8] = [
    ("standard", include_bytes!("draco/torus_speed5_edgebreaker_14bits.drc"), [14, 11], [4e-4, 5e-3, 1e-4]),
    ("valence", include_bytes!("draco/torus_speed0_edgebreaker_14bits.drc"), [14, 11], [4e-4, 5e-3, 1e-4]),
    ("parallelogram", include_bytes!("draco/torus_speed4_edgebreaker_14bits.drc"), [14, 11], [4e-4, 5e-3, 1e-4]),
    ("floats", include_bytes!("draco/torus_speed7_edgebreaker_floats.drc"), [14, 11], [1e-5, 1e-5, 1e-5]),
    ("difference", include_bytes!("draco/torus_speed10_edgebreaker_14bits.drc"), [14, 11], [4e-4, 5e-3, 1e-4]),
    ("sequential", include_bytes!("draco/torus_speed0_sequential_14bits.drc"), [14, 11], [4e-4, 5e-3, 1e-4]),
    ("sequential floats", include_bytes!("draco/torus_speed10_sequential_floats.drc"), [14, 11], [1e-5, 1e-5, 1e-5]),
    ("holes", include_bytes!("draco/open_speed2_edgebreaker_14bits.drc"), [20, 16], [4e-4, 5e-3, 1e-4]),
];

/// A file around a stream, with `indices` stated.
fn document(stream: &[u8], indices: usize) -> Value {
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

fn read(json: &Value) -> Result<RawSequence, String> {
    let folder = tempfile::tempdir().unwrap();
    let path: PathBuf = folder.path().join("compressed.gltf");
    std::fs::write(&path, json.to_string()).unwrap();
    load_sequence(&[path], &LoadOptions::default()).map_err(|e| e.to_string())
}

/// Every corner of every face is where its colour says, with the normal and texture coordinates of that place.
#[test]
fn streams_are_the_meshes_they_were_made_from() {
    for (name, stream, [rows, columns], [near, turned, apart]) in STREAMS {
        let quads = rows * columns;
        let found = read(&document(stream, 6 * quads)).unwrap_or_else(|e| panic!("{name}: {e}"));
        let surface = &found.surface;
        let faces = surface.topology.face_count();
        if name == "holes" {
            assert!(faces.is_multiple_of(2) && (quads * 3 / 2..2 * quads).contains(&faces), "{name}: {faces}");
        } else {
            assert_eq!(faces, 2 * quads, "{name}");
        }
        let (colors, normals) = (surface.colors.as_ref().unwrap(), surface.normals.as_ref().unwrap());
        let uvs = &surface.uv_sets[0];
        let positions = &found.frames[0].positions;
        let vertices = surface.topology.faces().flatten();
        for (corner, &vertex) in vertices.enumerate() {
            let color = colors.values[colors.indices[corner] as usize].map(|c| (c * 255.0).round());
            let (i, j) = (color[0] / rows as f32, color[1] / columns as f32);
            assert_eq!([color[2], color[3]], [(color[0] * color[1]) % 256.0, 255.0], "{name}, corner {corner}");
            let ((su, cu), (sv, cv)) = ((i * TAU).sin_cos(), (j * TAU).sin_cos());
            let place = Vec3::new((2.0 + cv) * cu, (2.0 + cv) * su, sv);
            let off = positions[vertex as usize].distance(place);
            assert!(off < near, "{name}, corner {corner}: {off}");
            let normal = Vec3::from_array(normals.values[normals.indices[corner] as usize]);
            assert!(normal.distance(Vec3::new(cv * cu, cv * su, sv)) < turned, "{name}, corner {corner}: {normal}");
            let uv = Vec2::from_array(uvs.values[uvs.indices[corner] as usize]);
            assert!(uv.distance(Vec2::new(i, 1.0 - j)) < apart, "{name}, corner {corner}: {uv}");
        }
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let stream = STREAMS[0].1;
    let sound = document(stream, 6 * 154);
    let refused = |json: &Value, said: &str| {
        let message = read(json).unwrap_err();
        assert!(message.contains("\"torus\", primitive 0") && message.contains(said), "{message}");
    };
    refused(&document(stream, 30), "308 faces");
    refused(&document(&stream[..200], 6 * 154), "Draco");
    refused(&document(b"no stream", 6 * 154), "Draco");
    let mut lost = sound.clone();
    lost["meshes"][0]["primitives"][0]["extensions"]["KHR_draco_mesh_compression"]["attributes"]["NORMAL"] = json!(9);
    refused(&lost, "no attribute 9");
    lost["meshes"][0]["primitives"][0]["extensions"]["KHR_draco_mesh_compression"] =
        json!({ "bufferView": 7, "attributes": {} });
    refused(&lost, "buffer view 7");
    let mut bare = sound.clone();
    bare["meshes"][0]["primitives"][0].as_object_mut().unwrap().remove("indices");
    refused(&bare, "no indices");
    // A copy without compression is preferred, whatever the stream holds.
    let mut beside = document(b"no stream", 3);
    let bytes: Vec<u8> = [0f32, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0].iter().flat_map(|x| x.to_le_bytes()).collect();
    let data = base64::engine::general_purpose::STANDARD.encode(&bytes);
    beside["buffers"] = json!([{ "byteLength": 36, "uri": format!("data:;base64,{data}") }]);
    beside["bufferViews"] = json!([{ "buffer": 0, "byteLength": 36 }]);
    beside["accessors"] = json!([{ "componentType": 5126, "type": "VEC3", "count": 3, "bufferView": 0 }]);
    beside["meshes"][0]["primitives"][0]["attributes"] = json!({ "POSITION": 0 });
    beside["meshes"][0]["primitives"][0].as_object_mut().unwrap().remove("indices");
    assert_eq!(read(&beside).unwrap().frames[0].positions.len(), 3);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Damaged streams are refused, or decoded to meshes that are sound.
    #[test]
    fn damaged_streams_are_decoded_or_refused(
        which in 0..STREAMS.len(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>(), any::<bool>()), 1..6),
        length in prop_oneof![3 => Just(None), 1 => any::<prop::sample::Index>().prop_map(Some)],
    ) {
        let (_, stream, [rows, columns], _) = STREAMS[which];
        let mut bytes = stream.to_vec();
        for (at, value, early) in changes {
            // Counts and kinds of prediction are at the start.
            let at = at.index(if early { 120 } else { bytes.len() });
            bytes[at] = value;
        }
        if let Some(length) = length {
            bytes.truncate(length.index(bytes.len()));
        }
        if let Ok(found) = read(&document(&bytes, 6 * rows * columns)) {
            prop_assert!(found.surface.topology.face_count() <= 2 * rows * columns);
            prop_assert!(found.frames[0].positions.len() <= 6 * rows * columns);
        }
    }
}
