//! The vertex solve against projected gradients on all bones.

use std::sync::Arc;

use glam::{DAffine3, DQuat, DVec3};
use proptest::prelude::*;

use crate::mesh::sphere::Sphere;
use crate::skinning::problem::Problem;
use crate::skinning::skin::Skin;
use crate::skinning::unit::UnitSpace;
use crate::skinning::weights::{Prior, Search, Subject, Task, solve};

const SPHERE: Sphere = Sphere { center: DVec3::ZERO, radius: 1.0 };

/// Bones that turn and move, and where vertices go that hang on none of them in particular.
fn problem(numbers: &[f64], bones: usize, frames: usize, vertices: usize) -> (Problem, Vec<DAffine3>) {
    let mut next = numbers.iter().copied().cycle();
    let mut vector = || DVec3::new(next.next().unwrap(), next.next().unwrap(), next.next().unwrap());
    let transforms = (0..bones * frames)
        .map(|_| DAffine3::from_rotation_translation(DQuat::from_scaled_axis(vector()), 0.4 * vector()))
        .collect();
    let rest: Vec<DVec3> = (0..vertices).map(|_| vector()).collect();
    let trajectories = (0..vertices * frames).flat_map(|_| vector().to_array()).map(|x| x as f32).collect();
    (Problem::stored(3 * frames, rest, trajectories, UnitSpace::fixed(SPHERE)), transforms)
}

/// Squared error of weights, straight from the definition.
fn error(problem: &Problem, transforms: &[DAffine3], bones: usize, i: usize, w: &[f64]) -> f64 {
    let (f, v) = (problem.frames(), problem.trajectory(i));
    (0..f)
        .map(|t| {
            let pose = &transforms[t * bones..(t + 1) * bones];
            let p: DVec3 = pose.iter().zip(w).map(|(m, w)| m.transform_point3(problem.rest[i]) * *w).sum();
            let truth = DVec3::new(v[t].into(), v[f + t].into(), v[2 * f + t].into());
            p.distance_squared(truth)
        })
        .sum()
}

/// Least error over the simplex by multiplicative steps with numerical gradients.
fn brute_force(problem: &Problem, transforms: &[DAffine3], bones: usize, i: usize) -> f64 {
    let mut w = vec![1.0 / bones as f64; bones];
    let mut best = error(problem, transforms, bones, i, &w);
    let mut rate = 1.0;
    for _ in 0..4000 {
        let slope = |j: usize| {
            let nudged = |d: f64| {
                let mut w = w.clone();
                w[j] += d;
                error(problem, transforms, bones, i, &w)
            };
            (nudged(1e-4) - nudged(-1e-4)) / 2e-4
        };
        let slopes: Vec<f64> = (0..bones).map(slope).collect();
        let least = slopes.iter().copied().fold(f64::INFINITY, f64::min);
        let mut tried: Vec<f64> = w.iter().zip(&slopes).map(|(w, g)| w * (-rate * (g - least)).exp()).collect();
        let total: f64 = tried.iter().sum();
        tried.iter_mut().for_each(|w| *w /= total);
        let now = error(problem, transforms, bones, i, &tried);
        if now < best {
            (w, best) = (tried, now);
            rate *= 1.2;
        } else {
            rate *= 0.5;
        }
    }
    best
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn all_bones_reach_the_optimum(numbers in prop::collection::vec(-1.0..1.0f64, 97), bones in 2usize..6) {
        let (problem, transforms) = problem(&numbers, bones, 3, 5);
        let motion = UnitSpace::fixed(SPHERE).motion(&transforms, bones);
        let mut skin = Skin::empty(bones, problem.rest.clone());
        let prior = Prior { weights: &vec![Vec::new(); 5], strength: 0.0 };
        let task = Task { limit: bones, search: Search::Whole, prior, free: &[true, true, true, true, false] };
        let errors = solve(&[Subject::new(&problem, &motion)], &mut skin, 0..5, &task);
        for (i, from_products) in errors.iter().enumerate().take(4) {
            let mut w = vec![0.0; bones];
            skin.of(i).for_each(|(j, x)| w[j] += x);
            prop_assert!((w.iter().sum::<f64>() - 1.0).abs() < 1e-9);
            let reported = error(&problem, &transforms, bones, i, &w);
            prop_assert!((reported - from_products).abs() < 1e-6, "{reported} {from_products}");
            let best = brute_force(&problem, &transforms, bones, i);
            prop_assert!(reported <= best + 1e-3 * best + 1e-6, "vertex {i}: {reported} {best}");
        }
        prop_assert_eq!(skin.of(4).count(), 0, "what is not free is left alone");
    }

    /// With at most two bones, no pair is better: all pairs tried, weights on a fine grid.
    #[test]
    fn two_bones_are_the_best_two(numbers in prop::collection::vec(-1.0..1.0f64, 89)) {
        let bones = 5;
        let (problem, transforms) = problem(&numbers, bones, 3, 4);
        let motion = UnitSpace::fixed(SPHERE).motion(&transforms, bones);
        let mut skin = Skin::empty(2, problem.rest.clone());
        let prior = Prior { weights: &vec![Vec::new(); 4], strength: 0.0 };
        let task = Task { limit: 2, search: Search::Whole, prior, free: &[true; 4] };
        let errors = solve(&[Subject::new(&problem, &motion)], &mut skin, 0..4, &task);
        let mut found = 0;
        for (i, reported) in errors.iter().enumerate() {
            prop_assert!(skin.of(i).count() <= 2);
            let pairs = (0..bones).flat_map(|j| (0..j).map(move |k| (j, k)));
            let of_pair = |(j, k): (usize, usize)| (0..=200).map(move |s| {
                let mut w = vec![0.0; bones];
                (w[j], w[k]) = (f64::from(s) / 200.0, 1.0 - f64::from(s) / 200.0);
                w
            });
            let best = pairs.flat_map(of_pair).map(|w| error(&problem, &transforms, bones, i, &w)).fold(f64::INFINITY, f64::min);
            prop_assert!(*reported <= 1.25 * best + 1e-9, "vertex {i}: {reported} {best}");
            found += usize::from(*reported <= best + 1e-9);
        }
        // Choosing influences is combinatorial; the greedy choice with swaps is nearly always the best one.
        prop_assert!(found >= 2);
    }
}

