//! Runs work on a thread of its own while the calling thread waits without the interpreter's lock.
//!
//! The calling thread wakes to call the progress function, at most 30 times a second, and to look for Ctrl-C. What the function raises, or
//! its `False`, ends the work at its next report, which comes at least once a second. A panic is an exception.

use std::any::Any;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bonesmith::core::observer::Cancelled;
use bonesmith::{Error, Observer, Progress};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::errors;

/// The progress function is called no more often than this.
const PROGRESS_INTERVAL: Duration = Duration::from_nanos(1_000_000_000 / 30 + 1);

/// Ctrl-C is looked for this often.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(100);

/// As much as a main thread has.
const STACK_BYTES: usize = 8 << 20;

/// What the two threads share.
#[derive(Default)]
struct Shared {
    /// The last report that the calling thread has not seen.
    latest: Option<Progress>,
    cancelled: bool,
    done: bool,
}

#[derive(Default)]
struct Link {
    shared: Mutex<Shared>,
    wake: Condvar,
}

impl Link {
    /// Nothing is left half done under this lock: what a panic leaves is sound.
    fn with<T>(&self, use_it: impl FnOnce(&mut Shared) -> T) -> T {
        use_it(&mut self.shared.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Observer for &Link {
    fn report(&mut self, progress: &Progress) -> ControlFlow<()> {
        let cancelled = self.with(|shared| {
            shared.latest = Some(*progress);
            shared.cancelled
        });
        self.wake.notify_one();
        if cancelled { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// Ends the wait of the calling thread, whatever happens to the work.
struct Finally<'a>(&'a Link);

impl Drop for Finally<'_> {
    fn drop(&mut self) {
        self.0.with(|shared| shared.done = true);
        self.0.wake.notify_one();
    }
}

/// How work is run.
#[derive(Default, FromPyObject)]
#[pyo3(from_item_all)]
pub struct How {
    threads: Option<i64>,
    progress: Option<Py<PyAny>>,
}

/// Runs work with the threads and the progress function that are asked for.
pub fn run<T: Send>(
    py: Python<'_>,
    how: &How,
    work: impl FnOnce(&mut dyn Observer) -> Result<T, Error> + Send,
) -> PyResult<T> {
    if let Some(progress) = how.progress.as_ref().filter(|progress| !progress.bind(py).is_callable()) {
        return Err(PyTypeError::new_err(format!("progress is {progress}, but a function is needed")));
    }
    let pool = how.threads.map(|threads| pool(py, threads)).transpose()?;
    let link = Link::default();
    let (raised, result) = py.detach(|| {
        std::thread::scope(|scope| {
            let work = || {
                let _finally = Finally(&link);
                let mut observer = &link;
                match &pool {
                    Some(pool) => pool.install(|| work(&mut observer)),
                    None => work(&mut observer),
                }
            };
            let thread = std::thread::Builder::new().name("bonesmith".to_owned()).stack_size(STACK_BYTES);
            let thread = match thread.spawn_scoped(scope, work) {
                Ok(thread) => thread,
                Err(error) => return (Some(PyErr::from(error)), Ok(Err(Cancelled.into()))),
            };
            (attend(&link, how.progress.as_ref()), thread.join())
        })
    });
    match (raised, result) {
        (_, Err(panic)) => Err(errors::internal(py, &message(&*panic))),
        (Some(raised), Ok(_)) => Err(raised),
        (None, Ok(result)) => result.map_err(|error| errors::raise(py, error)),
    }
}

/// Runs short work on this thread, without the interpreter's lock. A panic is an exception here, too.
pub fn quickly<T: Send>(py: Python<'_>, work: impl FnOnce() -> Result<T, Error> + Send) -> PyResult<T> {
    // What the work leaves behind after a panic is dropped with it.
    match py.detach(|| catch_unwind(AssertUnwindSafe(work))) {
        Ok(result) => result.map_err(|error| errors::raise(py, error)),
        Err(panic) => Err(errors::internal(py, &message(&*panic))),
    }
}

/// Panics, as a bug would: for the test that this is an exception.
#[pyfunction]
pub fn panic_for_tests(py: Python<'_>, quick: bool) -> PyResult<()> {
    match quick {
        true => quickly(py, || panic!("as asked for")),
        false => run(py, &How::default(), |_| panic!("as asked for")),
    }
}

fn pool(py: Python<'_>, threads: i64) -> PyResult<rayon::ThreadPool> {
    let wrong = || errors::parameter(py, "threads", &threads.to_string(), "1 to 1024");
    let threads = usize::try_from(threads).ok().filter(|n| (1..=1024).contains(n)).ok_or_else(wrong)?;
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    pool.map_err(|error| errors::internal(py, &error.to_string()))
}

/// Waits for the end of the work; returns what ended it early, if anything.
fn attend(link: &Link, progress: Option<&Py<PyAny>>) -> Option<PyErr> {
    let (mut called, mut looked): (Option<Instant>, Instant) = (None, Instant::now());
    loop {
        let interval = if progress.is_some() { PROGRESS_INTERVAL } else { SIGNAL_INTERVAL };
        let guard = link.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let due = |shared: &Shared| {
            progress.is_some() && shared.latest.is_some() && called.is_none_or(|at| at.elapsed() >= PROGRESS_INTERVAL)
        };
        let until = |shared: &mut Shared| !shared.done && !due(shared);
        let waited = link.wake.wait_timeout_while(guard, interval, until);
        let (mut shared, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if shared.done {
            return None;
        }
        let report = if due(&shared) { shared.latest.take() } else { None };
        drop(shared);
        if report.is_none() && looked.elapsed() < SIGNAL_INTERVAL {
            continue;
        }
        let ended = Python::attach(|py| {
            py.check_signals()?;
            match (report, progress) {
                (Some(report), Some(progress)) => call(py, progress, &report),
                _ => Ok(()),
            }
        });
        looked = Instant::now();
        if report.is_some() {
            called = Some(looked);
        }
        if let Err(raised) = ended {
            link.with(|shared| shared.cancelled = true);
            return Some(raised);
        }
    }
}

/// Calls the progress function; `False` is a cancel.
fn call(py: Python<'_>, progress: &Py<PyAny>, report: &Progress) -> PyResult<()> {
    let Progress { stage, step, steps, e_rms } = *report;
    let answer = progress.call1(py, (stage.words(), step, steps, e_rms))?;
    let bound = answer.bind(py);
    let is_false = bound.cast::<pyo3::types::PyBool>().is_ok_and(|answer| !answer.is_true());
    if is_false { Err(errors::raise(py, Cancelled.into())) } else { Ok(()) }
}

/// The words of a panic.
fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}
