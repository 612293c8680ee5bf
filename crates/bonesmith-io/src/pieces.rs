//! A rig of rigid pieces taken apart: the vertices and faces of each bone.

use std::path::Path;

use bonesmith_core::mesh::surface::CornerAttribute;
use bonesmith_core::{Rig, Surface, Topology};
use glam::Vec3;

use crate::{IoError, warning};

/// Which vertices and faces belong to which bone.
pub(crate) struct Parts {
    /// [B] vertices, ascending.
    vertices: Vec<Vec<u32>>,
    /// [B] faces, ascending.
    faces: Vec<Vec<u32>>,
    /// [N] number of each vertex within its bone.
    numbers: Vec<u32>,
}

/// What one bone moves.
pub(crate) struct Part {
    /// Rest positions.
    pub rest: Vec<Vec3>,
    pub surface: Surface,
}

impl Parts {
    /// Refuses a rig with a vertex that several bones move. Faces between bones are left out, which is reported.
    pub fn new(rig: &Rig, path: &Path) -> Result<Self, IoError> {
        let mut bone = Vec::with_capacity(rig.vertex_count());
        let mut vertices = vec![Vec::new(); rig.bone_count()];
        let mut numbers = Vec::with_capacity(rig.vertex_count());
        for i in 0..rig.vertex_count() {
            let row: Vec<(usize, f32)> = rig.weights.of(i).collect();
            let [(j, _)] = row[..] else {
                let what = format!(
                    "vertex {i} has {} influences; pieces are written as nodes where every vertex has one: \
                     write it as a skin, or fit it with one influence per vertex",
                    row.len()
                );
                return Err(IoError::unsupported(path, what));
            };
            numbers.push(vertices[j].len() as u32);
            vertices[j].push(i as u32);
            bone.push(j);
        }
        let (mut faces, mut between) = (vec![Vec::new(); rig.bone_count()], 0);
        for (f, face) in rig.surface.topology.faces().enumerate() {
            let j = bone[face[0] as usize];
            match face.iter().all(|&i| bone[i as usize] == j) {
                true => faces[j].push(f as u32),
                false => between += 1,
            }
        }
        if between > 0 {
            warning::left_out(path, format!("{between} faces between pieces that move apart"));
        }
        Ok(Self { vertices, faces, numbers })
    }

    /// [N] vertices in the order of the parts.
    pub fn order(&self) -> Vec<u32> {
        self.vertices.concat()
    }

    /// The part of bone `j`.
    pub fn part(&self, rig: &Rig, j: usize) -> Part {
        let (all, faces) = (&rig.surface, &self.faces[j]);
        let ranges = || faces.iter().map(|&f| all.topology.corner_range(f as usize));
        let mut topology = Topology::empty();
        for &f in faces {
            let face = all.topology.face(f as usize).iter().map(|&i| self.numbers[i as usize]);
            topology.push_face(&face.collect::<Vec<u32>>());
        }
        let corners: Vec<usize> = ranges().flatten().collect();
        let surface = Surface {
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
            // Written once, with the materials.
            images: Vec::new(),
            space: all.space,
        };
        Part { rest: self.vertices[j].iter().map(|&i| rig.rest[i as usize]).collect(), surface }
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

/// The vertices of a rig in the order in which [`crate::save_pieces`] writes them: those of its first bone, then of the next.
pub fn piece_order(rig: &Rig) -> Option<Vec<u32>> {
    Some(Parts::new(rig, Path::new("")).ok()?.order())
}
