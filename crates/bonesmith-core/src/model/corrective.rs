//! A rig with corrective shapes, which are added to its rest pose before bones move it: morph targets, blend shapes.

use glam::Vec3;

use crate::model::{Clip, Rig, RigError};
use crate::solve::check::ensure;

/// A shape that is added to the rest pose, before bones move it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BlendShape {
    /// Its name.
    pub name: String,
    /// [N] displacement of each vertex at weight 1, in model units.
    pub offsets: Vec<Vec3>,
    /// [clips][F] its weight in each frame of each clip of the rig.
    pub weights: Vec<Vec<f32>>,
}

/// A rig and its shapes.
///
/// Invariants, checked by [`CorrectiveRig::check`]: the rig is sound; every shape has an offset for each vertex and a
/// weight for each frame of each clip, all finite.
#[derive(Clone, Debug)]
pub struct CorrectiveRig {
    /// The rig.
    pub rig: Rig,
    /// Its shapes.
    pub shapes: Vec<BlendShape>,
}

/// Why shapes were refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it all")]
#[non_exhaustive]
pub enum CorrectiveError {
    #[error(transparent)]
    Rig(#[from] RigError),
    #[error("shape {name:?} has {offsets} offsets, the rig {vertices} vertices")]
    Offsets { name: String, offsets: usize, vertices: usize },
    #[error("shape {name:?} has not one weight for each frame of each clip")]
    Weights { name: String },
    #[error("shape {name:?}: an offset or weight is not finite")]
    NotFinite { name: String },
}

impl CorrectiveRig {
    /// Checks the invariants.
    pub fn check(&self) -> Result<(), CorrectiveError> {
        self.rig.check()?;
        let vertices = self.rig.vertex_count();
        for BlendShape { name, offsets, weights } in &self.shapes {
            let (name, count) = (|| name.clone(), offsets.len());
            ensure(count == vertices, || CorrectiveError::Offsets { name: name(), offsets: count, vertices })?;
            let whole = weights.iter().map(Vec::len).eq(self.rig.clips.iter().map(Clip::frame_count));
            ensure(whole, || CorrectiveError::Weights { name: name() })?;
            let finite = offsets.iter().all(|p| p.is_finite()) && weights.iter().flatten().all(|w| w.is_finite());
            ensure(finite, || CorrectiveError::NotFinite { name: name() })?;
        }
        Ok(())
    }

    /// What the shapes add to a rig as float32: offsets and weights.
    pub fn shape_bytes(&self) -> usize {
        let weights = |shape: &BlendShape| shape.weights.iter().map(Vec::len).sum::<usize>();
        self.shapes.iter().map(|shape| 12 * shape.offsets.len() + 4 * weights(shape)).sum()
    }
}
