//! Rigs and mesh animations out of glTF files.

mod accessor;
mod compressed;
mod ddm;
mod document;
mod draco;
mod material;
mod mesh;
mod model;
mod parts;
mod primitive;
mod scene;
mod shape_bones;
mod shapes;
mod stored;
mod surface;
mod texture_transform;
mod track;
mod two_layer;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use bonesmith_core::deform::lbs;
use bonesmith_core::mesh::sequence::Span;
use bonesmith_core::{
    Bone, Clip, Model as AnyModel, ModelRef, RawFrame, RawSequence, Rig, Space, Surface, TwoLayerRig,
};
use glam::{DAffine3, DVec3, Vec3};
use gltf_json::animation::Property;

use self::document::Document;
use self::model::Model;
pub use self::stored::{StoredSkins, StoredWeights, stored_skins};
use self::track::{Motion, Track, gap_secs, snap};
use super::TIP;
use super::extras::{self, MeshExtras, TWO_LAYER_EXTENSION};
use crate::faces::{Collected, RawFace};
use crate::load::{Content, FileContent, Request};
use crate::sink::Sink;
use crate::skinned::{UniqueNames, forest, kind_of};
use crate::{IoError, LoadOptions, MeshEntry, warning};

/// Most bone transforms of one clip, and most vertex positions of one baked sequence: both multiply, so a small
/// file could ask for any amount of memory.
const MAX_TRANSFORMS: usize = 1 << 25;
const MAX_POSITIONS: usize = 1 << 30;

/// Reads whatever the file holds. A skinned file is a rig: one clip per animation, sampled at its keys or at `fps`; one
/// whose animations move no bone, and any other, is an animation.
pub fn load(path: &Path, request: &Request<'_>) -> Result<FileContent, IoError> {
    let document = Document::open(path)?;
    let meshes = request.list(|| model::list(&document))?;
    let stored = request.meshes.then(|| stored::of_document(&document)).transpose()?;
    Ok(FileContent { content: read(&document, request)?, meshes, stored, shared_names: Vec::new() })
}

fn read(document: &Document, request: &Request<'_>) -> Result<Content, IoError> {
    let LoadOptions { fps, mesh, keep_shapes } = request.options;
    let model = match layered(document, Model::read(document, mesh.as_deref())?, None)? {
        Ok(layered) => return Ok(Content::Model(layered)),
        Err(plain) => plain,
    };
    // One mesh of several is read as a plain rig.
    if mesh.is_none() && (shapes::are_animated(&model) || (*keep_shapes && shapes::are_no_frames(&model, *fps))) {
        return Ok(Content::model(shapes::load(document, model, *fps)?));
    }
    let animated = |m: &Motion| m.tracks.iter().any(|t| t.property != Property::MorphTargetWeights);
    // A skin that nothing animates is a rig without clips.
    let is_rig = model.skinned || model.skin_extras.is_some();
    if is_rig && (request.rig || model.motions.is_empty() || model.motions.iter().any(animated)) {
        return Ok(Content::model(to_rig(document, model, *fps)?));
    }
    // Nodes that move stay nodes that move: bones of their own.
    let moved = |m: &Motion| m.tracks.iter().all(|t| t.property != Property::MorphTargetWeights);
    if *keep_shapes && !request.rig && !model.motions.is_empty() && model.motions.iter().all(moved) {
        return Ok(Content::model(to_rig(document, model, *fps)?));
    }
    match request.rig {
        true => Err(document.unsupported("it has no skinned mesh, so it is no rig; read it as a mesh animation")),
        false => Ok(Content::Sequence(to_sequence(document, &model, *fps)?)),
    }
}

/// A model with layers, as extensions of our own store them; else the plain one back.
fn layered(document: &Document, model: Model, fps: Option<f64>) -> Result<Result<AnyModel, Model>, IoError> {
    if let Some((blends, weights)) = two_layer::read(document, &model)? {
        let two = TwoLayerRig { master: to_rig(document, model, fps)?, blends, weights };
        two.check().map_err(|e| document.malformed(format!("{TWO_LAYER_EXTENSION}: {e}")))?;
        return Ok(Ok(two.into()));
    }
    if let Some(content) = shape_bones::read(document)? {
        return Ok(Ok(shape_bones::load(content, document, model, fps)?.into()));
    }
    match ddm::read(document, &model)? {
        Some(layers) => Ok(Ok(layers.into_rig(document, model, fps)?.into())),
        None => Ok(Err(model)),
    }
}

