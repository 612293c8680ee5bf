//! Rigs and mesh animations out of USD files.

mod binding;
mod material;
mod mesh;
mod model;
mod parts;
mod sample;
mod shapes;
mod skeleton;
mod surface;
mod variants;
mod xform;

use std::path::Path;
use std::sync::Arc;

use bonesmith_core::transform::nearest_rotation;
use bonesmith_core::{Bone, Clip, ModelRef, RawFrame, RawSequence, Rig, SparseWeights};
use glam::{DAffine3, DVec3};

use self::model::Model;
use self::skeleton::{Animation, Skeleton};
use self::variants::Variants;
use super::stage::Stage;
use crate::faces::{Collected, RawFace};
use crate::load::{Content, FileContent, Request};
use crate::sink::Sink;
use crate::skinned::{UniqueNames, kind_of, pack_weights};
use crate::{IoError, LoadOptions, MeshEntry, warning};

/// Most bone transforms of all clips, and most vertex positions of one baked sequence: both multiply, so a small file
/// could ask for any amount of memory.
const MAX_TRANSFORMS: usize = 1 << 25;
const MAX_POSITIONS: usize = 1 << 30;

/// Reads a file with a skeleton as a rig, one clip per animation, sampled at its keys or at `fps`, and any other
/// as an animation.
pub fn load(path: &Path, request: &Request<'_>) -> Result<FileContent, IoError> {
    let mut stage = Stage::open(path)?;
    let meshes = request.list(|| model::list(&stage))?;
    let mut content = read(&stage, request)?;
    if let Some(variants) = Variants::of(&stage) {
        content = variants.join(&mut stage, content, |stage| read(stage, request))?;
    }
    Ok(FileContent { content, meshes, stored: None, shared_names: Vec::new() })
}

fn read(stage: &Stage, request: &Request<'_>) -> Result<Content, IoError> {
    let LoadOptions { fps, mesh, .. } = request.options;
    let mut model = Model::read(stage, mesh.as_deref())?;
    let animated = model.skeletons.iter().any(|skeleton| !skeleton.animations.is_empty());
    // One mesh of several is read as a plain rig.
    if mesh.is_none() && animated && shapes::has_shapes(&model) {
        return Ok(Content::model(shapes::load(model, *fps)?));
    }
    let skinned = model.parts.iter().any(|part| part.binding.is_some());
    // A skin that nothing animates is a rig without clips.
    if animated || (skinned && (request.rig || model.keys().is_empty())) {
        warn_of_shapes(&model);
        return Ok(Content::model(to_rig(&mut model, *fps, false)?));
    }
    // Prims that move stay prims that move: bones of their own.
    if request.options.keep_shapes && !request.rig && model.moves_by_prims() {
        return Ok(Content::model(to_rig(&mut model, *fps, false)?));
    }
    match request.rig {
        true => Err(stage.unsupported("it has no skinned mesh, so it is no rig; read it as a mesh animation")),
        false => Ok(Content::Sequence(to_sequence(model, *fps)?)),
    }
}

fn warn_of_shapes(model: &Model) {
    let shapes = model.parts.iter().map(|part| part.shapes().len());
    let mut animations = model.skeletons.iter().flat_map(|skeleton| &skeleton.animations);
    warning::shapes_of_rig(model.stage.file(), shapes.sum(), animations.any(Animation::has_shapes));
}

/// Bakes everything that moves to positions in the world.
pub fn load_sequence(path: &Path, options: &LoadOptions) -> Result<RawSequence, IoError> {
    let mut stage = Stage::open(path)?;
    let (first, several) = bake(&stage, options)?;
    match Variants::of(&stage).filter(|_| !several) {
        Some(variants) => variants.sequences(&mut stage, first, |stage| Ok(bake(stage, options)?.0)),
        None => Ok(first),
    }
}

