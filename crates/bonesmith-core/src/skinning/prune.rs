//! Fewer influences where they buy nothing: the ones whose removal raises the error least are taken out, up to a share of it.
//!
//! For a vertex with prediction `p`, residual `r` and the bones' own predictions `a_j`, other weights `w` leave
//!
//! ```text
//! |r - sum_j w_j d_j|^2 = |r|^2 - 2 sum_j w_j (r . d_j) + sum_jk w_j w_k (d_j . d_k)      d_j = a_j - p
//! ```
//!
//! so what a vertex loses with one influence less, the weights of the others solved again, is exact and takes no pass over
//! frames. Each vertex gives up its influences one by one, the cheapest first; over all vertices the cheapest removals are taken.

use rayon::prelude::*;

use crate::observer::Cancelled;
use crate::skinning::descent::{Descent, State};
use crate::skinning::motion::Motion;
use crate::skinning::pass;
use crate::skinning::problem::Problem;
use crate::skinning::run::Run;
use crate::skinning::skin::Skin;
use crate::skinning::vertex_step::VertexParams;
use crate::solve::lanes::Mat4;
use crate::solve::simplex::SimplexSolver;

/// The weights of a vertex with one influence less.
#[derive(Clone, Debug)]
struct Fewer {
    /// (bone, weight), falling.
    row: Vec<(usize, f64)>,
    /// Squared error, less that of the present weights.
    rise: f64,
}

/// Removes influences; the squared error, `error` now, rises to at most `limit`. A round over the weights and bones that stay makes up
/// for some of it, which is spent once more. Returns the squared error.
pub(crate) fn prune(
    problem: &Problem,
    state: &mut State,
    vertices: VertexParams,
    (mut error, limit): (f64, f64),
    run: &mut Run<'_>,
) -> Result<f64, Cancelled> {
    run.stage("fewer influences", Some(1))?;
    let remove = |state: &mut State, run: &mut Run<'_>, error: &mut f64| {
        let (removed, cost) = run.timed("prune", || remove(problem, &state.motion, &mut state.skin, limit - *error));
        *error += cost;
        removed
    };
    if remove(state, run, &mut error) == 0 || run.is_over() {
        return Ok(error);
    }
    // No newcomers: vertices keep the bones that they have.
    let mut descent = Descent::new(problem, VertexParams { newcomers: 0, ..vertices });
    descent.rounds(state, 1, run)?;
    error = descent.squared_error;
    remove(state, run, &mut error);
    Ok(error)
}

/// Removes the influences that cost least, up to a squared error of `budget` in all; returns how many, and what they cost.
pub(super) fn remove(problem: &Problem, motion: &Motion, skin: &mut Skin, budget: f64) -> (usize, f64) {
    let slopes = pass::slopes(problem, motion, skin);
    let slots = skin.slots;
    let chain = |i: usize| chain(motion, skin, i, &slopes[i * slots..(i + 1) * slots]);
    let chains: Vec<Vec<Fewer>> = (0..skin.rest.len()).into_par_iter().map(chain).collect();
    // A removal is paid per influence: those of one vertex that are cheaper together go together.
    let mut offers: Vec<(f64, u32, u32)> = Vec::new();
    for (i, chain) in chains.iter().enumerate() {
        let mut from = 0;
        while from < chain.len() {
            let before = if from == 0 { 0.0 } else { chain[from - 1].rise };
            let price = |to: usize| (chain[to].rise - before) / (to + 1 - from) as f64;
            let Some(to) = (from..chain.len()).min_by(|&a, &b| price(a).total_cmp(&price(b)).then(b.cmp(&a))) else {
                break;
            };
            offers.push((price(to), i as u32, to as u32));
            from = to + 1;
        }
    }
    offers.sort_by(|a, b| a.0.total_cmp(&b.0).then((a.1, a.2).cmp(&(b.1, b.2))));
    let (mut spent, mut count) = (0.0, 0);
    let mut taken: Vec<Option<u32>> = vec![None; chains.len()];
    for (_, i, to) in offers {
        let (chain, at) = (&chains[i as usize], taken[i as usize]);
        let before = at.map_or(0.0, |at| chain[at as usize].rise);
        let more = chain[to as usize].rise - before;
        if spent + more > budget {
            break;
        }
        spent += more;
        count += (to - at.map_or(0, |at| at + 1) + 1) as usize;
        taken[i as usize] = Some(to);
    }
    for (i, at) in taken.iter().enumerate() {
        if let Some(at) = at {
            skin.set(i, chains[i][*at as usize].row.iter().copied());
        }
    }
    (count, spent)
}

