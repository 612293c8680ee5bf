//! Rigs and mesh animations out of FBX files.

mod document;
mod model;
mod motion;
mod parts;
mod shapes;
mod surface;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use bonesmith_core::deform::lbs;
use bonesmith_core::mesh::sequence::Span;
use bonesmith_core::{BoneKind, Clip, Model as AnyModel, RawFrame, RawSequence, Rig, Space};
use glam::{DAffine3, Vec3};
use serde::Deserialize;
use ufbx::ElementType;

use self::document::{Document, affine, point};
use self::model::Model;
use self::motion::{Motion, motions};
use super::EXTRAS;
use crate::faces::{Collected, RawFace};
use crate::load::{Content, FileContent, Request};
use crate::sink::Sink;
use crate::skinned::{forest, kind_of};
use crate::{IoError, LoadOptions, MeshEntry, warning};

/// Most bytes of one clip's transforms or of all positions of a baked animation, unless the file is large too.
const MAX_BYTES: u64 = 1 << 30;
const MAX_GROWTH: u64 = 64;

/// What our own files say about a rig.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RigExtras {
    kind: Option<BoneKind>,
    params: Option<Box<serde_json::value::RawValue>>,
    space: Option<Space>,
    parents: Option<Vec<i32>>,
    part: Option<usize>,
    /// Number of the mesh of which it is an instance, also where skins keep them from sharing a geometry.
    instance_of: Option<usize>,
}

/// Reads a skinned file as a rig, one clip per animation stack, and any other as an animation. Blend shapes that no animation weighs stay as
/// the unanimated file has them.
pub fn load(path: &Path, request: &Request<'_>) -> Result<FileContent, IoError> {
    let document = Document::open(path)?;
    let meshes = request.list(|| Ok(model::list(&document)))?;
    let LoadOptions { fps, mesh, .. } = request.options;
    let model = Model::read(&document, mesh.as_deref())?;
    if request.rig && !is_rig(&document, &model) {
        return Err(document.unsupported("it has no skinned mesh, so it is no rig; read it as a mesh animation"));
    }
    let content = match has_cache(&document, &model) {
        true if !request.rig => Err(model),
        _ => rigged(&document, model, request)?,
    };
    let content = match content {
        Ok(rigged) => Content::Model(rigged),
        Err(plain) => Content::Sequence(to_sequence(&document, &plain, *fps)?),
    };
    let shared_names = if request.meshes { shared_names(&document) } else { Vec::new() };
    Ok(FileContent { content, meshes, stored: None, shared_names })
}

/// A rig, with its shapes where animations weigh them; the model back where it is an animation.
fn rigged(document: &Document, model: Model, request: &Request<'_>) -> Result<Result<AnyModel, Model>, IoError> {
    let fps = request.options.fps;
    let is_rig = is_rig(document, &model);
    let moved = is_rig || (request.options.keep_shapes && shapes::count(document, &model) == 0);
    let bones = if moved { motions(document, fps, is_node)? } else { Vec::new() };
    let (shapes, animated) = (shapes::count(document, &model), shapes::are_animated(document, &model));
    // One mesh of several is read as a plain rig.
    if request.options.mesh.is_none() && shapes > 0 && (animated || request.options.keep_shapes) {
        let all = motions(document, fps, moves_vertices)?;
        let frames = all.iter().map(|motion| motion.times_secs.len()).max().unwrap_or(0);
        let keeps = request.options.keep_shapes && (model.skinned || !animated || shapes < frames);
        if keeps || !bones.is_empty() {
            let (clips, weights) = sample(document, &model, &all)?;
            return Ok(Ok(shapes::with_shapes(document, model, clips, &weights)?.into()));
        }
    }
    // A skin that nothing animates is a rig without clips.
    let still = || Ok::<bool, IoError>(motions(document, fps, moves_vertices)?.is_empty());
    if bones.is_empty() && !(is_rig && (request.rig || still()?)) {
        return Ok(Err(model));
    }
    warn_of_shapes(document, &model);
    let (clips, _) = sample(document, &model, &bones)?;
    Ok(Ok(to_rig(document, model, clips)?.into()))
}

