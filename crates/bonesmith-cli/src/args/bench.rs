//! Options that all of the papers' tables have.

use std::path::PathBuf;

use clap::Args;

use super::JsonArgs;

/// On what a table is run, and where it goes.
#[derive(Clone, Debug, Default, Args)]
pub struct TableArgs {
    /// Folder of .npz sequences [default: $BONESMITH_DATA/sequences, else ../shared/data/sequences]
    #[arg(long, value_name = "DIR")]
    pub sequences: Option<PathBuf>,
    /// Only rows whose "sequence bones" contains this
    #[arg(long, value_name = "PATTERN")]
    pub only: Option<String>,
    /// Keep every figure in this file as soon as it is measured, and measure none again that it holds
    #[arg(long, value_name = "FILE")]
    pub resume: Option<PathBuf>,
    /// Also write the rows as CSV
    #[arg(long, value_name = "FILE.csv", help_heading = "Output")]
    pub csv: Option<PathBuf>,
    /// Also write the table as a Markdown page
    #[arg(long, value_name = "FILE.md", help_heading = "Output")]
    pub page: Option<PathBuf>,
    #[command(flatten)]
    pub json: JsonArgs,
}

#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Rows are run on the sequences that are found; a method that cannot run on one says so in its row, and the others go on.

Examples:
  bonesmith bench kavan2 --only horse-gallop
  bonesmith bench ssdr1 --resume ssdr1.state --csv ssdr1.csv --page ssdr1.md")]
pub struct BenchTableArgs {
    #[command(flatten)]
    pub table: TableArgs,
}