/// Bones that move alike are separated by the prior weights, and several subjects add up.
#[test]
fn ties_go_to_the_weights_that_are_known() {
    let numbers: Vec<f64> = (0..97).map(|k| ((k * 37 % 23) as f64 - 11.0) / 11.0).collect();
    let (mut problem, mut transforms) = problem(&numbers, 3, 4, 4);
    (0..4).for_each(|t| transforms[t * 3 + 2] = transforms[t * 3 + 1]);
    for i in 0..4 {
        for t in 0..4 {
            let p = 0.5 * transforms[t * 3].transform_point3(problem.rest[i])
                + 0.5 * transforms[t * 3 + 1].transform_point3(problem.rest[i]);
            (0..3).for_each(|a| Arc::make_mut(&mut problem.trajectories)[i * 12 + a * 4 + t] = p[a] as f32);
        }
    }
    let motion = UnitSpace::fixed(SPHERE).motion(&transforms, 3);
    let mut skin = Skin::empty(3, problem.rest.clone());
    let reported = vec![vec![(0u16, 0.4f32), (1, 0.15), (2, 0.45)]; 4];
    let prior = Prior { weights: &reported, strength: 1e-8 };
    let subject = || Subject::new(&problem, &motion);
    let task = Task { limit: 3, search: Search::Whole, prior, free: &[true; 4] };
    // In two blocks: vertices do not depend on each other.
    let mut one = solve(&[subject()], &mut skin, 0..1, &task);
    one.extend(solve(&[subject()], &mut skin, 1..4, &task));
    for i in 0..4 {
        let mut w = [0.0; 3];
        skin.of(i).for_each(|(j, x)| w[j] += x);
        assert!((w[0] - 0.5).abs() < 1e-4, "{w:?}");
        assert!((w[2] - w[1] - 0.3).abs() < 1e-3, "{w:?}");
    }
    let nearby = solve(&[subject()], &mut skin, 0..4, &Task { search: Search::Nearby, ..task });
    assert!(one.iter().zip(&nearby).all(|(a, b)| (a - b).abs() < 1e-9), "nothing nearby is better");
    let two = solve(&[subject(), subject()], &mut skin, 0..4, &task);
    assert!(one.iter().zip(&two).all(|(a, b)| (2.0 * a - b).abs() < 1e-9));
}
