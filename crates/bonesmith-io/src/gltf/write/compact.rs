//! Small files: quantised attributes, curves with fewer keys, compressed views. What may be left out is chosen in `crate::compact`.
//!
//! | array | compressed | plain |
//! |---|---|---|
//! | positions | float32, exponential filter | float32 |
//! | normals, tangents | 8 bits, octahedral filter | 8 bits |
//! | texture coordinates | float32 in steps of 1/4096, exponential filter | 16 bits where they lie in 0 to 1 |
//! | colours | 8 bits | 8 bits |
//! | weights | 8 bits, or float32 in steps of a power of two with the exponential filter; sum exactly one | 8 or 16 bits, sum exactly one |
//! | rotations | 16 bits, quaternion filter with 6 to 16 bits | 8 or 16 bits |
//! | translations, scales | float32, exponential filter | float32 |
//! | indices | triangle codec | 8, 16 or 32 bits |
//!
//! Positions stay floats, so that inverse bind matrices need no scale (Blender poses those wrongly); their stream is as short as that of
//! integers would be.

use std::collections::HashSet;

use bonesmith_core::SparseWeights;
use glam::Vec3;
use gltf_json::accessor::{Accessor, ComponentType, Type};
use gltf_json::animation::Property;
use gltf_json::buffer::View;
use gltf_json::mesh::Semantic;
use gltf_json::validation::{Checked, USize64};
use gltf_json::{Index, Node};
use serde_json::json;

use super::animation::AnimationBuilder;
use super::buffer::{Builder, Elements, Purpose, bounds};
use super::mesh::MeshSource;
use super::split::{Part, SplitVertex};
use crate::compact::weights::{BYTES, Placed, Placer, SHORTS, WholeRow};
use crate::compact::{Curve, Kind, Packing, Stored, rounded};
use crate::gltf::meshopt::attributes::{self, Version};
use crate::gltf::meshopt::{EXTENSIONS, Filter, Mode, filters, indices};

/// Steps of texture coordinates: a pixel of a picture of 4096.
const UV_EXPONENT: i32 = -12;
/// Bits of normals: with 6 or 7, smooth surfaces of a glossy material have faint streaks.
const NORMAL_BITS: u32 = 8;

/// The extension of compressed views.
pub fn extension(packing: Packing) -> &'static str {
    EXTENSIONS[usize::from(packing == Packing::Khr)]
}

/// How a view is compressed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Coding {
    mode: Mode,
    filter: Filter,
    stride: usize,
}

impl Coding {
    /// Elements of `stride` bytes without a filter; `None` where the codec takes none of that size.
    pub fn elements(stride: usize) -> Option<Self> {
        Self::filtered(stride, Filter::None)
    }

    /// Elements for a filter.
    pub fn filtered(stride: usize, filter: Filter) -> Option<Self> {
        (stride.is_multiple_of(4) && (4..=256).contains(&stride)).then_some(Self {
            mode: Mode::Attributes,
            filter,
            stride,
        })
    }

    /// Indices of triangles.
    pub fn triangles(stride: usize) -> Option<Self> {
        matches!(stride, 2 | 4).then_some(Self { mode: Mode::Triangles, filter: Filter::None, stride })
    }

    fn encode(self, bytes: &[u8], version: Version) -> Vec<u8> {
        match (self.mode, self.stride) {
            (Mode::Attributes, stride) => attributes::encode(bytes, stride, version),
            (_, 2) => {
                let all: Vec<u32> =
                    bytes.as_chunks::<2>().0.iter().map(|b| u32::from(u16::from_le_bytes(*b))).collect();
                indices::encode_triangles(all.as_chunks::<3>().0)
            }
            _ => {
                let all: Vec<u32> = bytes.as_chunks::<4>().0.iter().map(|b| u32::from_le_bytes(*b)).collect();
                indices::encode_triangles(all.as_chunks::<3>().0)
            }
        }
    }
}

fn exponential<const D: usize>(values: &[[f32; D]], e: i32) -> (Vec<u8>, Vec<[f32; D]>) {
    let words = || values.as_flattened().iter().map(|x| filters::to_exponential(f64::from(*x), e));
    let bytes = words().flat_map(i32::to_le_bytes).collect();
    let read: Vec<f32> = words().map(filters::from_exponential).collect();
    (bytes, read.as_chunks::<D>().0.to_vec())
}

