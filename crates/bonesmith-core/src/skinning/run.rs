//! What accompanies a running fit: clock, progress, history.

use std::time::{Duration, Instant};

use crate::model::weights::add_to;
use crate::observer::{Cancelled, Measure, Observer, Round, Stage, Stages};
use crate::skinning::params::{FitInfo, FitParams, StopReason, Warning};

/// Clock, progress and record of one fit.
pub(crate) struct Run<'a> {
    stages: Stages<'a>,
    start: Instant,
    deadline: Option<Instant>,
    /// Seconds until the preparation was done.
    prepare_secs: f64,
    /// Rounds so far.
    pub history: Vec<Round>,
    /// (part, seconds), in order of first appearance.
    pub profile: Vec<(&'static str, f64)>,
}

/// How a fit ended.
pub(crate) struct Ending {
    pub stop: StopReason,
    /// Rounds over weights and bones; `None`: all that were recorded.
    pub iterations: Option<usize>,
    pub warnings: Vec<Warning>,
    pub jitter_ratio: Option<f64>,
}

impl<'a> Run<'a> {
    pub fn new(params: &FitParams, observer: &'a mut dyn Observer) -> Self {
        let start = Instant::now();
        // A limit too large for the clock is no limit.
        let deadline = params
            .max_seconds
            .and_then(|s| Duration::try_from_secs_f64(s).ok())
            .and_then(|limit| start.checked_add(limit));
        let stages = Stages::new(observer);
        Self { stages, start, deadline, prepare_secs: 0.0, history: Vec::new(), profile: Vec::new() }
    }

    /// Seconds since the fit began.
    pub fn seconds(&self) -> f64 {
        self.start.elapsed().as_secs_f64()
    }

    /// Whether the user's time budget is spent.
    pub fn is_over(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// Marks the end of the preparation.
    pub fn prepared(&mut self) {
        self.prepare_secs = self.seconds();
    }

    /// Begins a stage of about `steps` rounds.
    pub fn stage(&mut self, stage: Stage, steps: Option<usize>) -> Result<(), Cancelled> {
        self.stages.begin(stage, steps)
    }

    /// Records a round.
    pub fn round(&mut self, bones: usize, e_rms: f64) -> Result<(), Cancelled> {
        self.history.push(Round { stage: self.stages.stage, bones, error: e_rms, measure: Measure::ERms });
        self.stages.step(Some(e_rms))
    }

    /// A step that has no error of its own.
    pub fn step(&mut self) -> Result<(), Cancelled> {
        self.stages.step(None)
    }

    /// Work goes on within a step.
    pub fn report(&mut self) -> Result<(), Cancelled> {
        self.stages.report(None)
    }

    /// Runs a part and adds its time to the profile.
    pub fn timed<T>(&mut self, part: &'static str, work: impl FnOnce() -> T) -> T {
        self.observed(part, |_| work())
    }

    /// As [`Run::timed`], for a part that reports progress itself.
    pub fn observed<T>(&mut self, part: &'static str, work: impl FnOnce(&mut Self) -> T) -> T {
        let start = Instant::now();
        let result = work(self);
        add_to(&mut self.profile, part, start.elapsed().as_secs_f64());
        result
    }

    /// The record of the fit.
    pub fn finish(self, ending: Ending) -> FitInfo {
        FitInfo {
            iterations: ending.iterations.unwrap_or(self.history.len()),
            stop: ending.stop,
            warnings: ending.warnings,
            prepare_secs: self.prepare_secs,
            fit_secs: self.seconds() - self.prepare_secs,
            jitter_ratio: ending.jitter_ratio,
            pieces: 0,
            history: self.history,
            profile: self.profile,
        }
    }
}
