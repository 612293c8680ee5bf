//! A rig taken apart: rigid pieces, each with one bone and its own vertices, and the soft rest with bones of its own.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

use bonesmith_core::mesh::surface::CornerAttribute;
use bonesmith_core::{Bone, Clip, Rig, SparseWeights, Surface, Topology};
use glam::{DAffine3, DMat4, Vec3};

use crate::joints::Joints;
use crate::{IoError, warning};

/// A rig as rigid pieces and a soft rest.
pub(crate) struct Parts<'a> {
    /// The pieces: every vertex has one influence. All of the rig where nothing is soft.
    pub rigid: Cow<'a, Rig>,
    /// What several bones move, and what is connected with it.
    pub soft: Option<Rig>,
    /// [pieces] vertices of `rigid`, ascending.
    vertices: Vec<Vec<u32>>,
    /// [pieces] faces of `rigid`, ascending.
    faces: Vec<Vec<u32>>,
    /// Number of each vertex of `rigid` within its piece.
    numbers: Vec<u32>,
}

/// What one bone moves.
pub(crate) struct Part {
    /// Rest positions, relative to the bone's node.
    pub rest: Vec<Vec3>,
    pub surface: Surface,
}

impl<'a> Parts<'a> {
    /// Refuses a rig without any rigid piece. Faces between pieces are left out, which is reported.
    pub fn new(rig: &'a Rig, path: &Path) -> Result<Self, IoError> {
        let soft_bones = soft_bones(rig);
        if soft_bones.iter().all(|soft| *soft) {
            let influences =
                (0..rig.vertex_count()).map(|i| (i, rig.weights.of(i).count())).find(|(_, count)| *count > 1);
            let (vertex, count) = influences.unwrap_or_default();
            let what = format!(
                "no part of it is a rigid piece (vertex {vertex} has {count} influences); only those are written as nodes: \
                 write it as a skin, or fit it with one influence per vertex"
            );
            return Err(IoError::unsupported(path, what));
        }
        let is_soft = |i: u32| rig.weights.of(i as usize).any(|(j, _)| soft_bones[j]);
        let (rigid, soft) = match soft_bones.contains(&true) {
            false => (Cow::Borrowed(rig), None),
            true => {
                (Cow::Owned(chosen(rig, false, &soft_bones, &is_soft)), Some(chosen(rig, true, &soft_bones, &is_soft)))
            }
        };
        let (mut bone, mut vertices) = (Vec::with_capacity(rigid.vertex_count()), vec![Vec::new(); rigid.bone_count()]);
        let mut numbers = Vec::with_capacity(rigid.vertex_count());
        for i in 0..rigid.vertex_count() {
            let j = rigid.weights.of(i).next().map_or(0, |(j, _)| j);
            numbers.push(vertices[j].len() as u32);
            vertices[j].push(i as u32);
            bone.push(j);
        }
        let (mut faces, mut between) = (vec![Vec::new(); rigid.bone_count()], 0);
        for (f, face) in rigid.surface.topology.faces().enumerate() {
            let j = bone[face[0] as usize];
            match face.iter().all(|&i| bone[i as usize] == j) {
                true => faces[j].push(f as u32),
                false => between += 1,
            }
        }
        if between > 0 {
            warning::left_out(path, format!("{between} faces between pieces that move apart"));
        }
        Ok(Self { rigid, soft, vertices, faces, numbers })
    }

    /// Puts the pieces beside each other: their keys are then their places in the world.
    pub fn flatten(&mut self) {
        if self.rigid.bones.iter().any(|bone| bone.parent.is_some()) {
            self.rigid.to_mut().bones.iter_mut().for_each(|bone| bone.parent = None);
        }
    }

