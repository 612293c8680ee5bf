//! A skinned rig: rest pose, weights, bones, and their motion in one or more clips.

use std::sync::Arc;

use glam::{DAffine3, DVec3, Vec3};
use serde::{Deserialize, Serialize};

use crate::mesh::sequence::Span;
use crate::mesh::{Surface, SurfaceError, times, unit_radius};
use crate::model::{SparseWeights, WeightError};
use crate::solve::check::ensure;
use crate::solve::transform::nearest_rotation;

/// A joint within this share of the radius only rotates; rotations within it are the same.
const JOINT_GAP: f64 = 1e-3;

/// What a bone's transform may do.
///
/// Ordered: each kind can do what the ones before it can.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BoneKind {
    /// Rotation and translation.
    #[default]
    Rigid,
    /// Rotation, translation, and scale along the bone's own three axes.
    Trs,
    /// Any 3x4 matrix.
    Affine,
}

/// One bone.
#[derive(Clone, Debug, PartialEq)]
pub struct Bone {
    /// Unique within the rig.
    pub name: String,
    /// Index of the parent bone; `None` for a root.
    pub parent: Option<usize>,
    /// Place and orientation in the rest pose; rigid, no scale.
    pub world_from_bind: DAffine3,
    /// End of a leaf of a skeleton in the rest pose; `None` for other bones and where it is not known.
    pub tip: Option<DVec3>,
}

/// Motion of all bones over one range of time.
#[derive(Clone, Debug, PartialEq)]
pub struct Clip {
    /// Name of the animation.
    pub name: String,
    /// [F] seconds, rising.
    pub times_secs: Vec<f64>,
    /// [F, B] posed_from_rest of bone j in frame t, in model units.
    pub posed_from_rest: Vec<DAffine3>,
}

/// A skinned rig for linear blend skinning.
///
/// Invariants, checked by [`Rig::check`]:
/// 1. At least one bone, at most 65536; parents exist and form no cycle; names are unique.
/// 2. Weights cover the N rest vertices and obey their own invariants.
/// 3. Bones' places and tips are finite; each clip has F times and F x B finite transforms.
/// 4. `surface` fits the N vertices.
#[derive(Clone, Debug)]
pub struct Rig {
    /// Short name for outputs.
    pub name: String,
    /// [N] rest pose in model units.
    pub rest: Vec<Vec3>,
    /// Faces, corner attributes, materials.
    pub surface: Arc<Surface>,
    /// [N, K] influences.
    pub weights: SparseWeights,
    /// [B] bones.
    pub bones: Vec<Bone>,
    /// What the bones' transforms may do.
    pub kind: BoneKind,
    /// Motions.
    pub clips: Vec<Clip>,
    /// Parameters that made this rig, as JSON, stored in every output; empty when unknown.
    pub params_json: String,
}

