//! Rigs that people have: known characters, part of the truth taken away, found again.

use bonesmith_core::mesh::sphere::unit_radius;
use bonesmith_core::metrics::evaluate;
use bonesmith_core::refit::align::{Correction, examine};
use bonesmith_core::refit::{Locks, RefitParams, Solve, Subject, refit};
use bonesmith_core::synthetic::{PosedRigParams, posed_rig};
use bonesmith_core::{MeshSequence, Rig, Silent};
use bonesmith_io::{LoadOptions, load_rig, load_sequence, save_rig};
use serde_json::json;

use crate::common;
use crate::common::truth::{known, on_one_bone};

const CHARACTERS: [&str; 2] = ["gt_cesiumman", "gt_michelle_samba"];

fn solve(rig: &Rig, sequence: &MeshSequence, with_motion: bool, solve: Solve, locks: &Locks) -> Rig {
    let motion = with_motion.then(|| rig.clips[0].posed_from_rest.as_slice());
    let params = RefitParams { solve, ..RefitParams::default() };
    let subject = Subject { sequence, motion, binds: None };
    let mut found = refit(rig, &[subject], locks, &params, &mut Silent).unwrap();
    found.rigs[0].check().unwrap();
    found.rigs.remove(0)
}

/// Mean absolute difference of weights over all (vertex, bone) that either rig uses.
fn weight_difference(a: &Rig, b: &Rig) -> f64 {
    let (mut sum, mut count) = (0.0, 0);
    for i in 0..a.vertex_count() {
        let mut bones: Vec<usize> = a.weights.of(i).chain(b.weights.of(i)).map(|(j, _)| j).collect();
        bones.sort_unstable();
        bones.dedup();
        let weight = |rig: &Rig, j: usize| rig.weights.of(i).find(|w| w.0 == j).map_or(0.0, |w| f64::from(w.1));
        count += bones.len();
        sum += bones.iter().map(|&j| (weight(a, j) - weight(b, j)).abs()).sum::<f64>();
    }
    sum / count as f64
}

#[test]
fn true_weights_are_found_from_nothing() {
    let Some(data) = common::data() else { return };
    for name in CHARACTERS {
        let (rig, sequence) = known(&data, name);
        let found = solve(&on_one_bone(&rig), &sequence, true, Solve::Weights, &Locks::default());
        let (e_rms, off) = (evaluate(&found, 0, &sequence).unwrap().e_rms, weight_difference(&rig, &found));
        println!("{name}: E_RMS {e_rms:.5}, weights off by {off:.6}");
        assert!(e_rms < 0.01, "{name}: E_RMS {e_rms}");
        assert!(off < 0.002, "{name}: weights are off by {off}");
        assert_eq!(found.clips[0].posed_from_rest, rig.clips[0].posed_from_rest);
    }
}

#[test]
fn the_true_motion_is_found_from_nothing() {
    let Some(data) = common::data() else { return };
    for name in CHARACTERS {
        let (rig, sequence) = known(&data, name);
        let found = solve(&rig, &sequence, false, Solve::Motion, &Locks::default());
        let e_rms = evaluate(&found, 0, &sequence).unwrap().e_rms;
        assert!(e_rms < 0.01, "{name}: E_RMS {e_rms}");
        // Bones as their own vertices see them: where the bone takes them.
        let usage = rig.weights.usage(rig.bone_count());
        let radius = unit_radius(&rig.rest);
        let mut worst: f64 = 0.0;
        for i in (0..rig.vertex_count()).step_by(7) {
            for (j, _) in rig.weights.of(i).filter(|(j, w)| *w > 0.5 && usage[*j] > 8) {
                for t in (0..sequence.frame_count()).step_by(5) {
                    let u = rig.rest[i].as_dvec3();
                    let (a, b) = (found.clips[0].frame(t)[j], rig.clips[0].frame(t)[j]);
                    worst = worst.max(a.transform_point3(u).distance(b.transform_point3(u)) / radius);
                }
            }
        }
        println!("{name}: E_RMS {e_rms:.5}, bones off by at most {worst:.2e} of the radius");
        assert!(worst < 1e-3, "{name}: {worst}");
    }
}

#[test]
fn locked_bones_of_a_character_keep_every_bit() {
    let Some(data) = common::data() else { return };
    let (rig, sequence) = known(&data, "gt_cesiumman");
    let mut off = rig.clone();
    let nudge = glam::DAffine3::from_rotation_z(0.02);
    off.clips[0].posed_from_rest.iter_mut().for_each(|m| *m = nudge * *m);
    let locks = Locks { bones: (0..rig.bone_count()).map(|j| j % 2 == 0).collect(), ..Locks::default() };
    let found = solve(&off, &sequence, true, Solve::Both, &locks);
    for (at, (now, before)) in found.clips[0].posed_from_rest.iter().zip(&off.clips[0].posed_from_rest).enumerate() {
        if locks.bones[at % rig.bone_count()] {
            assert_eq!(now.to_cols_array().map(f64::to_bits), before.to_cols_array().map(f64::to_bits));
        }
    }
    let e_rms = |rig: &Rig| evaluate(rig, 0, &sequence).unwrap().e_rms;
    assert!(e_rms(&found) < 0.6 * e_rms(&off), "{} {}", e_rms(&found), e_rms(&off));
}

