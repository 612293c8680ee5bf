//! Vertices at exactly the same position as one node: seams of texture coordinates are no borders of the surface.

use std::collections::HashMap;

use glam::{DVec3, Vec3};

use crate::mesh::Topology;

/// Which node each vertex is part of.
pub(super) struct Weld {
    /// [N] node of each vertex, numbered by lowest vertex.
    pub node: Vec<u32>,
    /// [nodes] how many vertices each has.
    pub sizes: Vec<u32>,
}

impl Weld {
    /// Joins vertices at one place, if `join`; else every vertex is a node.
    pub fn new(rest: &[Vec3], join: bool) -> Self {
        if !join {
            return Self { node: (0..rest.len() as u32).collect(), sizes: vec![1; rest.len()] };
        }
        let mut nodes: HashMap<[u32; 3], u32> = HashMap::with_capacity(rest.len());
        let mut sizes: Vec<u32> = Vec::new();
        // Adding 0 makes -0 and 0 one place.
        let key = |p: &Vec3| (*p + Vec3::ZERO).to_array().map(f32::to_bits);
        let node = rest.iter().map(|p| {
            let node = *nodes.entry(key(p)).or_insert_with(|| {
                sizes.push(0);
                sizes.len() as u32 - 1
            });
            sizes[node as usize] += 1;
            node
        });
        Self { node: node.collect(), sizes }
    }

    /// Number of nodes.
    pub fn count(&self) -> usize {
        self.sizes.len()
    }

    /// Faces over nodes. Corners may coincide; edges between them are ignored.
    pub fn topology(&self, topology: &Topology) -> Topology {
        let mut welded = Topology::empty();
        for face in topology.faces() {
            let corners: Vec<u32> = face.iter().map(|&v| self.node[v as usize]).collect();
            welded.push_face(&corners);
        }
        welded
    }

    /// [nodes] mean over the vertices of each node.
    pub fn mean(&self, values: impl Iterator<Item = f64>) -> Vec<f64> {
        let mut sums = vec![0.0; self.count()];
        values.zip(&self.node).for_each(|(value, &node)| sums[node as usize] += value);
        sums.iter().zip(&self.sizes).map(|(sum, &size)| sum / f64::from(size)).collect()
    }

    /// [nodes] places relative to `origin`.
    pub fn places(&self, rest: &[Vec3], origin: DVec3) -> Vec<DVec3> {
        let mut places = vec![DVec3::ZERO; self.count()];
        for (p, &node) in rest.iter().zip(&self.node) {
            places[node as usize] = p.as_dvec3() - origin;
        }
        places
    }
}
