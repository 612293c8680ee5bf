//! What a report shows: models of all kinds, and the facts about them that the page lists.

use bonesmith_core::deform::Poser;
use bonesmith_core::mesh::shading::ShadingVertices;
use bonesmith_core::metrics::Metrics;
use bonesmith_core::model::StoragePart;
use bonesmith_core::{Bone, BoneKind, ModelKind, ModelRef};
use glam::{DAffine3, DVec3, Vec3};

use crate::document::{BoneRow, BoneRowKind, Figure, Iteration, Remark, StorageRow, Timing};

/// Maximum number of influences that the page skins by itself; models with more are stored as positions.
pub const MAX_INFLUENCES: usize = 16;

/// A model and what there is to say about it.
#[derive(Clone, Debug)]
pub struct Subject<'a> {
    /// As the page calls it.
    pub name: String,
    /// The model.
    pub model: ModelRef<'a>,
    /// Numbers of its clips, one after the other: as many frames as the scene. Empty: as at rest.
    pub clips: Vec<usize>,
    /// Against the original.
    pub metrics: Option<&'a Metrics>,
    /// Error by round.
    pub iterations: Option<Vec<Iteration>>,
    /// Where the time went.
    pub timings: Vec<Timing>,
    /// Figures beside those of `metrics`.
    pub figures: Vec<Figure>,
    /// Storage beside that of the model itself: files.
    pub storage: Vec<StorageRow>,
    /// What the user should know.
    pub warnings: Vec<Remark>,
}

impl<'a> Subject<'a> {
    /// A model and its motion; the rest is empty.
    pub fn new(name: impl Into<String>, model: impl Into<ModelRef<'a>>, clips: Vec<usize>) -> Self {
        Self {
            name: name.into(),
            model: model.into(),
            clips,
            metrics: None,
            iterations: None,
            timings: Vec::new(),
            figures: Vec::new(),
            storage: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// Clip and frame within it of frame `t` of the scene.
    fn clip_at(&self, mut t: usize) -> Option<(usize, usize)> {
        let all = self.model.clips();
        for &clip in &self.clips {
            match t.checked_sub(all.get(clip)?.frame_count()) {
                None => return Some((clip, t)),
                Some(later) => t = later,
            }
        }
        None
    }

    /// [B] posed_from_rest in frame `t` of the scene.
    fn pose(&self, t: usize) -> Vec<DAffine3> {
        match (self.clip_at(t), self.model.rig()) {
            (Some((clip, t)), Some(rig)) => rig.clips[clip].frame(t).to_vec(),
            _ => vec![DAffine3::IDENTITY; self.model.bone_count()],
        }
    }

    /// [f, B] posed_from_rest of the bones in some frames.
    pub(crate) fn bone_poses(&self, frames: &[usize]) -> Vec<DAffine3> {
        frames.iter().flat_map(|&t| self.pose(t)).collect()
    }

    /// [f, J] posed_from_rest of bones or virtual bones that vertices blend, for a model that the page skins.
    pub(crate) fn joint_poses(&self, frames: &[usize]) -> Vec<DAffine3> {
        match self.model {
            ModelRef::TwoLayer(two) => frames.iter().flat_map(|&t| two.blends.pose(&self.pose(t))).collect(),
            _ => self.bone_poses(frames),
        }
    }

    /// [f][N] positions in some frames.
    pub fn positions(&self, frames: &[usize]) -> Vec<Vec<Vec3>> {
        let mut poser = Poser::new(self.model);
        let posed = |&t: &usize| match self.clip_at(t) {
            Some((clip, t)) => poser.posed(clip, t),
            None => self.model.rest().to_vec(),
        };
        frames.iter().map(posed).collect()
    }

    /// Bones as the page lists them.
    pub(crate) fn bone_rows(&self) -> Vec<BoneRow> {
        let row = |bone: &Bone| BoneRow {
            name: bone.name.clone(),
            parent: bone.parent.map_or(-1, |p| p as i64),
            kind: BoneRowKind::Bone,
            head: bone.world_from_bind.translation.to_array(),
            tip: bone.tip.map(|tip| tip.to_array()),
        };
        self.model.rig().map_or_else(Vec::new, |rig| rig.bones.iter().map(row).collect())
    }

    /// [N] stored unit normals, as the faces are turned; the mean where a vertex has several. `None` without faces.
    pub(crate) fn normals(&self) -> Option<Vec<DVec3>> {
        let shading = ShadingVertices::new(self.model.surface());
        let rest = self.model.rest();
        let mut sums = vec![DVec3::ZERO; rest.len()];
        let (stored, sides) = (shading.rest_normals(rest), shading.sides(rest));
        for ((&i, normal), side) in shading.vertices().iter().zip(stored).zip(sides) {
            sums[i as usize] += normal.normalize_or_zero() * side;
        }
        (shading.count() > 0).then(|| sums.into_iter().map(|sum| sum.normalize_or_zero()).collect())
    }

    /// Whether the page can skin it: linear weights alone, with few enough influences.
    pub(crate) fn is_skinned(&self) -> bool {
        matches!(self.model.kind(), ModelKind::Rig | ModelKind::TwoLayer | ModelKind::ShapeBones)
            && self.model.weights().is_some_and(|weights| weights.max_influences() <= MAX_INFLUENCES)
    }
}

/// Bones that colour vertex `i`. Negative weights are left out.
pub(crate) fn colours(model: ModelRef<'_>, i: usize) -> Vec<(usize, f64)> {
    let mut row = model.weights_on_bones(i);
    row.retain(|(_, w)| *w > 0.0);
    row
}

/// [B] mean weight of each bone over the vertices.
pub(crate) fn bone_usage(model: ModelRef<'_>) -> Vec<f64> {
    let mut usage = vec![0.0; model.bone_count()];
    let n = model.vertex_count();
    for i in 0..n {
        let row = colours(model, i);
        let sum: f64 = row.iter().map(|(_, w)| w).sum();
        row.iter().for_each(|(j, w)| usage[*j] += w / sum / n as f64);
    }
    usage
}

/// Bytes at run time by part, with `frames` frames of motion.
pub(crate) fn storage(model: ModelRef<'_>, frames: usize) -> Vec<StorageRow> {
    let text = |part: StoragePart| match part {
        StoragePart::Positions => "positions of all frames, float32",
        StoragePart::RestPose => "rest pose, float32",
        StoragePart::Weights => "weights: 16-bit bones, float32",
        StoragePart::VirtualWeights => "weights on virtual bones",
        StoragePart::VirtualBones => "virtual bones",
        StoragePart::MultiWeights => "multi-weights",
        StoragePart::Shapes => "corrective shapes and their weights, float32",
        StoragePart::ShapeNumbers => "numbers of shapes: float32, 16-bit places",
        StoragePart::Motion(BoneKind::Rigid) => "bone motion: quaternions and translations, float32",
        StoragePart::Motion(BoneKind::Trs) => "bone motion: quaternions, translations and scales, float32",
        StoragePart::Motion(BoneKind::Affine) => "bone motion: 3x4 matrices, float32",
        StoragePart::Trajectories => "trajectories, float32",
        StoragePart::Coefficients => "what vertices mix",
        _ => "other",
    };
    model.storage(frames).into_iter().map(|(part, bytes)| StorageRow::new(text(part), bytes as u64)).collect()
}
