//! Normals as a second rest vector, against sums over all vertices and frames.

use glam::{DMat3, DVec3};

use super::{Case, Sizes, case, naive, usual};
use crate::model::rig::BoneKind;
use crate::skinning::bone_step;
use crate::skinning::moments::Moments;
use crate::skinning::normals::Normals;
use crate::skinning::{descent::State, pass};
use crate::solve::random::Random;

const SIZES: Sizes = Sizes { vertices: 90, bones: 5, frames: 7, slots: 3 };

/// Weight of the normals.
const H: f64 = 0.3;

/// A case whose normals turn like the first bone of each vertex, with noise; [N, F] true normals beside it.
fn shaded(seed: u64, kind: BoneKind) -> (Case, Vec<DVec3>) {
    let Case { problem, mut state } = case(seed, SIZES, kind);
    let random = &mut Random::new(seed + 100);
    let mut normals = Vec::new();
    for i in 0..SIZES.vertices {
        let own = random.vector().normalize();
        state.skin.normals[i] = (own + 0.2 * random.vector()) * H;
        let (j, _) = state.skin.of(i).next().unwrap();
        for t in 0..SIZES.frames {
            let turned = naive::split(&state.motion.get(j, t)).0 * own;
            normals.push((turned + 0.1 * random.vector()).normalize());
        }
    }
    let problem = problem.with_normals(Some(Normals::known(SIZES.frames, &normals, H)));
    (Case { problem, state }, normals)
}

/// `h m_it - M_it n_i` of a vertex in a frame.
fn residual(state: &State, normals: &[DVec3], i: usize, t: usize) -> DVec3 {
    let blend = |sum: DMat3, (j, w): (usize, f64)| sum + naive::split(&state.motion.get(j, t)).0 * w;
    let m = state.skin.of(i).fold(DMat3::ZERO, blend);
    normals[i * SIZES.frames + t] * H - m * state.skin.normals[i]
}

fn cost(state: &State, normals: &[DVec3]) -> f64 {
    let of = |i: usize| (0..SIZES.frames).map(move |t| residual(state, normals, i, t).length_squared()).sum::<f64>();
    (0..SIZES.vertices).map(of).sum()
}

#[test]
fn moments_are_sums_over_positions_and_normals() {
    let (case, normals) = shaded(3, BoneKind::Rigid);
    let Case { problem, state } = &case;
    let plain = pass::gather(&problem.with_normals(None), &state.motion, &state.skin);
    let found = pass::gather(problem, &state.motion, &state.skin);
    let truth = cost(state, &normals);
    assert!((found.normal_error - truth).abs() < 1e-3 * truth, "{} {truth}", found.normal_error);
    assert!((found.squared_error - plain.squared_error - truth).abs() < 1e-3 * truth);
    let (b, f) = (SIZES.bones, SIZES.frames);
    for j in 0..b {
        let (mut slope, mut second) = (vec![DVec3::ZERO; 3 * f], DMat3::ZERO);
        for i in 0..SIZES.vertices {
            let Some((_, w)) = state.skin.of(i).find(|(k, _)| *k == j) else { continue };
            let n = state.skin.normals[i];
            second += DMat3::from_cols(n * n.x, n * n.y, n * n.z) * (w * w);
            for t in 0..f {
                let r = residual(state, &normals, i, t);
                (0..3).for_each(|a| slope[a * f + t] += n * (w * r[a]));
            }
        }
        for c in 0..3 {
            for (l, slope) in slope.iter().enumerate() {
                let at = (c * b + j) * 3 * f + l;
                let of_normals = found.residual[at] - plain.residual[at];
                assert!((of_normals - slope[c]).abs() < 1e-3, "bone {j}: {of_normals} {}", slope[c]);
            }
            for d in 0..3 {
                let of_normals = found.second.of[j].own[c][d] - plain.second.of[j].own[c][d];
                assert!((of_normals - second.col(d)[c]).abs() < 1e-9);
            }
        }
    }
}

