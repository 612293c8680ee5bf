//! Linear blend skinning: `v_i = sum_j w_ij T_j u_i` [Kavan2010 eq. 1].

use glam::{DAffine3, DMat3, DVec3, Vec3};
use rayon::prelude::*;

use crate::model::weights::SparseWeights;

/// Vertices per task: large enough to hide rayon, small enough to share.
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

/// As [`lbs`], with [N] unit normals: `normals` of the rest pose turned by the cofactors of each vertex's blended matrix,
/// which are its transposed inverse without the division. Zero where a matrix leaves no direction.
pub fn lbs_with_normals(
    rest: &[Vec3],
    normals: &[Vec3],
    weights: &SparseWeights,
    posed_from_rest: &[DAffine3],
) -> (Vec<Vec3>, Vec<Vec3>) {
    let turned = |i: usize| {
        let blend = |sum: DMat3, (j, w): (usize, f32)| sum + posed_from_rest[j].matrix3 * f64::from(w);
        let m = weights.of(i).fold(DMat3::ZERO, blend);
        let [x, y, z] = [m.x_axis, m.y_axis, m.z_axis];
        let normal = DMat3::from_cols(y.cross(z), z.cross(x), x.cross(y)) * normals[i].as_dvec3();
        normal.try_normalize().unwrap_or(DVec3::ZERO).as_vec3()
    };
    (lbs(rest, weights, posed_from_rest), (0..rest.len()).into_par_iter().map(turned).collect())
}
