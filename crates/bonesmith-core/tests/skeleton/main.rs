//! The public `skeleton()`: recovery, joints that hold, odd input.

use std::ops::ControlFlow;

use bonesmith_core::fit::{BoneCount, Effort, FitError, FitParams, Warning};
use bonesmith_core::metrics::evaluate;
use bonesmith_core::skeleton::{Root, Skeletal, SkeletonMethod, SkeletonParams, skeleton};
use bonesmith_core::synthetic::{PosedRigParams, awkward, body_with_hand, jointed_body, posed_rig};
use bonesmith_core::{MeshSequence, Observer, Progress, RawFrame, RawSequence, Rig, Silent, Stage};
use glam::{DVec3, Quat, Vec3};

#[track_caller]
fn found(raw: RawSequence, fit: &FitParams, params: &SkeletonParams) -> (MeshSequence, Skeletal) {
    let sequence = MeshSequence::try_from(raw).expect("a sound sequence");
    let found = skeleton(&sequence, fit, params, &mut Silent).expect("a skeleton");
    assert_eq!(found.rig.check(), Ok(()));
    assert_eq!(found.rig.bones.iter().filter(|bone| bone.parent.is_none()).count(), 1, "one root");
    assert!(stretch(&found.rig) < 1e-5, "joints hold: {}", stretch(&found.rig));
    (sequence, found)
}

fn fast() -> FitParams {
    FitParams { effort: Effort::Fast, ..FitParams::default() }
}

/// Most that a joint leaves its place on the parent, over the size of the model.
fn stretch(rig: &Rig) -> f64 {
    let low = rig.rest.iter().copied().fold(Vec3::INFINITY, Vec3::min);
    let high = rig.rest.iter().copied().fold(Vec3::NEG_INFINITY, Vec3::max);
    let size = f64::from((high - low).length()).max(1e-12);
    let mut worst = 0.0f64;
    for clip in &rig.clips {
        for t in 0..clip.frame_count() {
            for (j, bone) in rig.bones.iter().enumerate() {
                let Some(p) = bone.parent else { continue };
                let joint = bone.world_from_bind.translation;
                let own = clip.frame(t)[j].transform_point3(joint);
                worst = worst.max(own.distance(clip.frame(t)[p].transform_point3(joint)) / size);
            }
        }
    }
    worst
}

#[test]
fn a_known_skeleton_is_found_again() {
    let known = jointed_body(5, 24, 3);
    let (sequence, found) = found(known.sequence, &FitParams::default(), &SkeletonParams::default());
    let metrics = evaluate(&found.rig, 0, &sequence).unwrap();
    assert!(metrics.e_rms < 0.5, "E_RMS {}", metrics.e_rms);
    assert!((7..=9).contains(&found.rig.bone_count()), "{} bones", found.rig.bone_count());
    // Size 9.4: a joint counts as found within 4 % of it.
    for truth in known.rig.bones.iter().filter(|bone| bone.parent.is_some()) {
        let place = truth.world_from_bind.translation;
        let joints = found.rig.bones.iter().filter(|bone| bone.parent.is_some());
        let nearest = joints.map(|bone| bone.world_from_bind.translation.distance(place)).fold(f64::INFINITY, f64::min);
        assert!(nearest < 0.38, "{}: {nearest} away", truth.name);
    }
}

/// [B][N] weights below each joint.
fn below(rig: &Rig) -> Vec<Vec<f64>> {
    let mut sums = vec![vec![0.0; rig.rest.len()]; rig.bone_count()];
    let rows = (0..rig.rest.len()).flat_map(|i| rig.weights.of(i).map(move |(j, w)| (i, j, w)));
    for (i, j, w) in rows {
        std::iter::successors(Some(j), |&k| rig.bones[k].parent).for_each(|k| sums[k][i] += f64::from(w));
    }
    sums
}

/// How alike two splits of a surface are: weights below the one and the other joint, sum of the smaller over sum of the larger.
fn alike(truth: &[f64], found: &[f64]) -> f64 {
    let score = |side: &dyn Fn(f64) -> f64| {
        let pairs = truth.iter().zip(found).map(|(a, b)| (*a, side(*b)));
        let (low, high) = pairs.fold((0.0, 0.0), |(low, high), (a, b)| (low + a.min(b), high + a.max(b)));
        low / high
    };
    score(&|w| w).max(score(&|w| 1.0 - w))
}

