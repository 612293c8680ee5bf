//! Models into files, and back: figures are those of the file that was written.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Instant;

use bonesmith_core::metrics::{self, Metrics};
use bonesmith_core::{MeshSequence, Model, ModelRef, Observer, Rig, Stage};
use bonesmith_io::{Format, LoadOptions};
use glam::Vec3;

use crate::compact::CompactPart;
use crate::error::Error;
use crate::warning::{Noted, Warning};

/// Influences that every engine and viewer evaluates; more need care.
pub const COMMON_INFLUENCES: usize = 4;

/// How a rig is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Layout {
    /// Bones of one skin.
    #[default]
    Skin,
    /// A mesh node for each rigid piece; a skin for the soft rest only.
    Nodes,
    /// Several skins with at most so many joints each.
    Skins {
        /// At least 1.
        max_joints: usize,
    },
}

/// A file that was written, and what is in it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Saved {
    /// The file.
    pub path: PathBuf,
    /// Its size, with files that belong to it.
    pub file_bytes: u64,
    /// The model, read back from the file. Pieces that were written as nodes, and vertices in several skins, are other vertices
    /// there: this is then the rig that was written.
    pub model: Model,
    /// What is not preserved, and what readers of the file may not evaluate.
    pub warnings: Vec<Warning>,
    /// Seconds that writing took.
    pub export_secs: f64,
    /// Seconds that reading back took.
    pub read_secs: f64,
    /// What a small file leaves out; `None` for a file that leaves nothing out.
    pub compact: Option<CompactPart>,
    /// Positions of the file, where its vertices are not the rig's.
    nodes: Option<Nodes>,
}

#[derive(Clone, Debug)]
struct Nodes {
    read: MeshSequence,
    /// Vertex of the rig for each vertex of the file.
    order: Vec<u32>,
}

/// Writes a model; the extension chooses the format. What is not preserved is in the warnings.
pub fn save<'a>(model: impl Into<ModelRef<'a>>, path: impl AsRef<Path>) -> Result<Noted<()>, Error> {
    let (model, path) = (model.into(), path.as_ref());
    let mut done = Noted::collect(|| bonesmith_io::save_model(model, path))?;
    done.warnings.extend(model.rig().and_then(|rig| influence_warning(rig, path)));
    Ok(done)
}

/// As [`save`] in another layout, which is for plain rigs. A rig without rigid pieces has no nodes: it is written as a skin, with a warning. Returns the rig's vertex of each vertex of the file where they are not the
/// same.
pub fn save_as<'a>(
    model: impl Into<ModelRef<'a>>,
    path: impl AsRef<Path>,
    layout: Layout,
) -> Result<Noted<Option<Vec<u32>>>, Error> {
    let (model, path) = (model.into(), path.as_ref());
    let rig = match (layout, model) {
        (Layout::Nodes, ModelRef::Rig(rig)) if bonesmith_io::piece_order(rig).is_none() => {
            let Noted { value: (), mut warnings } = save(model, path)?;
            warnings.push(Warning::NoPieces);
            return Ok(Noted { value: None, warnings });
        }
        (Layout::Skin, _) => {
            let Noted { value: (), warnings } = save(model, path)?;
            return Ok(Noted { value: None, warnings });
        }
        (_, ModelRef::Rig(rig)) => rig,
        (_, other) => {
            let what = format!("{} is written as one skin", other.kind().text());
            return Err(Error::Unsupported(what));
        }
    };
    let write = || match layout {
        Layout::Skins { max_joints } => bonesmith_io::save_skins(rig, path, max_joints).map(Some),
        _ => bonesmith_io::save_pieces(rig, path).map(|()| bonesmith_io::piece_order(rig)),
    };
    let mut done = Noted::collect(write)?;
    // One skin that holds all is read back as it is.
    let same = |order: &Vec<u32>| {
        let rising = order.iter().enumerate().all(|(i, &vertex)| i == vertex as usize);
        layout != Layout::Nodes && rising && order.len() == rig.vertex_count()
    };
    done.value = done.value.filter(|order| !same(order));
    done.warnings.extend(influence_warning(rig, path));
    Ok(done)
}

