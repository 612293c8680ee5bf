//! One mesh from one file, and a sequence from many.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bonesmith_core::mesh::sequence::DEFAULT_FPS;
use bonesmith_core::mesh::surface::CornerAttribute;
use bonesmith_core::{RawFrame, RawSequence, Surface, Topology};
use glam::Vec3;
use rayon::prelude::*;

use crate::sink::Sink;
use crate::{Format, IoError, LoadOptions, obj, ply, warning};

/// Files that are read at once.
const AT_ONCE: usize = 32;

/// A mesh as it stands in a file.
#[derive(Debug, Default, PartialEq)]
pub struct Mesh {
    /// [N] in model units.
    pub positions: Vec<Vec3>,
    /// Faces and what lies on them.
    pub surface: Surface,
}

/// How much of a mesh file is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Positions, faces, corner attributes, materials.
    Everything,
    /// Positions and faces: what all frames but the first are read for.
    Shape,
}

/// Reads an OBJ or PLY file.
pub fn read(path: &Path, format: Format, extent: Extent) -> Result<Mesh, IoError> {
    let bytes = crate::opens::read(path).map_err(|e| IoError::os(path, e))?;
    crate::opens::count();
    match format {
        Format::Obj => obj::parse(path, &bytes, extent),
        Format::Ply => ply::parse(path, &bytes, extent),
        other => Err(IoError::unsupported(path, format!("a mesh as OBJ or PLY is expected, this is {}", other.name()))),
    }
}

/// Reads one file per frame, in the given order.
pub fn read_sequence(
    files: &[PathBuf],
    rest: Option<&Path>,
    format: Format,
    name: String,
    options: &LoadOptions,
) -> Result<RawSequence, IoError> {
    let Some((first_path, others)) = files.split_first() else { return Ok(RawSequence::default()) };
    let first = read(first_path, format, Extent::Everything)?;
    let rest = rest.map(|path| Ok((path, read(path, format, Extent::Everything)?))).transpose()?;
    let faces = Arc::new(first.surface.topology.clone());
    let mut frames = Sink::new(first_path, files.len());
    frames.push(frame(first_path, first.positions, first.surface.topology.clone(), &faces))?;
    crate::opens::will_read(others);
    // In parallel, but the first error in file order is the one returned: the same message with any number of threads.
    let shape = |path: &PathBuf| -> Result<RawFrame, IoError> {
        let mesh = read(path, format, Extent::Shape)?;
        Ok(frame(path, mesh.positions, mesh.surface.topology, &faces))
    };
    for some in others.chunks(AT_ONCE) {
        let shapes: Vec<_> = some.par_iter().map(|path| warning::with_warnings(|| shape(path))).collect();
        for shape in shapes {
            frames.push(warning::carried(shape)?)?;
        }
    }
    let frames = frames.finish()?;
    let mut surface = first.surface;
    let rest = rest.map(|(path, mesh)| {
        let topology = mesh.surface.topology.clone();
        if topology == surface.topology {
            adopt(&mut surface, mesh.surface);
        }
        frame(path, mesh.positions, topology, &faces)
    });
    let fps = options.fps.unwrap_or(DEFAULT_FPS);
    Ok(RawSequence { name, rest, frames, fps, surface, ..RawSequence::default() })
}

/// A frame that shares equal faces. A file without any faces is only positions, and fits whatever the first has.
pub fn frame(path: &Path, positions: Vec<Vec3>, topology: Topology, shared: &Arc<Topology>) -> RawFrame {
    let label = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let topology = match topology {
        none if none.face_count() == 0 => None,
        equal if equal == **shared => Some(Arc::clone(shared)),
        other => Some(Arc::new(other)),
    };
    RawFrame { label, positions, topology, stored: None }
}

/// Colours of vertices as colours of corners; `None` where there are no colours or no corners.
pub fn vertex_colors(values: Vec<[f32; 4]>, corners: &[u32]) -> Option<CornerAttribute<4>> {
    let there = !values.is_empty() && !corners.is_empty();
    there.then(|| CornerAttribute { name: "color".into(), values, indices: corners.to_vec() })
}

/// OBJ and PLY colours are meant for the screen; a surface has linear ones.
pub fn srgb_to_linear(value: f32) -> f32 {
    let value = if value.is_nan() { 0.0 } else { value.clamp(0.0, 1.0) };
    if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
}

/// Takes over what lies on the rest pose, whose normals are the right ones; what it lacks stays.
fn adopt(surface: &mut Surface, mut rest: Surface) {
    if rest.materials.is_empty() {
        (rest.materials, rest.images) = (std::mem::take(&mut surface.materials), std::mem::take(&mut surface.images));
        rest.face_materials = std::mem::take(&mut surface.face_materials);
    }
    if rest.uv_sets.is_empty() {
        rest.uv_sets = std::mem::take(&mut surface.uv_sets);
    }
    if rest.normals.is_none() {
        rest.normals = surface.normals.take();
    }
    if rest.tangents.is_none() {
        rest.tangents = surface.tangents.take();
    }
    if rest.colors.is_none() {
        rest.colors = surface.colors.take();
    }
    *surface = rest;
}
