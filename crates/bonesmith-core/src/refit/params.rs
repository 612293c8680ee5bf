//! Parameters, locks, subjects and errors of a fit that starts from a rig.

use glam::DAffine3;
use serde::{Deserialize, Serialize};

use crate::mesh::MeshSequence;
use crate::model::{BoneKind, RigError};
use crate::skinning::{FitError, FitParams};

/// What is fitted; the rest stays as the rig has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Solve {
    /// Weights; bones move as given.
    Weights,
    /// Motion of the bones; weights as given.
    Motion,
    /// Weights and motion, in turn, starting from the rig.
    #[default]
    Both,
}

/// Parameters of [`crate::refit::refit`]. `Default` is the recommended set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RefitParams {
    /// What is fitted.
    pub solve: Solve,
    /// Maximum number of influences of a fitted vertex, 1 to 16; `None`: 4, or as many as the rig has if that is 5 to 8.
    pub influences: Option<usize>,
    /// Kind of the bones whose motion is fitted; `None`: the rig's.
    pub bone_kind: Option<BoneKind>,
    /// Strength of the weight smoothness, 0 (off) to about 1. Raised: smoother weights, higher error.
    pub smooth: f64,
    /// Bones planted where the error is. Raised: lower error, more bones.
    pub add_bones: usize,
    /// Maximum number of rounds over weights and motion; `None`: 12, or 24 with new bones. Not used where only one is fitted.
    pub max_iterations: Option<usize>,
    /// Stop when a round lowers the error by less than this fraction. 0: never.
    pub tolerance: f64,
    /// Stop after this many seconds with the present result; `None`: no limit.
    pub max_seconds: Option<f64>,
    /// Whether bones may move away from their parents where only the motion is fitted, and joints of the rig only rotate in its own
    /// animations; otherwise bones keep their lengths.
    pub free_translation: bool,
    /// Whether the rig keeps its rest normals; otherwise they are those that fit the motion best.
    pub keep_normals: bool,
}

impl Default for RefitParams {
    fn default() -> Self {
        Self {
            solve: Solve::Both,
            influences: None,
            bone_kind: None,
            smooth: 0.0,
            add_bones: 0,
            max_iterations: None,
            tolerance: 1e-3,
            max_seconds: None,
            free_translation: false,
            keep_normals: false,
        }
    }
}

/// What must stay as it is. Empty lists lock nothing.
#[derive(Clone, Debug, Default)]
pub struct Locks {
    /// [B] bones whose motion stays, to the bit.
    pub bones: Vec<bool>,
    /// [N] 1: the vertex keeps its weights, to the bit; 0: they are fitted; between: a blend of both.
    pub vertices: Vec<f32>,
}

/// One body to fit: several share weights, each has its own rest pose.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// Where the vertices go. Its rest pose is the subject's, in the space of the rig.
    pub sequence: &'a MeshSequence,
    /// [F, B] posed_from_rest that is known for its frames.
    pub motion: Option<&'a [DAffine3]>,
    /// [B] places and orientations of the joints in the subject's rest pose; `None`: the rig's.
    pub binds: Option<&'a [DAffine3]>,
}

/// Why a fit that starts from a rig was refused or did not finish.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
// The messages say it all.
#[allow(missing_docs)]
#[non_exhaustive]
pub enum RefitError {
    #[error(transparent)]
    Rig(#[from] RigError),
    #[error("there is nothing to fit the rig to")]
    NoSubject,
    #[error("the rig has {rig} vertices, {name:?} has {sequence}")]
    VertexCount { rig: usize, sequence: usize, name: String },
    #[error("weights alone cannot be fitted: it is not known how the rig moves in {name:?}")]
    NoMotion { name: String },
    #[error("{what}: {found} entries, but {expected} are needed")]
    Size { what: &'static str, found: usize, expected: usize },
    #[error("the mask of vertex {vertex} is {value}; it must be 0 to 1")]
    Mask { vertex: usize, value: f32 },
    #[error(transparent)]
    Fit(#[from] FitError),
    #[error("cancelled")]
    Cancelled(#[from] crate::observer::Cancelled),
}

impl RefitParams {
    /// Checks ranges that do not depend on the rig.
    pub fn validate(&self) -> Result<(), FitError> {
        if self.solve == Solve::Motion && self.add_bones > 0 {
            let what = "new bones need weights: they can be added where weights or both are solved, not motion alone";
            return Err(FitError::Unsupported(what.into()));
        }
        self.as_fit().validate()
    }

    /// The parameters that a fit from nothing has too.
    pub(crate) fn as_fit(&self) -> FitParams {
        FitParams {
            influences: Some(self.influences.unwrap_or(4)),
            smooth: self.smooth,
            max_iterations: self.max_iterations,
            tolerance: Some(self.tolerance),
            max_seconds: self.max_seconds,
            ..FitParams::default()
        }
    }
}
