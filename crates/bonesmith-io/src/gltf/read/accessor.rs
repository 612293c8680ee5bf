//! Numbers out of buffers: the one place where offsets from a file touch memory. Every bound is checked.

use gltf_json::accessor::{ComponentType, Type};
use gltf_json::validation::Checked;
use gltf_json::{Accessor, Index, buffer};

use super::document::Document;
use crate::IoError;

/// Where the elements of an accessor are.
struct Layout<'a> {
    count: usize,
    components: usize,
    component: ComponentType,
    normalized: bool,
    /// Elements `stride` bytes apart; `None` when all are zero.
    base: Option<(&'a [u8], usize)>,
    /// Elements that replace those of the base.
    sparse: Vec<(usize, &'a [u8])>,
}

impl Document {
    /// Elements of D components as floats, normalised where the file says so. `what` is for messages.
    pub fn floats<const D: usize>(&self, index: Index<Accessor>, what: &str) -> Result<Vec<[f32; D]>, IoError> {
        let layout = self.layout(index, what)?;
        self.expect_components(&layout, D, index, what)?;
        let (component, normalized) = (layout.component, layout.normalized);
        Ok(decode(&layout, 0.0, |bytes| to_float(bytes, component, normalized)))
    }

    /// Elements of D components as unsigned integers.
    pub fn integers<const D: usize>(&self, index: Index<Accessor>, what: &str) -> Result<Vec<[u32; D]>, IoError> {
        let layout = self.layout(index, what)?;
        self.expect_components(&layout, D, index, what)?;
        let read: fn(&[u8]) -> u32 = match layout.component {
            ComponentType::U8 => |b| u32::from(b[0]),
            ComponentType::U16 => |b| u32::from(u16::from_le_bytes([b[0], b[1]])),
            ComponentType::U32 => |b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]),
            other => return Err(self.malformed(format!("{what} (accessor {index}) is {other:?}, not unsigned"))),
        };
        Ok(decode(&layout, 0, read))
    }

    /// Components per element.
    pub fn components(&self, index: Index<Accessor>, what: &str) -> Result<usize, IoError> {
        let accessor = self.accessor(index, what)?;
        match accessor.type_ {
            Checked::Valid(kind) => Ok(kind.multiplicity()),
            Checked::Invalid => Err(self.malformed(format!("{what}: accessor {index} has an unknown type"))),
        }
    }

    /// Bytes of a buffer view.
    pub fn view_bytes(&self, index: Index<buffer::View>) -> Result<&[u8], IoError> {
        if let Some(decoded) = self.decoded(index.value()) {
            return Ok(decoded);
        }
        let lost = || self.malformed(format!("buffer view {index} does not exist or ends outside its buffer"));
        let view = self.root.buffer_views.get(index.value()).ok_or_else(lost)?;
        let start = usize::try_from(view.byte_offset.unwrap_or_default().0).map_err(|_| lost())?;
        let length = usize::try_from(view.byte_length.0).map_err(|_| lost())?;
        let end = start.checked_add(length).ok_or_else(lost)?;
        self.buffer(view.buffer.value()).and_then(|bytes| bytes.get(start..end)).ok_or_else(lost)
    }

    fn accessor(&self, index: Index<Accessor>, what: &str) -> Result<&Accessor, IoError> {
        let lost = || self.malformed(format!("{what}: accessor {index} does not exist"));
        self.root.accessors.get(index.value()).ok_or_else(lost)
    }

    fn expect_components(&self, layout: &Layout, d: usize, index: Index<Accessor>, what: &str) -> Result<(), IoError> {
        if layout.components == d {
            return Ok(());
        }
        let found = layout.components;
        Err(self.malformed(format!("{what} (accessor {index}) has {found} components, {d} expected")))
    }

    fn layout(&self, index: Index<Accessor>, what: &str) -> Result<Layout<'_>, IoError> {
        let accessor = self.accessor(index, what)?;
        let broken = |why: &str| self.malformed(format!("{what} (accessor {index}): {why}"));
        let (Checked::Valid(kind), Checked::Valid(component)) = (accessor.type_, accessor.component_type) else {
            return Err(broken("unknown type"));
        };
        let (components, component) = (Type::multiplicity(&kind), component.0);
        let size = components * component.size();
        let count = usize::try_from(accessor.count.0).unwrap_or(usize::MAX);
        // Zero elements cost no bytes in the file; do not let a small file ask for more than it could fill.
        if count > self.buffer_bytes() {
            return Err(broken(&format!("{count} elements are more than the file's bytes")));
        }
        let base = match accessor.buffer_view {
            Some(view) => {
                let bytes = self.view_bytes(view)?;
                let stride = self.root.buffer_views[view.value()].byte_stride.map_or(size, |s| s.0);
                let offset = usize::try_from(accessor.byte_offset.unwrap_or_default().0).unwrap_or(usize::MAX);
                let bytes = bytes.get(offset..).filter(|bytes| fits(bytes.len(), count, stride, size));
                Some((bytes.ok_or_else(|| broken(&format!("{count} elements do not fit its buffer view")))?, stride))
            }
            None => None,
        };
        let sparse = self.sparse(accessor, size, count).map_err(|why| broken(&why))?;
        Ok(Layout { count, components, component, normalized: accessor.normalized, base, sparse })
    }

    fn sparse(&self, accessor: &Accessor, size: usize, count: usize) -> Result<Vec<(usize, &[u8])>, String> {
        let Some(sparse) = &accessor.sparse else { return Ok(Vec::new()) };
        let Checked::Valid(index_type) = sparse.indices.component_type else {
            return Err("unknown type of sparse indices".into());
        };
        let entries = usize::try_from(sparse.count.0).unwrap_or(usize::MAX);
        let tail = |view, offset: u64, size: usize| {
            let bytes = self.view_bytes(view).map_err(|e| e.to_string())?;
            let bytes = usize::try_from(offset).ok().and_then(|offset| bytes.get(offset..));
            let bytes = bytes.filter(|bytes| fits(bytes.len(), entries, size, size));
            bytes.ok_or_else(|| format!("{entries} sparse entries do not fit their buffer view"))
        };
        let index_size = index_type.0.size();
        let indices = tail(sparse.indices.buffer_view, sparse.indices.byte_offset.0, index_size)?;
        let values = tail(sparse.values.buffer_view, sparse.values.byte_offset.0, size)?;
        (0..entries)
            .map(|e| {
                let bytes = &indices[e * index_size..(e + 1) * index_size];
                let index = bytes.iter().rev().fold(0usize, |sum, byte| sum << 8 | usize::from(*byte));
                if index >= count {
                    return Err(format!("sparse entry {e} names element {index} of {count}"));
                }
                Ok((index, &values[e * size..(e + 1) * size]))
            })
            .collect()
    }
}

