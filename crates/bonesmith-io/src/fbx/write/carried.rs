//! Instances that move: nodes that show one geometry, each with curves of its own.
//!
//! A skin belongs to a geometry, so that meshes with different bones cannot share one. A mesh that follows one bone needs no skin: its node moves instead, and
//! a bone that moves no other mesh is not written.

use bonesmith_core::{BlendShape, Rig};
use glam::DAffine3;

use super::skeleton::Skeleton;
use crate::instances;
use crate::joints::{self, BoneNodes, Joints, NodeMotion};
use crate::parts::{Places, meshes_of, shapes_of};

/// A mesh whose node moves.
pub struct Carried {
    /// The mesh whose geometry it shows: itself or an earlier one.
    pub of: usize,
    /// From the geometry to the rest pose.
    pub world_from_node: DAffine3,
    pub motion: NodeMotion,
}

/// [meshes] of a rig near the origin: instances that move as a whole, and the meshes that they are instances of.
pub fn carried(rig: &Rig, shapes: &[BlendShape], places: &Places) -> Vec<Option<Carried>> {
    let parts = &rig.surface.parts;
    let mut found: Vec<Option<Carried>> = parts.meshes.iter().map(|_| None).collect();
    if parts.meshes.iter().all(|part| part.instance_of.is_none()) {
        return found;
    }
    let (meshes, of_meshes) = (meshes_of(rig), shapes_of(parts, shapes));
    let has_nodes = |at: usize| parts.nodes.iter().any(|node| node.parent == Some(parts.meshes[at].node));
    let carry = |at: usize, of: usize, place: DAffine3| {
        let weights = &meshes[at].weights;
        let (bone, _) = weights.of(0).next()?;
        let follows = (0..weights.vertex_count()).all(|i| weights.of(i).all(|(j, _)| j == bone));
        let world_from_node = place * parts.nodes[parts.meshes[of].node].world_from_node;
        let motion = if follows && !has_nodes(at) { joints::following(rig, bone, world_from_node) } else { None };
        Some(Carried { of, world_from_node, motion: motion? })
    };
    let twins = instances::twins(rig, &meshes, places, None, |at| of_meshes[at].is_empty());
    for (at, twin) in twins.iter().enumerate().filter_map(|(at, twin)| Some((at, twin.as_ref()?))) {
        let of = twin.of;
        let Some(first) = found[of].take().or_else(|| carry(of, of, DAffine3::IDENTITY)) else { continue };
        found[at] = carry(at, of, twin.place);
        // Without an instance it stays a mesh with a skin.
        let shown = found.iter().flatten().any(|other| other.of == of);
        found[of] = shown.then_some(first);
    }
    found
}

/// The nodes of such meshes as the writer of curves takes them: `models` are their numbers.
pub fn tree(carried: Vec<Option<Carried>>, models: &[i64]) -> (Joints, Skeleton) {
    let (mut nodes, mut joints) = (Vec::new(), Vec::new());
    for (own, &model) in carried.into_iter().zip(models) {
        let Some(own) = own else { continue };
        nodes.push(BoneNodes { parent: None, outer: None, fine: None, joint: own.motion });
        joints.push(model);
    }
    (Joints { nodes, inverse_binds: Vec::new() }, Skeleton { outers: vec![None; joints.len()], joints })
}