/// A stage as a mesh animation, and whether it is of several animations of a skeleton.
fn bake(stage: &Stage, options: &LoadOptions) -> Result<(RawSequence, bool), IoError> {
    let mut model = Model::read(stage, options.mesh.as_deref())?;
    // Several animations are those of joints alone.
    let several = model.skeletons.iter().any(|skeleton| skeleton.animations.len() > 1);
    if several && !shapes::has_shapes(&model) && model.parts.iter().all(|part| part.mesh.points.samples.is_empty()) {
        let rig = to_rig(&mut model, options.fps, false)?;
        let frames = rig.clips.iter().map(Clip::frame_count).sum::<usize>();
        check_positions(stage, frames, rig.vertex_count())?;
        if let Some(raw) = ModelRef::from(&rig).baked(None) {
            return Ok((RawSequence { fps: options.fps.unwrap_or(0.0), ..raw }, true));
        }
    }
    Ok((to_sequence(model, options.fps)?, false))
}

/// Reads blend shapes as shapes of a face. Those of one name in several meshes are one shape.
pub fn load_face(path: &Path, options: &LoadOptions) -> Result<RawFace, IoError> {
    let stage = Stage::open(path)?;
    let model = Model::read(&stage, options.mesh.as_deref())?;
    let mut face = Collected::new(model.rest.clone());
    let (mut first, mut beyond) = (0, Vec::new());
    for part in &model.parts {
        let world_from_mesh = match &part.binding {
            Some((s, binding)) => model.skeletons[*s].place.world(None)? * binding.skeleton_from_mesh,
            None => part.mesh.place.world(None)?,
        };
        for shape in part.shapes() {
            let level = |weight: f64| {
                let mut own = vec![DVec3::ZERO; part.count];
                shape.add(weight, &mut own);
                (weight, own.iter().map(|d| (world_from_mesh.matrix3 * *d).as_vec3()).collect::<Vec<_>>())
            };
            let (inner, outer): (Vec<f64>, Vec<f64>) = shape.levels().partition(|w| *w > 0.0 && *w <= 1.0);
            if !outer.is_empty() {
                beyond.push(format!("{:?}", shape.name()));
            }
            face.add_levels(shape.name(), first, &inner.into_iter().map(level).collect::<Vec<_>>());
        }
        first += part.count;
    }
    warning::left_out_all(stage.file(), "levels of blend shapes beyond 0 and 1", beyond);
    face.finish(path, model.name, model.surface)
}

fn check_positions(stage: &Stage, frames: usize, vertices: usize) -> Result<(), IoError> {
    match frames.saturating_mul(vertices) > MAX_POSITIONS {
        true => Err(stage
            .unsupported(format!("{frames} frames of {vertices} vertices are too many; use fewer frames per second"))),
        false => Ok(()),
    }
}

/// Meshes that the stage shows.
pub fn list_meshes(path: &Path) -> Result<Vec<MeshEntry>, IoError> {
    model::list(&Stage::open(path)?)
}

fn to_sequence(model: Model, fps: Option<f64>) -> Result<RawSequence, IoError> {
    let stage = model.stage;
    let mut times = sample::times(model.keys(), fps, model.codes_per_sec).map_err(|why| stage.unsupported(why))?;
    let (frames, vertices) = (times.len(), model.rest.len());
    check_positions(stage, frames, vertices)?;
    let moves = !times.is_empty();
    if !moves {
        times.push(0.0);
    }
    let mut sequence = RawSequence {
        fps: fps.unwrap_or(0.0),
        rest: model.has_rest.then(|| model.rest.clone().into()),
        ..RawSequence::default()
    };
    let mut sink = Sink::new(stage.file(), times.len());
    for &time in &times {
        let positions = model.frame(moves.then_some(time))?;
        let label = if moves { format!("time code {time}") } else { String::new() };
        sink.push(RawFrame { label, positions, ..RawFrame::default() })?;
        sequence.times_secs.push(time / model.codes_per_sec);
    }
    sequence.frames = sink.finish()?;
    (sequence.name, sequence.surface) = (model.name, model.surface);
    Ok(sequence)
}

/// A bone: a joint of a skeleton, or the place of a mesh without one.
enum Carrier {
    Joint(usize, usize),
    Mesh(usize),
}

