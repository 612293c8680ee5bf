//! Polygon meshes: positions over time, faces, texture coordinates, normals, colours, face sets.
//!
//! Alembic's faces run clockwise, ours the other way round: corners of a face are turned over, with all that lies
//! on them.

use bonesmith_core::mesh::surface::{CornerAttribute, Material};
use bonesmith_core::{Surface, Topology};
use glam::Vec3;

use super::archive::{Archive, Compound, Kind, Object, Pod, Property};
use crate::{IoError, merge, warning};

/// A mesh of a file, its positions still there.
pub struct Mesh {
    /// Name of the object.
    pub name: String,
    /// `/a/b`.
    pub path: String,
    positions: Property,
    faces: Option<(Property, Property)>,
    /// Faces of the first sample and what lies on them.
    pub surface: Surface,
}

impl Mesh {
    /// Reads all of a mesh but its positions; `None` where the object is none.
    pub fn read(archive: &Archive, object: &Object) -> Result<Option<Self>, IoError> {
        let properties = archive.properties(object)?;
        let Some(geometry) = archive.property(&properties, ".geom")?.filter(|p| p.kind == Kind::Compound) else {
            return Ok(None);
        };
        let inside = archive.inside(&geometry)?;
        let Some(positions) = archive.property(&inside, "P")?.filter(|p| p.samples > 0) else { return Ok(None) };
        if positions.kind != Kind::Array || positions.pod != Some(Pod::Float(4)) || positions.extent != 3 {
            return Err(archive.wrong(&positions, "is no array of float32 points"));
        }
        let counts = archive.property(&inside, ".faceCounts")?.filter(|p| p.samples > 0);
        let indices = archive.property(&inside, ".faceIndices")?.filter(|p| p.samples > 0);
        let faces = counts.zip(indices);
        let mut surface = Surface::default();
        if let Some(faces) = &faces {
            surface = read_surface(archive, object, &inside, faces)?;
        }
        Ok(Some(Self { name: object.name.clone(), path: object.path.clone(), positions, faces, surface }))
    }

    /// Seconds of each sample of the positions.
    pub fn times(&self, archive: &Archive, most: usize) -> Result<Vec<f64>, IoError> {
        archive.times(&self.positions, most)
    }

    /// Samples: those that there are, and those that are in the file.
    pub fn samples(&self) -> (usize, usize) {
        (self.positions.samples, self.positions.stored_samples())
    }

    /// Vertices in sample `t`.
    pub fn vertex_count(&self, archive: &Archive, t: usize) -> Result<usize, IoError> {
        Ok((archive.values(&self.positions, t)?.bytes / 12) as usize)
    }

    /// Appends the positions of sample `t`, straight from the file.
    pub fn positions(&self, archive: &Archive, t: usize, into: &mut Vec<Vec3>) -> Result<(), IoError> {
        let data = archive.values(&self.positions, t)?;
        if data.bytes % 12 != 0 {
            return Err(archive.wrong(&self.positions, format!("sample {t} has {} bytes, not points", data.bytes)));
        }
        let first = into.len();
        into.resize(first + (data.bytes / 12) as usize, Vec3::ZERO);
        let what = format!("{}/P, sample {t}", self.path);
        archive.ogawa.fill(data, 0, bytemuck::cast_slice_mut(&mut into[first..]), &what)?;
        if cfg!(target_endian = "big") {
            into[first..]
                .iter_mut()
                .for_each(|p| *p = p.to_array().map(|x| f32::from_bits(x.to_bits().swap_bytes())).into());
        }
        Ok(())
    }

    /// Whether all samples of the positions are one.
    pub fn is_constant(&self) -> bool {
        self.positions.is_constant()
    }

    /// Faces of sample `t` where they are not those of the sample before.
    pub fn new_faces(&self, archive: &Archive, t: usize) -> Result<Option<Topology>, IoError> {
        let Some((counts, indices)) = &self.faces else { return Ok(None) };
        if t == 0 || (counts.is_same(t - 1, t) && indices.is_same(t - 1, t)) || t >= counts.samples.max(indices.samples)
        {
            return Ok(None);
        }
        let counts = archive.indices(counts, t)?;
        let corners = archive.indices(indices, t)?;
        let place = format!("{}, sample {t}", self.path);
        Ok(Some(Faces::new(archive, &place, counts, corners)?.topology()))
    }
}

