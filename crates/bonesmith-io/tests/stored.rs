//! Positions beyond the limit are in a scratch file: the same numbers, and little memory. Alone in its binary: the limit is that of the
//! process, and every byte is counted.

#[path = "common/counted.rs"]
mod counted;

use std::path::{Path, PathBuf};

use bonesmith_core::{MeshSequence, RawFrame, RawSequence, Surface, Topology};
use bonesmith_io::{
    Beyond, LoadOptions, PartInput, Transaction, limit_positions, load_parts, load_sequence, save_model,
};
use glam::Vec3;

use counted::most_during;

const FRAMES: usize = 120;
const VERTICES: usize = 5000;

fn animation() -> MeshSequence {
    let position = |t: usize, i: usize| Vec3::new((t * i % 977) as f32, (i % 31) as f32 * 0.7, t as f32 * 0.1);
    let frame = |t| RawFrame { positions: (0..VERTICES).map(|i| position(t, i)).collect(), ..RawFrame::default() };
    let faces: Vec<[u32; 3]> = (0..VERTICES as u32 - 2).map(|i| [i, i + 1, i + 2]).collect();
    let surface = Surface::bare(Topology::from_triangles(&faces));
    let raw = RawSequence { frames: (0..FRAMES).map(frame).collect(), surface, ..RawSequence::default() };
    MeshSequence::try_from(raw).unwrap()
}

/// A point cache and its mesh.
fn write_cache(sequence: &MeshSequence, folder: &Path) -> Vec<PathBuf> {
    let mut bytes = b"POINTCACHE2\0".to_vec();
    for number in [1i32, VERTICES as i32] {
        bytes.extend(number.to_le_bytes());
    }
    bytes.extend([0f32, 1f32].map(f32::to_le_bytes).concat());
    bytes.extend((FRAMES as i32).to_le_bytes());
    for t in 0..FRAMES {
        sequence.frame(t).iter().for_each(|p| bytes.extend(p.to_array().map(f32::to_le_bytes).concat()));
    }
    let [cache, mesh] = ["long.pc2", "long.obj"].map(|name| folder.join(name));
    std::fs::write(&cache, bytes).unwrap();
    std::fs::write(&mesh, obj(sequence, 0)).unwrap();
    vec![cache, mesh]
}

fn obj(sequence: &MeshSequence, t: usize) -> String {
    let mut text: String = sequence.frame(t).iter().map(|p| format!("v {} {} {}\n", p.x, p.y, p.z)).collect();
    text.extend(sequence.surface().topology.faces().map(|f| format!("f {} {} {}\n", f[0] + 1, f[1] + 1, f[2] + 1)));
    text
}

#[test]
fn all_formats_are_read_within_the_limit() {
    let transaction = Transaction::begin();
    let folder = tempfile::tempdir().unwrap();
    let sequence = animation();
    let own = sequence.position_bytes();
    let mut inputs: Vec<(&str, Vec<PathBuf>)> = Vec::new();
    for ending in ["npz", "abc", "usdc", "usda", "glb"] {
        let path = folder.path().join(format!("long.{ending}"));
        save_model(&sequence, &path).unwrap();
        inputs.push((ending, vec![path]));
    }
    inputs.push(("pc2", write_cache(&sequence, folder.path())));
    let frames = folder.path().join("frames");
    std::fs::create_dir(&frames).unwrap();
    (0..FRAMES).for_each(|t| std::fs::write(frames.join(format!("f{t}.obj")), obj(&sequence, t)).unwrap());
    inputs.push(("obj", vec![frames]));
    let load = |paths: &[PathBuf]| load_sequence(paths, &LoadOptions::default());
    let expected: Vec<RawSequence> = inputs.iter().map(|(_, paths)| load(paths).unwrap()).collect();

    // A command that cannot read in blocks.
    limit_positions(own as u64 / 3, Beyond::Refuse);
    for (name, paths) in &inputs {
        let error = load(paths).unwrap_err().to_string();
        assert!(error.contains("positions need") && error.contains("and the limit is 2.40 MB"), "{name}: {error}");
    }
    // One that can.
    limit_positions(own as u64 / 3, Beyond::Store { buffer: own as u64 / 10 });
    for ((name, paths), expected) in inputs.iter().zip(&expected) {
        let (read, most) = most_during(|| load(paths).unwrap());
        let few = match *name {
            // The file itself, or its text, is in memory.
            "glb" | "usda" => 8 * own,
            // Some files at once.
            "obj" => own,
            _ => own / 3,
        };
        assert!(most < few, "{name}: {own} bytes of positions took {most}");
        assert!(read.frames.iter().all(|frame| frame.stored.is_some() && frame.positions.is_empty()), "{name}");
        assert_eq!(read.times_secs, expected.times_secs, "{name}");
        assert_eq!(read.frames.len(), expected.frames.len());
        let differs = |t: &usize| *read.frames[*t].all_positions() != expected.frames[*t].positions;
        assert_eq!((0..FRAMES).find(differs), None, "{name}");
        let (checked, most) = most_during(|| MeshSequence::try_from(read).unwrap());
        assert!(checked.is_stored() && most < own / 5, "{name}: checking took {most}");
    }
    // Objects of a scene: each is stored, and what they are together.
    let part = |at: usize| PartInput { name: format!("part {at}"), paths: inputs[at].1.clone() };
    let scene = load_parts(&[part(0), part(1)], &LoadOptions::default()).unwrap();
    assert!(scene.frames[7].stored.is_some());
    let both = [expected[0].frames[7].positions.clone(), expected[1].frames[7].positions.clone()].concat();
    assert_eq!(*scene.frames[7].all_positions(), *both);
    transaction.commit().unwrap();
    // Positions count together, from the limit on.
    limit_positions(own as u64 * 3 / 2, Beyond::Refuse);
    load(&inputs[0].1).unwrap();
    let error = load(&inputs[0].1).unwrap_err().to_string();
    assert!(error.contains("positions need"), "{error}");
    limit_positions(own as u64 * 3 / 2, Beyond::Refuse);
    load(&inputs[0].1).unwrap();
}
