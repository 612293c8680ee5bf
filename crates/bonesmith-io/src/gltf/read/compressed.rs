//! Compressed buffer views, decoded when the file is opened: everything after that reads plain bytes.

use gltf_json::Root;
use gltf_json::buffer::View;
use serde::Deserialize;

use super::document::Document;
use crate::IoError;
use crate::gltf::meshopt::{self, Filter, Mode};

/// Most bytes of all decoded views, and of all decoded primitives: a byte of a stream can stand for a thousand.
pub const MAX_BYTES: usize = 1 << 32;

/// What the extension says about a view.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Stream {
    buffer: usize,
    #[serde(default)]
    byte_offset: usize,
    byte_length: usize,
    byte_stride: usize,
    count: usize,
    mode: String,
    #[serde(default)]
    filter: Option<String>,
}

/// The content of the extension, under either of its names.
fn extension(view: &View) -> Option<&serde_json::Value> {
    let others = &view.extensions.as_ref()?.others;
    meshopt::EXTENSIONS.iter().find_map(|name| others.get(*name))
}

/// Whether a buffer holds only what compressed views are decoded to: it has no bytes of its own in the file.
pub fn is_placeholder(root: &Root, buffer: usize) -> bool {
    let mut views = root.buffer_views.iter().filter(|view| view.buffer.value() == buffer).peekable();
    views.peek().is_some() && views.all(|view| extension(view).is_some())
}

impl Document {
    /// [views] the bytes of those that are compressed.
    pub fn decode_views(&self) -> Result<Vec<Option<Vec<u8>>>, IoError> {
        let mut total = 0usize;
        let mut decoded = Vec::with_capacity(self.root.buffer_views.len());
        for (index, view) in self.root.buffer_views.iter().enumerate() {
            let Some(content) = extension(view) else {
                decoded.push(None);
                continue;
            };
            let broken = |why: String| self.malformed(format!("compressed buffer view {index}: {why}"));
            let stream = Stream::deserialize(content).map_err(|e| broken(e.to_string()))?;
            let bytes =
                stream.byte_stride.checked_mul(stream.count).filter(|own| total.saturating_add(*own) <= MAX_BYTES);
            let bytes = bytes.ok_or_else(|| broken(format!("{} elements are too many", stream.count)))?;
            if bytes as u64 != view.byte_length.0 {
                return Err(broken(format!("{bytes} bytes are decoded, {} expected", view.byte_length.0)));
            }
            total += bytes;
            decoded.push(Some(self.decode_view(&stream).map_err(broken)?));
        }
        Ok(decoded)
    }

    fn decode_view(&self, stream: &Stream) -> Result<Vec<u8>, String> {
        let mode = Mode::from_name(&stream.mode).ok_or_else(|| format!("unknown mode {:?}", stream.mode))?;
        let filter = stream.filter.as_deref().unwrap_or("NONE");
        let filter = Filter::from_name(filter).ok_or_else(|| format!("unknown filter {filter:?}"))?;
        let end = stream.byte_offset.checked_add(stream.byte_length);
        let bytes = self.buffer(stream.buffer).zip(end).and_then(|(bytes, end)| bytes.get(stream.byte_offset..end));
        let bytes = bytes.ok_or_else(|| format!("its stream does not lie inside buffer {}", stream.buffer))?;
        meshopt::decode(bytes, stream.count, stream.byte_stride, mode, filter)
    }
}
