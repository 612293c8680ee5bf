//! Rounds over weights and bones: the error they report is the true one, and it does not rise.

use crate::mesh::topology::{Adjacency, Topology};
use crate::observer::Silent;
use crate::skinning::descent::{Descent, VertexStep};
use crate::skinning::params::FitParams;
use crate::skinning::run::Run;
use crate::skinning::smooth::Smoothness;
use crate::skinning::tests::*;

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
                let (before, after) = (pair[0].error, pair[1].error);
                assert!(after <= before * (1.0 + 1e-6), "{kind:?} {seed}, round {}: {before} -> {after}", at + 1);
            }
        }
    }
}

/// A random case whose vertices are connected like a grid, and what draws their weights together.
fn smooth_case(kind: BoneKind) -> (Case, Smoothness) {
    const SIDE: usize = 14;
    let sizes = Sizes { vertices: SIDE * SIDE, bones: 6, frames: 9, slots: 3 };
    let case = case(3, sizes, kind);
    let corner = |x: usize, y: usize| (y * SIDE + x) as u32;
    let triangles: Vec<[u32; 3]> = (0..(SIDE - 1) * (SIDE - 1))
        .map(|at| (at % (SIDE - 1), at / (SIDE - 1)))
        .flat_map(|(x, y)| {
            [
                [corner(x, y), corner(x + 1, y), corner(x, y + 1)],
                [corner(x + 1, y + 1), corner(x, y + 1), corner(x + 1, y)],
            ]
        })
        .collect();
    let adjacency = Adjacency::new(&Topology::from_triangles(&triangles), sizes.vertices);
    let smoothness = Smoothness::new(&case.problem, adjacency, 1.0);
    (case, smoothness)
}

/// With smooth weights too: after half as many rounds no more is left than without momentum, nor after all of them.
#[test]
fn momentum_pays_with_smooth_weights() {
    const ROUNDS: usize = 40;
    for kind in [BoneKind::Rigid, BoneKind::Trs, BoneKind::Affine] {
        let objectives = |momentum: bool| -> Vec<f64> {
            let (Case { problem, mut state }, smoothness) = smooth_case(kind);
            let mut silent = Silent;
            let mut run = Run::new(&FitParams::default(), &mut silent);
            let descent = Descent::with_step(&problem, usual(3), VertexStep::Smooth(smoothness), None);
            let mut descent = if momentum { descent } else { descent.plain() };
            let mut objective = || {
                descent.round(&mut state, &mut run).unwrap();
                descent.objective()
            };
            (0..ROUNDS).map(|_| objective()).collect()
        };
        let (plain, carried) = (objectives(false), objectives(true));
        println!("{kind:?}: {:.5} without, {:.5} with momentum", plain[ROUNDS - 1], carried[ROUNDS - 1]);
        let reached = carried.iter().position(|o| *o <= plain[ROUNDS - 1]);
        assert!(reached.is_some_and(|at| at < ROUNDS / 2), "{kind:?}: {reached:?} of {ROUNDS} rounds");
        assert!(carried[ROUNDS - 1] <= plain[ROUNDS - 1], "{kind:?}: {carried:?} {plain:?}");
    }
}

/// The price of rough weights is the one in the formula.
#[test]
fn the_penalty_is_that_of_present_weights() {
    let (Case { state, .. }, smoothness) = smooth_case(BoneKind::Rigid);
    let means = smoothness.means(&state.skin);
    let mut truth = 0.0;
    for (i, mean) in means.iter().enumerate() {
        for j in 0..state.bones() {
            let own: f64 = state.skin.of(i).filter(|(k, _)| *k == j).map(|(_, w)| w).sum();
            let wished: f64 = mean.iter().filter(|(k, _)| *k as usize == j).map(|(_, w)| f64::from(*w)).sum();
            truth += smoothness.strength * (own - wished).powi(2);
        }
    }
    assert!((smoothness.penalty(&state.skin) / truth - 1.0).abs() < 1e-9);
}
