//! NumPy archives made byte by byte, to test ours against something else than our own writer.

use std::io::{Cursor, Write};

use zip::write::SimpleFileOptions;

/// One `.npy` file.
pub fn npy(descr: &str, fortran: bool, shape: &[usize], data: &[u8]) -> Vec<u8> {
    let sides: String = shape.iter().map(|s| format!("{s}, ")).collect();
    let order = if fortran { "True" } else { "False" };
    let header = format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': ({sides}), }}\n");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(data);
    bytes
}

/// Little-endian float32 in C order.
pub fn f32s(shape: &[usize], values: &[f32]) -> Vec<u8> {
    npy("<f4", false, shape, &values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<_>>())
}

/// Little-endian int32 in C order.
pub fn i32s(shape: &[usize], values: &[i32]) -> Vec<u8> {
    npy("<i4", false, shape, &values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<_>>())
}

/// Little-endian float64 in C order.
pub fn f64s(shape: &[usize], values: &[f64]) -> Vec<u8> {
    npy("<f8", false, shape, &values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<_>>())
}

/// An archive of arrays, with sound checksums whatever the arrays hold.
pub fn npz(arrays: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (key, bytes) in arrays {
        let options = SimpleFileOptions::default().compression_method(zip::CompressionMethod::Deflated);
        zip.start_file(format!("{key}.npy"), options).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

/// The arrays of a small sequence: 2 frames of 4 vertices.
pub fn sequence_arrays() -> Vec<(&'static str, Vec<u8>)> {
    let values: Vec<f32> = (0..24).map(|v| v as f32 / 8.0).collect();
    vec![
        ("verts", f32s(&[2, 4, 3], &values)),
        ("rest", f32s(&[4, 3], &values[..12])),
        ("faces", i32s(&[2, 3], &[0, 1, 2, 2, 1, 3])),
        ("times", f64s(&[2], &[0.0, 0.5])),
    ]
}

/// The arrays of a small rig as DESIGN.md has them, nothing else: 4 vertices, 2 bones, 3 frames.
pub fn rig_arrays() -> Vec<(&'static str, Vec<u8>)> {
    let rest: Vec<f32> = (0..12).map(|v| v as f32).collect();
    let identity = [1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0];
    let mut bones: Vec<f64> = identity.repeat(6);
    bones[12 * 5 + 7] = 4.0; // frame 2, bone 1: y + 4
    let indices: Vec<u8> = [0u16, 1, 1, 0, 0, 0, 1, 0].iter().flat_map(|j| j.to_le_bytes()).collect();
    vec![
        ("rest", f32s(&[4, 3], &rest)),
        ("faces", i32s(&[2, 3], &[0, 1, 2, 2, 1, 3])),
        ("joint_indices", npy("<u2", false, &[4, 2], &indices)),
        ("joint_weights", f32s(&[4, 2], &[0.75, 0.25, 0.5, 0.5, 1.0, 0.0, 1.0, 0.0])),
        ("bones", f64s(&[3, 2, 3, 4], &bones)),
        ("parents", i32s(&[2], &[-1, 0])),
        ("joint_positions", f64s(&[2, 3], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0])),
        (
            "params",
            npy("<U2", false, &[], &['{', '}'].iter().flat_map(|c| (*c as u32).to_le_bytes()).collect::<Vec<_>>()),
        ),
    ]
}
