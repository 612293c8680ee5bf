//! What is locked stays to the bit, and helpers leave the rest alone.

use glam::{DAffine3, DQuat, DVec3};

use crate::deform::lbs;
use crate::mesh::sequence::{MeshSequence, RawFrame, RawSequence};
use crate::metrics::evaluate;
use crate::model::rig::{BoneKind, Rig};
use crate::model::weights::SparseWeights;
use crate::observer::Silent;
use crate::refit::tests::{known, on_one_bone};
use crate::refit::{Locks, RefitParams, Solve, Subject, refit};

#[test]
fn locked_bones_keep_every_bit() {
    let (rig, sequence) = known(1, BoneKind::Rigid);
    let mut off = rig.clone();
    let nudge = DAffine3::from_rotation_translation(DQuat::from_rotation_x(0.2), DVec3::new(0.0, 0.1, 1.0 / 3.0));
    off.clips[0].posed_from_rest.iter_mut().for_each(|m| *m = nudge * *m);
    let locks = Locks { bones: (0..7).map(|j| j % 3 == 1).collect(), vertices: Vec::new() };
    for solve in [Solve::Weights, Solve::Motion, Solve::Both] {
        let motion = Some(off.clips[0].posed_from_rest.as_slice());
        let params = RefitParams { solve, ..RefitParams::default() };
        let subject = Subject { sequence: &sequence, motion, binds: None };
        let found = refit(&off, &[subject], &locks, &params, &mut Silent).unwrap();
        let pairs = found.rigs[0].clips[0].posed_from_rest.iter().zip(&off.clips[0].posed_from_rest);
        for (at, (now, before)) in pairs.enumerate() {
            let same = now.to_cols_array().map(f64::to_bits) == before.to_cols_array().map(f64::to_bits);
            let stays = solve == Solve::Weights || locks.bones[at % 7];
            assert_eq!(same, stays, "{solve:?}, frame {}, bone {}", at / 7, at % 7);
        }
    }
}

#[test]
fn masks_hold_or_blend_weights() {
    let (rig, sequence) = known(2, BoneKind::Rigid);
    let start = on_one_bone(&rig);
    let n = rig.vertex_count();
    let mask: Vec<f32> = (0..n).map(|i| [0.0, 1.0, 0.25][i % 3]).collect();
    let motion = Some(rig.clips[0].posed_from_rest.as_slice());
    let subject = Subject { sequence: &sequence, motion, binds: None };
    let params = RefitParams { solve: Solve::Weights, influences: Some(6), ..RefitParams::default() };
    let found = |vertices: Vec<f32>| {
        let locks = Locks { vertices, ..Locks::default() };
        refit(&start, &[subject], &locks, &params, &mut Silent).unwrap().rigs.remove(0)
    };
    let (free, masked) = (found(Vec::new()), found(mask));
    for i in 0..n {
        let row = |rig: &Rig| rig.weights.of(i).collect::<Vec<_>>();
        match i % 3 {
            0 => assert_eq!(row(&masked), row(&free), "vertex {i} is free"),
            1 => assert_eq!(row(&masked), row(&start), "vertex {i} is locked"),
            _ => {
                let of = |rig: &Rig, j: usize| rig.weights.of(i).find(|w| w.0 == j).map_or(0.0, |w| w.1);
                for j in 0..7 {
                    let blend = 0.25 * of(&start, j) + 0.75 * of(&free, j);
                    assert!((of(&masked, j) - blend).abs() < 1e-5, "vertex {i}, bone {j}");
                }
            }
        }
    }
}

/// A rig that lacks a bone: the helper takes its place, hung on the bone it follows, and nothing else changes.
#[test]
fn a_helper_takes_the_place_of_a_missing_bone() {
    let (mut rig, _) = known(3, BoneKind::Rigid);
    // The last bone turns with its parent, and swells out beside it.
    let clip = &mut rig.clips[0];
    for t in 0..clip.times_secs.len() {
        let swell = DVec3::new(0.0, 0.0, 0.3 * (t as f64 * 0.6).sin());
        clip.posed_from_rest[t * 7 + 6] = clip.posed_from_rest[t * 7 + 2] * DAffine3::from_translation(swell);
    }
    let frame = |positions| RawFrame { positions, ..RawFrame::default() };
    let frames = (0..20).map(|t| frame(lbs(&rig.rest, &rig.weights, rig.clips[0].frame(t)))).collect();
    let raw = RawSequence {
        rest: Some(frame(rig.rest.clone())),
        frames,
        surface: (*rig.surface).clone(),
        ..RawSequence::default()
    };
    let sequence = MeshSequence::try_from(raw).unwrap();
    let lacking = without_last_bone(&rig);
    let motion = Some(lacking.clips[0].posed_from_rest.as_slice());
    let subject = Subject { sequence: &sequence, motion, binds: None };
    let found = |add_bones| {
        let params = RefitParams { solve: Solve::Weights, add_bones, ..RefitParams::default() };
        refit(&lacking, &[subject], &Locks::default(), &params, &mut Silent).unwrap().rigs.remove(0)
    };
    let e_rms = |rig: &Rig| evaluate(rig, 0, &sequence).unwrap().e_rms;
    let (without, with) = (found(0), found(1));
    assert_eq!(with.check(), Ok(()));
    assert!(e_rms(&with) < 0.1 * e_rms(&without), "{} {}", e_rms(&with), e_rms(&without));
    assert_eq!((with.bones.len(), with.bones[6].name.as_str()), (7, "helper_001"));
    assert_eq!(with.bones[6].parent, Some(2), "it follows bone 2");
    assert_eq!(with.bones[..6], lacking.bones[..]);
    for t in 0..20 {
        assert_eq!(with.clips[0].frame(t)[..6], *lacking.clips[0].frame(t), "the others move as before, to the bit");
    }
}

fn without_last_bone(rig: &Rig) -> Rig {
    let mut lacking = rig.clone();
    lacking.bones.pop();
    let kept = |(at, m): (usize, &DAffine3)| (at % 7 < 6).then_some(*m);
    lacking.clips[0].posed_from_rest = rig.clips[0].posed_from_rest.iter().enumerate().filter_map(kept).collect();
    lacking.weights = SparseWeights::new(rig.vertex_count(), 4);
    for i in 0..rig.vertex_count() {
        let mut row: Vec<(usize, f64)> = rig.weights.of(i).map(|(j, w)| (j, f64::from(w))).collect();
        row.retain(|(j, _)| *j < 6);
        lacking.weights.set(i, &row);
    }
    lacking
}

#[test]
fn helpers_take_free_names_and_threads_do_not_matter() {
    let (mut rig, sequence) = known(5, BoneKind::Affine);
    (rig.kind, rig.bones[0].name) = (BoneKind::Rigid, "helper_002".into());
    rig.clips.clear();
    let run = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let subject = Subject { sequence: &sequence, motion: None, binds: None };
        let params = RefitParams { add_bones: 3, ..RefitParams::default() };
        pool.install(|| refit(&rig, &[subject], &Locks::default(), &params, &mut Silent).unwrap().rigs.remove(0))
    };
    let one = run(1);
    let names: Vec<&str> = one.bones[7..].iter().map(|bone| bone.name.as_str()).collect();
    assert_eq!(names, ["helper_001", "helper_003", "helper_004"]);
    let two = run(2);
    assert_eq!((&one.weights, &one.clips, &one.bones), (&two.weights, &two.clips, &two.bones));
}
