//! Which vertex of an animation is which vertex of a model, where a file has them in another order.

use std::path::Path;
use std::sync::Arc;

use bonesmith_core::deform::lbs;
use bonesmith_core::mesh::sphere::unit_radius;
use bonesmith_core::refit::correspondence;
use bonesmith_core::{Clip, MeshSequence, Model, Rig, SparseWeights, Surface, Topology};
use glam::Vec3;

use crate::error::Error;
use crate::refit::RigMismatch;
use crate::warning::{Noted, Warning};

/// Vertices that are further away from their own number than this, as a share of the radius, are taken for others.
const MOVED: f64 = 1e-2;

/// A model in the vertices of an animation. Small files, and exporters, write them in another order: they are then matched by position, in a pose that
/// both have.
pub fn in_order_of(model: Model, sequence: &MeshSequence, file: &Path) -> Result<Noted<Model>, Error> {
    let kept = |model: Model| Ok(Noted { value: model, warnings: Vec::new() });
    let rig = match &model {
        Model::Rig(rig) => rig,
        Model::Corrective(corrective) => &corrective.rig,
        _ => return kept(model),
    };
    let count = rig.vertex_count();
    let input = file.display().to_string();
    let is_same = same_mesh(rig, sequence, &input).is_ok();
    if count != sequence.vertex_count() || (is_same && !is_elsewhere(rig, sequence)) {
        return kept(model);
    }
    let clips: Vec<&Clip> = rig.clips.iter().collect();
    let own_rest = *sequence.rest() != *sequence.frame(0);
    let Some((_, found)) = correspondence::in_rig_order(rig, &clips, sequence, own_rest) else {
        if is_same {
            // Nothing says that the order is another one: the motion is.
            return kept(model);
        }
        return Err(Error::unsupported(format!(
            "{input}: its vertices are in another order than the animation's, and no pose shows which is which; write small files with \
             their numbers to keep the order"
        )));
    };
    let mut seen = vec![false; count];
    let twice = found.vertices.iter().filter(|&&v| std::mem::replace(&mut seen[v as usize], true)).count();
    if twice > 0 {
        return Err(Error::unsupported(format!(
            "{input}: its vertices are in another order than the animation's, and {twice} of {count} cannot be told apart by position; \
             write small files with their numbers to keep the order"
        )));
    }
    let warnings = vec![Warning::MatchedVertices { input, found: count, rig: count, unused: found.unused }];
    Ok(Noted { value: renumbered(model, &found.vertices), warnings })
}

/// A model whose vertex i becomes vertex `numbers[i]`; a rig, or one with shapes.
pub(crate) fn renumbered(model: Model, numbers: &[u32]) -> Model {
    match model {
        Model::Rig(rig) => renumbered_rig(rig, numbers).into(),
        Model::Corrective(mut corrective) => {
            corrective.rig = renumbered_rig(corrective.rig, numbers);
            corrective.shapes.iter_mut().for_each(|shape| shape.offsets = in_place(&shape.offsets, numbers));
            Model::Corrective(corrective)
        }
        other => other,
    }
}

fn in_place(values: &[Vec3], numbers: &[u32]) -> Vec<Vec3> {
    let mut placed = vec![Vec3::ZERO; values.len()];
    values.iter().zip(numbers).for_each(|(value, &v)| placed[v as usize] = *value);
    placed
}

fn renumbered_rig(rig: Rig, numbers: &[u32]) -> Rig {
    let mut weights = SparseWeights::new(rig.vertex_count(), rig.weights.slots());
    for (i, &v) in numbers.iter().enumerate() {
        let row: Vec<(usize, f64)> = rig.weights.of(i).map(|(j, w)| (j, f64::from(w))).collect();
        weights.set(v as usize, &row);
    }
    let topology = &rig.surface.topology;
    let counts: Vec<u32> = topology.faces().map(|face| face.len() as u32).collect();
    let corners = topology.corners().iter().map(|&i| numbers[i as usize]).collect();
    let surface = Surface { topology: Topology::from_counts(&counts, corners), ..(*rig.surface).clone() };
    Rig { rest: in_place(&rig.rest, numbers), weights, surface: Arc::new(surface), ..rig }
}

/// Whether most vertices are elsewhere in the first frame, where there are no faces to compare. The rest pose of a rig need not be one of the
/// animation's.
fn is_elsewhere(rig: &Rig, sequence: &MeshSequence) -> bool {
    let faces = [&rig.surface.topology, &sequence.surface().topology].map(|topology| topology.face_count());
    if !faces.contains(&0) {
        return false;
    }
    let limit = MOVED * unit_radius(&rig.rest);
    let apart = |posed: &[Vec3], frame: &[Vec3]| {
        2 * posed.iter().zip(frame).filter(|(a, b)| f64::from(a.distance(**b)) > limit).count() > rig.vertex_count()
    };
    match rig.clips.first().filter(|clip| clip.frame_count() > 0) {
        Some(clip) => apart(&lbs(&rig.rest, &rig.weights, clip.frame(0)), &sequence.frame(0)),
        None => apart(&rig.rest, sequence.rest()),
    }
}

/// Vertices, and faces where both have them, must be the same.
pub(crate) fn same_mesh(rig: &Rig, sequence: &MeshSequence, label: &str) -> Result<(), Error> {
    let (n, own) = (rig.vertex_count(), sequence.vertex_count());
    if n != own {
        return Err(RigMismatch::VertexCount { input: label.to_owned(), found: own, rig: n }.into());
    }
    let (rig_faces, faces) = (rig.surface.topology.vertex_triangles(), sequence.surface().topology.vertex_triangles());
    if rig_faces.is_empty() || faces.is_empty() {
        return Ok(());
    }
    // Exporters reorder faces; only what they join must be the same.
    let key = |mut triangles: Vec<[u32; 3]>| {
        triangles.iter_mut().for_each(|corners| corners.sort_unstable());
        triangles.sort_unstable();
        triangles
    };
    match rig_faces.len() == faces.len() && key(rig_faces.clone()) == key(faces.clone()) {
        true => Ok(()),
        // Quads may be split along the other diagonal: only another number of edges is another mesh.
        false if shares_edges(&rig_faces, &faces) => Ok(()),
        false => Err(RigMismatch::Faces { input: label.to_owned() }.into()),
    }
}

/// Whether most edges of the smaller are edges of the other.
fn shares_edges(a: &[[u32; 3]], b: &[[u32; 3]]) -> bool {
    let edges = |triangles: &[[u32; 3]]| -> std::collections::BTreeSet<(u32, u32)> {
        let of = |t: &[u32; 3]| [(t[0], t[1]), (t[1], t[2]), (t[2], t[0])].map(|(p, q)| (p.min(q), p.max(q)));
        triangles.iter().flat_map(of).collect()
    };
    let (a, b) = (edges(a), edges(b));
    let common = a.intersection(&b).count();
    2 * common > a.len().min(b.len())
}