/// Bakes everything that moves, skins, blend shapes and geometry caches, to positions; several stacks follow each other.
pub fn load_sequence(path: &Path, options: &LoadOptions) -> Result<RawSequence, IoError> {
    let document = Document::open(path)?;
    let model = Model::read(&document, options.mesh.as_deref())?;
    to_sequence(&document, &model, options.fps)
}

/// Reads blend shapes as shapes of a face. Those of one name in several meshes are one shape; in-betweens are shapes that follow theirs.
pub fn load_face(path: &Path, options: &LoadOptions) -> Result<RawFace, IoError> {
    let document = Document::open(path)?;
    let model = Model::read(&document, options.mesh.as_deref())?;
    let mut face = Collected::new(model.rest.clone());
    shapes::collect(&model, &document, &mut face);
    face.finish(document.path(), model.name, model.surface)
}

/// The meshes of a file.
pub fn list_meshes(path: &Path) -> Result<Vec<MeshEntry>, IoError> {
    Ok(model::list(&Document::open(path)?))
}

fn is_node(element: &ufbx::Element) -> bool {
    element.type_ == ElementType::Node
}

/// Nodes, and the weights of blend shapes.
fn moves_vertices(element: &ufbx::Element) -> bool {
    matches!(element.type_, ElementType::Node | ElementType::BlendChannel | ElementType::BlendDeformer)
}

fn check_size(document: &Document, frames: usize, each: u64, what: &str) -> Result<(), IoError> {
    let file = std::fs::metadata(document.path()).map_or(0, |m| m.len());
    if (frames as u64).saturating_mul(each) > MAX_BYTES.max(file.saturating_mul(MAX_GROWTH)) {
        return Err(
            document.unsupported(format!("{frames} frames of {what} are too many; use fewer frames per second"))
        );
    }
    Ok(())
}

/// Names that several nodes have, in the order of the nodes.
fn shared_names(document: &Document) -> Vec<String> {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    let names = || document.scene().nodes.iter().map(|node| node.element.name.as_ref());
    names().for_each(|name| *counts.entry(name).or_default() += 1);
    let several = names().filter(|name| !name.is_empty() && counts.remove(name).is_some_and(|count| count > 1));
    several.map(str::to_owned).collect()
}

/// Whether the file holds a rig: skins, or meshes that move as the bones of a rig that we wrote.
fn is_rig(document: &Document, model: &Model) -> bool {
    model.skinned || own_extras(document, model).kind.is_some()
}

/// The clips, and [clips][F][shapes] the weights of the shapes in each frame.
#[allow(clippy::type_complexity, reason = "taken apart at once")]
fn sample(document: &Document, model: &Model, motions: &[Motion]) -> Result<(Vec<Clip>, Vec<Vec<Vec<f32>>>), IoError> {
    let (mut clips, mut weights) = (Vec::new(), Vec::new());
    let bones = model.bones.len();
    for motion in motions {
        let size = (bones * size_of::<DAffine3>() + shapes::count(document, model) * size_of::<f32>()) as u64;
        check_size(document, motion.times_secs.len(), size, &format!("{bones} bones"))?;
        let stack = motion.stack.and_then(|s| document.scene().anim_stacks.get(s));
        let Some(stack) = stack else { continue };
        let mut posed_from_rest = Vec::with_capacity(motion.times_secs.len() * bones);
        let mut of_clip = Vec::with_capacity(motion.times_secs.len());
        for &secs in &motion.times_secs {
            let scene = document.at(&stack.anim, secs, false)?;
            posed_from_rest.extend(model.pose(&scene));
            of_clip.push(shapes::weights(model, &scene));
        }
        clips.push(Clip { name: motion.name.clone(), times_secs: motion.times_secs.clone(), posed_from_rest });
        weights.push(of_clip);
    }
    Ok((clips, weights))
}

