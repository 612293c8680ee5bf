//! Rigs as skinned meshes, sequences as morph targets.
//!
//! What real readers insist on, each point seen to break one of them otherwise:
//! 1. `skin.skeleton` is the joints' common root, and each joint's own transform is the inverse of its inverse
//!    bind matrix; without both, Blender deforms wrongly in silence.
//! 2. Inverse bind matrices have no scale.
//! 3. Influences fall along the slots: several engines use the first four only.
//! 4. Stored weights sum to 1.
//! 5. The skinned mesh's node is at the top of the scene, where its transform is ignored by all readers alike.

mod animation;
mod blob;
mod buffer;
mod compact;
mod lods;
pub mod material;
mod mesh;
mod pieces;
mod scene;
mod sequence;
mod skins;
mod split;

use std::borrow::Cow;
use std::ffi::OsStr;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use bonesmith_core::model::shape_bones::{BoneShape, ShapeNumber};
use bonesmith_core::model::two_layer::Blends;
use bonesmith_core::transform::Trs;
use bonesmith_core::{BlendShape, CorrectiveRig, DdmRig, Rig, ShapeBones, Space, SparseWeights, Surface, TwoLayerRig};
use glam::{DAffine3, DMat3, DMat4, DVec3, Vec3};
use gltf_json::animation::Property;
use gltf_json::scene::{Scene, UnitQuaternion};
use gltf_json::validation::USize64;
use gltf_json::{Index, Node, Skin};

use self::animation::AnimationBuilder;
use self::buffer::{Builder, Purpose};
use self::material::name;
use self::mesh::{MeshSource, Target, write_mesh};
use self::split::split;
use super::extras::{
    self, DDM_EXTENSION, DdmExtension, SHAPE_BONES_EXTENSION, ShapeBonesExtension, ShapeExtension, SkinExtras,
    TWO_LAYER_EXTENSION, TwoLayerExtension,
};
use super::{TIP, container};
use crate::compact::numbering::{self, renumbered};
use crate::compact::{Compact, CompactFile, Packing, choose, tree};
use crate::joints::{self, BoneNodes, Joints, NodeMotion};
use crate::opens::files_of;
use crate::origin::{far_origin, moved};
use crate::parts::without_still_bones;
use crate::shapes::within_unit_weights;
use crate::{IoError, atomic, texture, warning};

pub use self::lods::{LodMesh, save_lods};
pub use self::pieces::save_pieces;
pub use self::sequence::save_sequence;
pub use self::skins::save_skins;

/// Most influences a glTF reader can be expected to use: JOINTS_0 and JOINTS_1.
pub const MAX_INFLUENCES: usize = 8;

/// Why a .glb is refused.
const TOO_LARGE: &str = "more than 4 GiB do not fit a .glb; write .gltf";

/// Writes a rig as a skinned mesh with one animation per clip.
pub fn save_rig(rig: &Rig, path: &Path, compact: Option<&Compact>) -> Result<CompactFile, IoError> {
    save(rig, Layers::None, &[], path, compact)
}

/// Writes a rig as a skinned mesh with morph targets, which every clip weighs.
pub fn save_corrective(
    corrective: &CorrectiveRig,
    path: &Path,
    compact: Option<&Compact>,
) -> Result<CompactFile, IoError> {
    corrective.check().map_err(|e| IoError::unsupported(path, e.to_string()))?;
    let mut shapes = within_unit_weights(&corrective.shapes);
    let turn = Space::GLTF.from_source(&corrective.rig.surface.space).matrix3;
    if turn != DMat3::IDENTITY {
        shapes.iter_mut().flat_map(|shape| &mut shape.offsets).for_each(|d| *d = (turn * d.as_dvec3()).as_vec3());
    }
    save(&corrective.rig, Layers::None, &shapes, path, compact)
}

/// Writes both layers: master bones as joints, single-layer weights for everybody, and the layers in an extension.
pub fn save_two_layer(two: &TwoLayerRig, path: &Path, compact: Option<&Compact>) -> Result<CompactFile, IoError> {
    two.check().map_err(|e| IoError::unsupported(path, e.to_string()))?;
    save(&two.master, Layers::Two(two), &[], path, compact)
}

