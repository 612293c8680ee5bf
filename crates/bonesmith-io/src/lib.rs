//! Files in and out: one module per format, found by content first, then by extension.
//!
//! Readers make unchecked `RawSequence`s or checked `Rig`s; they never compute more than the format asks for.
//! Writers write to a temporary beside the target and rename it.

mod atomic;
mod detect;
mod error;
mod gltf;
mod npz;

use std::path::{Path, PathBuf};

use bonesmith_core::{MeshSequence, RawSequence, Rig};

pub use detect::{Format, detect};
pub use error::IoError;

/// How a file is read.
#[derive(Clone, Debug, Default)]
pub struct LoadOptions {
    /// Frames per second: the rate at which skinned and morph animation is baked, and the clock of files without
    /// times. `None`: the file's own keys or rate where it has one, else 24.
    pub fps: Option<f64>,
    /// Only the mesh of this name, where a file holds several. `None`: all, merged.
    pub mesh: Option<String>,
}

/// What a file turned out to hold.
#[derive(Clone, Debug)]
pub enum Loaded {
    /// A mesh animation.
    Sequence(RawSequence),
    /// A skinned rig.
    Rig(Box<Rig>),
}

/// Reads a mesh animation from one file, or several (a directory, a glob, a list of OBJ/PLY files; a point cache
/// and the OBJ with its faces, in any order). A skinned or morph-target glTF is baked.
pub fn load_sequence(inputs: &[PathBuf], options: &LoadOptions) -> Result<RawSequence, IoError> {
    let _ = (inputs, options);
    Err(IoError::Unsupported { path: inputs.first().cloned().unwrap_or_default(), what: "not there yet".into() })
}

/// Reads a rig: a skinned glTF/GLB or an npz rig.
pub fn load_rig(path: &Path) -> Result<Rig, IoError> {
    Err(IoError::Unsupported { path: path.to_owned(), what: "not there yet".into() })
}

/// Reads whatever a file holds: a rig where there is one, else a sequence.
pub fn load(path: &Path, options: &LoadOptions) -> Result<Loaded, IoError> {
    let _ = options;
    Err(IoError::Unsupported { path: path.to_owned(), what: "not there yet".into() })
}

/// Writes a rig; the extension says how: .glb .gltf .npz.
pub fn save_rig(rig: &Rig, path: &Path) -> Result<(), IoError> {
    if is_gltf(path) {
        return gltf::save_rig(rig, path);
    }
    Err(IoError::Unsupported { path: path.to_owned(), what: "not there yet".into() })
}

/// Writes a mesh animation; the extension says how: .npz, and .glb or .gltf as morph targets.
pub fn save_sequence(sequence: &MeshSequence, path: &Path) -> Result<(), IoError> {
    if is_gltf(path) {
        return gltf::save_sequence(sequence, path);
    }
    Err(IoError::Unsupported { path: path.to_owned(), what: "not there yet".into() })
}

fn is_gltf(path: &Path) -> bool {
    path.extension().is_some_and(|e| e.eq_ignore_ascii_case("glb") || e.eq_ignore_ascii_case("gltf"))
}
