//! All meshes of a file as one skinned model, as `gltf::read::model` does it for glTF.
//!
//! A mesh without a skin hangs on its own node as on a bone. The rest pose stands where the bind pose of its clusters shows
//! it, wherever they agree on that.

use std::collections::HashMap;

use bonesmith_core::transform::nearest_rotation;
use bonesmith_core::{Bone, SparseWeights, Surface};
use glam::{DAffine3, DVec3, Vec3};
use ufbx::{Mesh, Node, SkinDeformer, SkinningMethod};

use super::document::{Document, affine, number, point};
use super::{extras_of, parts, surface};
use crate::fbx::{STRETCH, TIPS};
use crate::load::{missing, picks};
use crate::skinned::{UniqueNames, pack_weights, place_at_rest, same_bind};
use crate::{IoError, MeshEntry, merge};

/// Most bones, as everywhere.
const MAX_BONES: usize = 1 << 16;

/// A skinned model; N vertices, B bones.
pub struct Model {
    /// Name of the only mesh, else of the file.
    pub name: String,
    /// [N] in the space of the scene.
    pub rest: Vec<Vec3>,
    /// Faces and what lies on them.
    pub surface: Surface,
    /// [N, K].
    pub weights: SparseWeights,
    /// [B].
    pub bones: Vec<ModelBone>,
    /// Meshes that are read, in order.
    pub instances: Vec<Instance>,
    /// Whether any mesh has a skin.
    pub skinned: bool,
    /// Whether linear blend skinning is all that its skins ask for.
    pub linear: bool,
}

/// A mesh at a node.
pub struct Instance {
    /// The node.
    pub node: usize,
    /// Number of its vertices.
    pub vertices: usize,
    /// From its control points to the rest pose.
    pub world_from_mesh: DAffine3,
}

/// One bone.
pub struct ModelBone {
    /// Its node.
    pub node: usize,
    /// Name of the node.
    pub name: String,
    /// `posed_from_rest = world_from_node(t) * node_from_rest`.
    pub node_from_rest: DAffine3,
    /// Place and orientation at rest; rigid.
    pub world_from_bind: DAffine3,
    /// Where it ends, if a node without a part of the mesh says so.
    pub tip: Option<DVec3>,
}

/// What moves a vertex.
struct Joint {
    node: usize,
    node_from_mesh: DAffine3,
    world_at_bind: DAffine3,
}

/// Meshes of a file.
pub fn list(document: &Document) -> Vec<MeshEntry> {
    let entry = |(node, mesh): (&Node, &Mesh)| MeshEntry { name: name_of(node, mesh), vertices: mesh.num_vertices };
    meshes(document).map(entry).collect()
}

fn meshes(document: &Document) -> impl Iterator<Item = (&Node, &Mesh)> {
    let nodes = document.scene().nodes.iter();
    nodes.filter_map(|node| node.mesh.as_ref().map(|mesh| (&**node, &**mesh))).filter(|(_, mesh)| mesh.num_vertices > 0)
}

/// The meshes in the order in which our own files number them, else in that of the file.
fn in_scene_order(document: &Document) -> Vec<(&Node, &Mesh)> {
    let mut all: Vec<(Option<usize>, (&Node, &Mesh))> =
        meshes(document).map(|(node, mesh)| (extras_of(node).part, (node, mesh))).collect();
    if all.iter().all(|(part, _)| part.is_some()) {
        all.sort_by_key(|(part, _)| *part);
    }
    all.into_iter().map(|(_, mesh)| mesh).collect()
}

fn name_of(node: &Node, mesh: &Mesh) -> String {
    let own = node.element.name.to_string();
    if own.is_empty() { mesh.element.name.to_string() } else { own }
}

