//! Many files as one sequence.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bonesmith_core::{MeshSequence, RawSequence};
use bonesmith_io::{LoadOptions, load_rest, load_sequence};

use crate::caches::fan;
use crate::ply::{Encoding, ply};

fn write(folder: &Path, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

fn load(inputs: &[PathBuf]) -> RawSequence {
    load_sequence(inputs, &LoadOptions::default()).unwrap_or_else(|e| panic!("{e}"))
}

/// A square at height `z`, with texture coordinates where wanted.
fn square(z: f32, with_uvs: bool) -> String {
    let points = format!("v 0 0 {z}\nv 1 0 {z}\nv 1 1 {z}\nv 0 1 {z}\n");
    points + if with_uvs { "vt 0.5 0.5\nf 1/1 2/1 3/1 4/1\n" } else { "f 1 2 3 4\n" }
}

#[test]
fn frames_share_one_topology_and_the_rest_pose_its_surface() {
    let folder = tempfile::tempdir().unwrap();
    for t in [1, 2, 10] {
        write(folder.path(), &format!("walk_{t}.obj"), square(t as f32, false));
    }
    write(folder.path(), "walk_3.obj", "v 0 0 3\nv 1 0 3\nv 1 1 3\nv 0 1 3\n"); // positions only
    write(folder.path(), "Rest.obj", square(-1.0, true));
    write(folder.path(), "notes.txt", "not a mesh");
    let raw = load(&[folder.path().to_owned()]);
    let heights: Vec<f32> = raw.frames.iter().map(|f| f.positions[0].z).collect();
    assert_eq!(heights, [1.0, 2.0, 3.0, 10.0]);
    let shared: Vec<&Arc<_>> = raw.frames.iter().filter_map(|f| f.topology.as_ref()).collect();
    assert!(shared.len() == 3 && shared.windows(2).all(|pair| Arc::ptr_eq(pair[0], pair[1])));
    assert_eq!(raw.rest.as_ref().unwrap().positions[0].z, -1.0);
    assert_eq!(raw.surface.uv_sets[0].values, [[0.5, 0.5]]);
    let pattern = load(&[folder.path().join("walk_*.obj")]);
    assert_eq!((pattern.name.as_str(), pattern.rest.is_none()), ("walk", true));
    MeshSequence::try_from(raw).unwrap();
}

#[test]
fn files_that_are_all_called_rest_are_frames() {
    let folder = tempfile::tempdir().unwrap();
    for t in 0..3 {
        write(folder.path(), &format!("rest_{t}.obj"), square(t as f32, false));
    }
    let raw = load(&[folder.path().to_owned()]);
    assert_eq!((raw.frames.len(), raw.rest.is_none(), raw.name.as_str()), (3, true, raw.name.as_str()));
}

#[test]
fn ply_sequences_and_rest_files() {
    let folder = tempfile::tempdir().unwrap();
    let quad = [vec![0, 1, 2, 3]];
    let at = |z: f32| [[0.0, 0.0, z], [1.0, 0.0, z], [1.0, 1.0, z], [0.0, 1.0, z]];
    let encodings = [Encoding::Big, Encoding::Ascii, Encoding::Little];
    let files: Vec<PathBuf> = encodings
        .iter()
        .enumerate()
        .map(|(t, &encoding)| write(folder.path(), &format!("{t}.ply"), ply(encoding, &at(t as f32), &quad)))
        .collect();
    let raw = load(&[files[2].clone(), files[0].clone(), files[1].clone()]);
    assert_eq!(raw.frames.iter().map(|f| f.positions[0].z).collect::<Vec<_>>(), [0.0, 1.0, 2.0]);
    MeshSequence::try_from(raw).unwrap();
    let rest = load_rest(&files[1]).unwrap();
    assert_eq!((rest.positions[0].z, rest.label.as_str()), (1.0, "1.ply"));
    let obj = write(folder.path(), "pose.obj", fan(5));
    assert_eq!(load_rest(&obj).unwrap().positions.len(), 5);
}
