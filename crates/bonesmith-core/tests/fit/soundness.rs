//! Odd meshes, odd numbers: always a sound rig with the bones asked for.

use bonesmith_core::Surface;
use bonesmith_core::fit::{Effort, FitParams, Warning};
use bonesmith_core::synthetic::awkward;
use bonesmith_core::{BoneKind, MeshSequence, RawSequence};
use glam::Vec3;

use crate::harness::{bones, measured, sequence};

const KINDS: [BoneKind; 3] = [BoneKind::Rigid, BoneKind::Trs, BoneKind::Affine];

/// Fits and checks everything that any result must satisfy; returns E_RMS.
#[track_caller]
fn assert_sound(name: &str, sequence: &MeshSequence, count: usize, params: &FitParams) -> f64 {
    let (fitted, metrics) = measured(sequence, params);
    let what = || format!("{name}, {count} bones, {:?}, {:?} influences", params.bone_kind, params.influences);
    assert_eq!(fitted.rig.bone_count(), count, "{}", what());
    assert_eq!(fitted.rig.clips[0].frame_count(), sequence.frame_count(), "{}", what());
    assert_eq!(fitted.rig.clips[0].times_secs, sequence.times_secs(), "{}", what());
    // All but the normals, which fit the motion.
    let bare = Surface { normals: sequence.surface().normals.clone(), ..(*fitted.rig.surface).clone() };
    assert_eq!(bare, **sequence.surface(), "{}", what());
    let mut normals = fitted.rig.surface.normals.iter().flat_map(|normals| &normals.values);
    assert!(normals.all(|n| (n.iter().map(|x| x * x).sum::<f32>() - 1.0).abs() < 1e-5), "{}", what());
    let most = params.influences.unwrap_or(count);
    assert!(fitted.rig.weights.max_influences() <= most, "{}", what());
    let figures = [metrics.e_rms, metrics.rmse_percent, metrics.max_error, metrics.normal_degrees.unwrap_or(0.0)];
    assert!(figures.iter().all(|x| x.is_finite()), "{}: {figures:?}", what());
    assert!(fitted.info.history.iter().all(|round| round.error.is_finite()), "{}", what());
    metrics.e_rms
}

#[test]
fn awkward_meshes_give_sound_rigs() {
    for (name, raw) in awkward::all() {
        let sequence = sequence(raw);
        for count in [1, 3, sequence.vertex_count()] {
            for kind in KINDS {
                for influences in [Some(1), Some(4), Some(16), None] {
                    let params = FitParams { bone_kind: kind, influences, effort: Effort::Fast, ..bones(count) };
                    let e_rms = assert_sound(name, &sequence, count, &params);
                    // One bone follows each vertex: nothing can be left.
                    let left = count == sequence.vertex_count() && e_rms > 1e-3;
                    assert!(!left, "{name}, {kind:?}, {influences:?} influences: E_RMS {e_rms}");
                }
            }
        }
    }
}

/// All efforts, the rest kept, smooth weights.
#[test]
fn options_give_sound_rigs_on_awkward_meshes() {
    for (name, raw) in awkward::all() {
        let sequence = sequence(raw);
        for kind in KINDS {
            for params in [
                FitParams { keep_rest: true, ..bones(3) },
                FitParams { smooth: 1.0, ..bones(3) },
                FitParams { effort: Effort::Best, max_iterations: Some(3), ..bones(3) },
                // Vertices look further only where rounds are not counted out.
                FitParams { effort: Effort::Best, ..bones(3) },
                FitParams { max_iterations: Some(1), tolerance: Some(0.5), ..bones(2) },
            ] {
                let count = if params.max_iterations == Some(1) { 2 } else { 3 };
                assert_sound(name, &sequence, count, &FitParams { bone_kind: kind, ..params });
            }
        }
    }
}

#[test]
fn what_does_not_move_is_said_and_exact() {
    for raw in [awkward::no_motion(), awkward::single_frame()] {
        let sequence = sequence(raw);
        for kind in KINDS {
            let (fitted, metrics) = measured(&sequence, &FitParams { bone_kind: kind, ..bones(3) });
            assert!(metrics.e_rms < 1e-3, "{kind:?}: {}", metrics.e_rms);
            assert!(fitted.info.warnings.contains(&Warning::NoMotion), "{kind:?}");
        }
    }
    let (fitted, _) = measured(&sequence(awkward::bending_tube()), &bones(3));
    assert!(!fitted.info.warnings.contains(&Warning::NoMotion));
}

/// Sizes and places at the ends of float32, and vertices all in one point.
#[test]
fn extreme_coordinates_give_sound_rigs() {
    type Change = fn(usize, Vec3) -> Vec3;
    let changes: [(&str, Change); 7] = [
        ("as it is", |_, p| p),
        ("tiny", |_, p| p * 1e-18),
        ("huge", |_, p| p * 1e11),
        // Float32 is this coarse out there: steps of a 16th, the tube is four wide.
        ("far away", |_, p| p + Vec3::splat(1e6)),
        ("one point", |_, _| Vec3::splat(3.0)),
        ("one point that moves", |t, _| Vec3::X * t as f32),
        ("leaves for good", |t, p| p + Vec3::X * (1e4 * t as f32)),
    ];
    for (name, change) in changes {
        let mut raw: RawSequence = awkward::bending_tube();
        for (t, frame) in raw.frames.iter_mut().enumerate() {
            frame.positions.iter_mut().for_each(|p| *p = change(t, *p));
        }
        let sequence = sequence(raw);
        for kind in KINDS {
            let e_rms = assert_sound(name, &sequence, 3, &FitParams { bone_kind: kind, ..bones(3) });
            assert!(e_rms < if name == "far away" { 30.0 } else { 3.0 }, "{name} {kind:?}: {e_rms}");
        }
    }
}
