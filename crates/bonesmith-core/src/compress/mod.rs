//! Two-layer compression: weights as a product of two sparse matrices [Le2014 ch. 4, Course2014 s.3.5].
//!
//! `W ~ D A`: virtual bones blend at most c master bones (columns of D), vertices blend at most k virtual bones (columns
//! of A). [`compress`] is [Le2014 alg. 3]; it minimises the distance of the weights, or with examples that of
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
//! the dictionary. For a given number, more are added at the end and the most dispensable ones removed
//! (see `factorise`); a target error ends with the fewest virtual bones found for it, optimised (see `target_error`). `c` is
//! never above the number of bones, so that the stated cost is the cost. Atoms that no vertex uses are planted
//! again where the error is largest.

mod coefficients;
mod dictionary;
mod factorise;
mod graph;
mod params;
mod spread;
mod target_error;
#[cfg(test)]
mod tests;

use crate::mesh::MeshSequence;
use crate::model::{Blends, MAX_VIRTUAL_BONES, Rig, Row, SparseWeights, TwoLayerRig};
use crate::observer::{Cancelled, Observer, Stage, Stages};
use crate::skinning::{InfluenceSolver, Metric, Poses, check_size};
use crate::solve::check::ensure;

use factorise::Factorisation;
use graph::Graph;

pub use params::*;

/// Maximum of virtual bones for a target error, as a share of the vertices.
const MAX_VIRTUAL_SHARE: usize = 4;
/// Without examples: factor of the distance of the weights beside that of the rig's own poses.
const WEIGHT_SHARE: f64 = 0.01;
/// Default maximum of master bones of a virtual bone, where poses show which ones matter: more virtual bones with fewer
/// bones each beat fewer with more of the same cost. With weights alone the opposite is true.
const LEAN_SLOTS: usize = 16;
/// Maximum of trades and overshoots: later ones hardly help.
const THOROUGH: (usize, usize) = (10, 3);
/// The same in a hurry: an overshoot for a given number, which finds more than trades in the same time.
const QUICK: (usize, usize) = (0, 1);
/// And for a target error, which adds and removes atoms anyway.
const QUICK_TARGET: (usize, usize) = (1, 0);
/// Influences of the single-layer weights for players without layers.
const FALLBACK_INFLUENCES: usize = 4;

/// Compresses the weights of a rig, in the metric of the poses of `examples` or without them in that of the weights.
pub fn compress(
    rig: &Rig,
    examples: Option<&MeshSequence>,
    params: &TwoLayerParams,
    observer: &mut dyn Observer,
) -> Result<Compressed, CompressError> {
    params.validate()?;
    rig.check()?;
    ensure(!rig.rest.is_empty(), || CompressError::Empty)?;
    check_size(rig)?;
    let mut stages = Stages::new(observer);
    stages.begin(Stage::Prepare, None)?;
    let (metric, own_weights) = match examples {
        Some(_) => (Metric::of_poses(&Poses::new(rig, examples)?, &mut stages)?, 0.0),
        None => own_metric(rig, params, &mut stages)?,
    };
    let ideal = Ideal::new(rig, &metric, examples.is_some(), &mut stages)?;
    let graph = Graph::new(&rig.surface.topology, rig.vertex_count(), |a, b| {
        let main = |i: usize| rig.weights.of(i).next().map_or(0, |(j, _)| j);
        main(a).cmp(&main(b)).then(rig.rest[a].x.total_cmp(&rig.rest[b].x))
    });
    let growth = Growth::new(rig, &metric, &ideal, params, examples.is_some());
    let mut layers = Factorisation::new(&metric, own_weights, &ideal, &graph, growth, stages)?;
    let stop = layers.grow()?;
    let missed = match params.size {
        TwoLayerSize::TargetError(target) => (layers.error() > target).then_some(target),
        _ => None,
    };
    let info = CompressInfo {
        rounds: layers.history.len(),
        stop,
        dense_optimum: examples.map(|_| metric.rms(ideal.errors.iter().sum())),
        missed,
        history: std::mem::take(&mut layers.history),
    };
    let master = Rig { weights: single_layer(rig, &metric, &ideal, &mut layers)?, ..rig.clone() };
    let (blends, weights) = tables(&layers);
    Ok(Compressed { rig: TwoLayerRig { master, blends, weights }, info })
}

/// The metric without examples, and the factor of the weights in it.
///
/// The rig's own animation shows which weights matter where. The weights themselves count a little, so that other animation
/// stays sound too. Weights alone with `weights_only`, or if nothing moves.
fn own_metric(rig: &Rig, params: &TwoLayerParams, stages: &mut Stages<'_>) -> Result<(Metric, f64), CompressError> {
    let animated = rig.clips.first().is_some_and(|clip| clip.frame_count() > 0);
    if params.weights_only || !animated {
        return Ok((Metric::of_weights(&rig.weights, rig.bone_count()), 0.0));
    }
    let mut metric = Metric::of_poses(&Poses::new(rig, None)?, stages)?;
    let strength = metric.add_weights(&rig.weights, WEIGHT_SHARE);
    Ok((metric, strength))
}

/// The limit of dense weights: W and errors of 0, or with examples the optimum `W*` [Le2014 eq. 4.7c].
struct Ideal {
    /// [N].
    rows: Vec<Row>,
    /// [N] squared errors.
    errors: Vec<f64>,
}

