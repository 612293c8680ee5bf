//! The command line as clap sees it. Parsing only: nothing is opened, checked against each other or run here; that
//! is `settings`. Completions and the man page are made from these same definitions. Help of options that Python has, too, is in the tables of
//! `bonesmith::options`.

mod batch;
mod bench;
mod check;
mod compact;
mod ddm;
mod formats;
mod gpu;
mod help;
mod lod;
mod motion;
mod report;
mod rig;
mod shapes;
mod skeleton;
mod values;
mod weights;

use std::path::PathBuf;
use std::str::FromStr;

use bonesmith::CompactOptions;
use clap::{Args, Parser, Subcommand};

pub use batch::{BatchArgs, EngineArg};
pub use bench::{BenchTableArgs, TableArgs};
pub use check::{CheckArgs, TargetArgs};
pub use compact::hint;
pub use ddm::{BenchDdmArgs, DdmArgs, DdmCompressArgs, MapArg};
pub use gpu::BenchGpuArgs;
pub use help::command;
pub use lod::LodArgs;
pub use motion::MotionArgs;
pub use report::{CompareArgs, ReportArgs, ViewArgs};
pub use rig::{AlignArg, RigArgs, SubjectArg};
pub use shapes::{BenchShapesArgs, ShapesArgs};
pub use skeleton::{BenchSkeletonArgs, RootArg, SkeletonArgs};
pub use values::{
    BoneKindArg, BonesArg, EffortArg, FramesArg, InfluencesArg, MethodArg, OthersArg, PiecesArg, RestArg, SceneArg,
    TargetArg,
};
pub use weights::{BenchWeightsArgs, CompressArgs, ReduceArgs, ShapeArg};

/// Turns mesh animations into skinned rigs: bones, sparse weights, bone animation.
#[derive(Debug, Parser)]
#[command(name = "bonesmith", version, propagate_version = true, max_term_width = 110, after_help = EXAMPLES)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
    #[command(flatten)]
    pub global: GlobalArgs,
}

const EXAMPLES: &str = "\
Examples:
  bonesmith demo                                    make an animation, fit it, write demo/demo.glb
  bonesmith fit walk.npz -o walk.glb                a rig with as many bones as the motion needs
  bonesmith fit frames/ --bones 30 -o walk.glb      a folder of OBJ or PLY files, 30 bones
  bonesmith shapes face.glb --numbers 700 -o f.npz  bones that the shapes of a face drive
  bonesmith reduce dense.npz -o light.glb           at most 4 bones per vertex
  bonesmith compress dense.npz -o light.glb         two layers of 2: the quality of dense weights
  bonesmith ddm character.glb --rigid-bind -o d.glb Direct Delta Mush: smooth joints
  bonesmith eval walk.glb walk.npz                  measure the rig against the animation
  bonesmith view walk.glb --against walk.npz        the same in the browser
  bonesmith batch night.toml --resume               many animations, and one page with all results
  bonesmith info walk.glb                           what a file holds

Exit codes: 0 fine, 1 a requested quality was missed, 2 bad usage or input, 130 cancelled.";

/// Options that every command has.
#[derive(Clone, Debug, Args)]
pub struct GlobalArgs {
    /// Threads to use [default: all cores]. The result does not depend on it
    #[arg(long, global = true, value_name = "T")]
    pub threads: Option<usize>,
    /// Print only errors and the output that was asked for
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// Print more: every iteration, and the time of each part
    #[arg(short, long, global = true)]
    pub verbose: bool,
    /// Use at most so much memory, such as 4G or 900M [default for positions: 70 % of what is free]. Positions that do not fit are read in blocks from a scratch
    /// file (fit, eval, compare, view, info, convert) or refused. Of a batch: all workers together
    #[arg(long, global = true, value_name = "SIZE")]
    pub memory: Option<SizeArg>,
    /// One job of a batch, as JSON
    #[arg(long, global = true, hide = true, value_name = "TASK")]
    pub worker: Option<String>,
}

