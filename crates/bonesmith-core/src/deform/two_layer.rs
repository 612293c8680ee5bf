//! Two-layer skinning: `v_i = sum_m a_im V_m u_i` with `V_m = sum_j d_jm T_j` [Le2014 s.4.1].

use glam::{DAffine3, Vec3};

use crate::deform::lbs_into;
use crate::model::two_layer::TwoLayerRig;

/// [N] posed vertices for [B] `posed_from_rest` of the master bones, one frame.
pub fn two_layer(rig: &TwoLayerRig, master_posed_from_rest: &[DAffine3]) -> Vec<Vec3> {
    let mut posed = vec![Vec3::ZERO; rig.vertex_count()];
    two_layer_into(rig, master_posed_from_rest, &mut posed);
    posed
}

/// As [`two_layer`], into a buffer of N.
pub fn two_layer_into(rig: &TwoLayerRig, master_posed_from_rest: &[DAffine3], posed: &mut [Vec3]) {
    lbs_into(&rig.master.rest, &rig.weights, &rig.blends.pose(master_posed_from_rest), posed);
}
