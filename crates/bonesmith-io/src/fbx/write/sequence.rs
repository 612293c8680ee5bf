//! Mesh animations as blend shapes, one per frame of all clips; the meshes of a scene as they were, each with shapes of its own.

use std::io;
use std::path::Path;

use bonesmith_core::mesh::sequence::Span;
use bonesmith_core::transform::Trs;
use bonesmith_core::{MeshSequence, Surface};
use glam::{DAffine3, Vec3};

use super::animation::Writer;
use super::binary::Record;
use super::mesh::{self, Mesh};
use super::scene::{group, own_materials, trs};
use super::shapes::{Channels, MeshShape};
use super::{ROOT, Scene, TICKS_PER_SEC, finished, material, write_file};
use crate::IoError;
use crate::parts::{Places, clips_of, part_surface, still_in, to_node};

/// Most frames written as shapes, as in glTF.
const MAX_FRAMES: usize = 4096;

/// Writes a mesh animation: frame t is shape t alone; in between, two neighbours blend linearly.
pub fn save_sequence(sequence: &MeshSequence, path: &Path) -> Result<(), IoError> {
    let unsupported = |what: String| IoError::unsupported(path, what);
    let frames = sequence.frame_count();
    if frames > MAX_FRAMES {
        let what = format!("{frames} frames, at most {MAX_FRAMES} can be written as shapes: take fewer, or write .npz");
        return Err(unsupported(what));
    }
    let clips = clips_of(sequence);
    if let Some(clip) = clips.iter().find(|clip| clip.times_secs.iter().any(|t| t.abs() * TICKS_PER_SEC > 9e18)) {
        return Err(unsupported(format!("clip {:?}: its times are beyond the clock of FBX", clip.name)));
    }
    material::warn_of_losses(sequence.surface(), path);
    write_file(records(sequence, &clips).map_err(|e| IoError::os(path, e))?, path)
}

fn records(sequence: &MeshSequence, clips: &[Span]) -> io::Result<Vec<Record>> {
    let (mut scene, mut channels) = (Scene::new(), Channels::default());
    let moving = match sequence.surface().parts.is_empty() {
        true => vec![write_one(&mut scene, &mut channels, sequence)?],
        false => write_meshes(&mut scene, &mut channels, sequence)?,
    };
    for (c, clip) in clips.iter().enumerate() {
        let name = if clip.name.is_empty() { format!("animation_{c}") } else { clip.name.clone() };
        let mut writer = Writer::of_clip(&mut scene, c, &name, &clip.times_secs);
        if let Some((node, place)) = moving.first() {
            writer.length(*node, place.translation.to_array())?;
        }
        for channel in &channels.0 {
            let weights: Vec<f64> = clip.frames.clone().map(|t| f64::from(t == channel.shape)).collect();
            writer.weights(channel.id, &weights)?;
        }
    }
    let times = clips.first().map_or(&[][..], |clip| &clip.times_secs);
    Ok(finished(scene, sequence.surface().space, times))
}

/// What our reader needs to know of mesh `at`.
fn extras(surface: &Surface, at: usize) -> String {
    serde_json::json!({ "space": surface.space, "part": at }).to_string()
}

/// The shapes of some vertices: what each frame adds to the rest pose.
fn write_shapes(
    scene: &mut Scene,
    channels: &mut Channels,
    sequence: &MeshSequence,
    mesh: &Mesh,
    vertices: std::ops::Range<usize>,
) -> io::Result<()> {
    let names: Vec<String> = (0..sequence.frame_count()).map(|t| format!("frame_{t:04}")).collect();
    let rest = &sequence.rest()[vertices.clone()];
    let shapes = names.iter().enumerate().map(|(t, name)| {
        let frame = sequence.frame(t);
        let offsets: Vec<Vec3> = frame[vertices.clone()].iter().zip(rest).map(|(p, q)| *p - *q).collect();
        MeshShape { number: t, name, offsets }
    });
    // A frame that is the rest pose needs none.
    channels.write(scene, mesh, shapes.filter(|shape| shape.offsets.iter().any(|d| *d != Vec3::ZERO)))
}

/// One mesh at the top of the scene.
fn write_one(scene: &mut Scene, channels: &mut Channels, sequence: &MeshSequence) -> io::Result<(i64, Trs)> {
    let name = if sequence.name().is_empty() { "mesh" } else { sequence.name() };
    let own = extras(sequence.surface(), 0);
    let mesh = mesh::write(scene, [name, name], sequence.rest(), sequence.surface(), &Trs::IDENTITY, Some(&own))?;
    scene.connect(mesh.model, ROOT);
    material::write(scene, sequence.surface(), |_| vec![mesh.model]);
    write_shapes(scene, channels, sequence, &mesh, 0..sequence.vertex_count())?;
    Ok((mesh.model, Trs::IDENTITY))
}

/// The meshes of a scene below their nodes; those that do not move are in the places of their nodes. Returns the others.
fn write_meshes(scene: &mut Scene, channels: &mut Channels, sequence: &MeshSequence) -> io::Result<Vec<(i64, Trs)>> {
    let surface = sequence.surface();
    let parts = &surface.parts;
    let mut still = still_in(sequence);
    // Something must hold the keys of the clips; one frame has none.
    if sequence.frame_count() > 1 && !still.contains(&false) {
        still[0] = false;
    }
    let places = Places::of(parts, still, DAffine3::IDENTITY, false);
    let all: Vec<u32> = (0..surface.topology.face_count() as u32).collect();
    let mut ids = vec![None; parts.nodes.len()];
    let mut users = vec![Vec::new(); surface.materials.len()];
    let mut moving = Vec::new();
    for (at, (part, vertices, faces)) in parts.ranges().enumerate() {
        let mut rest = sequence.rest()[vertices.clone()].to_vec();
        let mut own = part_surface(surface, part, vertices.start as u32, &all[faces]);
        if let Some(place) = places.still[at] {
            rest.copy_from_slice(&sequence.frame(0)[vertices.clone()]);
            to_node(&mut rest, &mut own, place);
        }
        let used = own_materials(&mut own);
        let named = |name: &str, other: &str| if name.is_empty() { other.to_owned() } else { name.to_owned() };
        let name = named(parts.name(part), "mesh");
        let names = [&*named(&part.mesh, &name), &*name];
        let local = trs(places.locals[part.node]);
        let mesh = mesh::write(scene, names, &rest, &own, &local, Some(&extras(surface, at)))?;
        used.iter().for_each(|&m| users[m as usize].push(mesh.model));
        ids[part.node] = Some(mesh.model);
        if places.still[at].is_none() {
            write_shapes(scene, channels, sequence, &mesh, vertices)?;
            moving.push((mesh.model, local));
        }
    }
    material::write(scene, surface, |m| users[m].clone());
    let ids: Vec<i64> =
        ids.into_iter().enumerate().map(|(n, id)| id.unwrap_or_else(|| group(scene, parts, n, &places))).collect();
    for (node, &id) in parts.nodes.iter().zip(&ids) {
        scene.connect(id, node.parent.map_or(ROOT, |parent| ids[parent]));
    }
    Ok(moving)
}
