//! The file as a whole: JSON and buffers, nothing interpreted yet.

use std::io::Read;
use std::path::{Path, PathBuf};

use base64::Engine;
use gltf_json::Root;
use serde_json::Value;

use super::{compressed, draco};
use crate::gltf::container;
use crate::{IoError, warning};

/// Extensions that a file may require: those that are read, and those that do not change where vertices are.
const HARMLESS: [&str; 9] = [
    draco::EXTENSION,
    "EXT_meshopt_compression",
    "KHR_meshopt_compression",
    "KHR_mesh_quantization",
    "KHR_texture_transform",
    "KHR_texture_basisu",
    "KHR_lights_punctual",
    "EXT_texture_webp",
    "EXT_texture_avif",
];

/// Advice for files of the first version.
pub const VERSION_1: &str = "it is glTF 1.0, which is not read: convert it to 2.0, for example by \
     `npx gltf-pipeline -i old.gltf -o new.gltf`";

/// A file with its buffers in memory.
pub struct Document {
    path: PathBuf,
    /// The JSON.
    pub root: Root,
    /// [buffers].
    buffers: Vec<Vec<u8>>,
    /// [views] bytes of compressed ones.
    decoded: Vec<Option<Vec<u8>>>,
}

/// What bytes are that are no JSON, as far as their first bytes show it.
fn what_it_is(bytes: &[u8]) -> &'static str {
    match bytes {
        [0x89, b'P', b'N', b'G', ..] => "is a PNG picture, not a glTF file",
        [0xff, 0xd8, 0xff, ..] => "is a JPEG picture, not a glTF file",
        [b'P', b'K', 3, 4, ..] => "is a zip archive, not a glTF file",
        _ => "is not a glTF file, or its JSON is broken",
    }
}

/// The JSON. What makes it another than `gltf_json` knows is looked for only where that fails.
fn parse(path: &Path, json: &[u8]) -> Result<Root, IoError> {
    let broken = |e: serde_json::Error| IoError::malformed(path, format!("{}: {e}", what_it_is(json)));
    let error = match serde_json::from_slice(json) {
        Ok(root) => return Ok(root),
        Err(error) => error,
    };
    let Ok(mut value) = serde_json::from_slice::<Value>(json) else { return Err(broken(error)) };
    let version = value["asset"]["version"].as_str();
    if version.is_some_and(|version| version.starts_with("1.")) || value["meshes"].is_object() {
        return Err(IoError::unsupported(path, VERSION_1));
    }
    let without_node = drop_channels_without_node(&mut value);
    if without_node == 0 {
        return Err(broken(error));
    }
    let channels = if without_node == 1 { "1 channel".to_owned() } else { format!("{without_node} channels") };
    warning::left_out(path, format!("{channels} of its animations that move no node (KHR_animation_pointer)"));
    serde_json::from_value(value).map_err(broken)
}

/// Channels may animate anything by extensions; those name no node. Returns how many there were.
fn drop_channels_without_node(json: &mut Value) -> usize {
    let mut dropped = 0;
    let animations = json["animations"].as_array_mut().into_iter().flatten();
    for channels in animations.filter_map(|animation| animation["channels"].as_array_mut()) {
        let before = channels.len();
        channels.retain(|channel| channel["target"]["node"].is_number());
        dropped += before - channels.len();
    }
    dropped
}

impl Document {
    /// Reads the file and everything it refers to for geometry.
    pub fn open(path: &Path) -> Result<Self, IoError> {
        let bytes = crate::opens::read(path).map_err(|source| IoError::Os { path: path.to_owned(), source })?;
        crate::opens::count();
        let malformed = |what: String| IoError::Malformed { path: path.to_owned(), what };
        if bytes.is_empty() {
            return Err(malformed("the file is empty".into()));
        }
        let (json, bin) = if container::is_glb(&bytes) {
            if bytes.get(4..8) == Some(&1u32.to_le_bytes()) {
                return Err(IoError::unsupported(path, VERSION_1));
            }
            let unpacked = container::unpack(&bytes).map_err(malformed)?;
            (unpacked.json, unpacked.bin)
        } else {
            (&bytes[..], None)
        };
        let root = parse(path, json)?;
        let mut document = Self { path: path.to_owned(), root, buffers: Vec::new(), decoded: Vec::new() };
        document.check_extensions()?;
        for index in 0..document.root.buffers.len() {
            let buffer = document.read_buffer(index, bin)?;
            document.buffers.push(buffer);
        }
        document.decoded = document.decode_views()?;
        document.decode_primitives()?;
        Ok(document)
    }

