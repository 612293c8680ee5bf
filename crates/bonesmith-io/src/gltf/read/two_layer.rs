//! Two-layer rigs: the extension `BONESMITH_two_layer` on the skin and the attributes that go with it.
//!
//! Other programs may rewrite a file: where vertices were split, merged or reordered without our attributes, the file is
//! a plain rig with single-layer weights, and is read as such.

use bonesmith_core::two_layer::{Blends, MAX_VIRTUAL_BONES};
use bonesmith_core::{SparseWeights, TwoLayerRig};
use gltf_json::mesh::{Primitive, Semantic};
use gltf_json::validation::Checked;
use gltf_json::{Accessor, Index};

use super::document::Document;
use crate::IoError;
use crate::gltf::extras::{TWO_LAYER_EXTENSION, TwoLayerExtension, VERTEX_ATTRIBUTE, VIRTUAL_JOINTS, VIRTUAL_WEIGHTS};

/// Virtual bones of a vertex in the file.
const SLOTS: usize = 4;

/// Reads a two-layer rig; `None` if the file holds something else.
pub fn load(document: &Document) -> Result<Option<TwoLayerRig>, IoError> {
    let [skin] = document.root.skins.as_slice() else { return Ok(None) };
    let content = skin.extensions.as_ref().and_then(|extension| extension.others.get(TWO_LAYER_EXTENSION));
    let Some(content) = content else { return Ok(None) };
    let broken = |what: String| document.malformed(format!("{TWO_LAYER_EXTENSION}: {what}"));
    let content: TwoLayerExtension =
        serde_json::from_value(content.clone()).map_err(|e| broken(format!("not as specified: {e}")))?;
    let [mesh] = document.root.meshes.as_slice() else { return Ok(None) };
    let model = super::Model::read(document, None)?;
    let Some(weights) = read_weights(document, &mesh.primitives, model.rest.len())? else { return Ok(None) };
    let master = super::to_rig(document, model, None)?;
    let blends = read_blends(document, &content)?;
    let rig = TwoLayerRig { master, blends, weights };
    rig.check().map_err(|e| broken(e.to_string()))?;
    Ok(Some(rig))
}

/// D.
fn read_blends(document: &Document, content: &TwoLayerExtension) -> Result<Blends, IoError> {
    let what = |key: &str| format!("{TWO_LAYER_EXTENSION}, {key}");
    let joints = document.integers::<1>(Index::new(content.joints), &what("joints"))?;
    let weights = document.floats::<1>(Index::new(content.weights), &what("weights"))?;
    let (m, c) = (content.virtual_bones as usize, content.slots as usize);
    let expected = m.checked_mul(c).filter(|_| m > 0 && m <= MAX_VIRTUAL_BONES && c > 0);
    let small = joints.iter().all(|[j]| *j <= u32::from(u16::MAX));
    if expected != Some(joints.len()) || expected != Some(weights.len()) || !small {
        let (j, w) = (joints.len(), weights.len());
        return Err(document.malformed(format!(
            "{TWO_LAYER_EXTENSION}: {m} virtual bones of {c} slots do not fit {j} joints and {w} weights"
        )));
    }
    let table = joints.iter().map(|[j]| *j as u16).collect();
    Blends::from_tables(c, table, weights.into_iter().flatten().collect())
        .ok_or_else(|| document.malformed(format!("{TWO_LAYER_EXTENSION}: no slots")))
}

/// A; `None` where the vertices are no longer those that were written.
fn read_weights(document: &Document, primitives: &[Primitive], n: usize) -> Result<Option<SparseWeights>, IoError> {
    let mut weights = SparseWeights::new(n, SLOTS);
    let mut seen = vec![false; n];
    for primitive in primitives {
        let find = |name: &str| -> Option<Index<Accessor>> {
            primitive.attributes.get(&Checked::Valid(Semantic::Extras(name.to_owned()))).copied()
        };
        let (Some(joints), Some(values)) = (find(VIRTUAL_JOINTS), find(VIRTUAL_WEIGHTS)) else { return Ok(None) };
        let joints = document.integers::<4>(joints, VIRTUAL_JOINTS)?;
        let values = document.floats::<4>(values, VIRTUAL_WEIGHTS)?;
        let originals: Vec<usize> = match find(VERTEX_ATTRIBUTE) {
            Some(accessor) => {
                let halves = document.integers::<2>(accessor, VERTEX_ATTRIBUTE)?;
                halves.iter().map(|[low, high]| *low as usize | (*high as usize) << 16).collect()
            }
            None if primitives.len() == 1 => (0..n).collect(),
            None => return Ok(None),
        };
        if joints.len() != values.len() || joints.len() != originals.len() {
            return Ok(None);
        }
        for ((i, joints), values) in originals.into_iter().zip(joints).zip(values) {
            let Some(seen) = seen.get_mut(i) else { return Ok(None) };
            *seen = true;
            let row: Vec<(usize, f64)> = joints.iter().zip(values).map(|(&m, w)| (m as usize, f64::from(w))).collect();
            if row.iter().any(|&(m, w)| m >= MAX_VIRTUAL_BONES || !w.is_finite() || w < 0.0) {
                return Err(document.malformed(format!("{TWO_LAYER_EXTENSION}: vertex {i} has the weights {row:?}")));
            }
            weights.set(i, &row);
        }
    }
    Ok(seen.iter().all(|seen| *seen).then_some(weights))
}
