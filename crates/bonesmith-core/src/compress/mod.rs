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
//! again where the error is largest. At the end rest positions, bones and both layers are solved in turn (see `refine`), which the thesis
//! does not do.

mod coefficients;
mod dictionary;
mod factorise;
mod graph;
mod params;
mod refine;
mod spread;
mod target_error;
#[cfg(test)]
mod tests;

use crate::mesh::MeshSequence;
use crate::model::{Blends, Clip, MAX_VIRTUAL_BONES, Rig, Row, SparseWeights, TwoLayerRig};
use crate::observer::{Cancelled, Observer, Stage, Stages};
use crate::skinning::{InfluenceSolver, Metric, Momentum, Poses, check_size, quadratic};
use crate::solve::check::ensure;

use factorise::{Factorisation, Parts};
use graph::Graph;
use refine::{Freedoms, Refinement};

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
/// Pull of a refined rest position to where it was: with examples, and with the rig's own poses, which stand for others.
const EXAMPLES_PULL: f64 = 1e-5;
const OWN_PULL: f64 = 0.01;
/// Largest momentum of a refinement.
const MAX_MOMENTUM: f64 = 0.9;
/// A refinement ends when a round lowers the squared error by less than this share.
const REFINE_TOLERANCE: f64 = 2e-3;
/// Rounds of a refinement of which one lets vertices take other atoms: it costs as much as the rest.
const SPREAD_EVERY: usize = 2;
/// Two layers pay if they store at most this share of what the weights of the rig take.
const MIN_SAVING: f64 = 0.98;
/// Influences of the single-layer weights for players without layers.
const FALLBACK_INFLUENCES: usize = 4;

/// Compresses the weights of a rig, in the metric of the poses of all its clips, with `examples` in the clips that they are of; or in
/// that of the weights.
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
    let slots = slots(rig, params, examples.is_some() || uses_own_poses(rig, params));
    if let Some(atoms) = limit(rig, params, slots) {
        check_gain(rig, params, atoms * slots)?;
    }
    let mut poses = match examples.is_some() || uses_own_poses(rig, params) {
        true => Some(Poses::new(rig, examples)?),
        false => None,
    };
    let (metric, own_weights) = metric(rig, poses.as_ref(), examples.is_some(), None, &mut stages)?;
    let ideal = Ideal::new(rig, &metric, examples.is_some(), &mut stages)?;
    let graph = Graph::new(&rig.surface.topology, rig.vertex_count(), |a, b| {
        let main = |i: usize| rig.weights.of(i).next().map_or(0, |(j, _)| j);
        main(a).cmp(&main(b)).then(rig.rest[a].x.total_cmp(&rig.rest[b].x))
    });
    let growth = Growth::new(rig, &metric, &ideal, params, slots, examples.is_some());
    let mut layers = Factorisation::new(&metric, own_weights, &ideal, &graph, growth, stages)?;
    let stop = layers.grow()?;
    let dense_optimum = examples.map(|_| metric.rms(ideal.errors.iter().sum()));
    let inputs = Inputs { rig, params, ideal: &ideal, graph: &graph, own_weights };
    // A target that is reached is reached with the fewest virtual bones found; less error would only mean that there are too many.
    let wanted = match params.size {
        TwoLayerSize::TargetError(target) => layers.error() > target,
        _ => true,
    };
    let Finished { parts, master, error } = match &mut poses {
        Some(poses) if wanted && params.refine_rounds(examples.is_some()) > 0 => {
            let parts = layers.into_parts();
            drop(metric);
            inputs.refined(parts, poses)?
        }
        _ => {
            let error = layers.error();
            let weights = single_layer(rig, &metric, &ideal, &layers.growth, &mut layers.stages)?;
            Finished { parts: layers.into_parts(), master: Rig { weights, ..rig.clone() }, error }
        }
    };
    let missed = match params.size {
        TwoLayerSize::TargetError(target) => (error > target).then_some(target),
        _ => None,
    };
    let info =
        CompressInfo { rounds: parts.history.len(), stop, dense_optimum, missed, history: parts.history.clone() };
    let (blends, weights) = tables(&parts, rig.bone_count());
    check_gain(rig, params, blends.count() * blends.slots())?;
    Ok(Compressed { rig: TwoLayerRig { master, blends, weights }, info })
}

/// A compression that is done: both layers, the rig below them, and the error.
struct Finished<'a> {
    parts: Parts<'a>,
    master: Rig,
    error: f64,
}

/// What a refinement starts from.
struct Inputs<'a> {
    rig: &'a Rig,
    params: &'a TwoLayerParams,
    ideal: &'a Ideal,
    graph: &'a Graph,
    own_weights: f64,
}