/// Why a rig was refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it all")]
#[non_exhaustive]
pub enum RigError {
    #[error("the rig has {bones} bones; 1 to 65536 are possible")]
    BoneCount { bones: usize },
    #[error("bone {bone} ({name}) has a parent that does not exist or hangs below the bone itself")]
    BadParent { bone: usize, name: String },
    #[error("two bones are named {name:?}")]
    RepeatedName { name: String },
    #[error(transparent)]
    Weights(#[from] WeightError),
    #[error("weights for {weights} vertices, but the rest pose has {vertices}")]
    VertexCount { weights: usize, vertices: usize },
    #[error("clip {clip:?} has {transforms} transforms for {frames} frames of {bones} bones")]
    ClipSize { clip: String, transforms: usize, frames: usize, bones: usize },
    #[error("clip {clip:?}: frame {frame} is at {secs:?} s, not after the frame before it, or beyond 1e8 s")]
    ClipTime { clip: String, frame: usize, secs: f64 },
    #[error("clip {clip:?}, frame {frame}, bone {bone} ({bone_name:?}): the transform is not finite in float32")]
    NotFinite { clip: String, frame: usize, bone: usize, bone_name: String },
    #[error("bone {bone} ({name}): its place or tip is not finite in float32")]
    BoneNotFinite { bone: usize, name: String },
    #[error("rest pose, vertex {vertex}: not finite")]
    RestNotFinite { vertex: usize },
    #[error(transparent)]
    Surface(#[from] SurfaceError),
}

impl BoneKind {
    /// Numbers of one transform: a quaternion and a translation, three scales more, or a 3x4 matrix.
    pub fn numbers(self) -> usize {
        match self {
            Self::Rigid => 7,
            Self::Trs => 10,
            Self::Affine => 12,
        }
    }
}

impl Clip {
    /// F.
    pub fn frame_count(&self) -> usize {
        self.times_secs.len()
    }

    /// [B] posed_from_rest of frame `t`.
    pub fn frame(&self, t: usize) -> &[DAffine3] {
        let bones = self.posed_from_rest.len() / self.frame_count().max(1);
        &self.posed_from_rest[t * bones..(t + 1) * bones]
    }

    /// This clip of all frames as the clips that it was joined from; `None` where a span has frames that this has not.
    pub fn split(&self, spans: &[Span]) -> Option<Vec<Self>> {
        let bones = self.posed_from_rest.len() / self.frame_count().max(1);
        let part = |span: &Span| {
            let transforms = self.posed_from_rest.get(span.frames.start * bones..span.frames.end * bones)?;
            Some(Self {
                name: span.name.clone(),
                times_secs: span.times_secs.clone(),
                posed_from_rest: transforms.to_vec(),
            })
        };
        spans.iter().map(part).collect()
    }
}

impl Rig {
    /// N.
    pub fn vertex_count(&self) -> usize {
        self.rest.len()
    }

    /// B.
    pub fn bone_count(&self) -> usize {
        self.bones.len()
    }

    /// Whether a bone has a parent and stays at its joint to it in every frame, within `max_gap` model units: it only rotates there.
    pub fn only_rotates(&self, bone: usize, max_gap: f64) -> bool {
        let Some(parent) = self.bones[bone].parent else { return false };
        let joint = self.bones[bone].world_from_bind.translation;
        let gap = |pose: &[DAffine3]| pose[bone].transform_point3(joint).distance(pose[parent].transform_point3(joint));
        let mut frames = self.clips.iter().flat_map(|clip| (0..clip.frame_count()).map(|t| clip.frame(t)));
        frames.all(|pose| gap(pose) <= max_gap)
    }

    /// A bone that only rotates at its joint to its parent, and the parent, both with vertices of their own: a motion of free bones would pull them
    /// apart. A root that moves no vertex has no joints that could be seen, and bones that do not move against each other have none.
    pub fn rotating_joint(&self) -> Option<(usize, usize)> {
        let usage = self.weights.usage(self.bone_count());
        let max_gap = JOINT_GAP * unit_radius(&self.rest);
        let poses = || self.clips.iter().flat_map(|clip| (0..clip.frame_count()).map(|t| clip.frame(t)));
        (0..self.bone_count()).filter(|&j| usage[j] > 0).find_map(|j| {
            let parent = self.bones[j].parent.filter(|&parent| usage[parent] > 0)?;
            let moves = poses().any(|pose| !pose[j].matrix3.abs_diff_eq(pose[parent].matrix3, JOINT_GAP));
            (moves && self.only_rotates(j, max_gap)).then_some((j, parent))
        })
    }

    /// The same deformation with virtual bones as bones: [M] rest places, and their transforms for [B] of this rig.
    pub(crate) fn baked(
        &self,
        places: Vec<DVec3>,
        weights: SparseWeights,
        kind: BoneKind,
        pose: impl Fn(&[DAffine3]) -> Vec<DAffine3>,
    ) -> Self {
        let bone = |(m, place): (usize, DVec3)| Bone {
            name: format!("virtual_{m}"),
            parent: None,
            world_from_bind: DAffine3::from_translation(place),
            tip: None,
        };
        let clip = |clip: &Clip| Clip {
            name: clip.name.clone(),
            times_secs: clip.times_secs.clone(),
            posed_from_rest: (0..clip.frame_count()).flat_map(|t| pose(clip.frame(t))).collect(),
        };
        Self {
            name: self.name.clone(),
            rest: self.rest.clone(),
            surface: self.surface.clone(),
            weights,
            bones: places.into_iter().enumerate().map(bone).collect(),
            kind,
            clips: self.clips.iter().map(clip).collect(),
            params_json: self.params_json.clone(),
        }
    }

    /// The same rig in another space: `target_from_source` rotates, scales uniformly and moves. Shading normals are rotated too.
    pub fn placed(&self, target_from_source: DAffine3) -> Self {
        let (there, back) = (target_from_source, target_from_source.inverse());
        let turn = nearest_rotation(&there.matrix3);
        let mut rig = self.clone();
        rig.rest.iter_mut().for_each(|p| *p = there.transform_point3(p.as_dvec3()).as_vec3());
        for bone in &mut rig.bones {
            let place = there.transform_point3(bone.world_from_bind.translation);
            bone.world_from_bind = DAffine3::from_mat3_translation(turn * bone.world_from_bind.matrix3, place);
            bone.tip = bone.tip.map(|tip| there.transform_point3(tip));
        }
        rig.clips.iter_mut().flat_map(|clip| &mut clip.posed_from_rest).for_each(|m| *m = there * *m * back);
        if rig.surface.has_places() {
            Arc::make_mut(&mut rig.surface).place(there);
        }
        rig
    }

    /// Checks invariants 1 to 4.
    pub fn check(&self) -> Result<(), RigError> {
        let bones = self.bones.len();
        ensure((1..=1 << 16).contains(&bones), || RigError::BoneCount { bones })?;
        self.check_tree()?;
        let (weights, vertices) = (self.weights.vertex_count(), self.rest.len());
        ensure(weights == vertices, || RigError::VertexCount { weights, vertices })?;
        self.rest
            .iter()
            .position(|p| !p.is_finite())
            .map_or(Ok(()), |vertex| Err(RigError::RestNotFinite { vertex }))?;
        let finite = |bone: &Bone| fits_float32(&bone.world_from_bind) && bone.tip.is_none_or(|tip| tip.is_finite());
        if let Some(bone) = self.bones.iter().position(|bone| !finite(bone)) {
            return Err(RigError::BoneNotFinite { bone, name: self.bones[bone].name.clone() });
        }
        self.weights.check(bones)?;
        for clip in &self.clips {
            let (frames, transforms) = (clip.times_secs.len(), clip.posed_from_rest.len());
            let name = || clip.name.clone();
            ensure(transforms == frames * bones, || RigError::ClipSize { clip: name(), transforms, frames, bones })?;
            if let Some(frame) = times::first_unsound(&clip.times_secs) {
                return Err(RigError::ClipTime { clip: name(), frame, secs: clip.times_secs[frame] });
            }
            if let Some(at) = clip.posed_from_rest.iter().position(|m| !fits_float32(m)) {
                let (frame, bone) = (at / bones, at % bones);
                let bone_name = self.bones[bone].name.clone();
                return Err(RigError::NotFinite { clip: name(), frame, bone, bone_name });
            }
        }
        Ok(self.surface.check(vertices)?)
    }

    fn check_tree(&self) -> Result<(), RigError> {
        let mut names = std::collections::HashSet::new();
        // Bones known to descend from a root: each is visited once, however long the chains are.
        let mut rooted = vec![false; self.bones.len()];
        for (j, bone) in self.bones.iter().enumerate() {
            let mut path = vec![j];
            let mut ancestor = bone.parent;
            while let Some(p) = ancestor {
                if p >= self.bones.len() || path.len() > self.bones.len() {
                    return Err(RigError::BadParent { bone: j, name: bone.name.clone() });
                }
                if rooted[p] {
                    break;
                }
                path.push(p);
                ancestor = self.bones[p].parent;
            }
            path.into_iter().for_each(|p| rooted[p] = true);
            ensure(names.insert(bone.name.as_str()), || RigError::RepeatedName { name: bone.name.clone() })?;
        }
        Ok(())
    }
}

/// Whether all numbers are finite in float32: positions are, and sums of squares of what is larger overflow.
fn fits_float32(transform: &DAffine3) -> bool {
    transform.to_cols_array().iter().all(|x| x.abs() <= f64::from(f32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(parents: &[Option<usize>]) -> Rig {
        let bone = |(j, &parent): (usize, &Option<usize>)| Bone {
            name: format!("bone_{j}"),
            parent,
            world_from_bind: DAffine3::IDENTITY,
            tip: None,
        };
        let mut weights = SparseWeights::new(1, 1);
        weights.set(0, &[(0, 1.0)]);
        Rig {
            name: String::new(),
            rest: vec![Vec3::ZERO],
            surface: Arc::default(),
            weights,
            bones: parents.iter().enumerate().map(bone).collect(),
            kind: BoneKind::Rigid,
            clips: Vec::new(),
            params_json: String::new(),
        }
    }

    #[test]
    fn parents_form_trees() {
        chain(&[Some(1), Some(2), None, Some(0), None]).check().unwrap();
        for parents in [&[Some(0)][..], &[Some(1), Some(0)], &[None, Some(2), Some(3), Some(1)], &[Some(9)]] {
            assert!(matches!(chain(parents).check(), Err(RigError::BadParent { .. })), "{parents:?}");
        }
    }

    #[test]
    fn numbers_beyond_float32_are_refused() {
        let mut rig = chain(&[None]);
        rig.bones[0].world_from_bind.translation.x = 1e39;
        assert!(matches!(rig.check(), Err(RigError::BoneNotFinite { bone: 0, .. })));
        let mut rig = chain(&[None]);
        let moved = DAffine3::from_translation(glam::DVec3::new(0.0, 1e39, 0.0));
        rig.clips.push(Clip { name: "far".into(), times_secs: vec![0.0], posed_from_rest: vec![moved] });
        assert!(matches!(rig.check(), Err(RigError::NotFinite { frame: 0, bone: 0, .. })));
    }

    #[test]
    fn the_longest_chain_is_checked_at_once() {
        let parents: Vec<Option<usize>> = (0..1 << 16).map(|j| (j + 1 < 1 << 16).then_some(j + 1)).collect();
        chain(&parents).check().unwrap();
    }
}
