//! Rigid bind: each vertex follows one bone.

use crate::model::rig::Rig;
use crate::model::weights::SparseWeights;

/// The same rig with every vertex on the bone of its largest weight: what Delta Mush is meant to start from. Vertices
/// that no bone holds are on bone 0 by the weights' own rule.
pub fn rigid_bind(rig: &Rig) -> Rig {
    let mut weights = SparseWeights::new(rig.vertex_count(), 1);
    for i in 0..rig.vertex_count() {
        let bone = rig.weights.of(i).next().map_or(0, |(j, _)| j);
        weights.set(i, &[(bone, 1.0)]);
    }
    Rig { weights, ..rig.clone() }
}