fn largest<const D: usize>(values: &[[f32; D]]) -> f64 {
    values.as_flattened().iter().fold(0.0, |most: f64, x| most.max(f64::from(x.abs())))
}

fn signed(x: f32) -> i8 {
    (x.clamp(-1.0, 1.0) * 127.0).round() as i8
}

impl Builder {
    /// Whether a small file is written, and whether it is compressed.
    fn compact(&self) -> Option<bool> {
        self.compact.as_ref().map(|choice| choice.packing != Packing::Plain)
    }

    /// POSITION, and displacements of morph targets.
    pub fn positions(&mut self, values: &[[f32; 3]]) -> Index<Accessor> {
        let step = self.compact.as_ref().and_then(|choice| choice.positions);
        let Some(e) = step else { return self.floats(values, Purpose::Position) };
        let (bytes, read) = exponential(values, filters::exponent_for(largest(values), e));
        let elements = Elements { bytes, size: 12, component: ComponentType::F32, kind: Type::Vec3, normalized: false };
        self.push_coded(elements, Coding::filtered(12, Filter::Exponential), true, Some(bounds(&read)))
    }

    /// NORMAL.
    pub fn normals(&mut self, values: &[[f32; 3]]) -> Index<Accessor> {
        let Some(compressed) = self.compact() else { return self.floats(values, Purpose::Vertex) };
        let coded = |&[x, y, z]: &[f32; 3]| match compressed {
            true => filters::encode_octahedral([x, y, z], 0, NORMAL_BITS),
            false => [signed(x), signed(y), signed(z), 0],
        };
        let bytes = values.iter().flat_map(coded).map(|b| b as u8).collect();
        self.require("KHR_mesh_quantization");
        let elements = Elements { bytes, size: 4, component: ComponentType::I8, kind: Type::Vec3, normalized: true };
        self.push_coded(elements, Coding::filtered(4, Filter::Octahedral), true, None)
    }

    /// TANGENT.
    pub fn tangents(&mut self, values: &[[f32; 4]]) -> Index<Accessor> {
        let Some(compressed) = self.compact() else { return self.floats(values, Purpose::Vertex) };
        let coded = |&[x, y, z, w]: &[f32; 4]| match compressed {
            true => filters::encode_octahedral([x, y, z], signed(w), NORMAL_BITS),
            false => [signed(x), signed(y), signed(z), signed(w)],
        };
        let bytes = values.iter().flat_map(coded).map(|b| b as u8).collect();
        self.require("KHR_mesh_quantization");
        let elements = Elements { bytes, size: 4, component: ComponentType::I8, kind: Type::Vec4, normalized: true };
        self.push_coded(elements, Coding::filtered(4, Filter::Octahedral), true, None)
    }

    /// TEXCOORD.
    pub fn uvs(&mut self, values: &[[f32; 2]]) -> Index<Accessor> {
        let inside = || values.as_flattened().iter().all(|x| (0.0..=1.0).contains(x));
        match self.compact() {
            Some(true) => {
                let (bytes, _) = exponential(values, filters::exponent_for(largest(values), UV_EXPONENT));
                let elements =
                    Elements { bytes, size: 8, component: ComponentType::F32, kind: Type::Vec2, normalized: false };
                self.push_coded(elements, Coding::filtered(8, Filter::Exponential), true, None)
            }
            Some(false) if inside() => {
                let shorts = values.as_flattened().iter().map(|x| (x * 65535.0).round() as u16);
                let bytes = shorts.flat_map(u16::to_le_bytes).collect();
                let elements =
                    Elements { bytes, size: 4, component: ComponentType::U16, kind: Type::Vec2, normalized: true };
                self.push_coded(elements, None, true, None)
            }
            _ => self.floats(values, Purpose::Vertex),
        }
    }

    /// COLOR.
    pub fn colors(&mut self, values: &[[f32; 4]]) -> Index<Accessor> {
        let inside = values.as_flattened().iter().all(|x| (0.0..=1.0).contains(x));
        if self.compact.is_none() || !inside {
            return self.floats(values, Purpose::Vertex);
        }
        let bytes = values.as_flattened().iter().map(|x| (x * 255.0).round() as u8).collect();
        let elements = Elements { bytes, size: 4, component: ComponentType::U8, kind: Type::Vec4, normalized: true };
        self.push_coded(elements, Coding::elements(4), true, None)
    }

