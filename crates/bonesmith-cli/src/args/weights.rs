//! Arguments of `reduce`, `compress` and their benches.

use std::path::PathBuf;

use bonesmith::CompactOptions;
use bonesmith_core::mesh::laplacian::Laplacian;
use bonesmith_core::reduce::ReduceMethod;
use clap::{Args, ValueEnum};

use super::{InputArgs, JsonArgs, ReportArgs, TargetArgs, formats};

#[derive(Debug, Args)]
#[command(after_help = "\
All animations of the rig count, each by its length. Without --examples the rig's own poses take their place.

Examples:
  bonesmith reduce dense.npz --influences 4 --examples walk.npz -o walk.glb
  bonesmith reduce character.glb --method k-largest -o mobile.glb
  bonesmith reduce fitted.npz --examples walk.npz --refit-motion -o walk.glb")]
pub struct ReduceArgs {
    #[arg(help = formats::rig_or_cage())]
    pub rig: PathBuf,
    #[arg(long, value_name = "K", default_value_t = 4)]
    pub influences: usize,
    #[arg(long, value_enum, default_value_t)]
    pub method: ReduceMethodArg,
    /// Poses to keep: the animation, frame by frame as in all of the rig's animations or in one of them; others keep the rig's own poses
    #[arg(long, value_name = "INPUT", num_args = 1..)]
    pub examples: Vec<PathBuf>,
    #[arg(short, long, value_name = "OUT", help_heading = "Output", help = formats::rig_output())]
    pub output: PathBuf,
    #[arg(long, value_name = "E|plain", num_args = 0..=1, require_equals = true, default_missing_value = "", help_heading = "Output", help = formats::compact())]
    pub compact: Option<CompactOptions>,
    #[arg(long, value_name = "S", allow_negative_numbers = true)]
    pub smooth: Option<f64>,
    #[arg(long)]
    pub refit_motion: bool,
    #[arg(long, value_enum, default_value_t)]
    pub laplacian: LaplacianArg,
    /// Accept weights of an npz that are negative or do not sum to 1, and correct them
    #[arg(long)]
    pub normalise: bool,
    #[command(flatten)]
    pub target: TargetArgs,
    #[command(flatten)]
    pub input: InputArgs,
    #[command(flatten)]
    pub report: ReportArgs,
    #[command(flatten)]
    pub json: JsonArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Vertices blend 2 virtual bones, virtual bones blend bones: the quality of dense weights for the cost of four influences.
Start from a rig with many influences: bonesmith fit ... --influences all -o dense.npz

Examples:
  bonesmith compress dense.npz --examples walk.npz -o walk.glb     baked: virtual bones as joints, plays everywhere
  bonesmith compress dense.npz --shape runtime -o walk.glb         both layers, in the extension BONESMITH_two_layer
  bonesmith compress dense.npz --target-error 1 --examples walk.npz -o walk.npz")]
pub struct CompressArgs {
    #[arg(help = formats::rig_or_cage())]
    pub rig: PathBuf,
    #[arg(long, value_name = "K", group = "size", allow_negative_numbers = true)]
    pub influences_equivalent: Option<f64>,
    #[arg(long, value_name = "M", group = "size")]
    pub virtual_bones: Option<usize>,
    #[arg(long, value_name = "E", group = "size", allow_negative_numbers = true)]
    pub target_error: Option<f64>,
    /// Poses to keep: the animation, frame by frame as in all of the rig's animations or in one of them; others keep the rig's own poses
    #[arg(long, value_name = "INPUT", num_args = 1..)]
    pub examples: Vec<PathBuf>,
    #[arg(short, long, value_name = "OUT", help_heading = "Output", help = formats::rig_output())]
    pub output: PathBuf,
    #[arg(long, value_name = "E|plain", num_args = 0..=1, require_equals = true, default_missing_value = "", help_heading = "Output", help = formats::compact())]
    pub compact: Option<CompactOptions>,
    /// What is written [default: baked in .glb and .gltf, runtime in .npz]
    #[arg(long, value_enum, help_heading = "Output")]
    pub shape: Option<ShapeArg>,
    #[arg(long, value_name = "K", default_value_t = 2)]
    pub layer_influences: usize,
    #[arg(long, value_name = "C")]
    pub master_influences: Option<usize>,
    #[arg(long, conflicts_with = "examples")]
    pub weights_only: bool,
    #[arg(long)]
    pub keep_motion: bool,
    #[arg(long)]
    pub keep_rest: bool,
    #[arg(long)]
    pub force: bool,
    #[arg(long)]
    pub thorough: bool,
    /// Accept weights of an npz that are negative or do not sum to 1, and correct them
    #[arg(long)]
    pub normalise: bool,
    #[command(flatten)]
    pub input: InputArgs,
    #[command(flatten)]
    pub report: ReportArgs,
    #[command(flatten)]
    pub json: JsonArgs,
}

#[derive(Debug, Args)]
pub struct BenchWeightsArgs {
    /// Folder of .npz sequences [default: $BONESMITH_DATA/sequences, else ../shared/data/sequences]
    #[arg(long, value_name = "DIR")]
    pub sequences: Option<PathBuf>,
    /// Only rows whose "sequence bones" contains this
    #[arg(long, value_name = "PATTERN")]
    pub only: Option<String>,
    #[command(flatten)]
    pub json: JsonArgs,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ReduceMethodArg {
    /// Bonesmith's own: bones chosen for the poses, similar errors at neighbouring vertices
    #[default]
    Bonesmith,
    /// The largest weights
    KLargest,
    /// The largest weights' bones; weights whose Laplacian matches
    Smooth,
    /// The bones of largest effect; weights by least squares
    Geometric,
    /// The bones that alone predict best, the rule that the paper prints; weights by least squares
    GeometricEq37,
    /// The bones of largest effect; weights for which the Laplacian of the poses matches
    Poisson,
}

impl From<ReduceMethodArg> for ReduceMethod {
    fn from(method: ReduceMethodArg) -> Self {
        match method {
            ReduceMethodArg::Bonesmith => Self::Bonesmith,
            ReduceMethodArg::KLargest => Self::KLargest,
            ReduceMethodArg::Smooth => Self::Smooth,
            ReduceMethodArg::Geometric => Self::Geometric,
            ReduceMethodArg::GeometricEq37 => Self::GeometricEq37,
            ReduceMethodArg::Poisson => Self::Poisson,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LaplacianArg {
    /// Cotangents, clamped
    #[default]
    Cotangent,
    /// Every edge alike
    Uniform,
}

impl From<LaplacianArg> for Laplacian {
    fn from(kind: LaplacianArg) -> Self {
        match kind {
            LaplacianArg::Cotangent => Self::Cotangent,
            LaplacianArg::Uniform => Self::Uniform,
        }
    }
}

/// `--shape`
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ShapeArg {
    /// Virtual bones as joints with baked motion: plays everywhere
    Baked,
    /// Both layers; a glTF has them in an extension, and single-layer weights for players that do not know it
    Runtime,
}
