//! A rig and the poses it should make, in one unit and one frame of reference.

use glam::{DAffine3, DMat3, DVec3};
use rayon::prelude::*;

use crate::deform;
use crate::mesh::sequence::MeshSequence;
use crate::mesh::sphere::{smallest_enclosing_sphere, unit_radius};
use crate::model::rig::{Clip, Rig};

/// Rest poses of rig and examples may differ in size by this factor; more is a mistake in units.
pub const MAX_SCALE_RATIO: f64 = 2.0;

/// Why a rig and examples do not go together.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PoseError {
    /// Different meshes.
    #[error("the rig has {rig} vertices, the examples {examples}")]
    VertexCount {
        /// Vertices of the rig.
        rig: usize,
        /// Vertices of the examples.
        examples: usize,
    },
    /// Different lengths: each example pose needs the bones' transforms in it.
    #[error("clip {clip:?} of the rig has bone transforms for {rig} frames, the examples have {examples} frames")]
    FrameCount {
        /// Clip name.
        clip: String,
        /// Frames of the clip.
        rig: usize,
        /// Frames of the examples.
        examples: usize,
    },
    /// Different units.
    #[error(
        "the rig's rest pose has the radius {rig:.4}, that of the examples {examples:.4}: they differ in scale by more \
         than {MAX_SCALE_RATIO}"
    )]
    Scale {
        /// Radius of the rig's rest pose.
        rig: f64,
        /// Radius of the examples' rest pose.
        examples: f64,
    },
    /// No motion to learn from.
    #[error("the rig has no animation: bone transforms are needed for the poses to learn from")]
    NoClip,
}

/// Bones in motion and the trajectories that vertices should follow, in units of the rest pose's radius, each frame
/// about the mean of its targets (weights that sum to 1 do not notice): small numbers, whatever the model does.
pub(crate) struct Poses {
    /// B.
    pub bones: usize,
    /// L = 3 F.
    pub length: usize,
    /// [4 B, L] row `c B + j`: what coordinate c of the rest position adds through bone j; x, y, z of all frames.
    pub rows: Vec<f64>,
    /// [N, L] targets.
    pub targets: Vec<f32>,
    /// [N] homogeneous rest positions.
    pub rest: Vec<[f64; 4]>,
    /// Where the rest pose has its middle, and its radius: the unit.
    center: DVec3,
    radius: f64,
    /// [F] mean of the targets.
    means: Vec<DVec3>,
}

impl Poses {
    /// Poses of the first clip; targets are the examples, or without them what the rig itself makes.
    pub fn new(rig: &Rig, examples: Option<&MeshSequence>) -> Result<Self, PoseError> {
        let clip = rig.clips.first().filter(|clip| clip.frame_count() > 0).ok_or(PoseError::NoClip)?;
        if let Some(examples) = examples {
            check(rig, clip, examples)?;
        }
        let sphere = smallest_enclosing_sphere(rig.rest.iter().map(|p| p.as_dvec3()));
        let radius = examples.map_or_else(|| unit_radius(&rig.rest), |e| unit_radius(e.rest()));
        let (n, f, b) = (rig.vertex_count(), clip.frame_count(), rig.bone_count());
        let length = 3 * f;
        let mut targets = vec![0f32; n * length];
        let mut rows = vec![0.0; 4 * b * length];
        let mut means = Vec::with_capacity(f);
        for t in 0..f {
            let own;
            let positions = match examples {
                Some(examples) => examples.frame(t),
                None => {
                    own = deform::lbs(&rig.rest, &rig.weights, clip.frame(t));
                    &own
                }
            };
            let mean = positions.iter().map(|p| p.as_dvec3()).sum::<DVec3>() / n as f64;
            means.push(mean);
            targets.par_chunks_mut(length).zip(positions).for_each(|(row, p)| {
                let p = ((p.as_dvec3() - mean) / radius).as_vec3();
                (row[t], row[f + t], row[2 * f + t]) = (p.x, p.y, p.z);
            });
            for (j, bone) in clip.frame(t).iter().enumerate() {
                for (c, column) in columns(bone, sphere.center, mean, radius).iter().enumerate() {
                    let row = &mut rows[(c * b + j) * length..][..length];
                    (row[t], row[f + t], row[2 * f + t]) = (column.x, column.y, column.z);
                }
            }
        }
        let homogeneous = |p: &glam::Vec3| {
            let u = (p.as_dvec3() - sphere.center) / radius;
            [u.x, u.y, u.z, 1.0]
        };
        let rest = rig.rest.iter().map(homogeneous).collect();
        Ok(Self { bones: b, length, rows, targets, rest, center: sphere.center, radius, means })
    }

    /// [F, B] posed_from_rest that the rows stand for, in model units.
    pub fn posed_from_rest(&self) -> Vec<DAffine3> {
        let (b, f) = (self.bones, self.means.len());
        let column = |t: usize, j: usize, c: usize| {
            let row = &self.rows[(c * b + j) * self.length..][..self.length];
            DVec3::new(row[t], row[f + t], row[2 * f + t])
        };
        let bone = |t: usize, j: usize| {
            let matrix = DMat3::from_cols(column(t, j, 0), column(t, j, 1), column(t, j, 2));
            let posed_center = self.radius * column(t, j, 3) + self.means[t];
            DAffine3::from_mat3_translation(matrix, posed_center - matrix * self.center)
        };
        (0..f).flat_map(|t| (0..b).map(move |j| (t, j))).map(|(t, j)| bone(t, j)).collect()
    }

    /// N.
    pub fn vertices(&self) -> usize {
        self.rest.len()
    }

    /// [L] target of vertex `i`.
    pub fn target(&self, i: usize) -> &[f32] {
        &self.targets[i * self.length..(i + 1) * self.length]
    }
}

/// Columns of a bone's matrix for rest positions `(p - center) / radius` and posed ones `(v - mean) / radius`.
fn columns(bone: &DAffine3, center: DVec3, mean: DVec3, radius: f64) -> [DVec3; 4] {
    let m = bone.matrix3;
    [m.x_axis, m.y_axis, m.z_axis, (bone.transform_point3(center) - mean) / radius]
}

fn check(rig: &Rig, clip: &Clip, examples: &MeshSequence) -> Result<(), PoseError> {
    if rig.vertex_count() != examples.vertex_count() {
        return Err(PoseError::VertexCount { rig: rig.vertex_count(), examples: examples.vertex_count() });
    }
    if clip.frame_count() != examples.frame_count() {
        let (rig, examples) = (clip.frame_count(), examples.frame_count());
        return Err(PoseError::FrameCount { clip: clip.name.clone(), rig, examples });
    }
    let (own, theirs) = (unit_radius(&rig.rest), unit_radius(examples.rest()));
    // Written so that a radius of nothing at all is refused too.
    if !(own / theirs <= MAX_SCALE_RATIO && theirs / own <= MAX_SCALE_RATIO) {
        return Err(PoseError::Scale { rig: own, examples: theirs });
    }
    Ok(())
}
