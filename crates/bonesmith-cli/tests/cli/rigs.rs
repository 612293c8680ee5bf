//! Fits that start from a rig, and fits of several clips or subjects.

use std::path::Path;

use bonesmith_core::refit::align::Correction;
use bonesmith_core::synthetic::{PosedRigParams, posed_rig};
use bonesmith_core::{Clip, MeshSequence, Rig, SparseWeights};
use bonesmith_io::{LoadOptions, load_rig, load_sequence, save_rig, save_sequence};
use glam::Vec3;

use crate::harness::{bonesmith, folder, names};

/// A rig with a tree of named bones (`rig.glb`, `rig.npz`) and the animation it makes (`walk.npz`).
fn character(folder: &Path) -> (Rig, MeshSequence) {
    let params = PosedRigParams { bones: 6, frames: 24, detail: 2, ..PosedRigParams::default() };
    let mut posed = posed_rig(4, &params);
    let names = ["hips", "spine_01", "spine_02", "arm.L", "arm.R", "head"];
    for (bone, (name, parent)) in
        posed.rig.bones.iter_mut().zip(names.into_iter().zip([None, Some(0), Some(1), Some(2), Some(2), Some(2)]))
    {
        (bone.name, bone.parent) = (name.into(), parent);
    }
    posed.rig.clips[0].name = "walk".into();
    let sequence = MeshSequence::try_from(posed.sequence).unwrap().named("walk");
    for ending in ["glb", "npz"] {
        save_rig(&posed.rig, &folder.join(format!("rig.{ending}"))).unwrap();
    }
    save_sequence(&sequence, &folder.join("walk.npz")).unwrap();
    (posed.rig, sequence)
}

/// Writes the rig with every vertex on its first bone.
fn save_without_weights(rig: &Rig, path: &Path) {
    let mut weights = SparseWeights::new(rig.vertex_count(), 1);
    (0..rig.vertex_count()).for_each(|i| weights.set(i, &[(0, 1.0)]));
    save_rig(&Rig { weights, ..rig.clone() }, path).unwrap();
}

fn e_rms(folder: &Path, line: &str) -> f64 {
    bonesmith(folder, &format!("{line} -q --json -")).fine().json()["e_rms"].as_f64().unwrap()
}

#[test]
fn weights_motion_and_both_through_the_binary() {
    let dir = folder();
    let (rig, _) = character(dir.path());
    save_without_weights(&rig, &dir.path().join("bare.glb"));
    save_rig(&Rig { clips: Vec::new(), ..rig.clone() }, &dir.path().join("still.npz")).ok();
    for (given, solve, out) in
        [("bare.glb", "weights", "w.glb"), ("rig.glb", "motion", "m.npz"), ("bare.glb", "both", "b.glb")]
    {
        let e = e_rms(dir.path(), &format!("fit walk.npz --rig {given} --solve {solve} -o {out}"));
        assert!(e < 0.2, "{solve}: {e}");
        let found = load_rig(&dir.path().join(out)).unwrap();
        for (bone, before) in found.bones.iter().zip(&rig.bones) {
            assert_eq!((&bone.name, bone.parent), (&before.name, before.parent));
            assert!(bone.world_from_bind.abs_diff_eq(before.world_from_bind, 1e-5), "{solve}: bind of {}", bone.name);
        }
        assert_eq!(found.rest, rig.rest, "{solve}: the rest pose stays");
        assert_eq!(found.clips.len(), 1);
    }
}

#[test]
fn locked_bones_stay_to_the_bit_and_helpers_come_on_top() {
    let dir = folder();
    let (rig, _) = character(dir.path());
    let line = "fit -q walk.npz --rig rig.npz --lock-bones spine*,head --solve both -o out.npz";
    bonesmith(dir.path(), line).fine();
    let found = load_rig(&dir.path().join("out.npz")).unwrap();
    for (t, (now, before)) in (0..24).map(|t| (t, (found.clips[0].frame(t), rig.clips[0].frame(t)))) {
        for j in [1, 2, 5] {
            assert_eq!(
                now[j].to_cols_array().map(f64::to_bits),
                before[j].to_cols_array().map(f64::to_bits),
                "frame {t}"
            );
        }
        assert!([0, 3, 4].iter().any(|&j| now[j] != before[j]), "the others are fitted");
    }
    bonesmith(dir.path(), "fit -q walk.npz --rig rig.npz --lock-bones tail -o out.npz").refused(&["tail", "no bone"]);
    bonesmith(dir.path(), "fit -q walk.npz --rig rig.npz --add-bones 3 --max-iterations 4 -o helped.glb").fine();
    let helped = load_rig(&dir.path().join("helped.glb")).unwrap();
    let names: Vec<&str> = helped.bones[6..].iter().map(|bone| bone.name.as_str()).collect();
    assert_eq!(names, ["helper_001", "helper_002", "helper_003"]);
    assert!(helped.bones[6..].iter().all(|bone| bone.parent.is_some_and(|p| p < 6)));
}