impl Inputs<'_> {
    /// Rounds over rest positions, bones and both layers (see `refine`).
    fn refined<'p>(&self, mut parts: Parts<'p>, poses: &mut Poses) -> Result<Finished<'p>, CompressError> {
        let Self { rig, params, ideal, graph, own_weights } = *self;
        let with_examples = parts.growth.with_examples;
        let rounds = params.refine_rounds(with_examples);
        let freedoms = Freedoms {
            rest: !params.keep_rest,
            bones: !params.keep_motion && is_free(rig) && poses.frames.len() == frame_count(rig),
            pull: if with_examples { EXAMPLES_PULL } else { OWN_PULL },
        };
        let refinement = Refinement { rig, freedoms, start: poses.problem.rest.clone() };
        parts.stages.begin(Stage::RestPoseBonesAndLayers, Some(rounds))?;
        let mut momentum = Momentum::new(MAX_MOMENTUM);
        let mut total = parts.coefficients.total();
        for round in 0..rounds {
            let (rest, motion) = (poses.problem.rest.clone(), poses.motion.clone());
            let saved = (parts.atoms.clone(), parts.coefficients.clone(), parts.history.clone());
            if freedoms.bones {
                let atoms = atom_rows(&parts.atoms, rig.bone_count());
                let layers = refine::Layers { atoms: &atoms, coefficients: &parts.coefficients };
                refinement.move_bones(poses, &layers, &mut parts.stages)?;
                momentum.look_ahead(&mut poses.motion, |new, old, beta| refinement.extrapolated(new, old, beta));
            }
            parts = self.round(parts, poses, &refinement, round)?;
            if parts.coefficients.total() > total && momentum.step_back(&mut poses.motion) {
                (parts.atoms, parts.coefficients, parts.history) = saved.clone();
                poses.problem.rest.clone_from(&rest);
                parts = self.round(parts, poses, &refinement, round)?;
            }
            if parts.coefficients.total() > total {
                // No more than rounding is left to gain.
                (parts.atoms, parts.coefficients, parts.history) = saved;
                (poses.problem.rest, poses.motion) = (rest, motion);
                break;
            }
            let before = std::mem::replace(&mut total, parts.coefficients.total());
            let e_rms = parts.history.last().map(|round| round.error);
            parts.stages.at(round + 1, e_rms)?;
            if total > before * (1.0 - REFINE_TOLERANCE) {
                break;
            }
        }
        let (metric, _) = metric(rig, Some(poses), with_examples, Some(own_weights), &mut parts.stages)?;
        let layers = Factorisation::resume(&metric, own_weights, ideal, graph, parts);
        let error = layers.error();
        let mut parts = layers.into_parts();
        let weights = single_layer(rig, &metric, ideal, &parts.growth, &mut parts.stages)?;
        let space = &poses.problem.space;
        let rest = match freedoms.rest {
            true => poses.problem.rest.iter().map(|u| space.model_point(*u).as_vec3()).collect(),
            false => rig.rest.clone(),
        };
        let clips = if freedoms.bones { poses.clips(rig) } else { rig.clips.clone() };
        Ok(Finished { parts, master: Rig { rest, clips, weights, ..rig.clone() }, error })
    }
}

impl Inputs<'_> {
    /// Rest positions for the present motion, then one round over both layers.
    fn round<'p>(
        &self,
        mut parts: Parts<'p>,
        poses: &mut Poses,
        refinement: &Refinement<'_>,
        round: usize,
    ) -> Result<Parts<'p>, Cancelled> {
        let Self { rig, ideal, graph, own_weights, .. } = *self;
        let projections = quadratic::project(poses, &mut parts.stages)?;
        if refinement.freedoms.rest {
            let atoms = atom_rows(&parts.atoms, rig.bone_count());
            let layers = refine::Layers { atoms: &atoms, coefficients: &parts.coefficients };
            refinement.move_rest(poses, &layers, &projections);
        }
        let mut metric = Metric::of_projections(poses, &projections);
        if !parts.growth.with_examples {
            metric.add_weights(&rig.weights, own_weights);
        }
        let mut layers = Factorisation::resume(&metric, own_weights, ideal, graph, parts);
        layers.round(round == 0, round % SPREAD_EVERY == 1)?;
        Ok(layers.into_parts())
    }
}

/// Whether bones are free: the joints of a skeleton would come apart.
fn is_free(rig: &Rig) -> bool {
    rig.bones.iter().all(|bone| bone.parent.is_none())
}

/// F of all clips.
fn frame_count(rig: &Rig) -> usize {
    rig.clips.iter().map(Clip::frame_count).sum()
}

/// [q] atoms as rows of (bone, weight), from [q, B].
fn atom_rows(atoms: &[f64], bones: usize) -> Vec<Row> {
    let row = |atom: &[f64]| atom.iter().enumerate().filter(|(_, w)| **w != 0.0).map(|(j, &w)| (j, w)).collect();
    atoms.chunks_exact(bones).map(row).collect()
}

