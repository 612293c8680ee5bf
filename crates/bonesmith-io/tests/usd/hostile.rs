//! Broken and malicious files: an error that names the file, never a panic, never for ever. Memory: `usd_memory.rs`.

use std::path::Path;

use bonesmith_core::{BoneKind, MeshSequence};
use bonesmith_io::{LoadOptions, list_meshes, load_model, load_rig, load_sequence, save_rig};
use proptest::prelude::*;

use crate::rigs::Recipe;

/// Small, but with everything in it.
fn small(ending: &str) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(format!("x.{ending}"));
    save_rig(&Recipe { seams: true, frames: 3, ..Recipe::new("x", BoneKind::Affine) }.build(), &path).unwrap();
    std::fs::read(&path).unwrap()
}

/// Everything that reads it; must return.
fn read_all(path: &Path) -> Result<(), String> {
    let rig = load_rig(path).map_err(|e| e.to_string());
    let _ = list_meshes(path);
    let _ = load_model(&[path.to_owned()], &LoadOptions::default());
    let options = LoadOptions { fps: Some(24.0), ..LoadOptions::default() };
    let _ = load_sequence(&[path.to_owned()], &options).map(MeshSequence::try_from);
    rig.map(|_| ())
}

fn read_bytes(bytes: &[u8], ending: &str) -> Result<(), String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(format!("x.{ending}"));
    std::fs::write(&path, bytes).unwrap();
    read_all(&path)
}

#[test]
fn the_files_themselves_are_sound() {
    for ending in ["usda", "usdc", "usdz"] {
        read_bytes(&small(ending), ending).unwrap();
    }
}

#[test]
fn every_truncation_is_an_error() {
    for ending in ["usda", "usdc", "usdz"] {
        let bytes = small(ending);
        for part in 0..256 {
            let length = bytes.len() * part / 256;
            let message = read_bytes(&bytes[..length], ending).unwrap_err();
            assert!(message.contains(&format!("x.{ending}")), "{length}: {message}");
        }
    }
}

/// Every 8 and 4 bytes of the structure of a binary file set to extremes.
#[test]
fn numbers_of_a_binary_file_may_lie() {
    let bytes = small("usdc");
    let toc = u64::from_le_bytes(bytes[16..24].try_into().unwrap()) as usize;
    // Everything behind the values, in steps; and heads of values, from the start.
    let places = (8..88).step_by(8).chain((88..toc).step_by(61)).chain((toc..bytes.len() - 8).step_by(4));
    for (turn, place) in places.enumerate() {
        let extremes = [0, 1, u64::MAX, i64::MAX as u64, 1 << 40, u64::from(u32::MAX), bytes.len() as u64];
        for value in extremes.iter().skip(turn % 3).step_by(3) {
            let mut copy = bytes.clone();
            copy[place..place + 8].copy_from_slice(&value.to_le_bytes());
            let _ = read_bytes(&copy, "usdc");
        }
    }
}

/// Small texts that ask for much, or for nothing that exists.
#[test]
fn texts_that_lie() {
    let mesh = |body: &str| {
        format!(
            "#usda 1.0\ndef Mesh \"m\" {{\n point3f[] points = [(0,0,0),(1,0,0),(0,1,0),(1,1,0)]\n int[] faceVertexCounts = [4]\n int[] faceVertexIndices = [0,1,3,2]\n{body}\n}}\n"
        )
    };
    let cases = [
        ("#usda 1.0\n", "no mesh"),
        ("#usda 1.0\ndef Mesh \"m\" {", "line 2"),
        ("#usda 1.0\ndef Mesh \"m\" { point3f[] points = [(0,0,zero)] }", "a number is expected"),
        (&format!("#usda 1.0\n{}", "def \"a\" {".repeat(100_000)), "nested"),
        (&format!("#usda 1.0\ndef \"a\" {{ int x = {}", "[".repeat(100_000)), "nested"),
        ("#usda 1.0\ndef \"a\" (references = </a>) { def Mesh \"m\" {} }", "circle"),
        ("#usda 1.0\n(subLayers = [@x.usda@])\n", "circle"),
        ("#usda 1.0\ndef \"a\" (references = @nowhere.usdc@) {}", "nowhere.usdc"),
        (&mesh("int[] holes = [1]"), "no skinned mesh"),
        (&mesh(" int[] faceVertexCounts = [4, 3]"), "no skinned mesh"),
        (
            &mesh(
                "}\ndef Mesh \"n\" {\n point3f[] points = [(0,0,0)]\n int[] faceVertexCounts = [3]\n int[] faceVertexIndices = [0]",
            ),
            "corners",
        ),
        (
            &mesh(
                "}\ndef Mesh \"n\" {\n point3f[] points = [(0,0,0)]\n int[] faceVertexIndices = [-1]\n int[] faceVertexCounts = [1]",
            ),
            "entry 0 is -1",
        ),
        (&mesh("double xformOp:what = 1\n uniform token[] xformOpOrder = [\"xformOp:what\"]"), "xformOp:what"),
        (
            &mesh(
                "double xformOp:translateX.spline = { 1: two }\n uniform token[] xformOpOrder = [\"xformOp:translateX\"]",
            ),
            "spline",
        ),
        (
            &mesh("").replace(
                "def Mesh \"m\"",
                "def Mesh \"m\" (clips = { dictionary default = { asset[] assetPaths = [@nowhere.usda@] } })",
            ),
            "the clips \"default\" of /m: the layer \"nowhere.usda\" cannot be read",
        ),
        (
            &mesh("").replace(
                "def Mesh \"m\"",
                "def Mesh \"m\" (clips = { dictionary default = { string templateAssetPath = \"a.#.usda\"\n \
                 double templateStartTime = 0\n double templateEndTime = 1e9\n double templateStride = 1e-9 } })",
            ),
            "layers from 0 to 1000000000",
        ),
        (
            &mesh("").replace(
                "def Mesh \"m\"",
                &format!(
                    "def Mesh \"m\" (clips = {{ dictionary default = {{ string templateAssetPath = \"{}.usda\"\n \
                     double templateStartTime = 0\n double templateEndTime = 1\n double templateStride = 1 }} }})",
                    "#".repeat(70_000)
                ),
            ),
            "a very long one",
        ),
        (
            &mesh(&format!(
                "double xformOp:translateX.spline = {{ 0: 1, 99000: 2 }}\n uniform token[] xformOpOrder = [{}]",
                "\"xformOp:translateX\", ".repeat(200)
            )),
            "more than 1048576 samples",
        ),
    ];
    for (text, expected) in cases {
        let message = read_bytes(text.as_bytes(), "usda").unwrap_err();
        assert!(message.contains(expected), "{message}\n{:.200}", text);
    }
    assert!(read_bytes(b"#usda 1.0\n\xff\xfe", "usda").unwrap_err().contains("UTF-8"));
    assert!(read_bytes(b"PXR-USDC\0\x63\0\0\0\0\0\0", "usdc").is_err());
}

