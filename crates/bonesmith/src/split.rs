//! A fit of one long animation as what it was fitted to: clips with names and times of their own, and meshes that do not move.

use std::ops::Range;
use std::sync::Arc;

use bonesmith_core::mesh::surface::CornerAttribute;
use bonesmith_core::{MeshSequence, Model, Rig};
use glam::{DAffine3, DMat3};

/// Splits the one clip of a fit into the clips of the animation.
pub(crate) fn split_clips(model: &mut Model, sequence: &MeshSequence) {
    let spans = sequence.clips();
    if let Model::Corrective(corrective) = model {
        for shape in corrective.shapes.iter_mut().filter(|_| !spans.is_empty()) {
            if let [whole] = shape.weights.as_slice() {
                let part = |frames: &Range<usize>| whole[frames.clone()].to_vec();
                shape.weights = spans.iter().map(|span| part(&span.frames)).collect();
            }
        }
    }
    let Some(rig) = model.rig_mut() else { return };
    if let [whole] = rig.clips.as_slice()
        && let Some(clips) = whole.split(spans)
        && !clips.is_empty()
    {
        rig.clips = clips;
    }
}

/// Meshes that do not move stay what they are: place, normals, tangents; and a bone that does not move, where there is one, has them.
pub(crate) fn keep_still(rig: &mut Rig, sequence: &MeshSequence) {
    let still = sequence.still_meshes();
    if !still.contains(&true) || rig.surface.parts != sequence.surface().parts {
        return;
    }
    let bone = unmoved_bone(rig);
    let parts = rig.surface.parts.clone();
    let surface = Arc::make_mut(&mut rig.surface);
    let source = sequence.surface();
    for (((_, vertices, faces), part), _) in
        parts.ranges().zip(&mut surface.parts.meshes).zip(&still).filter(|(_, still)| **still)
    {
        part.still = true;
        rig.rest[vertices.clone()].copy_from_slice(&sequence.frame(0)[vertices.clone()]);
        if let Some(bone) = bone {
            vertices.for_each(|i| rig.weights.set(i, &[(bone, 1.0)]));
        }
        let corners = faces.flat_map(|f| source.topology.corner_range(f));
        let corners: Vec<usize> = corners.collect();
        keep(&mut surface.normals, source.normals.as_ref(), &corners);
        keep(&mut surface.tangents, source.tangents.as_ref(), &corners);
    }
}

/// The values of the source on some corners.
fn keep<const D: usize>(own: &mut Option<CornerAttribute<D>>, source: Option<&CornerAttribute<D>>, corners: &[usize]) {
    let (Some(own), Some(source)) = (own, source) else { return };
    let first = own.values.len() as u32;
    own.values.extend_from_slice(&source.values);
    corners.iter().for_each(|&c| own.indices[c] = first + source.indices[c]);
}

/// A bone that is in the same place in every frame of every clip.
fn unmoved_bone(rig: &Rig) -> Option<usize> {
    let rests = |m: &DAffine3| m.matrix3.abs_diff_eq(DMat3::IDENTITY, 1e-9) && m.translation.length() == 0.0;
    let mut frames = rig.clips.iter().flat_map(|clip| (0..clip.frame_count()).map(|t| clip.frame(t)));
    (0..rig.bone_count()).find(|&j| frames.clone().all(|frame| rests(&frame[j])) && frames.next().is_some())
}
