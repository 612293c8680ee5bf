//! Progress of long stages, and how they are cancelled.

use std::ops::ControlFlow;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use rayon::prelude::*;

/// Work between two reports takes about this long.
const REPORT_EVERY: Duration = Duration::from_millis(100);

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

/// A function of the progress is an observer.
impl<F: FnMut(&Progress) -> ControlFlow<()> + Send> Observer for F {
    fn report(&mut self, progress: &Progress) -> ControlFlow<()> {
        self(progress)
    }
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

    /// `step` steps are done.
    pub fn at(&mut self, step: usize, e_rms: Option<f64>) -> Result<(), Cancelled> {
        self.step = step;
        self.report(e_rms)
    }

    /// `solve` of 0 to `count - 1`, side by side within blocks, with a report after each block. How large the blocks are depends on the
    /// time that they take, the result does not.
    pub fn map<S, T: Send>(
        &mut self,
        count: usize,
        scratch: impl Fn() -> S + Send + Sync,
        solve: impl Fn(&mut S, usize) -> T + Send + Sync,
    ) -> Result<Vec<T>, Cancelled> {
        let (mut solved, mut block) = (Vec::with_capacity(count), rayon::current_num_threads());
        while solved.len() < count {
            let (begin, clock) = (solved.len(), Instant::now());
            let end = (begin + block).min(count);
            solved.par_extend((begin..end).into_par_iter().map_init(&scratch, &solve));
            self.report(None)?;
            match clock.elapsed() {
                taken if taken < REPORT_EVERY / 2 => block *= 2,
                taken if taken > REPORT_EVERY * 2 => block = (block / 2).max(1),
                _ => {}
            }
        }
        Ok(solved)
    }

    /// Runs one long piece of work that cannot report itself on a thread of its own. After a cancellation the thread goes on until
    /// the work is done, and its result is dropped.
    pub fn wait<T: Send + 'static>(&mut self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, Cancelled> {
        let (sender, receiver) = sync_channel(1);
        let thread = std::thread::spawn(move || drop(sender.send(work())));
        loop {
            match receiver.recv_timeout(REPORT_EVERY) {
                Ok(result) => return Ok(result),
                Err(RecvTimeoutError::Timeout) => self.report(None)?,
                Err(RecvTimeoutError::Disconnected) => match thread.join() {
                    Err(panic) => std::panic::resume_unwind(panic),
                    Ok(()) => unreachable!("the result is sent before the thread ends"),
                },
            }
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Cancels at the report of this number.
    struct CancelAt(usize);

    impl Observer for CancelAt {
        fn report(&mut self, _: &Progress) -> ControlFlow<()> {
            self.0 = self.0.saturating_sub(1);
            if self.0 == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        }
    }

    #[test]
    fn maps_are_in_order_and_cancelled_between_blocks() {
        let squares = Stages::new(&mut Silent).map(1000, || 0, |_, i| i * i).unwrap();
        assert!(squares.iter().enumerate().all(|(i, square)| *square == i * i) && squares.len() == 1000);
        let slow = |_: &mut (), _| std::thread::sleep(REPORT_EVERY);
        assert_eq!(Stages::new(&mut CancelAt(2)).map(1_000_000, || (), slow), Err(Cancelled));
    }

    #[test]
    fn long_work_is_waited_for_or_left_behind() {
        assert_eq!(Stages::new(&mut Silent).wait(|| 7), Ok(7));
        let (sender, receiver) = sync_channel::<()>(1);
        let endless = move || receiver.recv().is_ok();
        assert_eq!(Stages::new(&mut CancelAt(2)).wait(endless), Err(Cancelled));
        drop(sender);
    }
}
