//! The growing document: one buffer, and accessors into it.

use gltf_json::accessor::{Accessor, ComponentType, GenericComponentType, Type};
use gltf_json::buffer::{Stride, Target, View};
use gltf_json::validation::{Checked, USize64};
use gltf_json::{Index, Root, Value};

use super::blob::Blob;
use super::compact::Coding;
use crate::compact::{Choice, Packing};

/// A document under construction.
pub struct Builder {
    /// Everything but the bytes.
    pub root: Root,
    /// The one buffer.
    pub bin: Blob,
    /// What a small file leaves out; `None`: nothing.
    pub compact: Option<Choice>,
    /// Whether faces and vertices are written in an order that is short to compress.
    pub reordered: bool,
    /// Whether files of meshes in another order name the source's vertices.
    pub numbered: bool,
    /// Whether free bones have parents in the file.
    pub linked: bool,
    /// [B] the source's bone of each joint, where they are in another order.
    pub joint_bones: Option<Vec<usize>>,
    /// The source's vertex of each vertex of the file, of all meshes that do not name them.
    pub order: Vec<u32>,
    /// [views] how each is compressed, where the file is.
    pub codings: Vec<Option<Coding>>,
    /// Length of the buffer that compressed views are decoded into.
    pub placeholder: Option<u64>,
}

/// What an accessor is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// A vertex attribute.
    Vertex,
    /// A vertex attribute that must state its bounds: POSITION.
    Position,
    /// Anything else: key values, matrices.
    Plain,
}

/// Elements of one accessor, little-endian.
pub struct Elements {
    pub bytes: Vec<u8>,
    /// Bytes of one element.
    pub size: usize,
    pub component: ComponentType,
    pub kind: Type,
    /// Whether whole numbers stand for 0 to 1, or -1 to 1.
    pub normalized: bool,
}

impl Builder {
    /// Nothing in it but the generator's name.
    pub fn new() -> Self {
        let asset = gltf_json::Asset {
            generator: Some(format!("Bonesmith {}", env!("CARGO_PKG_VERSION"))),
            ..gltf_json::Asset::default()
        };
        Self {
            root: Root { asset, ..Root::default() },
            bin: Blob::default(),
            compact: None,
            reordered: false,
            numbered: true,
            linked: false,
            joint_bones: None,
            order: Vec::new(),
            codings: Vec::new(),
            placeholder: None,
        }
    }

    /// Appends bytes, aligned to 4.
    pub fn view(&mut self, bytes: &[u8], stride: Option<usize>, target: Option<Target>) -> Index<View> {
        self.coded_view(bytes, stride, target, None)
    }

    /// As [`Builder::view`], compressed in a compressed file.
    pub fn coded_view(
        &mut self,
        bytes: &[u8],
        stride: Option<usize>,
        target: Option<Target>,
        coding: Option<Coding>,
    ) -> Index<View> {
        self.codings.push(coding);
        let offset = self.bin.align();
        self.bin.extend(bytes);
        self.root.push(View {
            // The only buffer; it is pushed when the document is finished and its length known.
            buffer: Index::new(0),
            byte_length: USize64::from(bytes.len()),
            byte_offset: Some(USize64(offset)),
            byte_stride: stride.map(Stride),
            name: None,
            target: target.map(Checked::Valid),
            extensions: None,
            extras: None,
        })
    }

    /// Float elements of 1, 2, 3, 4 or 16 components.
    pub fn floats<const D: usize>(&mut self, values: &[[f32; D]], purpose: Purpose) -> Index<Accessor> {
        let bytes = values.as_flattened().iter().flat_map(|x| x.to_le_bytes()).collect();
        let elements =
            Elements { bytes, size: 4 * D, component: ComponentType::F32, kind: kind_of(D), normalized: false };
        let bounds = (purpose == Purpose::Position).then(|| bounds(values));
        self.push(elements, purpose, bounds)
    }

    /// A vertex attribute of bytes.
    pub fn bytes4(&mut self, values: &[[u8; 4]]) -> Index<Accessor> {
        let bytes = values.as_flattened().to_vec();
        self.push(
            Elements { bytes, size: 4, component: ComponentType::U8, kind: Type::Vec4, normalized: false },
            Purpose::Vertex,
            None,
        )
    }

