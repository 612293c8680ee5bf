//! What comes out: rigs and other representations of an animation. [`Model`] is any of them.

pub mod basis;
pub mod corrective;
pub mod ddm;
pub mod multi_weights;
pub mod rig;
pub mod shape_bones;
pub mod two_layer;
pub mod weights;

pub(crate) use basis::Basis;
pub(crate) use corrective::{BlendShape, CorrectiveRig};
pub(crate) use ddm::{DdmRig, Variant};
pub(crate) use multi_weights::{MultiWeight, MultiWeights};
pub(crate) use rig::{Bone, BoneKind, Clip, Rig, RigError};
pub(crate) use shape_bones::ShapeBones;
pub(crate) use two_layer::{Blends, MAX_VIRTUAL_BONES, TwoLayerRig};
pub(crate) use weights::{Row, SparseWeights, WeightError, add_to, keep_largest, normalise};

use std::sync::Arc;

use glam::{DVec3, Vec3};

use crate::mesh::sequence::{DEFAULT_FPS, RawFrame, Span};
use crate::mesh::{MeshSequence, RawSequence, Surface};
use basis::BasisError;
use corrective::CorrectiveError;
use ddm::DdmRigError;
use shape_bones::ShapeBonesError;
use two_layer::TwoLayerError;

/// Whatever a file holds.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[allow(clippy::large_enum_variant, reason = "one exists per file read")]
pub enum Model {
    /// Positions in every frame.
    Sequence(MeshSequence),
    /// Linear blend skinning, with free bones or a skeleton.
    Rig(Rig),
    /// Bones and virtual bones.
    TwoLayer(TwoLayerRig),
    /// Direct Delta Mush, compressed or not.
    Ddm(DdmRig),
    /// Linear blend skinning with corrective shapes.
    Corrective(CorrectiveRig),
    /// Bones that follow the weights of shapes.
    ShapeBones(ShapeBones),
    /// Trajectories that vertices mix, without bones.
    Basis(Basis),
}

/// A borrowed [`Model`]: every question about a model of any kind has its answer here. Poses are in `deform`.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
#[allow(missing_docs, reason = "see Model")]
pub enum ModelRef<'a> {
    Sequence(&'a MeshSequence),
    Rig(&'a Rig),
    TwoLayer(&'a TwoLayerRig),
    Ddm(&'a DdmRig),
    Corrective(&'a CorrectiveRig),
    ShapeBones(&'a ShapeBones),
    Basis(&'a Basis),
}

macro_rules! kinds {
    ($($kind:ident: $type:ty),*) => {
        impl Model {
            /// The same model, borrowed.
            pub fn view(&self) -> ModelRef<'_> {
                match self { $(Self::$kind(model) => ModelRef::$kind(model)),* }
            }
        }
        impl<'a> From<&'a Model> for ModelRef<'a> {
            fn from(model: &'a Model) -> Self {
                model.view()
            }
        }
        $(
            impl From<$type> for Model {
                fn from(model: $type) -> Self {
                    Self::$kind(model)
                }
            }
            impl<'a> From<&'a $type> for ModelRef<'a> {
                fn from(model: &'a $type) -> Self {
                    Self::$kind(model)
                }
            }
        )*
    };
}

kinds! {
    Sequence: MeshSequence, Rig: Rig, TwoLayer: TwoLayerRig, Ddm: DdmRig, Corrective: CorrectiveRig,
    ShapeBones: ShapeBones, Basis: Basis
}

impl Model {
    /// The bones, their motion, and weights for linear blend skinning; `None` for a model without bones.
    pub fn rig_mut(&mut self) -> Option<&mut Rig> {
        match self {
            Self::Sequence(_) | Self::Basis(_) => None,
            Self::Rig(rig) => Some(rig),
            Self::TwoLayer(two) => Some(&mut two.master),
            Self::Ddm(ddm) => Some(&mut ddm.rig),
            Self::Corrective(corrective) => Some(&mut corrective.rig),
            Self::ShapeBones(face) => Some(&mut face.rig),
        }
    }

    /// Keeps these clips of a model with bones, in this order. The first clip of bones driven by shapes follows from the shapes: some of its clips are a
    /// plain rig.
    ///
    /// # Panics
    /// If there is no such clip.
    pub fn keep_clips(&mut self, numbers: &[usize]) {
        if let Self::ShapeBones(face) = self {
            *self = Self::Rig(face.rig.clone());
        }
        if let Self::Corrective(corrective) = self {
            for shape in &mut corrective.shapes {
                shape.weights = numbers.iter().map(|&c| shape.weights[c].clone()).collect();
            }
        }
        if let Some(rig) = self.rig_mut() {
            rig.clips = numbers.iter().map(|&c| rig.clips[c].clone()).collect();
        }
    }
}

/// The kind of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[allow(missing_docs, reason = "see Model")]
pub enum ModelKind {
    Sequence,
    Rig,
    TwoLayer,
    Ddm,
    CompressedDdm,
    Corrective,
    ShapeBones,
    Basis,
}

impl ModelKind {
    /// All kinds.
    pub const ALL: [Self; 8] = [
        Self::Sequence,
        Self::Rig,
        Self::TwoLayer,
        Self::Ddm,
        Self::CompressedDdm,
        Self::Corrective,
        Self::ShapeBones,
        Self::Basis,
    ];

    /// The name in reports and JSON.
    pub fn id(self) -> &'static str {
        self.names().0
    }

    /// A few words for people.
    pub fn text(self) -> &'static str {
        self.names().1
    }

    fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Sequence => ("sequence", "an animation"),
            Self::Rig => ("lbs", "a rig"),
            Self::TwoLayer => ("two_layer", "a rig with two layers"),
            Self::Ddm => ("ddm", "a Direct Delta Mush rig"),
            Self::CompressedDdm => ("compressed_ddm", "a compressed Direct Delta Mush rig"),
            Self::Corrective => ("shaped", "a rig with corrective shapes"),
            Self::ShapeBones => ("shape_bones", "bones driven by shapes"),
            Self::Basis => ("basis", "an animation as trajectories that vertices mix"),
        }
    }
}

