//! No command destroys what it reads, and what it writes appears together or not at all.

use std::path::Path;

use bonesmith_core::{BoneKind, MeshSequence};
use bonesmith_io::{save_rig, save_sequence};

use crate::harness::{bonesmith, command, folder, known, names, obj, walk, write_objs};

/// All files of a folder, with their bytes.
fn contents(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let files = names(folder).into_iter().filter(|name| folder.join(name).is_file());
    files.map(|name| (name.clone(), std::fs::read(folder.join(name)).unwrap())).collect()
}

/// The command is refused with all of `words`, and no byte has changed.
#[track_caller]
fn keeps(folder: &Path, line: &str, words: &[&str]) {
    let before = contents(folder);
    bonesmith(folder, line).refused(words);
    assert!(contents(folder) == before, "bonesmith {line} has changed {:?}", names(folder));
}

/// A walk as npz, its rig in several formats, a mask and a map.
fn workshop(folder: &Path) {
    walk(folder);
    let rig = known(BoneKind::Affine).rig;
    for name in ["rig.glb", "rig.gltf", "rig.npz"] {
        save_rig(&rig, &folder.join(name)).unwrap();
    }
    std::fs::write(folder.join("tpose.obj"), obj(&known(BoneKind::Affine).sequence, 0)).unwrap();
}

#[test]
fn an_output_that_is_an_input_is_refused() {
    let dir = folder();
    workshop(dir.path());
    let at = dir.path();
    keeps(at, "fit -q walk.npz --bones 3 -o out.glb --json walk.npz", &["walk.npz", "overwritten"]);
    keeps(at, "fit -q walk.npz --bones 3 -o out.glb --json out.glb", &["out.glb", "twice"]);
    keeps(at, "fit -q walk.npz --bones 3 --rest rig.npz -o rig.npz", &["rig.npz", "overwritten"]);
    keeps(at, "fit -q walk.npz --bones 3 --rest tpose.obj -o out.glb --json tpose.obj", &["tpose.obj", "overwritten"]);
    keeps(at, "fit -q walk.npz --rig rig.glb --lock-vertices rig.npz -o rig.npz", &["rig.npz", "overwritten"]);
    keeps(at, "fit -q walk.npz --rig rig.glb -o rig.glb", &["rig.glb", "overwritten"]);
    keeps(at, "eval -q rig.glb walk.npz --json rig.glb", &["rig.glb", "overwritten"]);
    keeps(at, "compare -q rig.glb --against walk.npz --json ./walk.npz", &["walk.npz", "overwritten"]);
    keeps(at, "info -q rig.glb --json rig.glb", &["rig.glb", "overwritten"]);
    keeps(at, "reduce -q rig.npz --examples walk.npz --influences 2 -o walk.npz", &["walk.npz", "overwritten"]);
    keeps(at, "compress -q rig.npz -o out.npz --json rig.npz", &["rig.npz", "overwritten"]);
    keeps(at, "ddm -q rig.npz -o out.npz --json rig.npz", &["rig.npz", "overwritten"]);
    keeps(at, "convert -q rig.npz rig.npz", &["rig.npz", "overwritten"]);
}

#[test]
fn buffers_and_other_files_of_an_input_are_inputs() {
    let dir = folder();
    workshop(dir.path());
    let at = dir.path();
    keeps(at, "eval -q rig.gltf walk.npz --json rig.bin", &["rig.bin", "overwritten"]);
    // `new.gltf` would write `new.bin`, which is the buffer of `old.gltf`.
    let text = std::fs::read_to_string(at.join("rig.gltf")).unwrap().replace("rig.bin", "new.bin");
    std::fs::write(at.join("old.gltf"), text).unwrap();
    std::fs::copy(at.join("rig.bin"), at.join("new.bin")).unwrap();
    keeps(at, "convert -q old.gltf new.gltf", &["new.bin", "overwritten"]);
    // Frames of a folder and of a pattern.
    write_objs(&known(BoneKind::Affine).sequence, &at.join("walk"));
    bonesmith(at, "fit -q walk --bones 3 -o out.glb --json walk/frame_3.obj").refused(&["frame_3.obj", "overwritten"]);
    bonesmith(at, "fit -q walk/*.obj --bones 3 -o out.glb --json walk/frame_3.obj")
        .refused(&["frame_3.obj", "overwritten"]);
    assert!(!at.join("out.glb").exists());
}

#[test]
fn names_that_are_made_from_others_do_not_collide() {
    let dir = folder();
    let at = dir.path();
    let made = known(BoneKind::Affine);
    let sequence = MeshSequence::try_from(made.sequence.clone()).unwrap();
    for name in ["a", "b"] {
        std::fs::create_dir(at.join(name)).unwrap();
        std::fs::write(at.join(name).join("rest.obj"), obj(&made.sequence, 0)).unwrap();
        save_sequence(&sequence, &at.join(format!("{name}/walk.npz"))).unwrap();
    }
    let before = names(at);
    let line = "fit -q --bones 3 --subject a/rest.obj=a/walk.npz --subject b/rest.obj=b/walk.npz -o out.npz";
    bonesmith(at, line).refused(&["out_rest.npz", "twice"]);
    assert_eq!(names(at), before);
    // The name made for the second subject is one of its clips.
    std::fs::rename(at.join("b/rest.obj"), at.join("b/tall.obj")).unwrap();
    save_sequence(&sequence, &at.join("out_tall.npz")).unwrap();
    let line = "fit -q --bones 3 --subject a/rest.obj=a/walk.npz --subject b/tall.obj=out_tall.npz -o out.npz";
    keeps(at, line, &["out_tall.npz", "overwritten"]);
    // Rig and JSON, report and picture: each has its own place.
    keeps(at, "fit -q a/walk.npz --bones 3 -o out.gltf --json out.bin", &["out.bin", "twice"]);
}

