//! NumPy archives (`.npz`): sequences and rigs, for scientists and for checking us.
//!
//! `docs/formats/npz.md` describes the arrays. NumPy reads every one with `allow_pickle=False`.

mod archive;
mod basis;
mod cage;
mod ddm;
mod meta;
mod npy;
mod rig;
mod sequence;
mod shapes;
mod surface;
mod two_layer;

use std::path::Path;

use bonesmith_core::{Basis, DdmRig, RawSequence, Rig, ShapedRig, TwoLayerRig};
use glam::Vec3;

use crate::{IoError, LoadOptions, Loaded, warning};
use archive::{Archive, Array};

pub use basis::save as save_basis;
pub use ddm::{load_maps as load_ddm_maps, load_ranges, save as save_ddm};
pub use rig::BadWeights;
pub use rig::save as save_rig;
pub use sequence::save as save_sequence;
pub use shapes::save as save_rig_with_shapes;
pub use two_layer::save as save_two_layer;

/// Reads whatever the archive holds.
pub fn load(path: &Path, options: &LoadOptions) -> Result<Loaded, IoError> {
    let mut archive = Archive::open(path)?;
    if let Some(rig) = any_rig(&mut archive, BadWeights::Refuse)? {
        return Ok(Loaded::Rig(Box::new(rig)));
    }
    if basis::is_basis(&archive) {
        return Ok(Loaded::Sequence(basis::baked(&basis::load(&mut archive)?, options)));
    }
    Ok(Loaded::Sequence(sequence::load(&mut archive, options)?))
}

/// Reads a mesh animation; a rig is posed in every frame of its first clip.
pub fn load_sequence(path: &Path, options: &LoadOptions) -> Result<RawSequence, IoError> {
    if let Some(ddm) = load_ddm(path)? {
        let posed = |t: usize| bonesmith_core::deform::ddm_f64(&ddm, ddm.rig.clips[0].frame(t));
        return sequence::from_poses(path, &ddm.rig, options, posed);
    }
    if let Some(shaped) = load_shaped(path)? {
        return sequence::from_poses(path, &shaped.rig, options, |t| shaped.posed(0, t));
    }
    match load(path, options)? {
        Loaded::Sequence(sequence) => Ok(sequence),
        Loaded::Rig(rig) => sequence::from_rig(path, *rig, options),
    }
}

/// Reads a rig.
pub fn load_rig(path: &Path, bad: BadWeights) -> Result<Rig, IoError> {
    let mut archive = Archive::open(path)?;
    if let Some(rig) = any_rig(&mut archive, bad)? {
        return Ok(rig);
    }
    let keys = archive.keys().join(", ");
    let what = format!("holds no rig: \"joint_indices\", \"joint_weights\" and \"bones\" are needed, it has: {keys}");
    Err(IoError::malformed(path, what))
}

/// Whatever kind of rig the archive holds: one with two layers is baked, of multi-weights without
/// layers the plain weights are taken, a cage has control points for bones.
fn any_rig(archive: &mut Archive, bad: BadWeights) -> Result<Option<Rig>, IoError> {
    if ddm::is_ddm(archive) {
        let ddm = ddm::load(archive)?;
        Ok(Some(crate::plain_rig(archive.path(), ddm)))
    } else if two_layer::is_two_layer(archive) {
        Ok(Some(two_layer::load(archive)?.bake()))
    } else if rig::is_rig(archive) {
        if shapes::is_shaped(archive) {
            warning::left_out(archive.path(), "its corrective shapes: a plain rig has bones alone");
        }
        rig::load(archive, bad).map(Some)
    } else if cage::is_cage_archive(archive) {
        cage::load(archive, bad).map(Some)
    } else {
        Ok(None)
    }
}

/// Reads a two-layer rig; `None` if the archive holds something else.
pub fn load_two_layer(path: &Path) -> Result<Option<TwoLayerRig>, IoError> {
    let mut archive = Archive::open(path)?;
    two_layer::is_two_layer(&archive).then(|| two_layer::load(&mut archive)).transpose()
}

/// Reads a rig with multi-weights; `None` if the archive holds something else.
pub fn load_ddm(path: &Path) -> Result<Option<DdmRig>, IoError> {
    let mut archive = Archive::open(path)?;
    ddm::is_ddm(&archive).then(|| ddm::load(&mut archive)).transpose()
}

/// Reads a rig with shapes; `None` if the archive holds something else.
pub fn load_shaped(path: &Path) -> Result<Option<ShapedRig>, IoError> {
    let mut archive = Archive::open(path)?;
    shapes::is_shaped(&archive).then(|| shapes::load(&mut archive)).transpose()
}

/// Reads a basis of trajectories; `None` if the archive holds something else.
pub fn load_basis(path: &Path) -> Result<Option<Basis>, IoError> {
    let mut archive = Archive::open(path)?;
    basis::is_basis(&archive).then(|| basis::load(&mut archive)).transpose()
}

/// Reads the array `mask`, one number per vertex; `None` where the archive has none.
pub fn load_mask(path: &Path) -> Result<Option<Vec<f32>>, IoError> {
    let mut archive = Archive::open(path)?;
    let Some(array) = archive.array("mask")? else { return Ok(None) };
    array.shape::<1>()?;
    Ok(Some(array.f32s()?))
}

/// [N, 3] positions.
fn positions(array: Array) -> Result<Vec<Vec3>, IoError> {
    array.rows(&[3])?;
    Ok(array.f32s()?.as_chunks::<3>().0.iter().map(|&p| Vec3::from_array(p)).collect())
}

/// Short name of what a file holds: its stem.
fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}
