//! Normals as a viewer shows them: stored rest normals, deformed by the bones.
//!
//! Angle between the true normal of a frame (area-weighted over the faces on one side of hard edges) and the stored normal of the same
//! corner, deformed by the blended matrix of its vertex. Mean over all shading vertices and frames that have both. The measure that
//! recomputes normals from posed positions hides what weights do to them: engines do not recompute.
//!
//! Tangents, where there are texture coordinates: those of the rest pose deformed by the same matrix, beside those of the frame.
//!
//! Matrices are blended in float32, once for both rules; angles are found eight at a time.

// Loops over lanes are written with indices: that is the shape the compiler vectorises.
#![allow(clippy::needless_range_loop)]

use glam::{DAffine3, DVec3, Vec3};
use multiversion::multiversion;
use serde::Serialize;

use crate::mesh::shading::ShadingVertices;
use crate::mesh::tangents::TangentVertices;
use crate::metrics::angle::{Vectors, angles};
use crate::model::ModelRef;
use crate::model::rig::Rig;
use crate::model::weights::SparseWeights;
use crate::solve::lanes::{LANES, Lanes};

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

/// How far tangents are off that an engine computes: those of the rest pose, times the blended matrix.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SkinnedTangents {
    /// Mean angle in degrees.
    pub degrees: f64,
    /// 99 of 100 angles are at most this, to half a degree.
    pub p99_degrees: f64,
}

/// A rig whose normals are compared with those of a sequence.
pub(super) struct Skinned<'a> {
    rig: &'a Rig,
    /// [F] clip and frame in it.
    places: Vec<(usize, usize)>,
    shading: ShadingVertices,
    /// [G] stored normals, unit; turned over where true normals are.
    rest: Vec<Vec3>,
    /// With [T] tangents of the rest pose.
    tangents: Option<(TangentVertices, Vec<Vec3>)>,
    /// A rig whose stored normals, as it deforms them, are the true ones; with [G] these.
    source: Option<(&'a Rig, Vec<Vec3>)>,
}

/// [G] stored normals, unit; turned over where true normals are: the rest pose of the sequence may be turned against that of the rig.
fn stored_normals(rig: &Rig, shading: &ShadingVertices) -> (Vec<DVec3>, Vec<Vec3>) {
    let sides = shading.sides(&rig.rest);
    let stored = shading.rest_normals(&rig.rest);
    let rest = stored.iter().zip(&sides).map(|(n, side)| (n.normalize_or_zero() * *side).as_vec3()).collect();
    (stored, rest)
}

impl<'a> Skinned<'a> {
    /// `None` where nothing is shaded by linear blend skinning.
    pub fn new(model: ModelRef<'a>, places: Vec<(usize, usize)>) -> Option<Self> {
        let rig = match model {
            ModelRef::Rig(rig) => rig,
            ModelRef::ShapeBones(face) => &face.rig,
            _ => return None,
        };
        let shading = ShadingVertices::new(&rig.surface);
        let (stored, rest) = stored_normals(rig, &shading);
        let tangents = TangentVertices::new(&rig.surface, &shading).map(|tangents| {
            let rest = tangents.rest_tangents(&rig.surface, &rig.rest, &stored).iter().map(|t| t.as_vec3()).collect();
            (tangents, rest)
        });
        (shading.count() > 0).then_some(Self { rig, places, shading, rest, tangents, source: None })
    }

    /// The same, compared with the normals that another rig shows in the same clips: where these are not those of its posed surface, as an artist may
    /// want them, that is no error of this one. Not where normals are split in another way.
    pub fn beside(mut self, source: &'a Rig) -> Self {
        let shading = ShadingVertices::new(&source.surface);
        let is_alike = shading.vertices() == self.shading.vertices() && source.clips.len() == self.rig.clips.len();
        self.source = is_alike.then(|| (source, stored_normals(source, &shading).1));
        self
    }

    /// [G] vertex of each angle.
    pub fn vertices(&self) -> &[u32] {
        self.shading.vertices()
    }

    /// Angles of the normals in frame `t`, whose true positions are given, each by the matrix rule, and those of the tangents.
    pub fn angles(&self, t: usize, positions: &[Vec3]) -> [Angles; 2] {
        let (clip, frame) = self.places[t];
        let bones: Vec<[f32; 12]> = self.rig.clips[clip].frame(frame).iter().map(padded).collect();
        let on_surface = self.shading.normals(positions);
        let found = |vertices: &[u32], rest: &[Vec3], truth: &[DVec3]| {
            let mut found = Angles { counts: vec![0; BARS], each: vec![f32::NAN; truth.len()], ..Angles::default() };
            fill(&mut found, &self.rig.weights, &bones, vertices, rest, truth);
            found
        };
        let tangents = self.tangents.as_ref().map(|(tangents, rest)| {
            let angles = found(tangents.vertices(), rest, &tangents.tangents(positions, &on_surface));
            Angles { each: Vec::new(), ..angles }
        });
        let truth = match &self.source {
            Some((source, rest)) => self.shown(source, rest, clip, frame),
            None => on_surface,
        };
        [found(self.shading.vertices(), &self.rest, &truth), tangents.unwrap_or_default()]
    }

