//! PC2 and MDD point caches.

use std::path::{Path, PathBuf};

use bonesmith_core::RawSequence;
use bonesmith_io::{IoError, LoadOptions, load_sequence};
use glam::Vec3;
use proptest::prelude::*;

/// A PC2 cache of [frames][points].
pub fn pc2(first_frame: f32, frames_per_sample: f32, frames: &[Vec<[f32; 3]>]) -> Vec<u8> {
    let mut bytes = b"POINTCACHE2\0".to_vec();
    bytes.extend(1i32.to_le_bytes());
    bytes.extend((frames[0].len() as i32).to_le_bytes());
    bytes.extend(first_frame.to_le_bytes());
    bytes.extend(frames_per_sample.to_le_bytes());
    bytes.extend((frames.len() as i32).to_le_bytes());
    frames.iter().flatten().flatten().for_each(|v| bytes.extend(v.to_le_bytes()));
    bytes
}

/// An MDD cache of [frames][points].
pub fn mdd(times: &[f32], frames: &[Vec<[f32; 3]>]) -> Vec<u8> {
    let mut bytes = (frames.len() as i32).to_be_bytes().to_vec();
    bytes.extend((frames[0].len() as i32).to_be_bytes());
    times.iter().for_each(|v| bytes.extend(v.to_be_bytes()));
    frames.iter().flatten().flatten().for_each(|v| bytes.extend(v.to_be_bytes()));
    bytes
}

/// A mesh of `n` points in a fan.
pub fn fan(n: usize) -> String {
    let points: String = (0..n).map(|i| format!("v {i} 0 0\n")).collect();
    let faces: String = (2..n).map(|i| format!("f 1 {i} {}\n", i + 1)).collect();
    points + &faces
}

fn write(folder: &Path, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

fn load(inputs: &[PathBuf], fps: Option<f64>) -> Result<RawSequence, IoError> {
    load_sequence(inputs, &LoadOptions { fps, ..LoadOptions::default() })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn what_is_written_is_read(
        frames in (3usize..9).prop_flat_map(|n| {
            let point = prop::array::uniform3(prop::num::f32::NORMAL);
            prop::collection::vec(prop::collection::vec(point, n), 1..6)
        }),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let times: Vec<f32> = (0..frames.len()).map(|t| 0.5 + t as f32 / 4.0).collect();
        let mesh = write(folder.path(), "mesh.obj", fan(frames[0].len()));
        let caches = [
            write(folder.path(), "a.pc2", pc2(12.0, 6.0, &frames)),
            write(folder.path(), "a.mdd", mdd(&times, &frames)),
        ];
        for cache in caches {
            for inputs in [[cache.clone(), mesh.clone()], [mesh.clone(), cache.clone()]] {
                let raw = load(&inputs, Some(24.0)).unwrap();
                let read: Vec<Vec<Vec3>> = raw.frames.iter().map(|f| f.positions.clone()).collect();
                let expected: Vec<Vec<Vec3>> =
                    frames.iter().map(|f| f.iter().map(|&p| Vec3::from_array(p)).collect()).collect();
                prop_assert_eq!(read, expected);
                prop_assert_eq!(raw.times_secs, times.iter().map(|&s| f64::from(s)).collect::<Vec<_>>());
                prop_assert_eq!(raw.rest.unwrap().positions[2], Vec3::new(2.0, 0.0, 0.0));
            }
        }
    }
}

#[test]
fn the_mesh_beside_the_cache_is_found_or_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let frames = vec![vec![[0.0; 3]; 4]; 2];
    let cache = write(folder.path(), "walk.pc2", pc2(0.0, 1.0, &frames));
    let said = load(std::slice::from_ref(&cache), None).unwrap_err().to_string();
    assert!(said.contains("second input") && said.contains("walk.obj"), "{said}");
    write(folder.path(), "walk.obj", fan(4));
    let raw = load(&[cache], None).unwrap();
    assert_eq!((raw.name.as_str(), raw.surface.topology.face_count()), ("walk", 2));
    let zeros = write(folder.path(), "walk.mdd", mdd(&[0.0, 0.0], &frames));
    assert!(load(&[zeros], None).unwrap().times_secs.is_empty(), "all times 0 means none");
}

#[test]
fn damage_is_reported_with_its_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let mesh = write(folder.path(), "mesh.obj", fan(4));
    let frames = vec![vec![[0.0; 3]; 4]; 2];
    let sound = pc2(0.0, 1.0, &frames);
    let patched = |at: usize, with: [u8; 4]| {
        let mut bytes = sound.clone();
        bytes[at..at + 4].copy_from_slice(&with);
        bytes
    };
    let cases = [
        ("a.pc2", sound[..100].to_vec(), "2 frames of 4 points take 128 bytes, it has 100"),
        ("a.pc2", sound[..20].to_vec(), "cut off in its head"),
        ("a.pc2", patched(12, 7i32.to_le_bytes()), "PC2 version 7"),
        ("a.pc2", patched(16, (-4i32).to_le_bytes()), "2 frames of -4 points"),
        ("a.pc2", patched(16, i32::MAX.to_le_bytes()), "cut off"),
        ("a.pc2", patched(24, f32::NAN.to_le_bytes()), "NaN frames per sample"),
        ("a.pc2", patched(28, 0i32.to_le_bytes()), "0 frames of 4 points"),
        ("a.mdd", mdd(&[0.0, 1.0], &frames)[..60].to_vec(), "take 112 bytes, it has 60"),
        ("a.mdd", vec![0; 6], "cut off in its head"),
    ];
    for (name, bytes, message) in cases {
        let cache = write(folder.path(), name, bytes);
        let said = load(&[cache, mesh.clone()], None).unwrap_err().to_string();
        assert!(said.contains(message) && said.contains(name), "{said} / {message}");
    }
}
