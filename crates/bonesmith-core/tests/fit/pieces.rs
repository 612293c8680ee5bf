//! Meshes of rigid pieces: exact, one bone and one influence each; soft parts as well as by themselves.

use bonesmith_core::fit::{BoneCount, FitError, FitParams, Fitted, StopReason, Warning, fit};
use bonesmith_core::metrics::evaluate;
use bonesmith_core::skeleton::{SkeletonParams, skeleton};
use bonesmith_core::synthetic::pieces::{WallParams, beside, mixed, robot_arm, soft_body, wall, with_noise};
use bonesmith_core::{BoneKind, MeshSequence, RawSequence, Silent, Topology};
use glam::{DVec3, Quat, Vec3};

const SMALL: WallParams =
    WallParams { columns: 8, rows: 5, frames: 30, split: false, welded: false, standing: 0.0, gap: 0.0 };

fn sequence(raw: RawSequence) -> MeshSequence {
    MeshSequence::try_from(raw).unwrap()
}

fn fitted(sequence: &MeshSequence, bones: BoneCount) -> (Fitted, f64) {
    fitted_as(sequence, &FitParams { bones, ..FitParams::default() })
}

fn fitted_as(sequence: &MeshSequence, params: &FitParams) -> (Fitted, f64) {
    let fitted = fit(sequence, params, &mut Silent).unwrap();
    fitted.rig.check().unwrap();
    let e_rms = evaluate(&fitted.rig, 0, sequence).unwrap().e_rms;
    (fitted, e_rms)
}

#[test]
fn a_wall_of_300_cubes_is_exact() {
    let wall = sequence(wall(&WallParams::default()));
    for kind in [BoneKind::Rigid, BoneKind::Trs, BoneKind::Affine] {
        let (fitted, e_rms) = fitted_as(&wall, &FitParams { bone_kind: kind, ..FitParams::default() });
        assert!(e_rms < 0.01, "{kind:?} {e_rms}");
        assert_eq!((fitted.rig.bone_count(), fitted.info.pieces), (300, 300));
        assert_eq!(fitted.rig.weights.max_influences(), 1);
        assert_eq!(fitted.info.stop, StopReason::Exact);
        assert!(fitted.info.warnings.is_empty());
        // The rest pose is the input's to the bit.
        assert_eq!(fitted.rig.rest, wall.rest());
        assert_eq!(fitted.rig.bones[0].name, "piece_0001");
    }
}

#[test]
fn fewer_bones_than_pieces_merge_the_cheapest() {
    let wall = sequence(wall(&SMALL));
    let mut last = 0.0;
    for bones in [40, 39, 30, 12, 3, 1] {
        let (fitted, e_rms) = fitted(&wall, BoneCount::Exact(bones));
        assert_eq!(fitted.rig.bone_count(), bones);
        assert_eq!(fitted.rig.weights.max_influences(), 1);
        assert!(e_rms >= last, "{bones}: {e_rms} {last}");
        last = e_rms;
    }
    // More than there are pieces are not needed, which is reported.
    let (fitted, e_rms) = fitted(&wall, BoneCount::Exact(60));
    assert!(fitted.rig.bone_count() == 40 && e_rms < 0.01);
    assert!(matches!(fitted.info.warnings[..], [Warning::FewerBones { .. }]), "{:?}", fitted.info.warnings);
}

#[test]
fn a_target_error_is_reached_with_fewer_bones() {
    let wall = sequence(wall(&SMALL));
    let mut last = usize::MAX;
    for target in [0.5, 20.0, 80.0] {
        let (fitted, e_rms) = fitted(&wall, BoneCount::TargetError(target));
        assert!(e_rms <= target && fitted.rig.bone_count() <= last, "{target}: {e_rms}");
        assert!(fitted.info.warnings.is_empty());
        last = fitted.rig.bone_count();
    }
    assert!(last < 40);
    let both = sequence(beside(wall_of(20), soft_body(20), Vec3::X * 12.0));
    let (fitted, e_rms) = fitted(&both, BoneCount::TargetError(3.0));
    assert!(e_rms <= 3.0 && fitted.info.warnings.is_empty(), "{e_rms}");
}

fn wall_of(frames: usize) -> RawSequence {
    wall(&WallParams { frames, ..SMALL })
}

