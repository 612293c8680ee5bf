//! Some meshes of a scene fitted anew, the others as they were: one rig with the bones of both.

use std::ops::Range;
use std::sync::Arc;

use bonesmith_core::mesh::surface::CornerAttribute;
use bonesmith_core::{BlendShape, Bone, Clip, Part, Parts, Rig, SparseWeights, Surface};
use glam::Vec3;

use crate::load::picks;
use crate::pieces::{of_faces, of_vertices};
use crate::skinned::UniqueNames;

/// Times of two clips that differ by less are the same.
const SAME_SECS: f64 = 1e-6;

/// The rig of the whole scene, in which the meshes that `picked` names are moved by the bones of `fitted`. The others keep their bones, weights and motion, and
/// those of `shapes`, which are of the whole, that move them: they are returned too. The error names the mesh or the clip that does not fit.
pub fn with_others(
    fitted: &Rig,
    whole: &Rig,
    shapes: &[BlendShape],
    picked: &str,
) -> Result<(Rig, Vec<BlendShape>), String> {
    let chosen = chosen(&whole.surface.parts, picked)?;
    let vertices: Vec<usize> = ranges(&whole.surface.parts, &chosen).flat_map(|(vertices, _)| vertices).collect();
    if vertices.len() != fitted.vertex_count() {
        let (found, fitted) = (vertices.len(), fitted.vertex_count());
        return Err(format!("the meshes {picked:?} have {found} vertices as a rig, and {fitted} were fitted"));
    }
    let mut place = vec![None; whole.vertex_count()];
    vertices.iter().enumerate().for_each(|(at, &i)| place[i] = Some(at));
    let others = (0..whole.vertex_count()).filter(|&i| place[i].is_none());
    let kept = with_ancestors(whole, others.flat_map(|i| whole.weights.of(i).map(|(j, _)| j)));
    let mut number = vec![0; whole.bone_count()];
    kept.iter().enumerate().for_each(|(at, &j)| number[j] = fitted.bone_count() + at);
    let slots = fitted.weights.max_influences().max(whole.weights.max_influences()).max(1);
    let mut weights = SparseWeights::new(whole.vertex_count(), slots);
    let mut rest = whole.rest.clone();
    for (i, place) in place.iter().enumerate() {
        let row: Vec<(usize, f64)> = match *place {
            Some(at) => fitted.weights.of(at).map(|(j, w)| (j, f64::from(w))).collect(),
            None => whole.weights.of(i).map(|(j, w)| (number[j], f64::from(w))).collect(),
        };
        weights.set(i, &row);
        if let Some(at) = *place {
            rest[i] = fitted.rest[at];
        }
    }
    let old = kept.iter().map(|&j| &whole.bones[j]);
    let mut names = UniqueNames::new(fitted.bones.iter().chain(old.clone()).map(|bone| bone.name.as_str()));
    let bones = fitted.bones.iter().map(|bone| (bone, bone.parent));
    let bones = bones.chain(old.map(|bone| (bone, bone.parent.map(|parent| number[parent]))));
    let bones = bones.map(|(bone, parent)| Bone { name: names.name(&bone.name), parent, ..bone.clone() }).collect();
    let clips = fitted.clips.iter().map(|clip| Ok(joined(clip, clip_of(whole, clip, fitted.clips.len())?, &kept)));
    let rig = Rig {
        name: whole.name.clone(),
        rest,
        surface: Arc::new(with_normals(whole, fitted, &chosen)),
        weights,
        bones,
        kind: fitted.kind.max(whole.kind),
        clips: clips.collect::<Result<_, String>>()?,
        params_json: fitted.params_json.clone(),
    };
    rig.check().map_err(|e| e.to_string())?;
    let of_clip = |clip: &Clip| clip_number(whole, clip, fitted.clips.len());
    let clips = fitted.clips.iter().map(of_clip).collect::<Result<Vec<usize>, String>>()?;
    let shapes = shapes.iter().filter_map(|shape| of_others(shape, &place, &clips));
    Ok((rig, shapes.collect()))
}

/// A shape of the vertices that are not fitted, with its weights in these clips; `None` where it moves none of them.
fn of_others(shape: &BlendShape, fitted: &[Option<usize>], clips: &[usize]) -> Option<BlendShape> {
    let own = shape.offsets.iter().zip(fitted).map(|(d, fitted)| if fitted.is_some() { Vec3::ZERO } else { *d });
    let offsets: Vec<Vec3> = own.collect();
    let moves = offsets.iter().any(|d| *d != Vec3::ZERO);
    let weights = clips.iter().map(|&c| shape.weights[c].clone()).collect();
    moves.then(|| BlendShape { offsets, weights, ..shape.clone() })
}

