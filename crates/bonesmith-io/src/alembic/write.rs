//! Mesh animations as Alembic caches: one transform that does nothing, one polygon mesh below it, face sets for its materials.
//!
//! Frames go to the file one by one. The container wants places of what was written before: everything small is written last.
//! Normals are left out: those of the rest pose would be wrong in every other frame.

use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;

use bonesmith_core::mesh::surface::{CornerAttribute, Material};
use bonesmith_core::{MeshSequence, Space, Surface, UpAxis};
use glam::{DAffine3, Vec3};

use super::murmur::hash;
use crate::{IoError, atomic, warning};

/// Marks the place of a child as data.
const DATA: u64 = 1 << 63;
/// Version of the library whose files these are like.
const LIBRARY: u32 = 10_803;
/// Time per cycle of samplings that list all times.
const ACYCLIC: f64 = f64::MAX / 32.0;
/// Times that are off an even step by less than this are even.
const EVEN: f64 = 1e-7;

const MESH: &str = "schema=AbcGeom_PolyMesh_v1;schemaBaseType=AbcGeom_GeomBase_v1";
const FACE_SET: &str = "schema=AbcGeom_FaceSet_v1;schemaBaseType=AbcGeom_GeomBase_v1";
const XFORM: &str = "schema=AbcGeom_Xform_v3";

/// Number types as the file numbers them.
#[derive(Clone, Copy)]
enum Pod {
    U32 = 5,
    I32 = 6,
    F32 = 10,
    F64 = 11,
}

/// A property that was written.
struct Property {
    name: String,
    metadata: String,
    /// 0 compound, 1 scalar, 2 array.
    kind: u32,
    pod: u32,
    extent: u32,
    samples: usize,
    /// Number of its time sampling.
    sampling: u32,
    /// Place of its group.
    place: u64,
}

/// An object that was written.
struct Object {
    name: String,
    metadata: String,
    place: u64,
}

/// A file in the making.
struct Writer<'a, W> {
    to: &'a mut W,
    at: u64,
}

/// Writes a mesh animation.
pub fn save_sequence(sequence: &MeshSequence, path: &Path) -> Result<(), IoError> {
    warn_of_losses(sequence.surface(), path);
    atomic::write_with(path, |file| {
        let mut writer = Writer { to: file, at: 0 };
        writer.bytes(b"Ogawa\xff\0\x01")?;
        writer.bytes(&0u64.to_le_bytes())?;
        let root = writer.archive(sequence, |_| Ok(Vec::new()))?;
        writer.to.seek(SeekFrom::Start(8))?;
        writer.to.write_all(&root.to_le_bytes())
    })
}

/// Warns of what is not written.
fn warn_of_losses(surface: &Surface, path: &Path) {
    let named = |material: &Material| *material == Material { name: material.name.clone(), ..Material::default() };
    let losses = [
        (!surface.parts.is_empty(), "the meshes of the scene, which are written as one"),
        (surface.normals.is_some(), "normals"),
        (surface.tangents.is_some(), "tangents"),
        (surface.colors.is_some(), "colours"),
        (!surface.materials.iter().all(named), "materials but for their names"),
    ];
    let lost = losses.iter().filter(|(lost, _)| *lost).map(|(_, what)| (*what).to_owned()).collect();
    warning::left_out_all(path, "", lost);
}