    /// [G] normals of a rig as an engine deforms them.
    fn shown(&self, rig: &Rig, rest: &[Vec3], clip: usize, frame: usize) -> Vec<DVec3> {
        let bones: Vec<[f32; 12]> = rig.clips[clip].frame(frame).iter().map(padded).collect();
        let shown =
            |(&i, &n): (&u32, &Vec3)| both_rules(&blended(&rig.weights, &bones, i), n).0.as_dvec3().normalize_or_zero();
        self.shading.vertices().iter().zip(rest).map(shown).collect()
    }
}

/// Columns of the linear part, each padded to four numbers.
fn padded(bone: &DAffine3) -> [f32; 12] {
    let [x, y, z] = [bone.matrix3.x_axis, bone.matrix3.y_axis, bone.matrix3.z_axis].map(|c| c.as_vec3());
    [x.x, x.y, x.z, 0.0, y.x, y.y, y.z, 0.0, z.x, z.y, z.z, 0.0]
}

#[multiversion(targets("x86_64+avx512f+avx512vl+fma", "x86_64+avx2+fma", "aarch64+neon"))]
fn fill(
    found: &mut Angles,
    weights: &SparseWeights,
    bones: &[[f32; 12]],
    vertices: &[u32],
    rest: &[Vec3],
    truth: &[DVec3],
) {
    let (mut sum, mut inverse, mut count) = (Lanes::ZERO, Lanes::ZERO, Lanes::ZERO);
    for first in (0..truth.len()).step_by(LANES) {
        let lanes = LANES.min(truth.len() - first);
        let mut by_matrix: Vectors = [Lanes::ZERO; 3];
        let mut by_inverse: Vectors = [Lanes::ZERO; 3];
        let mut true_normals: Vectors = [Lanes::ZERO; 3];
        for l in 0..lanes {
            let g = first + l;
            let (posed, turned) = both_rules(&blended(weights, bones, vertices[g]), rest[g]);
            for a in 0..3 {
                by_matrix[a].0[l] = posed[a].into();
                by_inverse[a].0[l] = turned[a].into();
                true_normals[a].0[l] = truth[g][a];
            }
        }
        let (angle, both) = angles(by_matrix, true_normals);
        let (inverse_angle, inverse_both) = angles(by_inverse, true_normals);
        let counted = both * inverse_both;
        sum += angle * counted;
        inverse += inverse_angle * counted;
        count += counted;
        for l in (0..lanes).filter(|&l| counted.0[l] > 0.0) {
            found.each[first + l] = angle.0[l] as f32;
            found.counts[((angle.0[l].to_degrees() * 2.0) as usize).min(BARS - 1)] += 1;
        }
    }
    found.sum = sum.0.iter().sum();
    found.inverse_transpose_sum = inverse.0.iter().sum();
    found.count = count.0.iter().sum::<f64>() as u64;
}

/// The blended matrix of a vertex.
#[inline(always)]
fn blended(weights: &SparseWeights, bones: &[[f32; 12]], vertex: u32) -> [f32; 12] {
    let mut m = [0.0f32; 12];
    for (j, w) in weights.of(vertex as usize) {
        for (sum, x) in m.iter_mut().zip(&bones[j]) {
            *sum += w * x;
        }
    }
    m
}

/// `M n` and `M^-T n`, neither normalised: the transposed inverse by its cofactors, turned over where `M` mirrors, as the inverse would.
#[inline(always)]
fn both_rules(m: &[f32; 12], n: Vec3) -> (Vec3, Vec3) {
    let [x, y, z] = [0, 4, 8].map(|c| Vec3::new(m[c], m[c + 1], m[c + 2]));
    let (yz, zx, xy) = (y.cross(z), z.cross(x), x.cross(y));
    let side = if x.dot(yz) < 0.0 { -1.0 } else { 1.0 };
    (x * n.x + y * n.y + z * n.z, (yz * n.x + zx * n.y + xy * n.z) * side)
}

/// Sums of angles.
#[derive(Default)]
pub(super) struct Angles {
    sum: f64,
    inverse_transpose_sum: f64,
    count: u64,
    /// [BARS]
    counts: Vec<u64>,
    /// [G] angle by the matrix rule in radians, of one frame; not a number where there is none.
    pub each: Vec<f32>,
}

impl Angles {
    pub fn add(&mut self, other: &Self) {
        self.sum += other.sum;
        self.inverse_transpose_sum += other.inverse_transpose_sum;
        self.count += other.count;
        self.counts.resize(self.counts.len().max(other.counts.len()), 0);
        self.counts.iter_mut().zip(&other.counts).for_each(|(sum, x)| *sum += x);
    }