/// Meshes that the scene shows, by the name of their nodes.
pub fn list_meshes(path: &Path) -> Result<Vec<MeshEntry>, IoError> {
    model::list(&Document::open(path)?)
}

/// Bakes everything that moves, skins with their layers and morph targets, to positions; several animations follow each other.
pub fn load_sequence(path: &Path, options: &LoadOptions) -> Result<RawSequence, IoError> {
    let document = Document::open(path)?;
    let model = match layered(&document, Model::read(&document, options.mesh.as_deref())?, options.fps)? {
        Ok(layered) => return layered_sequence(&document, layered.view(), options.fps),
        Err(plain) => plain,
    };
    let of_skins = document.root.skins.iter().filter_map(|skin| skin.extensions.as_ref());
    let layers = of_skins.flat_map(|own| own.others.keys()).filter(|name| name.starts_with("BONESMITH_"));
    warning::left_out_all(path, "frames are posed with plain weights, without", layers.cloned().collect());
    to_sequence(&document, &model, options.fps)
}

/// Reads morph targets as shapes of a face, where the unanimated file shows them. Those of one name in several meshes are one shape.
pub fn load_face(path: &Path, options: &LoadOptions) -> Result<RawFace, IoError> {
    let document = Document::open(path)?;
    let model = Model::read(&document, options.mesh.as_deref())?;
    let mut face = Collected::new(model.rest.clone());
    for morph in &model.morphs {
        // Weights of the unanimated file are no part of the neutral.
        for (target, weight) in morph.targets.iter().zip(&morph.rest_weights).filter(|(_, weight)| **weight != 0.0) {
            let own = face.neutral.iter_mut().skip(morph.first).zip(target);
            own.for_each(|(p, d)| *p -= *d * *weight as f32);
        }
    }
    for morph in &model.morphs {
        let names = shapes::names_of_node(&document, morph.node);
        for (k, target) in morph.targets.iter().enumerate() {
            let name = names.get(k).cloned().unwrap_or_else(|| format!("shape_{k}"));
            face.add(&name, morph.first, target.iter().copied().enumerate());
        }
    }
    let mut face = face.finish(path, model.name, model.surface)?;
    turn_back(&document, &mut face.shapes);
    Ok(face)
}

/// A rig without morph targets: they stay as the unanimated file has them.
fn to_rig(document: &Document, mut model: Model, fps: Option<f64>) -> Result<Rig, IoError> {
    let morphs = model.morphs.iter().map(|morph| morph.targets.len()).sum();
    let is_morph = |track: &Track| track.property == Property::MorphTargetWeights;
    warning::shapes_of_rig(document.path(), morphs, model.motions.iter().any(|m| m.tracks.iter().any(is_morph)));
    for motion in &mut model.motions {
        motion.tracks.retain(|track| !is_morph(track));
    }
    model.motions.retain(|motion| !motion.tracks.is_empty());
    posed(document, model, fps)
}

/// A rig of all motions: what they do to morph targets is not in it.
fn posed(document: &Document, mut model: Model, fps: Option<f64>) -> Result<Rig, IoError> {
    let mut clips = Vec::new();
    for motion in &model.motions {
        clips.push(sample_clip(document, &model, motion, fps)?);
    }
    let mut bones = bones(&model);
    find_tips(document, &model, &mut bones);
    let own = model.skin_extras.take();
    let kind = own.as_ref().map_or_else(|| kind_of(&bones, &clips), |own| own.kind);
    let params_json = own.and_then(|own| own.params).map(|params| params.get().to_owned()).unwrap_or_default();
    let Model { name, rest, surface, weights, .. } = model;
    let rig = Rig { name, rest, surface: Arc::new(surface), weights, bones, kind, clips, params_json };
    let rig = match own_space(document) {
        Some((space, turn)) => {
            let mut rig = if turn == DAffine3::IDENTITY { rig } else { rig.placed(turn) };
            Arc::make_mut(&mut rig.surface).space = space;
            rig
        }
        None => rig,
    };
    rig.check().map_err(|e| document.malformed(e.to_string()))?;
    Ok(rig)
}

