//! The solve of single vertices, seen through the pass.

use std::collections::BTreeSet;

use crate::model::weights::Row;
use crate::skinning::choice::{DenseForm, InfluenceSolver};
use crate::skinning::tests::*;
use crate::skinning::{pass, products, quadratic};

/// Errors of all vertices.
fn errors(case: &Case) -> Vec<f64> {
    let Case { problem, state } = case;
    (0..problem.vertices()).map(|i| naive::vertex_error(problem, &state.motion, &state.skin, i)).collect()
}

fn solve(case: &mut Case, params: VertexParams, passes: usize) {
    for _ in 0..passes {
        pass::solve(&case.problem, &case.state.motion, &mut case.state.skin, params, None);
    }
}

/// Best that convex weights of at most `most` bones could do, rest positions as they are.
fn optimum(case: &Case, i: usize, most: usize) -> f64 {
    let all: Vec<usize> = (0..case.state.bones()).collect();
    naive::best_weights(&case.problem, &case.state.motion, i, case.state.skin.rest[i], &all, most)
}

#[test]
fn with_all_bones_allowed_weights_are_optimal() {
    for seed in 0..10 {
        let bones = 1 + seed as usize % 5;
        let mut case = case(seed, Sizes { vertices: 60, bones, frames: 6, slots: bones }, BoneKind::Affine);
        let params = VertexParams { newcomers: bones, min_gain: 0.0, move_rest: false, ..usual(bones) };
        solve(&mut case, params, PASSES);
        for (i, error) in errors(&case).into_iter().enumerate() {
            let best = optimum(&case, i, bones);
            assert!(error >= best - 1e-9, "the twin is not the optimum: {error} {best}");
            assert!(error <= best * (1.0 + 1e-4) + 1e-7, "seed {seed}, vertex {i}: {error}, possible {best}");
        }
    }
}

const PASSES: usize = 3;

#[test]
fn with_few_slots_the_choice_is_near_the_best_of_all_subsets() {
    for (slots, bones) in [(1, 6), (2, 6), (3, 7), (4, 7)] {
        let (mut reached, mut possible) = (0.0, 0.0);
        for seed in 0..4 {
            let mut case = case(seed, Sizes { vertices: 50, bones, frames: 6, slots }, BoneKind::Affine);
            solve(&mut case, VertexParams { move_rest: false, ..usual(slots) }, 4);
            assert_convex(&case.state.skin, bones);
            reached += errors(&case).iter().sum::<f64>();
            possible += (0..50).map(|i| optimum(&case, i, slots)).sum::<f64>();
        }
        assert!(reached >= possible * (1.0 - 1e-6));
        // Seen: 0.1 % above.
        assert!(reached <= possible * 1.005, "{slots} of {bones} bones: {reached}, possible {possible}");
    }
}

/// With the weights that came out, no direction of the rest position lowers the error.
#[test]
fn rest_positions_are_stationary() {
    for seed in 0..6 {
        let mut case = case(seed, Sizes { vertices: 40, bones: 4, frames: 5, slots: 3 }, BoneKind::Affine);
        let before: Vec<f64> = (0..40).map(|i| slope(&case, i)).collect();
        solve(&mut case, usual(3), 1);
        for (i, before) in before.into_iter().enumerate() {
            let after = slope(&case, i);
            assert!(after < 1e-4 * before + 1e-4, "seed {seed}, vertex {i}: gradient {before} -> {after}");
        }
    }
}

/// Length of the error's gradient by the rest position, from differences (exact: the error is quadratic).
fn slope(case: &Case, i: usize) -> f64 {
    const STEP: f64 = 1e-3;
    let error_at = |u: DVec3| {
        let mut skin = case.state.skin.clone();
        skin.rest[i] = u;
        naive::vertex_error(&case.problem, &case.state.motion, &skin, i)
    };
    let u = case.state.skin.rest[i];
    let along = |axis: DVec3| (error_at(u + STEP * axis) - error_at(u - STEP * axis)) / (2.0 * STEP);
    DVec3::new(along(DVec3::X), along(DVec3::Y), along(DVec3::Z)).length()
}

