//! Many animations in one run: a job file, the jobs it stands for, what is known about each, and one page with all results.
//!
//! [`JobFile`] (TOML) --[`JobFile::plan`]--> [`Plan`] of [`Job`]s --a worker process each--> [`Record`] files --[`Plan::collect`]--> [`Results`]
//!
//! A worker is the program itself: `bonesmith fit` with the arguments of [`Job::arguments`]. It writes the rig, the report, the picture and the
//! [`Record`] together, so a job is done or it is not, whatever is killed. A record has the content hash of every file that was
//! read, a hash of the options and the version: [`Record::is_current`] decides whether a resumed batch runs a job again. Processes and signals belong to the engine:
//! the binary's own, or Ray through the Python package.

mod file;
mod job;
mod page;
mod record;
mod results;
mod thumbnail;

pub use file::{JobFile, option_names};
pub use job::{Gates, Job, Limits, Plan, Shard, Task};
pub use record::{Figures, Record, Stamp, Status};
pub use results::{Counts, Gate, Results, Row};
pub use thumbnail::thumbnail;

use std::path::PathBuf;

use crate::error::Error;

/// Exit code of a worker that used more memory than its limit.
pub const MEMORY_EXIT: u8 = 3;

/// Something is wrong with a job file.
fn wrong(path: impl Into<PathBuf>, what: impl Into<String>) -> Error {
    Error::Batch { path: path.into(), what: what.into() }
}