/// Clips whose samples multiply are refused before they are held.
#[test]
fn clips_cannot_multiply_without_end() {
    let folder = tempfile::tempdir().unwrap();
    let samples: String = (0..1000).map(|k| format!("{k}: [(0,0,0)],")).collect();
    let clip = format!("#usda 1.0\ndef Mesh \"m\" {{ point3f[] points.timeSamples = {{ {samples} }} }}");
    std::fs::write(folder.path().join("clip.usda"), clip).unwrap();
    let times: String = (0..1000).map(|k| format!("({k}, {}), ", 1000 * (k % 2))).collect();
    let text = format!(
        "#usda 1.0\ndef Mesh \"m\" (clips = {{ dictionary default = {{ asset[] assetPaths = [@clip.usda@]\n string primPath = \"/m\"\n \
         double2[] active = [(0, 0)]\n double2[] times = [{times}] }} }}) {{\n int[] faceVertexCounts = []\n int[] faceVertexIndices = [] }}\n"
    );
    let path = folder.path().join("x.usda");
    std::fs::write(&path, text).unwrap();
    let message = read_all(&path).unwrap_err();
    assert!(message.contains("1 clips of 1000 samples at 1000 times are too many"), "{message}");
}

/// A reference that doubles at each level: 2^20 prims out of a few hundred bytes are refused, not made.
#[test]
fn references_cannot_multiply_without_end() {
    let mut text = String::from("#usda 1.0\ndef \"l0\" { def Mesh \"m\" { point3f[] points = [(0,0,0)] } }\n");
    for level in 1..=20 {
        let below = level - 1;
        text += &format!(
            "def \"l{level}\" {{ def \"a\" (references = </l{below}>) {{}}\n def \"b\" (references = </l{below}>) {{}} }}\n"
        );
    }
    let message = read_bytes(text.as_bytes(), "usda").unwrap_err();
    assert!(message.contains("too many prims"), "{message}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn flipped_bits_never_panic(flips in prop::collection::vec((any::<prop::sample::Index>(), 0..8u8), 1..12), which in 0..3usize) {
        let ending = ["usda", "usdc", "usdz"][which];
        static FILES: std::sync::OnceLock<[Vec<u8>; 3]> = std::sync::OnceLock::new();
        let files = FILES.get_or_init(|| ["usda", "usdc", "usdz"].map(small));
        let mut bytes = files[which].clone();
        for (place, bit) in flips {
            let place = place.index(bytes.len());
            bytes[place] ^= 1 << bit;
        }
        let _ = read_bytes(&bytes, ending);
    }

    #[test]
    fn flipped_structure_never_panics(flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6)) {
        static FILE: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
        let mut bytes = FILE.get_or_init(|| small("usdc")).clone();
        // The last tenth is the structure, compressed.
        let start = bytes.len() - bytes.len() / 10;
        for (place, value) in flips {
            let place = start + place.index(bytes.len() - start);
            bytes[place] = value;
        }
        let _ = read_bytes(&bytes, "usdc");
    }
}
