//! The number of bones chosen by the fit.

use bonesmith_core::BoneKind;
use bonesmith_core::fit::{AUTO_MAX_BONES, AUTO_TARGET, BoneCount, FitParams, Warning};
use bonesmith_core::synthetic::{PosedRigParams, awkward};

use crate::harness::{bones, known, measured, sequence, small};

fn target(e_rms: f64) -> FitParams {
    FitParams { bones: BoneCount::TargetError(e_rms), ..FitParams::default() }
}

#[test]
fn a_target_is_reached_and_a_stricter_one_takes_more_bones() {
    let sequence = known(2, PosedRigParams { bones: 8, frames: 16, detail: 3, ..PosedRigParams::default() });
    for kind in [BoneKind::Rigid, BoneKind::Affine] {
        let mut last = 0;
        for goal in [60.0, 20.0, 5.0] {
            let (fitted, metrics) = measured(&sequence, &FitParams { bone_kind: kind, ..target(goal) });
            let count = fitted.rig.bone_count();
            assert!(metrics.e_rms <= goal * 1.001, "{kind:?} {goal}: {} with {count} bones", metrics.e_rms);
            assert!(count >= last && !fitted.info.warnings.iter().any(missed));
            last = count;
        }
        assert!(last > 1);
    }
}

fn missed(warning: &Warning) -> bool {
    matches!(warning, Warning::TargetMissed { .. })
}

/// The number is not wasteful: two bones fewer, fitted with all the effort there is for them, do not get there.
#[test]
fn the_number_is_needed() {
    let sequence = known(2, PosedRigParams { bones: 8, frames: 16, detail: 3, ..PosedRigParams::default() });
    let (fitted, _) = measured(&sequence, &target(10.0));
    let count = fitted.rig.bone_count();
    let (_, fewer) = measured(&sequence, &bones(count - 2));
    assert!(fewer.e_rms > 10.0, "{count} bones taken, but {} with two fewer", fewer.e_rms);
}

#[test]
fn a_target_out_of_reach_is_a_warning() {
    let (fitted, metrics) = measured(
        &sequence(awkward::bending_tube()),
        &FitParams { keep_rest: true, influences: Some(1), ..target(1e-9) },
    );
    let Some(Warning::TargetMissed { target, reached, bones }) = fitted.info.warnings.iter().find(|w| missed(w)) else {
        panic!("{:?}", fitted.info.warnings);
    };
    assert_eq!((*target, *bones), (1e-9, fitted.rig.bone_count()));
    assert!((reached - metrics.e_rms).abs() < 1e-3);
}

#[test]
fn a_target_of_almost_anything_takes_one_bone() {
    let (fitted, _) = measured(&small(1), &target(1e4));
    assert_eq!(fitted.rig.bone_count(), 1);
}

#[test]
fn auto_takes_what_pays() {
    let auto = FitParams { bones: BoneCount::Auto, ..FitParams::default() };
    let (fitted, metrics) = measured(&small(1), &auto);
    let count = fitted.rig.bone_count();
    assert!((2..=AUTO_MAX_BONES).contains(&count));
    assert!(metrics.e_rms <= AUTO_TARGET * 1.001, "{}", metrics.e_rms);
    for (name, raw) in awkward::all() {
        let (fitted, metrics) = measured(&sequence(raw), &auto);
        assert!(metrics.e_rms.is_finite() && fitted.rig.bone_count() >= 1, "{name}");
    }
    let (still, _) = measured(&sequence(awkward::no_motion()), &auto);
    assert_eq!(still.rig.bone_count(), 1, "one bone is enough for what does not move");
}

/// Auto is a target of [`AUTO_TARGET`]: the same number of bones, the same error, both reached.
#[test]
fn auto_and_the_same_target_are_the_same_fit() {
    for seed in [1, 5] {
        let auto = measured(&small(seed), &FitParams { bones: BoneCount::Auto, ..FitParams::default() });
        let asked = measured(&small(seed), &target(AUTO_TARGET));
        assert_eq!(asked.0.rig.bone_count(), auto.0.rig.bone_count(), "seed {seed}");
        assert_eq!(asked.1.e_rms, auto.1.e_rms, "seed {seed}");
        assert!(asked.1.e_rms <= AUTO_TARGET * 1.001 && !asked.0.info.warnings.iter().any(missed), "seed {seed}");
    }
}