/// A picture that is written beside a layer has a name of the layer's materials.
#[test]
fn pictures_of_the_input_are_not_replaced() {
    let dir = folder();
    let at = dir.path();
    let png = b"\x89PNG\r\n\x1a\nabc".to_vec();
    let raw = known(BoneKind::Affine).sequence;
    write_objs(&raw, &at.join("walk"));
    let first = at.join("walk/frame_0.obj");
    let text = obj(&raw, 0).replacen("f ", "vt 0 0\nmtllib a.mtl\nusemtl skin\nf ", 1);
    let line = |line: &str| match line.strip_prefix("f ") {
        Some(corners) => format!("f {}\n", corners.split(' ').map(|v| format!("{v}/1 ")).collect::<String>().trim()),
        None => format!("{line}\n"),
    };
    std::fs::write(&first, text.lines().map(line).collect::<String>()).unwrap();
    std::fs::write(at.join("walk/a.mtl"), "newmtl skin\nmap_Kd skin.png\n").unwrap();
    std::fs::write(at.join("walk/skin.png"), &png).unwrap();
    let before = contents(&at.join("walk"));
    bonesmith(at, "convert -q walk walk/out.usda");
    for (name, bytes) in before {
        assert!(std::fs::read(at.join("walk").join(&name)).unwrap() == bytes, "{name} has changed");
    }
}

#[cfg(unix)]
#[test]
fn devices_and_pipes_are_refused_and_links_are_followed() {
    use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
    let dir = folder();
    let at = dir.path();
    walk(at);
    let made = std::process::Command::new("mkfifo").arg(at.join("pipe.npz")).status().unwrap();
    assert!(made.success());
    bonesmith(at, "convert -q walk.npz pipe.npz").refused(&["pipe.npz", "pipe"]);
    bonesmith(at, "eval -q walk.npz walk.npz --json pipe.npz").refused(&["pipe.npz", "pipe"]);
    assert!(std::fs::metadata(at.join("pipe.npz")).unwrap().file_type().is_fifo());
    bonesmith(at, "convert -q walk.npz out.glb --frames 0..2").fine();
    bonesmith(at, "info -q out.glb --json /dev/null").refused(&["/dev/null", "device"]);
    // Through a link, into the file it names; its mode stays.
    std::fs::create_dir(at.join("real")).unwrap();
    std::fs::write(at.join("real/walk.glb"), "old").unwrap();
    std::fs::set_permissions(at.join("real/walk.glb"), PermissionsExt::from_mode(0o640)).unwrap();
    symlink("real/walk.glb", at.join("link.glb")).unwrap();
    symlink("real/new.glb", at.join("dangling.glb")).unwrap();
    for link in ["link.glb", "dangling.glb"] {
        bonesmith(at, &format!("convert -q walk.npz {link}")).fine();
        assert!(std::fs::symlink_metadata(at.join(link)).unwrap().is_symlink(), "{link}");
    }
    assert_eq!(std::fs::metadata(at.join("real/walk.glb")).unwrap().permissions().mode() & 0o777, 0o640);
    assert!(std::fs::read(at.join("real/walk.glb")).unwrap().starts_with(b"glTF"));
    assert_eq!(names(&at.join("real")), ["new.glb", "walk.glb"]);
    // A link to the input is the input.
    symlink("walk.npz", at.join("same.npz")).unwrap();
    keeps(at, "convert -q walk.npz same.npz", &["same.npz", "overwritten"]);
}

/// An exit code other than 0 and 1 means that nothing was written.
#[test]
fn what_fails_after_the_fit_leaves_the_old_files() {
    let dir = folder();
    let at = dir.path();
    walk(at);
    for name in ["out.gltf", "out.bin", "out.json", "out.html"] {
        std::fs::write(at.join(name), "old").unwrap();
    }
    let all = "-o out.gltf --json out.json --report out.html";
    // Standard output is full: the summary has nowhere to go.
    if Path::new("/dev/full").exists() {
        let before = contents(at);
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let line = "fit -q walk.npz --bones 3 -o out.gltf --json -";
        let run = command().current_dir(at).args(line.split(' ')).stdout(full).output().unwrap();
        assert_eq!(run.status.code(), Some(2));
        assert!(contents(at) == before, "{:?}", names(at));
    }
    bonesmith(at, &format!("fit -q walk.npz --bones 3 {all}")).fine();
    assert!(contents(at).iter().all(|(_, bytes)| bytes != b"old"));
    assert_eq!(names(at), ["out.bin", "out.gltf", "out.html", "out.json", "walk.npz"]);
}

/// A file that the shell does not let grow any further: an error as on a full disk, no file left behind.
#[cfg(unix)]
#[test]
fn a_limit_on_file_sizes_leaves_nothing_behind() {
    let dir = folder();
    walk(dir.path());
    let line = format!("ulimit -f 8; exec {} convert -q walk.npz out.glb", env!("CARGO_BIN_EXE_bonesmith"));
    let run = std::process::Command::new("sh").current_dir(dir.path()).args(["-c", &line]).output().unwrap();
    let message = String::from_utf8_lossy(&run.stderr);
    assert_eq!(run.status.code(), Some(2), "{message}");
    assert!(message.contains("out.glb"), "{message}");
    assert_eq!(names(dir.path()), ["walk.npz"]);
}
