//! Archives as others write them: every type and order, only the arrays of DESIGN.md, odd weights.

use std::io::Write;
use std::path::PathBuf;

use bonesmith_core::{BoneKind, RawSequence, Rig};
use bonesmith_io::{IoError, LoadOptions, load_rig, load_sequence};
use glam::{DVec3, Vec3};
use proptest::prelude::*;

use crate::npy::{f32s, f64s, i32s, npy, npz, rig_arrays, sequence_arrays};

struct File {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

fn file(arrays: &[(&str, Vec<u8>)]) -> File {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("foreign.npz");
    std::fs::write(&path, npz(arrays)).unwrap();
    File { _folder: folder, path }
}

fn sequence(arrays: &[(&str, Vec<u8>)]) -> Result<RawSequence, IoError> {
    load_sequence(&[file(arrays).path], &LoadOptions::default())
}

fn rig(arrays: &[(&str, Vec<u8>)]) -> Result<Rig, IoError> {
    load_rig(&file(arrays).path)
}

/// The arrays with one put in the place of its namesake, or added.
fn with(mut arrays: Vec<(&'static str, Vec<u8>)>, key: &'static str, bytes: Vec<u8>) -> Vec<(&'static str, Vec<u8>)> {
    arrays.retain(|(other, _)| *other != key);
    arrays.push((key, bytes));
    arrays
}

#[test]
fn every_number_type_is_read() {
    let half = |v: f32| {
        let bits = v.to_bits();
        // Exact for the small whole numbers used here.
        if v == 0.0 { 0u16 } else { (((bits >> 23) as u16 - 112) << 10) | (bits >> 13 & 0x3ff) as u16 }
    };
    let values: Vec<f32> = (0..24).map(|v| v as f32).collect();
    let coded = |descr: &str| -> Vec<u8> {
        let bytes = |v: &f32| match descr {
            "<f2" => half(*v).to_le_bytes().to_vec(),
            "<f8" => f64::from(*v).to_le_bytes().to_vec(),
            ">f8" => f64::from(*v).to_be_bytes().to_vec(),
            ">f4" => v.to_be_bytes().to_vec(),
            "<i8" => (*v as i64).to_le_bytes().to_vec(),
            ">u2" => (*v as u16).to_be_bytes().to_vec(),
            "|i1" => (*v as i8).to_le_bytes().to_vec(),
            other => panic!("{other}"),
        };
        values.iter().flat_map(bytes).collect()
    };
    for descr in ["<f2", "<f8", ">f8", ">f4", "<i8", ">u2", "|i1"] {
        let raw = sequence(&[("verts", npy(descr, false, &[2, 4, 3], &coded(descr)))]).unwrap();
        assert_eq!(raw.frames[1].positions[3], Vec3::new(21.0, 22.0, 23.0), "{descr}");
        assert_eq!((raw.frames.len(), raw.rest.is_none(), raw.surface.topology.face_count()), (2, true, 0));
    }
    let long: Vec<u8> = [0i64, 1, 2, 2, 1, 3].iter().flat_map(|v| v.to_le_bytes()).collect();
    let raw = sequence(&with(sequence_arrays(), "faces", npy("<i8", false, &[2, 3], &long))).unwrap();
    assert_eq!(raw.surface.topology.corners(), [0, 1, 2, 2, 1, 3]);
}

#[test]
fn times_and_rates() {
    let without_times: Vec<_> = sequence_arrays().into_iter().filter(|(key, _)| *key != "times").collect();
    assert_eq!(sequence(&without_times).unwrap().fps, 24.0);
    let path = file(&with(without_times, "fps", f64s(&[], &[60.0])));
    let load =
        |fps| load_sequence(std::slice::from_ref(&path.path), &LoadOptions { fps, ..LoadOptions::default() }).unwrap();
    assert_eq!(load(None).fps, 60.0);
    assert_eq!(load(Some(12.0)).fps, 12.0);
    assert_eq!(sequence(&sequence_arrays()).unwrap().times_secs, [0.0, 0.5]);
}

proptest! {
    #[test]
    fn fortran_order_is_the_transpose(f in 1usize..5, n in 1usize..7) {
        let value = |t: usize, i: usize, c: usize| (100 * t + 10 * i + c) as f32;
        let mut stored = Vec::new();
        for c in 0..3 {
            for i in 0..n {
                for t in 0..f {
                    stored.extend(value(t, i, c).to_le_bytes());
                }
            }
        }
        let mut rest = Vec::new();
        for c in 0..3 {
            for i in 0..n {
                rest.extend(value(9, i, c).to_le_bytes());
            }
        }
        let arrays = [("verts", npy("<f4", true, &[f, n, 3], &stored)), ("rest", npy("<f4", true, &[n, 3], &rest))];
        let raw = sequence(&arrays).unwrap();
        for t in 0..f {
            for i in 0..n {
                prop_assert_eq!(raw.frames[t].positions[i], Vec3::new(value(t, i, 0), value(t, i, 1), value(t, i, 2)));
                prop_assert_eq!(raw.rest.as_ref().unwrap().positions[i], Vec3::from_array([0, 1, 2].map(|c| value(9, i, c))));
            }
        }
    }
}

#[test]
fn a_rig_of_the_agreed_arrays_only() {
    let rig = rig(&rig_arrays()).unwrap();
    assert_eq!((rig.name.as_str(), rig.kind, rig.params_json.as_str()), ("foreign", BoneKind::Rigid, "{}"));
    assert_eq!((rig.bones[0].parent, rig.bones[1].parent), (None, Some(0)));
    assert_eq!(rig.bones[1].world_from_bind.translation, DVec3::new(3.0, 4.0, 5.0));
    assert_eq!(rig.clips.len(), 1);
    assert_eq!(rig.clips[0].times_secs, [0.0, 1.0 / 24.0, 2.0 / 24.0]);
    assert_eq!(rig.clips[0].frame(2)[1].translation, DVec3::new(0.0, 4.0, 0.0));
    assert_eq!(rig.weights.of(0).collect::<Vec<_>>(), [(0, 0.75), (1, 0.25)]);
    let bones =
        rig_arrays().into_iter().filter(|(key, _)| !["parents", "joint_positions", "params", "faces"].contains(key));
    super::foreign_npz::rig(&bones.collect::<Vec<_>>()).unwrap();
}

#[test]
fn odd_weights_are_tidied_or_refused() {
    let weights = |values: [f32; 8]| with(rig_arrays(), "joint_weights", f32s(&[4, 2], &values));
    let tidied = rig(&weights([0.25, 0.7501, 0.5, 0.5, 1.0, 0.0, 1.0, 0.0])).unwrap();
    let first: Vec<(usize, f32)> = tidied.weights.of(0).collect();
    assert_eq!(first[0].0, 1);
    assert!((first[0].1 + first[1].1 - 1.0).abs() < 1e-6);
    let unused = with(rig_arrays(), "joint_indices", i32s(&[4, 2], &[0, 1, 1, 0, 0, -1, 1, 65535]));
    assert_eq!(rig(&unused).unwrap().weights.of(2).collect::<Vec<_>>(), [(0, 1.0)]);
    let cases = [
        (weights([0.5, 0.25, 0.5, 0.5, 1.0, 0.0, 1.0, 0.0]), "vertex 0: weights sum to 0.75"),
        (weights([0.75, 0.25, 1.5, -0.5, 1.0, 0.0, 1.0, 0.0]), "vertex 1: weight of bone 0 is -0.5"),
        (weights([0.75, 0.25, 0.5, 0.5, f32::NAN, 0.0, 1.0, 0.0]), "vertex 2: weight of bone 0 is NaN"),
        (
            with(rig_arrays(), "joint_indices", i32s(&[4, 2], &[0, 1, 1, 0, 0, 0, 2, 0])),
            "vertex 3 names bone 2, but there are 2 bones",
        ),
        (with(rig_arrays(), "parents", i32s(&[2], &[1, 0])), "parent"),
        (with(rig_arrays(), "parents", i32s(&[3], &[-1, 0, 0])), "3 parents for 2 bones"),
        (with(rig_arrays(), "bones", f64s(&[3, 2, 4, 3], &[0.0; 72])), "[frames, bones, 3, 4] is expected"),
        (
            with(rig_arrays(), "bones", f64s(&[3, 2, 3, 4], &[f64::NAN; 72])),
            "frame 0, bone 0 (\"bone_0\"): the transform is not finite in float32",
        ),
        (with(rig_arrays(), "bones", f64s(&[0, 1 << 60, 3, 4], &[])), "1 to 65536 are possible"),
        (with(rig_arrays(), "rest", f32s(&[3, 3], &[0.0; 9])), "weights for 4 vertices, but the rest pose has 3"),
        (with(rig_arrays(), "clip_frames", i32s(&[2], &[1, 1])), "2 clips do not fit 3 frames"),
        (with(rig_arrays(), "virtual_indices", i32s(&[1, 1], &[0])), "virtual_weights"),
    ];
    for (arrays, message) in cases {
        let said = rig(&arrays).unwrap_err().to_string();
        assert!(said.contains(message), "{said} / {message}");
    }
}

#[test]
fn broken_sequences_are_refused_by_name() {
    let huge = 1usize << 40;
    let cases = [
        (vec![("other", f32s(&[1], &[0.0]))], "holds no \"verts\" and no rig; it has: other"),
        (vec![("verts", f32s(&[8, 3], &[0.0; 24]))], "array \"verts\": shape [8, 3], but 3 sides are expected"),
        (vec![("verts", f32s(&[2, 6, 2], &[0.0; 24]))], "[frames, vertices, 3] is expected"),
        (vec![("verts", f32s(&[huge, 0, 3], &[]))], "[frames, vertices, 3] is expected"),
        (vec![("verts", f32s(&[huge, huge, 3], &[]))], "does not fit its"),
        (vec![("verts", f32s(&[2, 4, 3], &[0.0; 23]))], "does not fit its"),
        (vec![("verts", npy("|O", false, &[2, 4, 3], &[0; 24]))], "not supported"),
        (vec![("verts", npy("<U1", false, &[1, 8, 3], &[0; 96]))], "holds text"),
        (with(sequence_arrays(), "faces", i32s(&[3, 2], &[0; 6])), "rows of [3]"),
        (with(sequence_arrays(), "faces", i32s(&[1, 3], &[0, 1, -1])), "value 2 is -1"),
        (with(sequence_arrays(), "faces", f32s(&[1, 3], &[0.0, 1.0, 1.5])), "value 2 is 1.5"),
        (with(sequence_arrays(), "fps", f32s(&[2], &[0.0, 1.0])), "one number is expected"),
        (with(sequence_arrays(), "bonesmith", f32s(&[1], &[0.0])), "one text is expected"),
        (with(sequence_arrays(), "bonesmith", npy("|S9", false, &[], b"{\"version")), "array \"bonesmith\""),
        (with(sequence_arrays(), "bonesmith", npy("|S14", false, &[], b"{\"version\": 9}")), "newer version"),
    ];
    for (arrays, message) in cases {
        let said = sequence(&arrays).unwrap_err().to_string();
        assert!(said.contains(message) && said.contains("foreign.npz"), "{said} / {message}");
    }
    let polygons = with(sequence_arrays(), "face_counts", i32s(&[1], &[5]));
    let polygons = with(polygons, "face_indices", i32s(&[4], &[0, 1, 2, 3]));
    assert!(sequence(&polygons).unwrap_err().to_string().contains("add up to 5"));
}

/// A few hundred kilobytes that would become hundreds of megabytes are refused before they are read.
#[test]
fn zeros_that_pack_very_tightly_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bomb.npz");
    let (frames, vertices) = (25usize, 1_000_000usize);
    let mut zip = zip::ZipWriter::new(std::fs::File::create(&path).unwrap());
    let options = zip::write::SimpleFileOptions::default().compression_level(Some(1));
    zip.start_file("verts.npy", options).unwrap();
    zip.write_all(&npy("<f4", false, &[frames, vertices, 3], &[])).unwrap();
    let frame = vec![0u8; 12 * vertices];
    (0..frames).for_each(|_| zip.write_all(&frame).unwrap());
    zip.finish().unwrap();
    assert!(std::fs::metadata(&path).unwrap().len() < 3_000_000);
    let error = load_sequence(&[path], &LoadOptions::default()).unwrap_err().to_string();
    assert!(["\"verts\"", "300 MB", "100 times"].iter().all(|word| error.contains(word)), "{error}");
}