/// Fingers of a fortieth of the body have joints of their own, and few joints are left over.
#[test]
fn fingers_on_a_large_body_are_found() {
    let known = body_with_hand(3, 32);
    let (_, found) = found(known.sequence, &FitParams::default(), &SkeletonParams::default());
    let (truth, mut left) = (below(&known.rig), below(&found.rig));
    let joints: Vec<usize> = (0..known.rig.bone_count()).filter(|&j| known.rig.bones[j].parent.is_some()).collect();
    let (mut fingers, mut others) = (0, 0);
    for j in joints {
        if let Some(at) = left.iter().position(|split| alike(&truth[j], split) >= 0.6) {
            left.remove(at);
            *(if known.rig.bones[j].name.starts_with("finger") { &mut fingers } else { &mut others }) += 1;
        }
    }
    println!("{fingers} of 15 in the fingers, {others} of 3, {} left over", left.len() - 1);
    assert!(fingers >= 13 && others == 3, "{fingers} of 15 in the fingers, {others} of 3");
    assert!(left.len() - 1 <= 3, "{} joints are left over", left.len() - 1);
}

/// A body that walks 1000 of its sizes away has the same joints and the same error as on the spot.
#[test]
fn a_long_walk_changes_no_skeleton() {
    let mut walking = jointed_body(5, 24, 3).sequence;
    let mut standing = walking.clone();
    for (t, (there, here)) in walking.frames.iter_mut().zip(&mut standing.frames).enumerate() {
        let step = Vec3::new(9400.0, 0.0, -300.0) * (t + 1) as f32 / 24.0;
        there.positions.iter_mut().for_each(|p| *p += step);
        // Far away float32 has fewer digits: the same ones here.
        here.positions = there.positions.iter().map(|p| *p - step).collect();
    }
    let of = |raw: RawSequence| {
        let (sequence, found) = found(raw, &FitParams::default(), &SkeletonParams::default());
        (evaluate(&found.rig, 0, &sequence).unwrap().e_rms, found.rig)
    };
    let ((near, here), (far, there)) = (of(standing), of(walking));
    println!("E_RMS {near} on the spot, {far} after the walk");
    assert_eq!(here.bone_count(), there.bone_count());
    for (a, b) in here.bones.iter().zip(&there.bones) {
        assert_eq!((&a.name, a.parent), (&b.name, b.parent));
        let apart = a.world_from_bind.translation.distance(b.world_from_bind.translation);
        assert!(apart < 0.01, "{}: {apart}", a.name);
    }
    // Coordinates of 9400 are rounded to 0.001, which is an E_RMS of some 0.06: errors below that differ by chance.
    assert!((far - near).abs() < 0.05 * near + 0.01, "E_RMS {near} on the spot, {far} after the walk");
}

/// Stops after so many reports.
struct Patience {
    left: usize,
    seen: Vec<Progress>,
}

impl Observer for Patience {
    fn report(&mut self, progress: &Progress) -> ControlFlow<()> {
        self.seen.push(*progress);
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                ControlFlow::Continue(())
            }
            None => ControlFlow::Break(()),
        }
    }
}

/// Every method reports from clustering to the end, and ends at the report that is answered with a cancel.
#[test]
fn every_method_reports_and_can_be_cancelled_anywhere() {
    let sequence = MeshSequence::try_from(jointed_body(2, 12, 2).sequence).unwrap();
    let last = [
        (SkeletonMethod::Multipass, Stage::WeightsAndJoints),
        (SkeletonMethod::Schaefer, Stage::Tree),
        (SkeletonMethod::Deaguiar, Stage::Tree),
        (SkeletonMethod::Hasler, Stage::Tree),
    ];
    for (method, stage) in last {
        let params = SkeletonParams { method, ..SkeletonParams::default() };
        let run = |left: usize| {
            let mut patience = Patience { left, seen: Vec::new() };
            let result = skeleton(&sequence, &fast(), &params, &mut patience).map(|_| ());
            (result, patience.seen)
        };
        let (result, seen) = run(usize::MAX);
        assert_eq!(result, Ok(()));
        assert_eq!(seen.last().map(|progress| progress.stage), Some(stage));
        let clusters = |progress: &&Progress| [Stage::Clusters, Stage::FreeBones].contains(&progress.stage);
        assert!(seen.iter().filter(clusters).any(|progress| progress.step > 0), "{method:?}: clusters report");
        assert!(seen.iter().all(|progress| progress.steps.is_none_or(|steps| progress.step <= steps)));
        for left in (0..seen.len()).step_by(1 + seen.len() / 12) {
            let (result, seen) = run(left);
            assert!(matches!(result, Err(FitError::Cancelled(_))), "{method:?} after {left}: {result:?}");
            assert_eq!(seen.len(), left + 1, "{method:?}: no report after the cancel");
        }
    }
}