#[test]
fn masks_come_from_npz_and_from_colours() {
    let dir = folder();
    let (rig, sequence) = character(dir.path());
    save_without_weights(&rig, &dir.path().join("bare.npz"));
    // A PLY with red and black vertices.
    let mut ply = format!("ply\nformat ascii 1.0\nelement vertex {}\n", rig.vertex_count());
    for property in ["float x", "float y", "float z", "uchar red", "uchar green", "uchar blue"] {
        ply += &format!("property {property}\n");
    }
    let faces = sequence.surface().topology.faces();
    ply += &format!("element face {}\nproperty list uchar int vertex_indices\nend_header\n", faces.len());
    for (i, p) in rig.rest.iter().enumerate() {
        ply += &format!("{} {} {} {} 0 0\n", p.x, p.y, p.z, if i % 2 == 0 { 255 } else { 0 });
    }
    for face in faces {
        ply += &format!("{} {}\n", face.len(), face.iter().map(u32::to_string).collect::<Vec<_>>().join(" "));
    }
    std::fs::write(dir.path().join("mask.ply"), ply).unwrap();
    let line = "fit -q walk.npz --rig bare.npz --solve weights --lock-vertices mask.ply -o out.npz";
    bonesmith(dir.path(), line).fine();
    let found = load_rig(&dir.path().join("out.npz")).unwrap();
    for i in 0..rig.vertex_count() {
        let row: Vec<(usize, f32)> = found.weights.of(i).collect();
        let truth: Vec<(usize, f32)> = rig.weights.of(i).collect();
        match i % 2 {
            0 => assert_eq!(row, [(0, 1.0)], "vertex {i} is locked"),
            _ => assert!((row[0].1 - truth[0].1).abs() < 1e-3, "vertex {i} is fitted: {row:?} {truth:?}"),
        }
    }
    let refused = |mask: &str, words: &[&str]| {
        let line = format!("fit -q walk.npz --rig bare.npz --solve weights --lock-vertices {mask} -o out.npz");
        bonesmith(dir.path(), &line).refused(words);
    };
    refused("color", &["no vertex colours"]);
    refused("walk.npz", &["walk.npz", "no mask in it"]);
    std::fs::write(dir.path().join("three.obj"), "v 0 0 0 1 0 0\nv 1 0 0 1 0 0\nv 0 1 0 1 0 0\nf 1 2 3\n").unwrap();
    refused("three.obj", &["3 values"]);
}

#[test]
fn clips_share_weights_and_are_named_after_their_files() {
    let dir = folder();
    let (rig, sequence) = character(dir.path());
    save_sequence(&sequence.clone().with_frames(0..10), &dir.path().join("start.npz")).unwrap();
    save_sequence(&sequence.clone().with_frames(10..24), &dir.path().join("stop.npz")).unwrap();
    // Without a rig: the same bones as from the whole sequence.
    let whole = e_rms(dir.path(), "fit walk.npz --bones 6 -o whole.glb");
    let run = bonesmith(dir.path(), "fit -q start.npz stop.npz --bones 6 -o two.glb --json -").fine().json();
    assert!((run["e_rms"].as_f64().unwrap() / whole - 1.0).abs() < 0.01, "{} {whole}", run["e_rms"]);
    let names =
        |path: &str| load_rig(&dir.path().join(path)).unwrap().clips.into_iter().map(|c| (c.name, c.times_secs.len()));
    assert!(names("two.glb").eq([("start".to_owned(), 10), ("stop".to_owned(), 14)]));
    assert_eq!(run["clips"][1]["name"], "stop");
    for (file, clip) in [("start.npz", "start"), ("stop.npz", "stop")] {
        let e = e_rms(dir.path(), &format!("eval two.glb {file} --clip {clip}"));
        let reported =
            run["clips"].as_array().unwrap().iter().find(|c| c["name"] == clip).unwrap()["e_rms"].as_f64().unwrap();
        assert!((e - reported).abs() < 1e-3 * reported + 1e-6, "{e} {reported}");
    }
    // With one, whose animations are found by name; one that is not fitted stays.
    let cut = |name: &str, range: std::ops::Range<usize>| Clip {
        name: name.into(),
        times_secs: rig.clips[0].times_secs[range.clone()].to_vec(),
        posed_from_rest: rig.clips[0].posed_from_rest[range.start * 6..range.end * 6].to_vec(),
    };
    let clips = vec![cut("idle", 3..8), cut("stop", 10..24), cut("start", 0..10)];
    save_rig(&Rig { clips, ..rig.clone() }, &dir.path().join("three.glb")).unwrap();
    let e = e_rms(dir.path(), "fit start.npz stop.npz --rig three.glb --solve weights -o kept.glb");
    assert!(e < 0.01, "{e}");
    assert!(names("kept.glb").eq([("start".to_owned(), 10), ("stop".to_owned(), 14), ("idle".to_owned(), 5)]));
    bonesmith(dir.path(), "fit -q walk.npz --rig three.glb -o x.glb").refused(&["3 animations"]);
    // A clip that is replaced keeps its name, whatever the file is called.
    let line = "fit -q stop.npz --rig three.glb --rig-clip STOP --solve weights -o named.glb";
    bonesmith(dir.path(), line).fine();
    assert_eq!(names("named.glb").next(), Some(("stop".to_owned(), 14)));
    // Frames are counted in the clips that are chosen.
    let line = "fit -q three.glb --rig three.glb --clips start --frames 0..4 --solve weights -o cut.glb";
    bonesmith(dir.path(), line).fine();
    assert_eq!(names("cut.glb").next(), Some(("start".to_owned(), 4)));
}

