//! `convert`: nothing of a file is dropped without a word.

use std::path::Path;

use bonesmith_core::{BoneKind, Model, Rig};
use bonesmith_io::{LoadOptions, load_model, load_rig, load_sequence, save_rig};

use crate::harness::{bonesmith, command, folder, known, names, walk};

fn model(path: &Path) -> Model {
    load_model(&[path.to_owned()], &LoadOptions::default()).unwrap()
}

/// A rig with clips `walk` and `run`; `run` has fewer frames.
fn two_clips() -> Rig {
    let mut rig = known(BoneKind::Rigid).rig;
    rig.clips[0].name = "walk".into();
    let mut run = rig.clips[0].clone();
    run.name = "run".into();
    run.times_secs.truncate(5);
    run.posed_from_rest.truncate(5 * rig.bones.len());
    rig.clips.push(run);
    rig
}

#[test]
fn a_rig_that_nothing_animates_stays_a_rig() {
    let dir = folder();
    let mut rig = known(BoneKind::Rigid).rig;
    rig.clips.clear();
    for ending in ["glb", "fbx", "usda", "npz"] {
        let path = dir.path().join(format!("still.{ending}"));
        save_rig(&rig, &path).unwrap();
        bonesmith(dir.path(), &format!("convert -q still.{ending} out.glb")).fine();
        let Model::Rig(found) = model(&dir.path().join("out.glb")) else { panic!("{ending}: no rig") };
        assert_eq!((found.bone_count(), found.clips.len()), (rig.bone_count(), 0), "{ending}");
        // As an animation it is the pose that it stands in.
        bonesmith(dir.path(), &format!("convert -q still.{ending} out.abc --bake")).fine();
        let baked = load_sequence(&[dir.path().join("out.abc")], &LoadOptions::default()).unwrap();
        assert_eq!(baked.frames.len(), 1, "{ending}");
        bonesmith(dir.path(), &format!("info -q still.{ending}")).fine();
    }
}

#[test]
fn baking_keeps_all_clips_and_clip_picks_one() {
    let dir = folder();
    let rig = two_clips();
    for ending in ["glb", "fbx", "usda", "npz"] {
        save_rig(&rig, &dir.path().join(format!("two.{ending}"))).unwrap();
        for (options, frames) in [("", 17), ("--clip walk", 12), ("--clip run", 5)] {
            bonesmith(dir.path(), &format!("convert -q two.{ending} out.npz --bake {options}")).fine();
            let Model::Sequence(found) = model(&dir.path().join("out.npz")) else { panic!("{ending} {options}") };
            assert_eq!(found.frame_count(), frames, "{ending} {options}");
        }
        bonesmith(dir.path(), &format!("convert -q two.{ending} out.npz --clip run")).fine();
        let found = load_rig(&dir.path().join("out.npz")).unwrap();
        assert_eq!(found.clips.iter().map(|clip| clip.frame_count()).collect::<Vec<_>>(), [5], "{ending}");
        bonesmith(dir.path(), &format!("convert -q two.{ending} no.npz --clip jump")).refused(&["--clip jump"]);
    }
    walk(dir.path());
    bonesmith(dir.path(), "convert -q walk.npz no.npz --clip walk").refused(&["--clip"]);
    assert!(!names(dir.path()).contains(&"no.npz".to_owned()));
}

/// Nobody reads the messages: the work is done all the same, and the exit code is right.
#[cfg(target_os = "linux")]
#[test]
fn a_full_standard_error_is_no_panic() {
    let dir = folder();
    walk(dir.path());
    for (line, code) in [("fit walk.npz --bones 3 -o out.glb -v", 0), ("fit gone.npz -o out.glb", 2)] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let run = command().current_dir(dir.path()).args(line.split(' ')).stderr(full).output().unwrap();
        assert_eq!(run.status.code(), Some(code), "{line}");
    }
}

/// Names in files are the work of others: they do not move the cursor, and do not fill the screen.
#[test]
fn messages_are_plain_and_short() {
    let dir = folder();
    let mut rig = two_clips();
    rig.clips[0].name = format!("a\u{1b}[2J{}", "long".repeat(20_000));
    save_rig(&rig, &dir.path().join("odd.npz")).unwrap();
    walk(dir.path());
    let run = bonesmith(dir.path(), "eval -q odd.npz walk.npz --clip b");
    assert_eq!(run.code, Some(2));
    assert!(!run.stderr.contains('\u{1b}'), "{:.200}", run.stderr);
    assert!(run.stderr.lines().all(|line| line.len() < 5000), "{}", run.stderr.len());
}