#[test]
fn two_clips_are_as_good_as_one() {
    let Some(data) = common::data() else { return };
    let (rig, sequence) = known(&data, "gt_cesiumman");
    let whole = solve(&on_one_bone(&rig), &sequence, true, Solve::Weights, &Locks::default());
    let cut = [sequence.clone().with_frames(0..20), sequence.clone().with_frames(20..48)];
    let joined = MeshSequence::join(cut.to_vec()).unwrap();
    assert_eq!(joined.spans.len(), 2);
    let parts = solve(&on_one_bone(&rig), &joined.sequence, true, Solve::Weights, &Locks::default());
    assert_eq!(whole.weights, parts.weights);
}

#[test]
fn each_mistake_is_found_on_characters() {
    let Some(data) = common::data() else { return };
    let correction = |scale, axes: &str| Correction { scale, axes: axes.parse().unwrap(), ..Correction::NONE };
    for name in CHARACTERS {
        let (rig, sequence) = known(&data, name);
        let clip = &rig.clips[0];
        assert!(!examine(&rig, Some((clip, 0)), &sequence, false).is_mistake());
        for mistake in [
            correction(100.0, "x,y,z"),
            correction(0.01, "x,y,z"),
            correction(1.0, "x,z,-y"),
            correction(1.0, "-x,y,z"),
        ] {
            let moved = sequence.clone().placed(mistake.rig_from_sequence().inverse()).unwrap();
            for own_rest in [false, true] {
                assert_eq!(examine(&rig, Some((clip, 0)), &moved, own_rest).correction, mistake, "{name}");
            }
            assert_eq!(examine(&rig, None, &moved, true).correction, mistake, "{name}");
        }
        let late = sequence.clone().with_frames(9..40);
        let found = examine(&rig, Some((clip, 0)), &late, false).correction;
        assert_eq!(found, Correction { frame_offset: 9, ..Correction::NONE }, "{name}");
    }
}

/// Weights found anew with a helper more, for Blender: the old names, the old tree, the old places.
fn for_the_judges(name: &str, mut rig: Rig, sequence: &MeshSequence) {
    let before = rig.bones.clone();
    let motion = rig.clips[0].posed_from_rest.clone();
    let subject = Subject { sequence, motion: Some(&motion), binds: None };
    let params = RefitParams { solve: Solve::Weights, add_bones: 1, max_iterations: Some(3), ..RefitParams::default() };
    let mut found = refit(&on_one_bone(&rig), &[subject], &Locks::default(), &params, &mut Silent).unwrap();
    (rig, found.rigs) = (found.rigs.remove(0), Vec::new());
    rig.name = name.into();
    let e_rms = evaluate(&rig, 0, sequence).unwrap().e_rms;
    assert!(e_rms < 0.1, "{name}: E_RMS {e_rms}");
    // A second animation, the first one backwards.
    let b = rig.bone_count();
    let mut back = rig.clips[0].clone();
    back.name = "back".into();
    back.posed_from_rest = rig.clips[0].posed_from_rest.chunks(b).rev().flatten().copied().collect();
    rig.clips.push(back);
    assert_eq!(rig.bones[..before.len()], before[..]);
    let folder = match std::env::var_os("BONESMITH_JUDGE_DIR") {
        Some(folder) => std::path::PathBuf::from(folder),
        None => std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("judges"),
    };
    std::fs::create_dir_all(&folder).unwrap();
    save_rig(&rig, &folder.join(format!("{name}.glb"))).unwrap();
    // What was read is what Blender should see: names and places of the truth, poses of the sequence.
    let bone = |bone: &bonesmith_core::Bone| {
        let parent = bone.parent.map(|p| rig.bones[p].name.clone());
        json!({ "name": bone.name, "parent": parent, "head": bone.world_from_bind.translation.to_array() })
    };
    let list = |positions: &[glam::Vec3]| positions.iter().map(|p| p.to_array()).collect::<Vec<_>>();
    // Blender counts frames from time 0.
    let frame = |t: usize| {
        let at = (rig.clips[0].times_secs[t] * 24.0).round() as i64;
        json!({ "frame": at, "positions": list(&sequence.frame(t)) })
    };
    let frames = [0, sequence.frame_count() / 2, sequence.frame_count() - 1].map(frame);
    let reference = json!({
        "fps": 24,
        "rest": list(&rig.rest),
        "frames": frames,
        "bones": rig.bones.iter().map(bone).collect::<Vec<_>>(),
        "clips": rig.clips.iter().map(|clip| clip.name.clone()).collect::<Vec<_>>(),
    });
    std::fs::write(folder.join(format!("{name}.json")), reference.to_string()).unwrap();
}

#[test]
fn a_refitted_rig_of_our_own_for_the_judges() {
    let params = PosedRigParams { bones: 6, detail: 2, ..PosedRigParams::default() };
    let mut posed = posed_rig(12, &params);
    for (j, name) in ["hips", "spine", "chest", "Arm.L", "arm R", "kopf"].into_iter().enumerate() {
        posed.rig.bones[j].name = name.into();
        posed.rig.bones[j].parent = [None, Some(0), Some(1), Some(2), Some(2), Some(2)][j];
    }
    posed.sequence.times_secs = (0..params.frames).map(|t| t as f64 / 24.0).collect();
    let sequence = MeshSequence::try_from(posed.sequence).unwrap();
    for_the_judges("given_own", posed.rig, &sequence);
}

#[test]
fn a_refitted_character_for_the_judges() {
    let Some(data) = common::data() else { return };
    let path = data.join("files/CesiumMan.glb");
    let rig = load_rig(&path).unwrap();
    let raw = load_sequence(&[path], &LoadOptions::default()).unwrap();
    for_the_judges("given_cesiumman", rig, &MeshSequence::try_from(raw).unwrap());
}