impl<W: Write + Seek> Writer<'_, W> {
    fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.at += bytes.len() as u64;
        self.to.write_all(bytes)
    }

    /// Data; its place as a child.
    fn data(&mut self, parts: &[&[u8]]) -> io::Result<u64> {
        let place = self.at;
        let bytes: u64 = parts.iter().map(|part| part.len() as u64).sum();
        if bytes == 0 {
            return Ok(DATA);
        }
        self.bytes(&bytes.to_le_bytes())?;
        parts.iter().try_for_each(|part| self.bytes(part))?;
        Ok(place | DATA)
    }

    /// A group; its place as a child.
    fn group(&mut self, children: &[u64]) -> io::Result<u64> {
        if children.is_empty() {
            return Ok(0);
        }
        let place = self.at;
        self.bytes(&(children.len() as u64).to_le_bytes())?;
        children.iter().try_for_each(|child| self.bytes(&child.to_le_bytes()))?;
        Ok(place)
    }

    /// A sample of values of `width` bytes each, behind its hash.
    fn sample(&mut self, values: &[u8], width: u32) -> io::Result<u64> {
        if values.is_empty() {
            return Ok(DATA);
        }
        self.data(&[&hash(values, width), values])
    }

    /// An array property of one sample.
    fn array(&mut self, name: &str, metadata: &str, pod: Pod, extent: u32, values: &[u8]) -> io::Result<Property> {
        let width = if matches!(pod, Pod::F64) { 8 } else { 4 };
        let sample = self.sample(values, width)?;
        let place = self.group(&[sample, DATA])?;
        let (name, metadata) = (name.to_owned(), metadata.to_owned());
        Ok(Property { name, metadata, kind: 2, pod: pod as u32, extent, samples: 1, sampling: 0, place })
    }

    /// A property of properties.
    fn compound(&mut self, name: &str, metadata: &str, inside: &[Property]) -> io::Result<Property> {
        let mut children: Vec<u64> = inside.iter().map(|property| property.place).collect();
        if !inside.is_empty() {
            let mut headers = Vec::new();
            inside.iter().for_each(|property| property.header(&mut headers));
            children.push(self.data(&[&headers])?);
        }
        let place = self.group(&children)?;
        let (name, metadata) = (name.to_owned(), metadata.to_owned());
        Ok(Property { name, metadata, kind: 0, pod: 0, extent: 0, samples: 0, sampling: 0, place })
    }

    /// An object with its properties and children.
    fn object(&mut self, name: &str, metadata: &str, properties: &[Property], inside: &[Object]) -> io::Result<Object> {
        let mut children = vec![self.compound("", "", properties)?.place];
        children.extend(inside.iter().map(|object| object.place));
        let mut headers = Vec::new();
        for Object { name, metadata, .. } in inside {
            headers.extend((name.len() as u32).to_le_bytes());
            headers.extend(name.as_bytes());
            headers.push(0xff);
            headers.extend((metadata.len() as u32).to_le_bytes());
            headers.extend(metadata.as_bytes());
        }
        // Hashes of properties and of children; readers identify objects by them.
        let own: Vec<u8> = children.iter().flat_map(|place| place.to_le_bytes()).collect();
        children.push(self.data(&[&headers, &hash(&own, 8), &hash(&headers, 1)])?);
        let place = self.group(&children)?;
        Ok(Object { name: name.to_owned(), metadata: metadata.to_owned(), place })
    }

    /// The root; `transform` writes the properties of the transform.
    fn archive(
        &mut self,
        sequence: &MeshSequence,
        transform: impl FnOnce(&mut Self) -> io::Result<Vec<Property>>,
    ) -> io::Result<u64> {
        let version = self.data(&[&0u32.to_le_bytes()])?;
        let library = self.data(&[&LIBRARY.to_le_bytes()])?;
        let name = plain_name(sequence.name(), "mesh");
        let mesh = self.mesh(sequence, &format!("{name}Shape"))?;
        let transform = transform(self)?;
        let still = self.compound(".xform", XFORM, &transform)?;
        let title = format!("{XFORM};schemaObjTitle=AbcGeom_Xform_v3:.xform");
        let xform = self.object(&name, &title, &[still], &[mesh])?;
        let top = self.object("ABC", "", &[], &[xform])?.place;
        let about = format!("_ai_Application=Bonesmith {}", env!("CARGO_PKG_VERSION"));
        let about = self.data(&[about.as_bytes()])?;
        let samplings = self.data(&[&samplings(sequence.times_secs())])?;
        self.group(&[version, library, top, about, samplings, DATA])
    }

    fn mesh(&mut self, sequence: &MeshSequence, name: &str) -> io::Result<Object> {
        let surface = sequence.surface();
        let y_up = Space { up: Some(UpAxis::Y), metres_per_unit: None }.from_source(&surface.space);
        let frames = sequence.frame_count();
        let (mut samples, mut boxes) = (Vec::with_capacity(2 * frames), Vec::with_capacity(frames));
        let mut turned: Vec<Vec3> = Vec::new();
        let mut first_box = [0u8; 48];
        for t in 0..frames {
            let frame = sequence.frame(t);
            let positions = match y_up == DAffine3::IDENTITY {
                true => &*frame,
                false => {
                    turned.clear();
                    let place = |p: &Vec3| y_up.transform_point3(p.as_dvec3()).as_vec3();
                    turned.extend(frame.iter().map(place));
                    &turned
                }
            };
            let bounds = bounds(positions);
            if t == 0 {
                first_box = bounds;
            }
            samples.push(self.sample(little_endian(positions).as_ref(), 4)?);
            samples.push(DATA); // one dimension
            boxes.push(self.sample(&bounds, 8)?);
        }
        let moving = |place, name: &str, metadata: &str, kind, pod: Pod, extent| Property {
            name: name.into(),
            metadata: metadata.into(),
            kind,
            pod: pod as u32,
            extent,
            samples: frames,
            sampling: 1,
            place,
        };
        let place = self.group(&boxes)?;
        let mut inside = vec![moving(place, ".selfBnds", "interpretation=box", 1, Pod::F64, 6)];
        let place = self.group(&samples)?;
        inside.push(moving(place, "P", "geoScope=vtx;interpretation=point", 2, Pod::F32, 3));
        let corners = turned_over(surface, surface.topology.corners());
        inside.push(self.array(".faceIndices", "", Pod::I32, 1, &corners)?);
        let counts: Vec<u8> = surface.topology.faces().flat_map(|face| (face.len() as u32).to_le_bytes()).collect();
        inside.push(self.array(".faceCounts", "", Pod::I32, 1, &counts)?);
        let mut more = Vec::new();
        for (set, uv) in surface.uv_sets.iter().enumerate() {
            let name = if uv.name.is_empty() { format!("uv{set}") } else { uv.name.clone() };
            let property = self.texture(if set == 0 { "uv" } else { &name }, &name, surface, uv)?;
            if set == 0 { inside.push(property) } else { more.push(property) }
        }
        if !more.is_empty() {
            inside.push(self.compound(".arbGeomParams", "", &more)?);
        }
        let geometry = self.compound(".geom", MESH, &inside)?;
        let sets = self.face_sets(surface, &first_box)?;
        self.object(name, &format!("{MESH};schemaObjTitle=AbcGeom_PolyMesh_v1:.geom"), &[geometry], &sets)
    }

    /// A set of texture coordinates, each value once.
    fn texture(
        &mut self,
        name: &str,
        source: &str,
        surface: &Surface,
        uv: &CornerAttribute<2>,
    ) -> io::Result<Property> {
        let values: Vec<u8> = uv.values.iter().flatten().flat_map(|x| x.to_le_bytes()).collect();
        let inside = [
            self.array(".vals", "interpretation=vector", Pod::F32, 2, &values)?,
            self.array(".indices", "", Pod::U32, 1, &turned_over(surface, &uv.indices))?,
        ];
        let source = source.replace([';', '='], "_");
        let metadata = format!(
            "arrayExtent=1;geoScope=fvr;interpretation=vector;isGeomParam=true;podExtent=2;podName=float32_t;sourceName={source}"
        );
        self.compound(&plain_name(name, "uv"), &metadata, &inside)
    }

    /// A face set for each material that faces have.
    fn face_sets(&mut self, surface: &Surface, bounds: &[u8; 48]) -> io::Result<Vec<Object>> {
        let mut sets: Vec<Object> = Vec::new();
        for (m, material) in surface.materials.iter().enumerate() {
            let members = surface.face_materials.iter().enumerate().filter(|(_, of)| **of as usize == m);
            let faces: Vec<u8> = members.flat_map(|(face, _)| (face as u32).to_le_bytes()).collect();
            if faces.is_empty() {
                continue;
            }
            let name = plain_name(&material.name, "material");
            let taken = |name: &str| sets.iter().any(|set| set.name == name);
            let free = (2..).map(|n| format!("{name}_{n}")).find(|name| !taken(name));
            let name = if taken(&name) { free.unwrap_or_default() } else { name };
            let box_place = self.sample(bounds, 8)?;
            let place = self.group(&[box_place])?;
            let own_bounds = Property {
                name: ".selfBnds".into(),
                metadata: "interpretation=box".into(),
                kind: 1,
                pod: Pod::F64 as u32,
                extent: 6,
                samples: 1,
                sampling: 0,
                place,
            };
            let inside = [own_bounds, self.array(".faces", "", Pod::I32, 1, &faces)?];
            let set = self.compound(".faceset", FACE_SET, &inside)?;
            let title = format!("{FACE_SET};schemaObjTitle=AbcGeom_FaceSet_v1:.faceset");
            sets.push(self.object(&name, &title, &[set], &[])?);
        }
        Ok(sets)
    }
}

