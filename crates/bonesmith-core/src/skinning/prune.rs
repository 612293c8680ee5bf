//! Fewer influences where they buy nothing: the ones whose removal raises the error least are taken out, up to a share of it.
//!
//! For a vertex with prediction `p`, residual `r` and the bones' own predictions `a_j`, other weights `w` leave
//!
//! ```text
//! |r - sum_j w_j d_j|^2 = |r|^2 - 2 sum_j w_j (r . d_j) + sum_jk w_j w_k (d_j . d_k)      d_j = a_j - p
//! ```
//!
//! (normals, where they count, add the same again), so what a vertex loses with one influence less, the weights of the others solved again, is exact and takes no pass over
//! frames. Each vertex gives up its influences one by one, the cheapest first; over all vertices the cheapest removals are taken.

use glam::DVec3;

use crate::observer::{Cancelled, Stage};
use crate::skinning::descent::{Descent, State};
use crate::skinning::moments::Moments;
use crate::skinning::motion::Motion;
use crate::skinning::pass::{self, Shown};
use crate::skinning::problem::Problem;
use crate::skinning::products::BonePairs;
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

/// Removes influences; the E_RMS rises to about `limit` of the present one at most, and normals, where they count, by no more. A round
/// over the weights and bones that stay makes up for some of it, which is spent once more. Returns the E_RMS.
pub(crate) fn prune(
    problem: &Problem,
    state: &mut State,
    vertices: VertexParams,
    limit: impl Fn(f64) -> f64,
    run: &mut Run<'_>,
) -> Result<f64, Cancelled> {
    run.stage(Stage::FewerInfluences, Some(1))?;
    let gather = |state: &State| pass::gather(problem, &state.motion, &state.skin);
    let e_rms = |moments: &Moments| problem.e_rms(moments.squared_error - moments.normal_error);
    let before = run.timed("prune", || gather(state));
    let now = e_rms(&before);
    let budget = problem.squared_error(limit(now)) - problem.squared_error(now);
    let most = before.squared_error + budget;
    drop(before);
    run.report()?;
    let removed = run.timed("prune", || remove(problem, &state.motion, &mut state.skin, budget));
    if removed.0 > 0 && !run.is_over() {
        // No newcomers: vertices keep the bones that they have.
        let mut descent = Descent::new(problem, VertexParams { newcomers: 0, ..vertices });
        descent.rounds(state, 1, run)?;
        let left = most - descent.squared_error;
        drop(descent);
        run.report()?;
        run.timed("prune", || remove(problem, &state.motion, &mut state.skin, left));
    }
    Ok(run.timed("prune", || e_rms(&gather(state))))
}

/// Removes the influences that cost least, up to a squared error of `budget` in all; returns how many, and what they cost.
pub(super) fn remove(problem: &Problem, motion: &Motion, skin: &mut Skin, budget: f64) -> (usize, f64) {
    let chains = pass::each_block(problem, motion, skin, |shown| {
        let chain = |at: usize| {
            let mut chain = chain(&shown, at);
            chain.iter_mut().for_each(|fewer| fewer.rise *= problem.loss.of(shown.first + at));
            chain
        };
        (0..shown.rows.rest.len()).map(chain).collect()
    });
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

/// Products of a vertex's trajectories with the rows of its own bones, [K] each.
struct Slopes {
    /// Of the residual.
    position: Vec<[f32; 4]>,
    /// Of the true normal, where normals count.
    normal: Option<Vec<[f32; 3]>>,
}

impl Slopes {
    fn new(shown: &Shown<'_>, at: usize, row: &[(usize, f64)]) -> Self {
        let of_normal = |along: &[f32]| row.iter().map(|(j, _)| shown.slope(along, at, *j)).collect();
        Self {
            position: row.iter().map(|(j, _)| shown.slope(shown.along, at, *j)).collect(),
            normal: shown.normals_along.map(of_normal),
        }
    }
}

/// What vertex number `at` becomes with one influence less, two less, until one is left.
fn chain(shown: &Shown<'_>, at: usize) -> Vec<Fewer> {
    let mut row: Vec<(usize, f64)> = shown.rows.of(at).collect();
    let count = row.len();
    if count < 2 {
        return Vec::new();
    }
    let slopes = Slopes::new(shown, at, &row);
    let normal = if slopes.normal.is_some() { shown.rows.normals[at] } else { DVec3::ZERO };
    let rest = (shown.rows.rest[at].extend(1.0).to_array(), normal.extend(0.0).to_array());
    let (gram, linear) = differences(shown.bones.pairs(), &row, rest, &slopes);
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
        if let Some(bones) = shown.bones.numbers() {
            left.iter_mut().for_each(|slot| slot.0 = bones[slot.0] as usize);
        }
        left.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        out.push(Fewer { row: left, rise });
    }
    out
}

/// `d_j . d_k` [K, K] and `r . d_j` [K] of a vertex with these homogeneous rest vectors, position and normal.
fn differences(
    pairs: &BonePairs,
    row: &[(usize, f64)],
    (u, n): ([f64; 4], [f64; 4]),
    slopes: &Slopes,
) -> (Vec<f64>, Vec<f64>) {
    let count = row.len();
    let products = |outer: Mat4| -> Vec<f64> {
        let product = |at: usize| pairs.block(row[at / count].0, row[at % count].0).dot(&outer);
        (0..count * count).map(product).collect()
    };
    // a_j . p
    let with_all = |own: &[f64]| -> Vec<f64> {
        (0..count).map(|j| (0..count).map(|k| row[k].1 * own[j * count + k]).sum()).collect()
    };
    let dot = |s: &[f32], rest: &[f64]| s.iter().zip(rest).map(|(s, x)| f64::from(*s) * x).sum::<f64>();
    let mut own = products(Mat4::outer(&u, &u));
    let mut along: Vec<f64> = slopes.position[..count].iter().map(|s| dot(s, &u)).collect();
    if let Some(of_normal) = &slopes.normal {
        let own_normal = products(Mat4::outer(&n, &n));
        // The residual's product: that of the true normal less that of the present one.
        let present = with_all(&own_normal);
        (0..count).for_each(|j| along[j] += dot(&of_normal[j], &n) - present[j]);
        own.iter_mut().zip(own_normal).for_each(|(sum, x)| *sum += x);
    }
    let mixed = with_all(&own);
    let all: f64 = (0..count).map(|j| row[j].1 * mixed[j]).sum();
    let gram = (0..count * count).map(|at| own[at] - mixed[at / count] - mixed[at % count] + all).collect();
    let mean: f64 = (0..count).map(|j| row[j].1 * along[j]).sum();
    (gram, along.into_iter().map(|s| s - mean).collect())
}