/// What vertex `i` becomes with one influence less, two less, until one is left. `slopes` are products of its residual with the rows
/// of its bones.
fn chain(motion: &Motion, skin: &Skin, i: usize, slopes: &[[f32; 4]]) -> Vec<Fewer> {
    let mut row: Vec<(usize, f64)> = skin.of(i).collect();
    let count = row.len();
    if count < 2 {
        return Vec::new();
    }
    let rest = skin.rest[i];
    let u = [rest.x, rest.y, rest.z, 1.0];
    let (gram, linear) = differences(motion, &row, &u, slopes);
    let value = |w: &[f64]| {
        let product = |j: usize| (0..count).map(|k| gram[j * count + k] * w[k]).sum::<f64>();
        (0..count).map(|j| w[j] * (product(j) - 2.0 * linear[j])).sum::<f64>()
    };
    let mut solver = SimplexSolver::new(count);
    let mut weights: Vec<f64> = row.iter().map(|(_, w)| *w).collect();
    let mut out = Vec::with_capacity(count - 1);
    while weights.iter().filter(|w| **w > 0.0).count() > 1 {
        let present: Vec<usize> = (0..count).filter(|&k| weights[k] > 0.0).collect();
        let without = |solver: &mut SimplexSolver, gone: usize| {
            let kept: Vec<usize> = present.iter().copied().filter(|&k| k != gone).collect();
            let m = kept.len();
            let sum: f64 = kept.iter().map(|&k| weights[k]).sum();
            let g: Vec<f64> = kept
                .iter()
                .flat_map(|&j| kept.iter().map(move |&k| (j, k)))
                .map(|(j, k)| gram[j * count + k])
                .collect();
            let q: Vec<f64> = kept.iter().map(|&k| linear[k]).collect();
            let mut w: Vec<f64> = kept.iter().map(|&k| weights[k] / sum).collect();
            solver.solve(&g, m, &q, &mut w);
            let mut all = vec![0.0; count];
            kept.iter().zip(w).for_each(|(&k, w)| all[k] = w);
            (value(&all), all)
        };
        let tried = present.iter().map(|&gone| without(&mut solver, gone));
        let Some((rise, best)) = tried.min_by(|a, b| a.0.total_cmp(&b.0)) else { break };
        weights = best;
        row.iter_mut().zip(&weights).for_each(|(slot, w)| slot.1 = *w);
        let mut left: Vec<(usize, f64)> = row.iter().copied().filter(|(_, w)| *w > 0.0).collect();
        left.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        out.push(Fewer { row: left, rise });
    }
    out
}

/// `d_j . d_k` [K, K] and `r . d_j` [K] of a vertex.
fn differences(motion: &Motion, row: &[(usize, f64)], u: &[f64; 4], slopes: &[[f32; 4]]) -> (Vec<f64>, Vec<f64>) {
    let (count, pairs) = (row.len(), motion.pairs());
    let outer = Mat4::outer(u, u);
    let product = |j: usize, k: usize| pairs.block(row[j].0, row[k].0).dot(&outer);
    let own: Vec<f64> = (0..count * count).map(|at| product(at / count, at % count)).collect();
    // a_j . p and p . p.
    let with_all: Vec<f64> = (0..count).map(|j| (0..count).map(|k| row[k].1 * own[j * count + k]).sum()).collect();
    let all: f64 = (0..count).map(|j| row[j].1 * with_all[j]).sum();
    let gram = (0..count * count).map(|at| own[at] - with_all[at / count] - with_all[at % count] + all).collect();
    let along: Vec<f64> = slopes[..count].iter().map(|s| (0..4).map(|c| f64::from(s[c]) * u[c]).sum()).collect();
    let mean: f64 = (0..count).map(|j| row[j].1 * along[j]).sum();
    (gram, along.into_iter().map(|s| s - mean).collect())
}