#[test]
fn bones_are_an_upper_limit_and_detail_makes_more_of_them() {
    let known = jointed_body(2, 12, 2).sequence;
    let limited = FitParams { bones: BoneCount::Exact(4), ..fast() };
    let (_, four) = found(known.clone(), &limited, &SkeletonParams::default());
    assert!(four.rig.bone_count() <= 4);
    let soft = PosedRigParams { bones: 14, frames: 12, detail: 3, softness: 0.4, ..PosedRigParams::default() };
    let soft = posed_rig(5, &soft).sequence;
    let counts: Vec<usize> = [0.3, 1.0, 4.0]
        .map(|detail| {
            let params = SkeletonParams { detail, ..SkeletonParams::default() };
            found(soft.clone(), &fast(), &params).1.rig.bone_count()
        })
        .to_vec();
    assert!(counts[0] < counts[1] && counts[1] < counts[2], "{counts:?}");
}

#[test]
fn the_root_is_what_was_asked_for() {
    let known = jointed_body(4, 12, 2);
    let at = |root: Root| {
        let params = SkeletonParams { root, symmetry: false, ..SkeletonParams::default() };
        found(known.sequence.clone(), &fast(), &params).1.rig
    };
    let centre = at(Root::Centre);
    assert_eq!(centre.bones[0].name, "root");
    let top = [0.5, 8.0, 0.5];
    let head = at(Root::At(top));
    let height = |rig: &Rig| rig.bones[0].world_from_bind.translation.distance(DVec3::from_array(top));
    assert!(height(&head) < 2.0 && height(&centre) > 2.0, "{} {}", height(&head), height(&centre));
    let last = centre.bones.last().unwrap();
    let named = at(Root::Named(last.name.clone()));
    let tip = last.tip.expect("the last of a chain is a leaf");
    let near = |rig: &Rig, p: DVec3| rig.bones[0].world_from_bind.translation.distance(p);
    assert!(near(&named, tip) < near(&centre, tip));
    let sequence = MeshSequence::try_from(known.sequence.clone()).unwrap();
    let params = SkeletonParams { root: Root::Named("elbow".into()), ..SkeletonParams::default() };
    let refused = skeleton(&sequence, &fast(), &params, &mut Silent);
    assert!(matches!(refused, Err(FitError::Unsupported(text)) if text.contains("elbow") && text.contains("bone_01")));
}

#[test]
fn leaves_have_tips_and_names_run_along_chains() {
    let (_, found) = found(jointed_body(6, 12, 2).sequence, &fast(), &SkeletonParams::default());
    for (j, bone) in found.rig.bones.iter().enumerate() {
        let leaf = !found.rig.bones.iter().any(|other| other.parent == Some(j));
        assert_eq!(bone.tip.is_some(), leaf, "{}", bone.name);
        assert!(bone.parent.is_none_or(|p| p < j), "parents come first");
        let along = bone.tip.map(|tip| tip - bone.world_from_bind.translation);
        assert!(along.is_none_or(|along| along.normalize().dot(bone.world_from_bind.matrix3.y_axis) > 0.999));
    }
}

#[test]
fn a_rigid_object_is_one_bone() {
    let mut raw = awkward::bending_tube();
    let rest = raw.frames[0].positions.clone();
    for (t, frame) in raw.frames.iter_mut().enumerate() {
        let turn = Quat::from_rotation_y(0.3 * t as f32) * Quat::from_rotation_x(0.1 * t as f32);
        frame.positions = rest.iter().map(|p| turn * *p + Vec3::new(0.2 * t as f32, 0.0, 1.0)).collect();
    }
    let (sequence, found) = found(raw, &fast(), &SkeletonParams::default());
    assert_eq!(found.rig.bone_count(), 1);
    assert!(evaluate(&found.rig, 0, &sequence).unwrap().e_rms < 0.05);
}

