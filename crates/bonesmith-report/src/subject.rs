//! What a report shows: models of all kinds, each asked the same questions.

use bonesmith_core::deform::{self, DdmDeformer};
use bonesmith_core::metrics::Metrics;
use bonesmith_core::{Basis, BoneKind, Clip, DdmRig, MeshSequence, Rig, ShapedRig, Surface, TwoLayerRig};
use glam::{DAffine3, DVec3, Vec3};

use crate::model::{BoneRow, Figure, Iteration, Remark, StorageRow, Timing};

/// Most influences that the page skins by itself; models with more come as positions.
pub const MAX_INFLUENCES: usize = 16;

/// A model of any kind.
#[derive(Clone, Copy, Debug)]
pub enum Shape<'a> {
    /// Linear blend skinning, with loose bones or a skeleton.
    Lbs(&'a Rig),
    /// Bones and virtual bones.
    TwoLayer(&'a TwoLayerRig),
    /// Multi-weights, compressed or not.
    Ddm(&'a DdmRig),
    /// Linear blend skinning with corrective shapes.
    Shaped(&'a ShapedRig),
    /// Trajectories that vertices mix, without bones.
    Basis(&'a Basis),
    /// Plain positions.
    Sequence(&'a MeshSequence),
}

/// A model and what there is to say about it.
#[derive(Clone, Debug)]
pub struct Subject<'a> {
    /// As the page calls it.
    pub name: String,
    /// The model.
    pub shape: Shape<'a>,
    /// Its motion, end to end: as many frames as the scene. Empty: as at rest.
    pub clips: Vec<&'a Clip>,
    /// Against the original.
    pub metrics: Option<&'a Metrics>,
    /// Error by round.
    pub iterations: Option<Vec<Iteration>>,
    /// Where the time went.
    pub timings: Vec<Timing>,
    /// Figures beside those of `metrics`.
    pub figures: Vec<Figure>,
    /// Room beside that of the model itself: files.
    pub storage: Vec<StorageRow>,
    /// What the user should know.
    pub warnings: Vec<Remark>,
}

impl<'a> Subject<'a> {
    /// A model and its motion; the rest is empty.
    pub fn new(name: impl Into<String>, shape: Shape<'a>, clips: Vec<&'a Clip>) -> Self {
        Self {
            name: name.into(),
            shape,
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
    fn clip_at(&self, mut t: usize) -> Option<(&'a Clip, usize)> {
        for &clip in &self.clips {
            match t.checked_sub(clip.frame_count()) {
                None => return Some((clip, t)),
                Some(later) => t = later,
            }
        }
        None
    }

    /// [B] posed_from_rest in frame `t` of the scene.
    fn pose(&self, t: usize) -> Vec<DAffine3> {
        match self.clip_at(t) {
            Some((clip, t)) => clip.frame(t).to_vec(),
            None => vec![DAffine3::IDENTITY; self.shape.bones().len()],
        }
    }

    /// Shapes are weighed by the place of the clip in its rig.
    fn shaped(&self, shaped: &ShapedRig, t: usize) -> Vec<Vec3> {
        let known = |clip: &Clip| shaped.rig.clips.iter().position(|own| std::ptr::eq(own, clip));
        match self.clip_at(t).and_then(|(clip, t)| known(clip).map(|clip| (clip, t))) {
            Some((clip, t)) => shaped.posed(clip, t),
            None => deform::lbs(&shaped.rig.rest, &shaped.rig.weights, &self.pose(t)),
        }
    }

    /// [f, B] posed_from_rest of the bones in some frames.
    pub(crate) fn bone_poses(&self, frames: &[usize]) -> Vec<DAffine3> {
        frames.iter().flat_map(|&t| self.pose(t)).collect()
    }

    /// [f, J] posed_from_rest of what the vertices hang on, for a model that the page skins.
    pub(crate) fn joint_poses(&self, frames: &[usize]) -> Vec<DAffine3> {
        match self.shape {
            Shape::TwoLayer(two) => frames.iter().flat_map(|&t| two.blends.pose(&self.pose(t))).collect(),
            _ => self.bone_poses(frames),
        }
    }

    /// [f][N] positions in some frames, by the evaluators of the core.
    pub fn positions(&self, frames: &[usize]) -> Vec<Vec<Vec3>> {
        let mut deformer = if let Shape::Ddm(ddm) = self.shape { Some(DdmDeformer::new(ddm)) } else { None };
        let mut posed = |t: usize| match self.shape {
            Shape::Sequence(sequence) => sequence.frame(t.min(sequence.frame_count() - 1)).to_vec(),
            Shape::Lbs(rig) => deform::lbs(&rig.rest, &rig.weights, &self.pose(t)),
            Shape::TwoLayer(two) => deform::two_layer(two, &self.pose(t)),
            Shape::Shaped(shaped) => self.shaped(shaped, t),
            Shape::Basis(basis) => basis.frame(t.min(basis.frame_count() - 1)),
            Shape::Ddm(ddm) => {
                let mut posed = vec![Vec3::ZERO; ddm.vertex_count()];
                deformer.iter_mut().for_each(|deformer| deformer.pose_into(&self.pose(t), &mut posed));
                posed
            }
        };
        frames.iter().map(|&t| posed(t)).collect()
    }
}

impl<'a> Shape<'a> {
    /// The name of the kind in the report.
    pub fn kind(self) -> &'static str {
        match self {
            Shape::Lbs(_) => "lbs",
            Shape::TwoLayer(_) => "two_layer",
            Shape::Ddm(ddm) if ddm.layer.is_some() => "compressed_ddm",
            Shape::Ddm(_) => "ddm",
            Shape::Shaped(_) => "shaped",
            Shape::Basis(_) => "basis",
            Shape::Sequence(_) => "sequence",
        }
    }

    /// The rig with the bones.
    pub fn rig(self) -> Option<&'a Rig> {
        match self {
            Shape::Lbs(rig) => Some(rig),
            Shape::TwoLayer(two) => Some(&two.master),
            Shape::Ddm(ddm) => Some(&ddm.rig),
            Shape::Shaped(shaped) => Some(&shaped.rig),
            Shape::Basis(_) | Shape::Sequence(_) => None,
        }
    }

    /// [N]
    pub fn rest(self) -> &'a [Vec3] {
        match (self, self.rig()) {
            (_, Some(rig)) => &rig.rest,
            (Shape::Sequence(sequence), None) => sequence.rest(),
            (Shape::Basis(basis), None) => &basis.rest,
            (_, None) => &[],
        }
    }

    /// Faces and what lies on them.
    pub(crate) fn surface(self) -> Option<&'a Surface> {
        match self {
            Shape::Sequence(sequence) => Some(sequence.surface()),
            Shape::Basis(basis) => Some(&basis.surface),
            _ => self.rig().map(|rig| &*rig.surface),
        }
    }

    /// Name and times of the motion of a model without bones, whose motion is its own.
    pub(crate) fn own_motion(self) -> Option<(&'a str, &'a [f64])> {
        match self {
            Shape::Sequence(sequence) => Some((sequence.name(), sequence.times_secs())),
            Shape::Basis(basis) => Some((&basis.name, &basis.times_secs)),
            _ => None,
        }
    }

    fn bones(self) -> &'a [bonesmith_core::Bone] {
        self.rig().map_or(&[], |rig| &rig.bones)
    }

    /// Bones as the page lists them.
    pub(crate) fn bone_rows(self) -> Vec<BoneRow> {
        let row = |bone: &bonesmith_core::Bone| BoneRow {
            name: bone.name.clone(),
            parent: bone.parent.map_or(-1, |p| p as i64),
            kind: "bone",
            head: bone.world_from_bind.translation.to_array(),
            tip: bone.tip.map(|tip| tip.to_array()),
        };
        self.bones().iter().map(row).collect()
    }

    /// Whether the page can skin it: weights on joints, few enough.
    pub(crate) fn is_skinned(self) -> bool {
        match self {
            Shape::Lbs(rig) => rig.weights.max_influences() <= MAX_INFLUENCES,
            Shape::TwoLayer(two) => two.weights.max_influences() <= MAX_INFLUENCES,
            Shape::Ddm(_) | Shape::Shaped(_) | Shape::Basis(_) | Shape::Sequence(_) => false,
        }
    }

    /// [M] rest places of virtual bones.
    pub(crate) fn virtual_heads(self) -> Option<Vec<DVec3>> {
        match self {
            Shape::TwoLayer(two) => Some(two.centers()),
            Shape::Ddm(ddm) if ddm.layer.is_some() => {
                Some((0..ddm.virtual_count()).map(|k| ddm.origin + ddm.weights.centre(k)).collect())
            }
            _ => None,
        }
    }

    /// Bones that vertex `i` follows in the end, through all layers: (bone, weight), a bone once.
    pub(crate) fn effective(self, i: usize) -> Vec<(usize, f64)> {
        let mut sums: Vec<(usize, f64)> = Vec::new();
        let mut add = |j: usize, w: f64| match sums.iter_mut().find(|(bone, _)| *bone == j) {
            Some((_, sum)) => *sum += w,
            None => sums.push((j, w)),
        };
        match self {
            Shape::Basis(_) | Shape::Sequence(_) => {}
            Shape::Lbs(rig) | Shape::Shaped(ShapedRig { rig, .. }) => {
                rig.weights.of(i).for_each(|(j, w)| add(j, w.into()));
            }
            Shape::TwoLayer(two) => {
                for (m, a) in two.weights.of(i) {
                    two.blends.of(m).for_each(|(j, d)| add(j, f64::from(a) * f64::from(d)));
                }
            }
            Shape::Ddm(ddm) => match &ddm.layer {
                None => ddm.weights.of(i).for_each(|(j, v)| add(j, v[0].into())),
                Some(layer) => {
                    for (m, a) in layer.of(i) {
                        ddm.weights.of(m).for_each(|(j, v)| add(j, f64::from(a) * f64::from(v[0])));
                    }
                }
            },
        }
        // A bone may be taken away from: nothing to colour a vertex by.
        sums.retain(|(_, w)| *w > 0.0);
        sums
    }

    /// What vertex `i` itself blends: bones, or virtual bones.
    fn influences(self, i: usize) -> usize {
        match self {
            Shape::Basis(_) | Shape::Sequence(_) => 0,
            Shape::Lbs(rig) | Shape::Shaped(ShapedRig { rig, .. }) => rig.weights.of(i).count(),
            Shape::TwoLayer(two) => two.weights.of(i).count(),
            Shape::Ddm(ddm) => match &ddm.layer {
                None => ddm.weights.of(i).count(),
                Some(layer) => layer.of(i).count(),
            },
        }
    }

    /// Vertices with k influences, k from 0; empty for positions.
    pub fn influence_counts(self) -> Vec<usize> {
        let mut counts = Vec::new();
        for k in (0..self.rest().len()).filter(|_| self.rig().is_some()).map(|i| self.influences(i)) {
            counts.resize(counts.len().max(k + 1), 0);
            counts[k] += 1;
        }
        counts
    }

    /// [B] mean weight of each bone over the vertices.
    pub(crate) fn bone_usage(self) -> Vec<f64> {
        let mut usage = vec![0.0; self.bones().len()];
        let n = self.rest().len();
        for i in 0..n {
            let row = self.effective(i);
            let sum: f64 = row.iter().map(|(_, w)| w).sum();
            row.iter().for_each(|(j, w)| usage[*j] += w / sum / n as f64);
        }
        usage
    }

    /// Bytes at run time by part, for `frames` frames of motion.
    pub fn storage(self, frames: usize) -> Vec<StorageRow> {
        /// A 16-bit index and a 32-bit weight.
        const SLOT: usize = 2 + 4;
        let n = self.rest().len();
        let row = |what: &str, bytes: usize| StorageRow::new(what, bytes as u64);
        if let Shape::Basis(basis) = self {
            let bytes = basis.bytes();
            let columns = 4 * basis.columns.len();
            return vec![
                row("trajectories, float32", columns),
                row("what vertices mix", bytes.saturating_sub(columns)),
            ];
        }
        let Some(rig) = self.rig() else { return vec![row("positions of all frames, float32", 12 * n * frames)] };
        let (floats, motion) = match rig.kind {
            BoneKind::Rigid => (7, "bone motion: quaternions and translations, float32"),
            BoneKind::Trs => (10, "bone motion: quaternions, translations and scales, float32"),
            BoneKind::Affine => (12, "bone motion: 3x4 matrices, float32"),
        };
        let mut rows = vec![row("rest pose, float32", 12 * n)];
        match self {
            Shape::TwoLayer(two) => {
                rows.push(row("weights on virtual bones", SLOT * n * two.weights.max_influences()));
                rows.push(row("virtual bones", SLOT * two.virtual_count() * two.blends.slots()));
            }
            Shape::Ddm(ddm) => rows.push(row("multi-weights", ddm.bytes())),
            Shape::Shaped(shaped) => {
                rows.push(row("weights: 16-bit bones, float32", SLOT * n * rig.weights.max_influences()));
                rows.push(row("corrective shapes and their weights, float32", shaped.shape_bytes()));
            }
            _ => rows.push(row("weights: 16-bit bones, float32", SLOT * n * rig.weights.max_influences())),
        }
        rows.push(row(motion, 4 * floats * rig.bone_count() * frames));
        rows
    }
}