impl Property {
    /// As `archive::property_header` reads it. All samples are in the file, one alone is constant.
    fn header(&self, to: &mut Vec<u8>) {
        let largest = self.samples.max(self.name.len()).max(self.metadata.len());
        let hint = if largest < 1 << 8 {
            0
        } else if largest < 1 << 16 {
            1
        } else {
            2
        };
        let constant = u32::from(self.samples == 1) << 11;
        let shared = if self.metadata.is_empty() { 0 } else { 0xff << 20 };
        let mut info = self.kind | hint << 2 | shared;
        if self.kind != 0 {
            let sampled = u32::from(self.sampling > 0) << 8;
            info |= self.pod << 4 | sampled | 1 << 10 | constant | self.extent << 12;
        }
        to.extend(info.to_le_bytes());
        let number = |to: &mut Vec<u8>, n: usize| to.extend(&n.to_le_bytes()[..1 << hint]);
        if self.kind != 0 {
            number(to, self.samples);
            if self.sampling > 0 {
                number(to, self.sampling as usize);
            }
        }
        number(to, self.name.len());
        to.extend(self.name.as_bytes());
        if !self.metadata.is_empty() {
            number(to, self.metadata.len());
            to.extend(self.metadata.as_bytes());
        }
    }
}

/// The default one, and that of the frames: even, or all times.
fn samplings(times: &[f64]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut push = |samples: u32, cycle: f64, times: &[f64]| {
        bytes.extend(samples.to_le_bytes());
        bytes.extend(cycle.to_le_bytes());
        bytes.extend((times.len() as u32).to_le_bytes());
        bytes.extend(times.iter().flat_map(|t| t.to_le_bytes()));
    };
    push(1, 1.0, &[0.0]);
    let (first, last) = (times.first().copied().unwrap_or(0.0), times.last().copied().unwrap_or(0.0));
    let step = if times.len() > 1 { (last - first) / (times.len() - 1) as f64 } else { 1.0 };
    let even = times.iter().enumerate().all(|(t, secs)| (secs - (first + t as f64 * step)).abs() < EVEN);
    match even {
        true => push(times.len() as u32, step, &[first]),
        false => push(times.len() as u32, ACYCLIC, times),
    }
    bytes
}

