//! A rig as several skins over one tree of joints, each with a mesh of its own: for engines that limit the joints of a skin.

use std::borrow::Cow;
use std::path::Path;

use bonesmith_core::Rig;
use glam::DAffine3;
use gltf_json::Node;

use super::animation::AnimationBuilder;
use super::buffer::Builder;
use super::material::write_materials;
use super::mesh::{MeshSource, write_mesh};
use super::{check_influences, placed, write_files, write_scene, write_skin, write_tree};
use crate::origin::{far_origin, moved};
use crate::pieces::mesh_of;
use crate::skins::groups;
use crate::{IoError, joints, texture};

/// Writes a rig as skins of at most `max_joints` joints. Returns the rig's vertex of each vertex of the file.
pub fn save_skins(rig: &Rig, path: &Path, max_joints: usize) -> Result<Vec<u32>, IoError> {
    let unsupported = |what: String| IoError::unsupported(path, what);
    rig.check().map_err(|e| unsupported(e.to_string()))?;
    if rig.rest.is_empty() {
        return Err(unsupported("the rig has no vertices".into()));
    }
    check_influences(rig.weights.max_influences()).map_err(unsupported)?;
    let groups = groups(rig, max_joints).map_err(unsupported)?;
    texture::warn_of_unwritable(&rig.surface, path);
    let rig = &*placed(rig);
    let origin = far_origin(&rig.rest);
    let rig = &*origin.map_or(Cow::Borrowed(rig), |origin| Cow::Owned(moved(rig, -origin)));
    let plan = joints::plan(rig);
    if let Some(bone) = plan.beyond_float32() {
        return Err(unsupported(joints::too_far(rig, bone)));
    }
    let mut builder = Builder::new();
    write_materials(&mut builder, &rig.surface);
    let tree = write_tree(&mut builder, rig, &plan);
    builder.root.nodes[tree.root.value()].translation = origin.map(|origin| origin.as_vec3().to_array());
    let (mut roots, mut order) = (vec![tree.root], Vec::new());
    let digits = groups.len().to_string().len();
    for (at, group) in groups.iter().enumerate() {
        let (rest, surface, weights) = mesh_of(rig, &group.vertices, &group.faces, &group.bones);
        let name = format!("{}_{:0digits$}", if rig.name.is_empty() { "mesh" } else { &rig.name }, at + 1);
        let source = MeshSource {
            name: &name,
            rest: &rest,
            surface: &surface,
            weights: Some((&weights, group.bones.len())),
            virtual_weights: None,
            targets: Vec::new(),
            first: 0,
        };
        let mesh = write_mesh(&mut builder, &source);
        let skin = write_skin(&mut builder, rig, &plan, &tree, Some(&group.bones), DAffine3::IDENTITY);
        let node = Node { mesh: Some(mesh), skin: Some(skin), name: Some(name), ..Node::default() };
        roots.push(builder.root.push(node));
        order.extend(&group.vertices);
    }
    write_scene(&mut builder, roots);
    for (c, clip) in rig.clips.iter().enumerate().filter(|(_, clip)| clip.frame_count() > 0) {
        let mut animation = AnimationBuilder::of_clip(&mut builder, clip).map_err(unsupported)?;
        tree.write_clip(&mut builder, &mut animation, &plan, c, true);
        animation.finish(&mut builder);
    }
    write_files(builder, path)?;
    Ok(order)
}