impl Model {
    /// Reads all meshes, or the one that is named.
    pub fn read(document: &Document, only: Option<&str>) -> Result<Self, IoError> {
        let wanted = |node: &Node, mesh: &Mesh| {
            only.is_none_or(|only| [&node.element, &mesh.element].iter().any(|element| picks(only, &element.name)))
        };
        let mut builder = Builder { linear: true, ..Builder::default() };
        let mut names = Vec::new();
        for (node, mesh) in in_scene_order(document) {
            if wanted(node, mesh) {
                builder.add(document, node, mesh)?;
            }
            names.push(name_of(node, mesh));
        }
        let is_there = |one: &str| {
            meshes(document).any(|(node, mesh)| [&node.element, &mesh.element].iter().any(|e| e.name.as_ref() == one))
        };
        if let Some(lost) = only.and_then(|only| missing(only, is_there)) {
            return Err(document.unsupported(format!("no mesh is named {lost:?}; there are {names:?}")));
        }
        if builder.instances.is_empty() {
            return Err(document.unsupported("there is no polygon mesh in it"));
        }
        if builder.skinned {
            builder.add_rest_of_skeleton(document);
        }
        let name = match (&builder.instances[..], names.as_slice()) {
            ([_], [name]) => name.clone(),
            ([one], _) => document.scene().nodes[one.node].element.name.to_string(),
            _ => document.stem(),
        };
        let Builder { rest, influences, bones, instances, skinned, linear, parts, .. } = builder;
        let weights = pack_weights(document.path(), &influences);
        let mut surface = parts.finish_scene(document.path(), |meshes| parts::scene(document, &instances, meshes));
        surface.space = document.space;
        Ok(Self { name, rest, surface, weights, bones, instances, skinned, linear })
    }

    /// [B] posed_from_rest with the nodes of an evaluated scene.
    pub fn pose<'a>(&'a self, scene: &'a ufbx::Scene) -> impl Iterator<Item = DAffine3> + 'a {
        self.bones.iter().map(|bone| affine(&scene.nodes[bone.node].node_to_world) * bone.node_from_rest)
    }

    /// [B] bones with parents and unique names.
    pub fn tree(&self, document: &Document) -> Vec<Bone> {
        let mut of_node: HashMap<usize, usize> = HashMap::new();
        for (j, bone) in self.bones.iter().enumerate() {
            of_node.entry(bone.node).or_insert(j);
        }
        let nodes = &document.scene().nodes;
        let parent = |bone: &ModelBone| {
            let above = |node: &usize| nodes[*node].parent.as_ref().map(|parent| number(parent));
            std::iter::successors(above(&bone.node), above).find_map(|node| of_node.get(&node).copied())
        };
        let mut names = UniqueNames::new(self.bones.iter().map(|bone| bone.name.as_str()));
        let bones = self.bones.iter();
        bones
            .map(|bone| Bone {
                name: names.name(&bone.name),
                parent: parent(bone),
                world_from_bind: bone.world_from_bind,
                tip: bone.tip,
            })
            .collect()
    }
}

#[derive(Default)]
struct Builder {
    rest: Vec<Vec3>,
    influences: Vec<Vec<(usize, f64)>>,
    bones: Vec<ModelBone>,
    bones_of_node: HashMap<usize, Vec<usize>>,
    instances: Vec<Instance>,
    parts: merge::Parts,
    skinned: bool,
    linear: bool,
}