    /// The part of bone `j` of `rigid`, below its node; `plan` is of `rigid`. `None` for a bone without vertices.
    pub fn part(&self, j: usize, plan: &Joints) -> Option<Part> {
        if self.vertices[j].is_empty() {
            return None;
        }
        let node_from_rest = DAffine3::from_mat4(DMat4::from_cols_array(&plan.inverse_binds[j].map(f64::from)));
        let mut surface = of_faces(&self.rigid.surface, &self.faces[j], |i| self.numbers[i as usize]);
        surface.turn(node_from_rest.matrix3);
        let place = |i: &u32| node_from_rest.transform_point3(self.rigid.rest[*i as usize].as_dvec3()).as_vec3();
        Some(Part { rest: self.vertices[j].iter().map(place).collect(), surface })
    }
}

/// [B] bones that are no pieces': they move a vertex together with another bone, or vertices that faces connect with such.
fn soft_bones(rig: &Rig) -> Vec<bool> {
    let mut sets: Vec<usize> = (0..rig.bone_count()).collect();
    fn top(sets: &mut [usize], mut j: usize) -> usize {
        while sets[j] != j {
            sets[j] = sets[sets[j]];
            j = sets[j];
        }
        j
    }
    let first = |i: usize| rig.weights.of(i).next().map(|(j, _)| j);
    let (mut moves, mut blended) = (vec![false; rig.bone_count()], Vec::new());
    for i in 0..rig.vertex_count() {
        let Some(own) = first(i) else { continue };
        for (at, (j, _)) in rig.weights.of(i).enumerate() {
            moves[j] = true;
            if at > 0 {
                let (a, b) = (top(&mut sets, own), top(&mut sets, j));
                sets[a] = b;
                blended.push(j);
            }
        }
    }
    if blended.is_empty() {
        return vec![false; rig.bone_count()];
    }
    for face in rig.surface.topology.faces() {
        let Some(own) = first(face[0] as usize) else { continue };
        for j in face.iter().filter_map(|&i| first(i as usize)) {
            let (a, b) = (top(&mut sets, own), top(&mut sets, j));
            sets[a] = b;
        }
    }
    let mut soft = vec![false; rig.bone_count()];
    blended.into_iter().for_each(|j| soft[top(&mut sets, j)] = true);
    // A bone without vertices belongs to the skeleton of the skin.
    (0..rig.bone_count()).map(|j| soft[top(&mut sets, j)] || !moves[j]).collect()
}

/// The soft part of a rig, or the other one.
fn chosen(rig: &Rig, soft: bool, soft_bones: &[bool], is_soft: &dyn Fn(u32) -> bool) -> Rig {
    let vertices: Vec<u32> = (0..rig.vertex_count() as u32).filter(|&i| is_soft(i) == soft).collect();
    let of_face = |f: &u32| is_soft(rig.surface.topology.face(*f as usize)[0]) == soft;
    let faces: Vec<u32> = (0..rig.surface.topology.face_count() as u32).filter(of_face).collect();
    let bones: Vec<usize> = (0..rig.bone_count()).filter(|&j| soft_bones[j] == soft).collect();
    subset(rig, &vertices, &faces, &bones)
}

/// Some vertices, faces and bones of a rig, all ascending. Faces lie on those vertices, which those bones move. Images stay
/// behind: they are written once, with the materials.
fn subset(rig: &Rig, vertices: &[u32], faces: &[u32], bones: &[usize]) -> Rig {
    let (rest, surface, weights) = mesh_of(rig, vertices, faces, bones);
    let mut place = vec![None; rig.bone_count()];
    bones.iter().enumerate().for_each(|(at, &j)| place[j] = Some(at));
    let own_bone = |&j: &usize| {
        let bone = &rig.bones[j];
        Bone { parent: bone.parent.and_then(|p| place[p]), ..bone.clone() }
    };
    let own_clip = |clip: &Clip| Clip {
        name: clip.name.clone(),
        times_secs: clip.times_secs.clone(),
        posed_from_rest: (0..clip.frame_count()).flat_map(|t| bones.iter().map(move |&j| clip.frame(t)[j])).collect(),
    };
    Rig {
        name: rig.name.clone(),
        rest,
        surface: Arc::new(surface),
        weights,
        bones: bones.iter().map(own_bone).collect(),
        kind: rig.kind,
        clips: rig.clips.iter().map(own_clip).collect(),
        params_json: rig.params_json.clone(),
    }
}

