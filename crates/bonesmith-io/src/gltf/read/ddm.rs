//! Direct Delta Mush rigs: the extension `BONESMITH_ddm` on the skin.
//!
//! Rows of multi-weights belong to the vertices that were written, or to virtual bones: where another program rewrote the
//! vertices, the file is a plain rig, and is read as such.

use bonesmith_core::DdmRig;
use bonesmith_core::model::ddm::Variant;
use bonesmith_core::model::multi_weights::MultiWeights;
use glam::{DAffine3, DVec3, Vec3};
use gltf_json::Index;

use super::document::Document;
use super::two_layer::{originals, read_virtual};
use crate::IoError;
use crate::gltf::extras::{DDM_EXTENSION, DdmExtension};

/// Reads a rig with multi-weights; `None` if the file holds something else.
pub fn load(document: &Document) -> Result<Option<DdmRig>, IoError> {
    let [skin] = document.root.skins.as_slice() else { return Ok(None) };
    let content = skin.extensions.as_ref().and_then(|extension| extension.others.get(DDM_EXTENSION));
    let Some(content) = content else { return Ok(None) };
    let broken = |what: String| document.malformed(format!("{DDM_EXTENSION}: {what}"));
    let content: DdmExtension =
        serde_json::from_value(content.clone()).map_err(|e| broken(format!("not as specified: {e}")))?;
    let [mesh] = document.root.meshes.as_slice() else { return Ok(None) };
    let weights = read_multi_weights(document, &content)?;
    let variant = Variant::try_from(content.variant).map_err(broken)?;
    let model = super::Model::read(document, None)?;
    let n = model.rest.len();
    let layer = match content.compressed {
        true => match read_virtual(document, &mesh.primitives, n, DDM_EXTENSION)? {
            Some(layer) => Some(layer),
            None => return Ok(None),
        },
        false if weights.count() != n => return Ok(None),
        false => {
            // The rows are those of the vertices as they were.
            for primitive in &mesh.primitives {
                if originals(document, primitive, mesh.primitives.len(), n)?.is_none() {
                    return Ok(None);
                }
            }
            None
        }
    };
    // Tables are in the space of POSITION, the rig is where it was before it was written.
    let turn = super::own_space(document).map_or(DAffine3::IDENTITY, |(_, turn)| turn);
    let rig_from_mesh = turn * model.world_from_mesh;
    let rig = super::to_rig(document, model, None)?;
    let origin = rig_from_mesh.transform_point3(DVec3::from_array(content.origin));
    let ddm = DdmRig { rig, origin, weights: weights.placed(rig_from_mesh.matrix3), layer, variant };
    ddm.check().map_err(|e| broken(e.to_string()))?;
    Ok(Some(ddm))
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