fn to_rig(document: &Document, model: Model, clips: Vec<Clip>) -> Result<Rig, IoError> {
    warn_of_rest(document, &model);
    let own = own_extras(document, &model);
    let mut bones = model.tree(document);
    if let Some(parents) = own.parents.as_deref().and_then(|reported| forest(reported, bones.len())) {
        bones.iter_mut().zip(parents).for_each(|(bone, parent)| bone.parent = parent);
    }
    let kind = own.kind.unwrap_or_else(|| kind_of(&bones, &clips));
    let params_json = own.params.map(|params| params.get().to_owned()).unwrap_or_default();
    let Model { name, rest, mut surface, weights, .. } = model;
    surface.space = told_space(own.space, surface.space);
    let rig = Rig { name, rest, surface: Arc::new(surface), weights, bones, kind, clips, params_json };
    rig.check().map_err(|e| document.malformed(e.to_string()))?;
    Ok(rig)
}

/// Shapes that a plain rig does not have.
fn warn_of_shapes(document: &Document, model: &Model) {
    let animated = document.scene().anim_curves.iter().any(|curve| curve.keyframes.len() > 1);
    warning::shapes_of_rig(document.path(), shapes::count(document, model), animated);
}

/// What moves the file's vertices and is neither linear blend skinning nor a shape.
fn warn_of_rest(document: &Document, model: &Model) {
    let mut meshes = model.instances.iter().filter_map(|one| document.scene().nodes.get(one.node)?.mesh.as_ref());
    if !model.linear {
        warning::left_out(document.path(), "dual quaternions, or a second skin: its skin is read as a linear one");
    }
    if meshes.any(|mesh| !mesh.cache_deformers.is_empty()) {
        warning::left_out(document.path(), "its geometry caches: a rig has bones alone");
    }
}

fn own_extras(document: &Document, model: &Model) -> RigExtras {
    let node = model.instances.first().and_then(|one| document.scene().nodes.get(one.node));
    node.map(|node| extras_of(node)).unwrap_or_default()
}

fn extras_of(node: &ufbx::Node) -> RigExtras {
    let text = node.element.props.find_prop(EXTRAS);
    text.and_then(|text| serde_json::from_str(&text.value_str).ok()).unwrap_or_default()
}

/// A file must state a space; one of our own says which part of it the rig did not know.
fn told_space(own: Option<Space>, file: Space) -> Space {
    let Some(own) = own else { return file };
    Space {
        up: file.up.filter(|_| own.up.is_some()),
        metres_per_unit: file.metres_per_unit.filter(|_| own.metres_per_unit.is_some()),
    }
}

/// Whether any mesh of the model takes its vertices from a geometry cache that is there.
fn has_cache(document: &Document, model: &Model) -> bool {
    let nodes = model.instances.iter().filter_map(|one| document.scene().nodes.get(one.node));
    nodes
        .filter_map(|node| node.mesh.as_ref())
        .any(|mesh| mesh.cache_deformers.iter().any(|cache| cache.external_channel.is_some()))
}

/// Geometry caches that have no stack of their own: their samples are the frames.
fn cache_motion(document: &Document, model: &Model, fps: Option<f64>) -> Result<Option<Motion>, IoError> {
    let mut times: Vec<f64> = Vec::new();
    for instance in &model.instances {
        let mesh = document.scene().nodes.get(instance.node).and_then(|node| node.mesh.as_ref());
        for cache in mesh.iter().flat_map(|mesh| mesh.cache_deformers.iter()) {
            match &cache.external_channel {
                Some(channel) => times.extend(channel.frames.iter().map(|frame| frame.time)),
                None => {
                    let file = cache.file.as_ref().map(|file| file.relative_filename.to_string()).unwrap_or_default();
                    let what = format!("its geometry cache {file:?} is not beside it or cannot be read");
                    return Err(document.unsupported(what));
                }
            }
        }
    }
    times.retain(|time| time.is_finite());
    times.sort_by(f64::total_cmp);
    times.dedup_by(|a, b| (*a - *b).abs() < 1e-9);
    if let (Some(fps), Some(&first), Some(&last)) = (fps, times.first(), times.last()) {
        let steps = ((last - first) * fps + 1e-6).floor().clamp(0.0, 1e6) as usize;
        times = (0..=steps).map(|t| first + t as f64 / fps).collect();
    }
    Ok((times.len() > 1).then(|| Motion { stack: None, name: "cache".into(), times_secs: times }))
}