#[derive(Debug, Subcommand)]
#[allow(clippy::large_enum_variant, reason = "there is one per run")]
pub enum Command {
    /// Make an animation, fit it, and write it as GLB: no input needed
    Demo(DemoArgs),
    /// Fit bones, weights and bone motion to a mesh animation
    Fit(FitArgs),
    /// Error against the number of bones, in one run
    Sweep(SweepArgs),
    /// Levels of detail: nested subsets of bones that one animation drives
    Lod(LodArgs),
    /// Fit bones to the shapes of a face: transforms linear in the shape weights, with few numbers
    Shapes(ShapesArgs),
    /// Remove influences: fewer bones per vertex, the same bones
    Reduce(ReduceArgs),
    /// Compress weights to two layers: few influences with the quality of many
    Compress(CompressArgs),
    /// Direct Delta Mush: smooth joints from a rigid bind; and its compression
    Ddm(DdmArgs),
    /// Measure a rig against a mesh animation
    Eval(EvalArgs),
    /// Show a rig or an animation in the browser
    View(ViewArgs),
    /// Measure several rigs against one mesh animation
    Compare(CompareArgs),
    /// Show what a file holds
    Info(InfoArgs),
    /// List what engines object to in a file
    Check(CheckArgs),
    /// Write a rig or a mesh animation in another format
    Convert(ConvertArgs),
    /// Fit many animations: a job file, worker processes, one page with all results
    Batch(BatchArgs),
    /// Measure speed and error on known sequences
    Bench(BenchArgs),
    /// Print a completion script for a shell
    #[command(
        after_help = "Example:\n  bonesmith completions bash > ~/.local/share/bash-completion/completions/bonesmith"
    )]
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page
    #[command(after_help = "Example:\n  bonesmith man | man -l -")]
    Man,
}

/// `--memory 4G`: a number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeArg(pub u64);

impl FromStr for SizeArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        bonesmith::parse_bytes(text).map(Self).ok_or_else(|| match text.trim().parse::<f64>() {
            Ok(number) => format!("it must be a size with a unit: {number}M or {number}G, or {number}B for bytes"),
            Err(_) => "it must be a size such as 500M, 4G or 1.5GiB".to_owned(),
        })
    }
}

/// What is fitted and how: shared by `fit` and `demo`.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Fit")]
pub struct SolverArgs {
    #[arg(long, value_name = "N|auto")]
    pub bones: Option<BonesArg>,
    #[arg(long, value_name = "E|LENGTH", allow_negative_numbers = true)]
    pub target_error: Option<TargetArg>,
    #[arg(long, value_name = "K|all")]
    pub influences: Option<InfluencesArg>,
    #[arg(long, value_enum)]
    pub bone_kind: Option<BoneKindArg>,
    #[arg(long, value_name = "S", allow_negative_numbers = true)]
    pub smooth: Option<f64>,
    #[arg(long, value_name = "SHARE", allow_negative_numbers = true)]
    pub prune: Option<f64>,
    #[arg(long, value_name = "S", help_heading = "Fit")]
    pub shading: Option<f64>,
    #[arg(long, value_name = "P|max")]
    pub norm: Option<bonesmith::core::fit::Norm>,
    #[arg(long, value_name = "color|FILE")]
    pub importance: Option<PathBuf>,
    #[arg(long)]
    pub area: bool,
    #[arg(long)]
    pub keep_rest: bool,
    #[arg(long, value_enum)]
    pub method: Option<MethodArg>,
    #[arg(long, value_name = "H", allow_negative_numbers = true)]
    pub bandwidth: Option<f64>,
    #[arg(long, value_enum)]
    pub effort: Option<EffortArg>,
    #[arg(long, value_name = "S")]
    pub seed: Option<u64>,
    #[arg(long, value_name = "S", allow_negative_numbers = true)]
    pub max_seconds: Option<f64>,
    #[arg(long, value_name = "N")]
    pub max_iterations: Option<usize>,
    #[arg(long, value_name = "T", allow_negative_numbers = true)]
    pub tolerance: Option<f64>,
}

