//! Blend shapes of the meshes, and the weights that animations give them.
//!
//! A channel has a shape, or several for its levels; ufbx computes how much of each is shown, so that each level is a shape of its own here.

use std::ops::Range;

use bonesmith_core::{BlendShape, Clip, CorrectiveRig};
use glam::{DMat3, Vec3};
use ufbx::{BlendChannel, BlendKeyframe, ElementType};

use super::document::{Document, point};
use super::model::Model;
use crate::faces::Collected;
use crate::shapes::{gathered, joined};
use crate::{IoError, warning};

/// The channels of one mesh.
struct OfMesh<'s> {
    /// Its vertices in the model.
    vertices: Range<usize>,
    /// From its control points to the rest pose.
    linear: DMat3,
    channels: Vec<&'s BlendChannel>,
}

fn channels<'s>(model: &Model, scene: &'s ufbx::Scene) -> Vec<OfMesh<'s>> {
    let mut first = 0;
    let of_mesh = |instance: &super::model::Instance| {
        let vertices = first..first + instance.vertices;
        first = vertices.end;
        let mesh = scene.nodes.get(instance.node).and_then(|node| node.mesh.as_ref());
        let blends = mesh.iter().flat_map(|mesh| &mesh.blend_deformers);
        let channels = blends.flat_map(|blend| &blend.channels).collect();
        OfMesh { vertices, linear: instance.world_from_mesh.matrix3, channels }
    };
    model.instances.iter().map(of_mesh).collect()
}

/// Every shape of every mesh, in the order of the file; evaluations of a scene have the same.
fn levels<'s>(model: &Model, scene: &'s ufbx::Scene) -> impl Iterator<Item = (Range<usize>, DMat3, &'s BlendKeyframe)> {
    let of_mesh = |own: OfMesh<'s>| {
        let levels: Vec<&BlendKeyframe> = own.channels.iter().flat_map(|channel| &channel.keyframes).collect();
        levels.into_iter().map(move |level| (own.vertices.clone(), own.linear, level))
    };
    channels(model, scene).into_iter().flat_map(of_mesh)
}

/// Adds a shape to the vertices of its mesh. Each vertex may have its own share of it.
fn add(shape: &ufbx::BlendShape, linear: DMat3, weight: f64, to: &mut [Vec3]) {
    for (at, (v, offset)) in shape.offset_vertices.iter().zip(&shape.position_offsets).enumerate() {
        let share = shape.offset_weights.get(at).copied().unwrap_or(1.0);
        if let Some(to) = to.get_mut(*v as usize) {
            *to += (linear * point(offset) * weight * share).as_vec3();
        }
    }
}

/// [N] the rest pose with the shapes of an evaluated scene; `None` where none is in use.
pub fn shaped(model: &Model, scene: &ufbx::Scene) -> Option<Vec<Vec3>> {
    let mut shaped: Option<Vec<Vec3>> = None;
    for (vertices, linear, level) in levels(model, scene).filter(|(.., level)| level.effective_weight != 0.0) {
        let rest = shaped.get_or_insert_with(|| model.rest.clone());
        add(&level.shape, linear, level.effective_weight, &mut rest[vertices]);
    }
    shaped
}

/// The shapes of all meshes, with their levels below full weight.
pub fn collect(model: &Model, document: &Document, face: &mut Collected) {
    let mut beyond = Vec::new();
    for own in channels(model, document.scene()) {
        for channel in &own.channels {
            let Some(full) = channel.keyframes.iter().max_by(|a, b| a.target_weight.total_cmp(&b.target_weight)) else {
                continue;
            };
            let (name, full) = (name_of(channel, full), full.target_weight);
            let mut levels: Vec<(f64, Vec<Vec3>)> = Vec::new();
            for level in &channel.keyframes {
                let weight = level.target_weight / full;
                if weight.is_nan() || weight <= 0.0 || levels.iter().any(|(other, _)| *other == weight) {
                    beyond.push(format!("{name:?}"));
                    continue;
                }
                let mut offsets = vec![Vec3::ZERO; own.vertices.len()];
                add(&level.shape, own.linear, 1.0, &mut offsets);
                levels.push((weight, offsets));
            }
            levels.sort_by(|a, b| a.0.total_cmp(&b.0));
            face.add_levels(&name, own.vertices.start, &levels);
        }
    }
    warning::left_out_all(document.path(), "levels of blend shapes beyond 0 and 1", beyond);
}

/// The name of a channel, else of its shape.
fn name_of(channel: &BlendChannel, level: &BlendKeyframe) -> String {
    match channel.element.name.to_string() {
        empty if empty.is_empty() => level.shape.element.name.to_string(),
        name => name,
    }
}

/// Whether an animation changes the weight of a shape.
pub fn are_animated(document: &Document, model: &Model) -> bool {
    if channels(model, document.scene()).iter().all(|own| own.channels.is_empty()) {
        return false;
    }
    let layers = document.scene().anim_stacks.iter().flat_map(|stack| &stack.layers);
    let properties = layers.flat_map(|layer| &layer.anim_props);
    let of_shapes = properties.filter(|p| is_shape(&p.element));
    let mut curves = of_shapes.flat_map(|p| p.anim_value.curves.iter().flatten());
    curves.any(|curve| curve.keyframes.windows(2).any(|pair| pair[0].value != pair[1].value))
}

/// How many shapes there are.
pub fn count(document: &Document, model: &Model) -> usize {
    levels(model, document.scene()).count()
}

fn is_shape(element: &ufbx::Element) -> bool {
    matches!(element.type_, ElementType::BlendChannel | ElementType::BlendDeformer)
}

/// [shapes] their weights in an evaluated scene.
pub fn weights(model: &Model, scene: &ufbx::Scene) -> Vec<f32> {
    levels(model, scene).map(|(.., level)| level.effective_weight as f32).collect()
}

/// A rig with its shapes: `frames` are the weights in each frame of each clip.
pub fn with_shapes(
    document: &Document,
    model: Model,
    clips: Vec<Clip>,
    frames: &[Vec<Vec<f32>>],
) -> Result<CorrectiveRig, IoError> {
    let mut shapes: Vec<BlendShape> = Vec::new();
    for own in channels(&model, document.scene()) {
        for channel in &own.channels {
            for level in &channel.keyframes {
                let name = name_of(channel, level);
                let name = match channel.keyframes.len() {
                    1 => name,
                    _ => format!("{name}_{:.0}", 100.0 * level.target_weight),
                };
                let mut offsets = vec![Vec3::ZERO; model.rest.len()];
                add(&level.shape, own.linear, 1.0, &mut offsets[own.vertices.clone()]);
                let s = shapes.len();
                let weights = frames.iter().map(|clip| clip.iter().map(|frame| frame[s]).collect()).collect();
                shapes.push(BlendShape { name, offsets, weights });
            }
        }
    }
    let rig = super::to_rig(document, model, clips)?;
    let corrective = CorrectiveRig { rig, shapes: gathered(joined(shapes)) };
    corrective.check().map_err(|e| document.malformed(e.to_string()))?;
    Ok(corrective)
}