/// Bones that all move alike, a vertex that no bone explains, a bone far away: sound weights all the same.
#[test]
fn degenerate_vertices_stay_sound() {
    let sizes = Sizes { vertices: 30, bones: 5, frames: 4, slots: 4 };
    let mut alike = case(3, sizes, BoneKind::Rigid);
    alike.state.motion = alike.state.motion.select(&[0; 5]);
    let mut still = case(3, sizes, BoneKind::Rigid);
    still.state.motion = Motion::identity(5, 4);
    let mut far = case(3, sizes, BoneKind::Rigid);
    far.state.motion.row_mut(3, 2).fill(1e6);
    let mut flat = case(3, sizes, BoneKind::Affine);
    (0..3).for_each(|c| (0..5).for_each(|j| flat.state.motion.row_mut(c, j).fill(0.0)));
    for (name, mut case) in [("alike", alike), ("still", still), ("far", far), ("flat", flat)] {
        let before: f64 = errors(&case).iter().sum();
        solve(&mut case, usual(4), 3);
        assert_convex(&case.state.skin, 5);
        let after: f64 = errors(&case).iter().sum();
        assert!(after <= before * (1.0 + 1e-6), "{name}: {before} -> {after}");
    }
}

/// The plain choice for vertex `i`, from products in float64.
fn plain(case: &Case, i: usize) -> InfluenceSolver<DenseForm> {
    let Case { problem, state: State { motion, skin, .. } } = case;
    let (b, u) = (motion.bones, skin.rest[i].extend(1.0).to_array());
    let (mut wide, mut y) = (Vec::new(), vec![0.0; 4 * b]);
    products::project(motion.rows(), problem.length, problem.trajectory(i), &mut wide, &mut y);
    let linear: Vec<f64> = (0..b).map(|j| (0..4).map(|c| u[c] * y[c * b + j]).sum()).collect();
    let mut solver = InfluenceSolver::dense_form();
    let forms = quadratic::forms(motion.gram(), b);
    solver.load(&linear, |gram| quadratic::mix(&forms, &products::PAIRS.map(|(c, d)| u[c] * u[d]), gram));
    solver.energy = wide.iter().map(|x| x * x).sum();
    solver
}

/// Largest difference of two rows' weights.
fn apart(a: &Row, b: &Row) -> f64 {
    let of = |row: &Row, j: usize| row.iter().find(|(k, _)| *k == j).map_or(0.0, |(_, w)| *w);
    a.iter().chain(b).map(|&(j, _)| (of(a, j) - of(b, j)).abs()).fold(0.0, f64::max)
}

/// Eight vertices at a time with bones ranked in float32, against one vertex in float64: the same weights where the same bones were
/// chosen, which is nearly always, and elsewhere an error that is as good in the sum.
#[test]
fn the_fast_step_agrees_with_the_plain_choice() {
    for (slots, bones) in [(2, 6), (3, 7), (4, 9), (6, 6)] {
        let (mut fast, mut exact, mut same, mut all) = (0.0, 0.0, 0, 0);
        for seed in 0..6 {
            let mut case = case(seed, Sizes { vertices: 50, bones, frames: 8, slots }, BoneKind::Affine);
            let params = VertexParams { newcomers: 4, min_gain: 0.0, move_rest: false, ..usual(slots) };
            solve(&mut case, params, 4);
            for i in 0..case.problem.vertices() {
                let (found, mut solver) = (case.state.skin.of(i).collect::<Row>(), plain(&case, i));
                let mut row = found.clone();
                solver.whole(slots, 0.0, &mut row);
                let bones = |row: &Row| row.iter().map(|&(j, _)| j).collect::<BTreeSet<_>>();
                if bones(&row) == bones(&found) {
                    assert!(apart(&row, &found) < 1e-4, "seed {seed}, vertex {i}: {found:?}, plain {row:?}");
                    same += 1;
                }
                all += 1;
                fast += solver.energy + solver.value(&found);
                exact += solver.energy + solver.value(&row);
            }
        }
        // Seen: 1198 of 1200 in all.
        assert!(same * 50 >= all * 49, "{slots} of {bones} bones: {same} of {all} vertices have the same bones");
        assert!(fast <= exact * 1.002, "{slots} of {bones} bones: error {fast}, of the plain choice {exact}");
    }
}
