//! PLY in its three encodings.

use std::fmt::Write;

use bonesmith_core::RawSequence;
use bonesmith_io::{LoadOptions, load_sequence};
use glam::Vec3;
use proptest::prelude::*;

#[derive(Clone, Copy, Debug)]
pub enum Encoding {
    Ascii,
    Little,
    Big,
}

/// A PLY file with normals, texture coordinates, and an element that nobody knows.
pub fn ply(encoding: Encoding, positions: &[[f32; 3]], faces: &[Vec<u32>]) -> Vec<u8> {
    let name = match encoding {
        Encoding::Ascii => "ascii",
        Encoding::Little => "binary_little_endian",
        Encoding::Big => "binary_big_endian",
    };
    let mut header = format!("ply\nformat {name} 1.0\ncomment made by a test\nelement vertex {}\n", positions.len());
    for property in ["x", "y", "z", "nx", "ny", "nz", "s", "t"] {
        writeln!(header, "property float {property}").unwrap();
    }
    write!(header, "element extra 1\nproperty double d\nelement face {}\n", faces.len()).unwrap();
    header.push_str("property list uchar int vertex_indices\nend_header\n");
    let mut bytes = header.into_bytes();
    for p in positions {
        let record = [p[0], p[1], p[2], 0.0, 0.0, 1.0, 0.25, 0.75];
        match encoding {
            Encoding::Ascii => bytes.extend(record.map(|v| format!("{v} ")).concat().bytes().chain([b'\n'])),
            Encoding::Little => record.iter().for_each(|v| bytes.extend(v.to_le_bytes())),
            Encoding::Big => record.iter().for_each(|v| bytes.extend(v.to_be_bytes())),
        }
    }
    match encoding {
        Encoding::Ascii => bytes.extend(b"0.5\n"),
        _ => bytes.extend([0; 8]),
    }
    for face in faces {
        match encoding {
            Encoding::Ascii => {
                let corners: String = face.iter().map(|v| format!(" {v}")).collect();
                bytes.extend(format!("{}{corners}\n", face.len()).bytes());
            }
            Encoding::Little => {
                bytes.push(face.len() as u8);
                face.iter().for_each(|v| bytes.extend((*v as i32).to_le_bytes()));
            }
            Encoding::Big => {
                bytes.push(face.len() as u8);
                face.iter().for_each(|v| bytes.extend((*v as i32).to_be_bytes()));
            }
        }
    }
    bytes
}

fn read(bytes: &[u8]) -> Result<RawSequence, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mesh.ply");
    std::fs::write(&path, bytes).unwrap();
    load_sequence(&[path], &LoadOptions::default()).map_err(|e| e.to_string())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn what_is_written_is_read(
        (positions, faces) in prop::collection::vec(prop::array::uniform3(prop::num::f32::NORMAL), 4..20).prop_flat_map(|p| {
            let corner = 0..p.len() as u32;
            (Just(p), prop::collection::vec(prop::collection::vec(corner, 3..7), 1..9))
        }),
    ) {
        for encoding in [Encoding::Ascii, Encoding::Little, Encoding::Big] {
            let raw = read(&ply(encoding, &positions, &faces)).unwrap();
            let expected: Vec<Vec3> = positions.iter().map(|&p| Vec3::from_array(p)).collect();
            prop_assert_eq!(&raw.frames[0].positions, &expected, "{:?}", encoding);
            prop_assert_eq!(raw.surface.topology.faces().map(<[u32]>::to_vec).collect::<Vec<_>>(), faces.clone());
            let (uv, normals) = (&raw.surface.uv_sets[0], raw.surface.normals.as_ref().unwrap());
            prop_assert_eq!(uv.values[uv.indices[0] as usize], [0.25, 0.75]);
            prop_assert_eq!(normals.values[normals.indices[2] as usize], [0.0, 0.0, 1.0]);
            raw.surface.check(positions.len()).unwrap();
        }
    }
}

#[test]
fn other_types_and_names() {
    let text = "ply\r\nformat ascii 1.0\r\nelement face 1\r\nproperty list uint uint vertex_index\r\nelement vertex 4\r\n\
                property double z\r\nproperty short y\r\nproperty uchar red\r\nproperty double x\r\nend_header\r\n\
                4 0 1 2 3\r\n0.5 1 255 2\r\n1 2 0 3\r\n0 0 0 0\r\n9 9 9 9\r\n";
    let raw = read(text.as_bytes()).unwrap();
    assert_eq!(raw.frames[0].positions[0], Vec3::new(2.0, 1.0, 0.5));
    assert_eq!(raw.surface.topology.face(0), [0, 1, 2, 3]);
    assert!(raw.surface.uv_sets.is_empty() && raw.surface.normals.is_none());
}

#[test]
fn refusals_say_what_is_wrong() {
    let header = |body: &str| format!("ply\nformat ascii 1.0\n{body}");
    let xyz = "property float x\nproperty float y\nproperty float z\n";
    let list = "property list uchar int vertex_indices\n";
    let cases = [
        (header("element vertex 1\nproperty float x\nend_header\n0\n"), "no \"y\""),
        (header(&format!("element vertex 99999999999\n{xyz}end_header\n0 0 0\n")), "cannot be in"),
        (header("element vertex 3\nend_header\n"), "cannot be in"),
        (header(&format!("element vertex 2\n{xyz}end_header\n0 0 0\n")), "end of file"),
        (
            header(&format!("element vertex 1\n{xyz}element face 1\n{list}end_header\n0 0 0\n3 0 0 1\n")),
            "face 0 names vertex 1",
        ),
        (
            header(&format!("element vertex 1\n{xyz}element face 1\n{list}end_header\n0 0 0\n3 0 0 -1\n")),
            "face 0 names vertex -1",
        ),
        (
            header(&format!("element vertex 1\n{xyz}element face 1\n{list}end_header\n0 0 0\n2 0 0\n")),
            "face 0 has 2 corners",
        ),
        (
            header(&format!("element vertex 1\n{xyz}element tristrips 1\n{list}end_header\n0 0 0\n3 0 0 0\n")),
            "triangle strips",
        ),
        (header(&format!("element vertex 1\n{xyz}")), ""),
    ];
    for (text, message) in cases {
        let said = read(text.as_bytes()).unwrap_err().to_ascii_lowercase();
        assert!(said.contains(message), "{said} / {message}");
    }
}
