//! Mesh animations as morph targets, one per frame of all clips; the meshes of a scene as they were, each with targets of its own.

use std::path::Path;

use bonesmith_core::{MeshSequence, Space};
use glam::DAffine3;
use gltf_json::animation::Property;
use gltf_json::{Index, Node};

use super::animation::{AnimationBuilder, KeyTimes};
use super::blob::Blob;
use super::buffer::{Builder, Purpose};
use super::material::{name, write_materials};
use super::mesh::{MeshSource, Target, write_mesh};
use super::scene::{roots, write_nodes};
use super::{TOO_LARGE, write_files, write_scene};
use crate::parts::{Places, clips_of, part_surface, still_in, to_node};
use crate::{IoError, scratch, texture};

/// Most frames written as morph targets: the key values alone take 4 F^2 bytes.
const MAX_FRAMES: usize = 4096;

/// Writes a mesh animation: frame t is target t alone; in between, two neighbours blend linearly.
pub fn save_sequence(sequence: &MeshSequence, path: &Path) -> Result<(), IoError> {
    let unsupported = |what: String| IoError::unsupported(path, what);
    let frames = sequence.frame_count();
    if frames > MAX_FRAMES {
        return Err(unsupported(format!(
            "{frames} frames, at most {MAX_FRAMES} can be written as morph targets: take fewer, or write .npz"
        )));
    }
    // Twelve bytes for each position, at least.
    let is_one_file = crate::opens::files_of(path).len() == 1;
    if is_one_file && sequence.position_bytes() as u64 > u64::from(u32::MAX) {
        return Err(unsupported(TOO_LARGE.to_owned()));
    }
    let turn = Space::GLTF.from_source(&sequence.surface().space);
    let turned = (turn != DAffine3::IDENTITY).then(|| sequence.clone().placed(turn)).transpose();
    let turned = turned.map_err(|e| unsupported(e.to_string()))?;
    let sequence = turned.as_ref().unwrap_or(sequence);
    texture::warn_of_unwritable(sequence.surface(), path);
    let mut builder = Builder::new();
    if sequence.is_stored() {
        builder.bin = Blob::in_file().map_err(|e| IoError::os(scratch::folder(), e))?;
    }
    let moving = match sequence.surface().parts.is_empty() {
        true => vec![write_one(&mut builder, sequence)],
        false => write_meshes(&mut builder, sequence),
    };
    for clip in clips_of(sequence).into_iter().filter(|_| !moving.is_empty()) {
        let times = KeyTimes::new(&clip.times_secs);
        let times =
            times.ok_or_else(|| unsupported(format!("clip {:?}: its times do not rise in float32", clip.name)))?;
        let mut animation = AnimationBuilder::new(&clip.name, times);
        let keys = clip.frames.flat_map(|t| (0..frames).map(move |target| [f32::from(t == target)]));
        let output = builder.floats(&keys.collect::<Vec<[f32; 1]>>(), Purpose::Plain);
        let all: Vec<usize> = (0..clip.times_secs.len()).collect();
        for &node in &moving {
            animation.keyed(&mut builder, node, Property::MorphTargetWeights, &all, output);
        }
        animation.finish(&mut builder);
    }
    write_files(builder, path)
}

fn frame_name(t: usize) -> String {
    format!("frame_{t:04}")
}

/// One mesh at the top of the scene.
fn write_one(builder: &mut Builder, sequence: &MeshSequence) -> Index<Node> {
    let all = 0..sequence.vertex_count();
    let target = |t: usize| (Target::Frame(sequence, t, all.clone()), frame_name(t));
    let source = MeshSource {
        name: sequence.name(),
        rest: sequence.rest(),
        surface: sequence.surface(),
        weights: None,
        virtual_weights: None,
        targets: (0..sequence.frame_count()).map(target).collect(),
        first: 0,
    };
    let mesh = write_mesh(builder, &source);
    let node = builder.root.push(Node { mesh: Some(mesh), name: name(sequence.name()), ..Node::default() });
    write_scene(builder, vec![node]);
    node
}

/// The meshes of a scene below their nodes; those that do not move are in the places of their nodes. Returns the others.
fn write_meshes(builder: &mut Builder, sequence: &MeshSequence) -> Vec<Index<Node>> {
    let surface = sequence.surface();
    let parts = &surface.parts;
    write_materials(builder, surface);
    let mut still = still_in(sequence);
    // Something must hold the keys of the clips; one frame has none.
    if sequence.frame_count() > 1 && !still.contains(&false) {
        still[0] = false;
    }
    let places = Places::of(parts, still, DAffine3::IDENTITY, true);
    let nodes = write_nodes(builder, parts, &places);
    let all: Vec<u32> = (0..surface.topology.face_count() as u32).collect();
    let (mut moving, mut written) = (Vec::new(), Vec::new());
    for (at, (part, vertices, faces)) in parts.ranges().enumerate() {
        let (mut rest, mut own) = (
            sequence.rest()[vertices.clone()].to_vec(),
            part_surface(surface, part, vertices.start as u32, &all[faces]),
        );
        let still = places.still[at];
        if let Some(place) = still {
            rest.copy_from_slice(&sequence.part_of_frame(0, vertices.clone()));
            to_node(&mut rest, &mut own, place);
        }
        let frames = if still.is_some() { 0 } else { sequence.frame_count() };
        let target = |t: usize| (Target::Frame(sequence, t, vertices.clone()), frame_name(t));
        let mesh = places.instance_of[at].map(|of| written[of]).unwrap_or_else(|| {
            let source = MeshSource {
                name: &part.mesh,
                rest: &rest,
                surface: &own,
                weights: None,
                virtual_weights: None,
                targets: (0..frames).map(target).collect(),
                first: 0,
            };
            write_mesh(builder, &source)
        });
        written.push(mesh);
        let node = nodes[part.node];
        builder.root.nodes[node.value()].mesh = Some(mesh);
        if still.is_none() {
            moving.push(node);
        }
    }
    write_scene(builder, roots(parts, &nodes));
    moving
}
