//! Removing influences: what it costs against posing every vertex again.

use super::{Case, Sizes, assert_convex, case, naive, usual};
use crate::model::rig::BoneKind;
use crate::observer::Silent;
use crate::skinning::descent::Descent;
use crate::skinning::params::FitParams;
use crate::skinning::prune::{self, prune};
use crate::skinning::run::Run;
use crate::skinning::skin::Skin;
use crate::skinning::{motion::Motion, pass, problem::Problem};

const SIZES: Sizes = Sizes { vertices: 90, bones: 7, frames: 11, slots: 4 };

/// A state that a few rounds have brought near its best.
fn converged(kind: BoneKind) -> (Case, f64) {
    let mut case = case(5, SIZES, kind);
    let (params, mut observer) = (FitParams::default(), Silent);
    let mut descent = Descent::new(&case.problem, usual(4));
    descent.rounds(&mut case.state, 6, &mut Run::new(&params, &mut observer)).unwrap();
    let error = error(&case, &case.state.skin);
    (case, error)
}

fn remove(problem: &Problem, motion: &Motion, skin: &mut Skin, budget: f64) -> (usize, f64) {
    let found = pass::removals(problem, motion, skin, usual(4));
    prune::remove(&found, skin, budget)
}

fn error(case: &Case, skin: &Skin) -> f64 {
    let of = |i: usize| {
        let posed = naive::posed(&case.state.motion, skin, i);
        let truth = case.problem.trajectory(i).iter();
        posed.iter().zip(truth).map(|(p, v)| (p - f64::from(*v)).powi(2)).sum::<f64>()
    };
    (0..skin.rest.len()).map(of).sum()
}

fn influences(skin: &Skin) -> usize {
    (0..skin.rest.len()).map(|i| skin.of(i).count()).sum()
}

#[test]
fn the_rise_stays_within_the_budget_and_uses_it() {
    let (case, before) = converged(BoneKind::Rigid);
    let mut last = influences(&case.state.skin);
    for share in [0.01, 0.05, 0.2] {
        let mut skin = case.state.skin.clone();
        let (removed, cost) = remove(&case.problem, &case.state.motion, &mut skin, share * before);
        assert_convex(&skin, SIZES.bones);
        let rise = error(&case, &skin) - before;
        assert!(rise <= share * before + 1e-6 * before, "{share}: {rise} of {before}");
        assert!((rise - cost).abs() < 1e-6 * before, "{rise} {cost}");
        assert!(rise > 0.3 * share * before, "{share}: {rise} of {before}");
        assert!(influences(&skin) < last && removed > 0);
        last = influences(&skin);
    }
    // All that there is: one influence each.
    let mut skin = case.state.skin.clone();
    remove(&case.problem, &case.state.motion, &mut skin, f64::INFINITY);
    assert_eq!(influences(&skin), SIZES.vertices);
}

/// With a budget for one removal the cheapest one is taken: no other, its weights only scaled, costs less.
#[test]
fn the_cheapest_goes_first() {
    let (case, before) = converged(BoneKind::Affine);
    let (mut budget, mut skin) = (1e-9 * before, case.state.skin.clone());
    while remove(&case.problem, &case.state.motion, &mut skin, budget).0 == 0 {
        budget *= 1.3;
    }
    let rise = error(&case, &skin) - before;
    for i in 0..SIZES.vertices {
        let row: Vec<(usize, f64)> = case.state.skin.of(i).collect();
        for gone in row.iter().filter(|_| row.len() > 1) {
            let mut other = case.state.skin.clone();
            let left = row.iter().filter(|slot| slot.0 != gone.0);
            other.set(i, left.map(|(j, w)| (*j, w / (1.0 - gone.1))));
            assert!(error(&case, &other) - before >= rise / 1.3 - 1e-6 * before, "vertex {i}");
        }
    }
}

#[test]
fn rounds_follow_and_the_limit_holds() {
    for kind in [BoneKind::Rigid, BoneKind::Trs, BoneKind::Affine] {
        let (mut case, before) = converged(kind);
        let count = influences(&case.state.skin);
        let (params, mut observer) = (FitParams::default(), Silent);
        let mut run = Run::new(&params, &mut observer);
        let after = prune(&case.problem, &mut case.state, usual(4), |e_rms| 1.05 * e_rms, &mut run).unwrap();
        let limit = 1.05 * case.problem.e_rms(before);
        assert!(after <= limit * (1.0 + 1e-6), "{kind:?}: {after} above {limit}");
        assert!((case.problem.e_rms(error(&case, &case.state.skin)) / after - 1.0).abs() < 1e-3);
        assert!(influences(&case.state.skin) < count);
        assert_convex(&case.state.skin, SIZES.bones);
    }
}

/// What a vertex is off now, and what each removal leaves, against posing it.
#[test]
fn removals_cost_what_they_say() {
    let (case, before) = converged(BoneKind::Trs);
    let found = pass::removals(&case.problem, &case.state.motion, &case.state.skin, usual(4));
    let squared: f64 = found.iter().map(|removals| removals.position_error).sum();
    assert!((squared / before - 1.0).abs() < 1e-4, "{squared} {before}");
    for (i, removals) in found.iter().enumerate() {
        let mut count = case.state.skin.of(i).count();
        for fewer in &removals.fewer {
            assert!(fewer.row.len() < count && fewer.row.iter().all(|(_, w)| *w > 0.0), "vertex {i}");
            count = fewer.row.len();
            let mut skin = case.state.skin.clone();
            skin.set(i, fewer.row.iter().copied());
            skin.rest[i] = fewer.rest;
            let rise = error(&case, &skin) - before;
            assert!((rise - fewer.rise).abs() < 1e-6 * before + 1e-4 * rise.abs(), "vertex {i}: {rise} {}", fewer.rise);
        }
        assert_eq!(count, 1, "vertex {i}");
    }
}
