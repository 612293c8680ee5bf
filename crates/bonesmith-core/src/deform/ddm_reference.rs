//! All variants of Direct Delta Mush in float64, one vertex after the other: the reference for the fast evaluators.

use glam::{DAffine3, DMat3, DQuat, DVec3, Vec3};
use rayon::prelude::*;

use crate::deform::posed_normal;
use crate::mesh::vertex_normals;
use crate::model::multi_weights::symmetric;
use crate::model::{BoneKind, DdmRig, MultiWeights, Rig, Variant};
use crate::solve::transform::{inverse, nearest_rotation};

/// One frame: bones about the model's origin, at rest and posed. Differences of far-away points are taken here, once per
/// bone and in float64, so that nothing after it sees large numbers.
pub struct Posed {
    /// Where the origin is at rest.
    rest_origin: DVec3,
    /// Where bone 0 moves it.
    pub posed_origin: DVec3,
    /// [B] posed_from_rest between the two.
    pub bones: Vec<DAffine3>,
    /// [B] rotations of the bones, for the variants that blend those.
    pub rotations: Vec<DQuat>,
}

impl Posed {
    /// A frame of [B] posed_from_rest.
    pub fn new(posed_from_rest: &[DAffine3], origin: DVec3) -> Self {
        let posed_origin = posed_from_rest.first().map_or(origin, |m| m.transform_point3(origin));
        let local =
            |m: &DAffine3| DAffine3 { matrix3: m.matrix3, translation: m.transform_point3(origin) - posed_origin };
        let rotation = |m: &DAffine3| DQuat::from_mat3(&nearest_rotation(&m.matrix3));
        Self {
            rest_origin: origin,
            posed_origin,
            bones: posed_from_rest.iter().map(local).collect(),
            rotations: posed_from_rest.iter().map(rotation).collect(),
        }
    }

    /// posed_from_rest of one row, between the origins.
    pub fn transform(&self, weights: &MultiWeights, row: usize, variant: Variant) -> DAffine3 {
        let p = weights.centre(row);
        let matrix3 = match variant {
            Variant::V0 => nearest_rotation(&self.moments(weights, row).0),
            Variant::V1 => {
                let (moments, rest) = self.moments(weights, row);
                moments * inverse(&rest)
            }
            Variant::V2 | Variant::V4 => DMat3::from_quat(self.blended_rotation(weights, row)),
            Variant::V3 | Variant::V5 => {
                weights.of(row).fold(DMat3::ZERO, |sum, (j, v)| sum + self.bones[j].matrix3 * f64::from(v[0]))
            }
        };
        let q = match variant {
            Variant::V4 | Variant::V5 => {
                weights.of(row).fold(DVec3::ZERO, |q, (j, v)| q + self.bones[j].transform_point3(p) * f64::from(v[0]))
            }
            _ => self.centre(weights, row),
        };
        DAffine3 { matrix3, translation: q - matrix3 * p }
    }

    /// `Q_i - q_i p_i^T` and `P_i - p_i p_i^T` [Le2021 eq. 13c].
    fn moments(&self, weights: &MultiWeights, row: usize) -> (DMat3, DMat3) {
        let p = weights.centre(row);
        let (mut posed, mut rest) = (DMat3::ZERO, DMat3::ZERO);
        for (j, v) in weights.of(row) {
            let [x, y, z] = std::array::from_fn(|at| f64::from(v[1 + at]));
            let square = symmetric(&v[4..]);
            let moved = self.bones[j].transform_point3(p);
            let outer = DMat3::from_cols(moved * x, moved * y, moved * z);
            posed += self.bones[j].matrix3 * square + outer;
            rest += square;
        }
        (posed, rest)
    }

    /// q_i: where the centre goes.
    fn centre(&self, weights: &MultiWeights, row: usize) -> DVec3 {
        let p = weights.centre(row);
        let term = |(j, v): (usize, &[f32])| {
            let lever = DVec3::new(v[1].into(), v[2].into(), v[3].into());
            self.bones[j].matrix3 * lever + self.bones[j].transform_point3(p) * f64::from(v[0])
        };
        weights.of(row).map(term).sum()
    }

