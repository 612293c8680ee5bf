//! Primitives compressed with Draco (`KHR_draco_mesh_compression`), decoded when the file is opened.
//!
//! A stream holds the indices and attributes of a whole primitive. Each is decoded to a buffer view with an accessor of its own, as an uncompressed file would have them: everything
//! after that reads plain accessors. docs/decisions/221-draco-core.md says which decoder this is and how it was tried.

use std::collections::HashMap;

use draco_core::{DataType, DecodeLimits, DecoderBuffer, MeshDecoder, PointAttribute, PointIndex};
use gltf_json::accessor::{ComponentType, GenericComponentType, Type};
use gltf_json::buffer::View;
use gltf_json::mesh::{Mode, Primitive, Semantic};
use gltf_json::validation::{Checked, USize64};
use gltf_json::{Accessor, Index};
use serde::Deserialize;

use super::compressed::MAX_BYTES;
use super::document::Document;
use crate::IoError;

/// The name of the extension.
pub const EXTENSION: &str = "KHR_draco_mesh_compression";

/// Bytes of an attribute's value in the decoder, at most: four floats, and four integers before them.
const VALUE_BYTES: u64 = 32;

/// What the extension says about a primitive.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Stream {
    buffer_view: u32,
    /// Number of each attribute within the stream.
    attributes: HashMap<String, u32>,
}

impl Document {
    /// Decodes compressed primitives and makes them name plain accessors. An uncompressed copy in the file is preferred.
    pub fn decode_primitives(&mut self) -> Result<(), IoError> {
        let mut meshes = std::mem::take(&mut self.root.meshes);
        let mut total = 0;
        for (m, mesh) in meshes.iter_mut().enumerate() {
            for (p, primitive) in mesh.primitives.iter_mut().enumerate() {
                let name = mesh.name.clone().unwrap_or_else(|| m.to_string());
                let broken = |why: String| format!("mesh {name:?}, primitive {p}, compressed with Draco: {why}");
                self.decode_primitive(primitive, &mut total).map_err(|why| self.malformed(broken(why)))?;
            }
        }
        self.root.meshes = meshes;
        Ok(())
    }

    fn decode_primitive(&mut self, primitive: &mut Primitive, total: &mut usize) -> Result<(), String> {
        let content = primitive.extensions.as_ref().and_then(|own| own.others.get(EXTENSION));
        let Some(content) = content else { return Ok(()) };
        let positions = primitive.attributes.get(&Checked::Valid(Semantic::Positions));
        let positions = positions.and_then(|accessor| self.root.accessors.get(accessor.value()));
        if positions.is_some_and(|accessor| accessor.buffer_view.is_some()) {
            return Ok(());
        }
        let stream = Stream::deserialize(content).map_err(|e| e.to_string())?;
        let stated = primitive.indices.and_then(|accessor| self.root.accessors.get(accessor.value()));
        let stated = stated.ok_or("it has no indices, so the number of its faces is not stated")?.count.0;
        let view = self.view_bytes(Index::new(stream.buffer_view)).map_err(|e| e.to_string())?;
        let mesh = decode(view, stated, stream.attributes.len())?;
        let points = mesh.num_points();
        for (semantic, accessor) in &mut primitive.attributes {
            let Checked::Valid(name) = semantic else { continue };
            let Some(&id) = stream.attributes.get(&name.to_string()) else { continue };
            let attribute = mesh.attribute_by_unique_id(id);
            let attribute = attribute.ok_or_else(|| format!("the stream has no attribute {id}"))?;
            let layout = self.root.accessors.get(accessor.value()).map(|a| (a.component_type, a.type_));
            let Some((Checked::Valid(component), Checked::Valid(kind))) = layout else {
                return Err(format!("{} has no accessor, or one of unknown type", name.to_string()));
            };
            let values = values(attribute, points, component.0, kind.multiplicity());
            *accessor = self.add_accessor(*accessor, points, values, total)?;
        }
        let corners = mesh.faces().iter().flatten().map(|point| point.0);
        let indices: Vec<u8> = corners.flat_map(u32::to_le_bytes).collect();
        let stated = primitive.indices.ok_or("it has no indices")?;
        let accessor = self.add_accessor(stated, 3 * mesh.num_faces(), indices, total)?;
        self.root.accessors[accessor.value()].component_type = Checked::Valid(GenericComponentType(ComponentType::U32));
        self.root.accessors[accessor.value()].type_ = Checked::Valid(Type::Scalar);
        primitive.indices = Some(accessor);
        // A stream always holds a list of triangles, also where the source was a strip.
        primitive.mode = Checked::Valid(Mode::Triangles);
        Ok(())
    }

