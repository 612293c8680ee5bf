//! Polygons, and their triangles, edges, neighbours and components.

/// Faces of a mesh as polygons over vertex indices.
///
/// Invariants, checked by [`Topology::check`]:
/// 1. `face_starts` has one entry more than there are faces, starts at 0, never falls, and ends at `corners.len()`.
/// 2. Every face has at least 3 corners.
/// 3. Every corner is a vertex index below the vertex count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// [faces + 1] first corner of each face.
    face_starts: Vec<u32>,
    /// [corners] vertex of each corner.
    corners: Vec<u32>,
}

/// Why faces were refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it all")]
#[non_exhaustive]
pub enum TopologyError {
    #[error("face {face} has {corners} corners, at least 3 are needed")]
    TooFewCorners { face: usize, corners: usize },
    #[error("face {face} names vertex {vertex}, but there are {vertices} vertices (0 to {})", .vertices.saturating_sub(1))]
    IndexOutOfRange { face: usize, vertex: usize, vertices: usize },
}

impl Default for Topology {
    /// Equal to [`Topology::empty`], which a derived default would not be.
    fn default() -> Self {
        Self::empty()
    }
}

impl Topology {
    /// No faces at all: a point cloud.
    pub fn empty() -> Self {
        Self { face_starts: vec![0], corners: Vec::new() }
    }

    /// Triangles, three indices each.
    pub fn from_triangles(triangles: &[[u32; 3]]) -> Self {
        Self {
            face_starts: (0..=triangles.len() as u32).map(|f| 3 * f).collect(),
            corners: triangles.as_flattened().to_vec(),
        }
    }

    /// Polygons from their corner counts and the concatenated corners.
    ///
    /// # Panics
    /// If the counts do not add up.
    pub fn from_counts(counts: &[u32], corners: Vec<u32>) -> Self {
        let mut face_starts = Vec::with_capacity(counts.len() + 1);
        let mut start = 0u32;
        face_starts.push(0);
        for &count in counts {
            start += count;
            face_starts.push(start);
        }
        assert_eq!(start as usize, corners.len(), "corner counts and corners differ");
        Self { face_starts, corners }
    }

    /// Appends one polygon.
    pub fn push_face(&mut self, corners: &[u32]) {
        self.corners.extend_from_slice(corners);
        self.face_starts.push(self.corners.len() as u32);
    }

    /// Number of faces.
    pub fn face_count(&self) -> usize {
        self.face_starts.len().saturating_sub(1)
    }

    /// [corners] vertex of each corner, face after face.
    pub fn corners(&self) -> &[u32] {
        &self.corners
    }

    /// Range of corner indices that belong to face `f`.
    pub fn corner_range(&self, f: usize) -> std::ops::Range<usize> {
        self.face_starts[f] as usize..self.face_starts[f + 1] as usize
    }

    /// Vertices of face `f`.
    pub fn face(&self, f: usize) -> &[u32] {
        &self.corners[self.corner_range(f)]
    }

    /// All faces in order.
    pub fn faces(&self) -> impl ExactSizeIterator<Item = &[u32]> + '_ {
        (0..self.face_count()).map(|f| self.face(f))
    }

    /// Checks invariants 2 and 3 (1 holds by construction).
    pub fn check(&self, vertices: usize) -> Result<(), TopologyError> {
        for (face, corners) in self.faces().enumerate() {
            if corners.len() < 3 {
                return Err(TopologyError::TooFewCorners { face, corners: corners.len() });
            }
            if let Some(&vertex) = corners.iter().find(|&&v| v as usize >= vertices) {
                return Err(TopologyError::IndexOutOfRange { face, vertex: vertex as usize, vertices });
            }
        }
        Ok(())
    }

    /// Fan triangulation as *corner* indices, so that corner attributes can follow; face of each triangle beside it.
    pub fn triangles(&self) -> impl Iterator<Item = (usize, [usize; 3])> + '_ {
        (0..self.face_count()).flat_map(move |f| {
            let range = self.corner_range(f);
            (range.start + 1..range.end.saturating_sub(1)).map(move |c| (f, [range.start, c, c + 1]))
        })
    }

    /// Fan triangulation as vertex indices.
    pub fn vertex_triangles(&self) -> Vec<[u32; 3]> {
        self.triangles().map(|(_, c)| c.map(|c| self.corners[c])).collect()
    }
}

