//! Meshes whose nodes move, in formats in which a node has curves of its own: those that follow one bone alone need no skin.
//!
//! That is done with two kinds of meshes. A mesh whose bone is its own node: the bone has the name of the node, moves no other mesh, and no bone is above or
//! below it. And instances of which each follows such a bone: in FBX a skin belongs to a geometry, so that meshes with different bones cannot share one. A bone that moves nothing else is not written.

use bonesmith_core::{BlendShape, Rig};
use glam::DAffine3;

use crate::instances;
use crate::joints::{self, BoneNodes, Joints, NodeMotion};
use crate::parts::{PartMesh, Places, meshes_of, shapes_of, with_bones, without_bones_of};

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
    let (meshes, of_meshes) = (meshes_of(rig), shapes_of(parts, shapes));
    let has_nodes = |at: usize| parts.nodes.iter().any(|node| node.parent == Some(parts.meshes[at].node));
    let carry = |at: usize, of: usize, place: DAffine3| {
        let bone = only_bone(&meshes[at]).filter(|&j| !has_nodes(at) && is_alone(rig, j))?;
        let world_from_node = place * parts.nodes[parts.meshes[of].node].world_from_node;
        Some(Carried { of, world_from_node, motion: joints::following(rig, bone, world_from_node)? })
    };
    let is_own = own_nodes(rig, &meshes, places);
    let may = |at: usize| places.still[at].is_none() && of_meshes[at].is_empty();
    let own = |at: usize| is_own[at] && may(at);
    let mut found: Vec<Option<Carried>> =
        (0..meshes.len()).map(|at| if own(at) { carry(at, at, DAffine3::IDENTITY) } else { None }).collect();
    let twins = instances::twins(rig, &meshes, places, None, may);
    for (at, twin) in twins.iter().enumerate().filter_map(|(at, twin)| Some((at, twin.as_ref()?))) {
        let of = twin.of;
        let Some(first) = found[of].take().or_else(|| carry(of, of, DAffine3::IDENTITY)) else { continue };
        found[at] = carry(at, of, twin.place).or_else(|| found[at].take());
        // Without an instance it stays as it was.
        let shown = is_own[of] || found.iter().flatten().any(|other| other.of == of);
        found[of] = shown.then_some(first);
    }
    found
}

/// The bone that all vertices of a mesh follow.
fn only_bone(mesh: &PartMesh) -> Option<usize> {
    let (bone, _) = mesh.weights.of(0).next()?;
    let follows = |i: usize| mesh.weights.of(i).all(|(j, _)| j == bone);
    (0..mesh.weights.vertex_count()).all(follows).then_some(bone)
}

/// Whether no bone is above or below a bone: what hangs on a skeleton moves with it, also where programs blend or move its bones.
fn is_alone(rig: &Rig, j: usize) -> bool {
    rig.bones[j].parent.is_none() && rig.bones.iter().all(|bone| bone.parent != Some(j))
}

/// [meshes] whether the bone of each is its own node. What a mesh hangs on that does not move is of no interest.
fn own_nodes(rig: &Rig, meshes: &[PartMesh], places: &Places) -> Vec<bool> {
    let bones: Vec<Option<usize>> = meshes.iter().map(only_bone).collect();
    let mut users = vec![0; rig.bone_count()];
    for ((mesh, bone), _) in meshes.iter().zip(&bones).zip(&places.still).filter(|(_, still)| still.is_none()) {
        match bone {
            Some(bone) => users[*bone] += 1,
            None => users.iter_mut().zip(mesh.weights.usage(rig.bone_count())).for_each(|(all, own)| *all += own),
        }
    }
    let parts = &rig.surface.parts;
    let named = |at: usize, j: usize| parts.nodes[parts.meshes[at].node].name == rig.bones[j].name;
    let is_own =
        |(at, bone): (usize, &Option<usize>)| bone.is_some_and(|j| users[j] == 1 && named(at, j) && is_alone(rig, j));
    bones.iter().enumerate().map(is_own).collect()
}
