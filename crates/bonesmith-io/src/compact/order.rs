//! Faces and vertices in an order that is short to write: neighbours follow each other.
//!
//! A walk over the faces: the next one shares an edge with a recent one, if any does, with a third vertex that is recent or new, and
//! with a vertex that few faces are left of, so that no single faces remain behind. Vertices are numbered as the faces use them.

use std::collections::HashMap;
use std::sync::Arc;

use bonesmith_core::mesh::surface::CornerAttribute;
use bonesmith_core::{BlendShape, Rig, SparseWeights, Surface, Topology};

/// Recent edges and vertices that the codec of triangles can name in one byte.
const RECENT_EDGES: usize = 14;
const RECENT_VERTICES: u32 = 16;

/// A new order.
pub struct Order {
    /// [faces] which face is written there.
    faces: Vec<usize>,
    /// [N] which vertex is written there.
    pub vertices: Vec<u32>,
}

impl Order {
    /// Faces stay grouped by material and by number of corners, in which they are written.
    pub fn new(surface: &Surface, vertices: usize) -> Self {
        let topology = &surface.topology;
        let group = |f: usize| (surface.face_materials.get(f).copied().unwrap_or(0), topology.face(f).len());
        let mut faces: Vec<usize> = (0..topology.face_count()).collect();
        faces.sort_by_key(|&f| group(f));
        let mut order = Vec::with_capacity(faces.len());
        for own in faces.chunk_by(|a, b| group(*a) == group(*b)) {
            Walk::new(topology, own, vertices).run(&mut order);
        }
        let mut used = vec![false; vertices];
        let mut numbered = Vec::with_capacity(vertices);
        for v in order.iter().flat_map(|&f| topology.face(f)).copied().chain(0..vertices as u32) {
            if !std::mem::replace(&mut used[v as usize], true) {
                numbered.push(v);
            }
        }
        Self { faces: order, vertices: numbered }
    }

    /// Triangles in the new order.
    pub fn triangles(&self, topology: &Topology) -> Vec<[u32; 3]> {
        let new = self.new_of_old();
        let fan = |&f: &usize| {
            let face = topology.face(f);
            (1..face.len() - 1).map(|c| [face[0], face[c], face[c + 1]].map(|v| new[v as usize])).collect::<Vec<_>>()
        };
        self.faces.iter().flat_map(fan).collect()
    }

    fn new_of_old(&self) -> Vec<u32> {
        let mut new = vec![0; self.vertices.len()];
        self.vertices.iter().enumerate().for_each(|(at, &v)| new[v as usize] = at as u32);
        new
    }

    /// The rig in the new order.
    pub fn of_rig(&self, rig: &Rig) -> Rig {
        let mut weights = SparseWeights::new(rig.vertex_count(), rig.weights.slots());
        for (at, &v) in self.vertices.iter().enumerate() {
            let row: Vec<(usize, f64)> = rig.weights.of(v as usize).map(|(j, w)| (j, f64::from(w))).collect();
            weights.set(at, &row);
        }
        Rig {
            rest: self.vertices.iter().map(|&v| rig.rest[v as usize]).collect(),
            weights,
            surface: Arc::new(self.of_surface(&rig.surface)),
            ..rig.clone()
        }
    }

    /// Shapes in the new order.
    pub fn of_shapes(&self, shapes: &[BlendShape]) -> Vec<BlendShape> {
        let placed = |shape: &BlendShape| BlendShape {
            offsets: self.vertices.iter().map(|&v| shape.offsets[v as usize]).collect(),
            ..shape.clone()
        };
        shapes.iter().map(placed).collect()
    }

    fn of_surface(&self, surface: &Surface) -> Surface {
        let (topology, new) = (&surface.topology, self.new_of_old());
        let counts: Vec<u32> = self.faces.iter().map(|&f| topology.face(f).len() as u32).collect();
        let corners: Vec<usize> = self.faces.iter().flat_map(|&f| topology.corner_range(f)).collect();
        let vertices = corners.iter().map(|&c| new[topology.corners()[c] as usize]).collect();
        Surface {
            topology: Topology::from_counts(&counts, vertices),
            uv_sets: surface.uv_sets.iter().map(|uv| placed(uv, &corners)).collect(),
            normals: surface.normals.as_ref().map(|own| placed(own, &corners)),
            tangents: surface.tangents.as_ref().map(|own| placed(own, &corners)),
            colors: surface.colors.as_ref().map(|own| placed(own, &corners)),
            face_materials: match surface.face_materials.is_empty() {
                true => Vec::new(),
                false => self.faces.iter().map(|&f| surface.face_materials[f]).collect(),
            },
            ..surface.clone()
        }
    }
}

fn placed<const D: usize>(attribute: &CornerAttribute<D>, corners: &[usize]) -> CornerAttribute<D> {
    CornerAttribute { indices: corners.iter().map(|&c| attribute.indices[c]).collect(), ..attribute.clone() }
}