/// One-ring neighbours of every vertex along polygon edges, in compressed rows, sorted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adjacency {
    /// [N + 1] first neighbour of each vertex.
    starts: Vec<u32>,
    neighbours: Vec<u32>,
}

impl Adjacency {
    /// Neighbours along face edges; degenerate edges (a vertex with itself) and repetitions are dropped.
    pub fn new(topology: &Topology, vertices: usize) -> Self {
        let mut edges: Vec<(u32, u32)> = Vec::with_capacity(2 * topology.corners.len());
        for face in topology.faces() {
            for (c, &a) in face.iter().enumerate() {
                let b = face[(c + 1) % face.len()];
                if a != b {
                    edges.push((a, b));
                    edges.push((b, a));
                }
            }
        }
        Self::from_pairs(edges, vertices)
    }

    /// Neighbours by pairs, each of which is there in both directions; repetitions are dropped.
    pub(crate) fn from_pairs(mut edges: Vec<(u32, u32)>, vertices: usize) -> Self {
        edges.sort_unstable();
        edges.dedup();
        let mut starts = vec![0u32; vertices + 1];
        for &(a, _) in &edges {
            starts[a as usize + 1] += 1;
        }
        for i in 0..vertices {
            starts[i + 1] += starts[i];
        }
        Self { starts, neighbours: edges.into_iter().map(|(_, b)| b).collect() }
    }

    /// Number of vertices.
    pub fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// True when there are no vertices.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Neighbours of vertex `i`, ascending.
    pub fn of(&self, i: usize) -> &[u32] {
        &self.neighbours[self.starts[i] as usize..self.starts[i + 1] as usize]
    }

    /// Connected component of each vertex, numbered by lowest vertex, and how many there are.
    pub fn components(&self) -> (Vec<u32>, usize) {
        self.components_where(|_, _| true)
    }

    /// As [`Adjacency::components`], where only some neighbours are connected.
    pub(crate) fn components_where(&self, connected: impl Fn(usize, usize) -> bool) -> (Vec<u32>, usize) {
        let mut component = vec![u32::MAX; self.len()];
        let mut count = 0u32;
        let mut stack = Vec::new();
        for seed in 0..self.len() {
            if component[seed] != u32::MAX {
                continue;
            }
            component[seed] = count;
            stack.push(seed);
            while let Some(i) = stack.pop() {
                for &n in self.of(i) {
                    if component[n as usize] == u32::MAX && connected(i, n as usize) {
                        component[n as usize] = count;
                        stack.push(n as usize);
                    }
                }
            }
            count += 1;
        }
        (component, count as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fans_and_neighbours_of_a_quad_and_a_triangle() {
        let mut topology = Topology::empty();
        topology.push_face(&[0, 1, 2, 3]);
        topology.push_face(&[2, 4, 3]);
        assert_eq!(topology.vertex_triangles(), vec![[0, 1, 2], [0, 2, 3], [2, 4, 3]]);
        let adjacency = Adjacency::new(&topology, 6);
        assert_eq!(adjacency.of(2), &[1, 3, 4]);
        assert_eq!(adjacency.of(5), &[] as &[u32]);
        let (component, count) = adjacency.components();
        assert_eq!((component, count), (vec![0, 0, 0, 0, 0, 1], 2));
    }

    #[test]
    fn check_names_the_face_and_the_vertex() {
        let topology = Topology::from_triangles(&[[0, 1, 2], [2, 1, 9]]);
        assert_eq!(topology.check(4), Err(TopologyError::IndexOutOfRange { face: 1, vertex: 9, vertices: 4 }));
    }
}
