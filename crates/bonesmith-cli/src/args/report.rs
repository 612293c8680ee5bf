//! Arguments of reports: `--report`, `view`, `compare`.

use std::path::PathBuf;

use clap::Args;

use super::{InputArgs, JsonArgs};

/// A report beside the result.
#[derive(Clone, Debug, Args)]
pub struct ReportArgs {
    /// Write a report: one html file with a viewer, plots and what the figures mean
    #[arg(long, value_name = "FILE.html", help_heading = "Output")]
    pub report: Option<PathBuf>,
    #[arg(long, value_name = "MB", default_value_t = 25.0, help_heading = "Output", allow_negative_numbers = true)]
    pub report_max_mb: f64,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  bonesmith view walk.glb                      the rig and its animation, in the browser
  bonesmith view walk.glb --against walk.npz   beside what it was fitted to, with its error
  bonesmith view frames/                       an animation alone
  bonesmith view walk.glb --no-open -o walk.html")]
pub struct ViewArgs {
    /// A rig or an animation: any file that can be read, or a folder of OBJ or PLY files
    pub file: PathBuf,
    /// The animation to compare it with, as for `fit`
    #[arg(long, value_name = "SEQUENCE", num_args = 1..)]
    pub against: Vec<PathBuf>,
    /// Which of the rig's animations [default: all; its first with --against]
    #[arg(long, value_name = "NAME")]
    pub clip: Option<String>,
    /// Where to write the page [default: a temporary file]
    #[arg(short, long, value_name = "FILE.html", help_heading = "Output")]
    pub output: Option<PathBuf>,
    /// Do not open the browser; print where the page is
    #[arg(long, help_heading = "Output")]
    pub no_open: bool,
    /// Maximum size of the page in MB; frames are left out evenly where all would be too much
    #[arg(long, value_name = "MB", default_value_t = 25.0, help_heading = "Output", allow_negative_numbers = true)]
    pub report_max_mb: f64,
    #[command(flatten)]
    pub input: InputArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  bonesmith compare rigid.glb affine.glb two-layer.npz --against walk.npz --report compare.html")]
pub struct CompareArgs {
    /// Rigs of any kind, or animations, of one mesh
    #[arg(required = true, num_args = 1.., value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// The animation to compare them with, as for `fit`
    #[arg(long, required = true, value_name = "SEQUENCE", num_args = 1..)]
    pub against: Vec<PathBuf>,
    #[command(flatten)]
    pub report: ReportArgs,
    #[command(flatten)]
    pub input: InputArgs,
    #[command(flatten)]
    pub json: JsonArgs,
}