/// Takes the name, the rest pose and the surface out of the model. `with_shapes`: keys of blend shapes are frames too.
fn to_rig(model: &mut Model, fps: Option<f64>, with_shapes: bool) -> Result<Rig, IoError> {
    let stage = model.stage;
    let carriers = carriers(model);
    if carriers.len() > 1 << 16 {
        return Err(stage.unsupported(format!("{} joints are too many, 65536 are possible", carriers.len())));
    }
    let bones = bones(model, &carriers)?;
    let weights = weights(model, &carriers);
    let mut clips = Vec::new();
    let count = model.skeletons.iter().map(|s| s.animations.len()).max();
    let count = count.unwrap_or(usize::from(model.moves_by_prims()));
    for at in 0..count {
        clips.push(sample_clip(model, &carriers, at, fps, with_shapes)?);
    }
    let own = match model.skeletons.as_slice() {
        [only] => only.extras.as_ref(),
        _ => None,
    };
    let kind = own.map_or_else(|| kind_of(&bones, &clips), |own| own.kind);
    let params_json = own.map(|own| own.params.clone()).unwrap_or_default();
    let (name, rest) = (std::mem::take(&mut model.name), std::mem::take(&mut model.rest));
    let surface = Arc::new(std::mem::take(&mut model.surface));
    let rig = Rig { name, rest, surface, weights, bones, kind, clips, params_json };
    rig.check().map_err(|e| stage.malformed(e.to_string()))?;
    Ok(rig)
}

/// Bones in order: joints of each skeleton, those that only carry stretch left out, then meshes without a skeleton.
fn carriers(model: &Model) -> Vec<Carrier> {
    let mut carriers = Vec::new();
    for (s, skeleton) in model.skeletons.iter().enumerate() {
        match &skeleton.extras {
            Some(own) => carriers.extend(own.joints.iter().map(|&j| Carrier::Joint(s, j as usize))),
            None => carriers.extend((0..skeleton.joints.len()).map(|j| Carrier::Joint(s, j))),
        }
    }
    let loose = model.parts.iter().enumerate().filter(|(_, part)| part.binding.is_none());
    carriers.extend(loose.map(|(p, _)| Carrier::Mesh(p)));
    carriers
}

fn bones(model: &Model, carriers: &[Carrier]) -> Result<Vec<Bone>, IoError> {
    let rigid = |m: DAffine3| DAffine3::from_mat3_translation(nearest_rotation(&m.matrix3), m.translation);
    let mut first_of = Vec::new();
    let mut places = Vec::new();
    for skeleton in &model.skeletons {
        first_of.push(
            carriers
                .iter()
                .position(|c| matches!(c, Carrier::Joint(s, _) if model.skeletons[*s].prim == skeleton.prim)),
        );
        places.push(skeleton.place.world(None)?);
    }
    let bone_of = |s: usize, joint: usize| -> Option<usize> {
        match &model.skeletons[s].extras {
            Some(own) => own.joints.iter().position(|j| *j as usize == joint).map(|b| b + first_of[s].unwrap_or(0)),
            None => Some(joint + first_of[s].unwrap_or(0)),
        }
    };
    let mut bones = Vec::with_capacity(carriers.len());
    for carrier in carriers {
        bones.push(match *carrier {
            Carrier::Mesh(p) => {
                let prim = model.parts[p].mesh.prim;
                let world_from_bind = rigid(model.parts[p].mesh.place.world(None)?);
                Bone { name: model.stage.display_name(prim), parent: None, world_from_bind, tip: None }
            }
            Carrier::Joint(s, j) => {
                let skeleton = &model.skeletons[s];
                let above = |j: usize| skeleton.parents[j];
                let parent = std::iter::successors(above(j), |&p| above(p)).find_map(|p| bone_of(s, p));
                let world_from_bind = rigid(places[s] * skeleton.bind[j]);
                Bone { name: skeleton.names[j].clone(), parent, world_from_bind, tip: None }
            }
        });
    }
    if let [Skeleton { extras: Some(own), .. }] = model.skeletons.as_slice() {
        for (bone, &parent) in bones.iter_mut().zip(&own.parents) {
            bone.parent = usize::try_from(parent).ok();
        }
        for &(bone, x, y, z) in &own.tips {
            bones[bone as usize].tip = Some(places[0].transform_point3(DVec3::new(x, y, z)));
        }
    }
    let names: Vec<String> = bones.iter().map(|bone| bone.name.clone()).collect();
    let mut unique = UniqueNames::new(names.iter().map(String::as_str));
    bones.iter_mut().zip(&names).for_each(|(bone, name)| bone.name = unique.name(name));
    Ok(bones)
}