    /// The file's name without folder and extension.
    pub fn stem(&self) -> String {
        self.path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// An error about this file's content.
    pub fn malformed(&self, what: impl Into<String>) -> IoError {
        IoError::Malformed { path: self.path.clone(), what: what.into() }
    }

    /// An error about something sound that we do not read.
    pub fn unsupported(&self, what: impl Into<String>) -> IoError {
        IoError::Unsupported { path: self.path.clone(), what: what.into() }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes of a buffer; `None` if it does not exist.
    pub fn buffer(&self, index: usize) -> Option<&[u8]> {
        self.buffers.get(index).map(Vec::as_slice)
    }

    /// Bytes of a compressed view.
    pub fn decoded(&self, view: usize) -> Option<&[u8]> {
        self.decoded.get(view)?.as_deref()
    }

    /// Adds the bytes of a view that the file does not have: the last one of the JSON.
    pub fn push_decoded(&mut self, bytes: Vec<u8>) {
        self.decoded.push(Some(bytes));
    }

    /// Bytes of all buffers: no sound file has more elements in anything than this.
    pub fn buffer_bytes(&self) -> usize {
        self.buffers.iter().chain(self.decoded.iter().flatten()).map(Vec::len).sum()
    }

    /// Bytes behind a URI, whether inline or in a file beside this one.
    pub fn resolve(&self, uri: &str, limit: usize) -> Result<Vec<u8>, IoError> {
        if let Some(inline) = uri.strip_prefix("data:") {
            let (kind, data) = inline.split_once(',').ok_or_else(|| self.malformed("a data URI without a comma"))?;
            if !kind.ends_with(";base64") {
                return Ok(percent_decode(data));
            }
            let decoded = base64::engine::general_purpose::STANDARD.decode(data);
            return decoded.map_err(|e| self.malformed(format!("a data URI is not base64: {e}")));
        }
        let name = String::from_utf8_lossy(&percent_decode(uri)).into_owned();
        let relative = Path::new(&name);
        if uri.contains("://") || relative.is_absolute() {
            return Err(
                self.unsupported(format!("it refers to {name:?}; only files that are named relative to it are read"))
            );
        }
        let path = self.path.parent().unwrap_or(Path::new("")).join(relative);
        let os = |source| IoError::Os { path: path.clone(), source };
        let file = crate::opens::open(&path).map_err(os)?;
        // A device would never end.
        if !file.metadata().map_err(os)?.is_file() {
            return Err(self.malformed(format!("{name:?} is not a plain file")));
        }
        let mut bytes = Vec::new();
        file.take(limit as u64).read_to_end(&mut bytes).map_err(os)?;
        Ok(bytes)
    }

    fn check_extensions(&self) -> Result<(), IoError> {
        let read = |name: &str| HARMLESS.contains(&name) || name.starts_with("KHR_materials_");
        match self.root.extensions_required.iter().find(|name| !read(name)) {
            Some(name) => Err(self.unsupported(format!("it requires the extension {name}, which is not read"))),
            None => Ok(()),
        }
    }

    fn read_buffer(&self, index: usize, bin: Option<&[u8]>) -> Result<Vec<u8>, IoError> {
        let buffer = &self.root.buffers[index];
        let length = usize::try_from(buffer.byte_length.0).unwrap_or(usize::MAX);
        let mut bytes = match (&buffer.uri, bin) {
            (Some(uri), _) => self.resolve(uri, length)?,
            (None, Some(bin)) if index == 0 => bin[..length.min(bin.len())].to_vec(),
            _ if compressed::is_placeholder(&self.root, index) => return Ok(Vec::new()),
            _ => return Err(self.malformed(format!("buffer {index} has no bytes"))),
        };
        if bytes.len() < length {
            let found = bytes.len();
            return Err(self.malformed(format!("buffer {index} is truncated: {length} bytes stated, {found} found")));
        }
        bytes.truncate(length);
        Ok(bytes)
    }
}

/// Undoes %XX; stray percent signs stay.
fn percent_decode(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let hex = |at: usize| bytes.get(at).and_then(|b| char::from(*b).to_digit(16));
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        match (bytes[at], hex(at + 1), hex(at + 2)) {
            (b'%', Some(high), Some(low)) => {
                out.push((16 * high + low) as u8);
                at += 3;
            }
            (byte, ..) => {
                out.push(byte);
                at += 1;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::percent_decode;

    #[test]
    fn percent_signs() {
        assert_eq!(percent_decode("a%20b%c3%A9%"), "a b\u{e9}%".as_bytes());
        assert_eq!(percent_decode("100%zz"), b"100%zz");
    }
}
