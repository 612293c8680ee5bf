//! Arguments of `lod`.

use std::path::PathBuf;

use clap::Args;

use super::{InputArgs, JsonArgs, formats};

#[derive(Debug, Args)]
#[command(after_help = "\
A .glb or .gltf holds all levels (extension MSFT_lod): one skeleton and one animation for all. Other formats, and --separate, have a file for
each level: OUT_lod0, OUT_lod1, ...

Examples:
  bonesmith lod hero.glb --bones 60,30,15 --influences 4,2,1 -o hero_lods.glb
  bonesmith lod fitted.npz --examples walk.npz --refit-motion -o walk_lods.glb
  bonesmith lod hero.glb --bones 60,20 --mesh-lod hero_low.obj --separate -o hero.fbx")]
pub struct LodArgs {
    #[arg(help = formats::rig_input())]
    pub rig: PathBuf,
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "60,30,15")]
    pub bones: Vec<usize>,
    #[arg(long, value_name = "K,...", value_delimiter = ',', default_value = "4,2,1")]
    pub influences: Vec<usize>,
    #[arg(long)]
    pub refit_motion: bool,
    /// Poses to keep: the animation, frame by frame as in all of the rig's animations or in one of them
    #[arg(long, value_name = "INPUT", num_args = 1..)]
    pub examples: Vec<PathBuf>,
    /// Decimated meshes of the levels after the first, in the rest pose of the rig, separated by commas: weights are carried over from the
    /// closest point of the surface, then fitted
    #[arg(long, value_name = "FILE,...", value_delimiter = ',')]
    pub mesh_lod: Vec<PathBuf>,
    /// Write a file for each level: OUT_lod0, OUT_lod1, ...
    #[arg(long, help_heading = "Output")]
    pub separate: bool,
    #[arg(short, long, value_name = "OUT", help_heading = "Output", help = formats::rig_output())]
    pub output: PathBuf,
    #[command(flatten)]
    pub input: InputArgs,
    #[command(flatten)]
    pub json: JsonArgs,
}
