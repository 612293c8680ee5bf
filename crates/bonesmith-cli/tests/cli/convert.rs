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
fn a_rest_pose_of_another_scale_is_told() {
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
