//! Linear blend skinning: `v_i = sum_j w_ij T_j u_i` [Kavan2010 eq. 1], and with two layers: `v_i = sum_m a_im V_m u_i`
//! with `V_m = sum_j d_jm T_j` [Le2014 s.4.1].

use glam::{DAffine3, DMat3, DVec3, Vec3};
use rayon::prelude::*;

use crate::deform::posed_normal;
use crate::model::{SparseWeights, TwoLayerRig};

/// Vertices per task.
const CHUNK: usize = 2048;

/// [N] posed vertices for [B] `posed_from_rest` of one frame.
///
/// Float64 inside: a model far from the origin loses nothing before the final rounding.
pub fn lbs(rest: &[Vec3], weights: &SparseWeights, posed_from_rest: &[DAffine3]) -> Vec<Vec3> {
    let mut posed = vec![Vec3::ZERO; rest.len()];
    lbs_into(rest, weights, posed_from_rest, &mut posed);
    posed
}

/// As [`lbs`], into a buffer of N.
pub fn lbs_into(rest: &[Vec3], weights: &SparseWeights, posed_from_rest: &[DAffine3], posed: &mut [Vec3]) {
    posed.par_chunks_mut(CHUNK).enumerate().for_each(|(chunk, posed)| {
        let out = posed.iter_mut().enumerate();
        out.for_each(|(offset, out)| *out = lbs_vertex(rest, weights, posed_from_rest, chunk * CHUNK + offset));
    });
}

/// As [`lbs`], of vertex `i` alone.
#[inline]
pub(crate) fn lbs_vertex(rest: &[Vec3], weights: &SparseWeights, posed_from_rest: &[DAffine3], i: usize) -> Vec3 {
    let u = rest[i].as_dvec3();
    let blend = |sum: DVec3, (j, w): (usize, f32)| sum + f64::from(w) * posed_from_rest[j].transform_point3(u);
    weights.of(i).fold(DVec3::ZERO, blend).as_vec3()
}

/// As [`lbs`], with [N] unit normals: `normals` of the rest pose, deformed by the blended matrix of each vertex.
pub fn lbs_with_normals(
    rest: &[Vec3],
    normals: &[Vec3],
    weights: &SparseWeights,
    posed_from_rest: &[DAffine3],
) -> (Vec<Vec3>, Vec<Vec3>) {
    let normal = |i: usize| {
        let blend = |sum: DMat3, (j, w): (usize, f32)| sum + posed_from_rest[j].matrix3 * f64::from(w);
        posed_normal(weights.of(i).fold(DMat3::ZERO, blend), normals[i].as_dvec3())
    };
    (lbs(rest, weights, posed_from_rest), (0..rest.len()).into_par_iter().map(normal).collect())
}

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