#[test]
fn a_rest_pose_of_another_scale_is_reported() {
    let dir = folder();
    let raw = known(BoneKind::Rigid).sequence;
    let large: String = crate::harness::obj(&raw, 0)
        .lines()
        .map(|line| match line.strip_prefix("v ") {
            Some(p) => {
                let scaled = p.split(' ').map(|x| (100.0 * x.parse::<f64>().unwrap()).to_string());
                format!("v {}\n", scaled.collect::<Vec<_>>().join(" "))
            }
            None => format!("{line}\n"),
        })
        .collect();
    std::fs::write(dir.path().join("mesh.obj"), large).unwrap();
    let frames: Vec<Vec<[f32; 3]>> =
        raw.frames.iter().map(|frame| frame.positions.iter().map(|p| p.to_array()).collect()).collect();
    let cache = crate::harness::pc2(&frames, raw.frames[0].positions.len());
    std::fs::write(dir.path().join("cache.pc2"), cache).unwrap();
    let run = bonesmith(dir.path(), "fit cache.pc2 mesh.obj --bones 3 --effort fast -o out.glb").fine();
    assert!(run.stderr.contains("--rest first") && run.stderr.contains("100"), "{}", run.stderr);
    let run = bonesmith(dir.path(), "fit cache.pc2 mesh.obj --rest first --bones 3 --effort fast -o out.glb").fine();
    assert!(!run.stderr.contains("--rest first"), "{}", run.stderr);
}

/// Texture coordinates that are no numbers do not reach a format that has no place for them.
#[test]
fn texture_coordinates_are_numbers() {
    let dir = folder();
    let mesh = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nvt nan 0\nvt 1 0\nvt 0 1\nf 1/1 2/2 3/3\nf 1/1 2/2 4/3\n";
    std::fs::write(dir.path().join("a.obj"), mesh).unwrap();
    let run = bonesmith(dir.path(), "convert a.obj a.glb").fine();
    assert!(run.stderr.contains("texture coordinates that are no numbers"), "{}", run.stderr);
    let Model::Sequence(found) = model(&dir.path().join("a.glb")) else { panic!("an animation") };
    assert!(found.surface().uv_sets.iter().flat_map(|set| &set.values).flatten().all(|x| x.is_finite()));
}

/// `--mesh` has no meaning in a file with one nameless mesh: a warning.
#[test]
fn a_choice_of_mesh_that_does_not_apply_is_a_warning() {
    let dir = folder();
    walk(dir.path());
    let run = bonesmith(dir.path(), "convert walk.npz out.glb --mesh nosuch").fine();
    assert!(run.stderr.contains("nosuch") && run.stderr.contains("warning"), "{}", run.stderr);
}

/// A pipe is no file: it is refused, where reading it would wait for ever.
#[cfg(unix)]
#[test]
fn pipes_and_dangling_links_are_refused_as_inputs() {
    let dir = folder();
    let made = std::process::Command::new("mkfifo").arg(dir.path().join("pipe.npz")).status().unwrap();
    assert!(made.success());
    walk(dir.path());
    for line in ["info -q pipe.npz", "convert -q pipe.npz out.npz", "eval -q pipe.npz walk.npz"] {
        bonesmith(dir.path(), line).refused(&["pipe.npz", "pipe"]);
    }
    // A frame that is a link to nowhere is a frame that is missing.
    crate::harness::write_objs(&known(BoneKind::Rigid).sequence, &dir.path().join("walk"));
    std::fs::remove_file(dir.path().join("walk/frame_4.obj")).unwrap();
    std::os::unix::fs::symlink("gone.obj", dir.path().join("walk/frame_4.obj")).unwrap();
    bonesmith(dir.path(), "convert -q walk out.npz").refused(&["frame_4.obj"]);
    bonesmith(dir.path(), "convert -q walk/*.obj out.npz").refused(&["frame_4.obj"]);
}
