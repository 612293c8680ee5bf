//! Neighbours of vertices: mesh edges, and bridges between the components of the mesh.

use crate::mesh::{Adjacency, Topology};

/// Neighbours of every vertex.
pub(crate) struct Graph {
    adjacency: Adjacency,
    /// [N] all neighbours of vertices with bridges, few.
    joined: Vec<Option<Vec<u32>>>,
}

impl Graph {
    /// Mesh edges. One vertex of each component is connected to one of the next component, so that atoms can cross; points
    /// without faces are components too. Components are sorted by `order`.
    pub fn new(topology: &Topology, vertices: usize, order: impl Fn(usize, usize) -> std::cmp::Ordering) -> Self {
        let adjacency = Adjacency::new(topology, vertices);
        let (component, count) = adjacency.components();
        let mut first = vec![usize::MAX; count];
        for (i, &c) in component.iter().enumerate().rev() {
            first[c as usize] = i;
        }
        first.sort_by(|&a, &b| order(a, b).then(a.cmp(&b)));
        let mut bridges: Vec<Vec<u32>> = vec![Vec::new(); vertices];
        for pair in first.windows(2) {
            bridges[pair[0]].push(pair[1] as u32);
            bridges[pair[1]].push(pair[0] as u32);
        }
        let join = |(i, bridge): (usize, &Vec<u32>)| {
            (!bridge.is_empty()).then(|| adjacency.of(i).iter().chain(bridge).copied().collect())
        };
        let joined = bridges.iter().enumerate().map(join).collect();
        Self { adjacency, joined }
    }

    /// Neighbours of vertex `i`.
    pub fn of(&self, i: usize) -> &[u32] {
        self.joined[i].as_deref().unwrap_or_else(|| self.adjacency.of(i))
    }
}