/// Writes multi-weights in an extension, with plain weights for everybody.
pub fn save_ddm(ddm: &DdmRig, path: &Path, compact: Option<&Compact>) -> Result<CompactFile, IoError> {
    ddm.check().map_err(|e| IoError::unsupported(path, e.to_string()))?;
    save(&ddm.rig, Layers::Ddm(ddm), &[], path, compact)
}

/// Writes the numbers of shapes in an extension, and a clip with each shape in a frame of its own for everybody.
pub fn save_shape_bones(face: &ShapeBones, path: &Path) -> Result<(), IoError> {
    face.check().map_err(|e| IoError::unsupported(path, e.to_string()))?;
    save(&face.rig, Layers::Shapes(face), &[], path, None).map(|_| ())
}

/// What a skin has beside plain weights.
#[derive(Clone, Copy)]
enum Layers<'a> {
    None,
    Two(&'a TwoLayerRig),
    Ddm(&'a DdmRig),
    Shapes(&'a ShapeBones),
}

impl<'a> Layers<'a> {
    fn virtual_weights(self) -> Option<&'a SparseWeights> {
        match self {
            Self::None | Self::Shapes(_) => None,
            Self::Two(two) => Some(&two.weights),
            Self::Ddm(ddm) => ddm.layer.as_ref(),
        }
    }
}

/// `shapes` are in glTF's axes already.
fn save(
    source: &Rig,
    layers: Layers<'_>,
    shapes: &[BlendShape],
    path: &Path,
    compact: Option<&Compact>,
) -> Result<CompactFile, IoError> {
    let unsupported = |what: String| IoError::Unsupported { path: path.to_owned(), what };
    source.check().map_err(|e| unsupported(e.to_string()))?;
    if source.rest.is_empty() {
        return Err(unsupported("the rig has no vertices".into()));
    }
    texture::warn_of_unwritable(&source.surface, path);
    let rig = &*placed(source);
    let compressed = compact.is_some_and(|compact| compact.packing != Packing::Plain);
    let origin = far_origin(&rig.rest).or_else(|| compressed.then(|| low_corner(&rig.rest)));
    let rig = &*origin.map_or(Cow::Borrowed(rig), |origin| Cow::Owned(moved(rig, -origin)));
    let mut builder = Builder::new();
    let is_scene = !rig.surface.parts.is_empty() && matches!(layers, Layers::None);
    let rig = &*if is_scene { without_still_bones(rig, shapes) } else { Cow::Borrowed(rig) };
    if !is_scene && !rig.surface.parts.is_empty() {
        warning::left_out(path, "the meshes of the scene: a rig with layers is written as one mesh");
    }
    let rig = &*if compact.is_some() { without_unused(rig, path) } else { Cow::Borrowed(rig) };
    let linked = compact.filter(|_| compressed && !is_scene && matches!(layers, Layers::None));
    let linked = linked.and_then(|compact| tree::linked(rig, compact.rms));
    builder.linked = linked.is_some();
    let rig = &*linked.map_or(Cow::Borrowed(rig), Cow::Owned);
    // Layers and multi-weights have tables by vertex.
    builder.reordered = compressed && matches!(layers, Layers::None);
    builder.numbered = compact.is_none_or(|compact| compact.numbered);
    let parts = compact.map(|_| split(&rig.surface, rig.vertex_count(), builder.reordered));
    let order: Vec<u32> = parts.iter().flatten().flat_map(|part| &part.vertices).map(|v| v.vertex).collect();
    let is_renumbered = builder.reordered && !is_scene;
    builder.joint_bones = is_renumbered.then(|| numbering::of_joints(rig, &order));
    let rig = &*builder.joint_bones.as_ref().map_or(Cow::Borrowed(rig), |bones| Cow::Owned(renumbered(rig, bones)));
    builder.compact = compact.map(|compact| choose(rig, &joints::plan(rig), &order, compact));
    // Rounded weights have a rest pose of their own.
    let rest = builder.compact.as_mut().map(|choice| std::mem::take(&mut choice.rest));
    let own = rest.map_or(Cow::Borrowed(rig), |rest| Cow::Owned(Rig { rest, ..rig.clone() }));
    let rig = &*own;
    let skinned = match is_scene {
        true => scene::write_scene_of(&mut builder, rig, shapes, origin, path),
        false => write_skinned(&mut builder, rig, layers, shapes, origin),
    };
    let skinned = skinned.map_err(unsupported)?;
    write_scene(&mut builder, skinned.roots.clone());
    if skinned.plan.nodes.is_empty() {
        let own = SkinExtras { kind: rig.kind, params: params_of(rig), parents: None, bones: None };
        builder.root.scenes.iter_mut().for_each(|scene| scene.extras = extras::pack(&own));
    }
    for (c, clip) in rig.clips.iter().enumerate().filter(|(_, clip)| clip.frame_count() > 0) {
        let mut animation = AnimationBuilder::of_clip(&mut builder, clip).map_err(unsupported)?;
        skinned.tree.write_clip(&mut builder, &mut animation, &skinned.plan, c, true);
        if let Some((plan, tree)) = skinned.moved.as_ref().filter(|(plan, _)| !plan.nodes.is_empty()) {
            tree.write_clip(&mut builder, &mut animation, plan, c, skinned.plan.nodes.is_empty());
        }
        if !shapes.is_empty() {
            for (mesh, own) in skinned.meshes.iter().filter(|(_, own)| !own.is_empty()) {
                let weights = (0..clip.frame_count()).flat_map(|t| own.iter().map(move |&s| [shapes[s].weights[c][t]]));
                let weights: Vec<[f32; 1]> = weights.collect();
                animation.channel(&mut builder, *mesh, Property::MorphTargetWeights, &weights, false);
            }
        }
        animation.finish(&mut builder);
    }
    let order = std::mem::take(&mut builder.order);
    if builder.reordered && order.len() != rig.vertex_count() {
        // Two nodes show one mesh.
        let numbered = compact.map(|compact| Compact { numbered: true, ..*compact });
        return save(source, layers, shapes, path, numbered.as_ref());
    }
    let is_changed = order.iter().enumerate().any(|(at, v)| at != *v as usize);
    let shares = builder.compact.as_mut().map(|choice| std::mem::take(&mut choice.shares)).unwrap_or_default();
    write_files(builder, path)?;
    Ok(CompactFile { order: is_changed.then_some(order), shares })
}

/// A point below all vertices on every axis: coordinates that change their sign change all bytes of a number but the lowest, coordinates
/// relative to this point have none.
fn low_corner(rest: &[Vec3]) -> DVec3 {
    let (low, high) = rest.iter().fold((Vec3::MAX, Vec3::MIN), |(low, high), p| (low.min(*p), high.max(*p)));
    let size = f64::from((high - low).max_element()).max(f64::from(low.abs().max_element()) * 1e-6).max(1e-30);
    // Rounded weights move vertices a little. A grid, so that the number is short.
    let grid = size.log2().floor().exp2() / 64.0;
    ((low.as_dvec3() - 0.01 * size) / grid).floor() * grid
}

/// Without texture coordinates and tangents where no material has a picture.
fn without_unused<'a>(rig: &'a Rig, path: &Path) -> Cow<'a, Rig> {
    let surface = &rig.surface;
    let is_used = surface.materials.iter().any(|material| material.textures.all().iter().any(Option::is_some));
    if is_used || (surface.uv_sets.is_empty() && surface.tangents.is_none()) {
        return Cow::Borrowed(rig);
    }
    warning::left_out(path, "texture coordinates, which no material of the small file uses");
    let mut surface = Surface { uv_sets: Vec::new(), tangents: None, ..(**surface).clone() };
    surface.parts.meshes.iter_mut().for_each(|part| part.uv_sets.clear());
    Cow::Owned(Rig { surface: Arc::new(surface), ..rig.clone() })
}