#[test]
fn every_half_step_lowers_the_sum_of_both_errors() {
    for kind in [BoneKind::Rigid, BoneKind::Trs, BoneKind::Affine] {
        let (Case { problem, mut state }, normals) = shaded(5, kind);
        let error = |state: &State| {
            let Moments { squared_error, normal_error, .. } = pass::gather(&problem, &state.motion, &state.skin);
            assert!((normal_error - cost(state, &normals)).abs() < 1e-3 * normal_error);
            squared_error
        };
        let mut before = error(&state);
        for round in 0..6 {
            let moments = pass::solve(&problem, &state.motion, &mut state.skin, usual(SIZES.slots), None);
            let after = error(&state);
            assert!((moments.squared_error - after).abs() < 1e-3 * after);
            assert!(after < before * (1.0 + 1e-6), "{kind:?} {round}: vertices {before} {after}");
            let gain = bone_step::update(&mut state.motion, &moments, &state.model);
            before = error(&state);
            assert!((after - gain - before).abs() < 1e-3 * after, "{kind:?} {round}: {after} {gain} {before}");
            assert!(before < after, "{kind:?} {round}: bones {after} {before}");
        }
    }
}

#[test]
fn solved_normals_cannot_be_improved() {
    let (Case { problem, mut state }, normals) = shaded(7, BoneKind::Rigid);
    let errors = pass::solve_normals(&problem, &state.motion, &mut state.skin, usual(SIZES.slots));
    let best = cost(&state, &normals);
    let sum: f64 = errors.normals.iter().map(|error| f64::from(*error)).sum();
    assert!((sum / best - 1.0).abs() < 1e-3, "{sum} {best}");
    let positions = pass::gather(&problem.with_normals(None), &state.motion, &state.skin).squared_error;
    assert!((errors.positions / positions - 1.0).abs() < 1e-9);
    for (i, axis) in (0..SIZES.vertices).step_by(11).zip([DVec3::X, DVec3::Y, DVec3::Z].into_iter().cycle()) {
        for step in [0.05, -0.05] {
            let mut other =
                State { motion: state.motion.clone(), skin: state.skin.clone(), model: state.model.clone() };
            other.skin.normals[i] += axis * step;
            assert!(cost(&other, &normals) > best, "vertex {i}");
        }
    }
}

/// With factors the sums are those of normals and rest normals that are as much longer.
#[test]
fn factors_scale_normals_vertex_by_vertex() {
    let (Case { problem, mut state }, normals) = shaded(11, BoneKind::Rigid);
    let errors: Vec<f32> = (0..SIZES.vertices).map(|i| 0.01 + 0.02 * i as f32).collect();
    let known = Normals::known(SIZES.frames, &normals, H).shared(&errors);
    let factor = |i: usize| known.factor(i) / H;
    assert!(factor(0) > factor(SIZES.vertices - 1));
    state.skin.normals.iter_mut().enumerate().for_each(|(i, n)| *n *= factor(i));
    let squared = |i: usize| {
        (0..SIZES.frames)
            .map(|t| {
                let blend = |sum: DMat3, (j, w): (usize, f64)| sum + naive::split(&state.motion.get(j, t)).0 * w;
                let m = state.skin.of(i).fold(DMat3::ZERO, blend);
                (normals[i * SIZES.frames + t] * H * factor(i) - m * state.skin.normals[i]).length_squared()
            })
            .sum::<f64>()
    };
    let truth: f64 = (0..SIZES.vertices).map(squared).sum();
    let found = pass::gather(&problem.with_normals(Some(known.clone())), &state.motion, &state.skin);
    assert!((found.normal_error / truth - 1.0).abs() < 1e-3, "{} {truth}", found.normal_error);
}

/// Removals of influences cost what posing the vertex again shows, positions and normals together.
#[test]
fn removals_count_normals() {
    let (case, normals) = shaded(11, BoneKind::Rigid);
    let Case { problem, mut state } = case;
    pass::solve(&problem, &state.motion, &mut state.skin, usual(SIZES.slots), None);
    let total = |state: &State| naive::squared_error(&problem, &state.motion, &state.skin) + cost(state, &normals);
    let before = total(&state);
    let found = pass::removals(&problem, &state.motion, &state.skin, usual(SIZES.slots));
    for (i, removals) in found.iter().enumerate() {
        for fewer in &removals.fewer {
            let mut other = state.clone();
            other.skin.set(i, fewer.row.iter().copied());
            (other.skin.rest[i], other.skin.normals[i]) = (fewer.rest, fewer.normal);
            let rise = total(&other) - before;
            assert!((rise - fewer.rise).abs() < 1e-5 * before + 1e-3 * rise.abs(), "vertex {i}: {rise} {}", fewer.rise);
        }
    }
}