/// Two bodies that share no vertex: one root all the same.
#[test]
fn several_components_hang_under_one_root() {
    let known = jointed_body(8, 12, 2).sequence;
    let mut raw = known.clone();
    let n = known.frames[0].positions.len() as u32;
    for (frame, own) in raw.frames.iter_mut().chain(&mut raw.rest).zip(known.frames.iter().chain(&known.rest)) {
        frame.positions.extend(own.positions.iter().map(|p| *p + Vec3::new(20.0, 0.0, 0.0)));
    }
    for face in known.surface.topology.faces() {
        let moved: Vec<u32> = face.iter().map(|v| v + n).collect();
        raw.surface.topology.push_face(&moved);
    }
    let (_, found) = found(raw, &fast(), &SkeletonParams::default());
    assert!(found.rig.bone_count() > 4);
}

/// Two tubes, the second of which a function moves: their vertices and faces.
fn two_tubes(frames: usize, moved: impl Fn(usize, Vec3) -> Vec3) -> RawSequence {
    let (rings, around) = (9, 12);
    let point = |tube: usize, ring: usize, at: usize| {
        let (height, angle) = (ring as f32 / (rings - 1) as f32, at as f32 / around as f32 * std::f32::consts::TAU);
        let radius = [0.5, 0.3][tube];
        Vec3::new(radius * angle.cos(), 2.0 * height + 1.5 * tube as f32, radius * angle.sin())
    };
    let all = |t: usize| {
        let places = (0..2).flat_map(|tube| (0..rings * around).map(move |at| (tube, at)));
        let positions = places.map(|(tube, at)| {
            let p = point(tube, at / around, at % around);
            if tube == 1 { moved(t, p) } else { p }
        });
        RawFrame { positions: positions.collect(), ..RawFrame::default() }
    };
    let mut raw = RawSequence { frames: (0..frames).map(all).collect(), fps: 24.0, ..RawSequence::default() };
    for tube in 0..2 {
        for at in 0..(rings - 1) * around {
            let (ring, next) = (at / around * around, (at + 1) % around);
            let corner = |at: usize| (tube * rings * around + at) as u32;
            let (a, b) = (corner(at), corner(ring + next));
            raw.surface.topology.push_face(&[a, b, b + around as u32, a + around as u32]);
        }
    }
    raw
}

/// A telescope: no joint that rotates does that, and none near the surface comes close. It is reported.
#[test]
fn a_part_that_slides_is_reported() {
    let slide = |t: usize, p: Vec3| p + Vec3::Y * (0.8 * (0.5 * t as f32).sin());
    let two = FitParams { bones: BoneCount::Exact(2), ..fast() };
    let (_, found) = found(two_tubes(16, slide), &two, &SkeletonParams::default());
    let [Warning::SlidingPart { bone, parent, axis, travel, .. }] = &found.info.warnings[..] else {
        panic!("{:?}", found.info.warnings)
    };
    assert_eq!((bone.as_str(), parent.as_str()), ("bone_01", "root"));
    // A joint that only rotates moves the part on a flat arc.
    assert!(axis[1].abs() > 0.99, "{axis:?}");
    let places = (0..16).map(|t| 0.8 * (0.5 * t as f64).sin());
    let range = places.clone().fold(f64::MIN, f64::max) - places.fold(f64::MAX, f64::min);
    assert!((travel / range - 1.0).abs() < 0.05, "{travel} {range}");
}

/// A part that turns about a joint far away travels on an arc: the joint is far, but nothing slides.
#[test]
fn a_part_on_an_arc_does_not_slide() {
    let swing = |t: usize, p: Vec3| {
        let joint = Vec3::new(3.0, 2.0, 0.0);
        joint + Quat::from_rotation_z(0.8 * (0.5 * t as f32).sin()) * (p - joint)
    };
    let two = FitParams { bones: BoneCount::Exact(2), ..fast() };
    let (_, found) = found(two_tubes(16, swing), &two, &SkeletonParams::default());
    assert!(matches!(found.info.warnings[..], [Warning::FarJoint { .. }]), "{:?}", found.info.warnings);
}

/// A hinge turns and does not slide; its joint is near the surface.
#[test]
fn a_hinge_is_no_slide() {
    let turn = |t: usize, p: Vec3| {
        let joint = Vec3::new(0.0, 1.7, 0.0);
        joint + Quat::from_rotation_x(0.6 * (0.5 * t as f32).sin()) * (p - joint)
    };
    let (_, found) = found(two_tubes(16, turn), &fast(), &SkeletonParams::default());
    assert_eq!(found.info.warnings, []);
}

