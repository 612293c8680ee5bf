//! Weighted residuals against the weighted error of vertices posed frame by frame.

use crate::skinning::loss::Loss;
use crate::skinning::tests::*;
use crate::skinning::{bone_step, pass};

const SIZES: Sizes = Sizes { vertices: 90, bones: 5, frames: 7, slots: 3 };

/// `sum_it c_it |r_it|^2` by plain loops.
fn cost(case: &Case, loss: &Loss) -> f64 {
    let Case { problem, state } = case;
    let f = problem.frames();
    let of = |i: usize| {
        let r = naive::residual(problem, &state.motion, &state.skin, i);
        let weight = |l: usize| f64::from(loss.vertices[i]) * f64::from(loss.frames[l % f]);
        (0..r.len()).map(|l| weight(l) * r[l] * r[l]).sum::<f64>()
    };
    (0..problem.vertices()).map(of).sum()
}

fn weighted(seed: u64) -> (Case, Loss) {
    let mut case = case(seed, SIZES, BoneKind::Rigid);
    let random = &mut Random::new(seed);
    let mut weights = |count: usize| (0..count).map(|_| 0.05 + 0.95 * random.unit() as f32).collect();
    let loss = Loss { vertices: weights(SIZES.vertices), frames: weights(SIZES.frames) };
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
    ones.problem.loss = Loss { vertices: vec![1.0; SIZES.vertices], frames: vec![1.0; SIZES.frames] };
    let moments = |case: &Case| pass::gather(&case.problem, &case.state.motion, &case.state.skin);
    assert!(moments(&plain).residual == moments(&ones).residual);
}