#[test]
fn every_command_measures_the_clips_that_the_animation_has() {
    let dir = folder();
    let (_, sequence) = character(dir.path());
    save_sequence(&sequence.clone().with_frames(0..10), &dir.path().join("start.npz")).unwrap();
    save_sequence(&sequence.with_frames(10..20), &dir.path().join("stop.npz")).unwrap();
    let made = bonesmith(dir.path(), "fit -q start.npz stop.npz --bones 6 -o two.npz --json -").fine().json();
    bonesmith(dir.path(), "convert -q two.npz baked.npz --bake").fine();
    let all = e_rms(dir.path(), "eval two.npz baked.npz");
    assert!(all < 1e-3, "the rig against its own poses: {all}");
    let compared = bonesmith(dir.path(), "compare -q two.npz --against baked.npz --json -").fine().json();
    assert_eq!(compared["models"][0]["clips"], serde_json::json!(["start", "stop"]));
    bonesmith(dir.path(), "view -q two.npz --against baked.npz -o page.html --no-open").fine();
    // Both clips are as long: the name decides.
    let of = |name: &str| {
        let clips = made["clips"].as_array().unwrap();
        clips.iter().find(|clip| clip["name"] == name).unwrap()["e_rms"].as_f64().unwrap()
    };
    let stop = e_rms(dir.path(), "eval two.npz stop.npz --clip stop");
    assert!((stop - of("stop")).abs() < 1e-3 * stop, "{stop}");
    bonesmith(dir.path(), "convert -q two.npz two.glb").fine();
    let named = e_rms(dir.path(), "eval two.glb two.glb --clips stop");
    assert!(named < 1e-3, "{named}");
}

#[test]
fn a_length_is_a_goal_of_several_clips_too() {
    let dir = folder();
    let (_, sequence) = character(dir.path());
    save_sequence(&sequence.clone().with_frames(0..10), &dir.path().join("start.npz")).unwrap();
    save_sequence(&sequence.with_frames(10..24), &dir.path().join("stop.npz")).unwrap();
    let bones = |goal: &str| {
        let line = format!("fit -q start.npz stop.npz --target-error {goal} --effort fast -o out.npz --json -");
        bonesmith(dir.path(), &line).json()["bones"].as_u64().unwrap()
    };
    let (loose, close) = (bones("0.3u"), bones("0.003u"));
    assert!(loose < close, "{loose} {close}");
}