/// Faces as they stand in the file.
struct Faces {
    counts: Vec<u32>,
    corners: Vec<u32>,
}

impl Faces {
    fn new(archive: &Archive, place: &str, counts: Vec<u32>, corners: Vec<u32>) -> Result<Self, IoError> {
        let sum: u64 = counts.iter().map(|n| u64::from(*n)).sum();
        if sum != corners.len() as u64 {
            let what = format!("{place}: the faces have {sum} corners, but {} are there", corners.len());
            return Err(archive.ogawa.malformed(what));
        }
        Ok(Self { counts, corners })
    }

    /// Turned over.
    fn topology(&self) -> Topology {
        Topology::from_counts(&self.counts, self.turned(&self.corners))
    }

    /// Values of corners in our order.
    fn turned(&self, of_corners: &[u32]) -> Vec<u32> {
        let mut turned = Vec::with_capacity(of_corners.len());
        let mut rest = of_corners;
        for &count in &self.counts {
            let (face, others) = rest.split_at(count as usize);
            turned.extend(face.iter().rev());
            rest = others;
        }
        turned
    }

    /// [corners] face of each.
    fn faces_of_corners(&self) -> Vec<u32> {
        let faces = self.counts.iter().enumerate();
        faces.flat_map(|(f, &count)| std::iter::repeat_n(f as u32, count as usize)).collect()
    }
}

fn read_surface(
    archive: &Archive,
    object: &Object,
    inside: &Compound,
    (counts, indices): &(Property, Property),
) -> Result<Surface, IoError> {
    let faces = Faces::new(archive, &object.path, archive.indices(counts, 0)?, archive.indices(indices, 0)?)?;
    let mut surface = Surface::bare(faces.topology());
    if let Some(property) = archive.property(inside, "uv")? {
        surface.uv_sets.extend(attribute::<2>(archive, &property, &faces)?);
    }
    if let Some(property) = archive.property(inside, "N")? {
        surface.normals = attribute::<3>(archive, &property, &faces)?;
    }
    if let Some(more) = archive.property(inside, ".arbGeomParams")?.filter(|p| p.kind == Kind::Compound) {
        read_more(archive, object, &archive.inside(&more)?, &faces, &mut surface)?;
    }
    read_face_sets(archive, object, &mut surface)?;
    Ok(surface)
}

/// Further texture coordinates, and colours.
fn read_more(
    archive: &Archive,
    object: &Object,
    more: &Compound,
    faces: &Faces,
    surface: &mut Surface,
) -> Result<(), IoError> {
    let mut others = Vec::new();
    for at in 0..more.len() {
        let property = archive.property_at(more, at)?;
        let before = (surface.uv_sets.len(), surface.colors.is_some());
        let values = match property.kind {
            Kind::Compound => archive.property(&archive.inside(&property)?, ".vals")?,
            _ => Some(property.clone()),
        };
        let values = values.filter(|v| v.pod == Some(Pod::Float(4)));
        let meaning =
            [Some(&property), values.as_ref()].map(|p| p.map(|p| p.metadata.get("interpretation").to_owned()));
        let is = |name: &str| meaning.iter().flatten().any(|m| m == name);
        match values.map_or(0, |values| values.extent) {
            2 => surface.uv_sets.extend(attribute::<2>(archive, &property, faces)?),
            3 if is("rgb") && surface.colors.is_none() => {
                let colors = attribute::<3>(archive, &property, faces)?;
                surface.colors = colors.map(|CornerAttribute { name, values, indices }| CornerAttribute {
                    name,
                    values: values.iter().map(|&[r, g, b]| [r, g, b, 1.0]).collect(),
                    indices,
                });
            }
            4 if is("rgba") && surface.colors.is_none() => {
                surface.colors = attribute::<4>(archive, &property, faces)?;
            }
            _ => {}
        }
        if before == (surface.uv_sets.len(), surface.colors.is_some()) {
            others.push(property.name);
        }
    }
    warning::left_out_all(archive.ogawa.path(), &format!("{}: the attributes", object.path), others);
    Ok(())
}

