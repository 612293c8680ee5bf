//! What is refused is refused before the work, and what has no effect is refused.

use std::path::Path;

use bonesmith_core::{BoneKind, Model, Part, PartNode, Parts, Rig, Surface};
use bonesmith_io::{load_rig, save_rig};
use glam::{DAffine3, DVec3};

use crate::harness::{Run, bonesmith, folder, known, names, walk, write_npz};

/// Exit code 2 with these words, and no line about a fit before them.
#[track_caller]
fn refused_before_the_fit(folder: &Path, line: &str, words: &[&str]) {
    let Run { code, stdout, stderr, .. } = bonesmith(folder, line);
    assert_eq!((code, stdout.as_str()), (Some(2), ""), "{line}\n{stderr}");
    assert!(!stderr.contains("E_RMS") && words.iter().all(|word| stderr.contains(word)), "{line}\n{stderr}");
}

/// The rig of the known animation with two clips, "a" and "b".
fn two_clips(folder: &Path) -> Rig {
    let mut rig = known(BoneKind::Rigid).rig;
    let mut second = rig.clips[0].clone();
    (rig.clips[0].name, second.name) = ("a".to_owned(), "b".to_owned());
    rig.clips.push(second);
    save_rig(&rig, &folder.join("two.glb")).unwrap();
    rig
}

#[test]
fn what_can_be_known_before_a_fit_is_refused_before_it() {
    let dir = folder();
    let here = dir.path();
    walk(here);
    two_clips(here);
    let before = names(here);
    refused_before_the_fit(here, "fit two.glb --loop --loop-clips c -o x.glb", &["--loop-clips c", "a, b"]);
    refused_before_the_fit(here, "fit walk.npz walk.npz --loop --loop-clips c -o x.glb", &["--loop-clips c"]);
    refused_before_the_fit(
        here,
        "fit two.glb --rig two.glb --loop --loop-clips c -o x.glb",
        &["--loop-clips c", "a, b"],
    );
    refused_before_the_fit(here, "fit walk.npz --influences all -o x.glb", &["x.glb", "at most 8", "--influences 8"]);
    refused_before_the_fit(here, "fit walk.npz --bones 9 --influences all -o x.glb", &["x.glb", "at most 8", "not 9"]);
    refused_before_the_fit(here, "fit walk.npz walk.npz --influences all -o x.glb", &["x.glb", "at most 8"]);
    refused_before_the_fit(here, "demo --influences all -o demo", &["at most 8"]);
    std::fs::remove_dir(here.join("demo")).unwrap();
    // Engines.
    refused_before_the_fit(here, "fit two.glb --target roblox -o x.glb", &["2 animations, at most 1"]);
    refused_before_the_fit(here, "fit walk.npz walk.npz --target roblox -o x.glb", &["2 animations, at most 1"]);
    refused_before_the_fit(here, "fit walk.npz --eigenskin 2 --target three -o x.glb", &["--eigenskin", "plain rigs"]);
    refused_before_the_fit(here, "fit walk.npz --bones 300 --target unreal -o x.fbx", &["300 bones", "256"]);
    refused_before_the_fit(here, "fit walk.npz --bones 300 --target bevy --compact -o x.glb", &["300 bones", "256"]);
    assert_eq!(names(here), before);
    // As few bones as the format holds influences.
    bonesmith(here, "fit walk.npz --bones 4 --influences all -q -o x.glb").fine();
}

/// One rule for fits and for `check`: 4 influences are the default of Unity, and more are advice.
#[test]
fn advice_is_no_refusal() {
    let dir = folder();
    let here = dir.path();
    walk(here);
    bonesmith(here, "fit walk.npz --bones 6 --target unity -q -o usual.fbx").fine();
    assert!(load_rig(&here.join("usual.fbx")).unwrap().weights.max_influences() <= 4);
    bonesmith(here, "fit walk.npz --bones 6 --influences 6 --target unity -q -o more.fbx").fine();
    let run = bonesmith(here, "check more.fbx --target unity").fine();
    assert!(run.stdout.contains("advice  at most 4 influences per vertex: "), "{}", run.stdout);
    bonesmith(here, "reduce more.fbx --influences 5 --target unity -q -o five.fbx").fine();
    bonesmith(here, "reduce more.fbx --influences 5 --target bevy -o five.glb").refused(&["Bevy", "4 influences"]);
}

