//! Rigid pieces as nodes: a mesh for each bone below its own animated node, which every viewer moves exactly. What is soft is a
//! skinned mesh beside them, with bones of its own.

use std::borrow::Cow;
use std::path::Path;

use bonesmith_core::Rig;

use super::animation::AnimationBuilder;
use super::buffer::Builder;
use super::material::write_materials;
use super::mesh::{MeshSource, write_mesh};
use super::{Layers, placed, write_files, write_scene, write_skinned, write_tree};
use crate::origin::{far_origin, moved};
use crate::pieces::Parts;
use crate::{IoError, joints, texture};

/// Writes the rigid pieces of a rig as animated nodes, one mesh for each bone, and the rest as a skin.
pub fn save_pieces(rig: &Rig, path: &Path) -> Result<(), IoError> {
    let unsupported = |what: String| IoError::Unsupported { path: path.to_owned(), what };
    rig.check().map_err(|e| unsupported(e.to_string()))?;
    texture::warn_of_unwritable(&rig.surface, path);
    let rig = &*placed(rig);
    let origin = far_origin(&rig.rest);
    let rig = &*origin.map_or(Cow::Borrowed(rig), |origin| Cow::Owned(moved(rig, -origin)));
    let parts = Parts::new(rig, path)?;
    let rigid = &*parts.rigid;
    let mut builder = Builder::new();
    write_materials(&mut builder, &rig.surface);
    let plan = joints::plan(rigid);
    if let Some(bone) = plan.beyond_float32() {
        return Err(unsupported(joints::too_far(rigid, bone)));
    }
    let tree = write_tree(&mut builder, rigid, &plan);
    let root = &mut builder.root.nodes[tree.root.value()];
    root.translation = origin.map(|origin| origin.as_vec3().to_array());
    root.name = Some(format!("{}_pieces", if rig.name.is_empty() { "rig" } else { &rig.name }));
    for j in 0..rigid.bone_count() {
        let Some(part) = parts.part(j, &plan) else { continue };
        let source = MeshSource {
            name: &rigid.bones[j].name,
            rest: &part.rest,
            surface: &part.surface,
            weights: None,
            virtual_weights: None,
            targets: Vec::new(),
            first: 0,
        };
        let mesh = write_mesh(&mut builder, &source);
        builder.root.nodes[tree.joints[j].value()].mesh = Some(mesh);
    }
    let mut roots = vec![tree.root];
    let mut skinned = None;
    if let Some(soft) = &parts.soft {
        let soft = write_skinned(&mut builder, soft, Layers::None, &[], origin).map_err(unsupported)?;
        roots.extend(&soft.roots);
        skinned = Some(soft);
    }
    write_scene(&mut builder, roots);
    for (c, clip) in rig.clips.iter().enumerate().filter(|(_, clip)| clip.frame_count() > 0) {
        let mut animation = AnimationBuilder::of_clip(&mut builder, clip).map_err(unsupported)?;
        tree.write_clip(&mut builder, &mut animation, &plan, c, true);
        if let Some(soft) = &skinned {
            soft.tree.write_clip(&mut builder, &mut animation, &soft.plan, c, false);
        }
        animation.finish(&mut builder);
    }
    write_files(builder, path)
}