    /// Quaternions blended on the side of the row's largest influence, which comes first.
    fn blended_rotation(&self, weights: &MultiWeights, row: usize) -> DQuat {
        let mut sum: Option<DQuat> = None;
        let mut first = DQuat::IDENTITY;
        for (j, v) in weights.of(row) {
            let rotation = self.rotations[j];
            let signed = if sum.is_some() && first.dot(rotation) < 0.0 { -rotation } else { rotation };
            first = if sum.is_none() { rotation } else { first };
            sum = Some(sum.unwrap_or(DQuat::from_array([0.0; 4])) + signed * f64::from(v[0]));
        }
        let sum = sum.unwrap_or(DQuat::IDENTITY);
        if sum.length_squared() > 1e-24 { sum.normalize() } else { first }
    }

    /// The same transform between model coordinates.
    pub fn world(&self, local: DAffine3) -> DAffine3 {
        let translation = self.posed_origin + local.translation - local.matrix3 * self.rest_origin;
        DAffine3 { matrix3: local.matrix3, translation }
    }
}

impl DdmRig {
    /// [M] posed_from_rest of the virtual bones of a compressed rig, or of every vertex, in one frame.
    pub fn transforms(&self, pose: &[DAffine3]) -> Vec<DAffine3> {
        let posed = Posed::new(pose, self.origin);
        (0..self.weights.count()).map(|row| posed.world(posed.transform(&self.weights, row, self.variant))).collect()
    }

    /// A compressed rig with one layer: virtual bones as bones with baked motion. The deformation is the same, and every
    /// run time shows it. `None` for a rig that is not compressed.
    pub fn bake(&self) -> Option<Rig> {
        let layer = self.layer.clone()?;
        Some(self.rig.baked(self.centers(), layer, BoneKind::Rigid, |pose| self.transforms(pose)))
    }
}

/// [N] posed vertices of one frame, in float64 before the final rounding.
pub fn evaluate(rig: &DdmRig, pose: &[DAffine3]) -> Vec<Vec3> {
    evaluate_rows(rig, pose, |_, _, point| point.as_vec3())
}

/// [N] posed vertices and unit normals of one frame; normals are those of the rest pose, deformed with the vertex.
pub fn evaluate_with_normals(rig: &DdmRig, pose: &[DAffine3]) -> (Vec<Vec3>, Vec<Vec3>) {
    let rest = vertex_normals(&rig.rig.rest, &rig.rig.surface.topology.vertex_triangles());
    let pairs = evaluate_rows(rig, pose, |i, matrix, point| (point.as_vec3(), posed_normal(matrix, rest[i])));
    pairs.into_iter().unzip()
}

/// Calls `finish` with vertex, linear part and posed position.
fn evaluate_rows<T: Send>(rig: &DdmRig, pose: &[DAffine3], finish: impl Fn(usize, DMat3, DVec3) -> T + Sync) -> Vec<T> {
    let posed = Posed::new(pose, rig.origin);
    let blended: Option<Vec<DAffine3>> = rig.layer.as_ref().map(|_| {
        (0..rig.weights.count()).into_par_iter().map(|k| posed.transform(&rig.weights, k, rig.variant)).collect()
    });
    let vertex = |i: usize| {
        let u = rig.rig.rest[i].as_dvec3() - rig.origin;
        let local = match (&rig.layer, &blended) {
            (Some(layer), Some(bones)) => layer.of(i).fold(DAffine3::ZERO, |sum, (k, a)| DAffine3 {
                matrix3: sum.matrix3 + bones[k].matrix3 * f64::from(a),
                translation: sum.translation + bones[k].translation * f64::from(a),
            }),
            _ => posed.transform(&rig.weights, i, rig.variant),
        };
        finish(i, local.matrix3, posed.posed_origin + local.transform_point3(u))
    };
    (0..rig.vertex_count()).into_par_iter().map(vertex).collect()
}
