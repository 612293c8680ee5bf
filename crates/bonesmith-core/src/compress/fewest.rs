//! The fewest virtual bones that reach a target error.
//!
//! [Le2014 alg. 3] stops at the first dictionary that is good enough: a batch too large, and not optimised yet. Here
//! growth stops when optimising promises the rest. The number is then bracketed: how the error falls with it says where to look
//! next, atoms are added to what fell short or taken from the smallest that is good enough, those that would be missed
//! least, and what is there already is kept. Excess errors fall like a power of the number, so that two or three trials do.

use crate::compress::coefficients::Coefficients;
use crate::compress::dictionary::Dictionary;
use crate::compress::factorise::Solver;
use crate::compress::params::{CompressError, CompressStop, TwoLayerParams};
use crate::compress::{Growth, Stage};

/// What optimising and trading take off the error of a batch, in the mean over the sequences of the benchmarks.
pub(super) const PROMISE: f64 = 0.05;
/// The number is told to one in so many.
const CLOSE: usize = 32;
/// Most trials.
const TRIALS: usize = 8;
/// The excess error falls like the number of atoms to this power, until two trials say better.
const USUAL_POWER: f64 = 0.5;
/// Least share of the atoms that is taken away at first.
const FIRST_STEP: f64 = 0.04;

/// What was tried: atoms, and their excess error when optimised.
type Trial = (usize, f64);

impl Solver<'_> {
    /// Optimises what growth has left behind, and finds the fewest atoms with an excess error of at most `growth.target`.
    pub(super) fn fewest(
        &mut self,
        growth: &Growth,
        params: &TwoLayerParams,
        stage: &mut Stage<'_>,
    ) -> Result<CompressStop, CompressError> {
        stage.name = "fewest virtual bones";
        let mut good: Option<(Trial, Dictionary, Coefficients)> = None;
        let mut short: Option<Trial> = None;
        for trial in 0..TRIALS {
            self.finish(growth, params, stage)?;
            let tried = (self.dictionary.len(), self.excess());
            match tried.1 <= growth.target {
                true => good = Some((tried, self.dictionary.clone(), self.coefficients.clone())),
                false => short = Some(tried),
            }
            let best = good.as_ref().map(|(trial, ..)| *trial);
            let Some(next) = next(best, short, growth, trial) else { break };
            if next < tried.0
                && let Some((_, dictionary, coefficients)) = &good
            {
                (self.dictionary, self.coefficients) = (dictionary.clone(), coefficients.clone());
            }
            let atoms = self.dictionary.len();
            let moved = if next > atoms { self.add(next - atoms) } else { self.take_away(atoms - next) };
            if moved == 0 {
                break;
            }
        }
        let Some((_, dictionary, coefficients)) = good else { return Ok(CompressStop::Full) };
        (self.dictionary, self.coefficients) = (dictionary, coefficients);
        self.history.push((self.dictionary.len(), self.error()));
        Ok(CompressStop::Reached)
    }
}

/// Where to look after `trial`; `None` when the bracket is closed, or the largest number falls short.
fn next(good: Option<Trial>, short: Option<Trial>, growth: &Growth, trial: usize) -> Option<usize> {
    let power = match (good, short) {
        (Some((many, low)), Some((few, high))) => {
            (high / low.max(f64::MIN_POSITIVE)).ln() / (many as f64 / few as f64).ln()
        }
        _ => USUAL_POWER,
    };
    let (atoms, excess) = good.or(short)?;
    let mut wanted = atoms as f64 * (excess / growth.target).powf(1.0 / power.max(0.1));
    // Trades go on finding better places on the way down: steps double until one goes too far.
    if short.is_none() {
        wanted = wanted.min(atoms as f64 * (1.0 - FIRST_STEP * f64::from(1 << trial.min(3))));
    }
    let least = short.map_or(2, |(few, _)| few + 1);
    let most = good.map_or(growth.limit, |(many, _)| many - 1);
    // No leap beyond the middle of what is known, or of half the atoms: an error of 0 says nothing of the way.
    let middle =
        good.map_or(0.0, |(many, _)| (many as f64 * short.map_or(many as f64 / 4.0, |(few, _)| few as f64)).sqrt());
    let wanted = wanted.max(middle);
    let close = good.zip(short).is_some_and(|((many, _), (few, _))| many.saturating_sub(few) <= 1 + many / CLOSE);
    (!close && least <= most).then(|| (wanted.ceil() as usize).clamp(least, most))
}