/// 200 pieces, a soft body and a cloth in one mesh.
#[test]
fn soft_parts_are_fitted_as_if_alone() {
    let whole = sequence(mixed(40));
    let (fitted, _) = fitted(&whole, BoneCount::Exact(216));
    let soft = fitted.rig.bone_count() - fitted.info.pieces;
    assert_eq!((fitted.rig.bone_count(), fitted.info.pieces), (216, 200));
    let squared = |from: usize, to: usize| -> f64 {
        let posed = |i: usize, t: usize| -> DVec3 {
            let (u, bones) = (fitted.rig.rest[i].as_dvec3(), fitted.rig.clips[0].frame(t));
            fitted.rig.weights.of(i).map(|(j, w)| bones[j].transform_point3(u) * f64::from(w)).sum()
        };
        let apart = |i: usize, t: usize| posed(i, t).distance_squared(whole.frame(t)[i].as_dvec3());
        (from..to).flat_map(|i| (0..whole.frame_count()).map(move |t| (i, t))).map(|(i, t)| apart(i, t)).sum()
    };
    let radius = f64::from(whole.rest().iter().map(|p| p.length()).fold(0.0, f32::max));
    assert!((squared(0, 1600) / (1600.0 * 40.0)).sqrt() < 1e-5 * radius);
    for i in 0..whole.vertex_count() {
        let of_piece = |j: usize| j >= soft;
        let row: Vec<usize> = fitted.rig.weights.of(i).map(|(j, _)| j).collect();
        assert!(if i < 1600 { row.len() == 1 && of_piece(row[0]) } else { !row.iter().any(|j| of_piece(*j)) });
    }
    let mut own = mixed(40);
    own.frames.iter_mut().for_each(|frame| drop(frame.positions.drain(..1600)));
    let faces = own.surface.topology.faces().filter(|face| face[0] >= 1600);
    let faces: Vec<Vec<u32>> = faces.map(|face| face.iter().map(|i| i - 1600).collect()).collect();
    let counts: Vec<u32> = faces.iter().map(|face| face.len() as u32).collect();
    own.surface.topology = Topology::from_counts(&counts, faces.concat());
    let own = sequence(own);
    let alone = fit(&own, &FitParams { bones: BoneCount::Exact(soft), ..FitParams::default() }, &mut Silent).unwrap();
    let metrics = evaluate(&alone.rig, 0, &own).unwrap();
    let error = metrics.e_rms / 1000.0 * metrics.radius_model_units;
    let mixed = (squared(1600, whole.vertex_count()) / (3.0 * 688.0 * 40.0)).sqrt();
    assert!(mixed <= 1.02 * error, "{mixed} {error}");
}

#[test]
fn noise_and_welds() {
    let welded = sequence(wall(&WallParams { welded: true, ..SMALL }));
    let (fitted, e_rms) = fitted(&welded, BoneCount::Auto);
    assert!(fitted.rig.bone_count() == 40 && e_rms < 0.01, "{e_rms}");
    let noisy = sequence(with_noise(wall(&SMALL), 1e-4 * 4.7, 5));
    let (fitted, e_rms) = self::fitted(&noisy, BoneCount::Auto);
    assert!(fitted.rig.bone_count() == 40 && e_rms < 0.1, "{} {e_rms}", fitted.rig.bone_count());
}

#[test]
fn links_of_a_robot_are_bones_of_a_skeleton() {
    let robot = sequence(robot_arm(48));
    let (fitted, e_rms) = fitted(&robot, BoneCount::Auto);
    assert!(fitted.rig.bone_count() == 5 && e_rms < 0.001, "{e_rms}");
    let jointed = skeleton(&robot, &FitParams::default(), &SkeletonParams::default(), &mut Silent).unwrap();
    let e_rms = evaluate(&jointed.rig, 0, &robot).unwrap().e_rms;
    assert!(e_rms < 0.01, "{e_rms}");
    assert_eq!((jointed.rig.bone_count(), jointed.rig.weights.max_influences()), (5, 1));
    assert_eq!(jointed.rig.bones.iter().filter(|bone| bone.parent.is_none()).count(), 1);
}

/// Single vertices, a stick, a flat piece, a mirrored one, one scaled in one frame, beside a wall.
#[test]
fn degenerate_pieces_are_sound() {
    let mut raw = wall_of(12);
    let first = raw.frames[0].positions.len() as u32;
    let shapes: [&[Vec3]; 5] = [
        &[Vec3::ZERO],
        &[Vec3::ZERO, Vec3::X, Vec3::X * 2.0],
        &[Vec3::ZERO, Vec3::X, Vec3::X + Vec3::Y, Vec3::Y],
        &[Vec3::ZERO, Vec3::X, Vec3::Y, Vec3::Z],
        &[Vec3::ZERO, Vec3::X, Vec3::Y, Vec3::Z],
    ];
    let mut at = first;
    for shape in shapes {
        let ids: Vec<u32> = (at..at + shape.len() as u32).collect();
        if ids.len() > 2 {
            raw.surface.topology.push_face(&ids);
            raw.surface.topology.push_face(&ids[..3]);
        }
        at += shape.len() as u32;
    }
    for (t, frame) in raw.frames.iter_mut().enumerate() {
        for (k, shape) in shapes.iter().enumerate() {
            let turn = Quat::from_rotation_z(0.2 * (t * (k + 1)) as f32);
            let mirror = if (t, k) == (5, 3) { Vec3::new(-1.0, 1.0, 1.0) } else { Vec3::ONE };
            let scale = if (t, k) == (7, 4) { 1.5 } else { 1.0 };
            let place = Vec3::new(3.0 * k as f32, 0.4 * t as f32, 6.0);
            frame.positions.extend(shape.iter().map(|p| turn * (*p * mirror * scale) + place));
        }
    }
    let odd = sequence(raw);
    for kind in [BoneKind::Rigid, BoneKind::Trs, BoneKind::Affine] {
        for bones in [BoneCount::Auto, BoneCount::Exact(50), BoneCount::Exact(7), BoneCount::TargetError(1.0)] {
            let params = FitParams { bone_kind: kind, bones, ..FitParams::default() };
            let (fitted, e_rms) = fitted_as(&odd, &params);
            assert!(e_rms.is_finite() && (e_rms < 20.0 || bones == BoneCount::Exact(7)), "{kind:?} {bones:?}: {e_rms}");
            if kind == BoneKind::Rigid {
                let rigid = |m: &glam::DAffine3| (m.matrix3.determinant() - 1.0).abs() < 1e-9;
                assert!(fitted.rig.clips[0].posed_from_rest.iter().all(rigid));
            }
        }
    }
}