/// The first sample of values on the mesh, per corner whatever they were on; `None` where they do not fit.
fn attribute<const D: usize>(
    archive: &Archive,
    property: &Property,
    faces: &Faces,
) -> Result<Option<CornerAttribute<D>>, IoError> {
    let (values, indices) = match property.kind {
        Kind::Compound => {
            let inside = archive.inside(property)?;
            (archive.property(&inside, ".vals")?, archive.property(&inside, ".indices")?)
        }
        _ => (Some(property.clone()), None),
    };
    let Some(values) = values.filter(|v| v.samples > 0 && v.extent == D) else { return Ok(None) };
    if values.kind != Kind::Array || values.pod != Some(Pod::Float(4)) {
        return Ok(None);
    }
    let scope = match property.metadata.get("geoScope") {
        "" => values.metadata.get("geoScope").to_owned(),
        scope => scope.to_owned(),
    };
    let bytes = archive.bytes(&values, 0)?;
    let numbers = bytes.as_chunks::<4>().0.as_chunks::<D>().0;
    let list: Vec<[f32; D]> = numbers.iter().map(|v| v.map(f32::from_le_bytes)).collect();
    let table = match indices.filter(|i| i.samples > 0) {
        Some(indices) => Some(archive.indices(&indices, 0)?),
        None => None,
    };
    let elements = match scope.as_str() {
        "fvr" => None,
        "uni" => Some(faces.faces_of_corners()),
        "vtx" | "var" => Some(faces.corners.clone()),
        // Without a scope the number of values decides.
        "" if table.as_ref().map_or(list.len(), Vec::len) == faces.corners.len() => None,
        "" => Some(faces.corners.clone()),
        _ => Some(vec![0; faces.corners.len()]),
    };
    let element = |corner: usize| elements.as_ref().map_or(corner, |of| of[corner] as usize);
    let value = |corner: usize| match &table {
        Some(table) => table.get(element(corner)).copied(),
        None => u32::try_from(element(corner)).ok(),
    };
    let found: Option<Vec<u32>> =
        (0..faces.corners.len()).map(|c| value(c).filter(|v| (*v as usize) < list.len())).collect();
    let name = match property.metadata.get("sourceName") {
        "" => property.name.clone(),
        name => name.to_owned(),
    };
    Ok(found.map(|of_corners| CornerAttribute { name, values: list, indices: faces.turned(&of_corners) }))
}

/// Face sets are materials by their names; faces in none get a plain one.
fn read_face_sets(archive: &Archive, object: &Object, surface: &mut Surface) -> Result<(), IoError> {
    let faces = surface.topology.face_count();
    let mut of_faces: Vec<Option<u32>> = vec![None; faces];
    for at in 0..archive.child_count(object) {
        let child = archive.child(object, at)?;
        if !child.metadata.get("schema").starts_with("AbcGeom_FaceSet") {
            continue;
        }
        let properties = archive.properties(&child)?;
        let Some(set) = archive.property(&properties, ".faceset")?.filter(|p| p.kind == Kind::Compound) else {
            continue;
        };
        let Some(list) = archive.property(&archive.inside(&set)?, ".faces")?.filter(|p| p.samples > 0) else {
            continue;
        };
        let members = archive.indices(&list, 0)?;
        if members.is_empty() {
            continue; // Blender's "default" of meshes without materials
        }
        let material = surface.materials.len() as u32;
        surface.materials.push(Material { name: child.name.clone(), ..Material::default() });
        for face in members {
            if let Some(place) = of_faces.get_mut(face as usize) {
                *place = Some(material);
            }
        }
    }
    surface.face_materials = merge::face_materials(of_faces, &mut surface.materials);
    Ok(())
}
