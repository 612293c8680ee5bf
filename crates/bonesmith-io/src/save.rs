//! Models into files; the extension chooses the format.

use std::path::Path;

use bonesmith_core::{MeshSequence, ModelRef, Rig};

use crate::{Format, IoError, alembic, fbx, gltf, npz, usd};

/// Writes a model with everything that belongs to its kind. A format that cannot hold that is refused: for a rig that
/// plays everywhere, write `bake()` of a two-layer rig or a compressed Direct Delta Mush rig.
pub fn save_model<'a>(model: impl Into<ModelRef<'a>>, path: &Path) -> Result<(), IoError> {
    let refused = |what: &str, formats| {
        IoError::unsupported(path, format!("{what} can be written as {}", Format::endings(formats)))
    };
    let format = Format::from_extension(path);
    match (model.into(), format) {
        (ModelRef::Sequence(sequence), format) => match format {
            Some(Format::Npz) => npz::save_sequence(sequence, path),
            Some(Format::Glb | Format::Gltf) => gltf::save_sequence(sequence, path),
            Some(Format::Alembic) => alembic::save_sequence(sequence, path),
            Some(Format::Usda | Format::Usdc | Format::Usdz) => usd::save_sequence(sequence, path),
            _ => Err(refused("a mesh animation", Format::SEQUENCE_OUTPUTS)),
        },
        (ModelRef::Rig(rig), format) => match format {
            Some(Format::Npz) => npz::save_rig(rig, path),
            Some(Format::Glb | Format::Gltf) => gltf::save_rig(rig, path),
            Some(Format::Fbx) => fbx::save_rig(rig, path),
            Some(Format::Usda | Format::Usdc | Format::Usdz) => usd::save_rig(rig, &[], path),
            _ => Err(refused("a rig", Format::RIG_OUTPUTS)),
        },
        (ModelRef::TwoLayer(two), format) => match format {
            Some(Format::Npz) => npz::save_two_layer(two, path),
            Some(Format::Glb | Format::Gltf) => gltf::save_two_layer(two, path),
            _ => Err(refused("both layers", Format::LAYERED_OUTPUTS)),
        },
        (ModelRef::Ddm(ddm), format) => match format {
            Some(Format::Npz) => npz::save_ddm(ddm, path),
            Some(Format::Glb | Format::Gltf) => gltf::save_ddm(ddm, path),
            _ => Err(refused("multi-weights", Format::LAYERED_OUTPUTS)),
        },
        (ModelRef::Corrective(corrective), format) => match format {
            Some(Format::Npz) => npz::save_corrective(corrective, path),
            Some(Format::Glb | Format::Gltf) => gltf::save_corrective(corrective, path),
            Some(Format::Usda | Format::Usdc | Format::Usdz) => {
                usd::save_rig(&corrective.rig, &corrective.shapes, path)
            }
            _ => Err(refused("a rig with shapes", Format::CORRECTIVE_OUTPUTS)),
        },
        (ModelRef::Basis(basis), Some(Format::Npz)) => npz::save_basis(basis, path),
        (ModelRef::Basis(_), _) => Err(refused("a basis of trajectories", &[Format::Npz])),
        (other, _) => Err(IoError::unsupported(path, format!("{} cannot be written", other.kind().text()))),
    }
}

/// Writes a rig of rigid pieces without a skin: one mesh node for each bone, with keys of translation and rotation. Every vertex must
/// have one influence; vertices are written bone by bone ([`crate::piece_order`]).
pub fn save_pieces(rig: &Rig, path: &Path) -> Result<(), IoError> {
    match Format::from_extension(path) {
        Some(Format::Glb | Format::Gltf) => gltf::save_pieces(rig, path),
        _ => {
            let endings = Format::endings(Format::PIECE_OUTPUTS);
            Err(IoError::unsupported(path, format!("pieces can be written as nodes of {endings}")))
        }
    }
}

/// Writes a rig: see [`save_model`].
pub fn save_rig(rig: &Rig, path: &Path) -> Result<(), IoError> {
    save_model(rig, path)
}

/// Writes a mesh animation: see [`save_model`].
pub fn save_sequence(sequence: &MeshSequence, path: &Path) -> Result<(), IoError> {
    save_model(sequence, path)
}