fn check_influences(influences: usize) -> Result<(), String> {
    if influences <= MAX_INFLUENCES {
        return Ok(());
    }
    Err(format!(
        "some vertices have {influences} influences, glTF takes at most {MAX_INFLUENCES}: \
         use 8 influences or fewer, or write .npz"
    ))
}

/// Skinned meshes with their joints.
struct Skinned {
    plan: Joints,
    tree: Tree,
    /// Motions of meshes without a skin, and their nodes.
    moved: Option<(Joints, Tree)>,
    /// Nodes of the skinned meshes, each with the shapes that it has.
    meshes: Vec<(Index<Node>, Vec<usize>)>,
    /// Nodes at the top of the scene.
    roots: Vec<Index<Node>>,
}

/// Writes the mesh of a rig, its joints and its skin; `rig` and `shapes` are in glTF's axes, relative to `origin`.
fn write_skinned(
    builder: &mut Builder,
    rig: &Rig,
    layers: Layers<'_>,
    shapes: &[BlendShape],
    origin: Option<DVec3>,
) -> Result<Skinned, String> {
    let virtual_influences = layers.virtual_weights().map_or(0, SparseWeights::max_influences);
    check_influences(rig.weights.max_influences().max(virtual_influences))?;
    let mesh = write_mesh(
        builder,
        &MeshSource {
            name: &rig.name,
            rest: &rig.rest,
            surface: &rig.surface,
            weights: Some((&rig.weights, rig.bone_count())),
            virtual_weights: layers.virtual_weights(),
            targets: shapes.iter().map(|shape| (Target::Offsets(&shape.offsets), shape.name.clone())).collect(),
            first: 0,
        },
    );
    let plan = joints::plan(rig);
    if let Some(bone) = plan.beyond_float32() {
        return Err(joints::too_far(rig, bone));
    }
    let tree = write_tree(builder, rig, &plan);
    builder.root.nodes[tree.root.value()].translation = origin.map(|origin| origin.as_vec3().to_array());
    let skin = write_skin(builder, rig, &plan, &tree, None, DAffine3::IDENTITY);
    match layers {
        Layers::None => {}
        Layers::Two(two) => write_layers(builder, skin, &two.blends),
        Layers::Ddm(ddm) => write_ddm(builder, skin, ddm, origin.unwrap_or(DVec3::ZERO)),
        Layers::Shapes(face) => write_shape_bones(builder, skin, face),
    }
    let node = Node { mesh: Some(mesh), skin: Some(skin), name: name(&rig.name), ..Node::default() };
    let mesh = builder.root.push(node);
    let roots = vec![tree.root, mesh];
    Ok(Skinned { plan, tree, moved: None, meshes: vec![(mesh, (0..shapes.len()).collect())], roots })
}

