//! `--memory`: a limit that is refused or kept, with both numbers.

use bonesmith_core::synthetic::clownfish;

use crate::harness::{bonesmith, folder, names, pc2, walk, write_npz};

#[test]
fn positions_beyond_the_limit_are_refused_before_they_are_read() {
    let dir = folder();
    // The header of 500 frames of 40,000 points, and a file of that size with nothing in it.
    let mut header = pc2(&[], 40_000);
    header[28..32].copy_from_slice(&500i32.to_le_bytes());
    let path = dir.path().join("big.pc2");
    std::fs::write(&path, header).unwrap();
    std::fs::File::options().write(true).open(&path).unwrap().set_len(32 + 500 * 40_000 * 12).unwrap();
    bonesmith(dir.path(), "fit big.pc2 --memory 150M -o big.glb").refused(&["240.00 MB", "150.00 MB"]);
    assert_eq!(names(dir.path()), ["big.pc2"]);
}

#[test]
#[cfg(target_os = "linux")]
fn work_beyond_the_limit_ends_with_nothing_written() {
    let dir = folder();
    write_npz(clownfish(), &dir.path().join("fish.npz"));
    let run = bonesmith(dir.path(), "fit fish.npz --memory 9M -o fish.glb");
    assert_eq!(run.code, Some(2), "{}", run.stderr);
    assert!(run.stderr.contains("the limit is 9.00 MB"), "{}", run.stderr);
    assert_eq!(names(dir.path()), ["fish.npz"]);
}

#[test]
fn enough_memory_changes_nothing() {
    let dir = folder();
    walk(dir.path());
    bonesmith(dir.path(), "fit walk.npz --bones 3 -q -o a.glb").fine();
    bonesmith(dir.path(), "fit walk.npz --bones 3 -q --memory 2GiB -o b.glb").fine();
    let read = |name: &str| std::fs::read(dir.path().join(name)).unwrap();
    assert_eq!(read("a.glb"), read("b.glb"));
    let wrong = bonesmith(dir.path(), "fit walk.npz --memory lots -o c.glb");
    assert!(wrong.code == Some(2) && wrong.stderr.contains("it must be a size such as 500M"), "{}", wrong.stderr);
}