fn to_sequence(document: &Document, model: &Model, fps: Option<f64>) -> Result<RawSequence, IoError> {
    let mut sequence = RawSequence {
        name: model.name.clone(),
        rest: Some(model.rest.clone().into()),
        fps: fps.unwrap_or(0.0),
        surface: model.surface.clone(),
        ..RawSequence::default()
    };
    sequence.surface.space = told_space(own_extras(document, model).space, sequence.surface.space);
    let cache = cache_motion(document, model, fps)?;
    let mut motions = if cache.is_some() { Vec::new() } else { motions(document, fps, moves_vertices)? };
    motions.extend(cache);
    let mut sink = Sink::new(document.path(), motions.iter().map(|motion| motion.times_secs.len()).sum());
    for motion in &motions {
        let frames = sink.len() + motion.times_secs.len();
        let vertices = model.rest.len();
        check_size(document, frames, 12 * vertices as u64, &format!("{vertices} vertices"))?;
        let anim = match motion.stack.and_then(|s| document.scene().anim_stacks.get(s)) {
            Some(stack) => &stack.anim,
            None => &document.scene().anim,
        };
        let start = sink.len();
        for &secs in &motion.times_secs {
            sink.push(bake(document, model, anim, secs)?)?;
        }
        let mut times = motion.times_secs.clone();
        if motion.stack.is_some() {
            let (name, frames) = (motion.name.clone(), start..sink.len());
            sequence.clips.push(Span { name, frames, times_secs: times.clone() });
        }
        if let (Some(last), Some(first)) = (sequence.times_secs.last(), times.first()) {
            let step = motion.times_secs.windows(2).last().map_or(1.0 / 24.0, |pair| pair[1] - pair[0]);
            let shift = last + step - first;
            times.iter_mut().for_each(|t| *t += shift);
        }
        sequence.times_secs.extend(times);
    }
    sequence.frames = sink.finish()?;
    if sequence.frames.is_empty() {
        // As the file stands, deformers included.
        sequence.frames.push(bake(document, model, &document.scene().anim, 0.0)?);
        sequence.times_secs.push(0.0);
        if !model.skinned {
            sequence.rest = None;
        }
    }
    Ok(sequence)
}

/// One frame. What linear blend skinning and blend shapes show is computed here, which is far faster; anything else
/// (dual quaternions, geometry caches) is left to ufbx.
fn bake(document: &Document, model: &Model, anim: &ufbx::Anim, secs: f64) -> Result<RawFrame, IoError> {
    if model.linear && !has_cache(document, model) {
        let scene = document.at(anim, secs, false)?;
        let bones: Vec<DAffine3> = model.pose(&scene).collect();
        let shaped = shapes::shaped(model, &scene);
        let positions = lbs(shaped.as_ref().unwrap_or(&model.rest), &model.weights, &bones);
        return Ok(positions.into());
    }
    let scene = document.at(anim, secs, true)?;
    let mut positions: Vec<Vec3> = Vec::with_capacity(model.rest.len());
    for instance in &model.instances {
        let node = &scene.nodes[instance.node];
        let whole = |mesh: &&ufbx::Ref<ufbx::Mesh>| mesh.skinned_position.values.len() == instance.vertices;
        let Some(mesh) = node.mesh.as_ref().filter(whole) else {
            return Err(document.malformed(format!("at {secs} s: the vertices of {} are lost", node.element.name)));
        };
        let place = match mesh.skinned_is_local {
            true => affine(&node.geometry_to_world),
            false => DAffine3::IDENTITY,
        };
        positions.extend(mesh.skinned_position.values.iter().map(|v| place.transform_point3(point(v)).as_vec3()));
    }
    Ok(positions.into())
}
