//! Parameters and results of fits to shapes.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::model::shape_bones::{ShapeBones, ShapeKind};
use crate::skinning::params::{FitError, FitInfo, Norm};

/// Most bones: the normal equations of a shape have 12 unknowns for each.
pub const MAX_BONES: usize = 512;

/// How bones are fitted to shapes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ShapesParams {
    /// Bones: 1 to [`MAX_BONES`]. More: smaller errors, more bones at run time. Fewer where the mesh has fewer vertices.
    pub bones: usize,
    /// Maximum influences of a vertex, 1 to 16.
    pub influences: usize,
    /// What a shape may store for a bone.
    pub kind: ShapeKind,
    /// How many numbers are stored.
    pub numbers: Numbers,
    /// Bones, weights and numbers in mirrored pairs across this axis, where the face is symmetric.
    pub mirror: Option<Axis>,
    /// Parts that every shape moves rigidly have a bone of their own, and their vertices no other.
    pub pieces: bool,
    /// How much the normals count that an engine computes from those of the neutral and the bones, 0 (not at all) to about 1.
    pub shading: f64,
    /// Which norm of the distances is lowered.
    pub norm: Norm,
    /// [N] how much each vertex counts. `None`: all alike.
    #[serde(skip)]
    pub importance: Option<Arc<Vec<f32>>>,
    /// Vertices count by the area of their faces.
    pub area: bool,
    /// Decides which vertices the bones are searched on.
    pub seed: u64,
    /// Stop after this many seconds with the present result.
    pub max_seconds: Option<f64>,
}

/// An axis of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Axis {
    /// The first.
    X,
    /// The second.
    Y,
    /// The third.
    Z,
}

impl Axis {
    /// 0, 1 or 2.
    pub(super) fn number(self) -> usize {
        match self {
            Self::X => 0,
            Self::Y => 1,
            Self::Z => 2,
        }
    }
}

/// How many numbers of bones and shapes are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Numbers {
    /// All.
    #[default]
    All,
    /// At most this many.
    Count(usize),
    /// The fewest found that reach this E_RMS.
    TargetError(f64),
}

impl Default for ShapesParams {
    fn default() -> Self {
        Self {
            bones: 40,
            influences: 8,
            kind: ShapeKind::Affine,
            numbers: Numbers::All,
            mirror: None,
            pieces: false,
            shading: 0.4,
            norm: Norm::default(),
            importance: None,
            area: false,
            seed: 0,
            max_seconds: None,
        }
    }
}

impl ShapesParams {
    /// Checks all ranges.
    pub fn validate(&self) -> Result<(), FitError> {
        let out_of_range = |name, value: String, range| Err(FitError::OutOfRange { name, value, range });
        if !(1..=MAX_BONES).contains(&self.bones) {
            return out_of_range("bones", self.bones.to_string(), "1 to 512");
        }
        if !(1..=16).contains(&self.influences) {
            return out_of_range("influences", self.influences.to_string(), "1 to 16");
        }
        match self.numbers {
            Numbers::Count(0) => return out_of_range("numbers", "0".into(), "1 or more"),
            Numbers::TargetError(e) if !(e > 0.0 && e.is_finite()) => {
                return out_of_range("target_error", e.to_string(), "a number above 0");
            }
            _ => {}
        }
        match self.norm {
            Norm::P(p) if !(2.0..=16.0).contains(&p) => {
                return out_of_range("norm", p.to_string(), "2 to 16, or max");
            }
            _ => {}
        }
        if !(self.shading >= 0.0 && self.shading.is_finite()) {
            return out_of_range("shading", self.shading.to_string(), "0 or more");
        }
        match self.max_seconds {
            Some(secs) if secs.is_nan() || secs <= 0.0 => out_of_range("max_seconds", secs.to_string(), "above 0"),
            _ => Ok(()),
        }
    }
}

/// A model, and how it came about.
#[derive(Clone, Debug)]
pub struct FittedShapes {
    /// Bones driven by the shapes.
    pub model: ShapeBones,
    /// How they came about.
    pub info: FitInfo,
}
