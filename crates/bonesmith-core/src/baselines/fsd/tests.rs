//! The whole method on sequences made by arithmetic.

use std::ops::ControlFlow;

use crate::baselines::fsd::*;
use crate::mesh::sequence::{MeshSequence, RawSequence};
use crate::methods::fit;
use crate::metrics::evaluate;
use crate::observer::{Observer, Progress, Silent};
use crate::skinning::params::{FitParams, Fitted, Method, StopReason, Warning};
use crate::synthetic::{PosedRigParams, awkward, clownfish, posed_rig};

fn params(bones: usize) -> FitParams {
    FitParams {
        bones: BoneCount::Exact(bones),
        bone_kind: BoneKind::Affine,
        tolerance: Some(0.0),
        method: Method::Fsd,
        ..FitParams::default()
    }
}

fn sequence(raw: RawSequence) -> MeshSequence {
    MeshSequence::try_from(raw).unwrap()
}

fn known(bones: usize, influences: usize) -> MeshSequence {
    let shape = PosedRigParams { bones, influences, kind: BoneKind::Affine, ..PosedRigParams::default() };
    sequence(posed_rig(11, &shape).sequence)
}

/// A sound rig of the size asked for, and its measured error.
fn checked(sequence: &MeshSequence, params: &FitParams) -> (Fitted, f64) {
    let fitted = fit(sequence, params, &mut Silent).unwrap();
    assert_eq!(fitted.rig.check(), Ok(()));
    let e_rms = evaluate(&fitted.rig, 0, sequence).unwrap().e_rms;
    (fitted, e_rms)
}

#[test]
fn a_known_rig_is_found_again() {
    let sequence = known(6, 4);
    let (_, one) = checked(&sequence, &params(1));
    let (fitted, e_rms) = checked(&sequence, &params(6));
    assert!(one > 30.0 && e_rms < 0.1 * one, "{one} with one bone, {e_rms} with as many as there are");
    assert_eq!((fitted.info.iterations, fitted.info.history.len()), (15, 15));
    assert_eq!(fitted.info.stop, StopReason::MaxIterations);
}

#[test]
fn nearly_stiff_pieces_are_found_as_exactly_as_the_subspace_is() {
    let shape = PosedRigParams { softness: 0.1, kind: BoneKind::Affine, ..PosedRigParams::default() };
    let sequence = sequence(posed_rig(11, &shape).sequence);
    let patient = FitParams { max_iterations: Some(400), ..params(6) };
    // The reduction alone may leave 0.5.
    let (_, e_rms) = checked(&sequence, &patient);
    assert!(e_rms < 1.0, "{e_rms}");
}

#[test]
fn the_error_reported_is_the_error_measured() {
    let sequence = sequence(clownfish());
    let (fitted, e_rms) = checked(&sequence, &params(10));
    let reported = fitted.info.history.last().unwrap().error;
    assert!((reported - e_rms).abs() < 1e-3 * e_rms, "{reported} {e_rms}");
    let first = fitted.info.history[0].error;
    assert!(reported < 0.7 * first, "{first} to {reported}");
}

#[test]
fn awkward_meshes_give_sound_rigs() {
    for (name, raw) in awkward::all() {
        let sequence = sequence(raw);
        let n = sequence.vertex_count();
        for bones in [1, 3, n] {
            let (fitted, e_rms) = checked(&sequence, &FitParams { max_iterations: Some(4), ..params(bones) });
            assert_eq!(fitted.rig.bone_count(), bones, "{name}");
            // Bent by less than a twentieth of its size at most, which even one affine bone half explains.
            assert!(e_rms < 100.0, "{name} {bones}: {e_rms}");
            let still = fitted.info.warnings.contains(&Warning::NoMotion);
            assert_eq!(still, matches!(name, "single-frame" | "no-motion"), "{name}");
            if still {
                assert!(e_rms < 0.5, "{name} {bones}: {e_rms}");
            }
        }
    }
}