    /// A vertex attribute of 2 or 4 unsigned shorts.
    pub fn shorts<const D: usize>(&mut self, values: &[[u16; D]]) -> Index<Accessor> {
        let bytes = values.as_flattened().iter().flat_map(|x| x.to_le_bytes()).collect();
        let elements =
            Elements { bytes, size: 2 * D, component: ComponentType::U16, kind: kind_of(D), normalized: false };
        self.push(elements, Purpose::Vertex, None)
    }

    /// Unsigned shorts that are no vertex attribute.
    pub fn scalars(&mut self, values: &[u16]) -> Index<Accessor> {
        let bytes = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        self.push(
            Elements { bytes, size: 2, component: ComponentType::U16, kind: Type::Scalar, normalized: false },
            Purpose::Plain,
            None,
        )
    }

    /// Unsigned integers that are no vertex attribute.
    pub fn integers(&mut self, values: &[u32]) -> Index<Accessor> {
        let bytes = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        self.push(
            Elements { bytes, size: 4, component: ComponentType::U32, kind: Type::Scalar, normalized: false },
            Purpose::Plain,
            None,
        )
    }

    /// Indices below `vertices`, in the smallest type that is good for GPUs.
    pub fn indices(&mut self, indices: &[u32], vertices: usize) -> Index<Accessor> {
        // 255 and 65535 themselves are reserved for restarting strips; compressed indices have at least 16 bits.
        let compressed = self.compact.as_ref().is_some_and(|choice| choice.packing != Packing::Plain);
        let elements = if vertices < usize::from(u8::MAX) && !compressed {
            let bytes = indices.iter().map(|&i| i as u8).collect();
            Elements { bytes, size: 1, component: ComponentType::U8, kind: Type::Scalar, normalized: false }
        } else if vertices < usize::from(u16::MAX) {
            let bytes = indices.iter().flat_map(|&i| (i as u16).to_le_bytes()).collect();
            Elements { bytes, size: 2, component: ComponentType::U16, kind: Type::Scalar, normalized: false }
        } else {
            let bytes = indices.iter().flat_map(|i| i.to_le_bytes()).collect();
            Elements { bytes, size: 4, component: ComponentType::U32, kind: Type::Scalar, normalized: false }
        };
        let coding = Coding::triangles(elements.size);
        let view = self.coded_view(&elements.bytes, None, Some(Target::ElementArrayBuffer), coding);
        self.accessor(view, 0, &elements, None)
    }

    fn push(&mut self, elements: Elements, purpose: Purpose, bounds: Option<(Value, Value)>) -> Index<Accessor> {
        let vertex = matches!(purpose, Purpose::Vertex | Purpose::Position);
        let coding = Coding::elements(elements.size);
        self.push_coded(elements, coding, vertex, bounds)
    }

    /// Elements in a view of their own.
    pub fn push_coded(
        &mut self,
        elements: Elements,
        coding: Option<Coding>,
        vertex: bool,
        bounds: Option<(Value, Value)>,
    ) -> Index<Accessor> {
        let target = vertex.then_some(Target::ArrayBuffer);
        let view = self.coded_view(&elements.bytes, vertex.then_some(elements.size), target, coding);
        self.accessor(view, 0, &elements, bounds)
    }

    /// Elements from byte `offset` of a view on.
    pub fn accessor(
        &mut self,
        view: Index<View>,
        offset: usize,
        elements: &Elements,
        bounds: Option<(Value, Value)>,
    ) -> Index<Accessor> {
        let (min, max) = bounds.unzip();
        self.root.push(Accessor {
            buffer_view: Some(view),
            byte_offset: (offset > 0).then(|| USize64::from(offset)),
            count: USize64::from(elements.bytes.len() / elements.size),
            component_type: Checked::Valid(GenericComponentType(elements.component)),
            extensions: None,
            extras: None,
            type_: Checked::Valid(elements.kind),
            min,
            max,
            name: None,
            normalized: elements.normalized,
            sparse: None,
        })
    }
}

fn kind_of(components: usize) -> Type {
    match components {
        1 => Type::Scalar,
        2 => Type::Vec2,
        3 => Type::Vec3,
        4 => Type::Vec4,
        _ => Type::Mat4,
    }
}

/// Least and largest of each component.
pub fn bounds<const D: usize>(values: &[[f32; D]]) -> (Value, Value) {
    let fold = |pick: fn(f32, f32) -> f32, start: f32| {
        let of = |c: usize| values.iter().map(|v| v[c]).fold(start, pick);
        Value::from((0..D).map(of).collect::<Vec<f32>>())
    };
    (fold(f32::min, f32::INFINITY), fold(f32::max, f32::NEG_INFINITY))
}
