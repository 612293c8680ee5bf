//! Many bones: blocks that work with the bones near them, against all bones at once.

use super::*;
use crate::mesh::topology::{Adjacency, Topology};
use crate::skinning::bone_step::{update_affine, update_many_affine};
use crate::skinning::near::{Near, Reach};
use crate::skinning::normals::Normals;
use crate::skinning::smooth::Smoothness;
use crate::skinning::tests::pass::{difference, naive_moments};
use crate::skinning::{pass, plant, prune};

const MANY: Sizes = Sizes { vertices: 300, bones: 140, frames: 6, slots: 4 };
const FEW: Sizes = Sizes { bones: 100, ..MANY };

/// The same state with bones that no vertex has: enough of them that blocks work with the bones near them.
fn padded(state: &State) -> State {
    let picked: Vec<usize> = (0..MANY.bones).map(|j| if j < state.bones() { j } else { 0 }).collect();
    State { motion: state.motion.select(&picked), skin: state.skin.clone(), model: state.model.clone() }
}

#[test]
fn sums_are_those_of_plain_loops() {
    for (seed, solve) in [(1, false), (2, true)] {
        let Case { problem, mut state } = case(seed, MANY, BoneKind::Affine);
        let moments = match solve {
            true => pass::solve(&problem, &state.motion, &mut state.skin, usual(4), None),
            false => pass::gather(&problem, &state.motion, &state.skin),
        };
        let (naive, second) = naive_moments(&problem, &state);
        assert!(difference(&moments.residual, &naive.residual, 0.1) < 1e-4);
        assert!(difference(&moments.second.dense(), &second, 1e-3) < 1e-12);
        assert!((moments.squared_error / naive.squared_error - 1.0).abs() < 1e-5);
    }
}

/// Bones that no vertex has change nothing, neither do they with normals.
#[test]
fn unused_bones_change_no_sum() {
    let Case { problem, state } = case(3, FEW, BoneKind::Rigid);
    let random = &mut Random::new(9);
    let normals: Vec<DVec3> = (0..FEW.vertices * FEW.frames).map(|_| random.vector().normalize()).collect();
    let problem = problem.with_normals(Some(Normals::known(FEW.frames, &normals, 0.3)));
    let (mut few, mut many) = (state.clone(), padded(&state));
    // No newcomers: vertices near each other may not have the same bones near them.
    let params = VertexParams { newcomers: 0, ..usual(4) };
    pass::solve_normals(&problem, &few.motion, &mut few.skin, params);
    pass::solve_normals(&problem, &many.motion, &mut many.skin, params);
    let close = |a: &[DVec3], b: &[DVec3]| a.iter().zip(b).all(|(a, b)| a.distance(*b) < 1e-4);
    assert!(close(&few.skin.normals, &many.skin.normals));
    for solve in [false, true] {
        let sums = |state: &mut State| match solve {
            true => pass::solve(&problem, &state.motion, &mut state.skin, params, None),
            false => pass::gather(&problem, &state.motion, &state.skin),
        };
        let (a, b) = (sums(&mut few), sums(&mut many));
        assert!((a.squared_error / b.squared_error - 1.0).abs() < 1e-5);
        assert!((a.normal_error / b.normal_error - 1.0).abs() < 1e-5, "{} {}", a.normal_error, b.normal_error);
        let length = problem.length;
        for j in 0..FEW.bones {
            for c in 0..4 {
                let row = |all: &[f64], bones: usize| all[(c * bones + j) * length..][..length].to_vec();
                assert!(difference(&row(&a.residual, FEW.bones), &row(&b.residual, MANY.bones), 1.0) < 1e-4);
            }
            let (a, b) = (&a.second.of[j], &b.second.of[j]);
            assert!(difference(a.own.as_flattened(), b.own.as_flattened(), 1e-3) < 1e-4);
            assert!(a.others.iter().map(|o| o.0).eq(b.others.iter().map(|o| o.0)));
        }
    }
    let removed = [few, many].map(|mut state| {
        let budget = 0.5;
        let found = pass::removals(&problem, &state.motion, &state.skin, usual(4));
        let done = prune::remove(&found, &mut state.skin, budget);
        (done, state.skin)
    });
    let ((count, cost), skin) = &removed[0];
    assert!(*count > 0 && removed[1].0.0.abs_diff(*count) <= 2 && (removed[1].0.1 - cost).abs() < 0.05);
    assert_convex(skin, FEW.bones);
    assert_convex(&removed[1].1, FEW.bones);
}

