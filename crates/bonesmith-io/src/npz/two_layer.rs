//! Two-layer rigs in archives: `joint_*` name virtual bones, `virtual_*` say how those blend master bones.

use std::path::Path;

use bonesmith_core::model::two_layer::{Blends, MAX_VIRTUAL_BONES};
use bonesmith_core::{SparseWeights, TwoLayerRig};

use super::archive::Archive;
use super::rig::{self, read_weights, write_weights};
use crate::IoError;
use crate::weights::BadWeights;

/// Influences of single-layer weights that are made where a file has none.
const FALLBACK_INFLUENCES: usize = 4;

/// Whether an archive holds a two-layer rig.
pub fn is_two_layer(archive: &Archive) -> bool {
    rig::is_rig(archive) && archive.has("virtual_indices")
}

/// Reads and checks a two-layer rig.
pub fn load(archive: &mut Archive) -> Result<TwoLayerRig, IoError> {
    let path = archive.path().to_owned();
    let blends = read_blends(archive)?;
    let weights = read_weights(archive, ["joint_indices", "joint_weights"], blends.count(), BadWeights::Refuse)?;
    let fallback = ["fallback_indices", "fallback_weights"];
    let master = rig::load_with(archive, |archive, bones| match archive.has(fallback[0]) {
        true => read_weights(archive, fallback, bones, BadWeights::Refuse),
        false => Ok(products(&blends, &weights, bones)),
    })?;
    let rig = TwoLayerRig { master, blends, weights };
    rig.check().map_err(|e| IoError::malformed(path, e.to_string()))?;
    Ok(rig)
}

fn read_blends(archive: &mut Archive) -> Result<Blends, IoError> {
    let path = archive.path().to_owned();
    let array = archive.required("virtual_indices")?;
    let [m, c] = array.shape()?;
    if m == 0 || m > MAX_VIRTUAL_BONES {
        return Err(array.bad(format!("{m} virtual bones; 1 to {MAX_VIRTUAL_BONES} are possible")));
    }
    let indices = array.integers(-1, i64::from(u16::MAX))?;
    let array = archive.required("virtual_weights")?;
    if array.shape::<2>()? != [m, c] {
        return Err(array.bad(format!("shape {:?}, but \"virtual_indices\" has [{m}, {c}]", array.header.shape)));
    }
    let values = array.f32s()?;
    // The bone of an unused slot means nothing, and others may write -1 there.
    let table = indices.iter().zip(&values).map(|(&j, w)| if *w == 0.0 { 0 } else { j.max(0) as u16 }).collect();
    if let Some(at) = indices.iter().zip(&values).position(|(&j, w)| j < 0 && *w != 0.0) {
        return Err(IoError::malformed(path, format!("\"virtual_indices\": virtual bone {} names bone -1", at / c)));
    }
    Blends::from_tables(c, table, values).ok_or_else(|| IoError::malformed(path, "\"virtual_weights\" has no slots"))
}

/// Single-layer weights: the largest of the products of both layers. Bones out of range are for the check to name.
fn products(blends: &Blends, weights: &SparseWeights, bones: usize) -> SparseWeights {
    let mut out = SparseWeights::new(weights.vertex_count(), FALLBACK_INFLUENCES.min(bones));
    for i in 0..weights.vertex_count() {
        let terms = weights.of(i).filter(|(m, _)| *m < blends.count());
        let row: Vec<(usize, f64)> = terms
            .flat_map(|(m, a)| blends.of(m).map(move |(j, d)| (j, f64::from(a) * f64::from(d))))
            .filter(|(j, _)| *j < bones)
            .fold(Vec::new(), |mut row, (j, w)| {
                match row.iter_mut().find(|(k, _)| *k == j) {
                    Some((_, sum)) => *sum += w,
                    None => row.push((j, w)),
                }
                row
            });
        out.set(i, &row);
    }
    out
}

/// Writes a two-layer rig.
pub fn save(two: &TwoLayerRig, path: &Path) -> Result<(), IoError> {
    two.check().map_err(|e| IoError::malformed(path, format!("the rig is not sound: {e}")))?;
    rig::save_with(&two.master, path, |writer| {
        write_weights(writer, ["joint_indices", "joint_weights"], &two.weights)?;
        let shape = [two.virtual_count(), two.blends.slots()];
        writer.array("virtual_indices", &shape, two.blends.bone_table().iter().copied())?;
        writer.array("virtual_weights", &shape, two.blends.weight_table().iter().copied())?;
        write_weights(writer, ["fallback_indices", "fallback_weights"], &two.master.weights)
    })
}
