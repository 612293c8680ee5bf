//! Files in and out: one module per format, found by content first, then by extension.
//!
//! Readers make unchecked `RawSequence`s or checked `Rig`s; they never compute more than the format asks for.
//! Writers write to a temporary beside the target and rename it.
//! What does not come along is told to whoever listens ([`with_warnings`]).

mod alembic;
mod atomic;
mod clips;
mod detect;
mod error;
mod fbx;
mod gltf;
mod inputs;
mod joints;
mod mask;
mod merge;
mod mesh;
mod npz;
mod obj;
mod origin;
mod picture;
mod ply;
mod pointcache;
mod shapes;
mod skinned;
mod texture;
mod usd;
mod warning;

use std::path::{Path, PathBuf};

use bonesmith_core::ddm::DdmMaps;
use bonesmith_core::{Basis, DdmRig, MeshSequence, RawFrame, RawSequence, Rig, ShapedRig, TwoLayerRig};
use inputs::Source;

pub use atomic::write as write_whole;
pub use bonesmith_core::BlendShape;
pub use clips::{ClipSource, clip_sources};
pub use detect::{Format, detect};
pub use error::IoError;
pub use gltf::MAX_INFLUENCES as GLTF_MAX_INFLUENCES;
pub use mask::{load_mask, surface_mask};
pub use picture::save as save_picture;
pub use warning::{Warning, with_warnings};

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
#[allow(clippy::large_enum_variant, reason = "there is one per file read")]
pub enum Loaded {
    /// A mesh animation.
    Sequence(RawSequence),
    /// A skinned rig.
    Rig(Box<Rig>),
}

/// Reads a mesh animation from one file, or several (a directory, a glob, a list of OBJ/PLY files; a point cache
/// and the OBJ with its faces, in any order). A skinned or morph-target glTF is baked.
///
/// Lists are put into natural order (2 before 10). An OBJ or PLY among others whose name starts with "rest" is the
/// rest pose.
pub fn load_sequence(inputs: &[PathBuf], options: &LoadOptions) -> Result<RawSequence, IoError> {
    match inputs::resolve(inputs)? {
        Source::Meshes { files, rest, format, name } => {
            mesh::read_sequence(&files, rest.as_deref(), format, name, options)
        }
        Source::Cache { cache, format, mesh } => pointcache::load(&cache, format, mesh.as_deref(), options),
        Source::Single(path, format) => match format {
            Format::Npz => npz::load_sequence(&path, options),
            Format::Alembic => alembic::load_sequence(&path, options),
            Format::Fbx => fbx::load_sequence(&path, options),
            Format::Usda | Format::Usdc | Format::Usdz => usd::load_sequence(&path, options),
            _ => gltf::load_sequence(&path, options),
        },
    }
}

/// Reads one pose, to be the rest pose of a sequence: an OBJ or PLY file, or the rest pose of anything else that
/// can be read (its first frame if it has none).
pub fn load_rest(path: &Path) -> Result<RawFrame, IoError> {
    let sequence = load_sequence(&[path.to_owned()], &LoadOptions::default())?;
    let mut pose = match sequence.rest {
        Some(rest) => rest,
        None => sequence.frames.into_iter().next().ok_or_else(|| IoError::malformed(path, "holds no pose"))?,
    };
    if pose.label.is_empty() {
        pose.label = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    }
    Ok(pose)
}

/// Reads a rig: a skinned glTF/GLB, or an npz rig or cage. One with two layers is baked to one, and so is a
/// compressed one with multi-weights; of one that is not, the plain weights are taken.
pub fn load_rig(path: &Path) -> Result<Rig, IoError> {
    read_rig(path, npz::BadWeights::Refuse)
}

/// As [`load_rig`]; weights of an npz that are negative become 0, and the weights of each vertex are scaled to 1. (Those of
/// a glTF always are.)
pub fn load_rig_normalised(path: &Path) -> Result<Rig, IoError> {
    read_rig(path, npz::BadWeights::Normalise)
}

fn read_rig(path: &Path, bad: npz::BadWeights) -> Result<Rig, IoError> {
    match detect(path)? {
        Format::Npz => npz::load_rig(path, bad),
        Format::Fbx => fbx::load_rig(path, &LoadOptions::default()),
        Format::Glb | Format::Gltf => match (gltf::load_two_layer(path)?, gltf::load_ddm(path)?) {
            (Some(two), _) => Ok(two.bake()),
            (None, Some(ddm)) => Ok(plain_rig(path, ddm)),
            (None, None) => gltf::load_rig(path, &LoadOptions::default()),
        },
        Format::Usda | Format::Usdc | Format::Usdz => usd::load_rig(path, &LoadOptions::default()),
        format => {
            let what = format!("{} files hold no rig; {} can", format.name(), Format::endings(Format::RIG_INPUTS));
            Err(IoError::unsupported(path, what))
        }
    }
}

