//! Vertices from other starts, against errors of vertices posed frame by frame.

use crate::cluster::split;
use crate::observer::Silent;
use crate::skinning::basins::{Basins, all_sets, best_sets};
use crate::skinning::descent::{Descent, VertexStep};
use crate::skinning::guess::{Guess, MAX_BONES, Patience, VertexError};
use crate::skinning::params::FitParams;
use crate::skinning::products::BonePairs;
use crate::skinning::run::Run;
use crate::skinning::tests::*;
use crate::skinning::together::Together;
use crate::skinning::unit::UnitSpace;

const SIZES: Sizes = Sizes { vertices: 150, bones: 7, frames: 9, slots: 4 };

/// As far as it goes.
const PATIENT: Patience = Patience { steps: 200, least_gain: 0.0, rival: f64::INFINITY };

/// What a vertex is judged by, and `|v|^2`.
fn error_of(case: &Case, i: usize) -> (&BonePairs, Vec<[f64; 4]>, f64) {
    let motion = &case.state.motion;
    let pairs = motion.pairs();
    let v: Vec<f64> = case.problem.trajectory(i).iter().map(|x| f64::from(*x)).collect();
    let dot = |row: &[f64]| row.iter().zip(&v).map(|(a, b)| a * b).sum();
    let y = (0..motion.bones).map(|j| std::array::from_fn(|c| dot(motion.row(c, j)))).collect();
    (pairs, y, v.iter().map(|x| x * x).sum())
}

/// Squared error of vertex `i` with a guess, posed frame by frame.
fn error(case: &Case, i: usize, guess: &Guess) -> f64 {
    let mut skin = case.state.skin.clone();
    (0..MAX_BONES).for_each(|k| {
        (skin.bones[i * MAX_BONES + k], skin.weights[i * MAX_BONES + k]) = match k < guess.count {
            true => (guess.bones[k] as u16, guess.weights[k]),
            false => (0, 0.0),
        };
    });
    skin.rest[i] = DVec3::from_slice(&guess.u[..3]);
    naive::vertex_error(&case.problem, &case.state.motion, &skin, i)
}

/// What vertex `i` has.
fn present(case: &Case, i: usize) -> Guess {
    let mut guess = Guess {
        count: 0,
        bones: [0; MAX_BONES],
        weights: [0.0; MAX_BONES],
        u: case.state.skin.rest[i].extend(1.0).to_array(),
        value: 0.0,
    };
    for (j, w) in case.state.skin.of(i) {
        (guess.bones[guess.count], guess.weights[guess.count]) = (j, w);
        guess.count += 1;
    }
    guess
}

/// Steps end where no small change of weights and rest position is better, and know the error there.
#[test]
fn guesses_converge_to_a_minimum() {
    let case = case(3, SIZES, BoneKind::Affine);
    let random = &mut Random::new(8);
    for i in 0..40 {
        let (pairs, y, size) = error_of(&case, i);
        let mut guess = present(&case, i);
        let before = error(&case, i, &guess);
        VertexError { pairs, y: &y }.minimise(&mut guess, PATIENT);
        let reached = error(&case, i, &guess);
        assert!((guess.value + size - reached).abs() < 1e-9, "{} {reached}", guess.value + size);
        assert!(reached <= before);
        assert!((guess.weights[..guess.count].iter().sum::<f64>() - 1.0).abs() < 1e-12);
        for _ in 0..20 {
            let mut other = guess;
            other.u[..3].iter_mut().for_each(|x| *x += 1e-4 * random.signed());
            other.weights[..guess.count].iter_mut().for_each(|w| *w = (*w + 1e-4 * random.signed()).max(0.0));
            let total: f64 = other.weights.iter().sum();
            other.weights.iter_mut().for_each(|w| *w /= total);
            let found = error(&case, i, &other);
            assert!(found > reached - 1e-9, "vertex {i}: {found} near {reached}");
        }
    }
}

/// The best set is better than any random set with any random weights, and is what it says.
#[test]
fn no_set_of_bones_beats_the_best() {
    let case = case(11, SIZES, BoneKind::Affine);
    let random = &mut Random::new(2);
    let sets = all_sets(SIZES.bones, MAX_BONES);
    assert_eq!(sets.len(), 7 + 21 + 35 + 35);
    let ranked: Vec<usize> = (0..SIZES.bones).rev().collect();
    for i in 0..10 {
        let (pairs, y, size) = error_of(&case, i);
        let u = case.state.skin.rest[i].extend(1.0).to_array();
        let best: Vec<Guess> =
            best_sets(VertexError { pairs, y: &y }, &sets, &ranked, u).into_iter().flatten().collect();
        assert!(best.is_sorted_by(|a, b| a.value <= b.value));
        for guess in &best {
            assert!((error(&case, i, guess) - guess.value - size).abs() < 1e-6);
        }
        for _ in 0..2000 {
            let skin = random_skin(random, &[case.state.skin.rest[i]], SIZES.bones, MAX_BONES);
            let mut guess = Guess { u, ..best[0] };
            (guess.count, guess.weights) = (0, [0.0; MAX_BONES]);
            for (j, w) in skin.of(0) {
                (guess.bones[guess.count], guess.weights[guess.count]) = (j, w);
                guess.count += 1;
            }
            assert!(error(&case, i, &guess) > best[0].value + size - 1e-9);
        }
    }
}