    /// Mean angle by the matrix rule.
    pub fn mean_degrees(&self) -> Option<f64> {
        (self.count > 0).then(|| (self.sum / self.count as f64).to_degrees())
    }

    pub fn finish_tangents(&self) -> Option<SkinnedTangents> {
        let SkinnedNormals { degrees, p99_degrees, .. } = self.finish()?;
        Some(SkinnedTangents { degrees, p99_degrees })
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
    use crate::deform::{NormalRule, blended_matrix};
    use crate::mesh::sequence::MeshSequence;
    use crate::metrics::evaluate;
    use crate::synthetic::{PosedRigParams, posed_rig};

    /// The same means by brute force: every vertex, every frame, float64 matrices, `atan2`.
    #[test]
    fn the_means_are_those_of_all_angles() {
        let made = posed_rig(5, &PosedRigParams::default());
        let sequence = MeshSequence::try_from(made.sequence).unwrap();
        let found = evaluate(&made.rig, 0, &sequence).unwrap().skinned_normals.unwrap();
        let triangles = sequence.surface().topology.vertex_triangles();
        let normals = |positions: &[Vec3]| crate::mesh::normals::vertex_normals(positions, &triangles);
        let rest = normals(&made.rig.rest);
        let (mut sum, mut inverse_sum, mut all) = (0.0, 0.0, Vec::new());
        for t in 0..sequence.frame_count() {
            let truth = normals(&sequence.frame(t));
            for i in (0..rest.len()).filter(|&i| rest[i].length() > 0.0) {
                let m = blended_matrix(&made.rig.weights, made.rig.clips[0].frame(t), i);
                let angle = |rule: NormalRule| {
                    let posed = rule.deform(&m, rest[i]);
                    posed.cross(truth[i]).length().atan2(posed.dot(truth[i]))
                };
                sum += angle(NormalRule::Matrix);
                inverse_sum += angle(NormalRule::InverseTranspose);
                all.push(angle(NormalRule::Matrix));
            }
        }
        let mean = |sum: f64| (sum / all.len() as f64).to_degrees();
        assert!((found.degrees - mean(sum)).abs() < 1e-4, "{found:?} {}", mean(sum));
        assert!((found.inverse_transpose_degrees - mean(inverse_sum)).abs() < 1e-4, "{found:?} {}", mean(inverse_sum));
        all.sort_by(f64::total_cmp);
        let p99 = all[(all.len() * 99).div_ceil(100) - 1].to_degrees();
        assert!((p99 - 0.01..=p99 + 0.51).contains(&found.p99_degrees), "{p99} {found:?}");
        // A sequence stores no normals to deform.
        assert!(evaluate(&sequence, 0, &sequence).unwrap().skinned_normals.is_none());
    }

    /// Tangents by brute force, with texture coordinates from the rest positions.
    #[test]
    fn tangents_are_those_of_the_rest_pose_times_the_matrix() {
        use crate::mesh::surface::CornerAttribute;
        let made = posed_rig(5, &PosedRigParams::default());
        let sequence = MeshSequence::try_from(made.sequence).unwrap();
        let mut rig = made.rig;
        assert!(evaluate(&rig, 0, &sequence).unwrap().skinned_tangents.is_none());
        let values = rig.rest.iter().map(|p| [p.x + 0.3 * p.y, p.z - 0.2 * p.y]).collect();
        let indices = rig.surface.topology.corners().to_vec();
        let uv = CornerAttribute { name: "uv".into(), values, indices };
        std::sync::Arc::make_mut(&mut rig.surface).uv_sets.push(uv);
        let found = evaluate(&rig, 0, &sequence).unwrap().skinned_tangents.unwrap();
        let shading = ShadingVertices::new(&rig.surface);
        let tangents = TangentVertices::new(&rig.surface, &shading).unwrap();
        let of = |positions: &[Vec3]| tangents.tangents(positions, &shading.normals(positions));
        let rest = of(&rig.rest);
        let mut all = Vec::new();
        for t in 0..sequence.frame_count() {
            for (g, truth) in of(&sequence.frame(t)).into_iter().enumerate().filter(|(_, truth)| truth.length() > 0.0) {
                let m = blended_matrix(&rig.weights, rig.clips[0].frame(t), tangents.vertices()[g] as usize);
                let posed = m * rest[g];
                if posed.length() > 0.0 {
                    all.push(posed.cross(truth).length().atan2(posed.dot(truth)));
                }
            }
        }
        let mean = (all.iter().sum::<f64>() / all.len() as f64).to_degrees();
        assert!((found.degrees - mean).abs() < 1e-3 && mean > 0.1, "{found:?} {mean}");
    }
}
