//! The meshes of a scene as they were: a node and a mesh each, below the nodes they hung on, each with a skin of its own over one tree of joints: of the
//! bones that it uses. Meshes that use the same bones share a skin, and those that do not move are plain nodes. Instances of one mesh that hang on their bones
//! in the same way stay instances: each has its own skin.

use std::path::Path;

use bonesmith_core::transform::Trs;
use bonesmith_core::{BlendShape, Parts, Rig};
use glam::{DAffine3, DMat4, DVec3};
use gltf_json::scene::UnitQuaternion;
use gltf_json::{Index, Mesh, Node, Skin};

use super::buffer::Builder;
use super::material::{name, write_materials};
use super::mesh::{MeshSource, Target, write_mesh};
use super::{Skinned, Tree, adopt, check_influences, write_joints, write_skin, write_tree};
use crate::carried::CarriedMeshes;
use crate::instances;
use crate::joints::{self, Joints};
use crate::parts::{PartMesh, Places, meshes_of, shapes_of, to_node, to_trs};
use crate::pieces::of_vertices;
use crate::warning;

/// Writes the meshes of a rig, its joints and its skin; `rig` and `shapes` are in glTF's axes, relative to `origin`.
pub fn write_scene_of(
    builder: &mut Builder,
    rig: &Rig,
    shapes: &[BlendShape],
    origin: Option<DVec3>,
    path: &Path,
) -> Result<Skinned, String> {
    check_influences(rig.weights.max_influences())?;
    let places = Places::new(rig, shapes, origin, true);
    // Small files round what bones do.
    let may_move = origin.is_none() && builder.compact.is_none();
    let mut carried = if may_move { CarriedMeshes::new(rig, shapes, &places) } else { CarriedMeshes::default() };
    let reduced = carried.reduced.take();
    let rig = reduced.as_ref().unwrap_or(rig);
    let plan = joints::plan(rig);
    if let Some(bone) = plan.beyond_float32() {
        return Err(joints::too_far(rig, bone));
    }
    write_materials(builder, &rig.surface);
    let parts = &rig.surface.parts;
    let nodes = write_nodes(builder, parts, &places);
    let tree = match parts.skeleton {
        _ if rig.bones.is_empty() => Tree { root: Index::new(0), outers: Vec::new(), joints: Vec::new() },
        Some(node) => write_joints(builder, rig, &plan, nodes[node]),
        None => {
            let tree = write_tree(builder, rig, &plan);
            builder.root.nodes[tree.root.value()].translation = origin.map(|origin| origin.as_vec3().to_array());
            tree
        }
    };
    let mut skins = Skins::new(rig, |at| places.still[at].is_none() && carried.of(at).is_none());
    let (mut written, mut meshes): (Vec<Index<Mesh>>, Vec<_>) = (Vec::new(), Vec::new());
    let all = meshes_of(rig);
    let of_meshes = shapes_of(parts, shapes);
    // Small files round each mesh by itself.
    let shared = |at: usize| of_meshes[at].is_empty() && builder.compact.is_none() && carried.of(at).is_none();
    let twins = instances::twins(rig, &all, &places, origin, shared);
    let is_apart = |at: &usize| {
        let shows = carried.of(*at).map_or(places.instance_of[*at], |own| Some(own.of).filter(|of| of != at));
        parts.meshes[*at].instance_of.is_some() && shows.is_none() && twins[*at].is_none()
    };
    let apart = (0..all.len()).filter(is_apart).map(|at| parts.name(&parts.meshes[at]).to_owned());
    warning::instances(path, apart.collect());
    for (at, (part, own)) in parts.meshes.iter().zip(all).enumerate() {
        let (node, own_motion) = (nodes[part.node], carried.of(at));
        let still = own_motion.map(|own| own.world_from_node).or(places.still[at]);
        let shown = own_motion.map(|own| own.of).filter(|&of| of != at).or(places.instance_of[at]);
        let mesh = match shown.or(twins[at].as_ref().map(|twin| twin.of)) {
            Some(of) => written[of],
            None => {
                let shapes: Vec<&BlendShape> = of_meshes[at].iter().map(|&s| &shapes[s]).collect();
                write_part(builder, &part.mesh, own, &shapes, still, skins.numbers(at))
            }
        };
        written.push(mesh);
        let skin = still.is_none().then(|| match &twins[at] {
            Some(twin) => {
                let bones: Vec<usize> = skins.bones[skins.of_mesh[twin.of]].iter().map(|j| twin.bone(*j)).collect();
                write_skin(builder, rig, &plan, &tree, Some(&bones), twin.place)
            }
            None => skins.write(builder, rig, &plan, &tree, at),
        });
        let json = &mut builder.root.nodes[node.value()];
        if let Some(own) = own_motion {
            place_at(json, &own.motion.rest);
        }
        json.mesh = Some(mesh);
        json.skin = skin;
        if skin.is_some() {
            meshes.push((node, of_meshes[at].clone()));
        }
    }
    let is_top = parts.skeleton.is_none() && !rig.bones.is_empty();
    let mut tops: Vec<Index<Node>> = if is_top { vec![tree.root] } else { Vec::new() };
    tops.extend(roots(parts, &nodes));
    let of_meshes: Vec<Index<Node>> = parts.meshes.iter().map(|part| nodes[part.node]).collect();
    let (joints, moved) = carried.into_joints(&of_meshes);
    let moved = Tree { root: Index::new(0), outers: vec![None; moved.len()], joints: moved };
    Ok(Skinned { plan, tree, moved: Some((joints, moved)), meshes, roots: tops })
}

