//! Levels of detail in one file: one tree of joints, one skin, a mesh for each level. The node of the finest names the others in the
//! extension MSFT_lod; these are in no scene, so that readers without the extension show the finest level alone.

use std::borrow::Cow;
use std::path::Path;

use bonesmith_core::{Rig, SparseWeights};
use glam::DAffine3;
use gltf_json::{Index, Node};

use super::animation::AnimationBuilder;
use super::buffer::Builder;
use super::mesh::{MeshSource, write_mesh};
use super::{check_influences, placed, write_files, write_scene, write_skin, write_tree};
use crate::origin::{far_origin, moved};
use crate::{IoError, joints, texture};

const LOD_EXTENSION: &str = "MSFT_lod";

/// A level: a mesh of the rig's bones.
#[derive(Clone, Debug)]
pub struct LodMesh {
    /// Rest pose, surface and weights, as a rig with the bones of the finest level, without clips.
    pub mesh: Rig,
    /// Share of the screen down to which it is shown.
    pub coverage: f64,
}

/// Writes levels, finest first. `rig` has the bones and the clips of all.
pub fn save_lods(rig: &Rig, levels: &[LodMesh], path: &Path) -> Result<(), IoError> {
    let unsupported = |what: String| IoError::unsupported(path, what);
    rig.check().map_err(|e| unsupported(e.to_string()))?;
    let Some(finest) = levels.first() else { return Err(unsupported("no levels".into())) };
    if levels.iter().any(|level| level.mesh.rest.is_empty() || level.mesh.bone_count() != rig.bone_count()) {
        return Err(unsupported("a level without vertices, or with other bones than the rig".into()));
    }
    for level in levels {
        level.mesh.check().map_err(|e| unsupported(e.to_string()))?;
        check_influences(level.mesh.weights.max_influences()).map_err(unsupported)?;
    }
    texture::warn_of_unwritable(&finest.mesh.surface, path);
    let rig = &*placed(rig);
    let origin = far_origin(&rig.rest);
    let at_origin = |rig: &Rig| origin.map_or_else(|| rig.clone(), |origin| moved(rig, -origin));
    let rig = &*origin.map_or(Cow::Borrowed(rig), |origin| Cow::Owned(moved(rig, -origin)));
    let plan = joints::plan(rig);
    if let Some(bone) = plan.beyond_float32() {
        return Err(unsupported(joints::too_far(rig, bone)));
    }
    let mut builder = Builder::new();
    let tree = write_tree(&mut builder, rig, &plan);
    builder.root.nodes[tree.root.value()].translation = origin.map(|origin| origin.as_vec3().to_array());
    let mut skin = None;
    let mut nodes: Vec<Index<Node>> = Vec::new();
    for (at, level) in levels.iter().enumerate() {
        let level = at_origin(&placed(&level.mesh));
        let name = format!("{}_lod{at}", if rig.name.is_empty() { "mesh" } else { &rig.name });
        let weights: &SparseWeights = &level.weights;
        let source = MeshSource {
            name: &name,
            rest: &level.rest,
            surface: &level.surface,
            weights: Some((weights, rig.bone_count())),
            virtual_weights: None,
            targets: Vec::new(),
            first: 0,
        };
        let mesh = write_mesh(&mut builder, &source);
        let skin = *skin.get_or_insert_with(|| write_skin(&mut builder, rig, &plan, &tree, None, DAffine3::IDENTITY));
        let node = Node { mesh: Some(mesh), skin: Some(skin), name: Some(name), ..Node::default() };
        nodes.push(builder.root.push(node));
    }
    extend(&mut builder, &nodes, levels);
    write_scene(&mut builder, vec![tree.root, nodes[0]]);
    for (c, clip) in rig.clips.iter().enumerate().filter(|(_, clip)| clip.frame_count() > 0) {
        let mut animation = AnimationBuilder::of_clip(&mut builder, clip).map_err(unsupported)?;
        tree.write_clip(&mut builder, &mut animation, &plan, c, true);
        animation.finish(&mut builder);
    }
    write_files(builder, path)
}

/// Names the coarser nodes at the finest one.
fn extend(builder: &mut Builder, nodes: &[Index<Node>], levels: &[LodMesh]) {
    if nodes.len() < 2 {
        return;
    }
    let ids: Vec<usize> = nodes[1..].iter().map(Index::value).collect();
    let mut extension = gltf_json::extensions::scene::Node::default();
    extension.others.insert(LOD_EXTENSION.to_owned(), serde_json::json!({ "ids": ids }));
    let coverage: Vec<f64> = levels.iter().map(|level| level.coverage).collect();
    let extras = serde_json::json!({ "MSFT_screencoverage": coverage }).to_string();
    let node = &mut builder.root.nodes[nodes[0].value()];
    node.extensions = Some(extension);
    node.extras = serde_json::value::RawValue::from_string(extras).ok();
    builder.root.extensions_used.push(LOD_EXTENSION.to_owned());
}