/// The meshes of a rig that `picked` names, with the bones that move them.
pub fn only_meshes(rig: &Rig, picked: &str) -> Result<Rig, String> {
    let chosen = chosen(&rig.surface.parts, picked)?;
    let (mut vertices, mut faces) = (Vec::new(), Vec::new());
    for (own, of_part) in ranges(&rig.surface.parts, &chosen) {
        vertices.extend(own.map(|i| i as u32));
        faces.extend(of_part.map(|f| f as u32));
    }
    let kept = with_ancestors(rig, vertices.iter().flat_map(|&i| rig.weights.of(i as usize).map(|(j, _)| j)));
    let mut number = vec![0; rig.bone_count()];
    kept.iter().enumerate().for_each(|(at, &j)| number[j] = at);
    let mut place = vec![0u32; rig.vertex_count()];
    vertices.iter().enumerate().for_each(|(at, &i)| place[i as usize] = at as u32);
    let mut surface = of_faces(&rig.surface, &faces, |i| place[i as usize]);
    surface.images.clone_from(&rig.surface.images);
    surface.parts = Parts::default();
    let clip = |clip: &Clip| Clip {
        posed_from_rest: (0..clip.frame_count()).flat_map(|t| kept.iter().map(move |&j| clip.frame(t)[j])).collect(),
        ..clip.clone()
    };
    Ok(Rig {
        name: rig.name.clone(),
        rest: vertices.iter().map(|&i| rig.rest[i as usize]).collect(),
        surface: Arc::new(surface),
        weights: of_vertices(&rig.weights, &vertices, |j| number[j]),
        bones: kept
            .iter()
            .map(|&j| Bone { parent: rig.bones[j].parent.map(|parent| number[parent]), ..rig.bones[j].clone() })
            .collect(),
        kind: rig.kind,
        clips: rig.clips.iter().map(clip).collect(),
        params_json: rig.params_json.clone(),
    })
}

/// [meshes] whether `picked` names each; it must name some, and not all.
fn chosen(parts: &Parts, picked: &str) -> Result<Vec<bool>, String> {
    let named = |part: &Part| picks(picked, &part.mesh) || picks(picked, &parts.nodes[part.node].name);
    let chosen: Vec<bool> = parts.meshes.iter().map(named).collect();
    match (chosen.contains(&true), chosen.contains(&false)) {
        (true, true) => Ok(chosen),
        (false, true) => Err(format!("no mesh is named {picked:?}")),
        _ => Err(format!("{picked:?} names all meshes: there are no others")),
    }
}

/// Vertices and faces of the chosen meshes.
fn ranges<'a>(parts: &'a Parts, chosen: &'a [bool]) -> impl Iterator<Item = (Range<usize>, Range<usize>)> + 'a {
    let all = parts.ranges().zip(chosen).filter(|(_, chosen)| **chosen);
    all.map(|((_, vertices, faces), _)| (vertices, faces))
}

/// Bones with all above them, ascending.
fn with_ancestors(rig: &Rig, used: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut kept = vec![false; rig.bone_count()];
    for start in used {
        let mut at = Some(start);
        while let Some(bone) = at.filter(|&bone| !std::mem::replace(&mut kept[bone], true)) {
            at = rig.bones[bone].parent;
        }
    }
    (0..rig.bone_count()).filter(|&j| kept[j]).collect()
}

/// The clip of the whole rig that has the frames of a fitted one.
fn clip_of<'a>(whole: &'a Rig, clip: &Clip, fitted: usize) -> Result<&'a Clip, String> {
    let own = &whole.clips[clip_number(whole, clip, fitted)?];
    let same = |(a, b): (&f64, &f64)| (a - b).abs() < SAME_SECS;
    if own.frame_count() == clip.frame_count() && own.times_secs.iter().zip(&clip.times_secs).all(same) {
        return Ok(own);
    }
    let (others, frames) = (own.frame_count(), clip.frame_count());
    Err(format!("clip {:?}: the others have {others} frames, the fit has {frames}, or their times differ", clip.name))
}

/// Its number.
fn clip_number(whole: &Rig, clip: &Clip, fitted: usize) -> Result<usize, String> {
    let named = whole.clips.iter().position(|own| own.name == clip.name);
    let only = (whole.clips.len() == 1 && fitted == 1).then_some(0);
    named.or(only).ok_or_else(|| format!("clip {:?}: the others have none of this name", clip.name))
}

/// Frames of fitted bones, followed by those that are kept.
fn joined(clip: &Clip, others: &Clip, kept: &[usize]) -> Clip {
    let frame = |t: usize| clip.frame(t).iter().copied().chain(kept.iter().map(move |&j| others.frame(t)[j]));
    Clip { posed_from_rest: (0..clip.frame_count()).flat_map(frame).collect(), ..clip.clone() }
}

/// The surface of the scene, with normals and tangents of the fit where both have them.
fn with_normals(whole: &Rig, fitted: &Rig, chosen: &[bool]) -> Surface {
    let mut surface = Surface::clone(&whole.surface);
    let faces = ranges(&whole.surface.parts, chosen).flat_map(|(_, faces)| faces);
    let topology = &whole.surface.topology;
    let starts: Vec<usize> = topology
        .faces()
        .scan(0, |start, face| {
            let own = *start;
            *start += face.len();
            Some(own)
        })
        .collect();
    let corners: Vec<usize> = faces.flat_map(|f| starts[f]..starts[f] + topology.face(f).len()).collect();
    if corners.len() == fitted.surface.topology.corners().len() {
        replace(&mut surface.normals, &fitted.surface.normals, &corners);
        replace(&mut surface.tangents, &fitted.surface.tangents, &corners);
    }
    for (part, chosen) in surface.parts.meshes.iter_mut().zip(chosen) {
        part.still &= !chosen;
        // Fitted meshes move by weights of their own.
        part.instance_of = part.instance_of.filter(|_| !chosen);
    }
    surface
}

/// Takes the values of `new` at `corners`, which are its corners in order.
fn replace<const D: usize>(own: &mut Option<CornerAttribute<D>>, new: &Option<CornerAttribute<D>>, corners: &[usize]) {
    let (Some(own), Some(new)) = (own, new) else { return };
    let first = own.values.len() as u32;
    own.values.extend(&new.values);
    corners.iter().zip(&new.indices).for_each(|(&corner, index)| own.indices[corner] = first + index);
}