/// The plain rig that a Direct Delta Mush rig does the same as; else, with a warning, the one that it was made of.
fn plain_rig(path: &Path, ddm: DdmRig) -> Rig {
    ddm.bake().unwrap_or_else(|| {
        warning::left_out(path, "multi-weights of Direct Delta Mush: the plain weights are taken");
        ddm.rig
    })
}

/// Reads a two-layer rig; `None` if the file holds something else.
pub fn load_two_layer(path: &Path) -> Result<Option<TwoLayerRig>, IoError> {
    match path.is_file().then(|| detect(path)).transpose()? {
        Some(Format::Npz) => npz::load_two_layer(path),
        Some(Format::Glb | Format::Gltf) => gltf::load_two_layer(path),
        _ => Ok(None),
    }
}

/// Writes a two-layer rig with both its layers: an npz, or a glTF with the extension `BONESMITH_two_layer`. For one that
/// plays everywhere, write [`TwoLayerRig::bake`] with [`save_rig`].
pub fn save_two_layer(rig: &TwoLayerRig, path: &Path) -> Result<(), IoError> {
    match Format::from_extension(path) {
        Some(Format::Npz) => npz::save_two_layer(rig, path),
        Some(Format::Glb | Format::Gltf) => gltf::save_two_layer(rig, path),
        _ => Err(IoError::unsupported(path, "both layers can be written as .npz, .glb or .gltf")),
    }
}

/// Reads a Direct Delta Mush rig, compressed or not; `None` if the file holds something else.
pub fn load_ddm(path: &Path) -> Result<Option<DdmRig>, IoError> {
    match path.is_file().then(|| detect(path)).transpose()? {
        Some(Format::Npz) => npz::load_ddm(path),
        Some(Format::Glb | Format::Gltf) => gltf::load_ddm(path),
        _ => Ok(None),
    }
}

/// Writes a Direct Delta Mush rig: an npz, or a glTF with the extension `BONESMITH_ddm`. For one that plays everywhere,
/// write [`DdmRig::bake`] with [`save_rig`].
pub fn save_ddm(rig: &DdmRig, path: &Path) -> Result<(), IoError> {
    match Format::from_extension(path) {
        Some(Format::Npz) => npz::save_ddm(rig, path),
        Some(Format::Glb | Format::Gltf) => gltf::save_ddm(rig, path),
        _ => Err(IoError::unsupported(path, "multi-weights can be written as .npz, .glb or .gltf")),
    }
}

/// Reads parameters of Direct Delta Mush per vertex: any of the arrays `rotation_smooth`, `translation_smooth`, `alpha`,
/// `steps` of an npz file.
pub fn load_ddm_maps(path: &Path) -> Result<DdmMaps, IoError> {
    match detect(path)? {
        Format::Npz => npz::load_ddm_maps(path),
        format => Err(IoError::unsupported(path, format!("{} files hold no maps; .npz can", format.name()))),
    }
}

/// Reads how far each joint moves: the array `range_of_motion` of an npz file, [B] degrees or [B, 2] degrees and model units;
/// as radians and units.
pub fn load_ranges(path: &Path) -> Result<Vec<(f64, f64)>, IoError> {
    match detect(path)? {
        Format::Npz => npz::load_ranges(path),
        format => Err(IoError::unsupported(path, format!("{} files hold no ranges; .npz can", format.name()))),
    }
}

/// Reads whatever a file holds: a rig where there is one, else a sequence.
pub fn load(path: &Path, options: &LoadOptions) -> Result<Loaded, IoError> {
    if path.is_file() {
        match detect(path)? {
            Format::Npz => return npz::load(path, options),
            Format::Fbx => return fbx::load(path, options),
            Format::Usda | Format::Usdc | Format::Usdz => return usd::load(path, options),
            Format::Glb | Format::Gltf => {
                return match (gltf::load_two_layer(path)?, gltf::load_ddm(path)?) {
                    (Some(two), _) => Ok(Loaded::Rig(Box::new(two.bake()))),
                    (None, Some(ddm)) => Ok(Loaded::Rig(Box::new(plain_rig(path, ddm)))),
                    (None, None) => gltf::load(path, options),
                };
            }
            _ => {}
        }
    }
    Ok(Loaded::Sequence(load_sequence(&[path.to_owned()], options)?))
}