    /// Rows of whole numbers whose sums stand for 1: `one`, or for floats any power of two.
    pub fn weights(&mut self, rows: &[([u32; 4], u32)], one: u32) -> Index<Accessor> {
        let flat = rows.iter().flat_map(|(row, _)| row);
        let (bytes, component, size, filter) = match one {
            BYTES => (flat.map(|w| *w as u8).collect::<Vec<u8>>(), ComponentType::U8, 4, Filter::None),
            SHORTS => (flat.flat_map(|w| (*w as u16).to_le_bytes()).collect(), ComponentType::U16, 8, Filter::None),
            _ => {
                let exponent = |sum: u32| -(sum.ilog2() as i32);
                let word = |w: u32, e: i32| filters::to_exponential(f64::from(w) * 2f64.powi(e), e);
                let words = rows.iter().flat_map(|(row, sum)| row.map(|w| word(w, exponent(*sum))));
                (words.flat_map(i32::to_le_bytes).collect(), ComponentType::F32, 16, Filter::Exponential)
            }
        };
        let normalized = component != ComponentType::F32;
        let elements = Elements { bytes, size, component, kind: Type::Vec4, normalized };
        self.push_coded(elements, Coding::filtered(size, filter), true, None)
    }

    /// Whether a mesh in another order has to name the source's vertices. Without names a reader numbers them as they come, and merges those that
    /// agree in place and influences; the order that it gets is kept for the caller.
    pub fn needs_numbers(&mut self, source: &MeshSource, parts: &[Part]) -> bool {
        let count = source.rest.len();
        let is_split = parts.iter().map(|part| part.vertices.len()).sum::<usize>() > count || parts.len() > 1;
        let own = source.first as u32;
        if self.numbered || (is_split && self.distinct_vertices(source) < count) {
            self.order.extend(own..own + count as u32);
            return true;
        }
        let mut seen = vec![false; count];
        let all = parts.iter().flat_map(|part| &part.vertices).map(|v| v.vertex);
        self.order.extend(all.filter(|&v| !std::mem::replace(&mut seen[v as usize], true)).map(|v| own + v));
        false
    }

    /// Vertices that a reader can tell apart.
    fn distinct_vertices(&self, source: &MeshSource) -> usize {
        let Some(choice) = &self.compact else { return source.rest.len() };
        let key = |i: usize| {
            let p = source.rest[i] + Vec3::ZERO;
            let p = choice.positions.map_or(p, |e| rounded(p, e)).to_array().map(f32::to_bits);
            let mut row: Vec<(usize, u64)> = match source.weights {
                Some((weights, _)) => {
                    let WholeRow { steps, sum } = &choice.weights[source.first + i];
                    let shares = steps.iter().map(|w| (f64::from(*w) / f64::from(*sum)).to_bits());
                    weights.of(i).map(|(j, _)| j).zip(shares).collect()
                }
                None => Vec::new(),
            };
            row.retain(|(_, w)| *w > 0);
            row.sort_unstable();
            (p, row)
        };
        (0..source.rest.len()).map(key).collect::<HashSet<_>>().len()
    }

    /// Names an extension that readers must know.
    fn require(&mut self, name: &str) {
        for list in [&mut self.root.extensions_used, &mut self.root.extensions_required] {
            if !list.iter().any(|known| known == name) {
                list.push(name.to_owned());
            }
        }
    }

    /// [views] the attribute that a view holds.
    fn attributes_of_views(&self) -> Vec<Option<Semantic>> {
        let mut of_view = vec![None; self.root.buffer_views.len()];
        let attributes = self.root.meshes.iter().flat_map(|mesh| &mesh.primitives).flat_map(|own| &own.attributes);
        for (semantic, accessor) in attributes {
            let view = self.root.accessors[accessor.value()].buffer_view;
            if let (Checked::Valid(semantic), Some(view)) = (semantic, view) {
                of_view[view.value()] = Some(semantic.clone());
            }
        }
        of_view
    }

