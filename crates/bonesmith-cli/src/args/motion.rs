//! Options of clips: root bone, clips in place, clips that loop.

use bonesmith::{MotionOptions, RootMotion, UpAxis};
use clap::{Args, ValueEnum};

/// What is done to the clips of the result.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Clips")]
pub struct MotionArgs {
    #[arg(long, value_enum, default_value_t)]
    pub root_motion: RootMotionArg,
    #[arg(long, value_enum)]
    pub up: Option<UpArg>,
    #[arg(long)]
    pub in_place: bool,
    #[arg(long)]
    pub r#loop: bool,
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub loop_clips: Vec<String>,
}

impl MotionArgs {
    /// As the library takes it.
    pub fn options(&self) -> MotionOptions {
        let mut options = MotionOptions::default();
        options.root = match self.root_motion {
            RootMotionArg::None => RootMotion::None,
            RootMotionArg::Plane => RootMotion::Plane,
            RootMotionArg::Full => RootMotion::Full,
        };
        options.up = self.up.map(|up| match up {
            UpArg::Y => UpAxis::Y,
            UpArg::Z => UpAxis::Z,
        });
        (options.in_place, options.close) = (self.in_place, self.r#loop);
        options.loop_clips = self.loop_clips.clone();
        options
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum RootMotionArg {
    /// No root bone for it
    #[default]
    None,
    /// Translation in the ground plane, and rotation about the up axis
    Plane,
    /// Translation and rotation
    Full,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum UpArg {
    /// y
    Y,
    /// z
    Z,
}
