//! The pass over all vertices: its sums, and that it never makes things worse.

use proptest::prelude::*;

use crate::skinning::moments::Moments;
use crate::skinning::pass;
use crate::skinning::tests::*;

fn any_sizes() -> impl Strategy<Value = Sizes> {
    (1usize..200, 1usize..7, 1usize..20, 1usize..5).prop_map(|(vertices, bones, frames, slots)| Sizes {
        vertices,
        bones,
        frames,
        slots: slots.min(bones),
    })
}

/// Largest difference of two tables, relative to the largest entry of the second or to `least`.
pub(super) fn difference(a: &[f64], b: &[f64], least: f64) -> f64 {
    assert_eq!(a.len(), b.len());
    let largest = b.iter().fold(least, |m, x| m.max(x.abs()));
    a.iter().zip(b).fold(0.0, |m: f64, (a, b)| m.max((a - b).abs())) / largest
}

/// The moments, and `S` as one matrix.
pub(super) fn naive_moments(problem: &Problem, state: &State) -> (Moments, Vec<f64>) {
    let (bones, length) = (state.bones(), problem.length);
    let side = 4 * bones;
    let mut moments = Moments { residual: vec![0.0; side * length], ..Moments::default() };
    let mut second = vec![0.0; side * side];
    for i in 0..problem.vertices() {
        let x = naive::blend_row(&state.skin, i, bones);
        let r = naive::residual(problem, &state.motion, &state.skin, i);
        for row in 0..side {
            (0..length).for_each(|l| moments.residual[row * length + l] += x[row] * r[l]);
            (0..side).for_each(|other| second[row * side + other] += x[row] * x[other]);
        }
        let error: f64 = r.iter().map(|r| r * r).sum();
        moments.squared_error += error;
        moments.per_vertex.push(error as f32);
    }
    (moments, second)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn sums_are_those_of_plain_loops(seed: u64, sizes in any_sizes(), solve: bool) {
        let Case { problem, mut state } = case(seed, sizes, BoneKind::Affine);
        let params = solve.then(|| usual(sizes.slots));
        let moments = match params {
            Some(params) => pass::solve(&problem, &state.motion, &mut state.skin, params, None),
            None => pass::gather(&problem, &state.motion, &state.skin),
        };
        // After a solve the sums must be those of the new weights.
        let (naive, second) = naive_moments(&problem, &state);
        // Positions of size 1 in float32: residuals are known to 1e-6, whatever little is left of them.
        let n = sizes.vertices as f64;
        prop_assert!(difference(&moments.residual, &naive.residual, 0.1 * n) < 1e-5);
        prop_assert!(difference(&moments.second.dense(), &second, 1e-3) < 1e-12);
        let (fast, slow) = (moments.squared_error, naive.squared_error);
        prop_assert!((fast - slow).abs() < 1e-5 * (slow + 1e-2 * n), "{fast} {slow}");
        for (i, (fast, slow)) in moments.per_vertex.iter().zip(&naive.per_vertex).enumerate() {
            prop_assert!((fast - slow).abs() <= 1e-5 * (slow + 1e-2), "vertex {i}: {fast} {slow}");
        }
    }

    #[test]
    fn without_a_solve_the_skin_stays(seed: u64, sizes in any_sizes()) {
        let Case { problem, state } = case(seed, sizes, BoneKind::Rigid);
        let before = state.skin.clone();
        pass::gather(&problem, &state.motion, &state.skin);
        prop_assert_eq!(before.bones, state.skin.bones);
        prop_assert_eq!(before.weights, state.skin.weights);
        prop_assert_eq!(before.rest, state.skin.rest);
    }

    /// Vertex by vertex, and so in sum.
    #[test]
    fn no_vertex_gets_worse(seed: u64, sizes in any_sizes(), move_rest: bool, newcomers in 0usize..5, deep: bool) {
        let Case { problem, mut state } = case(seed, sizes, BoneKind::Affine);
        let min_gain = if deep { 0.0 } else { 1e-2 };
        let params = VertexParams { newcomers, move_rest, min_gain, ..usual(sizes.slots) };
        let errors = |state: &State| -> Vec<f64> {
            (0..problem.vertices()).map(|i| naive::vertex_error(&problem, &state.motion, &state.skin, i)).collect()
        };
        let mut before = errors(&state);
        for round in 0..3 {
            pass::solve(&problem, &state.motion, &mut state.skin, params, None);
            assert_convex(&state.skin, sizes.bones);
            let after = errors(&state);
            for (i, (before, after)) in before.iter().zip(&after).enumerate() {
                prop_assert!(*after <= before * (1.0 + 1e-5) + 1e-7, "round {round}, vertex {i}: {before} -> {after}");
            }
            before = after;
        }
        if !move_rest {
            prop_assert_eq!(&state.skin.rest, &problem.rest);
        }
    }
}

/// Lanes are summed in a fixed order.
#[test]
fn threads_do_not_change_a_bit() {
    let sizes = Sizes { vertices: 3000, bones: 5, frames: 7, slots: 3 };
    let Case { problem, state } = case(5, sizes, BoneKind::Affine);
    let run = |threads: usize| {
        let mut skin = state.skin.clone();
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let moments = pool.install(|| pass::solve(&problem, &state.motion, &mut skin, usual(3), None));
        (moments.residual, moments.second.dense(), moments.squared_error.to_bits(), skin.weights, skin.rest)
    };
    let single = run(1);
    assert!(single == run(2), "2 threads");
    assert!(single == run(3), "3 threads");
}

/// Vertices that try no other bones are solved from products with their own bones alone: the same as from products with all.
#[test]
fn rounds_without_newcomers_are_those_with_products_of_all_bones() {
    let sizes = Sizes { vertices: 130, bones: 9, frames: 13, slots: 4 };
    let Case { problem, state } = case(17, sizes, BoneKind::Rigid);
    let mut alone = state.skin.clone();
    let own = VertexParams { newcomers: 0, ..usual(4) };
    let moments = pass::solve(&problem, &state.motion, &mut alone, own, None);
    // A gain that no bone has: candidates are the present bones again.
    let mut all = state.skin.clone();
    let dense = VertexParams { newcomers: 1, min_gain: 1e30, ..usual(4) };
    let with_all = pass::solve(&problem, &state.motion, &mut all, dense, None);
    assert!((moments.squared_error / with_all.squared_error - 1.0).abs() < 1e-5);
    assert!(alone.weights.iter().zip(&all.weights).all(|(a, b)| (a - b).abs() < 1e-3));
    assert_eq!(alone.bones, all.bones);
}