/// Commands that `check` prints do what they say.
#[test]
fn advice_of_check_can_be_run() {
    let dir = folder();
    let here = dir.path();
    walk(here);
    two_clips(here);
    bonesmith(here, "fit walk.npz --bones 6 --influences 6 --bone-kind trs -q -o six.glb").fine();
    for (file, target, expected) in [
        ("six.glb", "bevy", "bonesmith reduce six.glb -o six_bevy.glb --influences 4"),
        ("six.glb", "unity", "bonesmith convert six.glb six_unity.fbx"),
        ("six.glb", "roblox", "bonesmith fit six.glb -o six_roblox.glb --bone-kind rigid"),
        ("two.glb", "roblox", "bonesmith convert two.glb two_roblox.glb --clip a"),
        ("two.glb", "unreal", "bonesmith convert two.glb two_unreal.glb --target unreal"),
    ] {
        let shown = bonesmith(here, &format!("check {file} --target {target}")).stdout;
        let lines: Vec<&str> = shown.lines().filter_map(|line| line.trim().strip_prefix("helps: ")).collect();
        assert!(lines.contains(&expected), "{file} {target}\n{shown}");
        bonesmith(here, &format!("{} -q", expected.trim_start_matches("bonesmith "))).fine();
    }
}

#[test]
fn options_without_effect_are_refused() {
    let dir = folder();
    let here = dir.path();
    walk(here);
    let rig = two_clips(here);
    for (more, option) in [
        ("--effort balanced", "--effort"),
        ("--seed 0", "--seed"),
        ("--method bonesmith", "--method"),
        ("--bones auto", "--bones"),
    ] {
        bonesmith(here, &format!("fit two.glb --rig two.glb {more} -o x.glb")).refused(&[option, "--rig"]);
    }
    for option in ["--compact", "--alpha 0.5", "--translation-smooth 1", "--threshold 0.1", "--max-influences 3"] {
        let run = bonesmith(here, &format!("ddm two.glb --delta-mush {option} -o x.npz"));
        let name = option.split(' ').next().unwrap();
        assert!(run.code == Some(2) && run.stderr.contains(name), "{option}: {}", run.stderr);
    }
    bonesmith(here, "shapes walk.npz --bones 4 -q -o face.npz").fine();
    std::fs::write(here.join("c.csv"), "time,shape_1\n0,0\n1,1\n").unwrap();
    for (option, said) in [
        ("--clip shapes", "--clip"),
        ("--clips shapes", "--clips"),
        ("--mesh body", "--mesh"),
        ("--frames 0..1", "--frames"),
        ("--rest first", "--rest"),
    ] {
        for baked in ["", "--bake"] {
            let line = format!("convert face.npz x.npz -q --curves c.csv {option} {baked}");
            bonesmith(here, &line).refused(&[said, "no effect"]);
        }
    }
    bonesmith(here, "convert face.npz x.npz -q --clips shapes").refused(&["--clips", "shapes"]);
    bonesmith(here, "view -q two.glb --no-open --frames 0..1 -o x.html").refused(&["--frames", "two.glb"]);
    bonesmith(here, "view -q two.glb --no-open --rest first -o x.html").refused(&["--rest", "two.glb"]);
    // Beside an animation they choose its frames.
    write_npz(Model::from(rig).view().baked(Some(0)).unwrap(), &here.join("a.npz"));
    bonesmith(here, "compare two.glb --against a.npz --rest first -q").fine();
    assert!(!here.join("x.npz").exists() && !here.join("x.html").exists());
}

#[test]
fn what_was_meant_is_said() {
    let dir = folder();
    let here = dir.path();
    walk(here);
    let said = |line: &str, words: &[&str]| {
        let run = bonesmith(here, line);
        assert_eq!(run.code, Some(2), "{line}");
        assert!(words.iter().all(|word| run.stderr.contains(word)), "{line}\n{}", run.stderr);
    };
    said("info walk.npz --memory 4", &["4M or 4G", "4B"]);
    said("info walk.npz --memory lots", &["500M, 4G"]);
    said("fit walk.npz --compact 0.05 -o x.glb", &["0.05", "--compact=0.05"]);
    said("convert walk.npz x.glb --compact 2%", &["--compact=2%"]);
    said("reduce walk.npz --compact plain -o x.glb", &["'plain'", "--compact=plain"]);
    said("batch nofile", &["nofile: no such file", ".toml or .json"]);
    said("batch .", &["a folder", ".toml or .json"]);
    std::fs::write(here.join("jobs.toml"), "memory = 4\n[[jobs]]\ninput = \"walk.npz\"\n").unwrap();
    said("batch jobs.toml", &["memory", "unit", "4G"]);
    bonesmith(here, "info walk.npz --memory 2000000000B").fine();
}

/// Two clips without a rig are compared with none.
#[test]
fn stages_are_those_that_happen() {
    let dir = folder();
    walk(dir.path());
    let run = bonesmith(dir.path(), "fit walk.npz walk.npz --bones 3 --effort fast -o x.npz").fine();
    assert!(!run.stderr.contains("comparing with the rig"), "{}", run.stderr);
    let run = bonesmith(dir.path(), "fit walk.npz --rig x.npz --rig-clip none --align off -o y.npz").fine();
    assert!(run.stderr.contains("comparing with the rig"), "{}", run.stderr);
}

