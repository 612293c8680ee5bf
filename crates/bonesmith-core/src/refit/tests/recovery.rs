//! Part of the truth taken away, and found again.

use std::ops::ControlFlow;

use glam::{DAffine3, DVec3, Vec3};

use crate::deform::lbs;
use crate::mesh::sequence::{MeshSequence, RawFrame, RawSequence};
use crate::mesh::sphere::unit_radius;
use crate::mesh::surface::CornerAttribute;
use crate::metrics::evaluate;
use crate::model::rig::{BoneKind, Rig};
use crate::observer::{Cancelled, Observer, Progress, Silent};
use crate::refit::subjects::transferred_binds;
use crate::refit::tests::{known, on_one_bone, weight_difference};
use crate::refit::{Locks, RefitError, RefitParams, Solve, Subject, refit};
use crate::skinning::Warning;
use crate::synthetic::{PosedRigParams, posed_rig};

const KINDS: [BoneKind; 3] = [BoneKind::Rigid, BoneKind::Trs, BoneKind::Affine];

fn only(solve: Solve) -> RefitParams {
    RefitParams { solve, ..RefitParams::default() }
}

#[test]
fn weights_are_found_for_known_motion() {
    for kind in KINDS {
        let (rig, sequence) = known(1, kind);
        let motion = Some(rig.clips[0].posed_from_rest.as_slice());
        let subject = Subject { sequence: &sequence, motion, binds: None };
        let found =
            refit(&on_one_bone(&rig), &[subject], &Locks::default(), &only(Solve::Weights), &mut Silent).unwrap();
        let found = &found.rigs[0];
        assert_eq!(found.check(), Ok(()));
        assert!(evaluate(found, 0, &sequence).unwrap().e_rms < 1e-3);
        assert!(weight_difference(&rig, found) < 1e-4, "{kind:?}: {}", weight_difference(&rig, found));
        assert_eq!(found.clips[0].posed_from_rest, rig.clips[0].posed_from_rest, "motion stays to the bit");
        assert_eq!((&found.rest, &found.bones), (&rig.rest, &rig.bones));
    }
}

#[test]
fn motion_is_found_for_known_weights() {
    for kind in KINDS {
        let (mut rig, sequence) = known(2, kind);
        let truth = std::mem::take(&mut rig.clips).remove(0);
        let subject = Subject { sequence: &sequence, motion: None, binds: None };
        // Its bones do not stay at their parents, which is found out: there is no animation that shows it.
        let found = refit(&rig, &[subject], &Locks::default(), &only(Solve::Motion), &mut Silent).unwrap();
        let warned = found.info.warnings.iter().any(|warning| matches!(warning, Warning::FreeJoints { .. }));
        assert_eq!(warned, kind == BoneKind::Rigid, "{kind:?}: {:?}", found.info.warnings);
        let found = &found.rigs[0];
        assert_eq!((found.check(), &found.weights), (Ok(()), &rig.weights));
        assert!(evaluate(found, 0, &sequence).unwrap().e_rms < 1e-2, "{kind:?}");
        for (m, truth) in found.clips[0].posed_from_rest.iter().zip(&truth.posed_from_rest) {
            assert!(m.abs_diff_eq(*truth, 1e-3), "{kind:?}: {m} {truth}");
        }
    }
}