impl Ideal {
    fn new(rig: &Rig, metric: &Metric, with_examples: bool, stages: &mut Stages<'_>) -> Result<Self, Cancelled> {
        let (rows, n) = (rig.weights.rows(), rig.vertex_count());
        if !with_examples {
            return Ok(Self { rows, errors: vec![0.0; n] });
        }
        let solve = |solver: &mut InfluenceSolver<_>, i: usize| {
            solver.load_vertex(metric, i);
            let row = solver.dense(&rows[i]);
            let error = metric.error(i, row.iter().copied());
            (row, error)
        };
        let solved = stages.map(n, InfluenceSolver::dense_form, solve)?;
        let (rows, errors) = solved.into_iter().unzip();
        Ok(Self { rows, errors })
    }
}

/// How far and how fast the dictionary grows.
#[derive(Clone)]
struct Growth {
    /// Sigma: maximum of atoms.
    limit: usize,
    /// epsilon, as excess over the ideal; 0 without a target.
    target: f64,
    /// c.
    slots: usize,
    /// k.
    influences: usize,
    /// Maximum of rounds once all atoms are there.
    rounds: usize,
    /// Maximum of trades after them.
    trades: usize,
    /// Maximum of overshoots after those.
    overshoots: usize,
    /// Rounds, trades and overshoots end when one lowers the squared error by less than this share.
    tolerance: f64,
    with_examples: bool,
}

impl Growth {
    fn new(rig: &Rig, metric: &Metric, ideal: &Ideal, params: &TwoLayerParams, with_examples: bool) -> Self {
        let n = rig.vertex_count();
        let poses = metric.forms > 1;
        let usual = (rig.weights.max_influences() + 1).min(if poses { LEAN_SLOTS } else { usize::MAX });
        let slots = params.master_influences.unwrap_or(usual).min(rig.bone_count()).max(1);
        let (limit, target) = match params.size {
            TwoLayerSize::VirtualBones(count) => (count, 0.0),
            TwoLayerSize::Equivalent(k) => (((k - params.influences as f64) * n as f64 / slots as f64) as usize, 0.0),
            TwoLayerSize::TargetError(error) => {
                let optimum = metric.rms(ideal.errors.iter().sum());
                (n / MAX_VIRTUAL_SHARE, (error * error - optimum * optimum).max(0.0).sqrt())
            }
        };
        let thorough = params.thorough || with_examples;
        let (trades, overshoots) = match thorough {
            true => THOROUGH,
            false if target > 0.0 => QUICK_TARGET,
            false => QUICK,
        };
        Self {
            limit: limit.clamp(2, MAX_VIRTUAL_BONES.min(n).max(2)),
            target,
            slots,
            influences: params.influences,
            rounds: params.max_rounds.unwrap_or(if thorough { 15 } else { 4 }),
            trades,
            overshoots,
            tolerance: params.tolerance,
            with_examples,
        }
    }

    /// Atoms to add before the next joint optimisation [Le2014 eq. 4.3].
    fn batch(&self, error: f64, atoms: usize) -> usize {
        let ratio = if self.target > 0.0 { (error / self.target).min(2.0) } else { 2.0 };
        let wanted = ((ratio - 1.0).max(0.0) * atoms as f64) as usize + 1;
        wanted.min(self.limit.saturating_sub(atoms))
    }
}

/// Float32 tables of both layers.
fn tables(layers: &Factorisation<'_>) -> (Blends, SparseWeights) {
    let Factorisation { dictionary, coefficients, .. } = layers;
    let users = coefficients.users(dictionary.len());
    // In the order of their vertices: virtual bones of near vertices are near in memory.
    let place = |r: usize| users[r].iter().map(|&i| u64::from(i)).sum::<u64>() / users[r].len() as u64;
    let mut used: Vec<usize> = (0..dictionary.len()).filter(|&r| !users[r].is_empty()).collect();
    used.sort_by_key(|&r| place(r));
    let mut number = vec![0; dictionary.len()];
    used.iter().enumerate().for_each(|(n, &r)| number[r] = n);
    let atom = |&r: &usize| -> Row {
        let atom = dictionary.atom(r).iter().enumerate();
        atom.filter(|(_, w)| **w != 0.0).map(|(j, &w)| (j, w)).collect()
    };
    let atoms: Vec<Row> = used.iter().map(atom).collect();
    let slots = atoms.iter().map(Vec::len).max().unwrap_or(1).max(1);
    let blends = Blends::from_rows(slots, atoms.iter().map(Vec::as_slice));
    let row = |i: usize| coefficients.of(i).map(|(r, w)| (number[r], w)).collect();
    let rows: Vec<Row> = (0..coefficients.errors.len()).map(row).collect();
    (blends, SparseWeights::from_rows(coefficients.slots, &rows))
}

/// Single-layer weights of at most [`FALLBACK_INFLUENCES`]: with examples the best choice for the poses, else the largest.
fn single_layer(
    rig: &Rig,
    metric: &Metric,
    ideal: &Ideal,
    layers: &mut Factorisation<'_>,
) -> Result<SparseWeights, Cancelled> {
    layers.stages.begin(Stage::SingleLayerWeights, None)?;
    if rig.weights.max_influences() <= FALLBACK_INFLUENCES {
        return Ok(rig.weights.clone());
    }
    let k = FALLBACK_INFLUENCES.min(rig.bone_count());
    if !layers.growth.with_examples {
        return Ok(SparseWeights::from_rows(k, &rig.weights.largest(k)));
    }
    let choose = |solver: &mut InfluenceSolver<_>, i: usize| {
        solver.load_vertex(metric, i);
        let mut row = ideal.rows[i].clone();
        solver.choose(k, &mut row);
        row
    };
    let rows = layers.stages.map(rig.vertex_count(), InfluenceSolver::dense_form, choose)?;
    Ok(SparseWeights::from_rows(k, &rows))
}