#[test]
fn a_cancel_and_impossible_numbers_are_reported() {
    let wall = sequence(wall(&SMALL));
    let params = FitParams { bones: BoneCount::Exact(321), ..FitParams::default() };
    assert!(matches!(fit(&wall, &params, &mut Silent), Err(FitError::BoneCount { bones: 321, .. })));
    let soft = sequence(soft_body(10));
    let params = FitParams { bones: BoneCount::Exact(289), ..FitParams::default() };
    assert!(matches!(fit(&soft, &params, &mut Silent), Err(FitError::BoneCount { .. })));
    struct Stop;
    impl bonesmith_core::Observer for Stop {
        fn report(&mut self, _: &bonesmith_core::Progress) -> std::ops::ControlFlow<()> {
            std::ops::ControlFlow::Break(())
        }
    }
    assert!(matches!(fit(&wall, &FitParams::default(), &mut Stop), Err(FitError::Cancelled(_))));
}

#[test]
fn auto_that_misses_its_goal_says_so() {
    // Every vertex for itself: a bone per 4 vertices is not enough.
    let mut raw = soft_body(12);
    raw.surface = Default::default();
    for (t, frame) in raw.frames.iter_mut().enumerate() {
        for (i, p) in frame.positions.iter_mut().enumerate() {
            *p += Vec3::new(((i * 7 + t * 13) % 11) as f32, ((i * 5 + t * 3) % 7) as f32, 0.0)
                * if t > 0 { 0.2 } else { 0.0 };
        }
    }
    let (fitted, e_rms) = fitted(&sequence(raw), BoneCount::Auto);
    assert!(e_rms > 2.0);
    let missed = |w: &Warning| matches!(w, Warning::AutoMissed { target: 2.0, reached, .. } if (reached / e_rms - 1.0).abs() < 0.01);
    assert!(fitted.info.warnings.iter().any(missed), "{:?}", fitted.info.warnings);
}

/// So many bones that vertices look only at those near them: as many as asked for, better than fewer, smooth or not.
#[test]
fn many_bones_of_all_kinds() {
    let soft = sequence(soft_body(12));
    for kind in [BoneKind::Rigid, BoneKind::Trs, BoneKind::Affine] {
        for smooth in [0.0, 1.0] {
            let error = |count: usize| {
                let params =
                    FitParams { bone_kind: kind, smooth, bones: BoneCount::Exact(count), ..FitParams::default() };
                let (fitted, e_rms) = fitted_as(&soft, &params);
                assert_eq!(fitted.rig.bone_count(), count);
                e_rms
            };
            let (few, many) = (error(30), error(140));
            assert!(many < 0.8 * few, "{kind:?}, smooth {smooth}: {few} with 30 bones, {many} with 140");
        }
    }
}

/// Affine bones follow pieces that are turned inside out, exactly, and that is reported; other kinds have no such bones.
#[test]
fn mirrored_pieces_are_reported() {
    let mut raw = wall(&SMALL);
    let half = raw.frames.len() / 2;
    raw.frames[half..].iter_mut().flat_map(|frame| &mut frame.positions).for_each(|p| p.x = -p.x);
    let mirrored = sequence(raw);
    for kind in [BoneKind::Affine, BoneKind::Rigid] {
        let (fitted, e_rms) = fitted_as(&mirrored, &FitParams { bone_kind: kind, ..FitParams::default() });
        let reported = fitted.info.warnings.iter().find_map(|warning| match warning {
            Warning::Mirrored { bones, frames } => Some((*bones, *frames)),
            _ => None,
        });
        match kind {
            BoneKind::Affine => {
                assert!(e_rms < 0.01 && reported == Some((40, 40 * (30 - half))), "{e_rms} {reported:?}")
            }
            _ => assert!(e_rms.is_finite() && reported.is_none()),
        }
    }
}