/// Rest pose, surface and weights of [`subset`].
pub(crate) fn mesh_of(
    rig: &Rig,
    vertices: &[u32],
    faces: &[u32],
    bones: &[usize],
) -> (Vec<Vec3>, Surface, SparseWeights) {
    let number = |i: u32| vertices.partition_point(|&other| other < i) as u32;
    let place = |j: usize| bones.partition_point(|&other| other < j);
    let rest = vertices.iter().map(|&i| rig.rest[i as usize]).collect();
    (rest, of_faces(&rig.surface, faces, number), of_vertices(&rig.weights, vertices, place))
}

/// Rows of some vertices, as they are, with other numbers of bones.
pub(crate) fn of_vertices(all: &SparseWeights, vertices: &[u32], place: impl Fn(usize) -> usize) -> SparseWeights {
    let slots = vertices.iter().map(|&i| all.of(i as usize).count()).max().unwrap_or(0).max(1);
    let (mut joints, mut weights) = (vec![0u16; vertices.len() * slots], vec![0f32; vertices.len() * slots]);
    for (at, &i) in vertices.iter().enumerate() {
        for (k, (j, w)) in all.of(i as usize).enumerate() {
            (joints[at * slots + k], weights[at * slots + k]) = (place(j) as u16, w);
        }
    }
    SparseWeights::from_tables(slots, joints, weights).unwrap_or_else(|| SparseWeights::new(vertices.len(), slots))
}

/// Some faces with other numbers of vertices. Without images.
pub(crate) fn of_faces(all: &Surface, faces: &[u32], vertex: impl Fn(u32) -> u32) -> Surface {
    let mut topology = Topology::empty();
    for &f in faces {
        let face = all.topology.face(f as usize).iter().map(|&i| vertex(i));
        topology.push_face(&face.collect::<Vec<u32>>());
    }
    let corners: Vec<usize> = faces.iter().flat_map(|&f| all.topology.corner_range(f as usize)).collect();
    Surface {
        topology,
        uv_sets: all.uv_sets.iter().map(|uv| picked(uv, &corners)).collect(),
        normals: all.normals.as_ref().map(|normals| picked(normals, &corners)),
        tangents: all.tangents.as_ref().map(|tangents| picked(tangents, &corners)),
        colors: all.colors.as_ref().map(|colors| picked(colors, &corners)),
        face_materials: match all.face_materials.is_empty() {
            true => Vec::new(),
            false => faces.iter().map(|&f| all.face_materials[f as usize]).collect(),
        },
        materials: all.materials.clone(),
        images: Vec::new(),
        space: all.space,
        ..Surface::default()
    }
}

/// An attribute of some corners, with the values that they use.
fn picked<const D: usize>(all: &CornerAttribute<D>, corners: &[usize]) -> CornerAttribute<D> {
    let mut used: Vec<u32> = corners.iter().map(|&c| all.indices[c]).collect();
    used.sort_unstable();
    used.dedup();
    let number = |&c: &usize| used.partition_point(|&value| value < all.indices[c]) as u32;
    CornerAttribute {
        name: all.name.clone(),
        values: used.iter().map(|&value| all.values[value as usize]).collect(),
        indices: corners.iter().map(number).collect(),
    }
}

/// The vertices of a rig in the order in which [`crate::save_pieces`] writes them: those of its first piece, then of the next, soft
/// vertices last. `None` where it has no piece.
pub fn piece_order(rig: &Rig) -> Option<Vec<u32>> {
    let soft = soft_bones(rig);
    if soft.iter().all(|soft| *soft) {
        return None;
    }
    let mut order: Vec<u32> = (0..rig.vertex_count() as u32).collect();
    let bone = |i: &u32| rig.weights.of(*i as usize).next().map_or(0, |(j, _)| j);
    order.sort_by_key(|i| if soft[bone(i)] { usize::MAX } else { bone(i) });
    Some(order)
}
