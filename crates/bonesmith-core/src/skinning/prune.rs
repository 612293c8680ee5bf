//! Fewer influences where they buy nothing: the ones whose removal raises the error least are taken out, up to a share of it.
//!
//! For a vertex with prediction `p`, residual `r` and the bones' own predictions `a_j`, other weights `w` leave
//!
//! ```text
//! |r - sum_j w_j d_j|^2 = |r|^2 - 2 sum_j w_j (r . d_j) + sum_jk w_j w_k (d_j . d_k)      d_j = a_j - p
//! ```
//!
//! (normals, where they count, add the same again), so what a vertex loses with one influence less, the weights of the others and then rest position and normal solved
//! again, is exact and takes no pass over frames. Each vertex gives up its influences one by one, the cheapest first; over all vertices the cheapest removals are taken.

use crate::observer::{Cancelled, Stage};
use crate::skinning::descent::{Descent, State};
use crate::skinning::pass;
use crate::skinning::problem::Problem;
use crate::skinning::run::Run;
use crate::skinning::skin::Skin;
use crate::skinning::vertex_step::{Fewer, Removals, VertexParams};

/// Removes influences; the E_RMS rises to about `limit` of the present one at most, and normals, where they count, by no more. A round
/// over the weights and bones that stay makes up for some of it, which is spent once more. Returns about the E_RMS: at most what
/// removals cost in normals lies in it.
pub(crate) fn prune(
    problem: &Problem,
    state: &mut State,
    vertices: VertexParams,
    limit: impl Fn(f64) -> f64,
    run: &mut Run<'_>,
) -> Result<f64, Cancelled> {
    run.stage(Stage::FewerInfluences, Some(1))?;
    let find = |state: &State| pass::removals(problem, &state.motion, &state.skin, vertices);
    let found = run.timed("prune", || find(state));
    let (positions, normals) = errors(&found);
    let now = problem.e_rms(positions);
    let budget = problem.squared_error(limit(now)) - problem.squared_error(now);
    let most = positions + normals + budget;
    let (removed, spent) = run.timed("prune", || remove(&found, &mut state.skin, budget));
    let mut reached = positions + spent;
    drop(found);
    if removed > 0 && !run.is_over() {
        // No newcomers: vertices keep the bones that they have.
        let mut descent = Descent::new(problem, VertexParams { newcomers: 0, ..vertices });
        descent.rounds(state, 1, run)?;
        let left = most - descent.squared_error;
        drop(descent);
        let found = run.timed("prune", || find(state));
        run.report()?;
        let (_, spent) = run.timed("prune", || remove(&found, &mut state.skin, left));
        reached = errors(&found).0 + spent;
    }
    Ok(problem.e_rms(reached))
}

/// Squared errors of all positions and of all normals.
fn errors(found: &[Removals]) -> (f64, f64) {
    let sum = |of: fn(&Removals) -> f64| found.iter().map(of).sum();
    (sum(|removals| removals.position_error), sum(|removals| removals.normal_error))
}

/// An offer to take influences of a vertex out.
struct Offer {
    /// Squared error for each influence.
    price: f64,
    vertex: u32,
    /// Number in the vertex's removals.
    to: u32,
}

/// Removes the influences that cost least, up to a squared error of `budget` in all; returns how many, and what they cost.
pub(super) fn remove(found: &[Removals], skin: &mut Skin, budget: f64) -> (usize, f64) {
    // The present row is number 0 of a vertex, with one influence less than all number 1 and so on.
    let present: Vec<usize> = (0..found.len()).map(|i| skin.of(i).count()).collect();
    let at = |i: usize, number: usize| match number {
        0 => (0.0, present[i]),
        _ => (found[i].fewer[number - 1].rise, found[i].fewer[number - 1].row.len()),
    };
    // A removal is paid per influence: those of one vertex that are cheaper together go together.
    let mut offers: Vec<Offer> = Vec::new();
    for (i, removals) in found.iter().enumerate() {
        let (mut from, last) = (0, removals.fewer.len());
        while from < last {
            let price = |to: usize| (at(i, to).0 - at(i, from).0) / (at(i, from).1 - at(i, to).1) as f64;
            let cheapest = (from + 1..=last).min_by(|&a, &b| price(a).total_cmp(&price(b)).then(b.cmp(&a)));
            let Some(to) = cheapest else { break };
            offers.push(Offer { price: price(to), vertex: i as u32, to: to as u32 });
            from = to;
        }
    }
    let order = |a: &Offer, b: &Offer| a.price.total_cmp(&b.price).then((a.vertex, a.to).cmp(&(b.vertex, b.to)));
    offers.sort_unstable_by(order);
    let (mut spent, mut count) = (0.0, 0);
    let mut taken = vec![0usize; found.len()];
    for Offer { vertex, to, .. } in offers {
        let (i, to) = (vertex as usize, to as usize);
        let (before, after) = (at(i, taken[i]), at(i, to));
        if spent + after.0 - before.0 > budget {
            break;
        }
        spent += after.0 - before.0;
        count += before.1 - after.1;
        taken[i] = to;
    }
    for (i, &to) in taken.iter().enumerate().filter(|(_, to)| **to > 0) {
        let Fewer { row, rest, normal, .. } = &found[i].fewer[to - 1];
        skin.set(i, row.iter().copied());
        (skin.rest[i], skin.normals[i]) = (*rest, *normal);
    }
    (count, spent)
}
