//! Normals as a viewer shows them: stored rest normals, deformed by the bones.
//!
//! Angle between the true normal of a frame (area-weighted over the faces on one side of hard edges) and the stored normal of the same
//! corner, deformed by the blended matrix of its vertex. Mean over all shading vertices and frames that have both. The measure that
//! recomputes normals from posed positions hides what weights do to them: engines do not recompute.

use glam::{DVec3, Vec3};
use serde::Serialize;

use crate::deform::{NormalRule, blended_matrix};
use crate::mesh::sequence::MeshSequence;
use crate::mesh::shading::ShadingVertices;
use crate::model::ModelRef;
use crate::model::rig::Rig;

/// Bars of the distribution of angles, half a degree each.
const BARS: usize = 360;

/// How far normals are off that an engine computes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SkinnedNormals {
    /// Mean angle with the matrix rule `M n` (three.js, most game code), in degrees.
    pub degrees: f64,
    /// 99 of 100 angles with that rule are at most this, to half a degree.
    pub p99_degrees: f64,
    /// Mean angle with the transposed inverse (UsdSkel), in degrees.
    pub inverse_transpose_degrees: f64,
}

/// A rig whose normals are compared with those of a sequence.
pub(super) struct Skinned<'a> {
    rig: &'a Rig,
    clip: usize,
    shading: ShadingVertices,
    /// [G] stored normals.
    rest: Vec<DVec3>,
    /// [G] 1 or -1.
    sides: Vec<f64>,
}

impl<'a> Skinned<'a> {
    /// `None` where nothing is shaded by linear blend skinning.
    pub fn new(model: ModelRef<'a>, clip: usize, sequence: &MeshSequence) -> Option<Self> {
        let ModelRef::Rig(rig) = model else { return None };
        let shading = ShadingVertices::new(&rig.surface);
        let rest = shading.rest_normals(&rig.rest);
        let sides = shading.sides(sequence.rest());
        (shading.count() > 0).then_some(Self { rig, clip, shading, rest, sides })
    }

    /// Angles of frame `t`, whose true positions are given.
    pub fn angles(&self, t: usize, truth: &[Vec3]) -> Angles {
        let mut angles = Angles { counts: vec![0; BARS], ..Angles::default() };
        let frame = self.rig.clips[self.clip].frame(t);
        let truth = self.shading.normals(truth);
        for (g, &i) in self.shading.vertices().iter().enumerate() {
            let m = blended_matrix(&self.rig.weights, frame, i as usize);
            let of = |rule: NormalRule| angle(truth[g] * self.sides[g], rule.deform(&m, self.rest[g]));
            if let (Some(by_matrix), Some(by_inverse)) = (of(NormalRule::Matrix), of(NormalRule::InverseTranspose)) {
                angles.sum += by_matrix;
                angles.inverse_transpose_sum += by_inverse;
                angles.count += 1;
                angles.counts[((by_matrix.to_degrees() * 2.0) as usize).min(BARS - 1)] += 1;
            }
        }
        angles
    }
}

/// Angle in radians; `None` where one of the two has no direction.
fn angle(a: DVec3, b: DVec3) -> Option<f64> {
    let both = a.length_squared() > 0.0 && b.length_squared() > 0.0;
    // atan2 keeps full precision near 0, where acos of a dot product loses half the digits.
    both.then(|| a.cross(b).length().atan2(a.dot(b)))
}

/// Sums of angles.
#[derive(Default)]
pub(super) struct Angles {
    sum: f64,
    inverse_transpose_sum: f64,
    count: u64,
    /// [BARS]
    counts: Vec<u64>,
}

impl Angles {
    pub fn add(&mut self, other: &Self) {
        self.sum += other.sum;
        self.inverse_transpose_sum += other.inverse_transpose_sum;
        self.count += other.count;
        self.counts.resize(self.counts.len().max(other.counts.len()), 0);
        self.counts.iter_mut().zip(&other.counts).for_each(|(sum, x)| *sum += x);
    }

    pub fn finish(&self) -> Option<SkinnedNormals> {
        let mean = |sum: f64| (sum / self.count as f64).to_degrees();
        let mut below = 0;
        let bar = self.counts.iter().position(|&count| {
            below += count;
            100 * below >= 99 * self.count
        });
        (self.count > 0).then(|| SkinnedNormals {
            degrees: mean(self.sum),
            p99_degrees: 0.5 * (bar.unwrap_or(BARS) + 1) as f64,
            inverse_transpose_degrees: mean(self.inverse_transpose_sum),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::evaluate;
    use crate::synthetic::{PosedRigParams, posed_rig};
    use std::f64::consts::PI;

    /// The same mean by brute force: every corner's vertex, every frame, dense matrices.
    #[test]
    fn the_mean_is_that_of_all_angles() {
        let made = posed_rig(5, &PosedRigParams::default());
        let sequence = MeshSequence::try_from(made.sequence).unwrap();
        let found = evaluate(&made.rig, 0, &sequence).unwrap().skinned_normals.unwrap();
        let triangles = sequence.surface().topology.vertex_triangles();
        let normals = |positions: &[Vec3]| crate::mesh::normals::vertex_normals(positions, &triangles);
        let rest = normals(&made.rig.rest);
        let (mut sum, mut count, mut all) = (0.0, 0, Vec::new());
        for t in 0..sequence.frame_count() {
            let truth = normals(sequence.frame(t));
            for i in (0..rest.len()).filter(|&i| rest[i].length() > 0.0) {
                let mut posed = DVec3::ZERO;
                for (j, w) in made.rig.weights.of(i) {
                    posed += made.rig.clips[0].frame(t)[j].transform_vector3(rest[i]) * f64::from(w);
                }
                let angle = posed.normalize().dot(truth[i].normalize()).clamp(-1.0, 1.0).acos();
                (sum, count) = (sum + angle, count + 1);
                all.push(angle);
            }
        }
        assert!((found.degrees - sum / f64::from(count) * 180.0 / PI).abs() < 1e-6, "{found:?}");
        all.sort_by(f64::total_cmp);
        let p99 = all[(all.len() * 99).div_ceil(100) - 1].to_degrees();
        assert!((p99..=p99 + 0.51).contains(&found.p99_degrees), "{p99} {found:?}");
        // A sequence stores no normals to deform.
        assert!(evaluate(&sequence, 0, &sequence).unwrap().skinned_normals.is_none());
    }
}
