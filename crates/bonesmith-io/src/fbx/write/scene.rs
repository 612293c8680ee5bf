//! The meshes of a scene as they were: a node each, below the nodes they hung on, with a skin each over one tree of bones. Meshes that do not
//! move have none, and those whose nodes move neither.

use std::io;
use std::path::Path;

use bonesmith_core::transform::Trs;
use bonesmith_core::{BlendShape, Parts, Rig, SparseWeights, Surface};
use glam::{DAffine3, DVec3, Vec3};

use super::binary::Record;
use super::shapes::{self, Channels};
use super::skeleton::{self, Skeleton};
use super::{ROOT, Scene, extras, finished, first_times, material, mesh, plan, write_clips};
use crate::carried::CarriedMeshes;
use crate::joints::Joints;
use crate::parts::{PartMesh, Places, meshes_of, shapes_of, to_node, to_trs, without_still_bones};
use crate::warning;

/// Control points of instances are in the same place within this share of the largest coordinate.
const SAME: f32 = 1e-5;

/// Everything that depends on the rig of a scene and on its shapes; `rig` is relative to `origin`.
pub fn records(
    mut scene: Scene,
    rig: &Rig,
    shapes: &[BlendShape],
    origin: Option<DVec3>,
    path: &Path,
) -> io::Result<Vec<Record>> {
    let rig = &*without_still_bones(rig, shapes);
    let places = Places::new(rig, shapes, origin, false);
    // Curves are float32, and fewer keys are bounded for bones.
    let may_move = origin.is_none() && scene.tolerance.is_none();
    let mut carried = if may_move { CarriedMeshes::new(rig, shapes, &places) } else { CarriedMeshes::default() };
    let reduced = carried.reduced.take();
    let rig = reduced.as_ref().unwrap_or(rig);
    let plan = plan(rig)?;
    let mut channels = Channels::default();
    let (skeleton, models) = write(&mut scene, rig, shapes, &mut channels, &plan, (&places, &carried), origin, path)?;
    let (joints, nodes) = carried.into_joints(&models);
    let nodes = Skeleton { outers: vec![None; nodes.len()], joints: nodes };
    write_clips(&mut scene, rig, &[(&plan, &skeleton), (&joints, &nodes)], (&channels, shapes))?;
    Ok(finished(scene, rig.surface.space, first_times(rig)))
}

/// A geometry that is written.
struct Written {
    geometry: i64,
    points: Vec<Vec3>,
    face_materials: Vec<u32>,
}

/// Writes meshes, nodes, bones, skins and shapes. Instances share their geometry. Returns the bones and the nodes of the meshes.
#[allow(clippy::too_many_arguments, reason = "called once, and each is plain")]
fn write(
    scene: &mut Scene,
    rig: &Rig,
    shapes: &[BlendShape],
    channels: &mut Channels,
    plan: &Joints,
    (places, carried): (&Places, &CarriedMeshes),
    origin: Option<DVec3>,
    path: &Path,
) -> io::Result<(Skeleton, Vec<i64>)> {
    let parts = &rig.surface.parts;
    let (of_meshes, mut apart) = (shapes_of(parts, shapes), Vec::new());
    let mut ids = vec![None; parts.nodes.len()];
    let (mut skins, mut models) = (Vec::new(), Vec::new());
    // [materials] nodes of meshes.
    let mut users = vec![Vec::new(); rig.surface.materials.len()];
    let mut written: Vec<Written> = Vec::new();
    for (at, (part, own)) in parts.meshes.iter().zip(meshes_of(rig)).enumerate() {
        let PartMesh { mut rest, mut surface, weights, vertices } = own;
        let carried = carried.of(at);
        if let Some(place) = carried.map(|own| own.world_from_node).or(places.still[at]) {
            to_node(&mut rest, &mut surface, place);
        }
        let of_faces = surface.face_materials.clone();
        let used = own_materials(&mut surface);
        let named = |name: &str, other: &str| if name.is_empty() { other.to_owned() } else { name.to_owned() };
        let name = named(parts.name(part), "mesh");
        let names = [&*named(&part.mesh, &name), &*name];
        let own_extras = match part.instance_of {
            _ if at == 0 => extras(rig, plan),
            Some(of) => format!("{{\"part\":{at},\"instance_of\":{of}}}"),
            None => format!("{{\"part\":{at}}}"),
        };
        let local = carried.map_or_else(|| trs(places.locals[part.node]), |own| own.motion.rest);
        let same = |of: &usize| are_near(&written[*of].points, &rest) && written[*of].face_materials == of_faces;
        let shared = carried.map(|own| own.of).filter(|&of| of != at).or(places.instance_of[at].filter(same));
        let mesh = match shared {
            Some(of) => mesh::show(scene, written[of].geometry, &name, &local, Some(&own_extras)),
            None => mesh::write(scene, names, &rest, &surface, &local, Some(&own_extras))?,
        };
        if parts.meshes[at].instance_of.is_some() && shared.is_none() {
            apart.push(name.clone());
        }
        written.push(Written { geometry: mesh.geometry, points: rest, face_materials: of_faces });
        used.iter().for_each(|&m| users[m as usize].push(mesh.model));
        ids[part.node] = Some(mesh.model);
        models.push(mesh.model);
        if places.still[at].is_none() && carried.is_none() {
            channels.write(scene, &mesh, shapes::of_vertices(shapes, of_meshes[at].iter().copied(), vertices))?;
            skins.push((mesh, weights));
        }
    }
    material::write(scene, &rig.surface, |m| users[m].clone());
    warning::instances(path, apart);
    let ids: Vec<i64> =
        ids.into_iter().enumerate().map(|(n, id)| id.unwrap_or_else(|| group(scene, parts, n, places))).collect();
    for (node, &id) in parts.nodes.iter().zip(&ids) {
        scene.connect(id, node.parent.map_or(ROOT, |parent| ids[parent]));
    }
    let home = parts.skeleton.map(|node| ids[node]);
    Ok((write_bones(scene, rig, plan, &skins, home, origin)?, models))
}

/// Writes the bones below the node that holds them, the skins and the bind pose; nothing where all meshes move by themselves.
fn write_bones(
    scene: &mut Scene,
    rig: &Rig,
    plan: &Joints,
    skins: &[(mesh::Mesh, SparseWeights)],
    home: Option<i64>,
    origin: Option<DVec3>,
) -> io::Result<Skeleton> {
    if rig.bones.is_empty() {
        return Ok(Skeleton { outers: Vec::new(), joints: Vec::new() });
    }
    let base = DAffine3::from_translation(origin.unwrap_or_default());
    let root = home.unwrap_or_else(|| own_root(scene, rig, origin));
    let skeleton = skeleton::write_nodes(scene, rig, plan, root);
    let binds = skeleton::binds(plan, base);
    let mut bound = vec![(root, base)];
    for (at, (mesh, weights)) in skins.iter().enumerate() {
        skeleton::write_skin(scene, rig, weights, plan, &binds, &skeleton, mesh, at == 0)?;
        bound.push((mesh.model, base));
    }
    skeleton::write_pose(scene, &binds, &skeleton, &bound)?;
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
