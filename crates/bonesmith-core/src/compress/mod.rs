//! Two-layer compression: weights as a product of two sparse matrices [Le2014 ch. 4, Course2014 s.3.5].
//!
//! `W ~ D A`: virtual bones blend at most c master bones (columns of D), vertices blend at most k virtual bones (columns
//! of A). [`compress`] is [Le2014 alg. 3]; what is minimised is the distance of the weights, or with examples that of
//! the poses, both as a [`Metric`].
//!
//! | paper | here |
//! |---|---|
//! | W, W* | `Ideal::rows` |
//! | E_i^2, E_i*^2 (eq. 4.7) | `Coefficients::errors`, `Ideal::errors` |
//! | Delta_W, Delta_E | `Metric::rms` of sums of these |
//! | D, A | [`dictionary`], [`coefficients`] |
//! | kappa (eq. 4.3 / 54) | `Growth::batch` |
//! | Sigma, epsilon | `Growth::limit`, `Growth::target` |
//!
//! Deviations. The dictionary update with examples is exact in the metric of the poses (see `dictionary`), so that
//! the error never rises. With a number of virtual bones and no target, eq. 4.3 has no epsilon: batches double
//! the dictionary. Where the number is given, more are added in the end and those that would be missed least taken away
//! (see `factorise`); a target error ends with the fewest virtual bones found for it, optimised (see `fewest`). `c` is
//! never above the number of bones, so that the cost that is promised is the cost. Atoms that no vertex uses are planted
//! anew where the error is largest.

mod coefficients;
mod dictionary;
mod factorise;
mod fewest;
mod graph;
mod params;
#[cfg(test)]
mod tests;

use std::ops::ControlFlow;

use rayon::prelude::*;

use crate::mesh::sequence::MeshSequence;
use crate::model::rig::Rig;
use crate::model::two_layer::{Blends, MAX_VIRTUAL_BONES, TwoLayerRig};
use crate::model::weights::SparseWeights;
use crate::observer::{Observer, Progress};
use crate::reduce::{ReduceMethod, ReduceParams, reduce};
use crate::skinning::choice::{InfluenceSolver, Row as DenseRow};
use crate::skinning::poses::Poses;
use crate::skinning::quadratic::Metric;

use factorise::Solver;
use graph::Graph;

pub use params::*;

/// Most virtual bones for a target error, as a share of the vertices.
const MAX_VIRTUAL_SHARE: usize = 4;
/// Without examples: how much weights count beside the rig's own poses.
const WEIGHT_SHARE: f64 = 0.01;
/// Most master bones of a virtual bone, unless told, where poses say which ones matter: more and leaner virtual bones beat
/// fewer and fuller ones of the same cost. Where only weights are known, leaving some out costs more than it brings.
const LEAN_SLOTS: usize = 16;
/// Most trades and overshoots: later ones hardly pay.
const THOROUGH: (usize, usize) = (10, 3);
/// The same in a hurry: an overshoot for a given number, which finds more than the trade it takes the time of.
const QUICK: (usize, usize) = (0, 1);
/// And for a target error, which is all about adding and taking away.
const QUICK_TARGET: (usize, usize) = (1, 0);
/// Influences of the single-layer weights that players without layers use.
const FALLBACK_INFLUENCES: usize = 4;