/// No vertex gets worse.
#[test]
fn errors_never_rise() {
    let Case { problem, state } = case(21, SIZES, BoneKind::Affine);
    let basins = Basins::new(&problem.rest);
    let mut skin = state.skin.clone();
    for round in 0..16 {
        let before = skin.clone();
        basins.improve(&problem, &state.motion, &mut skin, round);
        assert_convex(&skin, SIZES.bones);
        for i in 0..SIZES.vertices {
            let [was, is] = [&before, &skin].map(|skin| naive::vertex_error(&problem, &state.motion, skin, i));
            assert!(is <= was * (1.0 + 1e-5) + 1e-9, "vertex {i} in round {round}: {was} to {is}");
        }
    }
}

/// A cloth in the wind: nothing that a few bones could follow exactly.
fn cloth() -> Problem {
    const SIDE: usize = 24;
    const FRAMES: usize = 20;
    let rest: Vec<DVec3> = (0..SIDE * SIDE)
        .map(|i| DVec3::new((i % SIDE) as f64, (i / SIDE) as f64, 0.0) * (1.4 / (SIDE - 1) as f64) - DVec3::splat(0.7))
        .collect();
    let blown = |p: DVec3, t: f64| {
        let (a, b) = (4.0 * p.x + 6.0 * t, 5.0 * p.y - 4.0 * t + 2.0 * p.x * p.x);
        p + DVec3::new(0.1 * b.cos(), 0.15 * (a - p.y).sin(), 0.3 * a.sin() * b.cos() + 0.1 * (b + a).sin())
    };
    let trajectory = |p: &DVec3| {
        let frames: Vec<DVec3> = (0..FRAMES).map(|t| blown(*p, t as f64 / FRAMES as f64)).collect();
        (0..3).flat_map(|a| frames.iter().map(|p| p[a] as f32).collect::<Vec<_>>()).collect::<Vec<_>>()
    };
    let trajectories = rest.iter().flat_map(trajectory).collect();
    Problem::stored(3 * FRAMES, rest, trajectories, UnitSpace::fixed(Sphere { center: DVec3::ZERO, radius: 1.0 }))
}

/// With as many steps over everything, vertices that look further end lower.
#[test]
fn other_starts_lead_further() {
    let problem = cloth();
    let (motion, labels) = split::split(&problem, 6, &mut || Ok(())).unwrap();
    let descend = |far: bool| {
        let skin = Skin::rigid(MAX_BONES, &labels, problem.rest.clone());
        let mut state = State { motion: motion.clone(), skin, model: BoneModel::new(BoneKind::Affine, 6, 3) };
        let mut silent = Silent;
        let mut run = Run::new(&FitParams::default(), &mut silent);
        let params = usual(MAX_BONES);
        let step = if far { VertexStep::Basins(Basins::new(&problem.rest)) } else { VertexStep::Choose };
        let together = Together::new(&state, &params);
        let mut descent = Descent::with_step(&problem, params, step, together);
        descent.rounds(&mut state, 60, &mut run).unwrap();
        assert_convex(&state.skin, 6);
        let truth = naive::squared_error(&problem, &state.motion, &state.skin);
        assert!((descent.squared_error / truth - 1.0).abs() < 1e-3, "{} {truth}", descent.squared_error);
        problem.e_rms(truth)
    };
    let [near, far] = [false, true].map(descend);
    println!("E_RMS {near:.3} near, {far:.3} far");
    assert!(far < 0.8 * near, "{near} {far}");
}

/// Fewer influences than four are kept, also where there are fewer bones than candidates.
#[test]
fn influences_stay_within_the_limit() {
    for (bones, slots) in [(1, 1), (2, 2), (3, 2), (12, 3)] {
        let Case { problem, state } = case(5, Sizes { bones, slots, ..SIZES }, BoneKind::Affine);
        let mut skin = state.skin.clone();
        let basins = Basins::new(&problem.rest);
        (0..4).for_each(|round| basins.improve(&problem, &state.motion, &mut skin, round));
        assert_convex(&skin, bones);
        let [before, after] = [&state.skin, &skin].map(|skin| naive::squared_error(&problem, &state.motion, skin));
        assert!(after <= before);
    }
}