/// [N, K] over all bones.
fn weights(model: &Model, carriers: &[Carrier]) -> SparseWeights {
    let mut rows: Vec<Vec<(usize, f64)>> = Vec::with_capacity(model.rest.len());
    for (p, part) in model.parts.iter().enumerate() {
        let Some((s, binding)) = &part.binding else {
            let bone = carriers.iter().position(|c| matches!(c, Carrier::Mesh(own) if *own == p)).unwrap_or(0);
            rows.extend(std::iter::repeat_n(vec![(bone, 1.0)], part.count));
            continue;
        };
        let mut bone_of = vec![0usize; model.skeletons[*s].joints.len()];
        for (bone, carrier) in carriers.iter().enumerate() {
            if let Carrier::Joint(own, joint) = carrier
                && own == s
            {
                bone_of[*joint] = bone;
            }
        }
        let row = |i: usize| binding.weights.of(i).map(|(j, w)| (bone_of[j], f64::from(w))).collect();
        rows.extend((0..part.count).map(row));
    }
    pack_weights(model.stage.file(), &rows)
}

fn sample_clip(
    model: &Model,
    carriers: &[Carrier],
    at: usize,
    fps: Option<f64>,
    with_shapes: bool,
) -> Result<Clip, IoError> {
    let stage = model.stage;
    let animation = |skeleton: &'_ Skeleton<'_>| -> Option<usize> { (at < skeleton.animations.len()).then_some(at) };
    let of = |s: &Skeleton<'_>| animation(s).map(|a| s.animations[a].times(with_shapes)).unwrap_or_default();
    let mut keys: Vec<f64> = model.skeletons.iter().flat_map(of).collect();
    if at == 0 {
        keys.extend(model.skeletons.iter().flat_map(|s| s.place.times().collect::<Vec<_>>()));
        keys.extend(
            model.parts.iter().filter(|p| p.binding.is_none()).flat_map(|p| p.mesh.place.times().collect::<Vec<_>>()),
        );
    }
    let mut times = sample::times(keys, fps, model.codes_per_sec).map_err(|why| stage.unsupported(why))?;
    let still = times.is_empty();
    if still {
        times.push(0.0);
    }
    if times.len().saturating_mul(carriers.len()) > MAX_TRANSFORMS {
        let (frames, bones) = (times.len(), carriers.len());
        return Err(
            stage.unsupported(format!("{frames} frames of {bones} bones are too many; use fewer frames per second"))
        );
    }
    let mut bind_places = Vec::new();
    for skeleton in &model.skeletons {
        bind_places.push(skeleton.place.world(None)?.inverse());
    }
    let mut posed_from_rest = Vec::with_capacity(times.len() * carriers.len());
    for &time in &times {
        let time = (!still).then_some(time);
        let mut poses = Vec::new();
        for skeleton in &model.skeletons {
            let own: Option<&Animation> = animation(skeleton).map(|a| &skeleton.animations[a]);
            poses.push((skeleton.pose(own, time)?, skeleton.place.world(time)?));
        }
        for carrier in carriers {
            posed_from_rest.push(match *carrier {
                Carrier::Joint(s, j) => {
                    let (pose, world) = &poses[s];
                    *world * pose[j] * model.skeletons[s].bind[j].inverse() * bind_places[s]
                }
                Carrier::Mesh(p) => {
                    let place = &model.parts[p].mesh.place;
                    place.world(time)? * place.world(None)?.inverse()
                }
            });
        }
    }
    let name = model.skeletons.iter().find_map(|s| s.animations.get(at)).map(|a| &a.name);
    let name = name.unwrap_or(&model.name).clone();
    let times_secs = times.iter().map(|t| t / model.codes_per_sec).collect();
    Ok(Clip { name, times_secs, posed_from_rest })
}
