//! Rigs with morph targets that their animations weigh.

use bonesmith_core::{BlendShape, CorrectiveRig};
use glam::{DMat3, Vec3};
use gltf_json::animation::Property;

use super::document::Document;
use super::model::{Model, Morph};
use super::track::{Motion, Track};
use super::{own_space, posed};
use crate::IoError;
use crate::shapes::{gathered, joined};

fn is_weight(track: &Track) -> bool {
    track.property == Property::MorphTargetWeights
}

/// Whether an animation that moves bones weighs morph targets too.
pub fn are_animated(model: &Model) -> bool {
    let both = |motion: &Motion| motion.tracks.iter().any(is_weight) && !motion.tracks.iter().all(is_weight);
    model.skinned && !model.morphs.is_empty() && model.motions.iter().any(both)
}

/// Whether there are morph targets that are no frames of a baked animation: skins beside them, or fewer of them than frames.
pub fn are_no_frames(model: &Model, fps: Option<f64>) -> bool {
    let targets: usize = model.morphs.iter().map(|morph| morph.targets.len()).sum();
    let frames = |motion: &Motion| motion.sample_times(fps).map_or(0, |times| times.len());
    let mut weighing = model.motions.iter().filter(|motion| motion.tracks.iter().any(is_weight)).peekable();
    targets > 0 && (model.skinned || weighing.peek().is_none() || weighing.any(|motion| targets < frames(motion)))
}

/// Reads a rig with shapes. Its rest pose is without them where animations weigh them.
pub fn load(document: &Document, mut model: Model, fps: Option<f64>) -> Result<CorrectiveRig, IoError> {
    let morphs = std::mem::take(&mut model.morphs);
    if !model.motions.is_empty() {
        take_off(&morphs, &mut model.rest);
    }
    let motions: Vec<Motion> = model.motions.iter().map(weights_of).collect();
    let rig = posed(document, model, fps)?;
    let turn = own_space(document).map_or(DMat3::IDENTITY, |(_, turn)| turn.matrix3);
    let mut shapes = Vec::new();
    for morph in &morphs {
        let names = names_of_node(document, morph.node);
        for (k, target) in morph.targets.iter().enumerate() {
            let mut offsets = vec![Vec3::ZERO; rig.vertex_count()];
            let own = offsets.iter_mut().skip(morph.first).zip(target);
            own.for_each(|(to, d)| *to = if turn == DMat3::IDENTITY { *d } else { (turn * d.as_dvec3()).as_vec3() });
            let weights = rig.clips.iter().zip(&motions).map(|(clip, motion)| {
                clip.times_secs.iter().map(|secs| weight(morph, motion, k, secs - motion.start_secs)).collect()
            });
            let weights = weights.collect();
            let name = names.get(k).cloned().unwrap_or_else(|| format!("shape_{k}"));
            shapes.push(BlendShape { name, offsets, weights });
        }
    }
    let corrective = CorrectiveRig { rig, shapes: gathered(joined(shapes)) };
    corrective.check().map_err(|e| document.malformed(e.to_string()))?;
    Ok(corrective)
}

/// The rest pose without what the unanimated file shows of the targets.
fn take_off(morphs: &[Morph], rest: &mut [Vec3]) {
    for morph in morphs {
        for (target, weight) in morph.targets.iter().zip(&morph.rest_weights).filter(|(_, weight)| **weight != 0.0) {
            let own = rest.iter_mut().skip(morph.first).zip(target);
            own.for_each(|(p, d)| *p -= *d * *weight as f32);
        }
    }
}

/// A motion with the tracks of weights alone.
fn weights_of(motion: &Motion) -> Motion {
    let tracks = motion.tracks.iter().filter(|track| is_weight(track)).cloned().collect();
    let (name, is_named, start_secs) = (motion.name.clone(), motion.is_named, motion.start_secs);
    Motion { name, is_named, tracks, start_secs, frames: motion.frames }
}

/// A target's weight; that of the unanimated file where the motion does not weigh it.
fn weight(morph: &Morph, motion: &Motion, target: usize, secs: f64) -> f32 {
    let weights = motion.morph_weights(morph.node, secs);
    weights.and_then(|weights| weights.get(target).copied()).unwrap_or(morph.rest_weights[target]) as f32
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