/// The bones of a rig turned about their joints, and noise on the vertices.
#[test]
fn joints_that_only_rotate_keep_bone_lengths() {
    let (mut rig, _) = known(2, BoneKind::Rigid);
    let mut random = crate::solve::random::Random::new(3);
    let b = rig.bone_count();
    for t in 0..20 {
        for j in 0..b {
            let own = rig.bones[j].world_from_bind.translation;
            let turn = glam::DQuat::from_scaled_axis(random.vector() * 0.6);
            let local = DAffine3::from_translation(own)
                * DAffine3::from_rotation_translation(turn, DVec3::ZERO)
                * DAffine3::from_translation(-own);
            let moved = match rig.bones[j].parent {
                Some(p) => rig.clips[0].posed_from_rest[t * b + p] * local,
                None => DAffine3::from_translation(random.vector()) * local,
            };
            rig.clips[0].posed_from_rest[t * b + j] = moved;
        }
    }
    let truth = rig.clips[0].clone();
    let radius = unit_radius(&rig.rest);
    let mut noise = || (random.vector() * 2e-3 * radius).as_vec3();
    let frame = |t: usize| -> Vec<Vec3> { lbs(&rig.rest, &rig.weights, truth.frame(t)) };
    let exact: Vec<Vec<Vec3>> = (0..20).map(frame).collect();
    let frames: Vec<RawFrame> =
        exact.iter().map(|f| f.iter().map(|p| *p + noise()).collect::<Vec<_>>().into()).collect();
    let raw = RawSequence { rest: Some(rig.rest.clone().into()), frames, ..RawSequence::default() };
    let noisy = MeshSequence::try_from(raw).unwrap();
    let stretch = |found: &Rig| -> f64 {
        let clip = &found.clips[0];
        let apart = |t: usize, j: usize| {
            let (pose, own) = (clip.frame(t), found.bones[j].world_from_bind.translation);
            found.bones[j].parent.map_or(0.0, |p| pose[j].transform_point3(own).distance(pose[p].transform_point3(own)))
        };
        (0..20).flat_map(|t| (0..b).map(move |j| (t, j))).map(|(t, j)| apart(t, j)).fold(0.0, f64::max) / radius
    };
    let solved = |rig: &Rig, free_translation: bool| {
        let params = RefitParams { free_translation, ..only(Solve::Motion) };
        let subject = Subject { sequence: &noisy, motion: None, binds: None };
        refit(rig, &[subject], &Locks::default(), &params, &mut Silent).unwrap().rigs.remove(0)
    };
    let (joined, free) = (solved(&rig, false), solved(&rig, true));
    // Without an animation that shows it, the error decides.
    let unseen = Rig { clips: Vec::new(), ..rig.clone() };
    assert!(stretch(&solved(&unseen, false)) < 1e-6);
    assert!(stretch(&joined) < 1e-6 && stretch(&free) > 1e-4, "{} {}", stretch(&joined), stretch(&free));
    // Not far above the freer motion, and nearer to the truth.
    let error = |found: &Rig| evaluate(found, 0, &noisy).unwrap().e_rms;
    assert!(error(&joined) < 1.1 * error(&free), "{} {}", error(&joined), error(&free));
    let off = |found: &Rig| -> f64 {
        let pairs = found.clips[0].posed_from_rest.iter().zip(&truth.posed_from_rest);
        pairs.map(|(a, b)| (a.matrix3 - b.matrix3).to_cols_array().iter().map(|x| x * x).sum::<f64>()).sum::<f64>()
    };
    assert!(off(&joined) < off(&free), "{} {}", off(&joined), off(&free));
}

#[test]
fn both_start_from_the_rig_and_end_below_it() {
    let (rig, sequence) = known(3, BoneKind::Rigid);
    // Motion that is off, and weights that say nothing: neither alone can be right.
    let mut off = on_one_bone(&rig);
    let nudge = DAffine3::from_translation(DVec3::new(0.1, 0.0, 0.05)) * DAffine3::from_rotation_z(0.1);
    off.clips[0].posed_from_rest.iter_mut().for_each(|m| *m = nudge * *m);
    let motion = Some(off.clips[0].posed_from_rest.as_slice());
    let subject = Subject { sequence: &sequence, motion, binds: None };
    let e_rms = |solve| {
        let found = refit(&off, &[subject], &Locks::default(), &only(solve), &mut Silent).unwrap();
        evaluate(&found.rigs[0], 0, &sequence).unwrap().e_rms
    };
    let (weights, both) = (e_rms(Solve::Weights), e_rms(Solve::Both));
    assert!(both < 0.1 * weights, "{both} {weights}");
}

/// A bone without vertices keeps its place beside its parent.
#[test]
fn bones_without_vertices_follow_their_parent() {
    let (mut rig, sequence) = known(4, BoneKind::Rigid);
    let mut tip = rig.bones[6].clone();
    (tip.name, tip.parent) = ("tip".into(), Some(6));
    rig.bones.push(tip);
    rig.clips.clear();
    let subject = Subject { sequence: &sequence, motion: None, binds: None };
    let found = refit(&rig, &[subject], &Locks::default(), &only(Solve::Motion), &mut Silent).unwrap();
    let clip = &found.rigs[0].clips[0];
    for t in 0..clip.frame_count() {
        assert!(clip.frame(t)[7].abs_diff_eq(clip.frame(t)[6], 1e-9));
        assert!(!clip.frame(t)[7].abs_diff_eq(DAffine3::IDENTITY, 1e-3) || t == 0);
    }
}

