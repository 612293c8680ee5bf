//! What accompanies a running fit: clock, observer, history.

use std::time::{Duration, Instant};

use crate::observer::{Observer, Progress};
use crate::skinning::params::{FitError, FitParams, Round};

/// Clock, observer and record of one fit.
pub(crate) struct Run<'a> {
    observer: &'a mut dyn Observer,
    start: Instant,
    deadline: Option<Instant>,
    /// Rounds so far.
    pub history: Vec<Round>,
    /// (part, seconds), in order of first appearance.
    pub profile: Vec<(&'static str, f64)>,
    stage: &'static str,
    step: usize,
    steps: Option<usize>,
}

impl<'a> Run<'a> {
    pub fn new(params: &FitParams, observer: &'a mut dyn Observer) -> Self {
        let start = Instant::now();
        // A limit too large for the clock is no limit.
        let deadline = params
            .max_seconds
            .and_then(|s| Duration::try_from_secs_f64(s).ok())
            .and_then(|limit| start.checked_add(limit));
        Self { observer, start, deadline, history: Vec::new(), profile: Vec::new(), stage: "", step: 0, steps: None }
    }

    /// Seconds since the fit began.
    pub fn seconds(&self) -> f64 {
        self.start.elapsed().as_secs_f64()
    }

    /// Whether the user's time budget is spent.
    pub fn is_over(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// Begins a stage of about `steps` rounds.
    pub fn stage(&mut self, stage: &'static str, steps: Option<usize>) -> Result<(), FitError> {
        (self.stage, self.step, self.steps) = (stage, 0, steps);
        self.tell(None)
    }

    /// Notes a round and lets the observer stop the fit.
    pub fn round(&mut self, bones: usize, e_rms: f64) -> Result<(), FitError> {
        self.step += 1;
        if self.steps.is_some_and(|steps| self.step > steps) {
            self.steps = Some(self.step);
        }
        self.history.push(Round { stage: self.stage, bones, e_rms });
        self.tell(Some(e_rms))
    }

    /// Notes a step that has no error of its own and lets the observer stop the fit.
    pub fn step(&mut self) -> Result<(), FitError> {
        self.step += 1;
        self.tell(None)
    }

    fn tell(&mut self, e_rms: Option<f64>) -> Result<(), FitError> {
        let progress = Progress { stage: self.stage, step: self.step, steps: self.steps, e_rms };
        match self.observer.report(&progress) {
            std::ops::ControlFlow::Continue(()) => Ok(()),
            std::ops::ControlFlow::Break(()) => Err(FitError::Cancelled),
        }
    }

    /// Runs a part and adds its time to the profile.
    pub fn timed<T>(&mut self, part: &'static str, work: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let result = work();
        let seconds = start.elapsed().as_secs_f64();
        match self.profile.iter_mut().find(|(name, _)| *name == part) {
            Some((_, sum)) => *sum += seconds,
            None => self.profile.push((part, seconds)),
        }
        result
    }
}
