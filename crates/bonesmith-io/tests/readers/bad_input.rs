//! The list of bad input in one place: each gives one clear message that names the file.

use std::path::{Path, PathBuf};

use bonesmith_core::MeshSequence;
use bonesmith_io::{LoadOptions, load_model, load_rig, load_sequence, save_rig, save_sequence};

use crate::caches::{fan, pc2};
use crate::common;
use crate::npy::{npz, sequence_arrays};

fn write(folder: &Path, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

/// What the whole way in says, readers and the door of the core together.
fn refusal(inputs: &[PathBuf]) -> String {
    match load_sequence(inputs, &LoadOptions::default()) {
        Ok(raw) => MeshSequence::try_from(raw).unwrap_err().to_string(),
        Err(e) => e.to_string(),
    }
}

#[test]
fn every_message_says_what_and_where() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let square = "v 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\nf 1 2 3 4\n";
    let a = write(folder, "a1.obj", square);
    let file = |name: &str, text: &str| write(folder, name, text);
    let other_faces = file("a2.obj", &square.replace("1 2 3 4", "4 3 2 1"));
    let five = file("a3.obj", &fan(5));
    let nan = file("a4.obj", &square.replace("v 1 1 0", "v 1 nan 0"));
    let endless = file("a5.obj", &square.replace("v 1 1 0", "v 1 1 -inf"));
    let small = file("small.obj", &fan(3));
    let missing = folder.join("missing.obj");
    let whole = npz(&sequence_arrays());
    let cut = write(folder, "cut.npz", &whole[..whole.len() - 10]);
    let empty_npz = write(folder, "empty.npz", "");
    let empty = folder.join("empty");
    std::fs::create_dir(&empty).unwrap();
    let cache = write(folder, "c.pc2", pc2(0.0, 1.0, &[vec![[0.0; 3]; 5]]));
    let alembic = write(folder, "a.abc", b"Ogawa\xff\0\0");
    let hdf5 = write(folder, "old.abc", b"\x89HDF\r\n\x1a\n");
    let cases: [(&[PathBuf], &[&str]); 16] = [
        (std::slice::from_ref(&missing), &["missing.obj", "No such file"]),
        (std::slice::from_ref(&empty_npz), &["empty.npz: the file is empty"]),
        (std::slice::from_ref(&cut), &["cut.npz", "cut off"]),
        (&[a.clone(), other_faces], &["frame 1 (a2.obj) has other faces", "face 0"]),
        (&[a.clone(), five.clone()], &["frame 1 (a3.obj) has 5 vertices, but the first frame has 4"]),
        (&[a.clone(), nan], &["frame 1 (a4.obj), vertex 2: y is NaN"]),
        (&[a.clone(), endless], &["frame 1 (a5.obj), vertex 2: z is -inf"]),
        (std::slice::from_ref(&small), &["3 vertices, at least 4"]),
        (&[folder.join("b*.obj")], &["no file matches this pattern"]),
        (&[folder.join("b[.obj")], &["not a valid pattern"]),
        (std::slice::from_ref(&empty), &["no .obj or .ply files"]),
        (&[a.clone(), cut.clone()], &["cut.npz is npz and is not of the same kind as", "a1.obj, which is OBJ"]),
        (&[cache, a.clone()], &["the rest pose (a1.obj) has 4 vertices, but the first frame has 5"]),
        (std::slice::from_ref(&alembic), &["a.abc", "cut off"]),
        (std::slice::from_ref(&hdf5), &["HDF5", "Ogawa"]),
        (&[], &["no input"]),
    ];
    for (inputs, words) in cases {
        let said = refusal(inputs).replace("cut.npz: is", "cut.npz is");
        for word in words {
            assert!(said.contains(word), "{said:?} lacks {word:?}");
        }
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}

#[test]
fn rigs_and_outputs() {
    let folder = tempfile::tempdir().unwrap();
    let obj = write(folder.path(), "a.obj", fan(4));
    assert!(load_rig(&obj).unwrap_err().to_string().contains("OBJ files hold no rig"));
    let npz = write(folder.path(), "a.npz", npz(&sequence_arrays()));
    assert!(load_rig(&npz).unwrap_err().to_string().contains("is an animation, and a rig is needed"));
    assert!(load_model(&[folder.path().join("none")], &LoadOptions::default()).is_err());
    let odd = folder.path().join("out.stl");
    assert!(save_rig(&common::rig(), &odd).unwrap_err().to_string().contains(".glb, .gltf"));
    assert!(save_sequence(&common::sequence(1), &odd).unwrap_err().to_string().contains(".glb, .gltf"));
    let nowhere = folder.path().join("no/such/folder.npz");
    assert!(save_rig(&common::rig(), &nowhere).unwrap_err().to_string().contains("folder.npz"));
    let mut unsound = common::rig();
    unsound.clips[0].posed_from_rest.pop();
    let target = folder.path().join("rig.npz");
    assert!(save_rig(&unsound, &target).unwrap_err().to_string().contains("11 transforms for 4 frames of 3 bones"));
    assert!(!target.exists());
}
