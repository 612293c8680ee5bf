//! All meshes of a file as one skinned model.
//!
//! A mesh without a skin hangs on its own node as on a bone, so that baking and rigs need one path only. Each
//! vertex moves by `posed = world_from_joint(t) * joint_from_mesh * p`, which is what a glTF renderer computes.
//!
//! Exporters leave meshes in spaces of their own (centimetres, z up, lying on the side) that only the joints turn
//! right. The rest pose is therefore moved to where the file's unanimated nodes would show it, `world_from_mesh`,
//! wherever all joints agree on that.

use std::collections::HashMap;

use bonesmith_core::transform::nearest_rotation;
use bonesmith_core::{SparseWeights, Surface};
use glam::{DAffine3, DMat4, Vec3};
use gltf_json::animation::Property;

use super::document::Document;
use super::draco;
use super::material::Materials;
use super::mesh::MeshData;
use super::parts::PartsBuilder;
use super::scene::Scene;
use super::surface::SurfaceBuilder;
use super::track::Motion;
use crate::gltf::extras::{self, SkinExtras};
use crate::gltf::meshopt;
use crate::load::{missing, picks};
use crate::skinned::{pack_weights, place_at_rest, same_bind};
use crate::{IoError, MeshEntry, warning};

/// Most vertices of all meshes together: a small file can name one mesh many times.
const MAX_VERTICES: usize = 1 << 26;

/// A skinned model; N vertices, B bones.
pub struct Model {
    /// Name of the only mesh, else of the file.
    pub name: String,
    /// [N] in the space of the scene, with the morph weights of the unanimated file.
    pub rest: Vec<Vec3>,
    /// Faces and what lies on them.
    pub surface: Surface,
    /// [N, K].
    pub weights: SparseWeights,
    /// [B].
    pub bones: Vec<ModelBone>,
    /// Meshes with morph targets.
    pub morphs: Vec<Morph>,
    /// Nodes.
    pub scene: Scene,
    /// Animations that move anything of the model.
    pub motions: Vec<Motion>,
    /// Whether any mesh has a skin.
    pub skinned: bool,
    /// What our own files say about the skin.
    pub skin_extras: Option<SkinExtras>,
    /// Of the first mesh: where its POSITIONs went.
    pub world_from_mesh: DAffine3,
}

/// One bone.
pub struct ModelBone {
    /// Its node.
    pub node: usize,
    /// Name of the node.
    pub name: String,
    /// `posed_from_rest = world_from_joint(t) * joint_from_rest`.
    pub joint_from_rest: DAffine3,
    /// Place and orientation at rest; rigid.
    pub world_from_bind: DAffine3,
}

/// One mesh with morph targets.
pub struct Morph {
    /// Node whose weights apply.
    pub node: usize,
    /// First vertex.
    pub first: usize,
    /// [targets] displacements at rest, in the space of the scene.
    pub targets: Vec<Vec<Vec3>>,
    /// [targets] weights that are in the rest pose already.
    pub rest_weights: Vec<f64>,
}

/// A mesh at a node, with the joints its influences name.
pub struct Instance {
    /// Its node.
    pub node: usize,
    /// Number of the mesh in the file.
    pub index: usize,
    /// The mesh.
    pub mesh: MeshData,
    /// (node, joint_from_mesh).
    pub joints: Vec<(usize, DAffine3)>,
    /// Whether joints move it; else its node does.
    pub skinned: bool,
}

impl Model {
    /// Reads all meshes, or the one of the name given.
    pub fn read(document: &Document, only: Option<&str>) -> Result<Self, IoError> {
        let scene = Scene::new(document)?;
        let instances = instances(document, &scene, only)?;
        let name = match &instances[..] {
            [one] if !one.mesh.name.is_empty() => one.mesh.name.clone(),
            _ => document.stem(),
        };
        let skinned = instances.iter().any(|i| i.skinned);
        let worlds = scene.worlds(&scene.rest);
        let mut builder = ModelBuilder::default();
        let mut parts = PartsBuilder::new(document, &scene, &worlds);
        for instance in instances {
            parts.add(&instance);
            builder.add(document, &worlds, instance)?;
        }
        let ModelBuilder { rest, mut influences, mut bones, morphs, surface, first_placed, .. } = builder;
        own_order(document, &mut bones, &mut influences);
        let mut surface = surface.finish(document, Materials::read(document));
        surface.parts = parts.finish();
        warn_of_extensions(document);
        let weights = pack_weights(document.path(), &influences);
        // A rig of ours without skins has them on its scene.
        let of_scene = || document.root.scenes.first().and_then(|scene| extras::unpack(&scene.extras));
        let skin_extras = document.root.skins.first().map_or_else(of_scene, |skin| extras::unpack(&skin.extras));
        let mut model = Self {
            name,
            rest,
            surface,
            weights,
            bones,
            morphs,
            scene,
            motions: Vec::new(),
            skinned,
            skin_extras,
            world_from_mesh: first_placed.unwrap_or(DAffine3::IDENTITY),
        };
        model.read_motions(document)?;
        Ok(model)
    }