/// Two bodies of one mesh that move differently: one set of weights serves both, better than those of one alone.
#[test]
fn subjects_share_weights() {
    let (rig, first) = known(8, BoneKind::Rigid);
    let (other, _) = known(9, BoneKind::Rigid);
    let taller = |p: &Vec3| Vec3::new(1.3 * p.x, 0.8 * p.y, p.z);
    let rest: Vec<Vec3> = rig.rest.iter().map(taller).collect();
    let frame = |positions| RawFrame { positions, ..RawFrame::default() };
    let clip = &other.clips[0];
    let raw = RawSequence {
        name: "tall".into(),
        rest: Some(frame(rest.clone())),
        frames: (0..clip.frame_count()).map(|t| frame(lbs(&rest, &rig.weights, clip.frame(t)))).collect(),
        surface: (*rig.surface).clone(),
        ..RawSequence::default()
    };
    let second = MeshSequence::try_from(raw).unwrap();
    let binds = transferred_binds(&rig, &rest);
    let subjects = [
        Subject { sequence: &first, motion: None, binds: None },
        Subject { sequence: &second, motion: None, binds: Some(&binds) },
    ];
    // Weights near the truth, as a rig in use has.
    let mut rough = Rig { clips: Vec::new(), ..rig.clone() };
    for i in 0..rig.vertex_count() {
        let even: Vec<(usize, f64)> = rig.weights.of(i).map(|(j, w)| (j, f64::from(w).sqrt())).collect();
        rough.weights.set(i, &even);
    }
    let params = RefitParams { max_iterations: Some(40), tolerance: 0.0, ..only(Solve::Both) };
    let found = refit(&rough, &subjects, &Locks::default(), &params, &mut Silent).unwrap();
    assert_eq!(found.rigs[0].weights, found.rigs[1].weights);
    assert_eq!((&found.rigs[1].rest, found.rigs[1].bones[2].world_from_bind), (&rest, binds[2]));
    for (rig, sequence) in found.rigs.iter().zip([&first, &second]) {
        let e_rms = evaluate(rig, 0, sequence).unwrap().e_rms;
        assert!(e_rms < 1.0, "{e_rms}");
    }
    assert!(weight_difference(&rig, &found.rigs[0]) < 0.5 * weight_difference(&rig, &rough));
}

/// A model that walks 1000 sizes away from the origin is refitted as well as at the origin.
#[test]
fn a_long_walk_costs_no_accuracy() {
    // Rigid bones on affine motion: the least error is not zero.
    let (mut rig, near) = known(4, BoneKind::Affine);
    rig.kind = BoneKind::Rigid;
    let size = 2.0 * unit_radius(&rig.rest);
    let step = 1000.0 * size / (near.frame_count() - 1) as f64 * DVec3::new(0.8, 0.0, 0.6);
    let frame = |positions| RawFrame { positions, ..RawFrame::default() };
    let walked = |t: usize| {
        let shift = t as f64 * step;
        near.frame(t).iter().map(|p| (p.as_dvec3() + shift).as_vec3()).collect()
    };
    let far = MeshSequence::try_from(RawSequence {
        rest: Some(frame(rig.rest.clone())),
        frames: (0..near.frame_count()).map(|t| frame(walked(t))).collect(),
        surface: (*rig.surface).clone(),
        ..RawSequence::default()
    })
    .unwrap();
    let here = rig.clips[0].posed_from_rest.clone();
    let walk = |(at, m): (usize, &DAffine3)| DAffine3::from_translation((at / 7) as f64 * step) * *m;
    let there: Vec<DAffine3> = here.iter().enumerate().map(walk).collect();
    let e_rms = |sequence: &MeshSequence, motion: Option<&[DAffine3]>, solve| {
        let subject = Subject { sequence, motion, binds: None };
        let found = refit(&rig, &[subject], &Locks::default(), &only(solve), &mut Silent).unwrap();
        evaluate(&found.rigs[0], 0, sequence).unwrap().e_rms
    };
    for solve in [Solve::Both, Solve::Motion] {
        for (here, there) in [(None, None), (Some(here.as_slice()), Some(there.as_slice()))] {
            let (near, far) = (e_rms(&near, here, solve), e_rms(&far, there, solve));
            assert!((far / near - 1.0).abs() < 0.05, "{solve:?}, motion known: {}: {near} {far}", here.is_some());
        }
    }
}

