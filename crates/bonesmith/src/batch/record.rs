//! What is known about a job when it has ended: figures, and what they depend on.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use xxhash_rust::xxh3::Xxh3;

use super::job::{Job, Plan, Task};
use crate::error::Error;

/// How a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Status {
    /// The rig is there.
    Done,
    /// Refused: bad input or options, a full disk. Not tried again.
    Failed,
    /// The worker crashed, as often as it was started.
    Crashed,
    /// Ended because of `limits.seconds`.
    TimeLimit,
    /// Ended because of `limits.memory`.
    MemoryLimit,
    /// Not run yet, or cancelled.
    Waiting,
}

impl Status {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Crashed => "crashed",
            Self::TimeLimit => "time limit",
            Self::MemoryLimit => "memory limit",
            Self::Waiting => "not run",
        }
    }
}

/// A file that a job has read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Stamp {
    /// Relative to the folder of the job file where it is inside.
    pub path: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// Nanoseconds since 1970; 0 where it says nothing, because the file was changed shortly before.
    pub modified: u64,
    /// Of its content.
    pub hash: String,
}

/// The figures of a summary that a table shows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "the keys of the summary")]
#[non_exhaustive]
pub struct Figures {
    pub vertices: Option<u64>,
    pub frames: Option<u64>,
    pub bones: Option<u64>,
    pub influences: Option<u64>,
    pub e_rms: Option<f64>,
    pub max_error: Option<f64>,
    pub rmse_percent: Option<f64>,
    pub normal_degrees: Option<f64>,
    pub file_bytes: u64,
    pub seconds: f64,
    pub peak_bytes: Option<u64>,
    pub warnings: Vec<String>,
}

impl Figures {
    /// Out of the JSON of a summary.
    pub fn of_summary(summary: &Value) -> Self {
        let (whole, number) = (|key: &str| summary[key].as_u64(), |key: &str| summary[key].as_f64());
        let warnings = summary["warnings"].as_array().map(Vec::as_slice).unwrap_or_default();
        let text = |warning: &Value| warning["message"].as_str().unwrap_or_default().chars().take(300).collect();
        Self {
            vertices: whole("vertices"),
            frames: whole("frames"),
            bones: whole("bones"),
            influences: whole("influences"),
            e_rms: number("e_rms"),
            max_error: number("max_error"),
            rmse_percent: number("rmse_percent"),
            normal_degrees: number("normal_degrees"),
            warnings: warnings.iter().map(text).collect(),
            ..Self::default()
        }
    }
}

/// What is known about a job when it has ended. That of a job that is done is written together with its rig.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Record {
    /// The job.
    pub name: String,
    /// The program.
    pub version: String,
    /// See [`Job::key`].
    pub key: String,
    /// How it ended.
    pub status: Status,
    /// Of the last attempt; `None` after a signal.
    pub exit_code: Option<i32>,
    /// How often it was started.
    pub attempts: usize,
    /// What is wrong, if anything.
    pub error: Option<String>,
    /// What it has read.
    pub files: Vec<Stamp>,
    /// The result.
    pub figures: Figures,
}

impl Record {
    /// Of a job that is done. `read`: every file that was read; `started`: before the first of them was opened.
    pub fn done(
        task: &Task,
        exit_code: u8,
        figures: Figures,
        read: &[PathBuf],
        started: SystemTime,
    ) -> Result<Self, Error> {
        let stamp =
            |path: &PathBuf| Stamp::new(path, &task.folder, started).map_err(|e| bonesmith_io::IoError::os(path, e));
        Ok(Self {
            status: Status::Done,
            exit_code: Some(exit_code.into()),
            files: read.iter().map(stamp).collect::<Result<_, _>>()?,
            figures,
            ..Self::new(&task.name, &task.key, task.attempt)
        })
    }

    fn new(name: &str, key: &str, attempts: usize) -> Self {
        Self {
            name: name.to_owned(),
            version: crate::VERSION.to_owned(),
            key: key.to_owned(),
            status: Status::Waiting,
            exit_code: None,
            attempts,
            error: None,
            files: Vec::new(),
            figures: Figures::default(),
        }
    }

    /// Of a job that did not succeed.
    pub fn failed(
        job: &Job,
        status: Status,
        exit_code: Option<i32>,
        attempts: usize,
        error: String,
        seconds: f64,
    ) -> Self {
        let figures = Figures { seconds, ..Figures::default() };
        Self { status, exit_code, error: Some(error), figures, ..Self::new(&job.name, "", attempts) }
    }

    /// The record at a path; `None` where there is none, or none that can be read: the job is then done again.
    pub fn read(path: &Path) -> Option<Self> {
        serde_json::from_slice(&std::fs::read(path).ok()?).ok()
    }