/// The parameters of a rig, if they are JSON.
fn params_of(rig: &Rig) -> Option<Box<serde_json::value::RawValue>> {
    serde_json::value::RawValue::from_string(rig.params_json.clone()).ok()
}

/// In glTF's axes and unit; `surface.space` still has the rig's own, for the extras.
fn placed(rig: &Rig) -> Cow<'_, Rig> {
    let turn = Space::GLTF.from_source(&rig.surface.space);
    if turn == DAffine3::IDENTITY { Cow::Borrowed(rig) } else { Cow::Owned(rig.placed(turn)) }
}

/// Where the nodes of the bones are.
struct Tree {
    /// Parent of all.
    root: Index<Node>,
    /// [B] outer node of bones that need two.
    outers: Vec<Option<Index<Node>>>,
    /// [B].
    joints: Vec<Index<Node>>,
}

impl Tree {
    /// Adds the channels of clip `c`. With `keep_length` one of them has every key, so that a clip in which nothing moves keeps its length.
    fn write_clip(
        &self,
        builder: &mut Builder,
        animation: &mut AnimationBuilder,
        plan: &Joints,
        c: usize,
        keep_length: bool,
    ) {
        if builder.compact.is_some() {
            let node = |j: usize, outer: bool| if outer { self.outers[j] } else { Some(self.joints[j]) };
            compact::write_clip(builder, animation, c, node);
            if keep_length && animation.is_still() {
                animation.node(builder, self.joints[0], &plan.nodes[0].joint, c, true);
            }
            return;
        }
        for (j, bone) in plan.nodes.iter().enumerate() {
            let all_keys = keep_length && j == 0;
            if let (Some(node), Some(motion)) = (self.outers[j], &bone.outer) {
                animation.node(builder, node, motion, c, all_keys);
                animation.node(builder, self.joints[j], &bone.joint, c, false);
            } else {
                animation.node(builder, self.joints[j], &bone.joint, c, all_keys);
            }
        }
    }
}

