//! Rigs and animations that do not belong together.

use bonesmith_core::refit::align::{Correction, Finding};
use bonesmith_core::refit::resample::ResampleError;

use super::align::in_words;
use crate::text::figure;

/// Why a rig and an animation do not belong together.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the messages say it all")]
pub enum RigMismatch {
    #[error("{input} has {found} vertices, the rig {rig}")]
    VertexCount { input: String, found: usize, rig: usize },
    #[error("the faces of {input} join other vertices than the rig's")]
    Faces { input: String },
    #[error("rig_clips names {named} animations for {inputs} inputs")]
    ClipCount { named: usize, inputs: usize },
    #[error("rig_clips {name}: the rig has no animation of this name")]
    NoClip { name: String, available: Vec<String> },
    /// `best` is the clip that describes the animation best, with its E_RMS.
    #[error("the rig has {} animations; which of them is the input?", available.len())]
    WhichClip { available: Vec<String>, best: Option<(String, f64)> },
    #[error("frame_offset {offset}: {input} and the rig's clip {clip:?} do not overlap")]
    NoOverlap { offset: i64, input: String, clip: String },
    #[error("{input}: {source}")]
    Times { input: String, source: ResampleError },
    /// `whole` is the correction found together with the one that was given.
    #[error(
        "{input} does not fit the rig: {} (E_RMS of a sample {} as it is, {} if so)",
        in_words(&finding.correction), figure(finding.as_given), figure(finding.corrected)
    )]
    Misaligned { input: String, finding: Finding, whole: Correction },
    #[error("the rig's motion does not explain {input}: E_RMS {} on a sample, and no units, axes or frames help", figure(*e_rms))]
    Unrelated { input: String, e_rms: f64 },
}

impl RigMismatch {
    /// The option that it is about.
    pub(crate) fn option(&self) -> Option<&'static str> {
        match self {
            Self::ClipCount { .. } | Self::NoClip { .. } => Some("rig_clips"),
            Self::NoOverlap { .. } => Some("frame_offset"),
            _ => None,
        }
    }
}