    /// [B] posed_from_rest for [nodes] world transforms.
    pub fn pose<'a>(&'a self, worlds: &'a [DAffine3]) -> impl Iterator<Item = DAffine3> + 'a {
        self.bones.iter().map(|bone| worlds[bone.node] * bone.joint_from_rest)
    }

    fn read_motions(&mut self, document: &Document) -> Result<(), IoError> {
        let mut moves = vec![false; document.root.nodes.len()];
        for bone in &self.bones {
            for node in self.scene.ancestry(bone.node) {
                if std::mem::replace(&mut moves[node], true) {
                    break;
                }
            }
        }
        let morphs = |node: usize| self.morphs.iter().any(|morph| morph.node == node);
        let mut motions = Vec::new();
        for (a, animation) in document.root.animations.iter().enumerate() {
            let mut motion = Motion::read(document, a, animation)?;
            motion.tracks.retain(|track| match track.property {
                Property::MorphTargetWeights => morphs(track.node),
                _ => moves[track.node],
            });
            if animation.channels.is_empty() {
                warning::left_out(document.path(), format!("animation {:?}, which has no keys", motion.name));
            }
            if !motion.is_named {
                motion.name = format!("animation_{a}");
            }
            if !motion.tracks.is_empty() {
                motions.push(motion);
            }
        }
        self.motions = motions;
        Ok(())
    }
}

/// The names of a node that shows a mesh: its own and that of the mesh. Where neither has one, `mesh_` and the number of the mesh, as other programs call it.
pub fn names(document: &Document, node: &gltf_json::Node) -> Vec<String> {
    let of_mesh = node.mesh.and_then(|mesh| document.root.meshes.get(mesh.value())).and_then(|mesh| mesh.name.as_ref());
    let named = [node.name.as_ref(), of_mesh].into_iter().flatten().filter(|name| !name.is_empty());
    let names: Vec<String> = named.cloned().collect();
    match node.mesh {
        Some(mesh) if names.is_empty() => vec![format!("mesh_{}", mesh.value())],
        _ => names,
    }
}

/// Meshes that the scene shows, in node order.
pub fn list(document: &Document) -> Result<Vec<MeshEntry>, IoError> {
    let scene = Scene::new(document)?;
    let mut found = Vec::new();
    for node in document.root.nodes.iter().enumerate().filter(|(n, _)| scene.shown[*n]).map(|(_, node)| node) {
        let Some(mesh) = node.mesh else { continue };
        let data = MeshData::read(document, mesh)?;
        let name = names(document, node).swap_remove(0);
        found.push(MeshEntry { name, vertices: data.positions.len() });
    }
    Ok(found)
}

/// Puts bones into the order that a file of our own had them in: where meshes have skins of their own, each lists some.
fn own_order(document: &Document, bones: &mut Vec<ModelBone>, influences: &mut [Vec<(usize, f64)>]) {
    let mut numbers: HashMap<usize, u32> = HashMap::new();
    let mut listed = false;
    for skin in &document.root.skins {
        let Some(own) = extras::unpack::<SkinExtras>(&skin.extras) else { return };
        listed |= own.bones.is_some();
        let own = own.bones.unwrap_or_else(|| (0..skin.joints.len() as u32).collect());
        numbers.extend(skin.joints.iter().map(|joint| joint.value()).zip(own));
    }
    if !listed {
        return;
    }
    let mut order: Vec<usize> = (0..bones.len()).collect();
    order.sort_by_key(|&j| numbers.get(&bones[j].node).copied().unwrap_or(u32::MAX));
    let mut places = vec![0; bones.len()];
    order.iter().enumerate().for_each(|(at, &j)| places[j] = at);
    influences.iter_mut().flatten().for_each(|(j, _)| *j = places[*j]);
    let mut ordered: Vec<(usize, ModelBone)> = places.into_iter().zip(std::mem::take(bones)).collect();
    ordered.sort_by_key(|(at, _)| *at);
    *bones = ordered.into_iter().map(|(_, bone)| bone).collect();
}

