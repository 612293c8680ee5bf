//! Progress of long stages, and how they are cancelled.

use std::ops::ControlFlow;

/// One report from a running stage.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// What is running, in words for a person ("weights and bones").
    pub stage: &'static str,
    /// Steps done in this stage.
    pub step: usize,
    /// Steps expected in this stage; `None` while unknown.
    pub steps: Option<usize>,
    /// Current error in E_RMS, where the stage has one.
    pub e_rms: Option<f64>,
}

/// Receives progress; returns [`ControlFlow::Break`] to cancel.
///
/// A cancelled stage returns an error whose source is [`Cancelled`], and changes nothing.
pub trait Observer: Send {
    /// Called from one thread, at least once a second by any stage that takes longer than that.
    fn report(&mut self, progress: &Progress) -> ControlFlow<()>;
}

/// The observer cancelled the stage. The only such type: every error of a stage has it as its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cancelled")]
pub struct Cancelled;

/// Called now and then by a part that has no stages of its own; an error ends the part.
pub(crate) type Check<'a> = &'a mut dyn FnMut() -> Result<(), Cancelled>;

/// An observer that ignores progress and never cancels.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Observer for Silent {
    fn report(&mut self, _: &Progress) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

/// Counts the steps of one stage after another and reports them.
pub(crate) struct Stages<'a> {
    observer: &'a mut dyn Observer,
    /// The present stage.
    pub stage: &'static str,
    step: usize,
    steps: Option<usize>,
}

impl<'a> Stages<'a> {
    pub fn new(observer: &'a mut dyn Observer) -> Self {
        Self { observer, stage: "", step: 0, steps: None }
    }

    /// Begins a stage of about `steps` steps.
    pub fn begin(&mut self, stage: &'static str, steps: Option<usize>) -> Result<(), Cancelled> {
        (self.stage, self.step, self.steps) = (stage, 0, steps);
        self.report(None)
    }

    /// One more step is done; there may turn out to be more than expected.
    pub fn step(&mut self, e_rms: Option<f64>) -> Result<(), Cancelled> {
        self.step += 1;
        self.steps = self.steps.map(|steps| steps.max(self.step));
        self.report(e_rms)
    }

    /// Work goes on within a step.
    pub fn report(&mut self, e_rms: Option<f64>) -> Result<(), Cancelled> {
        let progress = Progress { stage: self.stage, step: self.step, steps: self.steps, e_rms };
        match self.observer.report(&progress) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Cancelled),
        }
    }

    /// The observer itself, for a stage inside this one.
    pub fn observer(&mut self) -> &mut dyn Observer {
        self.observer
    }
}