#[test]
fn subjects_share_weights_and_have_files_of_their_own() {
    let dir = folder();
    let (rig, _) = character(dir.path());
    let tall: Vec<Vec3> = rig.rest.iter().map(|p| Vec3::new(p.x, 1.4 * p.y, p.z)).collect();
    let tall_rig = Rig { rest: tall.clone(), ..rig.clone() };
    save_rig(&tall_rig, &dir.path().join("tall_rig.npz")).unwrap();
    bonesmith(dir.path(), "convert -q tall_rig.npz tall_walk.npz --bake").fine();
    let obj: String = tall.iter().map(|p| format!("v {} {} {}\n", p.x, p.y, p.z)).collect();
    std::fs::write(dir.path().join("tall.obj"), obj).unwrap();
    let line = "fit -q walk.npz --rig rig.npz --subject tall.obj=tall_walk.npz -o out.npz --json -";
    let run = bonesmith(dir.path(), line).fine().json();
    assert!(run["e_rms"].as_f64().unwrap() < 0.2, "{}", run["e_rms"]);
    assert!(run["subjects"][0]["e_rms"].as_f64().unwrap() < 0.2, "{}", run["subjects"]);
    assert!(names(dir.path()).contains(&"out_tall.npz".to_owned()));
    let (own, other) =
        (load_rig(&dir.path().join("out.npz")).unwrap(), load_rig(&dir.path().join("out_tall.npz")).unwrap());
    assert_eq!(own.weights, other.weights);
    assert_eq!((&own.rest, &other.rest), (&rig.rest, &tall));
    assert!(other.bones[5].world_from_bind.translation.y > 1.2 * own.bones[5].world_from_bind.translation.y);
    // Bones can be looked for in the first subject, too.
    let line = "fit -q walk.npz --bones 6 --subject tall.obj=tall_walk.npz -o found.npz --json -";
    let run = bonesmith(dir.path(), line).fine().json();
    assert!(run["subjects"][0]["e_rms"].as_f64().unwrap() < 3.0, "{}", run["subjects"]);
    bonesmith(dir.path(), "fit -q walk.npz --rig rig.npz --solve weights --subject tall.obj=tall_walk.npz -o x.npz")
        .refused(&["--solve weights", "--subject"]);
}

#[test]
fn mistakes_of_units_axes_and_frames_are_reported_with_the_flags_that_undo_them() {
    let dir = folder();
    let (_, sequence) = character(dir.path());
    let correction = |scale, axes: &str| Correction { scale, axes: axes.parse().unwrap(), ..Correction::NONE };
    for (mistake, flags) in [
        (correction(0.01, "x,y,z"), "--input-scale 0.01"),
        (correction(100.0, "x,y,z"), "--input-scale 100"),
        (correction(1.0, "x,z,-y"), "--input-axes x,z,-y"),
        (correction(1.0, "-x,y,z"), "--input-axes -x,y,z"),
    ] {
        let placed = sequence.clone().placed(mistake.rig_from_sequence().inverse()).unwrap();
        save_sequence(&placed, &dir.path().join("moved.npz")).unwrap();
        for solve in ["weights", "motion", "both"] {
            let line = format!("fit -q moved.npz --rig rig.glb --solve {solve} -o out.glb");
            let run = bonesmith(dir.path(), &line);
            assert!(run.stderr.contains(flags), "{solve}: {}", run.stderr);
            run.refused(&["moved.npz does not fit the rig"]);
        }
        assert!(!dir.path().join("out.glb").exists(), "nothing is written");
        for more in [flags, "--align auto"] {
            let e = e_rms(dir.path(), &format!("fit moved.npz --rig rig.glb --solve weights {more} -o out.glb"));
            assert!(e < 0.2, "{more}: {e}");
        }
        std::fs::remove_file(dir.path().join("out.glb")).unwrap();
    }
    save_sequence(&sequence.clone().with_frames(5..20), &dir.path().join("late.npz")).unwrap();
    let run = bonesmith(dir.path(), "fit -q late.npz --rig rig.glb --solve weights -o out.glb");
    assert!(run.stderr.contains("--frame-offset 5"), "{}", run.stderr);
    run.refused(&["starts 5 frames into"]);
    assert!(e_rms(dir.path(), "fit late.npz --rig rig.glb --solve weights --frame-offset 5 -o out.glb") < 0.2);
}

#[test]
fn other_rates_are_resampled_and_other_lengths_refused() {
    let dir = folder();
    character(dir.path());
    bonesmith(dir.path(), "convert -q rig.glb fine.npz --bake --fps 60").fine();
    let run = bonesmith(dir.path(), "fit fine.npz --rig rig.glb --solve weights -o out.glb --json -").fine();
    assert!(run.json()["e_rms"].as_f64().unwrap() < 0.01);
    assert!(run.stderr.contains("resampled"), "{}", run.stderr);
    // The same frames without times: read at 24 per second they outlast the rig's clip.
    let raw = load_sequence(&[dir.path().join("fine.npz")], &LoadOptions::default()).unwrap();
    let slow = bonesmith_core::RawSequence { times_secs: Vec::new(), fps: 24.0, ..raw };
    save_sequence(&MeshSequence::try_from(slow).unwrap(), &dir.path().join("slow.npz")).unwrap();
    let run = bonesmith(dir.path(), "fit -q slow.npz --rig rig.glb --solve weights --align off -o x.glb");
    assert!(run.stderr.contains("--fps 60"), "{}", run.stderr);
    run.refused(&["slow.npz", "frames"]);
}