fn warn_of_extensions(document: &Document) {
    let read = |name: &str| {
        let known = ["KHR_mesh_quantization", "KHR_texture_transform", draco::EXTENSION];
        known.contains(&name) || meshopt::EXTENSIONS.contains(&name) || name.starts_with("BONESMITH_")
    };
    let others = document.root.extensions_used.iter().filter(|name| !read(name)).cloned().collect();
    warning::left_out_all(document.path(), "what the file says in", others);
}

/// Meshes to read, in node order.
fn instances(document: &Document, scene: &Scene, only: Option<&str>) -> Result<Vec<Instance>, IoError> {
    let mut found = Vec::new();
    let mut all_names = Vec::new();
    let mut vertices = 0;
    for (n, node) in document.root.nodes.iter().enumerate().filter(|(n, _)| scene.shown[*n]) {
        let Some(mesh) = node.mesh else { continue };
        let own = names(document, node);
        let is_picked = only.is_none_or(|only| own.iter().any(|name| picks(only, name)));
        all_names.extend(own);
        if !is_picked {
            continue;
        }
        let index = mesh.value();
        let mut mesh = MeshData::read(document, mesh)?;
        vertices += mesh.positions.len();
        if vertices > MAX_VERTICES {
            return Err(document.unsupported(format!("its meshes have more than {MAX_VERTICES} vertices in all")));
        }
        if let Some(weights) = node.weights.as_ref().filter(|w| w.len() == mesh.target_weights.len()) {
            mesh.target_weights = weights.iter().map(|w| f64::from(*w)).collect();
        }
        let weighted = mesh.influences.iter().any(|slots| !slots.is_empty());
        let joints = match node.skin.filter(|_| weighted) {
            Some(skin) => read_joints(document, skin.value())?,
            None => vec![(n, DAffine3::IDENTITY)],
        };
        let skinned = node.skin.is_some() && weighted;
        if !skinned {
            mesh.influences.iter_mut().for_each(|slots| *slots = vec![(0, 1.0)]);
        }
        found.push(Instance { node: n, index, mesh, joints, skinned });
    }
    let aside = document.root.nodes.iter().zip(&scene.shown).filter(|(node, shown)| node.mesh.is_some() && !**shown);
    let aside = aside.map(|(node, _)| format!("{:?}", node.name.as_deref().unwrap_or_default())).collect();
    warning::left_out_all(document.path(), "meshes outside the scene that is shown:", aside);
    if let Some(lost) = only.and_then(|only| missing(only, |one| all_names.iter().any(|name| name == one))) {
        all_names.dedup();
        return Err(document.unsupported(format!("no mesh is named {lost:?}; there are {all_names:?}")));
    }
    if !found.iter().any(|i| !i.mesh.positions.is_empty()) {
        return Err(document.unsupported("there is no mesh in its scene"));
    }
    Ok(found)
}

/// (node, inverse bind matrix) of each joint of a skin.
fn read_joints(document: &Document, skin: usize) -> Result<Vec<(usize, DAffine3)>, IoError> {
    let what = format!("skin {skin}");
    let lost = || document.malformed(format!("{what} does not exist or names a node that does not"));
    let json = document.root.skins.get(skin).ok_or_else(lost)?;
    let matrices = match json.inverse_bind_matrices {
        Some(accessor) => document.floats::<16>(accessor, &what)?,
        None => Vec::new(),
    };
    let joints = json.joints.iter().enumerate().map(|(j, node)| {
        let matrix = matrices.get(j).map(|m| DMat4::from_cols_array(&m.map(f64::from)));
        (node.value(), matrix.map_or(DAffine3::IDENTITY, DAffine3::from_mat4))
    });
    let joints: Vec<_> = joints.collect();
    if joints.is_empty() || joints.iter().any(|(node, _)| *node >= document.root.nodes.len()) {
        return Err(lost());
    }
    Ok(joints)
}

