//! Ctrl-C stops cleanly.
#![cfg(unix)]

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use bonesmith_core::synthetic::clownfish;

use crate::harness::{command, folder, names, write_npz};

#[test]
fn ctrl_c_leaves_no_file() {
    let dir = folder();
    write_npz(clownfish(), &dir.path().join("fish.npz"));
    let options = "fit fish.npz --bones 40 --tolerance 0 --max-iterations 1000000 -o out.glb -v";
    let mut child = command()
        .current_dir(dir.path())
        .args(options.split(' '))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Once the fit itself reports, it is well under way.
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let under_way = lines.by_ref().map_while(Result::ok).find(|line| line.contains("E_RMS"));
    assert!(under_way.is_some(), "the fit ended before it reported an error");
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    let last = lines.map_while(Result::ok).last();
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(130), "{last:?}");
    assert_eq!(last.as_deref(), Some("cancelled"));
    assert_eq!(names(dir.path()), ["fish.npz"]);
}
