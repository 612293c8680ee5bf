//! How a long stage tells what it is doing, and is asked to stop.

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

/// Told about progress; may ask to stop by returning [`ControlFlow::Break`].
///
/// A stage that is told to stop returns its `Cancelled` error and writes nothing.
pub trait Observer: Send {
    /// Called a few times per second at most by well-behaved stages, from one thread.
    fn report(&mut self, progress: &Progress) -> ControlFlow<()>;
}

/// An observer that says nothing and never stops.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Observer for Silent {
    fn report(&mut self, _: &Progress) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}
