//! The growing document: one buffer, and accessors into it.

use gltf_json::accessor::{Accessor, ComponentType, GenericComponentType, Type};
use gltf_json::buffer::{Stride, Target, View};
use gltf_json::validation::{Checked, USize64};
use gltf_json::{Index, Root, Value};

/// A document under construction.
pub struct Builder {
    /// Everything but the bytes.
    pub root: Root,
    /// The one buffer.
    pub bin: Vec<u8>,
}

/// What an accessor is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// A vertex attribute.
    Vertex,
    /// A vertex attribute that must state its bounds: POSITION.
    Position,
    /// Key times, which must state their bounds.
    Times,
    /// Anything else: key values, matrices.
    Plain,
}

/// Elements of one accessor, little-endian.
struct Elements {
    bytes: Vec<u8>,
    /// Bytes of one element.
    size: usize,
    component: ComponentType,
    kind: Type,
}

impl Builder {
    /// Nothing in it but the generator's name.
    pub fn new() -> Self {
        let asset = gltf_json::Asset {
            generator: Some(format!("Bonesmith {}", env!("CARGO_PKG_VERSION"))),
            ..gltf_json::Asset::default()
        };
        Self { root: Root { asset, ..Root::default() }, bin: Vec::new() }
    }

    /// Appends bytes, aligned to 4.
    pub fn view(&mut self, bytes: &[u8], stride: Option<usize>, target: Option<Target>) -> Index<View> {
        self.bin.resize(self.bin.len().next_multiple_of(4), 0);
        let offset = self.bin.len();
        self.bin.extend_from_slice(bytes);
        self.root.push(View {
            // The only buffer; it is pushed when the document is finished and its length known.
            buffer: Index::new(0),
            byte_length: USize64::from(bytes.len()),
            byte_offset: Some(USize64::from(offset)),
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
        let elements = Elements { bytes, size: 4 * D, component: ComponentType::F32, kind: kind_of(D) };
        let bounds = matches!(purpose, Purpose::Position | Purpose::Times).then(|| bounds(values));
        self.push(elements, purpose, bounds)
    }

    /// A vertex attribute of bytes.
    pub fn bytes4(&mut self, values: &[[u8; 4]]) -> Index<Accessor> {
        let bytes = values.as_flattened().to_vec();
        self.push(Elements { bytes, size: 4, component: ComponentType::U8, kind: Type::Vec4 }, Purpose::Vertex, None)
    }

    /// A vertex attribute of 2 or 4 unsigned shorts.
    pub fn shorts<const D: usize>(&mut self, values: &[[u16; D]]) -> Index<Accessor> {
        let bytes = values.as_flattened().iter().flat_map(|x| x.to_le_bytes()).collect();
        let elements = Elements { bytes, size: 2 * D, component: ComponentType::U16, kind: kind_of(D) };
        self.push(elements, Purpose::Vertex, None)
    }

    /// Unsigned shorts that are no vertex attribute.
    pub fn scalars(&mut self, values: &[u16]) -> Index<Accessor> {
        let bytes = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        self.push(Elements { bytes, size: 2, component: ComponentType::U16, kind: Type::Scalar }, Purpose::Plain, None)
    }

    /// Unsigned integers that are no vertex attribute.
    pub fn integers(&mut self, values: &[u32]) -> Index<Accessor> {
        let bytes = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        self.push(Elements { bytes, size: 4, component: ComponentType::U32, kind: Type::Scalar }, Purpose::Plain, None)
    }

    /// Indices below `vertices`, in the smallest type that is good for GPUs.
    pub fn indices(&mut self, indices: &[u32], vertices: usize) -> Index<Accessor> {
        // 65535 itself is reserved for restarting strips.
        let elements = if vertices < usize::from(u16::MAX) {
            let bytes = indices.iter().flat_map(|&i| (i as u16).to_le_bytes()).collect();
            Elements { bytes, size: 2, component: ComponentType::U16, kind: Type::Scalar }
        } else {
            let bytes = indices.iter().flat_map(|i| i.to_le_bytes()).collect();
            Elements { bytes, size: 4, component: ComponentType::U32, kind: Type::Scalar }
        };
        let view = self.view(&elements.bytes, None, Some(Target::ElementArrayBuffer));
        self.accessor(view, &elements, None)
    }

    fn push(&mut self, elements: Elements, purpose: Purpose, bounds: Option<(Value, Value)>) -> Index<Accessor> {
        let vertex = matches!(purpose, Purpose::Vertex | Purpose::Position);
        let view = self.view(&elements.bytes, vertex.then_some(elements.size), vertex.then_some(Target::ArrayBuffer));
        self.accessor(view, &elements, bounds)
    }

    fn accessor(&mut self, view: Index<View>, elements: &Elements, bounds: Option<(Value, Value)>) -> Index<Accessor> {
        let (min, max) = bounds.unzip();
        self.root.push(Accessor {
            buffer_view: Some(view),
            byte_offset: None,
            count: USize64::from(elements.bytes.len() / elements.size),
            component_type: Checked::Valid(GenericComponentType(elements.component)),
            extensions: None,
            extras: None,
            type_: Checked::Valid(elements.kind),
            min,
            max,
            name: None,
            normalized: false,
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

fn bounds<const D: usize>(values: &[[f32; D]]) -> (Value, Value) {
    let fold = |pick: fn(f32, f32) -> f32, start: f32| {
        let of = |c: usize| values.iter().map(|v| v[c]).fold(start, pick);
        Value::from((0..D).map(of).collect::<Vec<f32>>())
    };
    (fold(f32::min, f32::INFINITY), fold(f32::max, f32::NEG_INFINITY))
}
