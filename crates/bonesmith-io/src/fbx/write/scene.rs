//! The meshes of a scene as they were: a node each, below the nodes they hung on, with a skin each over one tree of bones. Meshes that do not
//! move have none.

use std::io;
use std::path::Path;

use bonesmith_core::transform::Trs;
use bonesmith_core::{BlendShape, Parts, Rig, Surface};
use glam::{DAffine3, DVec3, Vec3};

use super::shapes::{self, Channels};
use super::skeleton::{self, Skeleton};
use super::{ROOT, Scene, extras, material, mesh};
use crate::joints::Joints;
use crate::parts::{PartMesh, Places, meshes_of, shapes_of, to_node, to_trs};
use crate::warning;

/// Control points of instances are in the same place within this share of the largest coordinate.
const SAME: f32 = 1e-5;

/// Writes meshes, nodes, bones, skins and shapes; `rig` is relative to `origin`. Instances that stand still share their geometry.
pub fn write(
    scene: &mut Scene,
    rig: &Rig,
    shapes: &[BlendShape],
    channels: &mut Channels,
    plan: &Joints,
    origin: Option<DVec3>,
    path: &Path,
) -> io::Result<Skeleton> {
    let (parts, places) = (&rig.surface.parts, Places::new(rig, shapes, origin, false));
    let (of_meshes, mut apart) = (shapes_of(parts, shapes), Vec::new());
    let mut ids = vec![None; parts.nodes.len()];
    let mut skins = Vec::new();
    // [materials] nodes of meshes.
    let mut users = vec![Vec::new(); rig.surface.materials.len()];
    // [meshes] geometry, control points and materials of the faces, for other instances.
    let mut written: Vec<(i64, Vec<Vec3>, Vec<u32>)> = Vec::new();
    for (at, (part, own)) in parts.meshes.iter().zip(meshes_of(rig)).enumerate() {
        let PartMesh { mut rest, mut surface, weights, vertices } = own;
        if let Some(place) = places.still[at] {
            to_node(&mut rest, &mut surface, place);
        }
        let of_faces = surface.face_materials.clone();
        let used = own_materials(&mut surface);
        let named = |name: &str, other: &str| if name.is_empty() { other.to_owned() } else { name.to_owned() };
        let name = named(parts.name(part), "mesh");
        let names = [&*named(&part.mesh, &name), &*name];
        let own_extras = if at == 0 { extras(rig, plan) } else { format!("{{\"part\":{at}}}") };
        let local = trs(places.locals[part.node]);
        let shared = places.instance_of[at].filter(|&of| are_near(&written[of].1, &rest) && written[of].2 == of_faces);
        let mesh = match shared {
            Some(of) => mesh::show(scene, written[of].0, &name, &local, Some(&own_extras)),
            None => mesh::write(scene, names, &rest, &surface, &local, Some(&own_extras))?,
        };
        if parts.meshes[at].instance_of.is_some() && shared.is_none() {
            apart.push(name.clone());
        }
        written.push((mesh.geometry, rest, of_faces));
        used.iter().for_each(|&m| users[m as usize].push(mesh.model));
        ids[part.node] = Some(mesh.model);
        if places.still[at].is_none() {
            channels.write(scene, &mesh, shapes::of_vertices(shapes, of_meshes[at].iter().copied(), vertices))?;
            skins.push((mesh, weights));
        }
    }
    material::write(scene, &rig.surface, |m| users[m].clone());
    let base = DAffine3::from_translation(origin.unwrap_or_default());
    let ids: Vec<i64> =
        ids.into_iter().enumerate().map(|(n, id)| id.unwrap_or_else(|| group(scene, parts, n, &places))).collect();
    for (node, &id) in parts.nodes.iter().zip(&ids) {
        scene.connect(id, node.parent.map_or(ROOT, |parent| ids[parent]));
    }
    let root = parts.skeleton.map_or_else(|| own_root(scene, rig, origin), |node| ids[node]);
    let skeleton = skeleton::write_nodes(scene, rig, plan, root);
    let binds = skeleton::binds(plan, base);
    let mut bound = vec![(root, base)];
    for (at, (mesh, weights)) in skins.iter().enumerate() {
        skeleton::write_skin(scene, rig, weights, plan, &binds, &skeleton, mesh, at == 0)?;
        bound.push((mesh.model, base));
    }
    skeleton::write_pose(scene, &binds, &skeleton, &bound)?;
    warning::instances(path, apart);
    Ok(skeleton)
}

/// Whether two instances have the same control points: the node of one may be in no place of its own.
fn are_near(a: &[Vec3], b: &[Vec3]) -> bool {
    let size = a.iter().map(|p| p.abs().max_element()).fold(0.0f32, f32::max);
    a.len() == b.len() && a.iter().zip(b).all(|(p, q)| p.distance(*q) <= SAME * size)
}

/// A node that shows nothing.
pub fn group(scene: &mut Scene, parts: &Parts, n: usize, places: &Places) -> i64 {
    let id = scene.id();
    let name = match parts.nodes[n].name.as_str() {
        "" => format!("node_{n}"),
        name => name.to_owned(),
    };
    skeleton::node(scene, id, &name, &trs(places.locals[n]), "Null");
    id
}

/// A node for the bones, where the scene has none.
fn own_root(scene: &mut Scene, rig: &Rig, origin: Option<DVec3>) -> i64 {
    let id = scene.id();
    let name = format!("{}_skeleton", if rig.name.is_empty() { "rig" } else { &rig.name });
    skeleton::node(scene, id, &name, &Trs { translation: origin.unwrap_or_default(), ..Trs::IDENTITY }, "Null");
    scene.connect(id, ROOT);
    id
}

/// Translation, rotation and scale of a node; nodes that shear are in no place of their own.
pub fn trs(local: DAffine3) -> Trs {
    to_trs(local).unwrap_or(Trs::IDENTITY)
}

/// Numbers the materials of a mesh by themselves; returns those that it uses, ascending.
pub fn own_materials(surface: &mut Surface) -> Vec<u32> {
    let mut used = surface.face_materials.clone();
    used.sort_unstable();
    used.dedup();
    surface.face_materials.iter_mut().for_each(|m| *m = used.partition_point(|other| other < m) as u32);
    used
}