/// The nodes at the top of a scene.
pub fn roots(parts: &Parts, nodes: &[Index<Node>]) -> Vec<Index<Node>> {
    parts.nodes.iter().zip(nodes).filter(|(node, _)| node.parent.is_none()).map(|(_, index)| *index).collect()
}

/// [nodes] of the scene: those that group first, then those of meshes in the order of the meshes, in which they are read.
pub fn write_nodes(builder: &mut Builder, parts: &Parts, places: &Places) -> Vec<Index<Node>> {
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
        Some(trs) => place_at(&mut node, &trs),
        None => node.matrix = Some(DMat4::from(local).as_mat4().to_cols_array()),
    }
    node
}

/// Gives a node its place.
fn place_at(node: &mut Node, trs: &Trs) {
    let vector = |v: DVec3, default: DVec3| (v != default).then(|| v.as_vec3().to_array());
    node.translation = vector(trs.translation, DVec3::ZERO);
    node.scale = vector(trs.scale, DVec3::ONE);
    let turns = trs.rotation != glam::DQuat::IDENTITY;
    node.rotation = turns.then(|| UnitQuaternion(trs.rotation.as_quat().to_array()));
}

/// One mesh: for bones, or, where it does not move, in the space of its node.
fn write_part(
    builder: &mut Builder,
    own_name: &str,
    mesh: PartMesh,
    shapes: &[&BlendShape],
    still: Option<DAffine3>,
    (numbers, joints): (&[usize], usize),
) -> Index<Mesh> {
    let PartMesh { mut rest, mut surface, weights, vertices } = mesh;
    let all: Vec<u32> = (0..rest.len() as u32).collect();
    // Without a skin there may be no bones either.
    let weights = of_vertices(&weights, &all, |j| if still.is_none() { numbers[j] } else { 0 });
    if let Some(place) = still {
        to_node(&mut rest, &mut surface, place);
    }
    let source = MeshSource {
        name: own_name,
        rest: &rest,
        surface: &surface,
        weights: still.is_none().then_some((&weights, joints)),
        virtual_weights: None,
        first: vertices.start,
        targets: shapes
            .iter()
            .map(|shape| (Target::Offsets(&shape.offsets[vertices.clone()]), shape.name.clone()))
            .collect(),
    };
    write_mesh(builder, &source)
}

/// The skins of a scene.
struct Skins {
    /// Bones of each skin, ascending.
    bones: Vec<Vec<usize>>,
    /// [skins][B] number of each bone within it.
    numbers: Vec<Vec<usize>>,
    /// [meshes].
    of_mesh: Vec<usize>,
    /// [skins] that are written.
    written: Vec<Option<Index<Skin>>>,
}

impl Skins {
    /// A skin for each set of bones that meshes use. Bones that no vertex follows are in the first one.
    fn new(rig: &Rig, is_skinned: impl Fn(usize) -> bool) -> Self {
        let used = |(at, vertices): (usize, std::ops::Range<usize>)| {
            let mut used = vec![false; rig.bone_count()];
            vertices.filter(|_| is_skinned(at)).flat_map(|i| rig.weights.of(i)).for_each(|(j, _)| used[j] = true);
            used
        };
        let of_meshes = rig.surface.parts.ranges().map(|(_, vertices, _)| vertices).enumerate();
        let mut of_meshes: Vec<Vec<bool>> = of_meshes.map(used).collect();
        let moving: Vec<usize> = (0..of_meshes.len()).filter(|&at| is_skinned(at)).collect();
        if let Some(&first) = moving.first() {
            let idle: Vec<usize> =
                (0..rig.bone_count()).filter(|&j| !moving.iter().any(|&at| of_meshes[at][j])).collect();
            idle.into_iter().for_each(|j| of_meshes[first][j] = true);
        }
        let mut skins = Self { bones: Vec::new(), numbers: Vec::new(), of_mesh: Vec::new(), written: Vec::new() };
        for used in of_meshes {
            let bones: Vec<usize> = (0..rig.bone_count()).filter(|&j| used[j]).collect();
            let known = skins.bones.iter().position(|known| *known == bones);
            skins.of_mesh.push(known.unwrap_or(skins.bones.len()));
            if known.is_none() {
                let mut numbers = vec![0; rig.bone_count()];
                bones.iter().enumerate().for_each(|(at, &j)| numbers[j] = at);
                skins.bones.push(bones);
                skins.numbers.push(numbers);
                skins.written.push(None);
            }
        }
        skins
    }

    /// [B] joints of the bones in the skin of a mesh, and how many it has.
    fn numbers(&self, mesh: usize) -> (&[usize], usize) {
        let skin = self.of_mesh[mesh];
        (&self.numbers[skin], self.bones[skin].len())
    }

    /// The skin of a mesh, written at its first use.
    fn write(&mut self, builder: &mut Builder, rig: &Rig, plan: &Joints, tree: &Tree, mesh: usize) -> Index<Skin> {
        let skin = self.of_mesh[mesh];
        let some = (self.bones[skin].len() < rig.bone_count()).then_some(&self.bones[skin][..]);
        *self.written[skin].get_or_insert_with(|| write_skin(builder, rig, plan, tree, some, DAffine3::IDENTITY))
    }
}
