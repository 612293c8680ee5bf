//! Why something was refused or did not finish.

use std::path::PathBuf;

use bonesmith_core::compress::CompressError;
use bonesmith_core::corrective::EigenSkinError;
use bonesmith_core::ddm::DdmError;
use bonesmith_core::fit::FitError;
use bonesmith_core::lod::LodError;
use bonesmith_core::metrics::MetricsError;
use bonesmith_core::observer::Cancelled;
use bonesmith_core::reduce::ReduceError;
use bonesmith_core::refit::RefitError;
use bonesmith_core::{Progress, SequenceError, Stage};
use bonesmith_io::IoError;
use bonesmith_report::ReportError;

use crate::refit::RigMismatch;

/// Any error of this crate. Messages name no command-line options; [`Error::option`] says which option is meant.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The observer cancelled the work, or [`crate::Cancel`] did. Nothing was written.
    #[error("cancelled")]
    Cancelled(#[source] Cancelled),
    /// A file could not be read or written.
    #[error(transparent)]
    Io(IoError),
    /// Something was chosen that is not there.
    #[error(transparent)]
    Pick(#[from] PickError),
    /// Positions that are no animation.
    #[error(transparent)]
    Sequence(#[from] SequenceError),
    /// A fit, or its parameters.
    #[error(transparent)]
    Fit(FitError),
    /// A fit that starts from a rig.
    #[error(transparent)]
    Refit(RefitError),
    /// A rig and an animation that do not belong together.
    #[error(transparent)]
    Mismatch(Box<RigMismatch>),
    /// A reduction of influences.
    #[error(transparent)]
    Reduce(ReduceError),
    /// A compression to two layers.
    #[error(transparent)]
    Compress(CompressError),
    /// Direct Delta Mush.
    #[error(transparent)]
    Ddm(DdmError),
    /// Corrective shapes.
    #[error(transparent)]
    EigenSkin(EigenSkinError),
    /// Levels of detail.
    #[error(transparent)]
    Lod(LodError),
    /// A model and an animation that cannot be compared. `file` is the model's, empty where it has none.
    #[error("{}{source}", match file.as_os_str().is_empty() {
        true => String::new(),
        false => format!("{} cannot be compared: ", file.display()),
    })]
    Metrics {
        /// Where the model is from.
        file: PathBuf,
        /// Why.
        source: MetricsError,
    },
    /// A report.
    #[error("{}: {source}", path.display())]
    Report {
        /// The report's file.
        path: PathBuf,
        /// Why.
        source: ReportError,
    },
    /// The file that was written is not what was meant to be written.
    #[error("reading back what was written: {0}")]
    ReadBack(#[source] Box<Error>),
    /// The GPU.
    #[cfg(feature = "gpu")]
    #[error(transparent)]
    Gpu(#[from] bonesmith_gpu::GpuError),
    /// A job file.
    #[error("{}: {what}", path.display())]
    Batch {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where.
        what: String,
    },
    /// What is asked for does not exist for this model.
    #[error("{0}")]
    Unsupported(String),
}

/// A choice that names something which is not there.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the messages say it all")]
pub enum PickError {
    #[error("frames {start}..{end}: {}", available(*frames))]
    Frames { start: usize, end: usize, frames: usize },
    #[error("rest {frame}: {}", available(*frames))]
    RestFrame { frame: usize, frames: usize },
    #[error("rest: no frame is its own mirror image across x, y or z within 2 % of the radius")]
    NoSymmetry,
    #[error("{}: no mesh in there", path.display())]
    NoRest { path: PathBuf },
    #[error("clip {name}: the rig has no animation of this name")]
    Clip { name: String, available: Vec<String> },
    #[error("clips {name}: there is no clip of this name; there are {}", available.join(", "))]
    Clips { name: String, available: Vec<String> },
    #[error("clip {name}: the animations of a rig have names, and {} is no rig", path.display())]
    NoClips { name: String, path: PathBuf },
    #[error("loop_clips {name}: there is no clip of this name; there are {}", available.join(", "))]
    LoopClips { name: String, available: Vec<String> },
    #[error("{option} is for animations, and {} is a rig", path.display())]
    OfAnimation { option: &'static str, path: PathBuf },
    #[error("{option} has no effect here: the rig of {} is read whole", path.display())]
    WholeRig { option: &'static str, path: PathBuf },
    #[error("clips: the frames of bones driven by shapes are their shapes, and all of them are kept")]
    ClipsOfShapes,
    #[error("lock_bones {name}: no bone of the rig has this name")]
    Bone { name: String, available: Vec<String> },
    #[error("lock_bones {pattern}: {why}")]
    Pattern { pattern: String, why: String },
    #[error("{option}: {found} values for {expected} vertices")]
    MaskLength { option: &'static str, found: usize, expected: usize },
    #[error("lock_vertices: vertex {vertex} has {value}, not 0 to 1")]
    MaskValue { vertex: usize, value: f32 },
    #[error("lock_vertices has no effect on the motion alone: all weights stay")]
    MaskUnused,
    #[error("others: {what}")]
    Others { what: String },
    #[error("{option}: the mesh has no vertex colours")]
    NoColours { option: &'static str },
}

fn available(frames: usize) -> String {
    match frames {
        0 => "the animation has no frames".to_owned(),
        1 => "the animation has 1 frame (0)".to_owned(),
        n => format!("the animation has {n} frames (0 to {})", n - 1),
    }
}

impl Error {
    /// Whether the user cancelled: no failure.
    pub fn is_cancelled(&self) -> bool {
        match self {
            Self::Cancelled(_) => true,
            Self::ReadBack(inner) => inner.is_cancelled(),
            _ => false,
        }
    }

    /// The option that the error is about, by the name of its field, where there is one. The message then begins with it.
    pub fn option(&self) -> Option<&'static str> {
        match self {
            Self::Fit(FitError::OutOfRange { name, .. })
            | Self::Refit(RefitError::Fit(FitError::OutOfRange { name, .. })) => Some(name),
            Self::EigenSkin(EigenSkinError::Rank { .. }) => Some("eigenskin"),
            Self::Lod(LodError::Skeleton { .. }) | Self::Reduce(ReduceError::Skeleton { .. }) => Some("refit_motion"),
            Self::Pick(pick) => pick.option(),
            Self::Mismatch(mismatch) => mismatch.option(),
            _ => None,
        }
    }

    /// Fails with a cancel if the observer requests one at the beginning of a stage that has no steps of its own.
    pub(crate) fn unless_cancelled(observer: &mut dyn bonesmith_core::Observer, stage: Stage) -> Result<(), Self> {
        match observer.report(&Progress { stage, step: 0, steps: None, e_rms: None }) {
            std::ops::ControlFlow::Continue(()) => Ok(()),
            std::ops::ControlFlow::Break(()) => Err(Cancelled.into()),
        }
    }

    pub(crate) fn unsupported(what: impl Into<String>) -> Self {
        Self::Unsupported(what.into())
    }
}

impl PickError {
    fn option(&self) -> Option<&'static str> {
        match self {
            Self::Frames { .. } => Some("frames"),
            Self::LoopClips { .. } => Some("loop_clips"),
            Self::OfAnimation { option, .. } | Self::WholeRig { option, .. } => Some(option),
            Self::ClipsOfShapes => Some("clips"),
            Self::RestFrame { .. } | Self::NoSymmetry => Some("rest"),
            Self::Clip { .. } | Self::NoClips { .. } => Some("clip"),
            Self::Clips { .. } => Some("clips"),
            Self::Bone { .. } | Self::Pattern { .. } => Some("lock_bones"),
            Self::MaskLength { option, .. } | Self::NoColours { option } => Some(option),
            Self::MaskValue { .. } | Self::MaskUnused => Some("lock_vertices"),
            Self::Others { .. } => Some("others"),
            Self::NoRest { .. } => None,
        }
    }
}

impl From<Cancelled> for Error {
    fn from(cancelled: Cancelled) -> Self {
        Self::Cancelled(cancelled)
    }
}

impl From<IoError> for Error {
    fn from(error: IoError) -> Self {
        Self::Io(error)
    }
}

impl From<RigMismatch> for Error {
    fn from(mismatch: RigMismatch) -> Self {
        Self::Mismatch(Box::new(mismatch))
    }
}

impl From<MetricsError> for Error {
    fn from(source: MetricsError) -> Self {
        Self::Metrics { file: PathBuf::new(), source }
    }
}

impl From<LodError> for Error {
    fn from(error: LodError) -> Self {
        match error {
            LodError::Cancelled(cancelled) => cancelled.into(),
            LodError::Params(error) => error.into(),
            other => Self::Lod(other),
        }
    }
}

impl From<RefitError> for Error {
    fn from(error: RefitError) -> Self {
        match error {
            RefitError::Cancelled(cancelled) => cancelled.into(),
            RefitError::Fit(error) => error.into(),
            other => Self::Refit(other),
        }
    }
}

/// A cancel is one variant, however deep it was.
macro_rules! with_cancel {
    ($($error:ident: $variant:ident),*) => {
        $(impl From<$error> for Error {
            fn from(error: $error) -> Self {
                match error {
                    $error::Cancelled(cancelled) => cancelled.into(),
                    other => Self::$variant(other),
                }
            }
        })*
    };
}

with_cancel! { FitError: Fit, ReduceError: Reduce, CompressError: Compress, DdmError: Ddm, EigenSkinError: EigenSkin }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cancel_is_one_variant_however_deep() {
        let deep: [Error; 3] = [
            FitError::Cancelled(Cancelled).into(),
            RefitError::Fit(FitError::Cancelled(Cancelled)).into(),
            ReduceError::Cancelled(Cancelled).into(),
        ];
        assert!(deep.iter().all(Error::is_cancelled));
        assert!(!Error::from(MetricsError::NoClip).is_cancelled());
    }

    #[test]
    fn messages_about_options_begin_with_the_option() {
        let errors: [Error; 4] = [
            FitError::OutOfRange { name: "influences", value: "17".into(), range: "1 to 16, or all" }.into(),
            PickError::Frames { start: 4, end: 11, frames: 10 }.into(),
            PickError::MaskValue { vertex: 3, value: 2.0 }.into(),
            EigenSkinError::Rank { rank: 0 }.into(),
        ];
        for error in errors {
            let (text, option) = (error.to_string(), error.option().unwrap());
            assert!(text.starts_with(option), "{option}: {text}");
        }
    }
}
