//! Nodes of the bones, the skin with its clusters, the bind pose.

use std::io;

use bonesmith_core::transform::Trs;
use bonesmith_core::{Rig, SparseWeights};
use glam::{DAffine3, DVec3};

use super::animation::degrees;
use super::binary::{Properties, Record};
use super::mesh::Mesh;
use super::{Scene, matrix};
use crate::fbx::STRETCH;
use crate::joints::{Joints, NodeMotion};

/// Nodes of the bones.
pub struct Skeleton {
    /// [B] outer node of bones that need two.
    pub outers: Vec<Option<i64>>,
    /// [B].
    pub joints: Vec<i64>,
}

/// Writes the nodes below one at `origin`, which is below `above`, what hangs the mesh on them, and the bind pose.
pub fn write(
    scene: &mut Scene,
    rig: &Rig,
    plan: &Joints,
    mesh: &Mesh,
    above: i64,
    origin: DVec3,
) -> io::Result<Skeleton> {
    let root = scene.id();
    let name = format!("{}_skeleton", if rig.name.is_empty() { "rig" } else { &rig.name });
    node(scene, root, &name, &Trs { translation: origin, ..Trs::IDENTITY }, "Null");
    scene.connect(root, above);
    scene.connect(mesh.model, root);
    let skeleton = write_nodes(scene, rig, plan, root);
    let place = DAffine3::from_translation(origin);
    let binds = binds(plan, place);
    write_skin(scene, rig, &rig.weights, plan, &binds, &skeleton, mesh, true)?;
    write_pose(scene, &binds, &skeleton, &[(mesh.model, place), (root, place)])?;
    Ok(skeleton)
}

/// [B] places of the bones at rest, below a skeleton at `place`.
pub fn binds(plan: &Joints, place: DAffine3) -> Vec<DAffine3> {
    plan.inverse_binds.iter().map(|inverse| place * bind(inverse)).collect()
}

/// The nodes of the bones, below `root`.
pub fn write_nodes(scene: &mut Scene, rig: &Rig, plan: &Joints, root: i64) -> Skeleton {
    let mut skeleton = Skeleton { outers: Vec::new(), joints: Vec::new() };
    for (bone, nodes) in rig.bones.iter().zip(&plan.nodes) {
        let mut limb = |name: &str, motion: &NodeMotion| {
            let id = scene.id();
            node(scene, id, name, &motion.rest, "LimbNode");
            id
        };
        let outer = nodes.outer.as_ref().map(|motion| limb(&format!("{}{STRETCH}", bone.name), motion));
        skeleton.outers.push(outer);
        skeleton.joints.push(limb(&bone.name, &nodes.joint));
    }
    for (j, nodes) in plan.nodes.iter().enumerate() {
        let parent = nodes.parent.map_or(root, |p| skeleton.joints[p]);
        if let Some(outer) = skeleton.outers[j] {
            scene.connect(skeleton.joints[j], outer);
        }
        scene.connect(skeleton.outers[j].unwrap_or(skeleton.joints[j]), parent);
    }
    for (j, bone) in rig.bones.iter().enumerate() {
        if let Some(tip) = bone.tip {
            let local = bone.world_from_bind.inverse().transform_point3(tip);
            let id = scene.id();
            node(scene, id, &format!("{}_tip", bone.name), &Trs { translation: local, ..Trs::IDENTITY }, "LimbNode");
            scene.connect(id, skeleton.joints[j]);
        }
    }
    skeleton
}

/// A node and what it is.
pub fn node(scene: &mut Scene, id: i64, name: &str, place: &Trs, kind: &'static str) {
    let attribute = scene.id();
    let flags = if kind == "Null" { "Null" } else { "Skeleton" };
    let record = Record::new("NodeAttribute")
        .i64(attribute)
        .object(name, "NodeAttribute")
        .text(kind)
        .children([Properties::new().done(), Record::new("TypeFlags").text(flags)]);
    scene.object("NodeAttribute", record);
    let properties = Properties::new()
        .choice("InheritType", 1)
        .local("Lcl Translation", place.translation.to_array())
        .local("Lcl Rotation", degrees(place.rotation, None))
        .local("Lcl Scaling", place.scale.to_array());
    let record = Record::new("Model").i64(id).object(name, "Model").text(kind).children([
        Record::new("Version").i32(232),
        properties.done(),
        Record::new("Shading").bool(true),
        Record::new("Culling").text("CullingOff"),
    ]);
    scene.object("Model", record);
    scene.connect(attribute, id);
}