/// A part that turns by a degree about a place far away: its joint stays near the surface, or is reported.
#[test]
fn joints_stay_near_the_surface_or_are_reported() {
    let far = |t: usize, p: Vec3| {
        let joint = Vec3::new(30.0, 2.0, 0.0);
        joint + Quat::from_rotation_z(0.03 * (0.5 * t as f32).sin()) * (p - joint)
    };
    let (_, found) = found(two_tubes(16, far), &fast(), &SkeletonParams::default());
    let child = found.rig.bones.iter().find(|bone| bone.parent.is_some()).expect("two bones");
    let joint = child.world_from_bind.translation;
    let nearest = found.rig.rest.iter().map(|p| p.as_dvec3().distance(joint)).fold(f64::INFINITY, f64::min);
    let said = found.info.warnings.iter().any(|w| matches!(w, Warning::FarJoint { .. } | Warning::SlidingPart { .. }));
    assert_eq!(nearest / 3.5 > 0.25, said, "{nearest} {:?}", found.info.warnings);
}

/// A sheet that billows is no skeleton: sound, and said so with the figure.
#[test]
fn cloth_is_called_a_poor_fit() {
    let side = 24;
    let point = |t: usize, at: usize| {
        let (x, z) = ((at % side) as f32 / 8.0, (at / side) as f32 / 8.0);
        let wave = (3.0 * x + 0.7 * t as f32).sin() * (2.4 * z - 0.5 * t as f32).cos();
        Vec3::new(x + 0.2 * wave, 0.6 * wave, z)
    };
    let frames = (0..16)
        .map(|t| RawFrame { positions: (0..side * side).map(|at| point(t, at)).collect(), ..RawFrame::default() })
        .collect();
    let mut raw = RawSequence { frames, fps: 24.0, ..RawSequence::default() };
    for at in (0..side * (side - 1)).filter(|at| at % side + 1 < side) {
        let a = at as u32;
        raw.surface.topology.push_face(&[a, a + 1, a + side as u32 + 1, a + side as u32]);
    }
    let limited = FitParams { bones: BoneCount::Exact(12), ..fast() };
    let (sequence, found) = found(raw, &limited, &SkeletonParams::default());
    let e_rms = evaluate(&found.rig, 0, &sequence).unwrap().e_rms;
    let said = |w: &Warning| w.to_string().contains("poor model") && w.to_string().contains(&format!("{e_rms:.2}"));
    assert!(found.info.warnings.iter().any(said), "{e_rms}: {:?}", found.info.warnings);
}

#[test]
fn awkward_meshes_give_sound_skeletons() {
    for (name, raw) in awkward::all() {
        let (sequence, found) = found(raw, &fast(), &SkeletonParams::default());
        let e_rms = evaluate(&found.rig, 0, &sequence).unwrap().e_rms;
        assert!((0.0..100.0).contains(&e_rms), "{name}: {e_rms}");
    }
}

#[test]
fn threads_and_repetition_change_nothing() {
    let known = MeshSequence::try_from(jointed_body(7, 10, 2).sequence).unwrap();
    let run = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| skeleton(&known, &fast(), &SkeletonParams::default(), &mut Silent).unwrap().rig)
    };
    let (one, three) = (run(1), run(3));
    assert_eq!(one.bones, three.bones);
    assert_eq!(one.clips, three.clips);
    assert_eq!(one.weights, three.weights);
}

#[test]
fn what_has_no_meaning_is_refused() {
    let sequence = MeshSequence::try_from(awkward::bending_tube()).unwrap();
    let refused = |fit: FitParams, params: SkeletonParams| {
        skeleton(&sequence, &fit, &params, &mut Silent).err().map(|e| e.to_string()).unwrap_or_default()
    };
    let affine = FitParams { bone_kind: bonesmith_core::BoneKind::Affine, ..fast() };
    assert!(refused(affine, SkeletonParams::default()).contains("rigid bones"));
    let target = FitParams { bones: BoneCount::TargetError(1.0), ..fast() };
    assert!(refused(target, SkeletonParams::default()).contains("a detail"));
    let detail = SkeletonParams { detail: f64::NAN, ..SkeletonParams::default() };
    assert!(refused(fast(), detail).contains("detail is NaN"));
    let start = SkeletonParams { start: 1, ..SkeletonParams::default() };
    assert!(refused(fast(), start).contains("2 to 256"));
    let many = FitParams { bones: BoneCount::Exact(5000), ..fast() };
    assert!(refused(many, SkeletonParams::default()).contains("5000 bones"));
}
