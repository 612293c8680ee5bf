//! Direct Delta Mush rigs in archives: multi-weights beside plain weights.

use std::path::Path;

use bonesmith_core::DdmRig;
use bonesmith_core::ddm::DdmMaps;
use bonesmith_core::model::ddm::Variant;
use bonesmith_core::model::multi_weights::MultiWeights;
use glam::DVec3;

use super::archive::Archive;
use super::positions;
use super::rig::{self, read_weights, write_weights};
use crate::IoError;
use crate::weights::BadWeights;

const JOINTS: [&str; 2] = ["joint_indices", "joint_weights"];
const FALLBACK: [&str; 2] = ["fallback_indices", "fallback_weights"];

/// Whether an archive holds a rig with multi-weights.
pub fn is_ddm(archive: &Archive) -> bool {
    rig::is_rig(archive) && archive.has("ddm_starts")
}

/// Reads and checks a rig with multi-weights; one that is compressed has plain weights as `fallback_*`.
pub fn load(archive: &mut Archive) -> Result<DdmRig, IoError> {
    let path = archive.path().to_owned();
    let malformed = |what: String| IoError::malformed(&path, what);
    let weights = read_multi_weights(archive)?;
    let variant = match archive.array("ddm_variant")? {
        Some(array) => array.scalar()?,
        None => 0.0,
    };
    let number = Some(variant).filter(|v| v.fract() == 0.0 && (0.0..256.0).contains(v)).map(|v| v as u8);
    let variant = number.and_then(|v| Variant::try_from(v).ok());
    let variant = variant.ok_or_else(|| malformed("\"ddm_variant\" is none of 0 to 5".into()))?;
    let origin = match archive.array("ddm_origin")? {
        Some(array) => array.f64s()?,
        None => vec![0.0; 3],
    };
    let [x, y, z] = origin[..] else { return Err(malformed("\"ddm_origin\" is not three numbers".into())) };
    let layer = match archive.has(FALLBACK[0]) {
        true => Some(read_weights(archive, JOINTS, weights.count(), BadWeights::Refuse)?),
        false => None,
    };
    let plain = if layer.is_some() { FALLBACK } else { JOINTS };
    let rig = rig::load_with(archive, |archive, bones| read_weights(archive, plain, bones, BadWeights::Refuse))?;
    let ddm = DdmRig { rig, origin: DVec3::new(x, y, z), weights, layer, variant };
    ddm.check().map_err(|e| malformed(e.to_string()))?;
    Ok(ddm)
}

fn read_multi_weights(archive: &mut Archive) -> Result<MultiWeights, IoError> {
    let path = archive.path().to_owned();
    let starts = archive.required("ddm_starts")?;
    starts.shape::<1>()?;
    let starts = starts.indices()?;
    let bones = archive.required("ddm_bones")?;
    let [influences] = bones.shape()?;
    let bones = bones.integers(0, i64::from(u16::MAX))?.into_iter().map(|j| j as u16).collect();
    let values = archive.required("ddm_weights")?;
    let [rows, width] = values.shape()?;
    if rows != influences {
        return Err(values.bad(format!("{rows} rows, but \"ddm_bones\" has {influences}")));
    }
    let values = values.f32s()?;
    let centres = positions(archive.required("ddm_centres")?)?;
    MultiWeights::from_tables(width, starts, bones, values, centres)
        .map_err(|e| IoError::malformed(path, e.to_string()))
}

/// Writes a rig with multi-weights.
pub fn save(ddm: &DdmRig, path: &Path) -> Result<(), IoError> {
    ddm.check().map_err(|e| IoError::malformed(path, format!("the rig is not sound: {e}")))?;
    rig::save_with(&ddm.rig, path, |writer| {
        match &ddm.layer {
            Some(layer) => {
                write_weights(writer, JOINTS, layer)?;
                write_weights(writer, FALLBACK, &ddm.rig.weights)?;
            }
            None => write_weights(writer, JOINTS, &ddm.rig.weights)?,
        }
        let table = &ddm.weights;
        writer.array("ddm_starts", &[table.count() + 1], table.starts().iter().copied())?;
        writer.array("ddm_bones", &[table.influences()], table.bones().iter().copied())?;
        writer.array("ddm_weights", &[table.influences(), table.width()], table.values().iter().copied())?;
        writer.array("ddm_centres", &[table.count(), 3], table.centres().iter().flat_map(|p| p.to_array()))?;
        writer.array("ddm_origin", &[3], ddm.origin.to_array())?;
        writer.array("ddm_variant", &[], [u8::from(ddm.variant)])
    })
}

/// Reads parameters per vertex.
pub fn load_maps(path: &Path) -> Result<DdmMaps, IoError> {
    let mut archive = Archive::open(path)?;
    let mut map = |key: &str| -> Result<Option<Vec<f32>>, IoError> {
        let Some(array) = archive.array(key)? else { return Ok(None) };
        array.shape::<1>()?;
        array.f32s().map(Some)
    };
    let maps = DdmMaps {
        rotation_smooth: map("rotation_smooth")?,
        translation_smooth: map("translation_smooth")?,
        alpha: map("alpha")?,
        steps: map("steps")?,
    };
    if maps == DdmMaps::default() {
        let keys = archive.keys().join(", ");
        let what = "there is none of \"rotation_smooth\", \"translation_smooth\", \"alpha\", \"steps\" in it";
        return Err(IoError::malformed(path, format!("{what}, only: {keys}")));
    }
    Ok(maps)
}

/// Reads `range_of_motion`: [B] degrees, or [B, 2] degrees and model units; as radians and units.
pub fn load_ranges(path: &Path) -> Result<Vec<(f64, f64)>, IoError> {
    let mut archive = Archive::open(path)?;
    let array = archive.required("range_of_motion")?;
    let columns = match array.header.shape[..] {
        [_] => 1,
        [_, 2] => 2,
        _ => return Err(array.bad(format!("shape {:?}, but [bones] or [bones, 2] is expected", array.header.shape))),
    };
    let values = array.f64s()?;
    Ok(values.chunks_exact(columns).map(|v| (v[0].to_radians(), v.get(1).copied().unwrap_or(0.0))).collect())
}
