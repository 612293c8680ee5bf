//! Rigs with morph targets that their animations weigh.

use bonesmith_core::{BlendShape, CorrectiveRig};
use glam::{DMat3, Vec3};
use gltf_json::animation::Property;

use super::document::Document;
use super::model::{Model, Morph};
use super::track::{Motion, Track};
use super::{own_space, to_rig};
use crate::IoError;
use crate::shapes::joined;

fn is_weight(track: &Track) -> bool {
    track.property == Property::MorphTargetWeights
}

/// Whether an animation that moves bones weighs morph targets too.
pub fn are_animated(model: &Model) -> bool {
    let both = |motion: &Motion| motion.tracks.iter().any(is_weight) && !motion.tracks.iter().all(is_weight);
    model.skinned && !model.morphs.is_empty() && model.motions.iter().any(both)
}

/// Reads a rig with shapes.
pub fn load(document: &Document, mut model: Model, fps: Option<f64>) -> Result<CorrectiveRig, IoError> {
    let morphs = std::mem::take(&mut model.morphs);
    let mut of_shapes = Vec::new();
    for motion in &mut model.motions {
        let tracks = std::mem::take(&mut motion.tracks);
        let (weights, bones) = tracks.into_iter().partition(is_weight);
        motion.tracks = bones;
        // As many as the rig will have clips: those that move bones.
        if !motion.tracks.is_empty() {
            let (name, is_named, start_secs) = (motion.name.clone(), motion.is_named, motion.start_secs);
            of_shapes.push(Motion { name, is_named, tracks: weights, start_secs, frames: motion.frames });
        }
    }
    let rig = to_rig(document, model, fps)?;
    let turn = own_space(document).map_or(DMat3::IDENTITY, |(_, turn)| turn.matrix3);
    let names = target_names(document);
    let mut shapes = Vec::new();
    for morph in &morphs {
        for (k, target) in morph.targets.iter().enumerate() {
            let mut offsets = vec![Vec3::ZERO; rig.vertex_count()];
            let own = offsets.iter_mut().skip(morph.first).zip(target);
            own.for_each(|(to, d)| *to = if turn == DMat3::IDENTITY { *d } else { (turn * d.as_dvec3()).as_vec3() });
            let weights = rig.clips.iter().zip(&of_shapes).map(|(clip, motion)| {
                clip.times_secs.iter().map(|secs| weight(morph, motion, k, secs - motion.start_secs)).collect()
            });
            let weights = weights.collect();
            let name = names.get(k).filter(|_| morphs.len() == 1).cloned();
            shapes.push(BlendShape {
                name: name.unwrap_or_else(|| format!("shape_{}", shapes.len())),
                offsets,
                weights,
            });
        }
    }
    let corrective = CorrectiveRig { rig, shapes: joined(shapes) };
    corrective.check().map_err(|e| document.malformed(e.to_string()))?;
    Ok(corrective)
}

/// How far a target's weight is from what the rest pose has already.
fn weight(morph: &Morph, motion: &Motion, target: usize, secs: f64) -> f32 {
    let weights = motion.morph_weights(morph.node, secs);
    weights.and_then(|weights| weights.get(target).map(|w| (w - morph.rest_weights[target]) as f32)).unwrap_or(0.0)
}

/// Names of the first mesh's targets, where exporters put them.
fn target_names(document: &Document) -> Vec<String> {
    names_of_mesh(document, 0)
}

/// Names of the targets of a node's mesh.
pub fn names_of_node(document: &Document, node: usize) -> Vec<String> {
    let mesh = document.root.nodes.get(node).and_then(|node| node.mesh);
    mesh.map(|mesh| names_of_mesh(document, mesh.value())).unwrap_or_default()
}

fn names_of_mesh(document: &Document, mesh: usize) -> Vec<String> {
    #[derive(serde::Deserialize)]
    struct Named {
        #[serde(rename = "targetNames")]
        names: Vec<String>,
    }
    let extras = document.root.meshes.get(mesh).and_then(|mesh| mesh.extras.as_ref());
    extras
        .and_then(|extras| serde_json::from_str::<Named>(extras.get()).ok())
        .map(|named| named.names)
        .unwrap_or_default()
}
