//! Draco streams as Google's encoder writes them (tests/clients/draco_streams.mjs), against the arithmetic that made their meshes; damaged streams.

use std::f64::consts::{SQRT_2, TAU};
use std::path::PathBuf;

use base64::Engine;
use bonesmith_core::RawSequence;
use bonesmith_io::{LoadOptions, load_sequence};
use glam::{DVec2, DVec3, Vec2, Vec3};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::common::draco::document;

/// Largest distance of positions, normals and texture coordinates from the exact ones.
type Bounds = [f64; 3];

/// Rounding of the encoder's and the decoder's arithmetic in float32, on numbers up to 6.
const ARITHMETIC: f64 = 1e-6;

/// Half a step of the grid along each axis.
///
/// Positions: 2^14 - 1 steps over the widest extent, 6, along three axes. Texture coordinates: the same over 1, along two. Normals: points of an
/// octahedron, |x| + |y| + |z| = 1, with 511 steps for x and for y; z follows, so that half a step of both moves a point by sqrt(6) / 1022, and its direction by
/// up to sqrt(3) times as much where the octahedron is nearest to its centre.
const QUANTISED: Bounds = [
    3.0 / 16383.0 * 1.732_050_807_568_877_2 + ARITHMETIC,
    3.0 * SQRT_2 / 1022.0 + ARITHMETIC,
    SQRT_2 / 2.0 / 16383.0 + ARITHMETIC,
];

/// Rounding to float32, half a unit in the last place of each coordinate: 2^-23 of those up to 4, 2^-25 of those up to 1. A texture coordinate is
/// subtracted from 1 once more.
const FLOATS: Bounds = [2.0 / (1 << 23) as f64, 2.0 / (1 << 25) as f64, 2.0 / (1 << 24) as f64];

/// Name, rows and columns of quads, bounds of the error.
const STREAMS: [(&str, &[u8], [usize; 2], Bounds); 8] = [
    ("standard", include_bytes!("draco/torus_speed5_edgebreaker_14bits.drc"), [14, 11], QUANTISED),
    ("valence", include_bytes!("draco/torus_speed0_edgebreaker_14bits.drc"), [14, 11], QUANTISED),
    ("parallelogram", include_bytes!("draco/torus_speed4_edgebreaker_14bits.drc"), [14, 11], QUANTISED),
    ("floats", include_bytes!("draco/torus_speed7_edgebreaker_floats.drc"), [14, 11], FLOATS),
    ("difference", include_bytes!("draco/torus_speed10_edgebreaker_14bits.drc"), [14, 11], QUANTISED),
    ("sequential", include_bytes!("draco/torus_speed0_sequential_14bits.drc"), [14, 11], QUANTISED),
    ("sequential floats", include_bytes!("draco/torus_speed10_sequential_floats.drc"), [14, 11], FLOATS),
    ("holes", include_bytes!("draco/open_speed2_edgebreaker_14bits.drc"), [20, 16], QUANTISED),
];

fn read(json: &Value) -> Result<RawSequence, String> {
    let folder = tempfile::tempdir().unwrap();
    let path: PathBuf = folder.path().join("compressed.gltf");
    std::fs::write(&path, json.to_string()).unwrap();
    load_sequence(&[path], &LoadOptions::default()).map_err(|e| e.to_string())
}

/// Every corner of every face is where its colour says, with the normal and texture coordinates of that place.
#[test]
fn streams_are_the_meshes_they_were_made_from() {
    for (name, stream, [rows, columns], bounds) in STREAMS {
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
            let color = colors.values[colors.indices[corner] as usize].map(|c| f64::from((c * 255.0).round()));
            let (i, j) = (color[0] / rows as f64, color[1] / columns as f64);
            assert_eq!([color[2], color[3]], [(color[0] * color[1]) % 256.0, 255.0], "{name}, corner {corner}");
            let ((su, cu), (sv, cv)) = ((i * TAU).sin_cos(), (j * TAU).sin_cos());
            let place = DVec3::new((2.0 + cv) * cu, (2.0 + cv) * su, sv);
            let normal = Vec3::from_array(normals.values[normals.indices[corner] as usize]).as_dvec3();
            let uv = Vec2::from_array(uvs.values[uvs.indices[corner] as usize]).as_dvec2();
            let off = [
                positions[vertex as usize].as_dvec3().distance(place),
                normal.distance(DVec3::new(cv * cu, cv * su, sv)),
                uv.distance(DVec2::new(i, 1.0 - j)),
            ];
            assert!((0..3).all(|k| off[k] <= bounds[k]), "{name}, corner {corner}: {off:?}, allowed {bounds:?}");
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
