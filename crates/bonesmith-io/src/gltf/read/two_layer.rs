//! Two-layer rigs: the extension `BONESMITH_two_layer` on the skin and the attributes that go with it.
//!
//! Other programs may rewrite a file: where vertices were split, merged or reordered without our attributes, the file is
//! a plain rig with single-layer weights, and is read as such.

use bonesmith_core::SparseWeights;
use bonesmith_core::model::two_layer::{Blends, MAX_VIRTUAL_BONES};
use gltf_json::mesh::{Primitive, Semantic};
use gltf_json::validation::Checked;
use gltf_json::{Accessor, Index};
use serde::de::DeserializeOwned;

use super::document::Document;
use super::model::Model;
use crate::IoError;
use crate::gltf::extras::{
    MORE_VIRTUAL_JOINTS, MORE_VIRTUAL_WEIGHTS, TWO_LAYER_EXTENSION, TwoLayerExtension, VERTEX_ATTRIBUTE,
    VIRTUAL_JOINTS, VIRTUAL_WEIGHTS,
};

/// Virtual bones of a vertex in one set of attributes.
const SLOTS: usize = 4;

/// Reads both layers; `None` if the file holds something else.
pub fn read(document: &Document, model: &Model) -> Result<Option<(Blends, SparseWeights)>, IoError> {
    let Some(content) = extension::<TwoLayerExtension>(document, TWO_LAYER_EXTENSION)? else { return Ok(None) };
    let [mesh] = document.root.meshes.as_slice() else { return Ok(None) };
    let weights = read_virtual(document, &mesh.primitives, model.rest.len(), TWO_LAYER_EXTENSION)?;
    let Some(weights) = weights else { return Ok(None) };
    Ok(Some((read_blends(document, &content)?, weights)))
}

/// Content of an extension of the only skin; `None` where there is none.
pub fn extension<T: DeserializeOwned>(document: &Document, name: &str) -> Result<Option<T>, IoError> {
    let [skin] = document.root.skins.as_slice() else { return Ok(None) };
    let content = skin.extensions.as_ref().and_then(|extension| extension.others.get(name));
    let parsed = content.map(|content| serde_json::from_value(content.clone())).transpose();
    parsed.map_err(|e| document.malformed(format!("{name}: not as specified: {e}")))
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

/// Weights on virtual bones; `None` where the vertices are no longer those that were written.
pub fn read_virtual(
    document: &Document,
    primitives: &[Primitive],
    n: usize,
    extension: &str,
) -> Result<Option<SparseWeights>, IoError> {
    let more = primitives.iter().any(|primitive| find(primitive, MORE_VIRTUAL_JOINTS).is_some());
    let mut weights = SparseWeights::new(n, if more { 2 * SLOTS } else { SLOTS });
    let mut seen = vec![false; n];
    for primitive in primitives {
        let Some(mut rows) = read_set(document, primitive, [VIRTUAL_JOINTS, VIRTUAL_WEIGHTS])? else {
            return Ok(None);
        };
        if let Some(second) = read_set(document, primitive, [MORE_VIRTUAL_JOINTS, MORE_VIRTUAL_WEIGHTS])? {
            rows.iter_mut().zip(second).for_each(|(row, second)| row.extend(second));
        }
        let Some(originals) = originals(document, primitive, primitives.len(), n)? else { return Ok(None) };
        if rows.len() != originals.len() {
            return Ok(None);
        }
        for (i, row) in originals.into_iter().zip(rows) {
            let Some(seen) = seen.get_mut(i) else { return Ok(None) };
            *seen = true;
            if row.iter().any(|&(m, w)| m >= MAX_VIRTUAL_BONES || !w.is_finite() || w < 0.0) {
                return Err(document.malformed(format!("{extension}: vertex {i} has the weights {row:?}")));
            }
            weights.set(i, &row);
        }
    }
    Ok(seen.iter().all(|seen| *seen).then_some(weights))
}

fn find(primitive: &Primitive, name: &str) -> Option<Index<Accessor>> {
    primitive.attributes.get(&Checked::Valid(Semantic::Extras(name.to_owned()))).copied()
}

/// Four virtual bones and weights of each vertex of a primitive; `None` where it has none.
#[allow(clippy::type_complexity, reason = "rows of pairs")]
fn read_set(
    document: &Document,
    primitive: &Primitive,
    [joints, values]: [&str; 2],
) -> Result<Option<Vec<Vec<(usize, f64)>>>, IoError> {
    let (Some(j), Some(v)) = (find(primitive, joints), find(primitive, values)) else { return Ok(None) };
    let (joints, values) = (document.integers::<4>(j, joints)?, document.floats::<4>(v, values)?);
    if joints.len() != values.len() {
        return Ok(None);
    }
    let row = |(joints, values): ([u32; 4], [f32; 4])| {
        joints.iter().zip(values).map(|(&m, w)| (m as usize, f64::from(w))).collect()
    };
    Ok(Some(joints.into_iter().zip(values).map(row).collect()))
}

/// Original vertex of each vertex of a primitive; `None` if the file does not state it.
pub fn originals(
    document: &Document,
    primitive: &Primitive,
    primitives: usize,
    n: usize,
) -> Result<Option<Vec<usize>>, IoError> {
    match find(primitive, VERTEX_ATTRIBUTE) {
        Some(accessor) => {
            let halves = document.integers::<2>(accessor, VERTEX_ATTRIBUTE)?;
            Ok(Some(halves.iter().map(|[low, high]| *low as usize | (*high as usize) << 16).collect()))
        }
        None if primitives == 1 => Ok(Some((0..n).collect())),
        None => Ok(None),
    }
}