/// The space in which a file of our own was before it was turned to glTF's, and the way back.
fn own_space(document: &Document) -> Option<(Space, DAffine3)> {
    let mut spaces = document.root.meshes.iter().map(|mesh| extras::unpack::<MeshExtras>(&mesh.extras)?.space);
    let space = spaces.next()??;
    if !spaces.all(|other| other == Some(space)) {
        return None;
    }
    Some((space, space.from_source(&Space::GLTF)))
}

fn sample_clip(document: &Document, model: &Model, motion: &Motion, fps: Option<f64>) -> Result<Clip, IoError> {
    let times = motion.sample_times(fps).map_err(|why| document.unsupported(why))?;
    if times.len().saturating_mul(model.bones.len()) > MAX_TRANSFORMS {
        let (frames, bones) = (times.len(), model.bones.len());
        return Err(
            document.unsupported(format!("{frames} frames of {bones} bones are too many; use fewer frames per second"))
        );
    }
    let mut posed_from_rest = Vec::with_capacity(times.len() * model.bones.len());
    for &secs in &times {
        let mut locals = model.scene.rest.clone();
        motion.apply(secs, &mut locals);
        posed_from_rest.extend(model.pose(&model.scene.worlds(&locals)));
    }
    Ok(Clip { name: motion.name.clone(), times_secs: source_times(times, motion), posed_from_rest })
}

/// Times as the source had them.
fn source_times(mut times: Vec<f64>, motion: &Motion) -> Vec<f64> {
    times.iter_mut().for_each(|t| *t += motion.start_secs);
    snap(&mut times);
    times
}

fn bones(model: &Model) -> Vec<Bone> {
    let mut first_of_node: HashMap<usize, usize> = HashMap::new();
    for (j, bone) in model.bones.iter().enumerate() {
        first_of_node.entry(bone.node).or_insert(j);
    }
    let reported = model.skin_extras.as_ref().and_then(|own| own.parents.as_deref());
    let reported = reported.and_then(|parents| match parents {
        [] => Some(vec![None; model.bones.len()]),
        _ => forest(parents, model.bones.len()),
    });
    let parent = |j: usize| match &reported {
        Some(parents) => parents[j],
        None => model.scene.ancestry(model.bones[j].node).skip(1).find_map(|n| first_of_node.get(&n).copied()),
    };
    let mut unique = UniqueNames::new(model.bones.iter().map(|bone| bone.name.as_str()));
    let bones = model.bones.iter().enumerate();
    bones
        .map(|(j, bone)| Bone {
            name: unique.name(&bone.name),
            parent: parent(j),
            world_from_bind: bone.world_from_bind,
            tip: None,
        })
        .collect()
}

/// Ends of leaf bones: children of a joint that carry its name and [`TIP`].
fn find_tips(document: &Document, model: &Model, bones: &mut [Bone]) {
    let nodes = &document.root.nodes;
    for (own, bone) in model.bones.iter().zip(bones) {
        let node = &nodes[own.node];
        let (Some(name), Some(children)) = (&node.name, &node.children) else { continue };
        let named = |child: &&gltf_json::Node| {
            child.name.as_deref().and_then(|n| n.strip_suffix(TIP)) == Some(name) && child.mesh.is_none()
        };
        let tip = children.iter().filter_map(|child| nodes.get(child.value())).find(named);
        let place = tip.and_then(|tip| tip.translation).map(|t| glam::Vec3::from_array(t).as_dvec3());
        bone.tip = place.filter(|p| p.is_finite()).map(|p| bone.world_from_bind.transform_point3(p));
    }
}

/// The frames of a model with layers; its rest pose where nothing moves.
fn layered_sequence(document: &Document, model: ModelRef<'_>, fps: Option<f64>) -> Result<RawSequence, IoError> {
    let frames = model.clips().iter().map(|clip| clip.frame_count()).sum();
    check_positions(document, frames, model.vertex_count())?;
    let still = || RawSequence {
        name: model.name().to_owned(),
        rest: Some(model.rest().to_vec().into()),
        frames: vec![model.rest().to_vec().into()],
        times_secs: vec![0.0],
        surface: Surface::clone(model.surface()),
        ..RawSequence::default()
    };
    Ok(RawSequence { fps: fps.unwrap_or(0.0), ..model.baked(None).unwrap_or_else(still) })
}

fn check_positions(document: &Document, frames: usize, vertices: usize) -> Result<(), IoError> {
    match frames.saturating_mul(vertices) > MAX_POSITIONS {
        true => Err(document
            .unsupported(format!("{frames} frames of {vertices} vertices are too many; use fewer frames per second"))),
        false => Ok(()),
    }
}