#[test]
fn what_does_not_belong_together_is_refused() {
    let (rig, sequence) = known(1, BoneKind::Rigid);
    let message = |subject: Subject, locks: &Locks, params: &RefitParams| {
        refit(&rig, &[subject], locks, params, &mut Silent).unwrap_err().to_string()
    };
    let still = Subject { sequence: &sequence, motion: None, binds: None };
    let none = Locks::default();
    assert!(message(still, &none, &only(Solve::Weights)).contains("not known how the rig moves"));
    let short = Subject { motion: Some(&rig.clips[0].posed_from_rest[1..]), ..still };
    assert!(message(short, &none, &only(Solve::Both)).contains("motion: 139 entries, but 140"));
    let mask = Locks { vertices: vec![1.5; rig.vertex_count()], ..Locks::default() };
    assert!(message(still, &mask, &only(Solve::Both)).contains("vertex 0 is 1.5"));
    let planted = RefitParams { add_bones: 2, ..only(Solve::Motion) };
    assert!(message(still, &none, &planted).contains("new bones need weights"));
    assert!(refit(&rig, &[], &none, &only(Solve::Both), &mut Silent).is_err());
}

/// Counts reports, and cancels at one of them.
struct Counter {
    count: usize,
    last: usize,
}

impl Observer for Counter {
    fn report(&mut self, _: &Progress) -> ControlFlow<()> {
        self.count += 1;
        if self.count == self.last { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// Work within a round is reported and can be cancelled, not only its end.
#[test]
fn every_report_can_cancel() {
    let (rig, sequence) = known(1, BoneKind::Trs);
    let subject = Subject { sequence: &sequence, motion: None, binds: None };
    for solve in [Solve::Motion, Solve::Both] {
        let params = RefitParams { max_iterations: Some(2), tolerance: 0.0, ..only(solve) };
        let run = |last: usize| {
            let mut counter = Counter { count: 0, last };
            let result = refit(&rig, &[subject], &Locks::default(), &params, &mut counter);
            (result, counter.count)
        };
        let (result, reports) = run(usize::MAX);
        // Stages and rounds alone would be four.
        assert!(reports > 3 * (2 + result.unwrap().info.history.len()), "{solve:?}: {reports}");
        for last in [1, 3, reports / 2, reports] {
            let (result, count) = run(last);
            assert_eq!((result.err(), count), (Some(RefitError::Cancelled(Cancelled)), last), "{solve:?}");
        }
    }
}

/// Rest normals are solved for the motion, over the rig's own faces, unless they are to be kept.
#[test]
fn rest_normals_are_solved_unless_kept() {
    let made = posed_rig(7, &PosedRigParams::default());
    let sequence = MeshSequence::try_from(made.sequence).unwrap();
    let mut rig = made.rig;
    let corners = rig.surface.topology.corners().to_vec();
    let wrong =
        CornerAttribute { name: "wrong".into(), values: vec![[0.0, 0.0, 1.0]; rig.vertex_count()], indices: corners };
    std::sync::Arc::make_mut(&mut rig.surface).normals = Some(wrong);
    let motion = rig.clips[0].posed_from_rest.clone();
    let subject = Subject { sequence: &sequence, motion: Some(&motion), binds: None };
    let degrees = |keep_normals: bool| {
        let params = RefitParams { solve: Solve::Weights, keep_normals, ..RefitParams::default() };
        let found = refit(&rig, &[subject], &Locks::default(), &params, &mut Silent).unwrap().rigs.remove(0);
        assert_eq!(found.surface.normals == rig.surface.normals, keep_normals);
        evaluate(&found, 0, &sequence).unwrap().skinned_normals.unwrap().degrees
    };
    let (kept, solved) = (degrees(true), degrees(false));
    // As good as the normals of the rest pose at least.
    std::sync::Arc::make_mut(&mut rig.surface).normals = None;
    let of_rest = evaluate(&rig, 0, &sequence).unwrap().skinned_normals.unwrap().degrees;
    assert!(kept > 2.0 * solved && solved <= of_rest, "kept {kept}, solved {solved}, of the rest pose {of_rest}");
}
