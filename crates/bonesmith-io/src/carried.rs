//! Meshes whose nodes move, in formats in which a node has curves of its own: those that follow one bone alone need no skin.
//!
//! That is done with two kinds of meshes. A mesh whose bone is its own node: the bone has the name of the node, moves no other mesh, and no bone is above or
//! below it. And instances of which each follows such a bone: in FBX a skin belongs to a geometry, so that meshes with different bones cannot share one. A bone that moves nothing else is not written.

use std::ops::Range;

use bonesmith_core::{BlendShape, Part, Rig};
use glam::DAffine3;

use crate::instances;
use crate::joints::{self, BoneNodes, Joints, NodeMotion};
use crate::parts::{Places, meshes_of, shapes_of, with_bones, without_bones_of};

/// A mesh whose node moves.
pub(crate) struct Carried {
    /// The mesh whose geometry it shows: itself or an earlier one.
    pub of: usize,
    /// From the geometry to the rest pose.
    pub world_from_node: DAffine3,
    pub motion: NodeMotion,
}

/// Meshes whose nodes move, of a rig near the origin.
#[derive(Default)]
pub(crate) struct CarriedMeshes {
    /// [meshes].
    pub of_mesh: Vec<Option<Carried>>,
    /// The rig without their bones, where some are needed by nothing else. The meshes then hang on the first bone there is, if any.
    pub reduced: Option<Rig>,
}

impl CarriedMeshes {
    pub fn new(rig: &Rig, shapes: &[BlendShape], places: &Places) -> Self {
        let of_mesh = carried(rig, shapes, places);
        // Meshes that do not move have no bones of their own either.
        let apart = of_mesh.iter().zip(&places.still).map(|(own, still)| own.is_some() || still.is_some());
        let apart: Vec<bool> = apart.collect();
        let moves = of_mesh.iter().any(Option::is_some);
        let reduced = match (moves, apart.contains(&false)) {
            (false, _) => None,
            // No mesh has a skin, which would hold them.
            (true, false) => Some(with_bones(rig, &apart, &[])),
            (true, true) => without_bones_of(rig, &apart),
        };
        Self { of_mesh, reduced }
    }

    /// Mesh `at`, if its node moves.
    pub fn of(&self, at: usize) -> Option<&Carried> {
        self.of_mesh.get(at).and_then(Option::as_ref)
    }

    /// The motions of the nodes, as bones without a bind pose, and which of `nodes`, one for each mesh, they are of.
    pub fn into_joints<N: Copy>(self, nodes: &[N]) -> (Joints, Vec<N>) {
        let (mut joints, mut moved) = (Joints { nodes: Vec::new(), inverse_binds: Vec::new() }, Vec::new());
        for (own, &node) in self.of_mesh.into_iter().zip(nodes) {
            let Some(own) = own else { continue };
            joints.nodes.push(BoneNodes { parent: None, outer: None, fine: None, joint: own.motion });
            moved.push(node);
        }
        (joints, moved)
    }
}

fn carried(rig: &Rig, shapes: &[BlendShape], places: &Places) -> Vec<Option<Carried>> {
    let parts = &rig.surface.parts;
    let of_meshes = shapes_of(parts, shapes);
    let may = |at: usize| places.still[at].is_none() && of_meshes[at].is_empty();
    let bones = lone_bones(rig);
    let is_own: Vec<bool> =
        own_nodes(rig, &bones, places).iter().enumerate().map(|(at, own)| *own && may(at)).collect();
    let mut found: Vec<Option<Carried>> = parts.meshes.iter().map(|_| None).collect();
    let has_instances = parts.meshes.iter().any(|part| part.instance_of.is_some());
    if !has_instances && !is_own.contains(&true) {
        return found;
    }
    let carry = |at: usize, of: usize, place: DAffine3| {
        let world_from_node = place * parts.nodes[parts.meshes[of].node].world_from_node;
        Some(Carried { of, world_from_node, motion: joints::following(rig, bones[at]?, world_from_node)? })
    };
    for at in (0..found.len()).filter(|&at| is_own[at]) {
        found[at] = carry(at, at, DAffine3::IDENTITY);
    }
    let twins = if has_instances { instances::twins(rig, &meshes_of(rig), places, None, may) } else { Vec::new() };
    for (at, twin) in twins.iter().enumerate().filter_map(|(at, twin)| Some((at, twin.as_ref()?))) {
        let of = twin.of;
        let Some(first) = found[of].take().or_else(|| carry(of, of, DAffine3::IDENTITY)) else { continue };
        let own = carry(at, of, twin.place);
        // Without an instance it stays as it was.
        let keeps = own.is_some() || is_own[of] || found.iter().flatten().any(|other| other.of == of);
        found[at] = own.or_else(|| found[at].take());
        found[of] = keeps.then_some(first);
    }
    found
}

/// [meshes] the bone that all vertices of each follow, where no node is below the mesh and no bone above or below the bone: what hangs on a skeleton moves
/// with it, also where programs blend or move its bones.
fn lone_bones(rig: &Rig) -> Vec<Option<usize>> {
    let parts = &rig.surface.parts;
    let mut has_nodes = vec![false; parts.nodes.len()];
    parts.nodes.iter().filter_map(|node| node.parent).for_each(|parent| has_nodes[parent] = true);
    let mut has_bones: Vec<bool> = rig.bones.iter().map(|bone| bone.parent.is_some()).collect();
    rig.bones.iter().filter_map(|bone| bone.parent).for_each(|parent| has_bones[parent] = true);
    let only = |mut vertices: Range<usize>| {
        let (bone, _) = vertices.clone().next().and_then(|i| rig.weights.of(i).next())?;
        vertices.all(|i| rig.weights.of(i).all(|(j, _)| j == bone)).then_some(bone)
    };
    let bone = |(part, vertices, _): (&Part, Range<usize>, _)| {
        only(vertices).filter(|&j: &usize| !has_nodes[part.node] && !has_bones[j])
    };
    parts.ranges().map(bone).collect()
}

/// [meshes] whether the bone of each is its own node. What a mesh hangs on that does not move is of no interest.
fn own_nodes(rig: &Rig, bones: &[Option<usize>], places: &Places) -> Vec<bool> {
    let parts = &rig.surface.parts;
    // [B] meshes that follow each as a whole, or vertices of others.
    let mut users = vec![0usize; rig.bone_count()];
    for (at, (_, vertices, _)) in parts.ranges().enumerate().filter(|(at, _)| places.still[*at].is_none()) {
        match bones[at] {
            Some(bone) => users[bone] += 1,
            None => vertices.for_each(|i| rig.weights.of(i).for_each(|(j, _)| users[j] += 1)),
        }
    }
    let named = |at: usize, j: usize| parts.nodes[parts.meshes[at].node].name == rig.bones[j].name;
    let is_own = |(at, bone): (usize, &Option<usize>)| bone.is_some_and(|j| users[j] == 1 && named(at, j));
    bones.iter().enumerate().map(is_own).collect()
}