#[test]
fn no_vertex_gets_worse() {
    let Case { problem, mut state } = case(4, MANY, BoneKind::Rigid);
    let errors = |state: &State| -> Vec<f64> {
        (0..problem.vertices()).map(|i| naive::vertex_error(&problem, &state.motion, &state.skin, i)).collect()
    };
    let first = errors(&state);
    let mut before = first.clone();
    for _ in 0..3 {
        pass::solve(&problem, &state.motion, &mut state.skin, usual(4), None);
        assert_convex(&state.skin, MANY.bones);
        let after = errors(&state);
        assert!(before.iter().zip(&after).all(|(a, b)| *b <= a * (1.0 + 1e-5) + 1e-7));
        before = after;
    }
    assert!(before.iter().sum::<f64>() < 0.9 * first.iter().sum::<f64>());
}

#[test]
fn threads_do_not_change_a_bit() {
    let Case { problem, state } = case(5, Sizes { vertices: 3000, ..MANY }, BoneKind::Affine);
    let run = |threads: usize| {
        let mut skin = state.skin.clone();
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let moments = pool.install(|| pass::solve(&problem, &state.motion, &mut skin, usual(4), None));
        let costs = pool.install(|| pass::removal_costs(&problem, &state.motion, &skin, usual(4)));
        (moments.residual, moments.second.dense(), moments.squared_error.to_bits(), skin.weights, costs)
    };
    assert!(run(1) == run(3));
}

/// Smooth weights: the neighbours' means are those of the same bones.
#[test]
fn unused_bones_change_no_smooth_weights() {
    let Case { problem, state } = case(10, FEW, BoneKind::Rigid);
    let triangles: Vec<[u32; 3]> = (0..FEW.vertices as u32 - 2).map(|i| [i, i + 1, i + 2]).collect();
    let params = VertexParams { newcomers: 0, ..usual(4) };
    let [few, many] = [state.clone(), padded(&state)].map(|mut state| {
        let adjacency = Adjacency::new(&Topology::from_triangles(&triangles), FEW.vertices);
        let smoothness = Smoothness::new(&problem, adjacency, 1.0);
        pass::solve(&problem, &state.motion, &mut state.skin, params, Some(&smoothness));
        state.skin
    });
    for i in 0..FEW.vertices {
        let weight = |skin: &Skin, j: usize| skin.of(i).find(|slot| slot.0 == j).map_or(0.0, |slot| slot.1);
        assert!((0..FEW.bones).all(|j| (weight(&few, j) - weight(&many, j)).abs() < 1e-3), "vertex {i}");
    }
}

