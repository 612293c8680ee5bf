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
mod shape_bones;
mod shapes;
mod surface;
mod two_layer;

use std::path::Path;

use glam::Vec3;

use crate::load::{Content, FileContent, Request};
use crate::{Curves, IoError};
use archive::{Archive, Array};

pub use basis::save as save_basis;
pub use ddm::{load_maps as load_ddm_maps, load_ranges, save as save_ddm};
pub use rig::save as save_rig;
pub use sequence::{load_face, save as save_sequence};
pub use shape_bones::save as save_shape_bones;
pub use shapes::save as save_corrective;
pub use two_layer::save as save_two_layer;

/// Reads whatever the archive holds. A cage is a rig whose bones are control points.
pub fn load(path: &Path, request: &Request<'_>) -> Result<FileContent, IoError> {
    let archive = &mut Archive::open(path)?;
    let content = if two_layer::is_two_layer(archive) {
        Content::model(two_layer::load(archive)?)
    } else if ddm::is_ddm(archive) {
        Content::model(ddm::load(archive)?)
    } else if shape_bones::is_shape_bones(archive) {
        Content::model(shape_bones::load(archive, request.bad_weights)?)
    } else if shapes::is_corrective(archive) {
        Content::model(shapes::load(archive, request.bad_weights)?)
    } else if rig::is_rig(archive) {
        Content::model(rig::load(archive, request.bad_weights)?)
    } else if cage::is_cage_archive(archive) {
        Content::model(cage::load(archive, request.bad_weights)?)
    } else if basis::is_basis(archive) {
        Content::model(basis::load(archive)?)
    } else if request.rig {
        let keys = archive.keys().join(", ");
        let what = match archive.keys().iter().any(|key| key == "verts") {
            true => "is an animation, and a rig is needed: `bonesmith fit` makes one",
            false => "holds no rig: \"joint_indices\", \"joint_weights\" and \"bones\" are needed",
        };
        return Err(IoError::malformed(path, format!("{what} (it has: {keys})")));
    } else {
        Content::Sequence(sequence::load(archive, request.options)?)
    };
    Ok(FileContent { content, meshes: Vec::new(), stored: None, shared_names: Vec::new() })
}

/// Reads curves of shape weights: `weights` [F, C], `names` [C], `times` [F].
pub fn load_curves(path: &Path) -> Result<Curves, IoError> {
    let archive = &mut Archive::open(path)?;
    let (columns, values) = {
        let array = archive.required("weights")?;
        let [_, columns] = array.shape()?;
        (columns, array.f32s()?)
    };
    let weights: Vec<Vec<f32>> = values.chunks_exact(columns.max(1)).map(<[f32]>::to_vec).collect();
    let names = archive.required("names")?.texts()?;
    if names.len() != columns {
        return Err(IoError::malformed(path, format!("{} names for {columns} columns of weights", names.len())));
    }
    let times_secs = match archive.array("times")? {
        Some(array) => array.f64s()?,
        None => Vec::new(),
    };
    Ok(Curves { names, times_secs, weights })
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
