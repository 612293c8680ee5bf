//! Steps over vertices and affine bones at once.

use crate::observer::Silent;
use crate::skinning::bone_step;
use crate::skinning::descent::{Descent, VertexStep};
use crate::skinning::moments::Moments;
use crate::skinning::params::FitParams;
use crate::skinning::pass;
use crate::skinning::run::Run;
use crate::skinning::tests::*;
use crate::skinning::together::{System, Together};
use crate::skinning::unit::UnitSpace;

const SIZES: Sizes = Sizes { vertices: 120, bones: 5, frames: 7, slots: 3 };

/// A case whose bones are the best for its vertices, and the moments of the latter.
fn converged(seed: u64) -> (Case, Moments) {
    let Case { problem, mut state } = case(seed, SIZES, BoneKind::Affine);
    for _ in 0..2 {
        let moments = pass::gather(&problem, &state.motion, &state.skin);
        bone_step::update(&mut state.motion, &moments, &state.model);
    }
    let moments = pass::gather(&problem, &state.motion, &state.skin);
    (Case { problem, state }, moments)
}

/// A direction over all unknowns, times `h`.
fn scaled(d: &[f32], h: f64) -> Vec<f32> {
    d.iter().map(|x| (h * f64::from(*x)) as f32).collect()
}

fn dot(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
}

/// The right side is half the slope of the true error, taken negative.
#[test]
fn slopes_are_those_of_the_error() {
    for move_rest in [true, false] {
        let (Case { problem, state }, moments) = converged(5);
        let system = System::new(&problem, &state, &moments, 1e-2, move_rest).unwrap();
        let random = &mut Random::new(9);
        for _ in 0..4 {
            let d: Vec<f32> = system.right.iter().map(|_| random.signed() as f32).collect();
            let error = |h: f64| naive::squared_error(&problem, &state.motion, &system.moved(&scaled(&d, h)));
            let slope = (error(-1e-4) - error(1e-4)) / 4e-4;
            let found = dot(&d, &system.right);
            assert!((found - slope).abs() < 1e-3 * slope.abs().max(1e-2), "{found} {slope}");
        }
    }
}

/// The matrix is `|P dX T|^2` and the damping: what is left of a change once the bones have followed.
#[test]
fn curvature_is_what_the_bones_cannot_follow() {
    const H: f64 = 1e-3;
    let (Case { problem, state }, moments) = converged(6);
    let system = System::new(&problem, &state, &moments, 1e-2, true).unwrap();
    let random = &mut Random::new(7);
    for _ in 0..4 {
        let d: Vec<f32> = system.right.iter().map(|_| random.signed() as f32).collect();
        let (up, down) = (system.moved(&scaled(&d, H)), system.moved(&scaled(&d, -H)));
        let change = |i: usize| {
            let (up, down) = (naive::posed(&state.motion, &up, i), naive::posed(&state.motion, &down, i));
            up.into_iter().zip(down).map(|(up, down)| ((up - down) / (2.0 * H)) as f32).collect::<Vec<f32>>()
        };
        let changes = (0..SIZES.vertices).flat_map(change).collect();
        let sphere = Sphere { center: DVec3::ZERO, radius: 1.0 };
        let followed = Problem::stored(problem.length, problem.rest.clone(), changes, UnitSpace::fixed(sphere));
        let mut motion = state.motion.clone();
        motion.rows_mut().fill(0.0);
        let moments = pass::gather(&followed, &motion, &state.skin.clone());
        let left = moments.squared_error - bone_step::update(&mut motion, &moments, &state.model);
        let mut product = vec![0.0; d.len()];
        system.apply(&d, &mut product);
        let damped: f64 = d.iter().zip(&system.damping).map(|(d, damping)| f64::from(damping * d * d)).sum();
        let found = dot(&d, &product) - damped;
        assert!((found / left - 1.0).abs() < 1e-3, "{found} {left}");
    }
}

/// After a quarter of the rounds no more error is left than momentum leaves; the reported error is the true one and never rises.
#[test]
fn steps_together_get_further() {
    for seed in 0..3 {
        let descend = |together: bool, rounds: usize| {
            let Case { problem, mut state } = case(seed, SIZES, BoneKind::Affine);
            let mut silent = Silent;
            let mut run = Run::new(&FitParams::default(), &mut silent);
            let params = usual(SIZES.slots);
            let steps = together.then(|| Together::new(&state, &params)).flatten();
            let mut descent = Descent::with_step(&problem, params, VertexStep::Choose, steps);
            descent.rounds(&mut state, rounds, &mut run).unwrap();
            let truth = naive::squared_error(&problem, &state.motion, &state.skin);
            assert!((descent.squared_error / truth - 1.0).abs() < 1e-4, "{} {truth}", descent.squared_error);
            assert_convex(&state.skin, SIZES.bones);
            for pair in run.history.windows(2) {
                assert!(pair[1].error <= pair[0].error * (1.0 + 1e-6), "{} -> {}", pair[0].error, pair[1].error);
            }
            truth
        };
        let (plain, together) = (descend(false, 60), descend(true, 15));
        println!("seed {seed}: {plain:.5} after 60 rounds with momentum, {together:.5} after 15 together");
        assert!(together <= plain, "seed {seed}: {plain} {together}");
    }
}

/// Giving up slots leaves the largest weights, which sum to 1 again.
#[test]
fn narrowed_weights_are_convex() {
    let Case { state, .. } = case(8, SIZES, BoneKind::Affine);
    let narrow = state.skin.with_slots(2);
    assert_convex(&narrow, SIZES.bones);
    for i in 0..SIZES.vertices {
        let kept: Vec<usize> = narrow.of(i).map(|(j, _)| j).collect();
        let least = state.skin.of(i).filter(|(j, _)| kept.contains(j)).map(|(_, w)| w).fold(f64::INFINITY, f64::min);
        assert!(state.skin.of(i).all(|(j, w)| kept.contains(&j) || w <= least), "vertex {i}");
    }
}
