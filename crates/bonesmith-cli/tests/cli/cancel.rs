//! Ctrl-C stops cleanly.
#![cfg(unix)]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use bonesmith_core::synthetic::clownfish;

use crate::harness::{command, folder, names, write_npz};

/// Starts an endless fit of `fish.npz`, sends Ctrl-C so many times once it is well under way, and returns its exit code and last line.
fn interrupted(folder: &Path, outputs: &str, times: usize) -> (Option<i32>, Option<String>) {
    write_npz(clownfish(), &folder.join("fish.npz"));
    let options = format!("fit fish.npz --bones 40 --tolerance 0 --max-iterations 1000000 {outputs} -v");
    let mut child = command()
        .current_dir(folder)
        .args(options.split(' '))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let under_way = lines.by_ref().map_while(Result::ok).find(|line| line.contains("E_RMS"));
    assert!(under_way.is_some(), "the fit ended before it reported an error");
    for time in 0..times {
        let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).stderr(Stdio::null()).status().unwrap();
        // The first may have ended it when the second comes.
        assert!(sent.success() || time > 0);
    }
    let last = lines.map_while(Result::ok).last();
    (child.wait().unwrap().code(), last)
}

#[test]
fn ctrl_c_leaves_no_file() {
    let dir = folder();
    let (code, last) = interrupted(dir.path(), "-o out.glb", 1);
    assert_eq!((code, last.as_deref()), (Some(130), Some("cancelled")));
    assert_eq!(names(dir.path()), ["fish.npz"]);
}

/// A second Ctrl-C ends the program at once; temporaries are removed all the same, and old files stay.
#[test]
fn two_ctrl_c_leave_no_file() {
    let dir = folder();
    for file in ["out.glb", "out.json"] {
        std::fs::write(dir.path().join(file), "old").unwrap();
    }
    let (code, _) = interrupted(dir.path(), "-o out.glb --json out.json", 2);
    assert_eq!(code, Some(130));
    assert_eq!(names(dir.path()), ["fish.npz", "out.glb", "out.json"]);
    assert!(["out.glb", "out.json"].iter().all(|file| std::fs::read(dir.path().join(file)).unwrap() == b"old"));
}
