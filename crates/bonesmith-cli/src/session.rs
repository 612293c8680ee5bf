//! One run of the program: how much it says, and whether the user has asked it to stop.

use std::io::{IsTerminal, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use bonesmith::core::observer::Cancelled;
use bonesmith::io::Transaction;
use bonesmith::{Cancel, Noted, Observer, Progress, Warning};
use bonesmith_core::Stage;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::Value;

use crate::args::GlobalArgs;
use crate::commands::batch::worker::Worker;
use crate::errors::{self, Outcome, Usage};
use crate::limit;
use crate::output::emit;
use crate::settings::{self, JsonTarget, ReportTarget};
use crate::sheet::Sheet;

/// Lines on a pipe come no faster than this within a stage.
const LINE_INTERVAL: Duration = Duration::from_secs(1);

/// What all commands share.
pub struct Session {
    pub quiet: bool,
    pub verbose: bool,
    /// Tables that a bench has shown so far, for its report.
    pub shown: Vec<Sheet>,
    /// Warnings about files, shown already.
    pub losses: Vec<Warning>,
    /// The job of a batch that this run does, if it does one.
    pub worker: Option<Worker>,
    stop: Cancel,
    display: Display,
    /// What is written waits here until the command has succeeded.
    transaction: Option<Transaction>,
    /// Bytes that this run may use, where that is known.
    memory: Option<u64>,
    /// What the command reads, as the user named it.
    inputs: Vec<PathBuf>,
    /// Files that will be written.
    outputs: Vec<PathBuf>,
}

/// A file that grows beyond the limit of the shell (`ulimit -f`) is an error like a full disk, not the end of the program by a
/// signal: what was written so far is then removed. To be called before threads start, which inherit it.
pub fn fail_on_full_files() {
    #[cfg(unix)]
    {
        use nix::sys::signal::{SigSet, Signal};
        let mut signals = SigSet::empty();
        signals.add(Signal::SIGXFSZ);
        // Without it such a limit leaves a temporary file behind: not worth failing for.
        let _ = signals.thread_block();
    }
}

enum Display {
    Nothing,
    Lines(Lines),
    Bar(ProgressBar),
}

/// Progress as plain lines, for logs and pipes.
struct Lines {
    stage: Option<Stage>,
    /// When the stage was first heard of, and its step then: the rate is counted from there.
    stage_start: (Instant, usize),
    last: Option<Instant>,
    every: bool,
}

impl Session {
    pub fn new(global: &GlobalArgs) -> Self {
        let display = match (global.quiet, std::io::stderr().is_terminal()) {
            (true, _) => Display::Nothing,
            (false, true) => Display::Bar(ProgressBar::new_spinner()),
            (false, false) => Display::Lines(Lines {
                stage: None,
                stage_start: (Instant::now(), 0),
                last: None,
                every: global.verbose,
            }),
        };
        let verbose = global.verbose && !global.quiet;
        let stop = Cancel::new();
        Self {
            quiet: global.quiet,
            verbose,
            shown: Vec::new(),
            losses: Vec::new(),
            worker: None,
            stop,
            display,
            transaction: None,
            memory: None,
            inputs: Vec::new(),
            outputs: Vec::new(),
        }
    }

    /// From now on files are replaced by [`Session::commit`] only, and none that was read.
    pub fn begin(&mut self) {
        self.transaction = Some(Transaction::begin());
    }

    /// Puts what was written into its places.
    pub fn commit(&self) -> anyhow::Result<()> {
        Ok(self.transaction.as_ref().map_or(Ok(()), Transaction::commit)?)
    }

    /// What made a command fail: positions that could not be written or read make it stop as if it were cancelled.
    pub fn cause(&self, error: anyhow::Error) -> anyhow::Error {
        let scratch = self.transaction.as_ref().and_then(|transaction| transaction.check().err());
        scratch.map_or(error, Into::into)
    }

    /// The record of a worker appears together with what it wrote.
    pub fn finish_worker(&self, outcome: Outcome) -> anyhow::Result<()> {
        let Some(worker) = &self.worker else { return Ok(()) };
        let named = bonesmith::io::named_files(&self.inputs);
        let mut read: Vec<_> = named.iter().map(|path| path.canonicalize().unwrap_or_else(|_| path.clone())).collect();
        read.extend(self.transaction.iter().flat_map(Transaction::files_read));
        read.sort();
        read.dedup();
        worker.finish(outcome, self.outputs.first(), &read)
    }

    /// From now on no more than so many bytes are used; a worker has the limit of its job, and without any there is one for positions.
    pub fn limit_memory(&mut self, limit: Option<u64>) {
        if let Some(limit) = limit {
            limit::keep(limit, 2);
        }
        let of_job = self.worker.as_ref().and_then(Worker::memory);
        self.memory = limit.or(of_job).or_else(bonesmith::default_limit);
        // A job that needs more than its share is started once more, alone: that is for the batch to decide.
        if self.worker.is_none() {
            self.memory.into_iter().for_each(limit::refuse);
        }
    }

    /// This command can read positions in blocks.
    pub fn read_in_blocks(&self) {
        self.memory.into_iter().for_each(limit::read_in_blocks);
    }

    /// What stops this run.
    pub fn cancel(&self) -> Cancel {
        self.stop.clone()
    }

    /// What the command reads, as the user named it, and all that it writes: refused if they are not apart.
    pub fn claim(
        &mut self,
        inputs: &[PathBuf],
        outputs: &[PathBuf],
        json: Option<&JsonTarget>,
        report: Option<&ReportTarget>,
    ) -> Result<(), Usage> {
        self.inputs = inputs.to_vec();
        self.outputs = outputs.iter().flat_map(|path| bonesmith::io::files_of(path)).collect();
        self.outputs.extend(json.and_then(JsonTarget::path).cloned());
        self.outputs.extend(report.map(|target| target.path.clone()));
        settings::keep_apart(inputs, &self.outputs)
    }

    /// Files that belong to an input are known once it is read: buffers, pictures, layers.
    pub fn check_outputs(&self) -> Result<(), Usage> {
        let Some(transaction) = &self.transaction else { return Ok(()) };
        match self.outputs.iter().find(|path| transaction.has_read(path)) {
            Some(path) => Err(Usage::new(format!("{} belongs to the input; it would be overwritten", path.display()))),
            None => Ok(()),
        }
    }

    /// First Ctrl-C asks to stop, the second one ends the program at once.
    pub fn catch_ctrl_c(&self) {
        let stop = self.stop.clone();
        // Without a handler Ctrl-C still works, only less gently: not worth failing for.
        let _ = ctrlc::set_handler(move || {
            if stop.cancel() {
                bonesmith::io::remove_temporaries();
                std::process::exit(130);
            }
        });
    }

    /// Enters a stage that reports no steps of its own; fails if the user has asked to stop, or if an output has turned
    /// out to be an input.
    pub fn stage(&mut self, stage: Stage) -> anyhow::Result<()> {
        self.check_outputs()?;
        match self.report(&Progress { stage, step: 0, steps: None, e_rms: None }) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Cancelled.into()),
        }
    }

    /// Fails if the user has asked to stop.
    pub fn check_cancelled(&self) -> Result<(), Cancelled> {
        if self.stop.is_cancelled() { Err(Cancelled) } else { Ok(()) }
    }

    /// Takes the progress display off the terminal.
    pub fn finish_progress(&mut self) {
        if let Display::Bar(bar) = &self.display {
            bar.finish_and_clear();
        }
    }

    /// The value; its warnings are shown at once, each once, and kept for the summary.
    pub fn take<T>(&mut self, noted: Noted<T>) -> T {
        for warning in noted.warnings {
            if !self.losses.contains(&warning) {
                self.warn_of(&warning);
                self.losses.push(warning);
            }
        }
        noted.value
    }

    /// A summary whose list of warnings has those about files too.
    pub fn with_losses(&self, mut summary: Value) -> Value {
        let list = summary["warnings"].take();
        let others = list.as_array().cloned().unwrap_or_default();
        summary["warnings"] = self.losses.iter().map(Warning::to_json).chain(others).collect();
        summary
    }

    /// A warning on stderr, with the option that helps.
    pub fn warn_of(&self, warning: &Warning) {
        self.warn(&errors::warning_text(warning));
    }

    /// A line on stderr that is no warning.
    pub fn note(&self, text: &str) {
        match &self.display {
            Display::Nothing => {}
            Display::Lines(_) => emit(text),
            Display::Bar(bar) => bar.suspend(|| emit(text)),
        }
    }

    /// A job of many has ended: on a terminal the bar moves, and what failed is a line.
    pub fn job_ended(&mut self, ended: usize, jobs: usize, line: &str, failed: bool) {
        if let Display::Bar(bar) = &self.display {
            if bar.prefix() != "jobs" {
                bar.reset();
                bar.set_prefix("jobs");
                bar.enable_steady_tick(Duration::from_millis(120));
                bar.set_style(style(true));
            }
            bar.set_length(jobs as u64);
            bar.set_position(ended as u64);
            bar.set_message(line.chars().take(40).collect::<String>());
            if !failed {
                return;
            }
        }
        self.note(&format!("{ended}/{jobs} {line}"));
    }

    /// A remark on stderr, kept apart from the progress bar.
    pub fn warn(&self, text: &str) {
        match &self.display {
            Display::Nothing => {}
            Display::Lines(_) => emit(&format!("warning: {text}")),
            Display::Bar(bar) => bar.suspend(|| emit(&format!("warning: {text}"))),
        }
    }
}