impl Saved {
    /// Writes a model and reads the file back.
    pub fn write<'a>(
        model: impl Into<ModelRef<'a>>,
        path: impl AsRef<Path>,
        layout: Layout,
        observer: &mut dyn Observer,
    ) -> Result<Self, Error> {
        let (model, path) = (model.into(), path.as_ref());
        Error::unless_cancelled(observer, Stage::Writing)?;
        let started = Instant::now();
        let Noted { value: order, mut warnings } = save_as(model, path, layout)?;
        warnings.dedup();
        let export_secs = started.elapsed().as_secs_f64();
        Error::unless_cancelled(observer, Stage::MeasuringTheFile)?;
        let started = Instant::now();
        let (read, nodes) = match (order, model.rig()) {
            (Some(order), Some(rig)) => (rig.clone().into(), Some(Nodes { read: read_nodes(path)?, order })),
            _ => (read_back(model, path)?, None),
        };
        Ok(Self {
            file_bytes: bonesmith_io::file_bytes(path),
            path: path.to_owned(),
            model: read,
            warnings,
            export_secs,
            read_secs: started.elapsed().as_secs_f64(),
            compact: None,
            nodes,
        })
    }

    /// A file that was written, read back.
    pub(crate) fn read(
        model: ModelRef<'_>,
        path: &Path,
        warnings: Vec<Warning>,
        export_secs: f64,
    ) -> Result<Self, Error> {
        let started = Instant::now();
        let read = read_back(model, path)?;
        Ok(Self {
            file_bytes: bonesmith_io::file_bytes(path),
            path: path.to_owned(),
            model: read,
            warnings,
            export_secs,
            read_secs: started.elapsed().as_secs_f64(),
            compact: None,
            nodes: None,
        })
    }

    /// Figures of the file by its first clips, as many as the sequence has.
    pub fn measure(&self, sequence: &MeshSequence) -> Result<Metrics, Error> {
        self.measure_clips(0..sequence.clips().len().max(1), sequence)
    }

    /// Figures of the file by some of its clips, whose frames are those of the sequence, one clip after the other. A file without bones has
    /// one clip, which is the whole sequence.
    pub fn measure_clips(&self, clips: Range<usize>, sequence: &MeshSequence) -> Result<Metrics, Error> {
        let clips: Vec<usize> = if self.model.view().rig().is_some() { clips.collect() } else { vec![0] };
        match &self.nodes {
            None => Ok(metrics::evaluate_clips(&self.model, &clips, sequence)?),
            Some(nodes) => nodes.measure(sequence),
        }
    }

    /// As [`Saved::measure_clips`] of the poses of another rig, whose normals are then the true ones.
    pub(crate) fn measure_beside(
        &self,
        clips: Range<usize>,
        sequence: &MeshSequence,
        source: &Rig,
    ) -> Result<Metrics, Error> {
        if self.nodes.is_some() || self.model.view().rig().is_none() {
            return self.measure_clips(clips, sequence);
        }
        let clips: Vec<usize> = clips.collect();
        Ok(metrics::evaluate_beside(&self.model, &clips, sequence, source)?)
    }

    /// Whether the file holds nodes, so that there is no model to measure.
    pub(crate) fn has_nodes(&self) -> bool {
        self.nodes.is_some()
    }
}

impl Nodes {
    fn measure(&self, sequence: &MeshSequence) -> Result<Metrics, Error> {
        let Self { read, order } = self;
        let (vertices, frames) = (read.vertex_count(), read.frame_count());
        if (vertices, frames) != (order.len(), sequence.frame_count()) {
            let what = format!("{vertices} vertices and {frames} frames");
            return Err(Error::ReadBack(Box::new(Error::Unsupported(what))));
        }
        let in_place = |t: usize| {
            let mut positions = vec![Vec3::ZERO; sequence.vertex_count()];
            order.iter().zip(read.frame(t).iter()).for_each(|(&i, p)| positions[i as usize] = *p);
            positions
        };
        Ok(metrics::compare(sequence, in_place))
    }
}

/// What was written there. A rig is one even if nothing moves it.
fn read_back(written: ModelRef<'_>, path: &Path) -> Result<Model, Error> {
    let read = match written {
        ModelRef::Sequence(_) => bonesmith_io::load_model(&[path.to_owned()], &LoadOptions::default()),
        _ => bonesmith_io::load_rigged(path),
    };
    read.map_err(|error| Error::ReadBack(Box::new(error.into())))
}

fn read_nodes(path: &Path) -> Result<MeshSequence, Error> {
    let read = || -> Result<MeshSequence, Error> {
        let raw = bonesmith_io::load_sequence(&[path.to_owned()], &LoadOptions::default())?;
        Ok(MeshSequence::try_from(raw)?)
    };
    read().map_err(|error| Error::ReadBack(Box::new(error)))
}

/// A rig with more influences than common run times evaluate, in a format that they read.
pub(crate) fn influence_warning(rig: &Rig, output: &Path) -> Option<Warning> {
    let influences = rig.weights.max_influences();
    let played = matches!(Format::from_extension(output), Some(Format::Glb | Format::Gltf));
    (influences > COMMON_INFLUENCES && played)
        .then_some(Warning::ManyInfluences { influences, common: COMMON_INFLUENCES })
}
