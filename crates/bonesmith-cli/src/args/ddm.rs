//! Arguments of `ddm` and its bench.

use std::path::PathBuf;

use bonesmith::CompactOptions;
use clap::{Args, ValueEnum};

use super::weights::{LaplacianArg, ShapeArg};
use super::{JsonArgs, ReportArgs, formats};

#[derive(Debug, Args)]
#[command(after_help = "\
Direct Delta Mush gives a rigidly bound mesh the smooth joints of Delta Mush, at the speed of skinning.

Examples:
  bonesmith ddm character.glb --rigid-bind -o soft.glb                    multi-weights, in the extension BONESMITH_ddm
  bonesmith ddm character.glb --rigid-bind --compress 200 -o small.glb    as few virtual bones as 200 and plain weights on them
  bonesmith ddm character.glb --rigid-bind --compress 200 --shape baked -o baked.glb    plays everywhere
  bonesmith ddm character.glb --rigid-bind --delta-mush -o reference.npz  classic Delta Mush, frame by frame")]
pub struct DdmArgs {
    #[arg(help = formats::rig_input())]
    pub rig: PathBuf,
    #[arg(short, long, value_name = "OUT", help_heading = "Output", help = formats::ddm_output())]
    pub output: PathBuf,
    #[arg(long, value_name = "E|plain", num_args = 0..=1, require_equals = true, default_missing_value = "", help_heading = "Output", help = formats::compact())]
    pub compact: Option<CompactOptions>,
    #[arg(long)]
    pub rigid_bind: bool,
    #[arg(long, value_name = "0..5", default_value_t = 0)]
    pub variant: u8,
    #[arg(long, value_name = "L", allow_negative_numbers = true)]
    pub rotation_smooth: Option<f64>,
    #[arg(long, value_name = "K", allow_negative_numbers = true)]
    pub translation_smooth: Option<f64>,
    #[arg(long, value_name = "A", allow_negative_numbers = true)]
    pub alpha: Option<f64>,
    #[arg(long, value_name = "P")]
    pub steps: Option<u32>,
    #[arg(long, value_name = "FILE")]
    pub maps: Option<PathBuf>,
    #[arg(long, value_enum, default_value_t)]
    pub laplacian: LaplacianArg,
    #[arg(long, value_name = "T", allow_negative_numbers = true)]
    pub threshold: Option<f64>,
    #[arg(long, value_name = "K")]
    pub max_influences: Option<usize>,
    #[arg(long)]
    pub no_weld: bool,
    /// Classic Delta Mush instead: writes the animation, smoothed frame by frame
    #[arg(long, conflicts_with_all = ["compress", "variant", "shape", "compact", "translation_smooth", "alpha", "threshold", "max_influences"])]
    pub delta_mush: bool,
    /// What is written [default: runtime]
    #[arg(long, value_enum, help_heading = "Output")]
    pub shape: Option<ShapeArg>,
    #[command(flatten)]
    pub compress: DdmCompressArgs,
    #[command(flatten)]
    pub report: ReportArgs,
    #[command(flatten)]
    pub json: JsonArgs,
}

#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Compression")]
pub struct DdmCompressArgs {
    #[arg(long, value_name = "M", conflicts_with = "variant")]
    pub compress: Option<usize>,
    #[arg(long, value_name = "Z", requires = "compress")]
    pub layer_influences: Option<usize>,
    #[arg(long, value_name = "C", requires = "compress")]
    pub master_influences: Option<usize>,
    #[arg(long, value_name = "DEGREES|FILE", requires = "compress")]
    pub range_of_motion: Option<String>,
    #[arg(long, value_name = "UNITS", requires = "range_of_motion")]
    pub translation_range: Option<f64>,
    #[arg(long, value_enum, value_name = "MAP", num_args = 1.., requires = "compress")]
    pub without: Vec<MapArg>,
    #[arg(long, value_name = "S", requires = "compress", allow_negative_numbers = true)]
    pub smooth: Option<f64>,
    #[arg(long, value_name = "N", requires = "compress")]
    pub max_rounds: Option<usize>,
}

/// `--without`
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MapArg {
    /// Multi-weights as they are, not made linear
    Linearisation,
    /// Joints move alone, not with their descendants
    Hierarchy,
    /// Joints turn about the origin, not about their own place
    Coordinates,
    /// All joints turn alike
    Sampling,
    /// Multi-weights of virtual bones stay the average of their vertices
    MultiWeights,
}

#[derive(Debug, Args)]
pub struct BenchDdmArgs {
    /// Rigs with an animation
    #[arg(required = true, value_name = "RIG")]
    pub rigs: Vec<PathBuf>,
    /// Compress without this animation of the rig, and measure in it
    #[arg(long, value_name = "NAME")]
    pub hold_out: Option<String>,
    /// Leave out the last step of the compression, on real virtual bones in example poses
    #[arg(long)]
    pub no_real_poses: bool,
    /// Virtual bones to compress to
    #[arg(long, value_name = "M", num_args = 1.., default_values_t = [100, 200, 500])]
    pub virtual_bones: Vec<usize>,
    #[command(flatten)]
    pub json: JsonArgs,
}