fn write_tree(builder: &mut Builder, rig: &Rig, plan: &Joints) -> Tree {
    let rig_name = if rig.name.is_empty() { "rig" } else { &rig.name };
    let root = builder.root.push(Node { name: Some(format!("{rig_name}_skeleton")), ..Node::default() });
    write_joints(builder, rig, plan, root)
}

/// The nodes of the bones below `root`.
fn write_joints(builder: &mut Builder, rig: &Rig, plan: &Joints, root: Index<Node>) -> Tree {
    let mut tree = Tree { root, outers: Vec::new(), joints: Vec::new() };
    for (bone, nodes) in rig.bones.iter().zip(&plan.nodes) {
        let outer = nodes.outer.as_ref().map(|motion| push_node(builder, format!("{}_stretch", bone.name), motion));
        tree.outers.push(outer);
        tree.joints.push(push_node(builder, bone.name.clone(), &nodes.joint));
    }
    for (j, BoneNodes { parent, .. }) in plan.nodes.iter().enumerate() {
        let parent = parent.map_or(root, |p| tree.joints[p]);
        let top = match tree.outers[j] {
            Some(outer) => {
                adopt(builder, outer, tree.joints[j]);
                outer
            }
            None => tree.joints[j],
        };
        adopt(builder, parent, top);
    }
    for (bone, &joint) in rig.bones.iter().zip(&tree.joints) {
        if let Some(tip) = bone.tip {
            // No joint of the skin: it moves nothing, it shows where the bone ends.
            let offset = bone.world_from_bind.inverse().transform_point3(tip);
            let node = Node {
                name: Some(format!("{}{TIP}", bone.name)),
                translation: Some(offset.as_vec3().to_array()),
                ..Node::default()
            };
            let node = builder.root.push(node);
            adopt(builder, joint, node);
        }
    }
    tree
}

fn push_node(builder: &mut Builder, name: String, motion: &NodeMotion) -> Index<Node> {
    let Trs { translation, rotation, scale } = motion.rest;
    let unless_default = |moved: bool, v: [f32; 3]| moved.then_some(v);
    builder.root.push(Node {
        name: Some(name),
        translation: unless_default(translation != glam::DVec3::ZERO, translation.as_vec3().to_array()),
        rotation: (rotation != glam::DQuat::IDENTITY).then(|| UnitQuaternion(rotation.as_quat().to_array())),
        scale: unless_default(scale != glam::DVec3::ONE, scale.as_vec3().to_array()),
        ..Node::default()
    })
}

fn adopt(builder: &mut Builder, parent: Index<Node>, child: Index<Node>) {
    builder.root.nodes[parent.value()].children.get_or_insert_default().push(child);
}

