//! Rounds over weights and bones: the error they tell is the true one, and it does not rise.

use super::super::descend::Descent;
use super::super::params::FitParams;
use super::super::run::Run;
use super::*;
use crate::observer::Silent;

/// What a round reports is what the state gives once the look-ahead is taken back.
#[test]
fn the_error_told_is_the_error_there_is() {
    for kind in [BoneKind::Rigid, BoneKind::Trs, BoneKind::Affine] {
        let sizes = Sizes { vertices: 200, bones: 5, frames: 9, slots: 3 };
        let Case { problem, mut state } = case(1, sizes, kind);
        let mut silent = Silent;
        let mut run = Run::new(&FitParams::default(), &mut silent);
        let mut descent = Descent::new(&problem, usual(3));
        for rounds in [1, 2, 5, 12] {
            descent.rounds(&mut state, rounds, &mut run).unwrap();
            let truth = naive::squared_error(&problem, &state.motion, &state.skin);
            assert!((descent.squared_error / truth - 1.0).abs() < 1e-4, "{kind:?}: {} {truth}", descent.squared_error);
        }
    }
}

#[test]
fn momentum_never_raises_the_error() {
    for kind in [BoneKind::Rigid, BoneKind::Trs, BoneKind::Affine] {
        for seed in 0..4 {
            let sizes = Sizes { vertices: 150, bones: 6, frames: 9, slots: 3 };
            let Case { problem, mut state } = case(seed, sizes, kind);
            let mut silent = Silent;
            let mut run = Run::new(&FitParams::default(), &mut silent);
            Descent::new(&problem, usual(3)).rounds(&mut state, 60, &mut run).unwrap();
            for (at, pair) in run.history.windows(2).enumerate() {
                let (before, after) = (pair[0].e_rms, pair[1].e_rms);
                assert!(after <= before * (1.0 + 1e-6), "{kind:?} {seed}, round {}: {before} -> {after}", at + 1);
            }
        }
    }
}