    /// A copy of an accessor, for `count` decoded elements.
    fn add_accessor(
        &mut self,
        like: Index<Accessor>,
        count: usize,
        bytes: Vec<u8>,
        total: &mut usize,
    ) -> Result<Index<Accessor>, String> {
        *total = total.saturating_add(bytes.len());
        if *total > MAX_BYTES {
            return Err(format!("more than {MAX_BYTES} bytes are decoded"));
        }
        let view = Index::new(self.root.buffer_views.len() as u32);
        self.root.buffer_views.push(View {
            buffer: Index::new(0),
            byte_length: USize64(bytes.len() as u64),
            byte_offset: None,
            byte_stride: None,
            name: None,
            target: None,
            extensions: None,
            extras: None,
        });
        self.push_decoded(bytes);
        let like = self.root.accessors.get(like.value()).ok_or("it names an accessor that does not exist")?;
        let plain = Accessor {
            buffer_view: Some(view),
            byte_offset: None,
            count: USize64(count as u64),
            sparse: None,
            ..like.clone()
        };
        self.root.accessors.push(plain);
        Ok(Index::new(self.root.accessors.len() as u32 - 1))
    }
}

/// The mesh of a stream. The file states how many indices there are: more are refused before memory is allocated for them.
fn decode(bytes: &[u8], indices: u64, attributes: usize) -> Result<draco_core::Mesh, String> {
    let limits = DecodeLimits::default()
        .with_max_faces(indices / 3)
        .with_max_points(indices)
        .with_max_decoded_bytes(indices.saturating_mul(VALUE_BYTES * attributes.max(1) as u64).min(MAX_BYTES as u64));
    let mut mesh = draco_core::Mesh::new();
    let mut buffer = DecoderBuffer::new(bytes).with_limits(limits);
    // Messages of the decoder may have several lines.
    let one_line = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
    MeshDecoder::new().decode(&mut buffer, &mut mesh).map_err(|e| one_line(e.to_string()))?;
    let points = mesh.num_points();
    match mesh.faces().iter().flatten().find(|point| point.0 as usize >= points) {
        Some(point) => Err(format!("a face names vertex {}, but there are {points}", point.0)),
        None => Ok(mesh),
    }
}

/// Values of all points as the accessor states them: of `components` components of the type `to`. Components that the stream does not have are zero.
fn values(attribute: &PointAttribute, points: usize, to: ComponentType, components: usize) -> Vec<u8> {
    let (from, data) = (attribute.data_type(), attribute.buffer().data());
    let (stride, width) = (attribute.byte_stride().max(0) as usize, from.byte_length());
    let stored = usize::from(attribute.num_components());
    let mut out = Vec::with_capacity(points * components * to.size());
    for point in 0..points {
        let at = (attribute.mapped_index(PointIndex(point as u32)).0 as usize).checked_mul(stride);
        for c in 0..components {
            let bytes = at.filter(|_| c < stored).and_then(|at| data.get(at..)?.get(c * width..(c + 1) * width));
            let value = bytes.map_or(0.0, |bytes| number(bytes, from));
            let scale = if attribute.normalized() && to == ComponentType::F32 { largest(from) } else { 1.0 };
            put(&mut out, value / scale, to);
        }
    }
    out
}

/// One number of a stream. All types but 64-bit integers are exact in a double.
fn number(b: &[u8], from: DataType) -> f64 {
    let word = |n: usize| -> u64 { b.iter().take(n).rev().fold(0, |sum, &byte| sum << 8 | u64::from(byte)) };
    match from {
        DataType::Int8 => f64::from(word(1) as i8),
        DataType::Uint8 | DataType::Bool => word(1) as f64,
        DataType::Int16 => f64::from(word(2) as i16),
        DataType::Uint16 => word(2) as f64,
        DataType::Int32 => f64::from(word(4) as i32),
        DataType::Uint32 => word(4) as f64,
        DataType::Int64 => word(8) as i64 as f64,
        DataType::Uint64 => word(8) as f64,
        DataType::Float32 => f64::from(f32::from_bits(word(4) as u32)),
        DataType::Float64 => f64::from_bits(word(8)),
        DataType::Invalid => 0.0,
    }
}

/// The integer that stands for one where values are normalised.
fn largest(kind: DataType) -> f64 {
    match kind {
        DataType::Int8 => f64::from(i8::MAX),
        DataType::Uint8 => f64::from(u8::MAX),
        DataType::Int16 => f64::from(i16::MAX),
        DataType::Uint16 => f64::from(u16::MAX),
        DataType::Int32 => f64::from(i32::MAX),
        DataType::Uint32 => f64::from(u32::MAX),
        _ => 1.0,
    }
}

fn put(out: &mut Vec<u8>, value: f64, to: ComponentType) {
    match to {
        ComponentType::I8 => out.extend((value as i8).to_le_bytes()),
        ComponentType::U8 => out.extend((value as u8).to_le_bytes()),
        ComponentType::I16 => out.extend((value as i16).to_le_bytes()),
        ComponentType::U16 => out.extend((value as u16).to_le_bytes()),
        ComponentType::U32 => out.extend((value as u32).to_le_bytes()),
        ComponentType::F32 => out.extend((value as f32).to_le_bytes()),
    }
}
