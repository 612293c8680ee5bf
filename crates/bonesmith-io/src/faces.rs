//! Faces: a neutral and shapes, from any format that holds them.
//!
//! A face is read as an animation: its rest pose is the neutral, frame `s` is the neutral with shape `s` at weight 1, and the label of the frame is the
//! name of the shape. In-betweens of FBX and USD are further shapes, each with what remains of it when its shape is at that weight, and follow the
//! weight of their shape ([`Between`]): together they are the lines between the levels of the file.

use std::path::{Path, PathBuf};

use bonesmith_core::{RawFrame, RawSequence};
use glam::Vec3;

use crate::inputs::{self, Source};
use crate::{Format, IoError, LoadOptions, fbx, gltf, mesh, npz, usd};

/// A face as read.
#[derive(Clone, Debug, Default)]
pub struct RawFace {
    /// Neutral and shapes.
    pub shapes: RawSequence,
    /// Shapes that are in-betweens of others.
    pub betweens: Vec<Between>,
}

impl From<RawSequence> for RawFace {
    fn from(shapes: RawSequence) -> Self {
        Self { shapes, betweens: Vec::new() }
    }
}

/// An in-between: a shape that follows the weight of another one.
#[derive(Clone, Debug, PartialEq)]
pub struct Between {
    /// Its name.
    pub shape: String,
    /// The shape whose weight it follows.
    pub of: String,
    /// Weights of that shape where this one begins, is 1, and ends.
    pub range: [f32; 3],
}

/// Names of files that are the neutral, in a folder without one called `rest`.
const NEUTRAL: [&str; 4] = ["neutral", "base", "basis", "default"];

/// Reads a face: morph targets of glTF, blend shapes of FBX and USD, an npz with `shapes` or `offsets`, or OBJ or PLY files with a neutral.
pub fn load_face(inputs: &[PathBuf], options: &LoadOptions) -> Result<RawFace, IoError> {
    let mut face = match inputs::resolve(inputs)? {
        Source::Single(path, format) => match format {
            Format::Npz => npz::load_face(&path)?.into(),
            Format::Glb | Format::Gltf => gltf::load_face(&path, options)?,
            Format::Fbx => fbx::load_face(&path, options)?,
            Format::Usda | Format::Usdc | Format::Usdz => usd::load_face(&path, options)?,
            other => return Err(IoError::unsupported(path, format!("{} files hold no shapes", other.name()))),
        },
        Source::Meshes { files, rest, format, name } => of_meshes(files, rest, format, name, options)?.into(),
        Source::Cache { cache, .. } => return Err(IoError::unsupported(cache, "point caches hold no shapes")),
    };
    let path = inputs.first().cloned().unwrap_or_default();
    if face.shapes.frames.is_empty() {
        return Err(IoError::unsupported(path, "there are no shapes: no morph target, no blend shape"));
    }
    let mut names: Vec<&String> = face.shapes.frames.iter().map(|frame| &frame.label).collect();
    names.sort_unstable();
    if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(repeated(&path, pair[0]));
    }
    face.shapes.times_secs.clear();
    face.shapes.fps = bonesmith_core::mesh::sequence::DEFAULT_FPS;
    Ok(face)
}

fn repeated(path: &Path, name: &str) -> IoError {
    IoError::malformed(path, format!("two shapes are called {name:?}"))
}

/// One file for each shape, and one for the neutral.
fn of_meshes(
    mut files: Vec<PathBuf>,
    mut rest: Option<PathBuf>,
    format: Format,
    name: String,
    options: &LoadOptions,
) -> Result<RawSequence, IoError> {
    let stem = |path: &Path| path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    if rest.is_none() {
        let is_neutral = |name: &str| files.iter().position(|path| stem(path).to_ascii_lowercase().contains(name));
        rest = NEUTRAL.iter().find_map(|name| is_neutral(name)).map(|at| files.remove(at));
    }
    let Some(rest) = rest else {
        let first = files.first().cloned().unwrap_or_default();
        return Err(IoError::unsupported(first, "none of the files is called neutral or rest: shapes need a neutral"));
    };
    let mut face = mesh::read_sequence(&files, Some(&rest), format, name, options)?;
    for (frame, path) in face.frames.iter_mut().zip(&files) {
        frame.label = stem(path);
    }
    Ok(face)
}

/// Shapes that are being collected: those of one name in several meshes are one.
pub(crate) struct Collected {
    /// [N] the neutral.
    pub neutral: Vec<Vec3>,
    frames: Vec<RawFrame>,
    betweens: Vec<Between>,
    /// First vertex of the mesh that was last added to each frame.
    last: Vec<usize>,
    /// A name that one mesh has twice.
    repeated: Option<String>,
}

impl Collected {
    pub fn new(neutral: Vec<Vec3>) -> Self {
        Self { neutral, frames: Vec::new(), betweens: Vec::new(), last: Vec::new(), repeated: None }
    }

    /// A shape and its levels below weight 1: (weight, offsets of vertices from `first` on), by rising weight, the last one at 1. Levels at weights
    /// outside of 0 to 1 are none.
    pub fn add_levels(&mut self, name: &str, first: usize, levels: &[(f64, Vec<Vec3>)]) {
        let Some((_, whole)) = levels.last() else { return };
        self.add(name, first, whole.iter().copied().enumerate());
        let inner: Vec<&(f64, Vec<Vec3>)> =
            levels.iter().filter(|(weight, _)| *weight > 0.0 && *weight < 1.0).collect();
        for (at, (weight, offsets)) in inner.iter().enumerate() {
            let before = if at > 0 { inner[at - 1].0 } else { 0.0 };
            let after = inner.get(at + 1).map_or(1.0, |next| next.0);
            let shape = format!("{name}_{}", (100.0 * weight).round());
            let rest = offsets.iter().zip(whole).map(|(offset, whole)| *offset - *weight as f32 * *whole);
            self.add(&shape, first, rest.enumerate());
            let range = [before, *weight, after].map(|x| x as f32);
            if !self.betweens.iter().any(|between| between.shape == shape) {
                self.betweens.push(Between { shape, of: name.to_owned(), range });
            }
        }
    }

    /// Offsets of the vertices of a mesh, from `first` on.
    pub fn add(&mut self, name: &str, first: usize, offsets: impl Iterator<Item = (usize, Vec3)>) {
        let at = match self.frames.iter().position(|frame| frame.label == name) {
            Some(at) => {
                if std::mem::replace(&mut self.last[at], first) == first {
                    self.repeated.get_or_insert_with(|| name.to_owned());
                }
                at
            }
            None => {
                let positions = self.neutral.clone();
                self.frames.push(RawFrame { label: name.to_owned(), positions, ..RawFrame::default() });
                self.last.push(first);
                self.frames.len() - 1
            }
        };
        let positions = &mut self.frames[at].positions;
        for (i, offset) in offsets {
            if let Some(p) = positions.get_mut(first + i) {
                *p += offset;
            }
        }
    }

    /// The face, of the file at `path`; an error where one mesh has two shapes of one name.
    pub fn finish(self, path: &Path, name: String, surface: bonesmith_core::Surface) -> Result<RawFace, IoError> {
        if let Some(name) = self.repeated {
            return Err(repeated(path, &name));
        }
        let rest = Some(self.neutral.into());
        let shapes = RawSequence { name, rest, frames: self.frames, surface, ..RawSequence::default() };
        Ok(RawFace { shapes, betweens: self.betweens })
    }
}