fn to_sequence(document: &Document, model: &Model, fps: Option<f64>) -> Result<RawSequence, IoError> {
    let mut sequence = RawSequence {
        name: model.name.clone(),
        rest: Some(model.rest.clone().into()),
        fps: fps.unwrap_or(0.0),
        surface: model.surface.clone(),
        ..RawSequence::default()
    };
    let moves = |node: usize| model.motions.iter().any(|motion| motion.morph_weights(node, 0.0).is_some());
    let still = model.morphs.iter().filter(|morph| !moves(morph.node)).map(|morph| morph.targets.len()).sum::<usize>();
    if still > 0 {
        let targets = if still == 1 { "target" } else { "targets" };
        warning::left_out(document.path(), format!("{still} morph {targets} that no animation moves"));
    }
    let (mut sink, turn) = (Sink::new(document.path(), 0), own_space(document).map(|(_, turn)| turn));
    let turned = |frame: RawFrame| match turn {
        Some(turn) if turn != DAffine3::IDENTITY => RawFrame { positions: moved(frame.positions, &turn), ..frame },
        _ => frame,
    };
    for motion in &model.motions {
        let times = motion.sample_times(fps).map_err(|why| document.unsupported(why))?;
        check_positions(document, sink.len() + times.len(), model.rest.len())?;
        let start = sink.len();
        times.iter().try_for_each(|&secs| sink.push(turned(bake(model, motion, secs))))?;
        let mut times = source_times(times, motion);
        if motion.is_named || model.motions.len() > 1 {
            let (name, frames) = (motion.name.clone(), start..sink.len());
            sequence.clips.push(Span { name, frames, times_secs: times.clone() });
        }
        if let (Some(last), Some(first)) = (sequence.times_secs.last(), times.first()) {
            let shift = last + gap_secs(&sequence.times_secs, fps) - first;
            times.iter_mut().for_each(|t| *t += shift);
        }
        sequence.times_secs.extend(times);
    }
    sequence.frames = sink.finish()?;
    if sequence.frames.is_empty() {
        let still = Motion { name: String::new(), is_named: false, tracks: Vec::new(), start_secs: 0.0, frames: None };
        sequence.frames.push(turned(bake(model, &still, 0.0)));
        sequence.times_secs.push(0.0);
    }
    turn_back(document, &mut sequence);
    Ok(sequence)
}

/// The rest pose and the surface to the space that a file of our own was in; frames are there already.
fn turn_back(document: &Document, sequence: &mut RawSequence) {
    let Some((space, turn)) = own_space(document) else { return };
    sequence.surface.space = space;
    if turn != DAffine3::IDENTITY {
        if let Some(rest) = &mut sequence.rest {
            rest.positions = moved(std::mem::take(&mut rest.positions), &turn);
        }
        sequence.surface.place(turn);
    }
}

fn moved(mut positions: Vec<Vec3>, turn: &DAffine3) -> Vec<Vec3> {
    positions.iter_mut().for_each(|p| *p = turn.transform_point3(p.as_dvec3()).as_vec3());
    positions
}

/// One frame: morph targets, then skinning.
fn bake(model: &Model, motion: &Motion, secs: f64) -> RawFrame {
    let mut locals = model.scene.rest.clone();
    motion.apply(secs, &mut locals);
    let bones: Vec<DAffine3> = model.pose(&model.scene.worlds(&locals)).collect();
    let mut rest: Vec<DVec3> = Vec::new();
    for morph in &model.morphs {
        let Some(weights) = motion.morph_weights(morph.node, secs) else { continue };
        if rest.is_empty() {
            rest = model.rest.iter().map(|p| p.as_dvec3()).collect();
        }
        for ((target, weight), rest_weight) in morph.targets.iter().zip(weights).zip(&morph.rest_weights) {
            let change = weight - rest_weight;
            if change != 0.0 {
                let vertices = rest[morph.first..morph.first + target.len()].iter_mut().zip(target);
                vertices.for_each(|(p, d)| *p += change * d.as_dvec3());
            }
        }
    }
    let morphed: Vec<Vec3> = rest.iter().map(|p| p.as_vec3()).collect();
    let rest = if morphed.is_empty() { &model.rest } else { &morphed };
    lbs(rest, &model.weights, &bones).into()
}