/// Compresses the weights of a rig, in the metric of the poses of `examples` or without them in that of the weights.
pub fn compress(
    rig: &Rig,
    examples: Option<&MeshSequence>,
    params: &TwoLayerParams,
    observer: &mut dyn Observer,
) -> Result<Compressed, CompressError> {
    params.validate()?;
    let mut stage = Stage { name: "preparing", with_examples: examples.is_some(), observer };
    stage.report(0, None, None)?;
    let (metric, own_weights) = match examples {
        Some(_) => (Metric::of_poses(&Poses::new(rig, examples)?), 0.0),
        None => own_metric(rig, params)?,
    };
    let params = &TwoLayerParams { thorough: params.thorough || examples.is_some(), ..params.clone() };
    let ideal = Ideal::new(rig, &metric, examples.is_some());
    let graph = Graph::new(&rig.surface.topology, rig.vertex_count(), |a, b| {
        let main = |i: usize| rig.weights.of(i).next().map_or(0, |(j, _)| j);
        main(a).cmp(&main(b)).then(rig.rest[a].x.total_cmp(&rig.rest[b].x))
    });
    let growth = Growth::new(rig, &metric, &ideal, params);
    let mut solver = Solver::new(&metric, own_weights, &ideal, &graph, growth.slots, params.influences);
    let stop = solver.grow(&growth, params, &mut stage)?;
    let error = solver.error();
    let missed = match params.size {
        TwoLayerSize::TargetError(target) => (error > target).then_some(target),
        _ => None,
    };
    let info = CompressInfo {
        rounds: solver.history.len(),
        stop,
        dense_optimum: examples.map(|_| metric.rms(ideal.errors.iter().sum())),
        missed,
        history: std::mem::take(&mut solver.history),
    };
    let rig = finish(rig, examples, &solver, &mut stage)?;
    Ok(Compressed { rig, info })
}

/// Without examples: the rig's own animation shows which weights matter where, and the weights themselves count a little,
/// so that other animation stays sound too; how much beside a unit of the poses is told as well. Weights alone if that is
/// asked for, or nothing moves.
fn own_metric(rig: &Rig, params: &TwoLayerParams) -> Result<(Metric, f64), CompressError> {
    let animated = rig.clips.first().is_some_and(|clip| clip.frame_count() > 0);
    if params.weights_only || !animated {
        return Ok((Metric::of_weights(&rig.weights, rig.bone_count()), 0.0));
    }
    let mut metric = Metric::of_poses(&Poses::new(rig, None)?);
    let strength = metric.add_weights(&rig.weights, WEIGHT_SHARE);
    Ok((metric, strength))
}

/// Progress out, a wish to stop in.
struct Stage<'a> {
    name: &'static str,
    with_examples: bool,
    observer: &'a mut dyn Observer,
}

impl Stage<'_> {
    fn report(&mut self, step: usize, steps: Option<usize>, error: Option<f64>) -> Result<(), CompressError> {
        let e_rms = error.filter(|_| self.with_examples);
        match self.observer.report(&Progress { stage: self.name, step, steps, e_rms }) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(crate::observer::Cancelled.into()),
        }
    }
}

/// What dense weights could do: W and errors of 0, or with examples the optimum `W*` [Le2014 eq. 4.7c].
struct Ideal {
    /// [N].
    rows: Vec<DenseRow>,
    /// [N] squared errors.
    errors: Vec<f64>,
}

impl Ideal {
    fn new(rig: &Rig, metric: &Metric, with_examples: bool) -> Self {
        let n = rig.vertex_count();
        let given = |i: usize| -> DenseRow { rig.weights.of(i).map(|(j, w)| (j, f64::from(w))).collect() };
        if !with_examples {
            return Self { rows: (0..n).map(given).collect(), errors: vec![0.0; n] };
        }
        let solve = |solver: &mut InfluenceSolver<_>, i: usize| {
            solver.load_vertex(metric, i);
            let row = solver.dense(&given(i));
            let error = metric.error(i, row.iter().copied());
            (row, error)
        };
        let solved = (0..n).into_par_iter().map_init(InfluenceSolver::dense_form, solve).collect::<Vec<_>>();
        let (rows, errors) = solved.into_iter().unzip();
        Self { rows, errors }
    }
}

/// How far and how fast the dictionary grows.
struct Growth {
    /// Sigma: most atoms.
    limit: usize,
    /// epsilon, as excess over the ideal; 0 without a target.
    target: f64,
    /// c.
    slots: usize,
    /// Most rounds once all atoms are there.
    rounds: usize,
    /// Most trades after them.
    trades: usize,
    /// Most overshoots after those.
    overshoots: usize,
}

