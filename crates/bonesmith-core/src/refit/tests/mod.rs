//! The parts against brute force, and the whole on rigs that are known.

mod align;
mod locks;
mod recovery;

use crate::mesh::sequence::MeshSequence;
use crate::model::rig::{BoneKind, Rig};
use crate::model::weights::SparseWeights;
use crate::synthetic::{PosedRigParams, posed_rig};

/// A known rig, its bones in a chain with a branch, and the sequence it makes.
fn known(seed: u64, kind: BoneKind) -> (Rig, MeshSequence) {
    let params = PosedRigParams { kind, bones: 7, frames: 20, detail: 2, ..PosedRigParams::default() };
    let mut posed = posed_rig(seed, &params);
    (1..7).for_each(|j| posed.rig.bones[j].parent = Some(if j == 4 { 1 } else { j - 1 }));
    (posed.rig, MeshSequence::try_from(posed.sequence).unwrap())
}

/// The same rig, every vertex on bone 0.
fn on_one_bone(rig: &Rig) -> Rig {
    let mut weights = SparseWeights::new(rig.vertex_count(), 1);
    (0..rig.vertex_count()).for_each(|i| weights.set(i, &[(0, 1.0)]));
    Rig { weights, ..rig.clone() }
}

/// Mean over vertices and bones that either uses of the difference in weight.
fn weight_difference(a: &Rig, b: &Rig) -> f64 {
    let (mut sum, mut count) = (0.0, 0usize);
    for i in 0..a.vertex_count() {
        let mut row = vec![(0.0f64, false); a.bone_count().max(b.bone_count())];
        a.weights.of(i).for_each(|(j, w)| row[j] = (f64::from(w), true));
        b.weights.of(i).for_each(|(j, w)| row[j] = (row[j].0 - f64::from(w), true));
        row.iter().filter(|(_, used)| *used).for_each(|(d, _)| {
            sum += d.abs();
            count += 1;
        });
    }
    sum / count as f64
}
