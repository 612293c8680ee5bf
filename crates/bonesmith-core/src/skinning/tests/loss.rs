//! Weighted residuals against the weighted error of vertices posed frame by frame.

use std::sync::Arc;

use crate::skinning::loss::Loss;
use crate::skinning::tests::*;
use crate::skinning::{bone_step, pass};

const SIZES: Sizes = Sizes { vertices: 90, bones: 5, frames: 7, slots: 3 };

/// `sum_it g_i c_it |r_it|^2` by plain loops.
fn cost(case: &Case, loss: &Loss) -> f64 {
    let Case { problem, state } = case;
    let f = problem.frames();
    let of = |i: usize| {
        let r = naive::residual(problem, &state.motion, &state.skin, i);
        let weight = |l: usize| f64::from(loss.vertices[i]) * f64::from(loss.shares[i * f + l % f]) / 255.0;
        (0..r.len()).map(|l| weight(l) * r[l] * r[l]).sum::<f64>()
    };
    (0..problem.vertices()).map(of).sum()
}

fn weighted(seed: u64) -> (Case, Loss) {
    let mut case = case(seed, SIZES, BoneKind::Rigid);
    let random = &mut Random::new(seed);
    let mut loss = Loss::of_vertices((0..SIZES.vertices).map(|_| 0.05 + 3.0 * random.unit() as f32).collect());
    loss.shares = Arc::new((0..SIZES.vertices * SIZES.frames).map(|_| (10.0 + 245.0 * random.unit()) as u8).collect());
    case.problem.loss = loss.clone();
    (case, loss)
}

#[test]
fn errors_of_a_pass_are_the_cost() {
    let (case, loss) = weighted(1);
    let found = pass::gather(&case.problem, &case.state.motion, &case.state.skin).squared_error;
    assert!((found / cost(&case, &loss) - 1.0).abs() < 1e-5);
}

#[test]
fn steps_never_raise_the_cost() {
    for seed in 0..8 {
        let (mut case, loss) = weighted(seed);
        let mut last = cost(&case, &loss);
        let first = last;
        for round in 0..30 {
            let Case { problem, state } = &mut case;
            let moments = pass::solve(problem, &state.motion, &mut state.skin, usual(SIZES.slots), None);
            let after = cost(&case, &loss);
            assert!(after <= last * (1.0 + 1e-6), "seed {seed}, vertices of round {round}: {last} to {after}");
            bone_step::update(&mut case.state.motion, &moments, &case.state.model);
            last = cost(&case, &loss);
            assert!(last <= after * (1.0 + 1e-6), "seed {seed}, bones of round {round}: {after} to {last}");
        }
        assert!(last < 0.9 * first, "seed {seed}: {first} to {last}");
    }
}

#[test]
fn weights_of_one_change_nothing() {
    let plain = case(3, SIZES, BoneKind::Rigid);
    let mut ones = case(3, SIZES, BoneKind::Rigid);
    ones.problem.loss = Loss::of_vertices(vec![1.0; SIZES.vertices]);
    ones.problem.loss.shares = Arc::new(vec![255; SIZES.vertices * SIZES.frames]);
    let moments = |case: &Case| pass::gather(&case.problem, &case.state.motion, &case.state.skin);
    assert!(moments(&plain).residual == moments(&ones).residual);
}

/// With importance alone, moments are those of the plain sums with every vertex as often as it counts.
#[test]
fn importance_counts_vertices_again() {
    let mut once = case(4, SIZES, BoneKind::Rigid);
    let twice: Vec<u32> =
        (0..SIZES.vertices as u32).flat_map(|i| std::iter::repeat_n(i, 1 + (i % 3) as usize)).collect();
    let counts = (0..SIZES.vertices).map(|i| (1 + i % 3) as f32).collect();
    let trajectories: Vec<f32> = twice.iter().flat_map(|&i| once.problem.trajectory(i as usize).to_vec()).collect();
    let rest = twice.iter().map(|&i| once.problem.rest[i as usize]).collect();
    let repeated = Problem::stored(once.problem.length, rest, trajectories, once.problem.space.clone());
    once.problem.loss = Loss::of_vertices(counts);
    let found = pass::gather(&once.problem, &once.state.motion, &once.state.skin);
    let truth = pass::gather(&repeated, &once.state.motion, &once.state.skin.pick(&twice));
    let near = |a: f64, b: f64| (a - b).abs() <= 1e-5 * (a.abs() + b.abs()) + 1e-6;
    assert!(near(found.squared_error, truth.squared_error));
    assert!(found.residual.iter().zip(&truth.residual).all(|(a, b)| near(*a, *b)));
    assert!(found.second.dense().iter().zip(truth.second.dense()).all(|(a, b)| near(*a, b)));
    let costs = pass::removal_costs(&once.problem, &once.state.motion, &once.state.skin, usual(SIZES.slots));
    let skin = once.state.skin.pick(&twice);
    let true_costs = pass::removal_costs(&repeated, &once.state.motion, &skin, usual(SIZES.slots));
    assert!(
        costs.iter().zip(&true_costs).all(|(a, b)| (a - b).abs() <= 1e-3 * b.abs() + 1e-6),
        "{costs:?} {true_costs:?}"
    );
}
