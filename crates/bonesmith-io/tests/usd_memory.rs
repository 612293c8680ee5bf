//! Reading USD takes little memory, however a file is broken: at most ten times its size. Alone in its binary: it counts
//! every byte.

#[path = "common/counted.rs"]
mod counted;

use std::path::{Path, PathBuf};

use bonesmith_core::synthetic::{PosedRigParams, posed_rig};
use bonesmith_core::{BoneKind, MeshSequence, RawFrame, RawSequence};
use bonesmith_io::{LoadOptions, load_model, load_sequence, save_rig, save_sequence};
use glam::Vec3;

use counted::most_during;

/// A small file's tables and buffers, whatever it holds.
const FLOOR: usize = 1 << 20;

fn check(path: &Path, bytes: &[u8], what: &str) {
    std::fs::write(path, bytes).unwrap();
    let ((), most) = most_during(|| _ = load_model(&[path.to_owned()], &LoadOptions::default()));
    let size = bytes.len();
    assert!(most <= 10 * size + FLOOR, "{} ({what}): {most} bytes held for a file of {size}", path.display());
}

/// Numbers that claim more than there is.
const EXTREMES: [u64; 6] = [u64::MAX, i64::MAX as u64, 1 << 40, u32::MAX as u64, 1 << 24, 1 << 16];

fn mutate(folder: &Path, name: &str, bytes: &[u8], steps: usize) {
    let path = folder.join(name);
    check(&path, bytes, "as it is");
    for step in 0..steps {
        let place = bytes.len() * step / steps;
        check(&path, &bytes[..place], &format!("cut at {place}"));
        let mut copy = bytes.to_vec();
        copy[place] ^= 1 << (step % 8);
        let end = (place + 8).min(bytes.len());
        copy[place..end].copy_from_slice(&EXTREMES[step % EXTREMES.len()].to_le_bytes()[..end - place]);
        check(&path, &copy, &format!("an extreme at {place}"));
    }
}

fn cache() -> MeshSequence {
    let (frames, vertices) = (40, 4000);
    let position = |t: usize, i: usize| Vec3::new((t * i % 977) as f32, (i % 31) as f32 * 0.7, t as f32 * 0.1);
    let frame = |t| RawFrame { positions: (0..vertices).map(|i| position(t, i)).collect(), ..RawFrame::default() };
    let raw = RawSequence { frames: (0..frames).map(frame).collect(), ..RawSequence::default() };
    MeshSequence::try_from(raw).unwrap()
}

fn data(name: &str) -> Option<PathBuf> {
    let beside = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let path = std::env::var_os("BONESMITH_DATA").map_or_else(beside, PathBuf::from).join("files").join(name);
    path.is_file().then_some(path)
}

/// One test: others beside it would be counted too.
#[test]
fn memory_is_bounded_by_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let sequence = cache();
    let own = sequence.position_bytes();
    for ending in ["usda", "usdc", "usdz"] {
        let path = folder.path().join(format!("cache.{ending}"));
        let ((), saving) = most_during(|| save_sequence(&sequence, &path).unwrap());
        // An archive is put together in memory.
        let most = if ending == "usdz" { 2 * own + own / 2 } else { own / 2 };
        assert!(saving < most, "{ending}: saving {own} bytes took {saving} more");
        let (raw, loading) =
            most_during(|| load_sequence(std::slice::from_ref(&path), &LoadOptions::default()).unwrap());
        // Frame by frame out of the file; a text is in memory as a whole.
        let text = if ending == "usda" { std::fs::metadata(&path).unwrap().len() as usize } else { 0 };
        assert!(loading < own + text + own / 4, "{ending}: loading {own} bytes took {loading}");
        assert_eq!(raw.frames.len(), 40);
    }
    let params =
        PosedRigParams { bones: 6, influences: 4, kind: BoneKind::Affine, frames: 8, softness: 0.5, detail: 2 };
    let rig = posed_rig(4, &params).rig;
    for ending in ["usda", "usdc", "usdz"] {
        let path = folder.path().join(format!("rig.{ending}"));
        save_rig(&rig, &path).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        mutate(folder.path(), &format!("broken.{ending}"), &bytes, 256);
    }
    for name in ["softbody.usdc", "character_skel.usdc"] {
        match data(name) {
            Some(path) => mutate(folder.path(), name, &std::fs::read(path).unwrap(), 64),
            None => eprintln!("SKIPPED: {name} is not there (set BONESMITH_DATA)"),
        }
    }
    // Splines of a few bytes each, and one operation many times: at most the samples that a stage may make.
    let path = folder.path().join("spline.usda");
    let order = "\"xformOp:translateX\", ".repeat(200);
    let text = format!(
        "#usda 1.0\ndef Mesh \"m\" {{\n point3f[] points = [(0,0,0),(1,0,0),(0,1,0)]\n int[] faceVertexCounts = [3]\n int[] faceVertexIndices = [0,1,2]\n \
         double xformOp:translateX.spline = {{ 0: 1, 99000: 2 }}\n uniform token[] xformOpOrder = [{order}]\n}}\n"
    );
    std::fs::write(&path, text).unwrap();
    let (found, most) = most_during(|| load_model(&[path], &LoadOptions::default()).is_ok());
    assert!(!found && most < 128 << 20, "{most} bytes held for splines");
    // Small texts of many prims, properties, names.
    let many = |line: &str| format!("#usda 1.0\n{}", line.repeat(200_000));
    for line in ["def \"a\" {}\n", "def \"a\" { int a = 1 }\n", "over \"b\" {}\n"] {
        check(&folder.path().join("many.usda"), many(line).as_bytes(), line);
    }
}