#[test]
fn influences_and_rest_pose_are_as_asked() {
    let sequence = known(8, 4);
    let mut last = f64::INFINITY;
    for influences in [1, 2, 4, 8] {
        let (fitted, e_rms) = checked(&sequence, &FitParams { influences: Some(influences), ..params(8) });
        assert!(fitted.rig.weights.max_influences() <= influences);
        assert!(e_rms < last, "{influences} influences: {e_rms}, fewer: {last}");
        last = e_rms;
    }
    checked(&sequence, &FitParams { influences: None, ..params(8) });
    let (kept, _) = checked(&sequence, &FitParams { keep_rest: true, ..params(8) });
    let moved = |a: &[glam::Vec3]| a.iter().zip(sequence.rest()).map(|(a, b)| a.distance(*b)).fold(0.0, f32::max);
    assert!(moved(&kept.rig.rest) < 1e-5, "{}", moved(&kept.rig.rest));
    let (free, _) = checked(&sequence, &params(8));
    assert!(moved(&free.rig.rest) > 1e-3);
}

#[test]
fn threads_do_not_change_a_bit() {
    let sequence = known(6, 4);
    let with = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| fit(&sequence, &params(7), &mut Silent).unwrap().rig)
    };
    let (one, three) = (with(1), with(3));
    assert_eq!(one.weights, three.weights);
    assert_eq!(one.rest, three.rest);
    assert_eq!(one.clips, three.clips);
}

#[test]
fn an_error_asked_for_is_reached_with_few_bones() {
    let sequence = known(6, 4);
    let asked = FitParams { bones: BoneCount::TargetError(5.0), ..params(1) };
    let (fitted, e_rms) = checked(&sequence, &asked);
    let bones = fitted.rig.bone_count();
    assert!(e_rms <= 5.0 * (1.0 + 1e-3) && (2..=6).contains(&bones), "{bones} bones: {e_rms}");
    let (_, fewer) = checked(&sequence, &params(bones - 1));
    assert!(fewer > 5.0, "{fewer} with one bone less");
    let impossible = FitParams { bones: BoneCount::TargetError(1e-9), max_iterations: Some(1), ..params(1) };
    let (fitted, _) = checked(&awkward_cloud(), &impossible);
    assert!(fitted.info.warnings.iter().any(|w| matches!(w, Warning::TargetMissed { .. })));
}

fn awkward_cloud() -> MeshSequence {
    sequence(awkward::point_cloud())
}

#[test]
fn unsupported_parameters_are_refused() {
    let sequence = known(3, 2);
    let refused = |params: FitParams| fit(&sequence, &params, &mut Silent).unwrap_err();
    assert!(matches!(refused(FitParams { bone_kind: BoneKind::Rigid, ..params(3) }), FitError::Unsupported(_)));
    assert!(matches!(refused(FitParams { smooth: 0.5, ..params(3) }), FitError::Unsupported(_)));
    assert!(matches!(refused(params(sequence.vertex_count() + 1)), FitError::BoneCount { .. }));
    assert!(matches!(refused(params(0)), FitError::BoneCount { .. }));
}

#[test]
fn every_round_is_reported_and_can_cancel() {
    struct Stopper(usize);
    impl Observer for Stopper {
        fn report(&mut self, progress: &Progress) -> ControlFlow<()> {
            self.0 += usize::from(progress.e_rms.is_some());
            if self.0 == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        }
    }
    let mut stopper = Stopper(0);
    assert_eq!(
        fit(&known(3, 2), &params(3), &mut stopper).unwrap_err(),
        FitError::Cancelled(crate::observer::Cancelled)
    );
    assert_eq!(stopper.0, 3);
    let hurried = FitParams { max_seconds: Some(1e-9), ..params(3) };
    let (fitted, _) = checked(&known(3, 2), &hurried);
    assert_eq!((fitted.info.iterations, fitted.info.stop), (1, StopReason::MaxSeconds));
}