/// Smallest and largest corner, as six float64.
fn bounds(positions: &[Vec3]) -> [u8; 48] {
    let low = positions.iter().copied().fold(Vec3::INFINITY, Vec3::min).as_dvec3();
    let high = positions.iter().copied().fold(Vec3::NEG_INFINITY, Vec3::max).as_dvec3();
    let mut bytes = [0; 48];
    for (at, x) in low.to_array().into_iter().chain(high.to_array()).enumerate() {
        bytes[8 * at..8 * at + 8].copy_from_slice(&x.to_le_bytes());
    }
    bytes
}

fn little_endian(positions: &[Vec3]) -> std::borrow::Cow<'_, [u8]> {
    match cfg!(target_endian = "little") {
        true => std::borrow::Cow::Borrowed(bytemuck::cast_slice(positions)),
        false => positions.iter().flat_map(|p| p.to_array()).flat_map(f32::to_le_bytes).collect(),
    }
}

/// Values of corners in Alembic's order: clockwise.
fn turned_over(surface: &Surface, of_corners: &[u32]) -> Vec<u8> {
    let topology = &surface.topology;
    let faces = (0..topology.face_count()).map(|f| topology.corner_range(f));
    faces.flat_map(|range| of_corners[range].iter().rev()).flat_map(|v| v.to_le_bytes()).collect()
}

