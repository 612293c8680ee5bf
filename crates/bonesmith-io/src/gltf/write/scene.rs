//! The meshes of a scene as they were: a node and a mesh each, below the nodes they hung on, with one skin over one tree of joints. Meshes that do
//! not move are plain nodes.

use bonesmith_core::{BlendShape, Rig};
use glam::{DAffine3, DMat4, DVec3, Vec3};
use gltf_json::scene::UnitQuaternion;
use gltf_json::{Index, Mesh, Node};

use super::buffer::Builder;
use super::material::{name, write_materials};
use super::mesh::{MeshSource, Target, write_mesh};
use super::{Skinned, adopt, check_influences, write_joints, write_skin, write_tree};
use crate::joints;
use crate::parts::{PartMesh, Places, meshes_of, to_node, to_trs};

/// Writes the meshes of a rig, its joints and its skin; `rig` and `shapes` are in glTF's axes, relative to `origin`.
pub fn write_scene_of(
    builder: &mut Builder,
    rig: &Rig,
    shapes: &[BlendShape],
    origin: Option<DVec3>,
) -> Result<Skinned, String> {
    check_influences(rig.weights.max_influences())?;
    let plan = joints::plan(rig);
    if let Some(bone) = plan.beyond_float32() {
        return Err(joints::too_far(rig, bone));
    }
    write_materials(builder, &rig.surface);
    let (parts, places) = (&rig.surface.parts, Places::new(rig, origin, true));
    let nodes = write_nodes(builder, rig, &places);
    let tree = match parts.skeleton {
        Some(node) => write_joints(builder, rig, &plan, nodes[node]),
        None => {
            let tree = write_tree(builder, rig, &plan);
            builder.root.nodes[tree.root.value()].translation = origin.map(|origin| origin.as_vec3().to_array());
            tree
        }
    };
    let skin = write_skin(builder, rig, &plan, &tree, None);
    let (mut written, mut meshes): (Vec<Index<Mesh>>, Vec<_>) = (Vec::new(), Vec::new());
    for (at, (part, own)) in parts.meshes.iter().zip(meshes_of(rig)).enumerate() {
        let (node, still) = (nodes[part.node], places.still[at]);
        let moves = |shape: &BlendShape| shape.offsets[own.vertices.clone()].iter().any(|d| *d != Vec3::ZERO);
        let of_part: Vec<usize> = (0..shapes.len()).filter(|&s| still.is_none() && moves(&shapes[s])).collect();
        let mesh = match places.instance_of[at] {
            Some(of) => written[of],
            None => {
                let shapes: Vec<&BlendShape> = of_part.iter().map(|&s| &shapes[s]).collect();
                write_part(builder, rig, &part.mesh, own, &shapes, still)
            }
        };
        written.push(mesh);
        let json = &mut builder.root.nodes[node.value()];
        json.mesh = Some(mesh);
        if still.is_none() {
            json.skin = Some(skin);
            meshes.push((node, of_part));
        }
    }
    let mut roots: Vec<Index<Node>> = if parts.skeleton.is_none() { vec![tree.root] } else { Vec::new() };
    roots.extend(parts.nodes.iter().zip(&nodes).filter(|(node, _)| node.parent.is_none()).map(|(_, index)| *index));
    Ok(Skinned { plan, tree, meshes, roots })
}

/// [nodes] of the scene: those that group first, then those of meshes in the order of the meshes, in which they are read.
fn write_nodes(builder: &mut Builder, rig: &Rig, places: &Places) -> Vec<Index<Node>> {
    let parts = &rig.surface.parts;
    let mut has_mesh = vec![false; parts.nodes.len()];
    parts.meshes.iter().for_each(|part| has_mesh[part.node] = true);
    let groups = (0..parts.nodes.len()).filter(|&n| !has_mesh[n]);
    let mut nodes = vec![Index::new(0); parts.nodes.len()];
    for n in groups.chain(parts.meshes.iter().map(|part| part.node)) {
        nodes[n] = builder.root.push(node(&parts.nodes[n].name, places.locals[n]));
    }
    for (n, own) in parts.nodes.iter().enumerate() {
        if let Some(parent) = own.parent {
            adopt(builder, nodes[parent], nodes[n]);
        }
    }
    nodes
}

fn node(own_name: &str, local: DAffine3) -> Node {
    let mut node = Node { name: name(own_name), ..Node::default() };
    match to_trs(local) {
        Some(trs) => {
            let vector = |v: DVec3, default: DVec3| (v != default).then(|| v.as_vec3().to_array());
            node.translation = vector(trs.translation, DVec3::ZERO);
            node.scale = vector(trs.scale, DVec3::ONE);
            let turns = trs.rotation != glam::DQuat::IDENTITY;
            node.rotation = turns.then(|| UnitQuaternion(trs.rotation.as_quat().to_array()));
        }
        None => node.matrix = Some(DMat4::from(local).as_mat4().to_cols_array()),
    }
    node
}

/// One mesh: for bones, or, where it does not move, in the space of its node.
fn write_part(
    builder: &mut Builder,
    rig: &Rig,
    own_name: &str,
    mesh: PartMesh,
    shapes: &[&BlendShape],
    still: Option<DAffine3>,
) -> Index<Mesh> {
    let PartMesh { mut rest, mut surface, weights, vertices } = mesh;
    if let Some(place) = still {
        to_node(&mut rest, &mut surface, place);
    }
    let source = MeshSource {
        name: own_name,
        rest: &rest,
        surface: &surface,
        weights: still.is_none().then_some((&weights, rig.bone_count())),
        virtual_weights: None,
        first: vertices.start,
        targets: shapes
            .iter()
            .map(|shape| (Target::Offsets(&shape.offsets[vertices.clone()]), shape.name.clone()))
            .collect(),
    };
    write_mesh(builder, &source)
}