    /// Writes it, whole or not at all.
    pub fn write(&self, path: &Path) -> Result<(), Error> {
        let text = serde_json::to_string_pretty(self).unwrap_or_default() + "\n";
        Ok(bonesmith_io::write_whole(path, text.as_bytes())?)
    }

    /// Whether the job need not be done again: it is done, by this version, with these options, from files with this content, and what it wrote
    /// is there.
    pub fn is_current(&self, job: &Job, plan: &Plan) -> bool {
        let there = |path: &Option<PathBuf>| path.as_ref().is_none_or(|path| path.is_file());
        self.status == Status::Done
            && self.key == job.key(plan)
            && bonesmith_io::file_bytes(&job.output) == self.figures.file_bytes
            && there(&job.report)
            && self.files.iter().all(|stamp| stamp.is_current(&plan.folder))
    }
}

/// A time that is this near to the hashing is not trusted: clocks of file systems have steps.
const CLOCK_STEP: Duration = Duration::from_secs(2);

impl Stamp {
    fn new(path: &Path, folder: &Path, started: SystemTime) -> std::io::Result<Self> {
        let found = std::fs::metadata(path)?;
        let modified = found.modified()?;
        let trusted = modified + CLOCK_STEP < started;
        // Changed since it was read: what was read is not known any more, and the job is done again at the next run.
        let hash = if modified > started { String::new() } else { hash_file(path)? };
        Ok(Self {
            path: path.strip_prefix(folder).unwrap_or(path).to_owned(),
            bytes: found.len(),
            modified: if trusted { nanoseconds(modified) } else { 0 },
            hash,
        })
    }

    /// Whether the file has the same content. One with the same size and time is not read again.
    fn is_current(&self, folder: &Path) -> bool {
        let path = folder.join(&self.path);
        let Ok(found) = std::fs::metadata(&path) else { return false };
        if found.len() != self.bytes {
            return false;
        }
        let modified = found.modified().map_or(0, nanoseconds);
        (modified != 0 && modified == self.modified) || hash_file(&path).is_ok_and(|hash| hash == self.hash)
    }
}

fn nanoseconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64)
}

/// Hash of the content of a file.
fn hash_file(path: &Path) -> std::io::Result<String> {
    let (mut file, mut hash, mut buffer) = (File::open(path)?, Xxh3::new(), vec![0; 1 << 18]);
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(format!("{:032x}", hash.digest128())),
            Ok(n) => hash.update(&buffer[..n]),
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::JobFile;
    use super::*;

    #[test]
    fn a_record_is_current_until_something_changes() {
        let folder = tempfile::tempdir().unwrap();
        let [input, output] = ["a.npz", "batch/a.glb"].map(|name| folder.path().join(name));
        std::fs::write(&input, "input").unwrap();
        let plan = |text: &str| {
            JobFile::from_value(toml::from_str(text).unwrap(), Path::new("j"), folder.path()).unwrap().plan().unwrap()
        };
        let first = plan("[[jobs]]\ninput = 'a.npz'\n");
        let job = &first.jobs[0];
        job.make_folders().unwrap();
        std::fs::write(&output, "rig").unwrap();
        let figures = Figures { file_bytes: 3, ..Figures::default() };
        let record = |started| {
            Record::done(&job.task(&first, 1, None), 0, figures.clone(), std::slice::from_ref(&input), started).unwrap()
        };
        let later = SystemTime::now() + Duration::from_secs(9);
        record(later).write(&job.record).unwrap();
        let stored = Record::read(&job.record).unwrap();
        assert_eq!(stored.files[0].path, Path::new("a.npz"));
        let current = || Record::read(&job.record).unwrap().is_current(job, &first);
        assert!(current());
        // Another time, the same content; the same time and size are not read again.
        let touch = |secs| {
            File::options().append(true).open(&input).unwrap().set_modified(later + Duration::from_secs(secs)).unwrap()
        };
        touch(5);
        assert!(current());
        // Clocks of file systems have steps.
        std::thread::sleep(Duration::from_millis(50));
        std::fs::write(&input, "inqut").unwrap();
        assert!(!current());
        std::fs::write(&input, "input").unwrap();
        std::fs::write(&output, "ri").unwrap();
        assert!(!current());
        std::fs::write(&output, "rig").unwrap();
        assert!(current());
        let other = plan("[[jobs]]\ninput = 'a.npz'\nbones = 3\n");
        assert!(!stored.is_current(&other.jobs[0], &other));
        // An input that changed while it was read.
        assert!(!record(SystemTime::UNIX_EPOCH).is_current(job, &first));
        std::fs::remove_file(&input).unwrap();
        assert!(!current());
        std::fs::write(&job.record, "{ half a rec").unwrap();
        assert!(Record::read(&job.record).is_none());
    }
}
