//! Options of a fit that starts from a rig, or has several clips or subjects.

use std::path::PathBuf;
use std::str::FromStr;

use bonesmith_core::refit::Solve;
use bonesmith_core::refit::align::SignedAxes;
use clap::{Args, ValueEnum};

use super::formats;

/// Start from a rig that is there already.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Existing rig")]
pub struct RigArgs {
    #[arg(long, value_name = "RIG", help = formats::existing_rig())]
    pub rig: Option<PathBuf>,
    #[arg(long, value_enum, requires = "rig")]
    pub solve: Option<SolveArg>,
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', requires = "rig")]
    pub lock_bones: Vec<String>,
    #[arg(long, value_name = "color|FILE", requires = "rig")]
    pub lock_vertices: Option<PathBuf>,
    #[arg(long, value_name = "N", requires = "rig")]
    pub add_bones: Option<usize>,
    #[arg(long, requires = "rig")]
    pub free_translation: bool,
    #[arg(long, requires = "rig")]
    pub keep_normals: bool,
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', requires = "rig")]
    pub rig_clip: Vec<String>,
    /// Another body of the same mesh: its rest pose and its clips. All share weights, each gets a file of its own,
    /// OUT_REST. May be repeated
    #[arg(long, value_name = "REST=CLIP,...")]
    pub subject: Vec<SubjectArg>,
    #[arg(long, value_enum, default_value_t, requires = "rig")]
    pub align: AlignArg,
    #[arg(long, value_name = "S", allow_negative_numbers = true, requires = "rig")]
    pub input_scale: Option<f64>,
    #[arg(long, value_name = "X,Y,Z", allow_hyphen_values = true, requires = "rig")]
    pub input_axes: Option<SignedAxes>,
    #[arg(long, value_name = "N", allow_negative_numbers = true, requires = "rig")]
    pub frame_offset: Option<i64>,
}

impl RigArgs {
    /// Whether anything here was asked for.
    pub fn is_used(&self) -> bool {
        self.rig.is_some() || !self.subject.is_empty()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SolveArg {
    /// Weights; bones move as given
    Weights,
    /// Motion of the bones; weights as given
    Motion,
    /// Both, in turn
    Both,
}

impl From<SolveArg> for Solve {
    fn from(solve: SolveArg) -> Self {
        match solve {
            SolveArg::Weights => Self::Weights,
            SolveArg::Motion => Self::Motion,
            SolveArg::Both => Self::Both,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum AlignArg {
    /// Refuse, and name the correction
    #[default]
    Check,
    /// Apply the correction
    Auto,
    /// Compare nothing
    Off,
}

/// `--subject REST=CLIP,...`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubjectArg {
    pub rest: PathBuf,
    pub clips: Vec<PathBuf>,
}

impl SubjectArg {
    /// What its outputs are called after.
    pub fn name(&self) -> String {
        self.rest.file_stem().unwrap_or_default().to_string_lossy().into_owned()
    }
}

impl FromStr for SubjectArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "give a rest pose and its clips: rest.obj=walk.npz,run.npz".to_owned();
        let (rest, clips) = text.split_once('=').ok_or_else(wrong)?;
        let clips: Vec<PathBuf> = clips.split(',').filter(|clip| !clip.is_empty()).map(PathBuf::from).collect();
        if rest.is_empty() || clips.is_empty() {
            return Err(wrong());
        }
        Ok(Self { rest: rest.into(), clips })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_are_a_rest_pose_and_clips() {
        let subject: SubjectArg = "tall.obj=walk.npz,run/".parse().unwrap();
        assert_eq!(subject.clips, [PathBuf::from("walk.npz"), PathBuf::from("run/")]);
        for wrong in ["tall.obj", "=walk.npz", "tall.obj=", "tall.obj=,"] {
            assert!(wrong.parse::<SubjectArg>().is_err(), "{wrong}");
        }
    }
}
