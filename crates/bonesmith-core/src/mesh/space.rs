//! The up axis and the unit of length, where a source states them.
//!
//! Positions are never rotated or scaled on the way in: a rig has the axes and units of the animation it was made of,
//! and errors are in the user's own units. Formats that state their space (FBX, USD) are read and written with it;
//! writers of formats with a fixed one (glTF: y up, metres) rotate and scale at their root.

use glam::{DAffine3, DMat3, DVec3};
use serde::{Deserialize, Serialize};

/// The axis that points up. All spaces are right-handed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UpAxis {
    /// y up, z towards the viewer: glTF, Alembic, Maya.
    Y,
    /// z up, y away from the viewer: Blender, 3ds Max.
    Z,
}

/// Axes and unit of positions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Space {
    /// `None`: not stated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub up: Option<UpAxis>,
    /// Length of one model unit; 0.01 for centimetres. `None`: not stated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metres_per_unit: Option<f64>,
}

impl Space {
    /// y up, metres: the space of every glTF file.
    pub const GLTF: Self = Self { up: Some(UpAxis::Y), metres_per_unit: Some(1.0) };

    /// The rotation and scale into this space: `self_from_source`. What either side does not state is kept.
    pub fn from_source(&self, source: &Self) -> DAffine3 {
        let y_from_z = DMat3::from_cols(DVec3::X, DVec3::NEG_Z, DVec3::Y);
        let turn = match (self.up, source.up) {
            (Some(UpAxis::Y), Some(UpAxis::Z)) => y_from_z,
            (Some(UpAxis::Z), Some(UpAxis::Y)) => y_from_z.transpose(),
            _ => DMat3::IDENTITY,
        };
        let scale = match (self.metres_per_unit, source.metres_per_unit) {
            (Some(own), Some(theirs)) if own > 0.0 && theirs > 0.0 && (theirs / own).is_normal() => theirs / own,
            _ => 1.0,
        };
        DAffine3::from_mat3(turn * scale)
    }

    /// Whether nothing is known.
    pub fn is_unknown(&self) -> bool {
        *self == Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn between_spaces() {
        let blender = Space { up: Some(UpAxis::Z), metres_per_unit: Some(0.01) };
        let there = Space::GLTF.from_source(&blender);
        assert!(there.transform_point3(DVec3::new(1.0, 2.0, 3.0)).abs_diff_eq(DVec3::new(0.01, 0.03, -0.02), 1e-12));
        assert!((there * blender.from_source(&Space::GLTF)).abs_diff_eq(DAffine3::IDENTITY, 1e-12));
        assert_eq!(Space::GLTF.from_source(&Space::default()), DAffine3::IDENTITY);
        assert!(there.matrix3.determinant() > 0.0);
    }
}