    /// Puts an attribute of all primitives into one view: a view has a description and a tail of its own.
    fn merge_views(&mut self) {
        let attributes = self.attributes_of_views();
        let mut kept: Vec<Option<Semantic>> = Vec::new();
        let old = std::mem::take(&mut self.root.buffer_views);
        let (codings, bin) = (std::mem::take(&mut self.codings), std::mem::take(&mut self.bin.bytes));
        let mut contents: Vec<Vec<u8>> = Vec::new();
        // [old views] new view and first byte in it.
        let mut places: Vec<(usize, usize)> = Vec::with_capacity(old.len());
        for ((view, coding), attribute) in old.into_iter().zip(codings).zip(attributes) {
            let start = view.byte_offset.unwrap_or_default().0 as usize;
            let raw = &bin[start..start + view.byte_length.0 as usize];
            let is_alike = |at: &usize| {
                attribute.is_some()
                    && kept[*at] == attribute
                    && coding.is_some()
                    && self.codings[*at] == coding
                    && self.root.buffer_views[*at].byte_stride == view.byte_stride
            };
            let known = (0..contents.len()).find(is_alike);
            let at = known.unwrap_or(contents.len());
            if known.is_none() {
                contents.push(Vec::new());
                kept.push(attribute);
                self.root.buffer_views.push(view);
                self.codings.push(coding);
            }
            places.push((at, contents[at].len()));
            contents[at].extend_from_slice(raw);
        }
        for (view, content) in self.root.buffer_views.iter_mut().zip(&contents) {
            view.byte_offset = Some(USize64(self.bin.align()));
            view.byte_length = USize64::from(content.len());
            self.bin.extend(content);
        }
        let moved = |view: &mut Option<Index<View>>| {
            let (at, start) = places[view.as_ref()?.value()];
            *view = Some(Index::new(at as u32));
            (start > 0).then_some(start as u64)
        };
        for accessor in &mut self.root.accessors {
            if let Some(start) = moved(&mut accessor.buffer_view) {
                accessor.byte_offset = Some(USize64(start + accessor.byte_offset.unwrap_or_default().0));
            }
        }
        self.root.images.iter_mut().for_each(|image| {
            moved(&mut image.buffer_view);
        });
    }

    /// Compresses all views that have a coding: they are decoded into a second buffer, which is in no file.
    pub fn compress(&mut self, packing: Packing) {
        let Some(version) = packing.version() else { return };
        self.merge_views();
        let mut bin = Vec::new();
        let mut decoded = 0u64;
        for (index, view) in self.root.buffer_views.iter_mut().enumerate() {
            let start = view.byte_offset.unwrap_or_default().0 as usize;
            let raw = &self.bin.bytes[start..start + view.byte_length.0 as usize];
            bin.resize(bin.len().next_multiple_of(4), 0);
            let coding = self.codings.get(index).copied().flatten();
            let Some((coding, coded)) = coding
                .map(|coding| (coding, coding.encode(raw, version)))
                .filter(|(c, coded)| c.filter != Filter::None || coded.len() < raw.len())
            else {
                view.byte_offset = Some(USize64::from(bin.len()));
                bin.extend_from_slice(raw);
                continue;
            };
            let mut content = json!({
                "buffer": 0,
                "byteOffset": bin.len(),
                "byteLength": coded.len(),
                "byteStride": coding.stride,
                "mode": coding.mode.name(),
                "count": raw.len() / coding.stride,
            });
            if coding.filter != Filter::None {
                content["filter"] = json!(coding.filter.name());
            }
            bin.extend_from_slice(&coded);
            *view = View {
                buffer: Index::new(1),
                byte_offset: Some(USize64(decoded)),
                extensions: Some(Default::default()),
                ..view.clone()
            };
            if let Some(extensions) = &mut view.extensions {
                extensions.others.insert(extension(packing).to_owned(), content);
            }
            decoded = (decoded + view.byte_length.0).next_multiple_of(4);
        }
        self.bin.bytes = bin;
        if decoded > 0 {
            self.placeholder = Some(decoded);
            self.require(extension(packing));
        }
    }
}