impl Builder {
    fn add(&mut self, document: &Document, node: &Node, mesh: &Mesh) -> Result<(), IoError> {
        let positions: Vec<Vec3> = mesh.vertices.iter().map(|v| point(v).as_vec3()).collect();
        let skin = mesh.skin_deformers.iter().find(|skin| !skin.clusters.is_empty() && !skin.weights.is_empty());
        let (joints, influences) = match skin {
            Some(skin) => skin_of(node, mesh, skin),
            None => (vec![own_joint(node)], vec![vec![(0, 1.0)]; mesh.num_vertices]),
        };
        self.skinned |= skin.is_some();
        let mut used = vec![false; joints.len()];
        influences.iter().flatten().for_each(|(j, _)| used[*j] = true);
        let in_use = joints.iter().zip(&used).filter(|(_, used)| **used);
        let places: Vec<DAffine3> = in_use.map(|(joint, _)| joint.world_at_bind * joint.node_from_mesh).collect();
        let world_from_mesh = place_at_rest(&places, &positions);
        let bones: Vec<usize> = joints.iter().map(|joint| self.bone(document, joint, world_from_mesh)).collect();
        if self.bones.len() > MAX_BONES {
            return Err(
                document.unsupported(format!("{} bones are too many, {MAX_BONES} are possible", self.bones.len()))
            );
        }
        self.rest.extend(mesh.vertices.iter().map(|v| world_from_mesh.transform_point3(point(v)).as_vec3()));
        let on_bones = |row: Vec<(usize, f64)>| row.into_iter().map(|(j, w)| (bones[j], w)).collect();
        self.influences.extend(influences.into_iter().map(on_bones));
        self.instances.push(Instance { node: number(node), vertices: mesh.num_vertices, world_from_mesh });
        self.linear &= mesh.skin_deformers.len() <= 1
            && skin.is_none_or(|s| matches!(s.skinning_method, SkinningMethod::Linear | SkinningMethod::Rigid));
        let surface = surface::read(document.path(), node, mesh, world_from_mesh.matrix3);
        self.parts.add(surface, mesh.num_vertices);
        Ok(())
    }

    /// The bone of a joint; two meshes that mean the same by it share it.
    fn bone(&mut self, document: &Document, joint: &Joint, world_from_mesh: DAffine3) -> usize {
        let node_from_rest = joint.node_from_mesh * world_from_mesh.inverse();
        let same = |b: &&usize| same_bind(&self.bones[**b].node_from_rest, &node_from_rest);
        if let Some(&b) = self.bones_of_node.get(&joint.node).and_then(|bones| bones.iter().find(same)) {
            return b;
        }
        let bind = node_from_rest.inverse();
        let bind = if bind.is_finite() { bind } else { joint.world_at_bind };
        self.push(document, joint.node, node_from_rest, bind)
    }

    fn push(&mut self, document: &Document, node: usize, node_from_rest: DAffine3, bind: DAffine3) -> usize {
        let name = match document.scene().nodes[node].element.name.to_string() {
            empty if empty.is_empty() => format!("node_{node}"),
            name => name,
        };
        let world_from_bind = DAffine3::from_mat3_translation(nearest_rotation(&bind.matrix3), bind.translation);
        self.bones.push(ModelBone { node, name, node_from_rest, world_from_bind, tip: None });
        self.bones_of_node.entry(node).or_default().push(self.bones.len() - 1);
        self.bones.len() - 1
    }

    /// Bones of the skeleton that move no vertex: those above and below the others, so that the user's tree stays. Ends of
    /// chains become tips.
    fn add_rest_of_skeleton(&mut self, document: &Document) {
        let nodes = &document.scene().nodes;
        let is_bone = |n: usize| nodes[n].bone.is_some();
        let mut member = vec![false; nodes.len()];
        for bone in &self.bones {
            let above = |n: &usize| nodes[*n].parent.as_ref().map(|parent| number(parent)).filter(|n| is_bone(*n));
            for n in std::iter::successors(Some(bone.node), above) {
                if std::mem::replace(&mut member[n], true) {
                    break;
                }
            }
        }
        // Nodes come parents first: one pass reaches everything below a member.
        for n in 0..nodes.len() {
            let below = nodes[n].parent.as_ref().is_some_and(|parent| member[number(parent)]);
            member[n] |= below && is_bone(n);
        }
        let binds = BindPoses::new(document);
        for n in (0..nodes.len()).filter(|n| member[*n]) {
            if self.bones_of_node.contains_key(&n) || self.bones.len() >= MAX_BONES {
                continue;
            }
            if is_stretch(&nodes[n]) {
                continue;
            }
            let world = binds.of(&nodes[n]);
            let parent = nodes[n].parent.as_ref().and_then(|parent| self.bones_of_node.get(&number(parent)));
            let name = nodes[n].element.name.to_ascii_lowercase();
            let is_tip = nodes[n].children.is_empty() && TIPS.iter().any(|end| name.ends_with(end));
            match parent.and_then(|bones| bones.first().copied()).filter(|_| is_tip) {
                Some(parent) => {
                    let local = affine(&nodes[n].node_to_parent).translation;
                    let tip = self.bones[parent].node_from_rest.inverse().transform_point3(local);
                    self.bones[parent].tip = tip.is_finite().then_some(tip);
                }
                None => {
                    let inverse = world.inverse();
                    if inverse.is_finite() {
                        self.push(document, n, inverse, world);
                    }
                }
            }
        }
    }
}