/// Writes a rig; the extension says how: .glb .gltf .npz.
pub fn save_rig(rig: &Rig, path: &Path) -> Result<(), IoError> {
    match Format::from_extension(path) {
        Some(Format::Npz) => npz::save_rig(rig, path),
        Some(Format::Glb | Format::Gltf) => gltf::save_rig(rig, path),
        Some(Format::Fbx) => fbx::save_rig(rig, path),
        Some(Format::Usda | Format::Usdc | Format::Usdz) => usd::save_rig(rig, &[], path),
        _ => Err(cannot_write(path, "a rig", Format::RIG_OUTPUTS)),
    }
}

/// Writes a mesh animation; the extension says how: .npz, and .glb or .gltf as morph targets.
pub fn save_sequence(sequence: &MeshSequence, path: &Path) -> Result<(), IoError> {
    match Format::from_extension(path) {
        Some(Format::Npz) => npz::save_sequence(sequence, path),
        Some(Format::Glb | Format::Gltf) => gltf::save_sequence(sequence, path),
        Some(Format::Alembic) => alembic::save_sequence(sequence, path),
        Some(Format::Usda | Format::Usdc | Format::Usdz) => usd::save_sequence(sequence, path),
        _ => Err(cannot_write(path, "a mesh animation", Format::SEQUENCE_OUTPUTS)),
    }
}

/// Writes a rig with shapes: .npz, .glb and .gltf as morph targets, .usda .usdc .usdz as blend shapes.
pub fn save_rig_with_shapes(rig: &Rig, shapes: &[BlendShape], path: &Path) -> Result<(), IoError> {
    match Format::from_extension(path) {
        Some(Format::Npz) => npz::save_rig_with_shapes(rig, shapes, path),
        Some(Format::Glb | Format::Gltf) => gltf::save_rig_with_shapes(rig, shapes, path),
        Some(Format::Usda | Format::Usdc | Format::Usdz) => usd::save_rig(rig, shapes, path),
        _ => Err(cannot_write(path, "a rig with shapes", Format::SHAPED_OUTPUTS)),
    }
}

/// Reads a rig with shapes; `None` if the file holds something else. Shapes are linear here: in-betweens are left out.
pub fn load_shaped(path: &Path) -> Result<Option<ShapedRig>, IoError> {
    let shaped = match path.is_file().then(|| detect(path)).transpose()? {
        Some(Format::Npz) => return npz::load_shaped(path),
        Some(Format::Glb | Format::Gltf) => gltf::load_shaped(path)?,
        Some(Format::Usda | Format::Usdc | Format::Usdz) => usd::load_shaped(path)?,
        _ => None,
    };
    Ok(shaped.map(|shaped| ShapedRig { shapes: shapes::joined(shaped.shapes), ..shaped }))
}

/// Writes an animation as trajectories that vertices mix: .npz.
pub fn save_basis(basis: &Basis, path: &Path) -> Result<(), IoError> {
    match Format::from_extension(path) {
        Some(Format::Npz) => npz::save_basis(basis, path),
        _ => Err(cannot_write(path, "a basis of trajectories", &[Format::Npz])),
    }
}

/// Reads an animation as trajectories that vertices mix; `None` if the file holds something else.
pub fn load_basis(path: &Path) -> Result<Option<Basis>, IoError> {
    match path.is_file().then(|| detect(path)).transpose()? {
        Some(Format::Npz) => npz::load_basis(path),
        _ => Ok(None),
    }
}

fn cannot_write(path: &Path, what: &str, formats: &[Format]) -> IoError {
    IoError::unsupported(path, format!("{what} can be written as {}", Format::endings(formats)))
}

/// One mesh of a file that may hold several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeshEntry {
    /// What `LoadOptions::mesh` takes.
    pub name: String,
    /// Vertices it has.
    pub vertices: usize,
}

/// The meshes of a file, in file order; empty for formats that hold one.
pub fn list_meshes(path: &Path) -> Result<Vec<MeshEntry>, IoError> {
    match path.is_file().then(|| detect(path)).transpose()? {
        Some(Format::Glb | Format::Gltf) => gltf::list_meshes(path),
        Some(Format::Alembic) => alembic::list_meshes(path),
        Some(Format::Fbx) => fbx::list_meshes(path),
        Some(Format::Usda | Format::Usdc | Format::Usdz) => usd::list_meshes(path),
        _ => Ok(Vec::new()),
    }
}
