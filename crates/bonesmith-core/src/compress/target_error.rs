//! The fewest virtual bones that reach a target error.
//!
//! [Le2014 alg. 3] stops at the first dictionary that is good enough: up to a batch too large, and not optimised yet. Here
//! growth stops when optimisation is expected to reach the target. The number is then bracketed: excess errors fall like a power of
//! the number, which gives the next trial. Atoms are added to a trial that missed the target, or the most dispensable ones removed
//! from the smallest that reached it. Two or three trials are usual.

use crate::compress::Growth;
use crate::compress::factorise::Factorisation;
use crate::compress::params::CompressStop;
use crate::observer::{Cancelled, Stage};

/// Share of the error of a batch that optimising and trading remove, in the mean over the sequences of the benchmarks.
pub(super) const OPTIMISATION_GAIN: f64 = 0.05;
/// The number is exact to one in so many.
const PRECISION: usize = 32;
/// Maximum of trials.
const TRIALS: usize = 8;
/// The excess error falls like the number of atoms to this power, until two trials give a better value.
const USUAL_POWER: f64 = 0.5;
/// Minimum share of the atoms that is removed at first.
const FIRST_STEP: f64 = 0.04;

/// One trial: atoms, and their excess error when optimised.
type Trial = (usize, f64);

impl Factorisation<'_, '_> {
    /// Optimises the result of growth, and finds the fewest atoms with an excess error of at most `growth.target`.
    pub(super) fn reach_target(&mut self) -> Result<CompressStop, Cancelled> {
        self.stages.begin(Stage::FewestVirtualBones, Some(self.growth.limit))?;
        let mut reached = None;
        let mut short: Option<Trial> = None;
        for trial in 0..TRIALS {
            self.finish()?;
            let tried = (self.dictionary.len(), self.excess());
            match tried.1 <= self.growth.target {
                true => reached = Some((tried, self.dictionary.clone(), self.coefficients.clone())),
                false => short = Some(tried),
            }
            let best = reached.as_ref().map(|(trial, ..)| *trial);
            let Some(next) = next(best, short, &self.growth, trial) else { break };
            if next < tried.0
                && let Some((_, dictionary, coefficients)) = &reached
            {
                (self.dictionary, self.coefficients) = (dictionary.clone(), coefficients.clone());
            }
            let atoms = self.dictionary.len();
            let changed = if next > atoms { self.add(next - atoms)? } else { self.remove(atoms - next)? };
            if changed == 0 {
                break;
            }
        }
        let Some((_, dictionary, coefficients)) = reached else { return Ok(CompressStop::Full) };
        (self.dictionary, self.coefficients) = (dictionary, coefficients);
        self.record();
        Ok(CompressStop::Reached)
    }
}

/// The number of the next trial; `None` when the bracket is closed, or the largest number missed the target.
fn next(reached: Option<Trial>, short: Option<Trial>, growth: &Growth, trial: usize) -> Option<usize> {
    let power = match (reached, short) {
        (Some((many, low)), Some((few, high))) => {
            (high / low.max(f64::MIN_POSITIVE)).ln() / (many as f64 / few as f64).ln()
        }
        _ => USUAL_POWER,
    };
    let (atoms, excess) = reached.or(short)?;
    let mut wanted = atoms as f64 * (excess / growth.target).powf(1.0 / power.max(0.1));
    // Trades find better places on the way down: steps double until one misses the target.
    if short.is_none() {
        wanted = wanted.min(atoms as f64 * (1.0 - FIRST_STEP * f64::from(1 << trial.min(3))));
    }
    let min = short.map_or(2, |(few, _)| few + 1);
    let max = reached.map_or(growth.limit, |(many, _)| many - 1);
    // At most to the middle of the bracket, or to half the atoms: an error of 0 says nothing about the number.
    let middle =
        reached.map_or(0.0, |(many, _)| (many as f64 * short.map_or(many as f64 / 4.0, |(few, _)| few as f64)).sqrt());
    let wanted = wanted.max(middle);
    let close =
        reached.zip(short).is_some_and(|((many, _), (few, _))| many.saturating_sub(few) <= 1 + many / PRECISION);
    (!close && min <= max).then(|| (wanted.ceil() as usize).clamp(min, max))
}