/// Accessors of JOINTS_n and WEIGHTS_n.
pub fn write_influences(
    builder: &mut Builder,
    weights: &SparseWeights,
    bones: usize,
    vertices: &[SplitVertex],
    first: usize,
) -> Vec<(Index<Accessor>, Index<Accessor>)> {
    let Some(choice) = &builder.compact else { return Vec::new() };
    let (whole, one) = (&choice.weights[first..], choice.weight_one);
    let sets = weights.max_influences().div_ceil(4).max(1);
    let mut placer = Placer::new(weights.max_influences());
    let mut row = |v: &SplitVertex| {
        let WholeRow { steps, sum } = &whole[v.vertex as usize];
        let own = weights.of(v.vertex as usize).map(|(j, _)| j as u16).zip(steps.iter().copied());
        (placer.place(&own.collect::<Vec<(u16, u32)>>()), *sum)
    };
    let rows: Vec<(Placed, u32)> = vertices.iter().map(&mut row).collect();
    (0..sets)
        .map(|set| {
            let slots = [4 * set, 4 * set + 1, 4 * set + 2, 4 * set + 3];
            let joints: Vec<[u16; 4]> = rows.iter().map(|(row, _)| slots.map(|k| row[k].0)).collect();
            let values: Vec<([u32; 4], u32)> = rows.iter().map(|(row, sum)| (slots.map(|k| row[k].1), *sum)).collect();
            let joints = if bones <= 1 << 8 {
                builder.bytes4(&joints.iter().map(|row| row.map(|j| j as u8)).collect::<Vec<_>>())
            } else {
                builder.shorts(&joints)
            };
            (joints, builder.weights(&values, one))
        })
        .collect()
}

/// Values of curves, one array for each type.
#[derive(Default)]
struct Arrays {
    /// [types] bytes of the elements so far.
    bytes: [Vec<u8>; 5],
}

impl Arrays {
    /// Type and first byte.
    fn add(&mut self, values: &Stored) -> (usize, usize) {
        let (kind, bytes): (usize, Vec<u8>) = match values {
            Stored::Filtered(q) => (0, q.as_flattened().iter().flat_map(|x| x.to_le_bytes()).collect()),
            Stored::Exponential(v) => (1, v.as_flattened().iter().flat_map(|x| x.to_le_bytes()).collect()),
            Stored::Shorts(q) => (2, q.as_flattened().iter().flat_map(|x| x.to_le_bytes()).collect()),
            Stored::Bytes(q) => (3, q.as_flattened().iter().map(|x| *x as u8).collect()),
            Stored::Floats(v) => (4, v.as_flattened().iter().flat_map(|x| x.to_le_bytes()).collect()),
        };
        let start = self.bytes[kind].len();
        self.bytes[kind].extend(bytes);
        (kind, start)
    }
}

/// Writes the channels of a clip. `node` finds the node of a bone, outer or joint.
pub fn write_clip(
    builder: &mut Builder,
    animation: &mut AnimationBuilder,
    clip: usize,
    node: impl Fn(usize, bool) -> Option<Index<Node>>,
) {
    let Some(choice) = &builder.compact else { return };
    let curves: Vec<Curve> = choice.curves.clips.get(clip).cloned().unwrap_or_default();
    let mut arrays = Arrays::default();
    let places: Vec<(usize, usize)> = curves.iter().map(|curve| arrays.add(&curve.values)).collect();
    let codings = [
        Coding::filtered(8, Filter::Quaternion),
        Coding::filtered(12, Filter::Exponential),
        Coding::elements(8),
        Coding::elements(4),
        Coding::elements(12),
    ];
    let views: Vec<Option<Index<View>>> = (arrays.bytes.iter().zip(codings))
        .map(|(bytes, coding)| (!bytes.is_empty()).then(|| builder.coded_view(bytes, None, None, coding)))
        .collect();
    animation.share_times(builder, curves.iter().map(|curve| curve.keys.as_slice()));
    for (curve, (kind, start)) in curves.iter().zip(places) {
        let (Some(view), Some(node)) = (views[kind], node(curve.bone, curve.outer)) else { continue };
        let (size, component, kind) = match kind {
            0 | 2 => (8, ComponentType::I16, Type::Vec4),
            3 => (4, ComponentType::I8, Type::Vec4),
            _ => (12, ComponentType::F32, Type::Vec3),
        };
        let normalized = component != ComponentType::F32;
        let elements = Elements { bytes: vec![0; size * curve.keys.len()], size, component, kind, normalized };
        let output = builder.accessor(view, start, &elements, None);
        let path = match curve.kind {
            Kind::Translation => Property::Translation,
            Kind::Rotation => Property::Rotation,
            Kind::Scale => Property::Scale,
        };
        animation.keyed(builder, node, path, &curve.keys, output);
    }
}