/// Whether `count` elements of `size` bytes, `stride` apart, lie within `bytes`.
fn fits(bytes: usize, count: usize, stride: usize, size: usize) -> bool {
    if count == 0 {
        return true;
    }
    let last = (count - 1).checked_mul(stride).and_then(|start| start.checked_add(size));
    stride >= size && last.is_some_and(|end| end <= bytes)
}

fn decode<T: Copy, const D: usize>(layout: &Layout, zero: T, read: impl Fn(&[u8]) -> T) -> Vec<[T; D]> {
    let width = layout.component.size();
    let element = |bytes: &[u8]| std::array::from_fn(|c| read(&bytes[c * width..(c + 1) * width]));
    let mut out: Vec<[T; D]> = match layout.base {
        Some((bytes, stride)) => (0..layout.count).map(|e| element(&bytes[e * stride..])).collect(),
        None => vec![[zero; D]; layout.count],
    };
    for (e, bytes) in &layout.sparse {
        out[*e] = element(bytes);
    }
    out
}

/// One component, normalised as the specification says (3.6.2.2).
fn to_float(b: &[u8], component: ComponentType, normalized: bool) -> f32 {
    let (value, scale) = match component {
        ComponentType::I8 => (f32::from(b[0] as i8), 127.0),
        ComponentType::U8 => (f32::from(b[0]), 255.0),
        ComponentType::I16 => (f32::from(i16::from_le_bytes([b[0], b[1]])), 32767.0),
        ComponentType::U16 => (f32::from(u16::from_le_bytes([b[0], b[1]])), 65535.0),
        ComponentType::U32 => (u32::from_le_bytes([b[0], b[1], b[2], b[3]]) as f32, u32::MAX as f32),
        ComponentType::F32 => return f32::from_le_bytes([b[0], b[1], b[2], b[3]]),
    };
    if normalized { (value / scale).max(-1.0) } else { value }
}
