//! Direct Delta Mush rigs: the extension `BONESMITH_ddm` on the skin.
//!
//! Rows of multi-weights belong to the vertices that were written, or to virtual bones: where another program rewrote the
//! vertices, the file is a plain rig, and is read as such.

use bonesmith_core::model::ddm::Variant;
use bonesmith_core::model::multi_weights::MultiWeights;
use bonesmith_core::{DdmRig, SparseWeights};
use glam::{DAffine3, DVec3, Vec3};
use gltf_json::Index;

use super::document::Document;
use super::model::Model;
use super::two_layer::{extension, originals, read_virtual};
use crate::IoError;
use crate::gltf::extras::{DDM_EXTENSION, DdmExtension};

/// What the extension adds to a plain rig, in the space of POSITION.
pub struct Layers {
    weights: MultiWeights,
    layer: Option<SparseWeights>,
    variant: Variant,
    origin: DVec3,
}

/// Reads the multi-weights of a model; `None` if the file holds something else.
pub fn read(document: &Document, model: &Model) -> Result<Option<Layers>, IoError> {
    let Some(content) = extension::<DdmExtension>(document, DDM_EXTENSION)? else { return Ok(None) };
    let [mesh] = document.root.meshes.as_slice() else { return Ok(None) };
    let weights = read_multi_weights(document, &content)?;
    let variant = Variant::try_from(content.variant);
    let variant = variant.map_err(|what| document.malformed(format!("{DDM_EXTENSION}: {what}")))?;
    let n = model.rest.len();
    let layer = match content.compressed {
        true => match read_virtual(document, &mesh.primitives, n, DDM_EXTENSION)? {
            Some(layer) => Some(layer),
            None => return Ok(None),
        },
        false if weights.count() != n => return Ok(None),
        false => {
            // The rows are those of the vertices that were written.
            for primitive in &mesh.primitives {
                if originals(document, primitive, mesh.primitives.len(), n)?.is_none() {
                    return Ok(None);
                }
            }
            None
        }
    };
    Ok(Some(Layers { weights, layer, variant, origin: DVec3::from_array(content.origin) }))
}

impl Layers {
    /// The rig, in the space in which it was written.
    pub fn into_rig(self, document: &Document, model: Model, fps: Option<f64>) -> Result<DdmRig, IoError> {
        let Self { weights, layer, variant, origin } = self;
        let turn = super::own_space(document).map_or(DAffine3::IDENTITY, |(_, turn)| turn);
        let rig_from_mesh = turn * model.world_from_mesh;
        let rig = super::to_rig(document, model, fps)?;
        let (origin, weights) = (rig_from_mesh.transform_point3(origin), weights.placed(rig_from_mesh.matrix3));
        let ddm = DdmRig { rig, origin, weights, layer, variant };
        ddm.check().map_err(|e| document.malformed(format!("{DDM_EXTENSION}: {e}")))?;
        Ok(ddm)
    }
}

fn read_multi_weights(document: &Document, content: &DdmExtension) -> Result<MultiWeights, IoError> {
    let broken = |what: String| document.malformed(format!("{DDM_EXTENSION}: {what}"));
    let what = |key: &str| format!("{DDM_EXTENSION}, {key}");
    let starts = document.integers::<1>(Index::new(content.starts), &what("starts"))?;
    let joints = document.integers::<1>(Index::new(content.joints), &what("joints"))?;
    let values = document.floats::<1>(Index::new(content.weights), &what("weights"))?;
    let centres = document.floats::<3>(Index::new(content.centers), &what("centers"))?;
    if let Some([joint]) = joints.iter().find(|[j]| *j > u32::from(u16::MAX)) {
        return Err(broken(format!("joint {joint}")));
    }
    MultiWeights::from_tables(
        content.width as usize,
        starts.into_flattened(),
        joints.into_iter().map(|[j]| j as u16).collect(),
        values.into_flattened(),
        centres.into_iter().map(Vec3::from_array).collect(),
    )
    .map_err(|e| broken(e.to_string()))
}
