//! Rigid bind: each vertex follows one bone.

use crate::model::{Rig, SparseWeights};

/// The same rig with every vertex on the bone of its largest weight: the usual start of Delta Mush.
pub fn rigid_bind(rig: &Rig) -> Rig {
    Rig { weights: SparseWeights::from_rows(1, &rig.weights.rows()), ..rig.clone() }
}
