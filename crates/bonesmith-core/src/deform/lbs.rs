//! Linear blend skinning: `v_i = sum_j w_ij T_j u_i` [Kavan2010 eq. 1].

use glam::{DAffine3, DVec3, Vec3};
use rayon::prelude::*;

use crate::weights::SparseWeights;

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
        for (offset, out) in posed.iter_mut().enumerate() {
            let i = chunk * CHUNK + offset;
            let u = rest[i].as_dvec3();
            let blend = |sum: DVec3, (j, w): (usize, f32)| sum + f64::from(w) * posed_from_rest[j].transform_point3(u);
            *out = weights.of(i).fold(DVec3::ZERO, blend).as_vec3();
        }
    });
}