#[derive(Default)]
struct ModelBuilder {
    rest: Vec<Vec3>,
    influences: Vec<Vec<(usize, f64)>>,
    bones: Vec<ModelBone>,
    bones_of_node: HashMap<usize, Vec<usize>>,
    morphs: Vec<Morph>,
    surface: SurfaceBuilder,
    first_placed: Option<DAffine3>,
}

impl ModelBuilder {
    fn add(&mut self, document: &Document, worlds: &[DAffine3], instance: Instance) -> Result<(), IoError> {
        let Instance { node, mut mesh, joints, .. } = instance;
        let mut used = vec![false; joints.len()];
        for (v, &(joint, _)) in mesh.influences.iter().enumerate().flat_map(|(v, s)| s.iter().map(move |s| (v, s))) {
            let slot = used.get_mut(joint as usize).ok_or_else(|| {
                let (mesh, count) = (&mesh.name, joints.len());
                document.malformed(format!("mesh {mesh:?}, vertex {v} names joint {joint}, but there are {count}"))
            })?;
            *slot = true;
        }
        let in_use = joints.iter().zip(&used).filter(|(_, used)| **used);
        let places: Vec<DAffine3> =
            in_use.map(|((node, joint_from_mesh), _)| worlds[*node] * *joint_from_mesh).collect();
        let world_from_mesh = place_at_rest(&places, &mesh.positions);
        self.first_placed.get_or_insert(world_from_mesh);
        let mut bones = Vec::with_capacity(joints.len());
        for &(joint, joint_from_mesh) in &joints {
            bones.push(self.bone(document, worlds, joint, joint_from_mesh, world_from_mesh));
        }
        if self.bones.len() > 1 << 16 {
            return Err(document.unsupported(format!("{} joints are too many, 65536 are possible", self.bones.len())));
        }
        let first = self.rest.len();
        let linear = world_from_mesh.matrix3;
        for (v, p) in mesh.positions.iter().enumerate() {
            let morphed = mesh.targets.iter().zip(&mesh.target_weights).filter(|(_, w)| **w != 0.0);
            let p = morphed.fold(p.as_dvec3(), |p, (target, w)| p + *w * target[v].as_dvec3());
            self.rest.push(world_from_mesh.transform_point3(p).as_vec3());
        }
        for slots in &mesh.influences {
            let slots: Vec<(usize, f64)> = slots.iter().map(|&(j, w)| (bones[j as usize], f64::from(w))).collect();
            let weighted = slots.iter().any(|(_, w)| *w > 0.0 && w.is_finite());
            self.influences.push(if weighted { slots } else { vec![(bones[0], 1.0)] });
        }
        if !mesh.targets.is_empty() {
            let mut targets = std::mem::take(&mut mesh.targets);
            targets.iter_mut().flatten().for_each(|d| *d = (linear * d.as_dvec3()).as_vec3());
            self.morphs.push(Morph { node, first, targets, rest_weights: std::mem::take(&mut mesh.target_weights) });
        }
        self.surface.add(mesh, first as u32, linear);
        Ok(())
    }

    /// The bone of a joint; two meshes that mean the same by it share it.
    fn bone(
        &mut self,
        document: &Document,
        worlds: &[DAffine3],
        node: usize,
        joint_from_mesh: DAffine3,
        world_from_mesh: DAffine3,
    ) -> usize {
        let joint_from_rest = joint_from_mesh * world_from_mesh.inverse();
        let same = |b: &&usize| same_bind(&self.bones[**b].joint_from_rest, &joint_from_rest);
        if let Some(&b) = self.bones_of_node.get(&node).and_then(|bones| bones.iter().find(same)) {
            return b;
        }
        let bind = joint_from_rest.inverse();
        let bind = if bind.is_finite() { bind } else { worlds[node] };
        let name = document.root.nodes[node].name.clone().unwrap_or_else(|| format!("node_{node}"));
        self.bones.push(ModelBone {
            node,
            name,
            joint_from_rest,
            world_from_bind: DAffine3::from_mat3_translation(nearest_rotation(&bind.matrix3), bind.translation),
        });
        self.bones_of_node.entry(node).or_default().push(self.bones.len() - 1);
        self.bones.len() - 1
    }
}
