//! Parameters, results and errors of `reduce`.

use serde::{Deserialize, Serialize};

use crate::mesh::Laplacian;
use crate::model::{Rig, RigError};
use crate::skinning::PoseError;
use crate::solve::check::ensure;

/// How influences are removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ReduceMethod {
    /// Bonesmith's own: bones chosen for the poses, with similar errors at neighbours.
    #[default]
    Bonesmith,
    /// The K largest weights, scaled to 1 [Course2014 s.3.1].
    KLargest,
    /// The bones of the K largest; weights whose Laplacian matches the original's [Course2014 s.3.2].
    Smooth,
    /// The K bones of largest effect; weights by least squares on the poses [Course2014 s.3.3, with the choice that its table 3 shows].
    Geometric,
    /// The K bones that alone predict best; weights by least squares on the poses [Course2014 s.3.3 as printed, eq. 37].
    GeometricEq37,
    /// Geometric reduction's bones; weights for which the Laplacian of the poses matches [Course2014 s.3.4].
    Poisson,
}

impl ReduceMethod {
    /// Whether poses are needed: examples, or the rig's own animation.
    pub fn needs_poses(self) -> bool {
        matches!(self, Self::Bonesmith | Self::Geometric | Self::GeometricEq37 | Self::Poisson)
    }

    /// As on the command line and in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bonesmith => "bonesmith",
            Self::KLargest => "k-largest",
            Self::Smooth => "smooth",
            Self::Geometric => "geometric",
            Self::GeometricEq37 => "geometric-eq37",
            Self::Poisson => "poisson",
        }
    }
}

/// Parameters of `reduce`. `Default` is the recommended set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReduceParams {
    /// K: maximum of influences per vertex, at least 1. Default 4, what engines expect.
    pub influences: usize,
    /// Which method.
    pub method: ReduceMethod,
    /// Laplacian of smooth and Poisson reduction.
    pub laplacian: Laplacian,
    /// Bonesmith's method: how similar the errors of neighbours should be, 0 (off) to about 10. Raised: better normals, higher
    /// error.
    pub smooth: f64,
    /// Bonesmith's method: let the bones of all clips move too, to suit the fewer weights. For free bones that a fit
    /// made; bones that only rotate at their joints are refused.
    pub refit_motion: bool,
    /// Bonesmith's method: maximum of sweeps over the mesh.
    pub max_sweeps: usize,
}

impl Default for ReduceParams {
    fn default() -> Self {
        Self {
            influences: 4,
            method: ReduceMethod::default(),
            laplacian: Laplacian::default(),
            smooth: 3.0,
            refit_motion: false,
            max_sweeps: 12,
        }
    }
}

impl ReduceParams {
    /// Checks all ranges.
    pub fn validate(&self) -> Result<(), ReduceError> {
        ensure(self.influences != 0, || ReduceError::BadParameter { what: "influences must be at least 1".into() })?;
        let what = || format!("smooth is {}, but 0 to 1000 is possible", self.smooth);
        ensure((0.0..=1e3).contains(&self.smooth), || ReduceError::BadParameter { what: what() })
    }
}

/// A reduced rig and how it came about.
#[derive(Clone, Debug)]
pub struct Reduced {
    /// The rig; all but its weights is the input's.
    pub rig: Rig,
    /// How it came about.
    pub info: ReduceInfo,
}

/// How a reduction went.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReduceInfo {
    /// Newton steps or sweeps; 0 for methods that need none.
    pub iterations: usize,
    /// Whether the iterations converged.
    pub converged: bool,
    /// Maximum of influences of a vertex of the input.
    pub influences_before: usize,
    /// The input has no more influences than asked for, and was returned as it is.
    pub nothing_to_do: bool,
}

/// Why a reduction was refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it all")]
#[non_exhaustive]
pub enum ReduceError {
    #[error("{what}")]
    BadParameter { what: String },
    #[error(transparent)]
    Rig(#[from] RigError),
    #[error(transparent)]
    Poses(#[from] PoseError),
    #[error(
        "refit_motion is for free bones: bone {bone:?} only rotates at its joint to {parent:?}, and would leave it"
    )]
    Skeleton { bone: String, parent: String },
    #[error("vertex {vertex} has {neighbours} neighbours, too many for a method that squares the Laplacian: {what}")]
    TooLarge { vertex: usize, neighbours: usize, what: String },
    #[error("cancelled")]
    Cancelled(#[from] crate::observer::Cancelled),
}