/// A skin of all bones, or of some; of some, for a mesh that is at rest in another place than it is stored.
fn write_skin(
    builder: &mut Builder,
    rig: &Rig,
    plan: &Joints,
    tree: &Tree,
    some: Option<&[usize]>,
    rest_from_mesh: DAffine3,
) -> Index<Skin> {
    let moved = |m: [f32; 16]| match rest_from_mesh == DAffine3::IDENTITY {
        true => m,
        false => {
            let moved = DMat4::from_cols_array(&m.map(f64::from)) * DMat4::from(rest_from_mesh);
            moved.to_cols_array().map(|x| x as f32)
        }
    };
    let inverse_binds = match some {
        None => builder.floats(&plan.inverse_binds, Purpose::Plain),
        Some(bones) => {
            let own: Vec<[f32; 16]> = bones.iter().map(|&j| moved(plan.inverse_binds[j])).collect();
            builder.floats(&own, Purpose::Plain)
        }
    };
    let detached = rig.bones.iter().zip(&plan.nodes).any(|(bone, nodes)| bone.parent != nodes.parent);
    let number = |j: usize| builder.joint_bones.as_ref().map_or(j, |bones| bones[j]);
    let parents = || {
        let mut parents = vec![-1; rig.bones.len()];
        let all = rig.bones.iter().enumerate();
        all.for_each(|(j, bone)| parents[number(j)] = bone.parent.map_or(-1, |p| number(p) as i32));
        parents
    };
    let numbers = || builder.joint_bones.as_ref().map(|bones| bones.iter().map(|&j| j as u32).collect());
    let skin_extras = SkinExtras {
        kind: rig.kind,
        params: params_of(rig).filter(|_| builder.numbered),
        parents: if builder.linked { Some(Vec::new()) } else { detached.then(parents) },
        bones: some.map_or_else(numbers, |bones| Some(bones.iter().map(|&j| j as u32).collect())),
    };
    builder.root.push(Skin {
        extensions: None,
        extras: extras::pack(skin_extras),
        inverse_bind_matrices: Some(inverse_binds),
        joints: match some {
            None => tree.joints.clone(),
            Some(bones) => bones.iter().map(|&j| tree.joints[j]).collect(),
        },
        name: name(&rig.name),
        skeleton: Some(tree.root),
    })
}

/// D as an extension of the skin; A is in the mesh's attributes.
fn write_layers(builder: &mut Builder, skin: Index<Skin>, blends: &Blends) {
    let joints = builder.scalars(blends.bone_table());
    let weights: Vec<[f32; 1]> = blends.weight_table().iter().map(|w| [*w]).collect();
    let content = TwoLayerExtension {
        virtual_bones: blends.count() as u32,
        slots: blends.slots() as u32,
        joints: joints.value() as u32,
        weights: builder.floats(&weights, Purpose::Plain).value() as u32,
    };
    extend_skin(builder, skin, TWO_LAYER_EXTENSION, serde_json::to_value(content));
}

/// Multi-weights as an extension of the skin; weights on virtual bones are in the mesh's attributes.
fn write_ddm(builder: &mut Builder, skin: Index<Skin>, ddm: &DdmRig, far_origin: DVec3) {
    let turn = Space::GLTF.from_source(&ddm.rig.surface.space);
    let origin = turn.transform_point3(ddm.origin) - far_origin;
    let table = &ddm.weights.placed(turn.matrix3);
    let values: Vec<[f32; 1]> = table.values().iter().map(|v| [*v]).collect();
    let centres: Vec<[f32; 3]> = table.centres().iter().map(|p| p.to_array()).collect();
    let content = DdmExtension {
        variant: ddm.variant.into(),
        compressed: ddm.layer.is_some(),
        width: table.width() as u32,
        origin: origin.to_array(),
        starts: builder.integers(table.starts()).value() as u32,
        joints: builder.scalars(table.bones()).value() as u32,
        weights: builder.floats(&values, Purpose::Plain).value() as u32,
        centers: builder.floats(&centres, Purpose::Plain).value() as u32,
    };
    extend_skin(builder, skin, DDM_EXTENSION, serde_json::to_value(content));
}