impl Observer for Session {
    fn report(&mut self, progress: &Progress) -> ControlFlow<()> {
        match &mut self.display {
            Display::Nothing => {}
            Display::Lines(lines) => lines.show(progress),
            Display::Bar(bar) => show_bar(bar, progress),
        }
        let is_sound = self.transaction.as_ref().is_none_or(|transaction| transaction.check().is_ok());
        match self.stop.is_cancelled() || !is_sound {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}

impl Lines {
    fn show(&mut self, progress: &Progress) {
        let now = Instant::now();
        if self.stage != Some(progress.stage) {
            self.stage = Some(progress.stage);
            self.stage_start = (now, progress.step);
            self.last = None;
        }
        if !self.every && self.last.is_some_and(|last| now - last < LINE_INTERVAL) {
            return;
        }
        self.last = Some(now);
        // A closed pipe is no reason to stop a fit.
        let _ = writeln!(std::io::stderr(), "{}", line(progress, now - self.stage_start.0, self.stage_start.1));
    }
}

/// "weights and bones: 12/100, E_RMS 3.412, at most 4 s left"
fn line(progress: &Progress, elapsed: Duration, first_step: usize) -> String {
    let Progress { stage, step, steps, e_rms } = *progress;
    let mut line = stage.to_string();
    match (step, steps) {
        (0, None) => {}
        (step, None) => line += &format!(": {step}"),
        (step, Some(steps)) => line += &format!(": {step}/{steps}"),
    }
    if let Some(e) = e_rms {
        line += &format!(", E_RMS {e:.3}");
    }
    if let Some(steps) = steps
        && first_step < step
        && step < steps
    {
        let left = elapsed.as_secs_f64() / (step - first_step) as f64 * (steps - step) as f64;
        line += &format!(", at most {left:.0} s left");
    }
    line
}

fn show_bar(bar: &ProgressBar, progress: &Progress) {
    if bar.prefix() != progress.stage.words() {
        bar.reset();
        bar.set_prefix(progress.stage.words());
        bar.enable_steady_tick(Duration::from_millis(120));
        bar.set_style(style(progress.steps.is_some()));
    }
    if let Some(steps) = progress.steps {
        bar.set_length(steps as u64);
    }
    bar.set_position(progress.step as u64);
    bar.set_message(progress.e_rms.map(|e| format!("E_RMS {e:.3}")).unwrap_or_default());
}

fn style(bounded: bool) -> ProgressStyle {
    let template = match bounded {
        true => "{spinner} {prefix:<22} [{bar:30}] {pos}/{len}  {msg}  {elapsed}, at most {eta} left",
        false => "{spinner} {prefix:<22} {msg}  {elapsed}",
    };
    // The templates are constants; should one be wrong, a plain bar is better than no program.
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_tell_stage_step_error_and_time_left() {
        let progress = Progress { stage: Stage::Weights, step: 10, steps: Some(30), e_rms: Some(1.5) };
        let text = line(&progress, Duration::from_secs(4), 0);
        assert_eq!(text, "weights: 10/30, E_RMS 1.500, at most 8 s left");
        assert_eq!(line(&progress, Duration::ZERO, 10), "weights: 10/30, E_RMS 1.500");
        let progress = Progress { stage: Stage::Reading, step: 0, steps: None, e_rms: None };
        assert_eq!(line(&progress, Duration::ZERO, 0), "reading");
    }

    #[test]
    fn a_stop_request_reaches_the_stages() {
        let mut session =
            Session::new(&GlobalArgs { threads: None, quiet: true, verbose: false, memory: None, worker: None });
        assert!(session.stage(Stage::Reading).is_ok());
        session.stop.cancel();
        assert!(session.stage(Stage::Prepare).is_err());
    }
}