/// Whether the rig's own poses count, where there are no examples.
fn uses_own_poses(rig: &Rig, params: &TwoLayerParams) -> bool {
    !params.weights_only && rig.clips.iter().any(|clip| clip.frame_count() > 0)
}

/// c.
fn slots(rig: &Rig, params: &TwoLayerParams, poses: bool) -> usize {
    let usual = (rig.weights.max_influences() + 1).min(if poses { LEAN_SLOTS } else { usize::MAX });
    params.master_influences.unwrap_or(usual).min(rig.bone_count()).max(1)
}

/// Sigma, where the error does not decide.
fn limit(rig: &Rig, params: &TwoLayerParams, slots: usize) -> Option<usize> {
    match params.size {
        TwoLayerSize::VirtualBones(count) => Some(count.min(rig.vertex_count())),
        TwoLayerSize::Equivalent(k) => {
            Some(((k - params.influences as f64) * rig.vertex_count() as f64 / slots as f64) as usize)
        }
        TwoLayerSize::TargetError(_) => None,
    }
}

/// Refuses two layers whose first has so many slots in all, if they store no less than the weights of the rig.
fn check_gain(rig: &Rig, params: &TwoLayerParams, blends: usize) -> Result<(), CompressError> {
    let (n, influences) = (rig.vertex_count(), rig.weights.max_influences());
    let layers = blends as f64 / n as f64 + params.influences as f64;
    ensure(params.allow_larger || layers < MIN_SAVING * influences as f64, || CompressError::NothingToGain {
        influences,
        layers,
    })
}

/// The metric, and the factor of the weights in it.
///
/// Without examples the rig's own animation shows which weights matter where. The weights themselves count a little, by the factor
/// `strength` where it is known, so that other animation stays sound too. Weights alone where there are no poses.
fn metric(
    rig: &Rig,
    poses: Option<&Poses>,
    with_examples: bool,
    strength: Option<f64>,
    stages: &mut Stages<'_>,
) -> Result<(Metric, f64), Cancelled> {
    let Some(poses) = poses else { return Ok((Metric::of_weights(&rig.weights, rig.bone_count()), 0.0)) };
    let mut metric = Metric::of_poses(poses, stages)?;
    if with_examples {
        return Ok((metric, 0.0));
    }
    let strength = strength.unwrap_or_else(|| WEIGHT_SHARE * metric.mean_diagonal());
    metric.add_weights(&rig.weights, strength);
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
    fn new(
        rig: &Rig,
        metric: &Metric,
        ideal: &Ideal,
        params: &TwoLayerParams,
        slots: usize,
        with_examples: bool,
    ) -> Self {
        let n = rig.vertex_count();
        let limit = limit(rig, params, slots).unwrap_or(n / MAX_VIRTUAL_SHARE);
        let target = match params.size {
            TwoLayerSize::TargetError(error) => {
                let optimum = metric.rms(ideal.errors.iter().sum());
                (error * error - optimum * optimum).max(0.0).sqrt()
            }
            _ => 0.0,
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
fn tables(parts: &Parts<'_>, bones: usize) -> (Blends, SparseWeights) {
    let Parts { atoms, coefficients, .. } = parts;
    let atoms = atom_rows(atoms, bones);
    let users = coefficients.users(atoms.len());
    // In the order of their vertices: virtual bones of near vertices are near in memory.
    let place = |r: usize| users[r].iter().map(|&i| u64::from(i)).sum::<u64>() / users[r].len() as u64;
    let mut used: Vec<usize> = (0..atoms.len()).filter(|&r| !users[r].is_empty()).collect();
    used.sort_by_key(|&r| place(r));
    let mut number = vec![0; atoms.len()];
    used.iter().enumerate().for_each(|(n, &r)| number[r] = n);
    let atoms: Vec<Row> = used.iter().map(|&r| atoms[r].clone()).collect();
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
    growth: &Growth,
    stages: &mut Stages<'_>,
) -> Result<SparseWeights, Cancelled> {
    stages.begin(Stage::SingleLayerWeights, None)?;
    if rig.weights.max_influences() <= FALLBACK_INFLUENCES {
        return Ok(rig.weights.clone());
    }
    let k = FALLBACK_INFLUENCES.min(rig.bone_count());
    if !growth.with_examples {
        return Ok(SparseWeights::from_rows(k, &rig.weights.largest(k)));
    }
    let choose = |solver: &mut InfluenceSolver<_>, i: usize| {
        solver.load_vertex(metric, i);
        let mut row = ideal.rows[i].clone();
        solver.choose(k, &mut row);
        row
    };
    let rows = stages.map(rig.vertex_count(), InfluenceSolver::dense_form, choose)?;
    Ok(SparseWeights::from_rows(k, &rows))
}
