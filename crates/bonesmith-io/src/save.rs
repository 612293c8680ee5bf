//! Models into files; the extension chooses the format.

use std::path::Path;

use bonesmith_core::{MeshSequence, ModelKind, ModelRef, Rig};

use crate::compact::keys::{Tolerance, with_steps};
use crate::compact::{Compact, CompactFile};
use crate::formats::Needs;
use crate::{Format, IoError, alembic, fbx, gltf, npz, usd};

/// Writes a model with everything that belongs to its kind. A format that cannot hold that is refused ([`Format::to_write`]): for a rig
/// that plays everywhere, write `bake()` of a two-layer rig or a compressed Direct Delta Mush rig.
pub fn save_model<'a>(model: impl Into<ModelRef<'a>>, path: &Path) -> Result<(), IoError> {
    save(model.into(), path, None).map(|_| ())
}

/// As [`save_model`], as small as the bound on its error allows.
pub fn save_compact<'a>(
    model: impl Into<ModelRef<'a>>,
    path: &Path,
    compact: &Compact,
) -> Result<CompactFile, IoError> {
    let model = model.into();
    check_compact(model, path)?;
    save(model, path, Some(compact))
}

/// Whether [`save_compact`] writes such a model into such a file.
pub fn check_compact<'a>(model: impl Into<ModelRef<'a>>, path: &Path) -> Result<(), IoError> {
    let model = model.into();
    match (Format::to_write(path, model.into())?, model) {
        (
            Format::Glb | Format::Gltf,
            ModelRef::Rig(_) | ModelRef::TwoLayer(_) | ModelRef::Ddm(_) | ModelRef::Corrective(_),
        )
        | (Format::Usda | Format::Usdc | Format::Usdz, ModelRef::Rig(_) | ModelRef::Corrective(_))
        | (Format::Fbx, ModelRef::Rig(_)) => Ok(()),
        (_, model) => {
            let what =
                format!("{} is not written as a small file; rigs in .glb, .gltf, USD and FBX are", model.kind().text());
            Err(IoError::unsupported(path, what))
        }
    }
}

fn save(model: ModelRef<'_>, path: &Path, compact: Option<&Compact>) -> Result<CompactFile, IoError> {
    let format = Format::to_write(path, model.into())?;
    let tolerance = |rig: &Rig| compact.map(|compact| Tolerance::new(rig, compact));
    // Without streams a model's numbers are rounded before it is written.
    let stepped = |rig: &'_ Rig| compact.map(|compact| with_steps(rig, compact));
    let done = match format {
        Format::Npz => match model {
            ModelRef::Sequence(sequence) => npz::save_sequence(sequence, path),
            ModelRef::Rig(rig) => npz::save_rig(rig, path),
            ModelRef::TwoLayer(two) => npz::save_two_layer(two, path),
            ModelRef::Ddm(ddm) => npz::save_ddm(ddm, path),
            ModelRef::Corrective(corrective) => npz::save_corrective(corrective, path),
            ModelRef::ShapeBones(face) => npz::save_shape_bones(face, path),
            ModelRef::Basis(basis) => npz::save_basis(basis, path),
            other => Err(unwritten(other, format, path)),
        },
        Format::Glb | Format::Gltf => match model {
            ModelRef::Sequence(sequence) => gltf::save_sequence(sequence, path),
            ModelRef::Rig(rig) => return gltf::save_rig(rig, path, compact),
            ModelRef::TwoLayer(two) => return gltf::save_two_layer(two, path, compact),
            ModelRef::Ddm(ddm) => return gltf::save_ddm(ddm, path, compact),
            ModelRef::Corrective(corrective) => return gltf::save_corrective(corrective, path, compact),
            ModelRef::ShapeBones(face) => gltf::save_shape_bones(face, path),
            other => Err(unwritten(other, format, path)),
        },
        Format::Usda | Format::Usdc | Format::Usdz => match model {
            ModelRef::Sequence(sequence) => usd::save_sequence(sequence, path),
            ModelRef::Rig(rig) => usd::save_rig(stepped(rig).as_ref().unwrap_or(rig), &[], path, tolerance(rig)),
            ModelRef::Corrective(corrective) => {
                let rig = &corrective.rig;
                usd::save_rig(stepped(rig).as_ref().unwrap_or(rig), &corrective.shapes, path, tolerance(rig))
            }
            other => Err(unwritten(other, format, path)),
        },
        Format::Fbx => match model {
            ModelRef::Sequence(sequence) => fbx::save_sequence(sequence, path),
            ModelRef::Rig(rig) => fbx::save_rig(stepped(rig).as_ref().unwrap_or(rig), path, tolerance(rig)),
            ModelRef::Corrective(corrective) => fbx::save_corrective(corrective, path),
            other => Err(unwritten(other, format, path)),
        },
        Format::Alembic => match model {
            ModelRef::Sequence(sequence) => alembic::save_sequence(sequence, path),
            other => Err(unwritten(other, format, path)),
        },
        Format::Obj | Format::Ply | Format::Pc2 | Format::Mdd => Err(unwritten(model, format, path)),
    };
    done.map(|()| CompactFile::default())
}

/// A row of the table without a writer; a test finds it.
fn unwritten(model: ModelRef<'_>, format: Format, path: &Path) -> IoError {
    IoError::unsupported(path, format!("{} cannot be written as {}", model.kind().text(), format.name()))
}

/// Writes the rigid pieces of a rig without a skin: one mesh node for each bone, with keys of translation, rotation and scale. What
/// several bones move is a skinned mesh beside them. Vertices are written bone by bone ([`crate::piece_order`]); a rig without any
/// piece is refused.
pub fn save_pieces(rig: &Rig, path: &Path) -> Result<(), IoError> {
    let format = Format::to_write(path, Needs::of(ModelKind::Rig).nodes())?;
    match format {
        Format::Glb | Format::Gltf => gltf::save_pieces(rig, path),
        Format::Usda | Format::Usdc | Format::Usdz => usd::save_pieces(rig, path),
        Format::Fbx => fbx::save_pieces(rig, path),
        _ => Err(unwritten(rig.into(), format, path)),
    }
}

/// Writes a rig as several skins, each with at most `max_joints` joints and a mesh of its own; a rig with no more bones than that as one.
/// Vertices between two skins are in both. Returns the rig's vertex of each vertex of the file.
pub fn save_skins(rig: &Rig, path: &Path, max_joints: usize) -> Result<Vec<u32>, IoError> {
    Format::to_write(path, Needs::of(ModelKind::Rig).skins())?;
    if rig.bone_count() <= max_joints {
        save_rig(rig, path)?;
        return Ok((0..rig.vertex_count() as u32).collect());
    }
    gltf::save_skins(rig, path, max_joints)
}

/// Writes a rig: see [`save_model`].
pub fn save_rig(rig: &Rig, path: &Path) -> Result<(), IoError> {
    save_model(rig, path)
}

/// Writes a mesh animation: see [`save_model`].
pub fn save_sequence(sequence: &MeshSequence, path: &Path) -> Result<(), IoError> {
    save_model(sequence, path)
}