/// Bones with joints that only rotate stay at them.
#[test]
fn levels_of_a_skeleton_keep_its_motion() {
    let dir = folder();
    let here = dir.path();
    let mut rig = known(BoneKind::Rigid).rig;
    for j in 0..rig.bone_count() {
        rig.bones[j].parent = j.checked_sub(1);
    }
    for (t, pose) in rig.clips[0].posed_from_rest.chunks_exact_mut(rig.bones.len()).enumerate() {
        let mut above = DAffine3::IDENTITY;
        for (bone, posed) in rig.bones.iter().zip(pose) {
            let joint = bone.world_from_bind.translation;
            let turn = DAffine3::from_axis_angle(DVec3::Z, 0.05 * t as f64);
            above *= DAffine3::from_translation(joint) * turn * DAffine3::from_translation(-joint);
            *posed = above;
        }
    }
    save_rig(&rig, &here.join("chain.npz")).unwrap();
    bonesmith(here, "lod chain.npz --bones 4,2 --influences 4,2 --refit-motion -q -o x.glb")
        .refused(&["--refit-motion", "joint"]);
    bonesmith(here, "lod chain.npz --bones 4,2 --influences 4,2 -q -o x.glb").fine();
    bonesmith(here, "reduce chain.npz --influences 1 --refit-motion -q -o y.npz").refused(&["--refit-motion", "joint"]);
    bonesmith(here, "reduce chain.npz --influences 1 -q -o y.npz").fine();
}

/// A scene of a mesh that moves and one that stands still: in place the second one moves, whichever command takes the motion out.
#[test]
fn in_place_nothing_stands_still() {
    let dir = folder();
    let here = dir.path();
    let mut rig = known(BoneKind::Rigid).rig;
    let (n, faces) = (rig.vertex_count(), rig.surface.topology.face_count());
    let mut both = Surface::clone(&rig.surface);
    for face in rig.surface.topology.faces() {
        both.topology.push_face(&face.iter().map(|v| v + n as u32).collect::<Vec<_>>());
    }
    both.uv_sets.clear();
    (both.normals, both.tangents, both.colors) = (None, None, None);
    let node = |name: &str| PartNode { name: name.into(), parent: None, world_from_node: DAffine3::IDENTITY };
    let part = |node: usize, mesh: &str, still: bool| Part {
        node,
        mesh: mesh.into(),
        vertices: n,
        faces,
        uv_sets: Vec::new(),
        colors: false,
        still,
        instance_of: None,
    };
    both.parts = Parts {
        nodes: vec![node("walker"), node("floor")],
        meshes: vec![part(0, "walker_mesh", false), part(1, "floor_mesh", true)],
        skeleton: None,
    };
    if !both.face_materials.is_empty() {
        both.face_materials.extend_from_within(..);
    }
    rig.surface = both.into();
    rig.rest.extend_from_within(..);
    let mut weights = bonesmith_core::SparseWeights::new(2 * n, rig.weights.slots());
    let bones = rig.bone_count();
    for i in 0..n {
        weights.set(i, &rig.weights.of(i).map(|(j, w)| (j, f64::from(w))).collect::<Vec<_>>());
        weights.set(n + i, &[(bones, 1.0)]);
    }
    rig.weights = weights;
    let mut fixed = rig.bones[0].clone();
    (fixed.name, fixed.parent) = ("fixed".to_owned(), None);
    rig.bones.push(fixed);
    let frames = rig.clips[0].posed_from_rest.chunks_exact(bones);
    rig.clips[0].posed_from_rest = frames
        .enumerate()
        .flat_map(|(t, pose)| {
            let away = DAffine3::from_translation(DVec3::X * 0.1 * t as f64);
            pose.iter().map(move |m| away * *m).chain([DAffine3::IDENTITY]).collect::<Vec<_>>()
        })
        .collect();
    rig.check().unwrap();
    save_rig(&rig, &here.join("scene.npz")).unwrap();
    bonesmith(here, "convert scene.npz place.glb -q --root-motion plane --in-place").fine();
    // What the file shows: the floor moves as the walker did.
    let shown = |file: &str, t: usize| {
        let rig = load_rig(&here.join(file)).unwrap();
        bonesmith_core::deform::lbs(&rig.rest, &rig.weights, rig.clips[0].frame(t))[n]
    };
    assert!(shown("scene.npz", 11).distance(shown("scene.npz", 0)) < 1e-5);
    assert!(shown("place.glb", 11).distance(shown("place.glb", 0)) > 0.1);
}