/// Name and frame times of one clip of a model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClipRef<'a> {
    /// Name of the animation.
    pub name: &'a str,
    /// [F] seconds, rising.
    pub times_secs: &'a [f64],
}

impl ClipRef<'_> {
    /// F.
    pub fn frame_count(&self) -> usize {
        self.times_secs.len()
    }
}

/// A part of what a run time stores of a model. Numbers are float32, indices 16 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the names say it all")]
pub enum StoragePart {
    Positions,
    RestPose,
    Weights,
    VirtualWeights,
    VirtualBones,
    /// With the weights of the second layer.
    MultiWeights,
    Shapes,
    /// Numbers of shapes, each with its place.
    ShapeNumbers,
    Motion(BoneKind),
    Trajectories,
    /// With mean and clusters.
    Coefficients,
}

/// Why a model was refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error(transparent)]
#[allow(missing_docs, reason = "the messages say it all")]
#[non_exhaustive]
pub enum ModelError {
    Rig(#[from] RigError),
    TwoLayer(#[from] TwoLayerError),
    Ddm(#[from] DdmRigError),
    Corrective(#[from] CorrectiveError),
    ShapeBones(#[from] ShapeBonesError),
    Basis(#[from] BasisError),
}

/// Bytes of one influence: a 16-bit index and a float32 weight.
const INFLUENCE_BYTES: usize = 2 + 4;

impl<'a> ModelRef<'a> {
    /// Its kind.
    pub fn kind(self) -> ModelKind {
        match self {
            Self::Sequence(_) => ModelKind::Sequence,
            Self::Rig(_) => ModelKind::Rig,
            Self::TwoLayer(_) => ModelKind::TwoLayer,
            Self::Ddm(ddm) if ddm.layer.is_some() => ModelKind::CompressedDdm,
            Self::Ddm(_) => ModelKind::Ddm,
            Self::Corrective(_) => ModelKind::Corrective,
            Self::ShapeBones(_) => ModelKind::ShapeBones,
            Self::Basis(_) => ModelKind::Basis,
        }
    }

    /// `of_rig` of the bones, or what a sequence or a basis has in its place.
    fn common<T>(
        self,
        of_sequence: fn(&'a MeshSequence) -> T,
        of_basis: fn(&'a Basis) -> T,
        of_rig: fn(&'a Rig) -> T,
    ) -> T {
        match self {
            Self::Sequence(sequence) => of_sequence(sequence),
            Self::Basis(basis) => of_basis(basis),
            Self::Rig(rig) => of_rig(rig),
            Self::TwoLayer(two) => of_rig(&two.master),
            Self::Ddm(ddm) => of_rig(&ddm.rig),
            Self::Corrective(corrective) => of_rig(&corrective.rig),
            Self::ShapeBones(face) => of_rig(&face.rig),
        }
    }

    /// The bones, their motion, and weights for linear blend skinning; `None` for a model without bones.
    pub fn rig(self) -> Option<&'a Rig> {
        self.common(|_| None, |_| None, Some)
    }

    /// Short name for outputs.
    pub fn name(self) -> &'a str {
        self.common(|sequence| sequence.name(), |basis| &basis.name, |rig| &rig.name)
    }

    /// [N] rest pose in model units.
    pub fn rest(self) -> &'a [Vec3] {
        self.common(|sequence| sequence.rest(), |basis| &basis.rest, |rig| &rig.rest)
    }

    /// Faces, corner attributes, materials.
    pub fn surface(self) -> &'a Arc<Surface> {
        self.common(|sequence| sequence.surface(), |basis| &basis.surface, |rig| &rig.surface)
    }

    /// Parameters that made it, as JSON; empty when unknown.
    pub fn params_json(self) -> &'a str {
        self.common(|_| "", |basis| &basis.params_json, |rig| &rig.params_json)
    }

    /// N.
    pub fn vertex_count(self) -> usize {
        self.rest().len()
    }

    /// B; 0 for a model without bones.
    pub fn bone_count(self) -> usize {
        self.rig().map_or(0, Rig::bone_count)
    }

    /// [M] rest places of virtual bones; `None` for a model without any.
    pub fn virtual_bones(self) -> Option<Vec<DVec3>> {
        match self {
            Self::TwoLayer(two) => Some(two.centers()),
            Self::Ddm(ddm) => ddm.layer.as_ref().map(|_| ddm.centers()),
            Self::Sequence(_) | Self::Rig(_) | Self::Corrective(_) | Self::ShapeBones(_) | Self::Basis(_) => None,
        }
    }

    /// M; 0 for a model without virtual bones.
    pub fn virtual_bone_count(self) -> usize {
        match self {
            Self::TwoLayer(two) => two.virtual_count(),
            Self::Ddm(ddm) => ddm.virtual_count(),
            Self::Sequence(_) | Self::Rig(_) | Self::Corrective(_) | Self::ShapeBones(_) | Self::Basis(_) => 0,
        }
    }

    /// Its clips; a sequence and a basis have one.
    pub fn clips(self) -> Vec<ClipRef<'a>> {
        self.common(
            |sequence| vec![ClipRef { name: sequence.name(), times_secs: sequence.times_secs() }],
            |basis| vec![ClipRef { name: &basis.name, times_secs: &basis.times_secs }],
            |rig| rig.clips.iter().map(|clip| ClipRef { name: &clip.name, times_secs: &clip.times_secs }).collect(),
        )
    }

    /// All clips as one animation, one after the other, or one of them; `posed` gives the positions of a clip's frame. `None` where
    /// nothing moves.
    pub fn animation(
        self,
        only: Option<usize>,
        mut posed: impl FnMut(usize, usize) -> Vec<Vec3>,
    ) -> Option<RawSequence> {
        let mut sequence = RawSequence {
            name: self.name().to_owned(),
            rest: Some(self.rest().to_vec().into()),
            surface: Surface::clone(self.surface()),
            ..RawSequence::default()
        };
        for (c, clip) in self.clips().into_iter().enumerate().filter(|(c, _)| only.is_none_or(|only| only == *c)) {
            let step = match sequence.times_secs.as_slice() {
                [.., a, b] => b - a,
                _ => 1.0 / DEFAULT_FPS,
            };
            let ends = sequence.times_secs.last().zip(clip.times_secs.first());
            let shift = ends.map_or(0.0, |(end, start)| end + step - start);
            sequence.times_secs.extend(clip.times_secs.iter().map(|t| t + shift));
            if self.rig().is_some() && clip.frame_count() > 0 {
                let start = sequence.frames.len();
                let frames = start..start + clip.frame_count();
                sequence.clips.push(Span { name: clip.name.to_owned(), frames, times_secs: clip.times_secs.to_vec() });
            }
            sequence.frames.extend((0..clip.frame_count()).map(|t| RawFrame::from(posed(c, t))));
        }
        (!sequence.frames.is_empty()).then_some(sequence)
    }

    /// Checks the invariants of its kind. A sequence keeps its own at all times.
    pub fn check(self) -> Result<(), ModelError> {
        match self {
            Self::Sequence(_) => Ok(()),
            Self::Rig(rig) => Ok(rig.check()?),
            Self::TwoLayer(two) => Ok(two.check()?),
            Self::Ddm(ddm) => Ok(ddm.check()?),
            Self::Corrective(corrective) => Ok(corrective.check()?),
            Self::ShapeBones(face) => Ok(face.check()?),
            Self::Basis(basis) => Ok(basis.check()?),
        }
    }

    /// [N, K] weights that vertices blend linearly: on virtual bones where there are any, else on bones.
    pub fn weights(self) -> Option<&'a SparseWeights> {
        match self {
            Self::TwoLayer(two) => Some(&two.weights),
            Self::Ddm(DdmRig { layer: Some(layer), .. }) => Some(layer),
            _ => self.rig().map(|rig| &rig.weights),
        }
    }

    /// Bones, or virtual bones, that vertex `i` blends.
    pub fn influence_count(self, i: usize) -> usize {
        match self {
            Self::Ddm(DdmRig { layer: None, weights, .. }) => weights.of(i).count(),
            _ => self.weights().map_or(0, |weights| weights.of(i).count()),
        }
    }

    /// Vertices with 0, 1, 2... influences; empty for a model without bones.
    pub fn influence_histogram(self) -> Vec<usize> {
        let mut counts = Vec::new();
        for k in (0..self.vertex_count()).filter(|_| self.rig().is_some()).map(|i| self.influence_count(i)) {
            counts.resize(counts.len().max(k + 1), 0);
            counts[k] += 1;
        }
        counts
    }

    /// Most influences of a vertex; 0 for a model without bones.
    pub fn max_influences(self) -> usize {
        self.influence_histogram().len().saturating_sub(1)
    }

    /// Bones that vertex `i` follows through all layers: (bone, weight), each bone once. Weights may be negative.
    pub fn weights_on_bones(self, i: usize) -> Vec<(usize, f64)> {
        let mut sums = Row::new();
        let mut add = |j: usize, w: f64| add_to(&mut sums, j, w);
        match self {
            Self::Sequence(_) | Self::Basis(_) => {}
            Self::Rig(rig) | Self::Corrective(CorrectiveRig { rig, .. }) | Self::ShapeBones(ShapeBones { rig, .. }) => {
                rig.weights.of(i).for_each(|(j, w)| add(j, w.into()));
            }
            Self::TwoLayer(two) => {
                for (m, a) in two.weights.of(i) {
                    two.blends.of(m).for_each(|(j, d)| add(j, f64::from(a) * f64::from(d)));
                }
            }
            Self::Ddm(ddm) => match &ddm.layer {
                None => ddm.weights.of(i).for_each(|(j, v)| add(j, v[0].into())),
                Some(layer) => {
                    for (m, a) in layer.of(i) {
                        ddm.weights.of(m).for_each(|(j, v)| add(j, f64::from(a) * f64::from(v[0])));
                    }
                }
            },
        }
        sums
    }

    /// Bytes at run time by part, with `frames` frames of motion.
    pub fn storage(self, frames: usize) -> Vec<(StoragePart, usize)> {
        let n = self.vertex_count();
        let weights = |weights: &SparseWeights| INFLUENCE_BYTES * n * weights.max_influences();
        let mut parts = vec![(StoragePart::RestPose, 12 * n)];
        match self {
            Self::Sequence(_) => return vec![(StoragePart::Positions, 12 * n * frames)],
            Self::Basis(basis) => {
                let columns = 4 * basis.columns.len();
                let others = basis.bytes().saturating_sub(columns);
                return vec![(StoragePart::Trajectories, columns), (StoragePart::Coefficients, others)];
            }
            Self::Rig(rig) => parts.push((StoragePart::Weights, weights(&rig.weights))),
            Self::TwoLayer(two) => {
                parts.push((StoragePart::VirtualWeights, weights(&two.weights)));
                let blends = INFLUENCE_BYTES * two.virtual_count() * two.blends.slots();
                parts.push((StoragePart::VirtualBones, blends));
            }
            Self::Ddm(ddm) => parts.push((StoragePart::MultiWeights, ddm.bytes())),
            Self::Corrective(corrective) => {
                parts.push((StoragePart::Weights, weights(&corrective.rig.weights)));
                parts.push((StoragePart::Shapes, corrective.shape_bytes()));
            }
            Self::ShapeBones(face) => {
                parts.push((StoragePart::Weights, weights(&face.rig.weights)));
                parts.push((StoragePart::ShapeNumbers, face.number_bytes()));
                // The first clip follows from the numbers.
                return parts;
            }
        }
        if let Some(rig) = self.rig() {
            let motion = 4 * rig.kind.numbers() * rig.bone_count() * frames;
            parts.push((StoragePart::Motion(rig.kind), motion));
        }
        parts
    }

    /// Bytes at run time, with the motion of all clips.
    pub fn bytes(self) -> usize {
        let frames = self.clips().iter().map(ClipRef::frame_count).sum();
        self.storage(frames).iter().map(|(_, bytes)| bytes).sum()
    }
}
