//! Progress, cancelling, the clock, and the record of what happened.

use std::ops::ControlFlow;
use std::time::Instant;

use bonesmith_core::fit::{BoneCount, Effort, FitError, FitParams, StopReason};
use bonesmith_core::methods::fit;
use bonesmith_core::synthetic::PosedRigParams;
use bonesmith_core::{BoneKind, Observer, Progress, Stage};

use crate::harness::{bones, fitted, known, measured, small};

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

/// At any report, with any way of choosing the bones: no report comes after the one that was answered with "stop".
#[test]
fn a_cancel_is_obeyed_at_once() {
    let sequence = small(1);
    for count in [BoneCount::Exact(4), BoneCount::TargetError(5.0), BoneCount::Auto] {
        let params = FitParams { bones: count, effort: Effort::Fast, ..FitParams::default() };
        for left in [0, 1, 2, 3, 5, 8, 13, 21] {
            let mut patience = Patience { left, seen: Vec::new() };
            match fit(&sequence, &params, &mut patience) {
                Err(FitError::Cancelled(_)) => assert_eq!(patience.seen.len(), left + 1),
                Ok(_) => assert!(patience.seen.len() <= left, "{count:?}: went on after {left} reports"),
                Err(other) => panic!("{other}"),
            }
        }
    }
}

#[test]
fn progress_counts_up_within_each_stage() {
    let mut all = Patience { left: usize::MAX, seen: Vec::new() };
    fit(&small(2), &bones(4), &mut all).expect("a fit");
    assert_eq!(all.seen[0].stage, Stage::Prepare);
    assert_eq!(all.seen.last().expect("reports").stage, Stage::FewerInfluences);
    assert!(all.seen.iter().any(|report| report.stage == Stage::WeightsAndBones));
    for pair in all.seen.windows(2) {
        // Long steps report within, so that they can be cancelled.
        if pair[0].stage == pair[1].stage && pair[1].step > 0 {
            assert!((pair[0].step..=pair[0].step + 1).contains(&pair[1].step), "{pair:?}");
        }
    }
    assert!(all.seen.iter().all(|p| p.steps.is_none_or(|steps| p.step <= steps)));
    assert!(all.seen.iter().filter_map(|p| p.e_rms).all(|e| e.is_finite() && e >= 0.0));
}

/// The clock ends a fit long before its rounds are done.
#[test]
fn the_clock_stops_a_fit_with_a_sound_result() {
    let sequence = known(3, PosedRigParams { bones: 12, frames: 60, detail: 8, ..PosedRigParams::default() });
    for count in [BoneCount::Exact(12), BoneCount::TargetError(1e-3), BoneCount::Auto] {
        let params = FitParams {
            bones: count,
            effort: Effort::Best,
            max_seconds: Some(0.05),
            max_iterations: Some(100_000),
            tolerance: Some(0.0),
            ..FitParams::default()
        };
        let timed = |params: &FitParams| {
            let start = Instant::now();
            let done = measured(&sequence, params);
            (done, start.elapsed().as_secs_f64())
        };
        let ((result, metrics), seconds) = timed(&params);
        assert_eq!(result.info.stop, StopReason::MaxSeconds, "{count:?}");
        // Without a clock, a search and a few rounds take longer than the fit that it stops.
        let (_, free) = timed(&FitParams { max_seconds: None, max_iterations: Some(20), ..params.clone() });
        assert!(seconds < free, "{count:?}: {seconds} s with a clock of 0.05 s, {free} s without");
        assert!(metrics.e_rms.is_finite());
        if let BoneCount::Exact(count) = count {
            assert_eq!(result.rig.bone_count(), count);
        }
    }
}

#[test]
fn rounds_are_counted_and_bounded() {
    for rounds in [1, 2, 7] {
        let params = FitParams { max_iterations: Some(rounds), tolerance: Some(0.0), ..bones(4) };
        let info = fitted(&small(3), &params).info;
        assert_eq!(info.iterations, info.history.len());
        assert_eq!(info.history.iter().filter(|round| round.stage == Stage::WeightsAndBones).count(), rounds);
        assert_eq!(info.stop, StopReason::MaxIterations);
    }
    let info = fitted(&small(3), &FitParams { max_iterations: Some(10_000), tolerance: Some(0.01), ..bones(4) }).info;
    assert_eq!(info.stop, StopReason::Converged);
    assert!(info.history.len() < 1000);
}

/// A look ahead that raises the error is taken back before anybody sees it.
#[test]
fn the_error_never_rises_on_the_whole_sequence() {
    for kind in [BoneKind::Rigid, BoneKind::Trs, BoneKind::Affine] {
        for seed in 0..3 {
            let params = FitParams { bone_kind: kind, max_iterations: Some(150), tolerance: Some(0.0), ..bones(4) };
            let info = fitted(&small(seed), &params).info;
            let errors: Vec<f64> =
                info.history.iter().filter(|r| r.stage == Stage::WeightsAndBones).map(|r| r.error).collect();
            for (at, pair) in errors.windows(2).enumerate() {
                // Float32 residuals: an error of 1e-3 is known to about 1e-5.
                let rounding = 1e-5 * pair[0] + 1e-5;
                assert!(pair[1] <= pair[0] + rounding, "{kind:?} {seed}, round {}: {pair:?}", at + 1);
            }
        }
    }
}

#[test]
fn more_effort_is_not_worse() {
    let sequence = known(6, PosedRigParams { bones: 10, frames: 16, detail: 3, ..PosedRigParams::default() });
    let e_rms = |effort| measured(&sequence, &FitParams { effort, ..bones(7) }).1.e_rms;
    let [fast, balanced, best] = [Effort::Fast, Effort::Balanced, Effort::Best].map(e_rms);
    assert!(balanced <= 1.05 * fast && best <= 1.02 * balanced, "{fast} {balanced} {best}");
}
