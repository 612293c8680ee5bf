//! A file of any kind as a model that moves: rigs with one layer or two, with shapes, Direct Delta Mush, trajectories, plain animations.

use std::path::Path;

use anyhow::Context;
use bonesmith_core::metrics::{self, Metrics, MetricsError};
use bonesmith_core::{Basis, Clip, DdmRig, MeshSequence, Rig, ShapedRig, TwoLayerRig, deform};
use bonesmith_io::{LoadOptions, Loaded};
use bonesmith_report::Shape;

use crate::errors::Usage;
use crate::load;
use crate::settings::Input;

/// What a file holds.
#[allow(clippy::large_enum_variant, reason = "there is one per file read")]
pub enum AnyModel {
    Lbs(Rig),
    TwoLayer(TwoLayerRig),
    Ddm(DdmRig),
    Shaped(ShapedRig),
    Basis(Basis),
    Sequence(MeshSequence),
}

impl AnyModel {
    /// As `input` says: `--fps`, `--mesh`; of an animation also `--frames` and `--rest`.
    pub fn read(path: &Path, input: &Input) -> anyhow::Result<Self> {
        if let Some(two) = bonesmith_io::load_two_layer(path)? {
            return Ok(Self::TwoLayer(two));
        }
        if let Some(ddm) = bonesmith_io::load_ddm(path)? {
            return Ok(Self::Ddm(ddm));
        }
        if let Some(basis) = bonesmith_io::load_basis(path)? {
            return Ok(Self::Basis(basis));
        }
        // Of several meshes one is a plain rig.
        if input.load.mesh.is_none()
            && let Some(shaped) = bonesmith_io::load_shaped(path)?
        {
            return Ok(Self::Shaped(shaped));
        }
        Ok(match bonesmith_io::load(path, &input.load)? {
            Loaded::Rig(rig) => Self::Lbs(*rig),
            Loaded::Sequence(raw) => {
                let picked = load::pick(raw, input)?;
                Self::Sequence(load::check(picked).with_context(|| path.display().to_string())?)
            }
        })
    }

    pub fn shape(&self) -> Shape<'_> {
        match self {
            Self::Lbs(rig) => Shape::Lbs(rig),
            Self::TwoLayer(two) => Shape::TwoLayer(two),
            Self::Ddm(ddm) => Shape::Ddm(ddm),
            Self::Shaped(shaped) => Shape::Shaped(shaped),
            Self::Basis(basis) => Shape::Basis(basis),
            Self::Sequence(sequence) => Shape::Sequence(sequence),
        }
    }

    pub fn vertex_count(&self) -> usize {
        self.shape().rest().len()
    }

    /// Most that a vertex blends: bones, or virtual bones.
    pub fn influences(&self) -> usize {
        self.shape().influence_counts().len().saturating_sub(1)
    }

    /// The clip of this name, else the first; `None` for an animation.
    pub fn clip(&self, name: Option<&str>) -> anyhow::Result<Option<&Clip>> {
        self.shape().rig().map(|rig| find_clip(rig, name)).transpose()
    }

    /// Against an animation, frame by frame of one clip.
    pub fn measure(&self, clip: Option<&Clip>, sequence: &MeshSequence) -> anyhow::Result<Metrics> {
        let (own, n) = (self.vertex_count(), sequence.vertex_count());
        if own != n {
            return Err(MetricsError::VertexCount { rig: own, sequence: n }.into());
        }
        let (name, frames) = match (self, clip) {
            (Self::Sequence(own), _) => (own.name(), own.frame_count()),
            (Self::Basis(own), _) => (own.name.as_str(), own.frame_count()),
            (_, Some(clip)) => (clip.name.as_str(), clip.frame_count()),
            (_, None) => return Err(MetricsError::NoClip.into()),
        };
        if frames != sequence.frame_count() {
            let (clip, rig) = (name.to_owned(), frames);
            return Err(MetricsError::FrameCount { clip, rig, sequence: sequence.frame_count() }.into());
        }
        Ok(metrics::compare(sequence, |t| match (self, clip) {
            (Self::Lbs(rig), Some(clip)) => deform::lbs(&rig.rest, &rig.weights, clip.frame(t)),
            (Self::TwoLayer(two), Some(clip)) => deform::two_layer(two, clip.frame(t)),
            (Self::Ddm(rig), Some(clip)) => bonesmith_core::deform::ddm_f64(rig, clip.frame(t)),
            (Self::Shaped(shaped), Some(clip)) => shaped.posed(place(&shaped.rig, clip), t),
            (Self::Basis(own), _) => own.frame(t),
            (Self::Sequence(own), _) => own.frame(t).to_vec(),
            (_, None) => Vec::new(),
        }))
    }
}

/// Figures of a file that was written, whatever it holds, by its first clip.
pub fn measure_written(path: &Path, sequence: &MeshSequence) -> anyhow::Result<Metrics> {
    let input = Input { paths: Vec::new(), load: LoadOptions::default(), rest: None, frames: None };
    let model = AnyModel::read(path, &input)?;
    model.measure(model.clip(None)?, sequence).context("measuring what was written")
}

/// The number of a clip of a rig.
pub fn place(rig: &Rig, clip: &Clip) -> usize {
    rig.clips.iter().position(|own| std::ptr::eq(own, clip)).unwrap_or(0)
}

/// The clip of this name, else the first.
pub fn find_clip<'a>(rig: &'a Rig, name: Option<&str>) -> anyhow::Result<&'a Clip> {
    let names = || rig.clips.iter().map(|c| c.name.as_str()).collect::<Vec<_>>().join(", ");
    match name {
        None => Ok(rig.clips.first().ok_or(MetricsError::NoClip)?),
        Some(name) => match rig.clips.iter().find(|clip| clip.name == name) {
            Some(clip) => Ok(clip),
            None => Err(Usage::new(format!("--clip {name}: the rig has no animation of this name"))
                .hint(format!("it has: {}", names()))
                .into()),
        },
    }
}