#[test]
fn what_has_no_meaning_with_a_rig_is_refused() {
    let dir = folder();
    let (_, sequence) = character(dir.path());
    let refused = |more: &str, words: &[&str]| {
        bonesmith(dir.path(), &format!("fit -q walk.npz --rig rig.glb {more} -o out.glb")).refused(words);
    };
    refused("--bones 5", &["--bones", "--rig"]);
    refused("--target-error 1", &["--target-error", "--rig"]);
    refused("--rest first", &["--rest", "--rig"]);
    refused("--solve motion --add-bones 2", &["--add-bones"]);
    refused("--rig-clip run", &["run", "no animation"]);
    refused("--input-scale 0", &["--input-scale"]);
    refused("--frame-offset -9223372036854775808", &["--frame-offset"]);
    refused("--frame-offset 90 --align off", &["do not overlap"]);
    let fewer =
        MeshSequence::try_from(posed_rig(1, &PosedRigParams { detail: 1, ..PosedRigParams::default() }).sequence);
    save_sequence(&fewer.unwrap(), &dir.path().join("other.npz")).unwrap();
    bonesmith(dir.path(), "fit -q other.npz --rig rig.glb -o out.glb").refused(&["other.npz", "vertices, the rig"]);
    // Another body with as many vertices: nothing explains it.
    let reversed = |t: usize| {
        let mut positions = sequence.frame(t).to_vec();
        positions.reverse();
        bonesmith_core::RawFrame { positions, ..Default::default() }
    };
    let raw = bonesmith_core::RawSequence { frames: (0..24).map(reversed).collect(), ..Default::default() };
    save_sequence(&MeshSequence::try_from(raw).unwrap(), &dir.path().join("shuffled.npz")).unwrap();
    bonesmith(dir.path(), "fit -q shuffled.npz --rig rig.glb --solve weights -o out.glb")
        .refused(&["does not explain"]);
    assert!(!dir.path().join("out.glb").exists());
}

/// A cache whose vertices an exporter split, one for each corner of a face, and wrote from the last to the first, beside
/// another object: vertices are matched by position, with a warning.
#[test]
fn a_cache_with_split_vertices_is_matched() {
    let dir = folder();
    let (rig, walk) = character(dir.path());
    save_without_weights(&rig, &dir.path().join("bare.glb"));
    let corners: Vec<u32> = rig.surface.topology.vertex_triangles().into_iter().rev().flatten().collect();
    let mut topology = bonesmith_core::Topology::empty();
    (0..corners.len() as u32 / 3).for_each(|t| topology.push_face(&[3 * t, 3 * t + 1, 3 * t + 2]));
    let frame = |positions: &[Vec3]| {
        let mut split: Vec<Vec3> = corners.iter().map(|&v| positions[v as usize]).collect();
        split.push(Vec3::splat(50.0));
        bonesmith_core::RawFrame::from(split)
    };
    let raw = bonesmith_core::RawSequence {
        frames: (0..walk.frame_count()).map(|t| frame(&walk.frame(t))).collect(),
        times_secs: walk.times_secs().to_vec(),
        surface: bonesmith_core::Surface { topology, ..Default::default() },
        ..Default::default()
    };
    crate::harness::write_npz(raw, &dir.path().join("soup.npz"));
    let summary = bonesmith(dir.path(), "fit soup.npz --rig rig.glb --solve motion -o m.glb -q --json -").fine().json();
    assert!(summary["e_rms"].as_f64().unwrap() < 0.2, "{summary}");
    let text = summary["warnings"].to_string();
    assert!(text.contains("matched") && text.contains("has none there: 1"), "{text}");
    let found = load_rig(&dir.path().join("m.glb")).unwrap();
    assert_eq!(found.rest, rig.rest);
    // Nothing in common, nothing to match by.
    let mut other = load_sequence(&[dir.path().join("soup.npz")], &LoadOptions::default()).unwrap();
    other.frames.iter_mut().for_each(|frame| frame.positions.iter_mut().for_each(|p| *p *= 1.05));
    crate::harness::write_npz(other, &dir.path().join("other.npz"));
    let refused = bonesmith(dir.path(), "fit -q other.npz --rig rig.glb --solve motion -o m.glb");
    assert!(refused.stderr.contains("Merge Vertices"), "{}", refused.stderr);
    refused.refused(&["vertices, the rig"]);
}