/// The outer of two nodes that our own files make one bone of.
fn is_stretch(node: &Node) -> bool {
    let inner = node.element.name.strip_suffix(STRETCH);
    inner.is_some_and(|name| node.children.len() == 1 && node.children[0].element.name.as_ref() == name)
}

/// Places of bones in all bind poses of a file: a pose lists every bone, so that a search for each would take long.
struct BindPoses(HashMap<(u32, usize), DAffine3>);

impl BindPoses {
    fn new(document: &Document) -> Self {
        let mut places = HashMap::new();
        for pose in &document.scene().poses {
            for bone in &pose.bone_poses {
                let key = (pose.element.typed_id, number(&bone.bone_node));
                places.entry(key).or_insert_with(|| affine(&bone.bone_to_world));
            }
        }
        Self(places)
    }

    /// Where a bone without vertices rests: as the bind pose says, else as the file stands.
    fn of(&self, node: &Node) -> DAffine3 {
        let own = node.bind_pose.as_ref().and_then(|pose| self.0.get(&(pose.element.typed_id, number(node))));
        own.copied().filter(|m| m.is_finite()).unwrap_or_else(|| affine(&node.node_to_world))
    }
}

fn own_joint(node: &Node) -> Joint {
    let node_from_mesh = affine(&node.geometry_to_node);
    Joint { node: number(node), node_from_mesh, world_at_bind: affine(&node.node_to_world) }
}

/// Clusters as joints, and (joint, weight) of each vertex; what no cluster moves hangs on the mesh's own node.
fn skin_of(node: &Node, mesh: &Mesh, skin: &SkinDeformer) -> (Vec<Joint>, Vec<Vec<(usize, f64)>>) {
    let mut joints = Vec::new();
    let mut places = Vec::new();
    for cluster in &skin.clusters {
        places.push(cluster.bone_node.as_ref().map(|bone| {
            joints.push(Joint {
                node: number(bone),
                node_from_mesh: affine(&cluster.geometry_to_bone),
                world_at_bind: affine(&cluster.bind_to_world),
            });
            joints.len() - 1
        }));
    }
    let own = joints.len();
    let of_vertex = |v: usize| {
        let Some(vertex) = skin.vertices.get(v) else { return vec![(own, 1.0)] };
        let first = vertex.weight_begin as usize;
        let slots = skin.weights.get(first..first.saturating_add(vertex.num_weights as usize)).unwrap_or_default();
        let pairs = slots.iter().filter_map(|slot| {
            let joint = places.get(slot.cluster_index as usize).copied().flatten()?;
            (slot.weight != 0.0).then_some((joint, slot.weight))
        });
        let mut pairs: Vec<(usize, f64)> = pairs.collect();
        pairs.sort_by_key(|(joint, _)| *joint); // equal weights in the order of the bones
        let moves = pairs.iter().any(|(_, w)| *w > 0.0 && w.is_finite());
        if moves { pairs } else { vec![(own, 1.0)] }
    };
    let influences: Vec<Vec<(usize, f64)>> = (0..mesh.num_vertices).map(of_vertex).collect();
    if influences.iter().flatten().any(|(joint, _)| *joint == own) {
        joints.push(own_joint(node));
    }
    (joints, influences)
}
