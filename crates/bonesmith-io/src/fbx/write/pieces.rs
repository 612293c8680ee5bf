//! Rigid pieces as nodes: a mesh for each bone with curves of its own. What is soft is a skinned mesh beside them, with bones of its
//! own.

use std::borrow::Cow;
use std::io;
use std::path::Path;

use bonesmith_core::Rig;
use bonesmith_core::transform::Trs;
use glam::DVec3;

use super::binary::Record;
use super::skeleton::{self, Skeleton};
use super::{ROOT, Scene, animation, check, extras, finished, first_times, material, mesh, plan, write_file};
use crate::IoError;
use crate::fbx::STRETCH;
use crate::joints::Joints;
use crate::origin::{far_origin, moved};
use crate::pieces::Parts;

/// Writes the rigid pieces of a rig as animated meshes, and the rest as a skin.
pub fn save_pieces(rig: &Rig, path: &Path) -> Result<(), IoError> {
    check(rig, path)?;
    let origin = far_origin(&rig.rest);
    let rig = &*origin.map_or(Cow::Borrowed(rig), |origin| Cow::Owned(moved(rig, -origin)));
    let mut parts = Parts::new(rig, path)?;
    parts.flatten();
    write_file(records(rig, &parts, origin.unwrap_or_default()).map_err(|e| IoError::os(path, e))?, path)
}

fn records(rig: &Rig, parts: &Parts<'_>, origin: DVec3) -> io::Result<Vec<Record>> {
    let mut scene = Scene::new();
    let rigid_plan = plan(&parts.rigid)?;
    let (mut models, nodes) = write_nodes(&mut scene, rig, parts, &rigid_plan, origin)?;
    let mut skinned = None;
    if let Some(soft) = &parts.soft {
        let plan = plan(soft)?;
        let mesh = mesh::write_skinned(&mut scene, soft, &extras(soft, &plan))?;
        models.push(mesh.model);
        let above = match is_nested(&rigid_plan) {
            true => {
                let id = scene.id();
                skeleton::node(&mut scene, id, "soft", &Trs::IDENTITY, "Null");
                scene.connect(id, ROOT);
                id
            }
            false => ROOT,
        };
        let skeleton = skeleton::write(&mut scene, soft, &plan, &mesh, above, origin)?;
        skinned = Some((plan, skeleton));
    }
    material::write(&mut scene, &rig.surface, |_| models.clone());
    let mut trees = vec![(&rigid_plan, &nodes)];
    trees.extend(skinned.as_ref().map(|(plan, skeleton)| (plan, skeleton)));
    for (c, clip) in rig.clips.iter().enumerate().filter(|(_, clip)| clip.frame_count() > 0) {
        animation::write(&mut scene, c, clip, &trees)?;
    }
    Ok(finished(scene, rig.surface.space, first_times(rig)))
}

/// Whether a piece needs two nodes. All meshes are then one deeper: readers sort nodes by depth, and the order of the pieces is kept.
fn is_nested(plan: &Joints) -> bool {
    plan.nodes.iter().any(|node| node.outer.is_some())
}

/// Nodes of the pieces below one at `origin`, and those that show a mesh.
fn write_nodes(
    scene: &mut Scene,
    rig: &Rig,
    parts: &Parts<'_>,
    plan: &Joints,
    origin: DVec3,
) -> io::Result<(Vec<i64>, Skeleton)> {
    let root = scene.id();
    let name = format!("{}_pieces", if rig.name.is_empty() { "rig" } else { &rig.name });
    skeleton::node(scene, root, &name, &Trs { translation: origin, ..Trs::IDENTITY }, "Null");
    scene.connect(root, ROOT);
    let nested = is_nested(plan);
    let (mut models, mut nodes) = (Vec::new(), Skeleton { outers: Vec::new(), joints: Vec::new() });
    for (j, (bone, own)) in parts.rigid.bones.iter().zip(&plan.nodes).enumerate() {
        let empty = |name: &str, place: &Trs, scene: &mut Scene| {
            let id = scene.id();
            skeleton::node(scene, id, name, place, "Null");
            id
        };
        let place = own.outer.as_ref().map_or(Trs::IDENTITY, |motion| motion.rest);
        let outer = nested.then(|| empty(&format!("{}{STRETCH}", bone.name), &place, scene));
        let node = match parts.part(j, plan) {
            Some(part) => {
                let mesh = mesh::write(scene, [&bone.name; 2], &part.rest, &part.surface, &own.joint.rest, None)?;
                models.push(mesh.model);
                mesh.model
            }
            None => empty(&bone.name, &own.joint.rest, scene),
        };
        if let Some(outer) = outer {
            scene.connect(node, outer);
        }
        scene.connect(outer.unwrap_or(node), root);
        nodes.outers.push(outer);
        nodes.joints.push(node);
    }
    Ok((models, nodes))
}
