//! A rig with multi-weights.

use glam::DVec3;

use crate::model::multi_weights::MultiWeightsError;
use crate::model::{MAX_VIRTUAL_BONES, MultiWeights, Rig, RigError, SparseWeights, WeightError};
use crate::solve::check::ensure;
use serde::{Deserialize, Serialize};

/// How a vertex is moved; each variant stores less and computes less than the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub enum Variant {
    /// Rotation: the polar factor of the blended moments. The quality of Delta Mush.
    #[default]
    V0,
    /// The linear solution in place of the polar factor: `(Q - q p^T)(P - p p^T)^-1`. No decomposition; shears.
    V1,
    /// Rotation: unit quaternions blended with the scalars. Translation as in 0.
    V2,
    /// As 2, with matrices blended linearly.
    V3,
    /// Scalars only: quaternions blended, about the fixed centre.
    V4,
    /// Linear blend skinning with the scalars.
    V5,
}

impl Variant {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::V0, Self::V1, Self::V2, Self::V3, Self::V4, Self::V5];

    /// Numbers of each multi-weight that it needs: a prefix of `w, x y z, xx xy xz yy yz zz`.
    pub fn width(self) -> usize {
        match self {
            Self::V0 | Self::V1 => 10,
            Self::V2 | Self::V3 => 4,
            Self::V4 | Self::V5 => 1,
        }
    }
}

impl From<Variant> for u8 {
    fn from(variant: Variant) -> u8 {
        variant as u8
    }
}

impl TryFrom<u8> for Variant {
    type Error = String;

    fn try_from(number: u8) -> Result<Self, String> {
        let found = Self::ALL.get(usize::from(number));
        found.copied().ok_or_else(|| format!("variant {number}, but 0 to 5 exist"))
    }
}

/// A Direct Delta Mush rig, or a compressed one.
///
/// Invariants, checked by [`DdmRig::check`]:
/// 1. `rig` obeys its own; its weights are plain linear blend skinning, for run times without multi-weights.
/// 2. `weights` obey their own and have as many numbers per influence as `variant` needs.
/// 3. Without `layer` they have one row per vertex. With it they have 1 to 65536 rows, the virtual bones; `layer` covers
///    the vertices, names virtual bones that exist, and obeys its own invariants; the variant is 0.
/// 4. `origin` is finite.
#[derive(Clone, Debug)]
pub struct DdmRig {
    /// Rest pose, surface, bones, clips, and plain fallback weights.
    pub rig: Rig,
    /// Centres, and rest positions inside the evaluators, are relative to this point; model units.
    pub origin: DVec3,
    /// [N] or [M] multi-weights.
    pub weights: MultiWeights,
    /// [N, z] weights on virtual bones, of a compressed rig.
    pub layer: Option<SparseWeights>,
    /// How it is evaluated.
    pub variant: Variant,
}

/// Why a rig with multi-weights was refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it all")]
#[non_exhaustive]
pub enum DdmRigError {
    #[error(transparent)]
    Rig(#[from] RigError),
    #[error(transparent)]
    MultiWeights(#[from] MultiWeightsError),
    #[error("weights on virtual bones: {0}")]
    Weights(#[from] WeightError),
    #[error("{what}")]
    Mismatch { what: String },
}

impl DdmRig {
    /// N.
    pub fn vertex_count(&self) -> usize {
        self.rig.vertex_count()
    }

    /// Virtual bones of a compressed rig; 0 otherwise.
    pub fn virtual_count(&self) -> usize {
        self.layer.as_ref().map_or(0, |_| self.weights.count())
    }

    /// [rows] centres of rotation at rest, in model units: of vertices, or of virtual bones.
    pub fn centers(&self) -> Vec<DVec3> {
        (0..self.weights.count()).map(|row| self.origin + self.weights.centre(row)).collect()
    }

    /// Bytes of all tables at run time: multi-weights, and of a compressed rig the used slots of its layer, sparse.
    pub fn bytes(&self) -> usize {
        let layer = self.layer.as_ref().map_or(0, |layer| {
            let used: usize = (0..layer.vertex_count()).map(|i| layer.of(i).count()).sum();
            4 * (layer.vertex_count() + 1) + 6 * used
        });
        self.weights.bytes() + layer
    }

    /// The same rig as another variant, with only the numbers that it needs.
    pub fn with_variant(&self, variant: Variant) -> Self {
        Self { variant, weights: self.weights.narrowed(variant.width()), ..self.clone() }
    }

    /// Checks invariants 1 to 4.
    pub fn check(&self) -> Result<(), DdmRigError> {
        let mismatch = |what: String| DdmRigError::Mismatch { what };
        self.rig.check()?;
        self.weights.check(self.rig.bone_count())?;
        ensure(self.origin.is_finite(), || mismatch("the origin of the multi-weights is not finite".into()))?;
        if self.weights.width() < self.variant.width() {
            let (has, needs) = (self.weights.width(), self.variant.width());
            return Err(mismatch(format!(
                "multi-weights of {has} numbers, but variant {:?} needs {needs}",
                self.variant
            )));
        }
        let (rows, n) = (self.weights.count(), self.vertex_count());
        match &self.layer {
            None if rows != n => Err(mismatch(format!("multi-weights of {rows} vertices, but the rest pose has {n}"))),
            None => Ok(()),
            Some(_) if self.variant != Variant::V0 => Err(mismatch("a compressed rig is of variant 0".into())),
            Some(_) if rows == 0 || rows > MAX_VIRTUAL_BONES => {
                Err(mismatch(format!("{rows} virtual bones; 1 to {MAX_VIRTUAL_BONES} are possible")))
            }
            Some(layer) if layer.vertex_count() != n => {
                let weights = layer.vertex_count();
                Err(mismatch(format!("weights on virtual bones for {weights} vertices, but the rest pose has {n}")))
            }
            Some(layer) => Ok(layer.check(rows)?),
        }
    }
}