/// A walk over some faces of a mesh.
struct Walk<'a> {
    topology: &'a Topology,
    faces: &'a [usize],
    /// Places in `faces` by directed edge.
    by_edge: HashMap<(u32, u32), Vec<u32>>,
    done: Vec<bool>,
    /// Edges whose other side may be free, latest last.
    edges: Vec<(u32, u32)>,
    /// [N] faces that are not written yet.
    left: Vec<u32>,
    /// [N] when a vertex was first used, from 1 on.
    used: Vec<u32>,
    clock: u32,
}

impl<'a> Walk<'a> {
    fn new(topology: &'a Topology, faces: &'a [usize], vertices: usize) -> Self {
        let mut by_edge: HashMap<(u32, u32), Vec<u32>> = HashMap::new();
        let mut left = vec![0; vertices];
        for (place, &f) in faces.iter().enumerate() {
            sides(topology.face(f)).for_each(|side| by_edge.entry(side).or_default().push(place as u32));
            topology.face(f).iter().for_each(|&v| left[v as usize] += 1);
        }
        let done = vec![false; faces.len()];
        Self { topology, faces, by_edge, done, edges: Vec::new(), left, used: vec![0; vertices], clock: 0 }
    }

    fn run(mut self, order: &mut Vec<usize>) {
        let mut first = 0;
        loop {
            while first < self.faces.len() && self.done[first] {
                first += 1;
            }
            let Some(place) = self.near().or_else(|| self.behind()).or((first < self.faces.len()).then_some(first))
            else {
                return;
            };
            self.done[place] = true;
            order.push(self.faces[place]);
            let face = self.topology.face(self.faces[place]);
            for &v in face {
                self.left[v as usize] -= 1;
                if self.used[v as usize] == 0 {
                    self.clock += 1;
                    self.used[v as usize] = self.clock;
                }
            }
            self.edges.extend(sides(face).map(|(a, b)| (b, a)));
        }
    }

    fn free(&self, edge: &(u32, u32)) -> impl Iterator<Item = usize> + '_ {
        let places = self.by_edge.get(edge).map_or(&[][..], Vec::as_slice);
        places.iter().map(|&place| place as usize).filter(|&place| !self.done[place])
    }

    /// The best face at a recent edge.
    fn near(&self) -> Option<usize> {
        let recent = self.edges.iter().rev().take(RECENT_EDGES).enumerate();
        let places = recent.flat_map(|(age, edge)| self.free(edge).map(move |place| (age, place)));
        places.min_by_key(|&(age, place)| (self.strangeness(place), self.left(place), age)).map(|(_, place)| place)
    }

    /// A face at the latest edge that has one.
    fn behind(&mut self) -> Option<usize> {
        while let Some(edge) = self.edges.last().copied() {
            if let Some(place) = self.free(&edge).next() {
                return Some(place);
            }
            self.edges.pop();
        }
        None
    }

    /// Vertices that are neither new nor recent.
    fn strangeness(&self, place: usize) -> usize {
        let old = |v: &&u32| {
            let used = self.used[**v as usize];
            used > 0 && self.clock - used > RECENT_VERTICES
        };
        self.topology.face(self.faces[place]).iter().filter(old).count()
    }

    /// Faces that are left at the vertex that has the fewest.
    fn left(&self, place: usize) -> u32 {
        let face = self.topology.face(self.faces[place]);
        face.iter().map(|&v| self.left[v as usize]).min().unwrap_or(0)
    }
}

fn sides(face: &[u32]) -> impl Iterator<Item = (u32, u32)> + '_ {
    (0..face.len()).map(|c| (face[c], face[(c + 1) % face.len()]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gltf::meshopt::indices;

    /// A grid whose vertices and faces are in no order.
    fn shuffled_grid(side: u32) -> (Surface, usize) {
        let count = (side + 1) * (side + 1);
        let scattered = |v: u32| (v * 7919) % count;
        let mut triangles = Vec::new();
        for y in 0..side {
            for x in 0..side {
                let a = y * (side + 1) + x;
                triangles.push([a, a + 1, a + side + 2].map(scattered));
                triangles.push([a, a + side + 2, a + side + 1].map(scattered));
            }
        }
        triangles.sort();
        (Surface { topology: Topology::from_triangles(&triangles), ..Surface::default() }, count as usize)
    }

    #[test]
    fn every_face_and_vertex_is_there_once() {
        let (surface, vertices) = shuffled_grid(20);
        let order = Order::new(&surface, vertices);
        let sorted = |mut all: Vec<usize>| {
            all.sort_unstable();
            all
        };
        assert_eq!(sorted(order.faces.clone()), (0..surface.topology.face_count()).collect::<Vec<_>>());
        let seen = order.vertices.iter().map(|&v| v as usize).collect();
        assert_eq!(sorted(seen), (0..vertices).collect::<Vec<_>>());
    }

    #[test]
    fn neighbours_follow_each_other() {
        let (surface, vertices) = shuffled_grid(40);
        let bytes = |triangles: &[[u32; 3]]| indices::encode_triangles(triangles).len() as f64 / triangles.len() as f64;
        let order = Order::new(&surface, vertices);
        let before: Vec<[u32; 3]> = surface.topology.corners().as_chunks::<3>().0.to_vec();
        let (before, after) = (bytes(&before), bytes(&order.triangles(&surface.topology)));
        assert!(after < 1.5 && before > 3.0, "{before} {after}");
    }
}
