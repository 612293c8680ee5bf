//! Rigid pieces as nodes: no skin, a mesh for each bone below its own animated node. Every viewer moves them exactly.

use std::borrow::Cow;
use std::path::Path;

use bonesmith_core::{Rig, Surface};

use super::animation::{AnimationBuilder, KeyTimes};
use super::buffer::Builder;
use super::material::write_materials;
use super::mesh::{MeshSource, write_mesh};
use super::{Tree, placed, write_files, write_scene, write_tree};
use crate::joints;
use crate::origin::{far_origin, moved};
use crate::pieces::Parts;
use crate::{IoError, texture};

/// Writes a rig whose vertices have one influence each as animated nodes, one mesh for each bone.
pub fn save_pieces(rig: &Rig, path: &Path) -> Result<(), IoError> {
    let unsupported = |what: String| IoError::Unsupported { path: path.to_owned(), what };
    rig.check().map_err(|e| unsupported(e.to_string()))?;
    let parts = Parts::new(rig, path)?;
    texture::warn_of_unwritable(&rig.surface, path);
    let rig = &*placed(rig);
    let origin = far_origin(&rig.rest);
    let rig = &*origin.map_or(Cow::Borrowed(rig), |origin| Cow::Owned(moved(rig, -origin)));
    let mut builder = Builder::new();
    write_materials(&mut builder, &rig.surface);
    let plan = joints::plan(rig);
    let tree = write_tree(&mut builder, rig, &plan);
    let root = &mut builder.root.nodes[tree.root.value()];
    root.translation = origin.map(|origin| origin.as_vec3().to_array());
    root.name = Some(format!("{}_pieces", if rig.name.is_empty() { "rig" } else { &rig.name }));
    for j in 0..rig.bone_count() {
        let part = parts.part(rig, j);
        if part.rest.is_empty() {
            continue;
        }
        // Where the vertices are below the node.
        let bind = glam::DMat4::from_cols_array(&plan.inverse_binds[j].map(f64::from));
        let rest: Vec<_> = part.rest.iter().map(|p| bind.transform_point3(p.as_dvec3()).as_vec3()).collect();
        let surface = turned(part.surface, &bind);
        let source = MeshSource {
            name: &rig.bones[j].name,
            rest: &rest,
            surface: &surface,
            weights: None,
            virtual_weights: None,
            targets: Vec::new(),
        };
        let mesh = write_mesh(&mut builder, &source);
        builder.root.nodes[tree.joints[j].value()].mesh = Some(mesh);
    }
    write_scene(&mut builder, vec![tree.root]);
    write_clips(&mut builder, rig, &plan, &tree).map_err(unsupported)?;
    write_files(builder, path)
}

/// Normals and tangents below a node.
fn turned(mut surface: Surface, bind: &glam::DMat4) -> Surface {
    surface.turn(glam::DMat3::from_mat4(*bind));
    surface
}

/// The clips of a rig as animations of its nodes; an error names the clip.
fn write_clips(builder: &mut Builder, rig: &Rig, plan: &joints::Joints, tree: &Tree) -> Result<(), String> {
    for (c, clip) in rig.clips.iter().enumerate().filter(|(_, clip)| clip.frame_count() > 0) {
        let times = KeyTimes::new(&clip.times_secs)
            .ok_or_else(|| format!("clip {:?}: its times do not rise in float32", clip.name))?;
        let mut animation = AnimationBuilder::new(builder, &clip.name, &times);
        for (j, bone) in plan.nodes.iter().enumerate() {
            // One channel with every key, so that a clip in which nothing moves keeps its length.
            let all_keys = j == 0;
            match (tree.outers[j], &bone.outer) {
                (Some(node), Some(motion)) => {
                    animation.node(builder, node, motion, c, all_keys);
                    animation.node(builder, tree.joints[j], &bone.joint, c, false);
                }
                _ => animation.node(builder, tree.joints[j], &bone.joint, c, all_keys),
            }
        }
        animation.finish(builder);
    }
    Ok(())
}
