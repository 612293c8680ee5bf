//! When rounds end: the one stop rule of all alternating fits.

use crate::skinning::params::StopReason;
use crate::skinning::run::Run;

/// An E_RMS below this is zero to rounding: positions are float32 in units of the sphere, which leaves 2.5e-5.
const EXACT: f64 = 5e-5;

/// Ends rounds at a count, at an error of zero, when rounds no longer pay, or when time is up.
pub(crate) struct StopRule {
    /// Most rounds.
    pub rounds: usize,
    /// Least share that a round must take off E_RMS; 0: rounds never end for paying too little.
    tolerance: f64,
    /// Rounds in a row that may pay less than that. Momentum makes single ones look worse than they are: 2 with it.
    patience: usize,
    last: f64,
    poor: usize,
    /// Rounds so far.
    pub count: usize,
}

impl StopRule {
    pub fn new(rounds: usize, tolerance: f64, patience: usize) -> Self {
        Self { rounds, tolerance, patience, last: f64::INFINITY, poor: 0, count: 0 }
    }

    /// After a round that ended at `e_rms`: why it was the last one, if it was.
    pub fn after(&mut self, e_rms: f64, run: &Run<'_>) -> Option<StopReason> {
        self.after_round(e_rms, e_rms, run)
    }

    /// As [`StopRule::after`], where what rounds lower, `objective`, is more than the error.
    pub fn after_round(&mut self, objective: f64, e_rms: f64, run: &Run<'_>) -> Option<StopReason> {
        self.count += 1;
        let poor = self.tolerance > 0.0 && objective > self.last * (1.0 - self.tolerance);
        self.poor = if poor { self.poor + 1 } else { 0 };
        self.last = objective;
        match () {
            () if e_rms < EXACT => Some(StopReason::Exact),
            () if self.poor == self.patience => Some(StopReason::Converged),
            () if self.count >= self.rounds => Some(StopReason::MaxIterations),
            () if run.is_over() => Some(StopReason::MaxSeconds),
            () => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observer::Silent;
    use crate::skinning::params::FitParams;

    fn ends(mut rule: StopRule, errors: &[f64]) -> Option<(usize, StopReason)> {
        let mut silent = Silent;
        let run = Run::new(&FitParams::default(), &mut silent);
        errors.iter().enumerate().find_map(|(at, &e)| rule.after(e, &run).map(|stop| (at, stop)))
    }

    #[test]
    fn rounds_end_for_the_first_reason() {
        let errors = [8.0, 4.0, 3.99, 2.0, 1.999, 1.998, 1.0];
        assert_eq!(ends(StopRule::new(9, 0.01, 1), &errors), Some((2, StopReason::Converged)));
        assert_eq!(ends(StopRule::new(9, 0.01, 2), &errors), Some((5, StopReason::Converged)));
        assert_eq!(ends(StopRule::new(4, 0.01, 2), &errors), Some((3, StopReason::MaxIterations)));
        assert_eq!(ends(StopRule::new(9, 0.0, 2), &errors), None);
        assert_eq!(ends(StopRule::new(9, 0.01, 2), &[1.0, 1e-7]), Some((1, StopReason::Exact)));
    }
}
