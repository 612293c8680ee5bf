//! A worker: this program, doing one job of a batch. It stops when its standard input ends, keeps to its memory, and writes its record together with
//! the rig.

use std::io::Read;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use bonesmith::batch::{Figures, MEMORY_EXIT, Record, Task, thumbnail};
use bonesmith::{Cancel, Memory, ModelRef};
use serde_json::Value;

use crate::errors::{Outcome, Usage};

/// A stage that does not look whether it is cancelled has so much time.
const GRACE: Duration = Duration::from_secs(5);

/// One job of a batch, in its worker.
pub struct Worker {
    task: Task,
    started: SystemTime,
    clock: Instant,
    figures: Figures,
}

impl Worker {
    /// Before anything is read.
    pub fn start(task: &str, stop: Cancel) -> Result<Self, Usage> {
        let task: Task = serde_json::from_str(task).map_err(|e| Usage::new(format!("--worker: {e}")))?;
        bonesmith::io::tag_temporaries(&task.tag());
        std::thread::spawn(move || stop_at_end(&stop));
        if let Some(limit) = task.memory {
            crate::limit::keep(limit, MEMORY_EXIT);
        }
        Ok(Self { task, started: SystemTime::now(), clock: Instant::now(), figures: Figures::default() })
    }

    /// Bytes that it may use.
    pub fn memory(&self) -> Option<u64> {
        self.task.memory
    }

    /// Draws the result.
    pub fn draw(&self, model: ModelRef<'_>) -> anyhow::Result<()> {
        match &self.task.picture {
            Some(path) => Ok(bonesmith::io::write_whole(path, &thumbnail(model))?),
            None => Ok(()),
        }
    }

    /// Keeps the figures of a summary.
    pub fn note(&mut self, summary: &Value) {
        self.figures = Figures::of_summary(summary);
    }

    /// Writes the record. `output`: the rig; `read`: all files that were read.
    pub fn finish(&self, outcome: Outcome, output: Option<&PathBuf>, read: &[PathBuf]) -> anyhow::Result<()> {
        let mut figures = self.figures.clone();
        figures.seconds = self.clock.elapsed().as_secs_f64();
        figures.peak_bytes = Memory::so_far().map(|memory| memory.peak);
        figures.file_bytes = output.map_or(0, |path| bonesmith::io::file_bytes(path));
        let code = u8::from(outcome == Outcome::QualityMissed);
        Ok(Record::done(&self.task, code, figures, read, self.started)?.write(&self.task.record)?)
    }
}

/// Cancels when standard input ends: the batch has closed it, or is no more.
fn stop_at_end(stop: &Cancel) {
    let (mut input, mut buffer) = (std::io::stdin().lock(), [0; 64]);
    loop {
        match input.read(&mut buffer) {
            Ok(0) => break,
            Err(e) if e.kind() != std::io::ErrorKind::Interrupted => break,
            _ => {}
        }
    }
    stop.cancel();
    std::thread::sleep(GRACE);
    bonesmith::io::remove_temporaries();
    std::process::exit(130);
}
