//! Arguments of `bench gpu`.

use std::path::PathBuf;

use clap::Args;

use super::JsonArgs;

#[derive(Debug, Args)]
#[command(after_help = "\
Models that are not given are made from the rig: two layers within 0.15, Direct Delta Mush of a rigid bind with
default parameters, and its compression with 4 virtual bones per vertex. Each instance has a pose of its own out of the rig's first animation.

Examples:
  bonesmith bench gpu                                        a built-in body of 14,852 vertices and 65 bones
  bonesmith bench gpu walk.glb --instances 150
  bonesmith bench gpu walk.npz walk_two.npz walk_ddm.npz     models made before, by `compress` and `ddm`")]
pub struct BenchGpuArgs {
    /// A rig with an animation, then two-layer and Direct Delta Mush models of it
    #[arg(value_name = "RIG")]
    pub rigs: Vec<PathBuf>,
    /// Characters that are posed at once
    #[arg(long, value_name = "I", default_value_t = 300)]
    pub instances: usize,
    /// Virtual bones to compress Direct Delta Mush to
    #[arg(long, value_name = "M", default_value_t = 200)]
    pub virtual_bones: usize,
    /// Only an adapter whose name contains this
    #[arg(long, value_name = "NAME")]
    pub adapter: Option<String>,
    /// All workgroup sizes and tiles instead
    #[arg(long, hide = true)]
    pub sweep: bool,
    #[command(flatten)]
    pub json: JsonArgs,
}
