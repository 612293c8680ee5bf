//! Other norms of the distances: rounds that lower large errors at the expense of small ones.
//!
//! The p-norm `(sum_it |r_it|^p)^(1/p)` is lowered by weighted least squares [Lawson1961]: with weights `|r|^(p - 2)` of the present
//! residuals, the weighted squared error has the same slope. Weights split into an importance for each vertex and shares of frames (`loss`):
//!
//! ```text
//! |r_it|^(p-2) = g_i c_it        g_i = max_t |r_it|^(p-2)
//! ```
//!
//! Weights are found again after every few rounds, and `p` is raised in steps. For large `p` the weighted solution overshoots, so a least weight
//! is added and the state of lowest norm is kept. The maximum is the limit of large `p`: the state of smallest maximum distance is kept
//! whose E_RMS is at most [`RISE`] times that of a fit by mean squares.

use crate::model::rig::BoneKind;
use crate::observer::{Cancelled, Stage};
use crate::skinning::descent::{Descent, State};
use crate::skinning::limits;
use crate::skinning::loss::Loss;
use crate::skinning::params::Norm;
use crate::skinning::pass;
use crate::skinning::problem::Problem;
use crate::skinning::run::Run;
use crate::skinning::vertex_step::VertexParams;

/// By what factor E_RMS may rise for a smaller maximum.
pub const RISE: f64 = 1.25;

/// Steps of the exponent.
const EXPONENTS: [f64; 9] = [3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 12.0, 14.0, 16.0];

/// How long and how far a norm is lowered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schedule {
    /// Rounds with the same weights.
    pub rounds: usize,
    /// Times that weights are found again for the last exponent.
    pub repeats: usize,
    /// Least weight, as a share of the largest one: what lies far below the largest error still counts.
    pub least: f64,
}

/// That of the fit.
const OF_FIT: Schedule = Schedule { rounds: 3, repeats: 6, least: 0.005 };

/// Distances between the sequence and a state, in the unit space.
struct Distances {
    /// Weighted by importance: sums over all vertices and frames.
    squared_sum: f64,
    largest: f64,
    /// [N] largest of each vertex.
    of_vertices: Vec<f32>,
    /// [N, F] `(|r_it| / max_t |r_it|)^(p - 2)` in 255ths.
    shares: Vec<u8>,
    /// `sum_it g_i (|r_it| / largest)^p`.
    power_sum: f64,
}

impl Distances {
    fn new(problem: &Problem, state: &State, exponent: f64, norm: f64) -> Self {
        let frames = problem.frames();
        let power = ((exponent - 2.0) * 0.5) as f32;
        let of_block = |first: usize, residuals: &[f32]| {
            let (mut largest, mut shares, mut squared_sum) = (Vec::new(), Vec::new(), 0.0);
            let (mut powers, mut squares) = (Vec::new(), vec![0f32; frames]);
            for (at, row) in residuals.chunks_exact(3 * frames).enumerate() {
                let (x, rest) = row.split_at(frames);
                let (y, z) = rest.split_at(frames);
                for (t, square) in squares.iter_mut().enumerate() {
                    *square = x[t] * x[t] + y[t] * y[t] + z[t] * z[t];
                }
                let most = squares.iter().fold(0f32, |a, b| a.max(*b));
                let scale = if most > 0.0 { 1.0 / most } else { 0.0 };
                shares.extend(squares.iter().map(|d| ((d * scale).powf(power) * 255.0).round() as u8));
                squared_sum += problem.loss.of(first + at) * squares.iter().map(|d| f64::from(*d)).sum::<f64>();
                let relative = squares.iter().map(|d| f64::from(d * scale).powf(0.5 * norm)).sum::<f64>();
                powers.push(problem.loss.of(first + at) * relative);
                largest.push(most.sqrt());
            }
            (largest, shares, squared_sum, powers)
        };
        let mut all =
            Self { squared_sum: 0.0, largest: 0.0, of_vertices: Vec::new(), shares: Vec::new(), power_sum: 0.0 };
        let mut powers = Vec::new();
        for (largest, shares, squared_sum, of_block) in pass::survey(problem, &state.motion, &state.skin, of_block) {
            all.of_vertices.extend(largest);
            all.shares.extend(shares);
            all.squared_sum += squared_sum;
            powers.extend(of_block);
        }
        all.largest = all.of_vertices.iter().fold(0f32, |a, b| a.max(*b)).into();
        let relative = |d: f32| (f64::from(d) / all.largest.max(1e-300)).powf(norm);
        all.power_sum = powers.iter().zip(&all.of_vertices).map(|(power, d)| power * relative(*d)).sum();
        all
    }

    /// `(mean |r|^p)^(1/p)`, or the largest distance.
    fn measure(&self, norm: Norm) -> f64 {
        match norm {
            Norm::Max => self.largest,
            Norm::P(p) => self.largest * (self.power_sum / self.shares.len().max(1) as f64).powf(1.0 / p),
        }
    }

