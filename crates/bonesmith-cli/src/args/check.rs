//! Engines as targets.

use std::path::PathBuf;

use bonesmith::targets::{TARGETS, Target};
use clap::Args;
use clap::builder::PossibleValue;

use super::JsonArgs;

/// The engine that a file is for.
#[derive(Clone, Debug, Default, Args)]
pub struct TargetArgs {
    /// Engine that the file is for: influences, skins, weights, root bone and names as it takes them
    #[arg(long, value_name = "ENGINE", value_parser = parser(), help_heading = "Output")]
    pub target: Option<String>,
}

impl TargetArgs {
    /// The engine.
    pub fn target(&self) -> Option<&'static Target> {
        self.target.as_deref().and_then(Target::named)
    }
}

#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes: 0 nothing found but advice, 1 a limit is exceeded, 2 bad usage or input.

Examples:
  bonesmith check hero.glb --target unreal
  bonesmith check hero.fbx --target unity,roblox --json -
  bonesmith convert hero.glb hero_bevy.glb --target bevy")]
pub struct CheckArgs {
    /// A rig or an animation
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Engines, separated by commas [default: all]
    #[arg(long, value_name = "ENGINE,...", value_delimiter = ',', value_parser = parser())]
    pub target: Vec<String>,
    #[command(flatten)]
    pub json: JsonArgs,
}

fn parser() -> clap::builder::PossibleValuesParser {
    let values = TARGETS.iter().map(|target| PossibleValue::new(target.name).help(target.title));
    clap::builder::PossibleValuesParser::new(values)
}