/// As the plan stores it, so that the file repeats what its curves were made for.
fn bind(inverse: &[f32; 16]) -> DAffine3 {
    DAffine3::from_mat4(glam::DMat4::from_cols_array(&inverse.map(f64::from))).inverse()
}

/// A skin of a mesh with these weights. With `all`, bones that move none of its vertices are in it too.
#[allow(clippy::too_many_arguments, reason = "each is plain")]
pub fn write_skin(
    scene: &mut Scene,
    rig: &Rig,
    all_weights: &SparseWeights,
    plan: &Joints,
    binds: &[DAffine3],
    skeleton: &Skeleton,
    mesh: &Mesh,
    all: bool,
) -> io::Result<()> {
    let skin = scene.id();
    let record = Record::new("Deformer").i64(skin).object("skin", "Deformer").text("Skin").children([
        Record::new("Version").i32(101),
        Record::new("Link_DeformAcuracy").f64(50.0),
        Record::new("SkinningType").text("Linear"),
    ]);
    scene.object("Deformer", record);
    scene.connect(skin, mesh.geometry);
    let mut of_bones: Vec<(Vec<i32>, Vec<f64>)> = vec![Default::default(); rig.bone_count()];
    for i in 0..all_weights.vertex_count() {
        for (j, w) in all_weights.of(i) {
            of_bones[j].0.push(i as i32);
            of_bones[j].1.push(f64::from(w));
        }
    }
    for (j, (vertices, weights)) in of_bones.into_iter().enumerate() {
        if !all && vertices.is_empty() {
            continue;
        }
        let id = scene.id();
        let inverse = plan.inverse_binds[j].map(f64::from);
        let name = &rig.bones[j].name;
        let mut record = Record::new("Deformer")
            .i64(id)
            .object(name, "SubDeformer")
            .text("Cluster")
            .children([Record::new("Version").i32(100), Record::new("UserData").text("").text("")]);
        // A bone that moves nothing keeps its place in the skin, and its bind.
        if !vertices.is_empty() {
            record = record.child(Record::new("Indexes").i32s(vertices)?).child(Record::new("Weights").f64s(weights)?);
        }
        record = record
            .child(Record::new("Transform").f64s(inverse)?)
            .child(Record::new("TransformLink").f64s(matrix(&binds[j]))?);
        scene.object("Deformer", record);
        scene.connect(id, skin);
        scene.connect(skeleton.joints[j], id);
    }
    Ok(())
}

/// The bind pose of the bones and of `others`.
pub fn write_pose(
    scene: &mut Scene,
    binds: &[DAffine3],
    skeleton: &Skeleton,
    others: &[(i64, DAffine3)],
) -> io::Result<()> {
    let id = scene.id();
    let mut nodes = others.to_vec();
    for (j, bind) in binds.iter().enumerate() {
        // The outer of two nodes carries the whole rest transform, the joint rests in it.
        nodes.extend(skeleton.outers[j].map(|outer| (outer, *bind)));
        nodes.push((skeleton.joints[j], *bind));
    }
    let mut record = Record::new("Pose").i64(id).object("bind", "Pose").text("BindPose").children([
        Record::new("Type").text("BindPose"),
        Record::new("Version").i32(100),
        Record::new("NbPoseNodes").i32(nodes.len() as i32),
    ]);
    for (node, place) in nodes {
        let place = Record::new("Matrix").f64s(matrix(&place))?;
        record = record.child(Record::new("PoseNode").child(Record::new("Node").i64(node)).child(place));
    }
    scene.object("Pose", record);
    Ok(())
}
