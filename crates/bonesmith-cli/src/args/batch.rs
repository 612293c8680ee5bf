//! Arguments of `batch`.

use std::path::PathBuf;

use bonesmith::batch::Shard;
use clap::{Args, ValueEnum};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  bonesmith batch night.toml                       every job, one process for each core
  bonesmith batch night.toml --resume              what is not done yet, or has changed
  bonesmith batch night.toml --shard 3/20          a part of the jobs: one task of a render farm
  bonesmith batch night.toml --collect             results and page of what is there
  bonesmith batch night.toml --engine ray --address auto

A job file:
  output = \"rigs\"
  [defaults]
  bones = 30
  [gates]
  max_e_rms = 2.0
  [[jobs]]
  input = \"shots/*.abc\"

Exit codes: 0 all is well, 1 a limit of quality was missed, 2 bad job file or a job failed, 130 cancelled.")]
pub struct BatchArgs {
    /// The job file: TOML, see docs/batch.md
    #[arg(value_name = "JOBS.toml")]
    pub jobs: PathBuf,
    /// Skip jobs that are done: same content of the inputs, same options, same version
    #[arg(long)]
    pub resume: bool,
    /// Only a part of the jobs: every n-th, from the i-th (1 to n)
    #[arg(long, value_name = "i/n")]
    pub shard: Option<Shard>,
    /// Processes at once [default: that of the job file, else one for each core]
    #[arg(long, value_name = "N")]
    pub workers: Option<usize>,
    /// Write results and page of what is there; run nothing
    #[arg(long, conflicts_with_all = ["resume", "shard", "workers", "dry_run"])]
    pub collect: bool,
    /// Show the command of every job; run nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Where jobs run
    #[arg(long, value_enum, default_value_t, help_heading = "Cluster")]
    pub engine: EngineArg,
    /// Address of a Ray cluster [default: this machine]
    #[arg(long, value_name = "ADDRESS", help_heading = "Cluster")]
    pub address: Option<String>,
    /// The Python that has the packages bonesmith and ray
    #[arg(long, value_name = "PROGRAM", default_value = "python3", help_heading = "Cluster")]
    pub python: PathBuf,
}

/// `--engine`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum EngineArg {
    /// Processes of this machine
    #[default]
    Local,
    /// Tasks of a Ray cluster, through the Python package
    Ray,
}