/// Blocks cover all vertices in order, and have the bones of each and those nearest to it. Vertices that lie anywhere make small blocks.
#[test]
fn blocks_have_the_bones_of_their_vertices() {
    let Case { state, .. } = case(6, MANY, BoneKind::Rigid);
    let near = Near::new(&state.motion, &state.skin, 64, Reach::Around, true).unwrap();
    let centres = state.skin.centroids(MANY.bones);
    let mut next = 0;
    for block in &near.blocks {
        assert_eq!(block.vertices.start, next);
        next = block.vertices.end;
        assert!(block.bones.is_sorted() && (block.bones.len() <= 128 || block.vertices.len() <= 8));
        for i in block.vertices.clone() {
            assert!(state.skin.of(i).all(|(j, _)| block.bones.contains(&(j as u16))));
            let distance = |j: usize| centres[j].distance(state.skin.rest[i]);
            let nearest = (0..MANY.bones).min_by(|&a, &b| distance(a).total_cmp(&distance(b))).unwrap();
            assert!(block.bones.contains(&(nearest as u16)));
        }
        let (bones, all) = (near.bones(&state.motion, block), state.motion.pairs());
        for (a, &j) in block.bones.iter().enumerate() {
            for (b, &k) in block.bones.iter().enumerate() {
                let (x, y) = (bones.pairs().block(a, b), all.block(j as usize, k as usize));
                assert!((0..16).all(|e| (x.get(e / 4, e % 4) - y.get(e / 4, e % 4)).abs() < 1e-9));
                let (x, y) = (&bones.pairs().forms(a)[b / 8], &all.forms(j as usize)[k as usize / 8]);
                assert!((0..10).all(|p| (x[p].0[b % 8] - y[p].0[k as usize % 8]).abs() < 1e-4));
            }
        }
    }
    assert_eq!(next, MANY.vertices);
}

/// The sparse factor gives what the dense one does.
#[test]
fn many_affine_bones_move_like_few() {
    let Case { problem, state } = case(7, Sizes { vertices: 900, bones: 40, ..MANY }, BoneKind::Affine);
    let moments = pass::gather(&problem, &state.motion, &state.skin);
    for free in [1, 3] {
        let is_free = |j: usize| j.is_multiple_of(free);
        let (mut dense, mut sparse) = (state.motion.clone(), state.motion.clone());
        let gain = update_affine(&mut dense, &moments, is_free);
        let gain_sparse = update_many_affine(&mut sparse, &moments, is_free);
        assert!(gain > 0.0 && (gain_sparse / gain - 1.0).abs() < 1e-9, "{gain} {gain_sparse}");
        assert!(difference(sparse.rows(), dense.rows(), 1.0) < 1e-7);
    }
    // Bones without vertices stay where they are.
    let many = padded(&state);
    let moments = pass::gather(&problem, &many.motion, &many.skin);
    let mut moved = many.motion.clone();
    assert!(update_affine(&mut moved, &moments, |_| true) > 0.0);
    assert!((0..4).all(|c| moved.row(c, 139) == many.motion.row(c, 139)));
}

#[test]
fn many_patches_are_those_of_a_search_through_all() {
    let Case { problem, state } = case(8, MANY, BoneKind::Rigid);
    let errors: Vec<f64> =
        pass::gather(&problem, &state.motion, &state.skin).per_vertex.iter().map(|e| f64::from(*e)).collect();
    let sorted = |patches: Vec<Vec<usize>>| -> Vec<Vec<usize>> {
        patches
            .into_iter()
            .map(|mut patch| {
                patch.sort_unstable();
                patch
            })
            .collect()
    };
    for (count, patch) in [(5, 4), (60, 7), (1000, 3)] {
        let plain = sorted(plant::patches(&problem, errors.clone(), count, patch));
        assert_eq!(sorted(plant::many_patches(&problem, errors.clone(), count, patch)), plain);
        assert!(plain.len() == count || count == 1000);
    }
}

/// A planted bone is found by the vertices that it was planted for, though none of them has it yet.
#[test]
fn planted_bones_are_found() {
    let Case { problem, mut state } = case(9, MANY, BoneKind::Rigid);
    let errors = pass::gather(&problem, &state.motion, &state.skin).per_vertex;
    state.plant(&problem, &errors, 30, 6);
    pass::solve(&problem, &state.motion, &mut state.skin, usual(4), None);
    let used = (0..MANY.vertices).flat_map(|i| state.skin.of(i)).filter(|(j, _)| *j >= MANY.bones).count();
    assert!(used > 30, "{used}");
}