/// How a mesh animation is read.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Input")]
pub struct InputArgs {
    #[arg(long, value_name = "first|symmetric|FRAME|FILE")]
    pub rest: Option<RestArg>,
    #[arg(long, value_name = "F", allow_negative_numbers = true)]
    pub fps: Option<f64>,
    /// Only these frames, counted from 0; A..B leaves B out, A..=B does not, either end may be left off
    #[arg(long, value_name = "A..B")]
    pub frames: Option<FramesArg>,
    #[arg(long, value_name = "NAME")]
    pub mesh: Option<String>,
    #[arg(long, value_name = "NAME,..", value_delimiter = ',')]
    pub clips: Vec<String>,
}

/// Where the machine-readable summary goes.
#[derive(Clone, Debug, Default, Args)]
pub struct JsonArgs {
    /// Write the summary as JSON; - for standard output
    #[arg(long, value_name = "FILE|-", help_heading = "Output")]
    pub json: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  bonesmith demo                      writes demo/demo.glb, demo/demo.npz and demo/report.html
  bonesmith demo --bones 24 -o fish   another number of bones, another folder
  bonesmith demo --scene wall         a wall that breaks into 300 rigid pieces")]
pub struct DemoArgs {
    /// Which animation to make
    #[arg(long, value_enum, default_value_t)]
    pub scene: SceneArg,
    /// Folder for the results; made when it is not there
    #[arg(short, long, value_name = "DIR", default_value = "demo")]
    pub output: PathBuf,
    #[command(flatten)]
    pub solver: SolverArgs,
    #[command(flatten)]
    pub json: JsonArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  bonesmith fit walk.npz -o walk.glb
  bonesmith fit 'frames/walk_*.obj' --rest tpose.obj --fps 30 --bones 30 -o walk.glb
  bonesmith fit cloth.pc2 cloth.obj --bone-kind affine --influences 8 -o cloth.glb
  bonesmith fit face.glb --target-error 2 --json - -o face_rig.glb
  bonesmith fit walk.npz run.npz --bones 30 -o character.glb
  bonesmith fit sim.npz --rig character.glb --solve weights --add-bones 8 -o helped.glb
  bonesmith fit dance.npz --skeleton --picture dance.svg -o dance.glb
  bonesmith fit wall.abc --pieces nodes -o wall.glb
  bonesmith fit walk.npz --root-motion plane --in-place --loop -o walk.glb")]
pub struct FitArgs {
    /// The animation: one file, a folder or pattern of OBJ/PLY files, or a point cache and its OBJ; several are several
    /// clips of one mesh
    #[arg(required_unless_present_any = ["subject", "parts"], value_name = "INPUT")]
    pub inputs: Vec<PathBuf>,
    #[arg(short, long, value_name = "OUT", help_heading = "Output", help = formats::rig_output())]
    pub output: PathBuf,
    /// One object of a scene that has a cache for each: its name and its files, between commas (a cache and its mesh). Repeat it for
    /// each object; all have the same frames
    #[arg(long = "part", value_name = "NAME=FILES", help_heading = "Input", conflicts_with_all = ["inputs", "subject", "rig"])]
    pub parts: Vec<String>,
    #[arg(long, value_enum, default_value_t, requires = "mesh", help_heading = "Input", conflicts_with_all = ["rig", "subject"])]
    pub others: OthersArg,
    #[command(flatten)]
    pub solver: SolverArgs,
    #[arg(long, value_enum, default_value_t, help_heading = "Output", help = formats::pieces())]
    pub pieces: PiecesArg,
    #[arg(long, value_name = "N", help_heading = "Output", help = formats::max_joints())]
    pub max_joints: Option<usize>,
    #[arg(long, value_name = "E|plain", num_args = 0..=1, require_equals = true, default_missing_value = "", help_heading = "Output", help = formats::compact())]
    pub compact: Option<CompactOptions>,
    #[arg(long, value_name = "R", help_heading = "Fit", help = formats::eigenskin())]
    pub eigenskin: Option<usize>,
    #[command(flatten)]
    pub rig: RigArgs,
    #[command(flatten)]
    pub skeleton: SkeletonArgs,
    #[command(flatten)]
    pub target: TargetArgs,
    #[command(flatten)]
    pub motion: MotionArgs,
    #[command(flatten)]
    pub input: InputArgs,
    #[command(flatten)]
    pub report: ReportArgs,
    #[command(flatten)]
    pub json: JsonArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  bonesmith sweep walk.npz
  bonesmith sweep cloth.abc --counts 10,20,40,80 --report cloth.html -o cloth.csv")]
pub struct SweepArgs {
    /// The animation, as for `fit`
    #[arg(required = true, value_name = "INPUT")]
    pub inputs: Vec<PathBuf>,
    #[arg(long, value_name = "N,...", value_delimiter = ',')]
    pub counts: Vec<usize>,
    /// Write the table as .csv
    #[arg(short, long, value_name = "OUT", help_heading = "Output")]
    pub output: Option<PathBuf>,
    /// Write a page with a plot and the table, .html
    #[arg(long, value_name = "OUT", help_heading = "Output")]
    pub report: Option<PathBuf>,
    #[command(flatten)]
    pub solver: SolverArgs,
    #[command(flatten)]
    pub input: InputArgs,
    #[command(flatten)]
    pub json: JsonArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  bonesmith eval walk.glb walk.npz --json -")]
pub struct EvalArgs {
    #[arg(help = formats::rig_input())]
    pub rig: PathBuf,
    /// The animation, as for `fit`
    #[arg(required = true, value_name = "INPUT")]
    pub inputs: Vec<PathBuf>,
    /// Which of the rig's animations [default: those of the same names and lengths, else the first that is as long, else all]
    #[arg(long, value_name = "NAME")]
    pub clip: Option<String>,
    /// Pose the rig on the GPU (feature `gpu`)
    #[arg(long)]
    pub gpu: bool,
    #[command(flatten)]
    pub input: InputArgs,
    #[command(flatten)]
    pub report: ReportArgs,
    #[command(flatten)]
    pub json: JsonArgs,
}

#[derive(Debug, Args)]
pub struct InfoArgs {
    /// A rig or an animation; several files or a folder for an OBJ/PLY sequence
    #[arg(required = true, value_name = "FILE")]
    pub inputs: Vec<PathBuf>,
    /// Frames per second, as for `fit`
    #[arg(long, value_name = "F", allow_negative_numbers = true)]
    pub fps: Option<f64>,
    /// Only the mesh of this name, or those of these names between commas
    #[arg(long, value_name = "NAME")]
    pub mesh: Option<String>,
    #[command(flatten)]
    pub json: JsonArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  bonesmith convert walk.npz walk.glb              a rig in another format
  bonesmith convert frames/ walk.npz               an OBJ sequence as one file
  bonesmith convert character.glb walk.npz --bake  the skinned animation as plain positions
  bonesmith convert face.npz talk.glb --curves talk.csv   a clip of bones from curves of shape weights")]
pub struct ConvertArgs {
    /// What to read, then the file to write
    #[arg(required = true, num_args = 2.., value_name = "IN... OUT")]
    pub paths: Vec<PathBuf>,
    /// Write a rig as the animation it makes, not as a rig
    #[arg(long)]
    pub bake: bool,
    /// Only this one of a rig's animations
    #[arg(long, value_name = "NAME")]
    pub clip: Option<String>,
    /// Bake curves of shape weights (.csv, .npz) to a clip: for bones driven by shapes. ARKit's names are recognised
    #[arg(long, value_name = "FILE")]
    pub curves: Option<PathBuf>,
    #[arg(long, value_name = "N", help = formats::max_joints())]
    pub max_joints: Option<usize>,
    #[arg(long, value_name = "E|plain", num_args = 0..=1, require_equals = true, default_missing_value = "", help = formats::compact())]
    pub compact: Option<CompactOptions>,
    #[command(flatten)]
    pub target: TargetArgs,
    #[command(flatten)]
    pub motion: MotionArgs,
    #[command(flatten)]
    pub input: InputArgs,
}

#[derive(Debug, Args)]
pub struct BenchArgs {
    #[command(subcommand)]
    pub what: BenchCommand,
    /// Write the tables as a report too
    #[arg(long, value_name = "FILE.html", global = true)]
    pub report: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// Speed, error and memory of the fit beside published figures, as a Markdown table
    Fit(BenchFitArgs),
    /// How well the fit uses this machine: threads, growth with size, inner loops against the peak
    Limits(BenchLimitsArgs),
    /// How fast animations are read from warm files
    Files(BenchFilesArgs),
    /// RMSE of skeletons, ours and the single-pass methods, beside table 2 of the course notes of 2014
    Skeleton2(BenchSkeletonArgs),
    /// SMA, SAD, FSD, clustered PCA, truncated SVD and ours beside table 2 of Kavan et al. 2010
    Kavan2(BenchTableArgs),
    /// SMA, LSSP, SSDR and ours with rigid bones beside table 1 of the course notes of 2014
    Ssdr1(BenchTableArgs),
    /// Error of all weight reductions and of two layers beside table 3 of the course notes of 2014
    Reduction3(BenchTableArgs),
    /// Change of the weights without examples beside table 4.2 of Le's thesis
    #[command(name = "weights4.2")]
    Weights42(BenchTableArgs),
    /// Error, time and memory of bones driven by shapes against the count of numbers
    Shapes(BenchShapesArgs),
    /// Size, evaluation speed and time to compress of two layers
    TwoLayer(BenchWeightsArgs),
    /// Size, speed and error of Direct Delta Mush, its variants and its compression
    Ddm(BenchDdmArgs),
    /// Speed of all run-time models on the GPU, beside its bandwidth (feature `gpu`)
    Gpu(BenchGpuArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "\
Each row is a run of `bonesmith fit` in a process of its own. Without sequences the demo animation is used.

Examples:
  bonesmith bench fit --only horse
  bonesmith bench fit --only affine --method fsd --threads 1
  bonesmith bench fit --json plain.json
  bonesmith bench fit --against plain.json -- --norm max")]
pub struct BenchFitArgs {
    /// Folder of .npz sequences [default: $BONESMITH_DATA/sequences, else ../shared/data/sequences]
    #[arg(long, value_name = "DIR")]
    pub sequences: Option<PathBuf>,
    /// Only rows whose "sequence bones kind" contains this
    #[arg(long, value_name = "PATTERN")]
    pub only: Option<String>,
    /// The method: Bonesmith's own, or a published one
    #[arg(long, value_enum, default_value_t)]
    pub method: MethodArg,
    /// Amount of work: more of it finds lower errors
    #[arg(long, value_enum, default_value_t)]
    pub effort: EffortArg,
    /// Maximum number of rounds over weights and bones
    #[arg(long, value_name = "N")]
    pub max_iterations: Option<usize>,
    /// Stop when a round lowers the error by less than this fraction
    #[arg(long, value_name = "T", allow_negative_numbers = true)]
    pub tolerance: Option<f64>,
    /// The JSON of an earlier run: mean ratios of this run's figures to those are added
    #[arg(long, value_name = "FILE.json")]
    pub against: Option<PathBuf>,
    /// More options of `bonesmith fit`, for all rows
    #[arg(last = true, value_name = "OPTION")]
    pub options: Vec<String>,
    #[command(flatten)]
    pub json: JsonArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "\
The demo animation, made larger: midpoints of edges as vertices, frames in between, more bones.
Seconds are the least of a few fits, on one thread where nothing else is said.")]
pub struct BenchLimitsArgs {
    /// Amount of work: more of it finds lower errors
    #[arg(long, value_enum, default_value_t)]
    pub effort: EffortArg,
    /// Fits of which the fastest counts
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub repeats: usize,
    #[command(flatten)]
    pub json: JsonArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  bonesmith bench files cache.abc rig.fbx")]
pub struct BenchFilesArgs {
    /// Animations that one file holds each
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Reads of which the fastest counts
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub repeats: usize,
    #[command(flatten)]
    pub json: JsonArgs,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definitions_are_consistent() {
        command().debug_assert();
    }
}