impl Growth {
    fn new(rig: &Rig, metric: &Metric, ideal: &Ideal, params: &TwoLayerParams) -> Self {
        let n = rig.vertex_count();
        let poses = metric.forms > 1;
        let usual = (rig.weights.max_influences() + 1).min(if poses { LEAN_SLOTS } else { usize::MAX });
        let slots = params.master_influences.unwrap_or(usual).min(rig.bone_count()).max(1);
        let most = MAX_VIRTUAL_BONES.min(n).max(2);
        let (limit, target) = match params.size {
            TwoLayerSize::VirtualBones(count) => (count, 0.0),
            TwoLayerSize::Equivalent(k) => (((k - params.influences as f64) * n as f64 / slots as f64) as usize, 0.0),
            TwoLayerSize::TargetError(error) => {
                let optimum = metric.rms(ideal.errors.iter().sum());
                (n / MAX_VIRTUAL_SHARE, (error * error - optimum * optimum).max(0.0).sqrt())
            }
        };
        let rounds = params.max_rounds.unwrap_or(if params.thorough { 15 } else { 4 });
        let (trades, overshoots) = match params.thorough {
            true => THOROUGH,
            false if target > 0.0 => QUICK_TARGET,
            false => QUICK,
        };
        Self { limit: limit.clamp(2, most), target, slots, rounds, trades, overshoots }
    }

    /// Atoms to add before the next joint optimisation [Le2014 eq. 4.3].
    fn batch(&self, error: f64, atoms: usize) -> usize {
        let ratio = if self.target > 0.0 { (error / self.target).min(2.0) } else { 2.0 };
        let wanted = ((ratio - 1.0).max(0.0) * atoms as f64) as usize + 1;
        wanted.min(self.limit.saturating_sub(atoms))
    }
}

/// Float32 tables, and single-layer weights beside them.
fn finish(
    rig: &Rig,
    examples: Option<&MeshSequence>,
    solver: &Solver<'_>,
    stage: &mut Stage<'_>,
) -> Result<TwoLayerRig, CompressError> {
    stage.name = "single-layer weights";
    stage.report(0, None, None)?;
    let users = solver.coefficients.users(solver.dictionary.len());
    // In the order of the vertices that blend them: those near each other find theirs near each other in memory.
    let place = |r: usize| users.of(r).iter().map(|&i| u64::from(i)).sum::<u64>() / users.of(r).len() as u64;
    let mut used: Vec<usize> = (0..solver.dictionary.len()).filter(|&r| !users.of(r).is_empty()).collect();
    used.sort_by_key(|&r| place(r));
    let mut number = vec![0; solver.dictionary.len()];
    used.iter().enumerate().for_each(|(n, &r)| number[r] = n);
    let row = |&r: &usize| -> DenseRow {
        let atom = solver.dictionary.atom(r).iter().enumerate();
        atom.filter(|(_, w)| **w != 0.0).map(|(j, &w)| (j, w)).collect()
    };
    let rows: Vec<DenseRow> = used.iter().map(row).collect();
    let slots = rows.iter().map(Vec::len).max().unwrap_or(1).max(1);
    let blends = Blends::from_rows(slots, rows.iter().map(Vec::as_slice));
    let mut weights = SparseWeights::new(rig.vertex_count(), solver.coefficients.slots);
    for i in 0..rig.vertex_count() {
        let row: DenseRow = solver.coefficients.of(i).map(|(r, w)| (number[r], w)).collect();
        weights.set(i, &row);
    }
    let method = if examples.is_some() { ReduceMethod::Bonesmith } else { ReduceMethod::KLargest };
    let fallback = ReduceParams { influences: FALLBACK_INFLUENCES, method, smooth: 0.0, ..ReduceParams::default() };
    let master = match reduce(rig, examples, &fallback, &mut crate::observer::Silent) {
        Ok(reduced) => reduced.rig,
        Err(_) => unreachable!("rig and examples were checked, and nobody stops a silent reduction"),
    };
    Ok(TwoLayerRig { master, blends, weights })
}
