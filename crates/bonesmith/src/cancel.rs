//! Cancelling work from another thread.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bonesmith_core::{Observer, Progress};

/// A switch that ends work at its next report. Copies are the same switch.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// A switch that is off.
    pub fn new() -> Self {
        Self::default()
    }

    /// Requests the end of the work; may be called from any thread. Returns whether that was requested before.
    pub fn cancel(&self) -> bool {
        self.0.swap(true, Ordering::SeqCst)
    }

    /// Whether the end was requested.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    /// An observer that passes progress to `show` and ends the work when the switch is on.
    pub fn observe<F: FnMut(&Progress) + Send>(&self, show: F) -> Observed<F> {
        Observed { cancel: self.clone(), show }
    }
}

/// See [`Cancel::observe`].
#[derive(Debug)]
pub struct Observed<F> {
    cancel: Cancel,
    show: F,
}

impl<F: FnMut(&Progress) + Send> Observer for Observed<F> {
    fn report(&mut self, progress: &Progress) -> ControlFlow<()> {
        (self.show)(progress);
        if self.cancel.is_cancelled() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}
