//! From corners to vertices: glTF has one index for all attributes, so a vertex on a seam becomes several.

use std::collections::HashMap;

use bonesmith_core::mesh::surface::CornerAttribute;
use bonesmith_core::{Surface, Topology};

use crate::classes::{intern, refine};
use crate::compact::order;
use crate::gltf::extras::{Runs, to_runs};

/// One primitive: the faces of one material.
pub struct Part {
    /// Index into `Surface::materials`; `None` without materials.
    pub material: Option<u32>,
    /// Vertices of the primitive, in the order of the originals.
    pub vertices: Vec<SplitVertex>,
    /// Triangles over `vertices`, three each. Empty for a point cloud.
    pub indices: Vec<u32>,
    /// Corners of each polygon.
    pub polygons: Runs,
}

impl Part {
    /// Numbers vertices as triangles use them, which is shorter to compress.
    fn number_as_used(&mut self) {
        let mut place = vec![u32::MAX; self.vertices.len()];
        let mut order = Vec::with_capacity(self.vertices.len());
        for v in self.indices.iter().copied().chain(0..self.vertices.len() as u32) {
            if place[v as usize] == u32::MAX {
                place[v as usize] = order.len() as u32;
                order.push(self.vertices[v as usize]);
            }
        }
        self.vertices = order;
        self.indices.iter_mut().for_each(|v| *v = place[*v as usize]);
    }
}

/// One vertex of the output.
#[derive(Clone, Copy)]
pub struct SplitVertex {
    /// Original vertex.
    pub vertex: u32,
    /// A corner that carries its attributes; `None` when no face uses the vertex.
    pub corner: Option<u32>,
}

/// Splits a mesh of `vertices` into primitives; corners with equal values share a vertex. Vertices without faces go
/// to the first primitive: they must be found again, though no renderer shows them. Faces and vertices are in the order of the originals, or in
/// one that is short to compress.
pub fn split(surface: &Surface, vertices: usize, reordered: bool) -> Vec<Part> {
    let seams = seam_classes(surface);
    let mut used = vec![false; vertices];
    surface.topology.corners().iter().for_each(|&v| used[v as usize] = true);
    let loose = used.iter().enumerate().filter(|(_, used)| !**used);
    let mut loose: Vec<SplitVertex> = loose.map(|(i, _)| SplitVertex { vertex: i as u32, corner: None }).collect();
    let mut corner_vertex = vec![0u32; seams.len()];
    let mut parts: Vec<Part> = Vec::new();
    for (material, faces) in faces_by_material(surface) {
        let loose = std::mem::take(&mut loose);
        parts.push(part(surface, &seams, material, faces, loose, &mut corner_vertex, reordered));
    }
    if parts.is_empty() {
        parts.push(Part { material: None, vertices: loose, indices: Vec::new(), polygons: Vec::new() });
    }
    parts
}

/// Faces of each material that has any, by material.
pub fn faces_by_material(surface: &Surface) -> Vec<(Option<u32>, Vec<usize>)> {
    let faces = surface.topology.face_count();
    if faces == 0 {
        return Vec::new();
    }
    if surface.face_materials.is_empty() {
        return vec![(None, (0..faces).collect())];
    }
    let mut groups = vec![Vec::new(); surface.materials.len()];
    surface.face_materials.iter().enumerate().for_each(|(f, &m)| groups[m as usize].push(f));
    let groups = groups.into_iter().enumerate().filter(|(_, faces)| !faces.is_empty());
    groups.map(|(m, faces)| (Some(m as u32), faces)).collect()
}

fn part(
    surface: &Surface,
    seams: &[u32],
    material: Option<u32>,
    faces: Vec<usize>,
    loose: Vec<SplitVertex>,
    corner_vertex: &mut [u32],
    reordered: bool,
) -> Part {
    let topology = &surface.topology;
    let mut of_class: HashMap<u32, u32> = HashMap::new();
    let mut vertices = loose;
    for corner in faces.iter().flat_map(|&f| topology.corner_range(f)) {
        let next = vertices.len() as u32;
        let index = *of_class.entry(seams[corner]).or_insert(next);
        if index == next {
            vertices.push(SplitVertex { vertex: topology.corners()[corner], corner: Some(corner as u32) });
        }
        corner_vertex[corner] = index;
    }
    // Original order: an unsplit mesh keeps its numbering.
    let mut order: Vec<u32> = (0..vertices.len() as u32).collect();
    order.sort_by_key(|&v| (vertices[v as usize].vertex, v));
    let mut place = vec![0u32; vertices.len()];
    order.iter().enumerate().for_each(|(to, &from)| place[from as usize] = to as u32);
    let faces: Vec<(usize, usize)> = match reordered {
        true => shortest(topology, &faces, vertices.len(), |corner| place[corner_vertex[corner] as usize]),
        false => faces.into_iter().map(|f| (f, 0)).collect(),
    };
    let indices = faces.iter().flat_map(|&(f, start)| {
        let range = topology.corner_range(f);
        let corner = move |c: usize| range.start + (start + c) % range.len();
        (1..topology.face(f).len() - 1).flat_map(move |c| [0, c, c + 1].map(&corner))
    });
    let mut part = Part {
        material,
        indices: indices.map(|corner| place[corner_vertex[corner] as usize]).collect(),
        vertices: order.iter().map(|&v| vertices[v as usize]).collect(),
        polygons: to_runs(faces.iter().map(|&(f, _)| topology.face(f).len() as u32)),
    };
    if reordered {
        part.number_as_used();
    }
    part
}

/// Faces in an order that is short to compress, those with equally many corners together, and their first corners.
fn shortest(topology: &Topology, faces: &[usize], vertices: usize, of: impl Fn(usize) -> u32) -> Vec<(usize, usize)> {
    let mut sizes: Vec<usize> = faces.iter().map(|&f| topology.face(f).len()).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let mut all = Vec::with_capacity(faces.len());
    for size in sizes {
        let own: Vec<usize> = faces.iter().copied().filter(|&f| topology.face(f).len() == size).collect();
        let corners: Vec<Vec<u32>> = own.iter().map(|&f| topology.corner_range(f).map(&of).collect()).collect();
        all.extend(order::of_faces(&corners, vertices).into_iter().map(|(at, start)| (own[at], start)));
    }
    all
}

/// [corners] class of each corner: equal where vertex and all attribute values are equal.
fn seam_classes(surface: &Surface) -> Vec<u32> {
    let mut classes: Vec<u32> = surface.topology.corners().to_vec();
    for uv in &surface.uv_sets {
        refine(&mut classes, canonical(uv));
    }
    if let Some(normals) = &surface.normals {
        refine(&mut classes, canonical(normals));
    }
    if let Some(tangents) = &surface.tangents {
        refine(&mut classes, canonical(tangents));
    }
    if let Some(colors) = &surface.colors {
        refine(&mut classes, canonical(colors));
    }
    classes
}

/// [corners] number of each corner's value, equal for equal values even where the source repeats them.
fn canonical<const D: usize>(attribute: &CornerAttribute<D>) -> impl Iterator<Item = u32> {
    let ids = intern(attribute.values.iter().map(|value| value.map(f32::to_bits)));
    attribute.indices.iter().map(move |&index| ids[index as usize])
}