    /// The cost whose slope is that of the p-norm. Weights have the mean 1 over vertices.
    fn into_loss(self, importance: &Loss, exponent: f64, least: f64) -> Loss {
        let frames = self.shares.len() / self.of_vertices.len().max(1);
        let own = |d: f32| (f64::from(d) / self.largest.max(1e-300)).powf(exponent - 2.0);
        let mut shares = self.shares;
        let mut weights = Vec::with_capacity(self.of_vertices.len());
        for (i, (row, d)) in shares.chunks_exact_mut(frames.max(1)).zip(&self.of_vertices).enumerate() {
            let own = own(*d);
            weights.push(importance.of(i) * (own + least));
            for share in row {
                let with_least = (own * f64::from(*share) + least * 255.0) / (own + least);
                *share = with_least.round().clamp(0.0, 255.0) as u8;
            }
        }
        let mean = weights.iter().sum::<f64>() / weights.len().max(1) as f64;
        let mut loss = Loss::of_vertices(weights.iter().map(|w| (w / mean) as f32).collect());
        loss.shares = shares.into();
        loss
    }
}

/// How a norm was lowered.
pub(crate) struct Lowered {
    /// The norm that was reached; infinite where no state was within the allowed squared error.
    pub reached: f64,
    /// The cost that the rounds to this state lowered; none where the start was the best.
    pub cost: Option<Loss>,
}

/// The squared error that a norm may end with: anything, but for the maximum.
pub(crate) fn allowed(problem: &Problem, state: &State, norm: Norm) -> f64 {
    match norm {
        Norm::Max => RISE * RISE * Distances::new(problem, state, 2.0, 2.0).squared_sum,
        Norm::P(_) => f64::INFINITY,
    }
}

/// The exponent that a norm is lowered with.
fn exponent(norm: Norm) -> f64 {
    match norm {
        Norm::P(p) => p,
        Norm::Max => EXPONENTS[EXPONENTS.len() - 1],
    }
}

/// Lowers a norm from a state that is good in the mean, within an allowed squared error.
pub(crate) fn lower(
    problem: &Problem,
    state: &mut State,
    norm: Norm,
    allowed: f64,
    vertices: VertexParams,
    run: &mut Run<'_>,
) -> Result<Lowered, Cancelled> {
    let close = |before: &State, held: &State| {
        let [before, held] = [before, held].map(|state| Distances::new(problem, state, 2.0, exponent(norm)));
        held.squared_sum <= allowed && held.measure(norm) <= (1.0 + limits::MAX_COST) * before.measure(norm)
    };
    let rounds = |weighted: &Problem, state: &mut State, count: usize, run: &mut Run<'_>| {
        Descent::new(weighted, vertices).rounds(state, count, run)?;
        // Large errors lowered by bones that mirror would come back where those are brought within their limits at the end.
        if state.model.kind == BoneKind::Affine {
            run.timed("limits", || limits::keep_within(weighted, state, vertices, close));
        }
        Ok(())
    };
    lower_with(problem, state, norm, allowed, OF_FIT, run, rounds)
}

/// As [`lower`], with other rounds: `rounds` makes some of them on a problem whose residuals are weighted.
pub(crate) fn lower_with(
    problem: &Problem,
    state: &mut State,
    norm: Norm,
    allowed: f64,
    schedule: Schedule,
    run: &mut Run<'_>,
    mut rounds: impl FnMut(&Problem, &mut State, usize, &mut Run<'_>) -> Result<(), Cancelled>,
) -> Result<Lowered, Cancelled> {
    let last = exponent(norm);
    let rising = EXPONENTS.into_iter().filter(|&exponent| exponent < last);
    let exponents: Vec<f64> = rising.chain(std::iter::repeat_n(last, schedule.repeats)).collect();
    run.stage(Stage::OtherNorm, Some(schedule.rounds * exponents.len()))?;
    let start = Distances::new(problem, state, exponents[0], last);
    let measure = |at: &Distances| if at.squared_sum <= allowed { at.measure(norm) } else { f64::INFINITY };
    let mut best = (measure(&start), state.clone(), None);
    let mut present = start;
    for (at, &exponent) in exponents.iter().enumerate() {
        if present.largest <= 0.0 || run.is_over() {
            break;
        }
        let weighted = problem.with_loss(present.into_loss(&problem.loss, exponent, schedule.least));
        rounds(&weighted, state, schedule.rounds, run)?;
        let next = exponents.get(at + 1).copied().unwrap_or(last);
        present = Distances::new(problem, state, next, last);
        if measure(&present) < best.0 {
            best = (measure(&present), state.clone(), Some(weighted.loss));
        }
    }
    *state = best.1;
    Ok(Lowered { reached: best.0, cost: best.2 })
}
