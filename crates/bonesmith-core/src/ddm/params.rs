//! Parameters and errors of Direct Delta Mush.

use serde::{Deserialize, Serialize};

use crate::mesh::Laplacian;
use crate::model::RigError;
use crate::model::ddm::DdmRigError;
use crate::solve::check::ensure;

/// What is precomputed. `Default` is the recommended set; nothing in it depends on the model's unit, and with automatic
/// smoothness little on its resolution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DdmParams {
    /// lambda: how far rotations are smoothed, 0 to 10000; the reach is about `sqrt(lambda p)` edges. `None`: a reach of
    /// [`DdmParams::REACH`] radii of the model, whatever its resolution. Raised: softer joints.
    pub rotation_smooth: Option<f64>,
    /// kappa: how far translations are smoothed; the same range. `None`: an eighth of lambda. Raised: more skin
    /// slides with a joint.
    pub translation_smooth: Option<f64>,
    /// alpha: share of the translation smoothing, 0 to 1. At 0 it is Delta Mush; raised: tighter at joints, less
    /// bulging and less loss of volume.
    pub alpha: f64,
    /// p: implicit smoothing steps, 1 to 1000. More steps of a smaller lambda make the kernel rounder.
    pub steps: u32,
    /// Weights of the mesh edges.
    pub laplacian: Laplacian,
    /// Influences with a scalar below this are dropped, 0 to 0.1. Raised: smaller and faster, less exact.
    pub threshold: f64,
    /// Maximum of bones of one vertex, 1 to 256.
    pub max_influences: usize,
    /// Vertices at exactly one place are smoothed as one: no cracks along the seams of texture coordinates.
    pub weld: bool,
}

impl DdmParams {
    /// Reach of the automatic smoothing: this share of the radius of the model's smallest enclosing sphere.
    pub const REACH: f64 = 0.12;
    /// Automatic kappa over lambda.
    pub const KAPPA_SHARE: f64 = 0.125;
}

impl Default for DdmParams {
    fn default() -> Self {
        Self {
            rotation_smooth: None,
            translation_smooth: None,
            alpha: 0.8,
            steps: 8,
            laplacian: Laplacian::Cotangent,
            threshold: 1e-4,
            max_influences: 32,
            weld: true,
        }
    }
}

/// Parameters per vertex, each [N]; `None`: the global one everywhere.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DdmMaps {
    /// lambda of each vertex.
    pub rotation_smooth: Option<Vec<f32>>,
    /// kappa of each vertex.
    pub translation_smooth: Option<Vec<f32>>,
    /// alpha of each vertex.
    pub alpha: Option<Vec<f32>>,
    /// p of each vertex; rounded.
    pub steps: Option<Vec<f32>>,
}

/// Why multi-weights were refused or not made.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it all")]
#[non_exhaustive]
pub enum DdmError {
    #[error("{what}")]
    BadParameter { what: String },
    #[error("the map {map:?} has {values} values, the mesh has {vertices} vertices")]
    MapLength { map: &'static str, values: usize, vertices: usize },
    #[error("the map {map:?} is {value} at vertex {vertex}; {least} to {most} are possible")]
    MapValue { map: &'static str, vertex: usize, value: f32, least: f64, most: f64 },
    #[error(transparent)]
    Rig(#[from] RigError),
    #[error(transparent)]
    Model(#[from] DdmRigError),
    #[error("the rig has no vertices")]
    Empty,
    #[error("cancelled")]
    Cancelled(#[from] crate::observer::Cancelled),
}

/// Largest lambda and kappa.
pub(super) const MAX_SMOOTH: f64 = 1e4;
/// Largest p.
pub(super) const MAX_STEPS: f64 = 1000.0;

impl DdmParams {
    /// Checks all ranges.
    pub fn validate(&self) -> Result<(), DdmError> {
        let within = |what: &str, value: f64, least: f64, most: f64| {
            let what = || format!("{what} is {value}, but {least} to {most} are possible");
            ensure((least..=most).contains(&value), || DdmError::BadParameter { what: what() })
        };
        within("the rotation smoothness", self.rotation_smooth.unwrap_or(0.0), 0.0, MAX_SMOOTH)?;
        within("the translation smoothness", self.translation_smooth.unwrap_or(0.0), 0.0, MAX_SMOOTH)?;
        within("alpha", self.alpha, 0.0, 1.0)?;
        within("the number of steps", f64::from(self.steps), 1.0, MAX_STEPS)?;
        within("the threshold", self.threshold, 0.0, 0.1)?;
        within("the most influences of a vertex", self.max_influences as f64, 1.0, 256.0)
    }
}

impl DdmMaps {
    /// Checks lengths and ranges for `vertices` vertices.
    pub fn validate(&self, vertices: usize) -> Result<(), DdmError> {
        let maps = [
            ("rotation_smooth", &self.rotation_smooth, 0.0, MAX_SMOOTH),
            ("translation_smooth", &self.translation_smooth, 0.0, MAX_SMOOTH),
            ("alpha", &self.alpha, 0.0, 1.0),
            ("steps", &self.steps, 1.0, MAX_STEPS),
        ];
        for (map, values, least, most) in maps {
            let Some(values) = values else { continue };
            ensure(values.len() == vertices, || DdmError::MapLength { map, values: values.len(), vertices })?;
            let bad = |value: &f32| !(least..=most).contains(&f64::from(*value));
            if let Some(vertex) = values.iter().position(bad) {
                return Err(DdmError::MapValue { map, vertex, value: values[vertex], least, most });
            }
        }
        Ok(())
    }
}