/// Numbers of shapes as an extension of the skin. Components are along the axes of joints, which turn with the rig: only lengths change.
fn write_shape_bones(builder: &mut Builder, skin: Index<Skin>, face: &ShapeBones) {
    let scale = Space::GLTF.from_source(&face.rig.surface.space).matrix3.x_axis.length() as f32;
    let numbers = || face.shapes.iter().flat_map(|shape| &shape.numbers);
    let value = |x: &ShapeNumber| [if x.component < 3 { x.value * scale } else { x.value }];
    let joints: Vec<u16> = numbers().map(|x| x.bone).collect();
    let components: Vec<u16> = numbers().map(|x| u16::from(x.component)).collect();
    let values: Vec<[f32; 1]> = numbers().map(value).collect();
    let shape = |shape: &BoneShape| ShapeExtension {
        name: shape.name.clone(),
        count: shape.numbers.len() as u32,
        driver: shape.driver.clone(),
    };
    // An accessor has at least one element.
    let [joints, components] = [joints, components].map(|list| if list.is_empty() { vec![0] } else { list });
    let values = if values.is_empty() { vec![[0.0]] } else { values };
    let content = ShapeBonesExtension {
        kind: face.kind,
        shapes: face.shapes.iter().map(shape).collect(),
        joints: builder.scalars(&joints).value() as u32,
        components: builder.scalars(&components).value() as u32,
        numbers: builder.floats(&values, Purpose::Plain).value() as u32,
    };
    extend_skin(builder, skin, SHAPE_BONES_EXTENSION, serde_json::to_value(content));
}

fn extend_skin(builder: &mut Builder, skin: Index<Skin>, name: &str, content: serde_json::Result<serde_json::Value>) {
    let mut extension = gltf_json::extensions::skin::Skin::default();
    if let Ok(content) = content {
        extension.others.insert(name.to_owned(), content);
    }
    builder.root.skins[skin.value()].extensions = Some(extension);
    builder.root.extensions_used.push(name.to_owned());
}

fn write_scene(builder: &mut Builder, nodes: Vec<Index<Node>>) {
    let scene = builder.root.push(Scene { extensions: None, extras: None, name: None, nodes });
    builder.root.scene = Some(scene);
}

/// What small files leave out of materials.
const DEFAULTS: [&str; 3] =
    ["\"alphaMode\":\"OPAQUE\",", "\"doubleSided\":false,", "\"emissiveFactor\":[0.0,0.0,0.0],"];

/// One .glb, or a .bin and then the .gltf that names it: a reader never finds a .gltf without its bytes.
fn write_files(mut builder: Builder, path: &Path) -> Result<(), IoError> {
    let is_compact = builder.compact.is_some();
    let packing = builder.compact.as_ref().map_or(Packing::Plain, |choice| choice.packing);
    builder.compress(packing);
    let Builder { root, mut bin, placeholder, .. } = builder;
    let bytes = bin.len();
    let json = |uri: Option<String>| {
        let mut root = root.clone();
        let byte_length = USize64(bytes);
        root.push(gltf_json::Buffer { byte_length, name: None, uri, extensions: None, extras: None });
        if let Some(decoded) = placeholder {
            let mut extensions = gltf_json::extensions::buffer::Buffer::default();
            extensions.others.insert(compact::extension(packing).to_owned(), serde_json::json!({ "fallback": true }));
            let extensions = Some(extensions);
            root.push(gltf_json::Buffer {
                byte_length: USize64(decoded),
                name: None,
                uri: None,
                extensions,
                extras: None,
            });
        }
        let json = serde_json::to_string(&root);
        let json = json.map_err(|e| IoError::unsupported(path, format!("cannot be written as JSON: {e}")))?;
        // Defaults. Inside of a name the quotes would be escaped.
        let mut json = json.replace(",\"interpolation\":\"LINEAR\"", "");
        if is_compact {
            for default in DEFAULTS {
                json = json.replace(default, "");
            }
        }
        Ok(json.into_bytes())
    };
    if let [_, bin_path] = files_of(path).as_slice() {
        let json = |name: &OsStr| json(Some(percent_encode(&name.to_string_lossy())));
        return atomic::write_pair(path, bin_path, |file| bin.write(file), json);
    }
    let head = container::head(json(None)?, bin.align()).ok_or_else(|| IoError::unsupported(path, TOO_LARGE))?;
    atomic::write_with(path, |file| {
        file.write_all(&head)?;
        bin.write(file)
    })
}

/// File name as a URI: everything but unreserved characters escaped [RFC 3986].
fn percent_encode(name: &str) -> String {
    let keep = |b: u8| b.is_ascii_alphanumeric() || b"-._~".contains(&b);
    name.bytes().map(|b| if keep(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}
