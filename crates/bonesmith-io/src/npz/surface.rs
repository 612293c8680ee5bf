//! Faces and what lies on them, the same in sequences and rigs.

use std::io::{self, Seek, Write};

use bonesmith_core::Surface;
use bonesmith_core::mesh::surface::{CornerAttribute, Image, Material};
use bonesmith_core::mesh::topology::Topology;

use super::archive::{Archive, Writer};
use super::meta::{ImageMeta, Meta, VERSION};
use crate::IoError;

/// Reads the small print; without any, everything is at its default.
pub fn read_meta(archive: &mut Archive) -> Result<Meta, IoError> {
    let path = archive.path().to_owned();
    let Some(array) = archive.array("bonesmith")? else { return Ok(Meta::default()) };
    let meta: Meta = serde_json::from_str(&array.text()?)
        .map_err(|e| IoError::malformed(&path, format!("array \"bonesmith\": {e}")))?;
    if meta.version > VERSION {
        let what = format!("written by a newer version (layout {}, this reads up to {VERSION})", meta.version);
        return Err(IoError::unsupported(path, what));
    }
    Ok(meta)
}

/// Reads faces, corner attributes and materials; whether they fit together is checked later, by `Surface::check`.
pub fn read(archive: &mut Archive, meta: &mut Meta) -> Result<Surface, IoError> {
    let mut surface = Surface::bare(read_topology(archive)?);
    for (set, name) in std::mem::take(&mut meta.uv_names).into_iter().enumerate() {
        let attribute = read_attribute(archive, &format!("uv{set}"), name)?;
        surface.uv_sets.extend(attribute);
    }
    surface.normals = read_attribute(archive, "normal", std::mem::take(&mut meta.normal_name))?;
    surface.tangents = read_attribute(archive, "tangent", std::mem::take(&mut meta.tangent_name))?;
    surface.colors = read_attribute(archive, "color", std::mem::take(&mut meta.color_name))?;
    if let Some(array) = archive.array("face_materials")? {
        surface.face_materials = array.indices()?;
    }
    surface.materials = std::mem::take(&mut meta.materials).into_iter().map(Material::from).collect();
    for (at, ImageMeta { name, mime }) in std::mem::take(&mut meta.images).into_iter().enumerate() {
        let bytes = archive.required(&format!("image{at}"))?.bytes()?;
        surface.images.push(Image { name, mime, bytes });
    }
    surface.space = meta.space;
    surface.parts = std::mem::take(&mut meta.parts).into();
    Ok(surface)
}

fn read_topology(archive: &mut Archive) -> Result<Topology, IoError> {
    if archive.has("face_counts") && archive.has("face_indices") {
        let path = archive.path().to_owned();
        let counts = archive.required("face_counts")?.indices()?;
        let corners = archive.required("face_indices")?.indices()?;
        let sum: u64 = counts.iter().map(|&c| u64::from(c)).sum();
        if sum != corners.len() as u64 {
            let what = format!("\"face_counts\" add up to {sum}, but \"face_indices\" has {}", corners.len());
            return Err(IoError::malformed(path, what));
        }
        return Ok(Topology::from_counts(&counts, corners));
    }
    match archive.array("faces")? {
        Some(array) => {
            array.rows(&[3])?;
            Ok(Topology::from_triangles(array.indices()?.as_chunks::<3>().0))
        }
        None => Ok(Topology::empty()),
    }
}

fn read_attribute<const D: usize>(
    archive: &mut Archive,
    key: &str,
    name: String,
) -> Result<Option<CornerAttribute<D>>, IoError> {
    let (values_key, indices_key) = (format!("{key}_values"), format!("{key}_indices"));
    let Some(array) = archive.array(&values_key)? else { return Ok(None) };
    array.rows(&[D])?;
    let values = array.f32s()?.as_chunks::<D>().0.to_vec();
    let indices = archive.required(&indices_key)?.indices()?;
    Ok(Some(CornerAttribute { name, values, indices }))
}

/// Writes what [`read`] reads, except the small print, which goes into `meta`.
pub fn write<W: Write + Seek>(writer: &mut Writer<W>, surface: &Surface, meta: &mut Meta) -> io::Result<()> {
    write_topology(writer, &surface.topology)?;
    for (set, uv) in surface.uv_sets.iter().enumerate() {
        write_attribute(writer, &format!("uv{set}"), uv)?;
        meta.uv_names.push(uv.name.clone());
    }
    if let Some(normals) = &surface.normals {
        write_attribute(writer, "normal", normals)?;
        meta.normal_name.clone_from(&normals.name);
    }
    if let Some(tangents) = &surface.tangents {
        write_attribute(writer, "tangent", tangents)?;
        meta.tangent_name.clone_from(&tangents.name);
    }
    if let Some(colors) = &surface.colors {
        write_attribute(writer, "color", colors)?;
        meta.color_name.clone_from(&colors.name);
    }
    let materials = &surface.face_materials;
    if !materials.is_empty() {
        writer.array("face_materials", &[materials.len()], materials.iter().copied())?;
    }
    for (at, image) in surface.images.iter().enumerate() {
        writer.array(&format!("image{at}"), &[image.bytes.len()], image.bytes.iter().copied())?;
    }
    meta.materials = surface.materials.iter().map(Into::into).collect();
    meta.space = surface.space;
    meta.parts = (&surface.parts).into();
    meta.images = surface.images.iter().map(Into::into).collect();
    Ok(())
}

fn write_topology<W: Write + Seek>(writer: &mut Writer<W>, topology: &Topology) -> io::Result<()> {
    let triangles = topology.vertex_triangles();
    writer.array("faces", &[triangles.len(), 3], triangles.as_flattened().iter().map(|&v| v as i32))?;
    if topology.faces().any(|face| face.len() != 3) {
        writer.array("face_counts", &[topology.face_count()], topology.faces().map(|face| face.len() as i32))?;
        let corners = topology.corners();
        writer.array("face_indices", &[corners.len()], corners.iter().map(|&v| v as i32))?;
    }
    Ok(())
}

fn write_attribute<W: Write + Seek, const D: usize>(
    writer: &mut Writer<W>,
    key: &str,
    attribute: &CornerAttribute<D>,
) -> io::Result<()> {
    let (values, indices) = (&attribute.values, &attribute.indices);
    writer.array(&format!("{key}_values"), &[values.len(), D], values.as_flattened().iter().copied())?;
    writer.array(&format!("{key}_indices"), &[indices.len()], indices.iter().copied())
}

/// Writes the small print: the last array, after all others have added to it.
pub fn write_meta<W: Write + Seek>(writer: &mut Writer<W>, mut meta: Meta) -> io::Result<()> {
    meta.version = VERSION;
    writer.text("bonesmith", &serde_json::to_string(&meta).map_err(io::Error::other)?)
}
