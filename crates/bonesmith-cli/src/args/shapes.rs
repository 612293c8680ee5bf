//! Arguments of `shapes`.

use std::path::PathBuf;

use bonesmith_core::model::shape_bones::ShapeKind;
use bonesmith_core::shapes::Axis;
use clap::{Args, ValueEnum};

use super::{InputArgs, JsonArgs, ReportArgs, TargetArg, formats};

#[derive(Debug, Args)]
#[command(after_help = "\
For shape weights c the transform of bone j is I + sum_s c_s N_js: linear in the weights, and few numbers of N are stored.
The neutral is kept exactly.

Examples:
  bonesmith shapes face.glb --numbers 700 -o face.npz
  bonesmith shapes shapes/ --bones 60 --target-error 0.2mm -o face.npz     a folder of OBJ files, one called neutral
  bonesmith shapes face.fbx --kind rigid --norm 12 -o face_rig.npz
  bonesmith shapes face.glb --numbers 700 --mirror x --pieces --report face.html -o face_rig.glb
  bonesmith eval face.npz face.glb                                         the bones against the shapes")]
pub struct ShapesArgs {
    /// The face: morph targets of glTF, blend shapes of FBX or USD, an npz with `rest` and `shapes`, or a folder of OBJ or PLY files of which
    /// one is called neutral or rest
    #[arg(required = true, value_name = "FACE")]
    pub inputs: Vec<PathBuf>,
    #[arg(short, long, value_name = "OUT", help_heading = "Output", help = formats::shapes_output())]
    pub output: PathBuf,
    #[arg(long, value_name = "N")]
    pub bones: Option<usize>,
    #[arg(long, value_name = "K")]
    pub influences: Option<usize>,
    #[arg(long, value_enum, default_value_t)]
    pub kind: ShapeKindArg,
    #[arg(long, value_name = "M", group = "size")]
    pub numbers: Option<usize>,
    #[arg(long, value_name = "E|LENGTH", group = "size", allow_negative_numbers = true)]
    pub target_error: Option<TargetArg>,
    #[arg(long, value_enum)]
    pub mirror: Option<AxisArg>,
    #[arg(long)]
    pub pieces: bool,
    #[arg(long, value_name = "S", allow_negative_numbers = true)]
    pub shading: Option<f64>,
    #[arg(long, value_name = "P|max")]
    pub norm: Option<bonesmith::core::fit::Norm>,
    #[arg(long, value_name = "color|FILE")]
    pub importance: Option<PathBuf>,
    #[arg(long)]
    pub area: bool,
    #[arg(long, value_name = "FILE.json")]
    pub drivers: Option<PathBuf>,
    #[arg(long, value_name = "S", default_value_t = 0)]
    pub seed: u64,
    #[arg(long, value_name = "S", allow_negative_numbers = true)]
    pub max_seconds: Option<f64>,
    #[command(flatten)]
    pub input: InputArgs,
    #[command(flatten)]
    pub report: ReportArgs,
    #[command(flatten)]
    pub json: JsonArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  bonesmith bench shapes face.npz --numbers 300,652,1500")]
pub struct BenchShapesArgs {
    /// The face, as for `shapes`
    #[arg(value_name = "FACE")]
    pub face: PathBuf,
    /// Counts of numbers
    #[arg(long, value_name = "M,...", value_delimiter = ',', default_values_t = [300, 652, 1000, 1500, 2500, 4000, 7000])]
    pub numbers: Vec<usize>,
    #[command(flatten)]
    pub json: JsonArgs,
}

/// `--kind`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ShapeKindArg {
    /// Any 3x4 matrix: 12 numbers
    #[default]
    Affine,
    /// Translation and linearised rotation: 6 numbers
    Rigid,
    /// Translation: 3 numbers
    Translation,
}

/// `--mirror`
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AxisArg {
    X,
    Y,
    Z,
}

impl From<AxisArg> for Axis {
    fn from(axis: AxisArg) -> Self {
        match axis {
            AxisArg::X => Self::X,
            AxisArg::Y => Self::Y,
            AxisArg::Z => Self::Z,
        }
    }
}

impl From<ShapeKindArg> for ShapeKind {
    fn from(kind: ShapeKindArg) -> Self {
        match kind {
            ShapeKindArg::Affine => Self::Affine,
            ShapeKindArg::Rigid => Self::Rigid,
            ShapeKindArg::Translation => Self::Translation,
        }
    }
}