/// A name that can stand in a path.
fn plain_name(name: &str, otherwise: &str) -> String {
    let plain = name.replace(['/', '\0'], "_");
    if plain.is_empty() { otherwise.to_owned() } else { plain }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bonesmith_core::RawSequence;

    /// A tetrahedron in two frames below a transform with the properties that `transform` writes.
    fn moved(transform: impl FnOnce(&mut Writer<io::Cursor<Vec<u8>>>) -> io::Result<Vec<Property>>) -> Vec<u8> {
        let corners = [Vec3::ZERO, Vec3::X, Vec3::Y, Vec3::Z];
        let raw = RawSequence {
            frames: vec![corners.to_vec().into(), corners.map(|p| p * 2.0).to_vec().into()],
            times_secs: vec![0.0, 1.0],
            ..RawSequence::default()
        };
        let sequence = MeshSequence::try_from(raw).unwrap();
        let mut bytes = io::Cursor::new(Vec::new());
        let mut writer = Writer { to: &mut bytes, at: 0 };
        writer.bytes(b"Ogawa\xff\0\x01").unwrap();
        writer.bytes(&0u64.to_le_bytes()).unwrap();
        let root = writer.archive(&sequence, transform).unwrap();
        let mut bytes = bytes.into_inner();
        bytes[8..16].copy_from_slice(&root.to_le_bytes());
        bytes
    }

    fn property(name: &str, pod: u32, extent: u32, samples: usize, place: u64) -> Property {
        let sampling = u32::from(samples > 1);
        Property { name: name.into(), metadata: String::new(), kind: 1, pod, extent, samples, sampling, place }
    }

    #[test]
    fn a_transform_that_stores_fewer_samples_than_it_claims() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.abc");
        for (claimed, stored) in [(1, 1), (2, 2), (2, 0), (5, 0), (1, 0), (2, 1)] {
            let bytes = moved(|writer| {
                let codes = writer.sample(&[0x10], 1)?;
                let codes = writer.group(&[codes])?;
                let values: Vec<u8> = [3f64, 0.0, 0.0].iter().flat_map(|x| x.to_le_bytes()).collect();
                let samples = (0..stored).map(|_| writer.sample(&values, 8)).collect::<io::Result<Vec<_>>>()?;
                let place = writer.group(&samples)?;
                Ok(vec![property(".ops", 1, 1, 1, codes), property(".vals", Pod::F64 as u32, 3, claimed, place)])
            });
            std::fs::write(&path, bytes).unwrap();
            let read = crate::load_sequence(std::slice::from_ref(&path), &crate::LoadOptions::default());
            match stored >= claimed {
                true => assert_eq!(read.unwrap().frames[0].positions[0], Vec3::new(3.0, 0.0, 0.0)),
                false => assert!(read.unwrap_err().to_string().contains(".vals"), "{claimed} {stored}"),
            }
        }
    }
}
