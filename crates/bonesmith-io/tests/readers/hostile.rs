//! Damaged files of every format: no panic, no hang, no memory that the file does not warrant.

use std::alloc::{GlobalAlloc, Layout, System};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use bonesmith_core::Model;
use bonesmith_io::{LoadOptions, load_model, load_sequence, save_rig, save_sequence};

use crate::caches::{fan, mdd, pc2};
use crate::common;
use crate::npy::{npz, rig_arrays, sequence_arrays};
use crate::ply::{Encoding, ply};

/// Remembers the largest single request since it was last asked.
struct Watch;

static LARGEST: AtomicUsize = AtomicUsize::new(0);

/// No test file here is larger than a few kilobytes; deflate can make at most 1032 bytes of one.
const LIMIT: usize = 16 << 20;

// SAFETY: every call goes on to the system allocator unchanged.
unsafe impl GlobalAlloc for Watch {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LARGEST.fetch_max(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promises are the system allocator's demands.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        LARGEST.fetch_max(layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        LARGEST.fetch_max(size, Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static WATCH: Watch = Watch;

/// Reads a damaged file all the way in. `true` if it was taken for sound.
fn read(path: &Path, bytes: &[u8], what: &str) -> bool {
    // A new file each time: some file systems flush one that is overwritten, which takes milliseconds.
    let _ = std::fs::remove_file(path);
    std::fs::write(path, bytes).unwrap();
    let outcome = catch_unwind(AssertUnwindSafe(|| match load_model(&[path.to_owned()], &LoadOptions::default()) {
        Ok(Model::Sequence(_)) => true,
        Ok(_) => load_sequence(&[path.to_owned()], &LoadOptions::default()).is_ok(),
        Err(_) => false,
    }));
    let largest = LARGEST.swap(0, Ordering::Relaxed);
    assert!(largest < LIMIT, "{what}: {largest} bytes asked for at once");
    outcome.unwrap_or_else(|_| panic!("{what}: panic in the reader"))
}

/// Cuts at every 1/256th of the file; at most the last cut, which may only lose padding, may pass.
fn truncate(path: &Path, bytes: &[u8]) -> usize {
    let cuts = (0..256).map(|k| bytes.len() * k / 256);
    cuts.filter(|&end| read(path, &bytes[..end], &format!("{} cut at {end}", path.display()))).count()
}

/// Bits to flip in byte `at`: the sign, and one that goes round, so that a whole file takes a second and not ten.
fn bits(at: usize) -> [usize; 2] {
    [7, at % 7]
}

/// Flips two bits of every byte, one at a time.
fn flip(path: &Path, bytes: &[u8]) {
    let mut bytes = bytes.to_vec();
    for at in 0..bytes.len() {
        for bit in bits(at) {
            bytes[at] ^= 1 << bit;
            read(path, &bytes, &format!("{} with bit {bit} of byte {at} flipped", path.display()));
            bytes[at] ^= 1 << bit;
        }
    }
}

#[test]
fn binary_files() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let points: Vec<[f32; 3]> = (0..5).map(|i| [i as f32, 0.5, -1.0]).collect();
    let quad = [vec![0, 1, 2, 3], vec![2, 3, 4]];
    std::fs::write(at("cache.obj"), fan(5)).unwrap();
    let files = [
        ("cache.pc2", pc2(0.0, 1.0, &[points.clone(), points.clone()])),
        ("cache.mdd", mdd(&[0.0, 0.5], &[points.clone(), points.clone()])),
        ("big.ply", ply(Encoding::Big, &points, &quad)),
        ("little.ply", ply(Encoding::Little, &points, &quad)),
        ("sequence.npz", npz(&sequence_arrays())),
    ];
    for (name, bytes) in files {
        assert!(read(&at(name), &bytes, name), "{name} is sound");
        assert_eq!(truncate(&at(name), &bytes), 0, "{name}: a part was taken for the whole");
        flip(&at(name), &bytes);
    }
}

#[test]
fn text_files() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let points: Vec<[f32; 3]> = (0..5).map(|i| [i as f32, 0.5, -1.0]).collect();
    let obj = format!("mtllib a.mtl\nvt 0.5 1\nvn 0 0 1\n{}usemtl a\nf -1/1/1 -2/1/1 -3/1/1\n", fan(5));
    let ascii = ply(Encoding::Ascii, &points, &[vec![0, 1, 2, 3], vec![2, 3, 4]]);
    for (name, bytes) in [("mesh.obj", obj.into_bytes()), ("ascii.ply", ascii)] {
        assert!(read(&at(name), &bytes, name), "{name} is sound");
        truncate(&at(name), &bytes); // the front of a text may well be a sound text
        flip(&at(name), &bytes);
    }
}

/// Checksums keep most damage away from the arrays: damage these before they are packed, too.
#[test]
fn arrays_behind_sound_checksums() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.npz");
    for arrays in [sequence_arrays(), rig_arrays()] {
        assert!(read(&path, &npz(&arrays), "sound"));
        for k in 0..arrays.len() {
            let (key, sound) = arrays[k].clone();
            // Headers thoroughly; values are covered by the first of them.
            for at in 0..sound.len().min(128) {
                for bit in bits(at) {
                    let mut damaged = arrays.clone();
                    damaged[k].1[at] ^= 1 << bit;
                    read(&path, &npz(&damaged), &format!("{key} with bit {bit} of byte {at} flipped"));
                }
                let mut damaged = arrays.clone();
                damaged[k].1.truncate(at);
                assert!(!read(&path, &npz(&damaged), &format!("{key} cut at {at}")), "{key} cut at {at}");
            }
        }
    }
}

#[test]
fn our_own_archives() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("own.npz");
    let save: [&dyn Fn(); 2] =
        [&|| save_rig(&common::rig(), &path).unwrap(), &|| save_sequence(&common::sequence(3), &path).unwrap()];
    for save in save {
        save();
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(truncate(&path, &bytes), 0);
        let mut damaged = bytes.clone();
        for at in 0..bytes.len() {
            damaged[at] ^= 1 << (at % 8);
            read(&path, &damaged, &format!("byte {at} of {} damaged", bytes.len()));
            damaged[at] = bytes[at];
        }
    }
}

/// Promises of gigabytes in a few bytes.
#[test]
fn large_claims() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("claim.npz");
    let mut header = b"\x93NUMPY\x02\x00".to_vec();
    header.extend(u32::MAX.to_le_bytes());
    assert!(!read(&path, &npz(&[("verts", header)]), "header of 4 GiB"));
    for shape in [[1usize << 30, 1, 3], [1, 1 << 30, 3], [1 << 21, 1 << 21, 3], [usize::MAX, usize::MAX, 3]] {
        for fortran in [false, true] {
            let array = crate::npy::npy("<f4", fortran, &shape, &[0; 64]);
            assert!(!read(&path, &npz(&[("verts", array)]), &format!("{shape:?}")));
        }
    }
    let lists = "property list uint float vertex_indices\n";
    let text =
        format!("ply\nformat binary_little_endian 1.0\nelement face 1\n{lists}end_header\n\u{7f}\u{7f}\u{7f}\u{7f}");
    assert!(!read(&folder.path().join("claim.ply"), text.as_bytes(), "a list of 2 G"));
}
