//! The meshes of a scene that were merged into one surface, and the nodes above them.
//!
//! A fit sees one mesh. What the file held is data beside it: which vertices and faces belong to which mesh, how it is called, what it hangs
//! on. Readers that merge meshes fill this in; writers take the surface apart again.

use std::ops::Range;

use glam::DAffine3;

/// The meshes of a scene.
///
/// Invariants, checked by [`Parts::check`]:
/// 1. Parents of nodes come before their children; nodes of meshes, no two the same, and the node of the skeleton exist.
/// 2. Vertices and faces of all meshes add up to those of the surface, and each face has its vertices in one mesh.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parts {
    /// Nodes of the meshes and above them, each after its parent.
    pub nodes: Vec<PartNode>,
    /// The meshes, whose vertices and faces follow each other in this order. Empty: the surface is one mesh without a scene.
    pub meshes: Vec<Part>,
    /// Node that holds the bones, where the source has one.
    pub skeleton: Option<usize>,
}

/// A node: a mesh's, or one that groups others.
#[derive(Clone, Debug, PartialEq)]
pub struct PartNode {
    /// Name in the source.
    pub name: String,
    /// Node above it.
    pub parent: Option<usize>,
    /// Place at rest, in model units.
    pub world_from_node: DAffine3,
}

/// One mesh.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// Its node, whose name is that of the object.
    pub node: usize,
    /// Name of the mesh itself.
    pub mesh: String,
    /// Number of vertices.
    pub vertices: usize,
    /// Number of faces.
    pub faces: usize,
    /// Names of its sets of texture coordinates: the first ones of the surface.
    pub uv_sets: Vec<String>,
    /// Whether it has vertex colours.
    pub colors: bool,
    /// Whether it does not move in any clip.
    pub still: bool,
    /// An earlier mesh of which this is another instance.
    pub instance_of: Option<usize>,
}

impl Parts {
    /// Whether there is no scene: the surface is one mesh.
    pub fn is_empty(&self) -> bool {
        self.meshes.is_empty()
    }

    /// Each mesh with its vertices and its faces.
    pub fn ranges(&self) -> impl Iterator<Item = (&Part, Range<usize>, Range<usize>)> {
        let (mut vertex, mut face) = (0, 0);
        self.meshes.iter().map(move |part| {
            let (v, f) = (vertex, face);
            (vertex, face) = (vertex + part.vertices, face + part.faces);
            (part, v..vertex, f..face)
        })
    }

    /// The name of a mesh: of its node, else its own.
    pub fn name<'a>(&'a self, part: &'a Part) -> &'a str {
        let of_node = self.nodes.get(part.node).map(|node| node.name.as_str());
        of_node.filter(|name| !name.is_empty()).unwrap_or(&part.mesh)
    }

    /// The name of the mesh of a vertex.
    pub fn of_vertex(&self, vertex: usize) -> Option<&str> {
        self.ranges().find(|(_, vertices, _)| vertices.contains(&vertex)).map(|(part, ..)| self.name(part))
    }

    /// In another space: `target_from_source` rotates, scales uniformly and moves. Nodes that are in no other place than their parents stay so.
    pub fn place(&mut self, target_from_source: DAffine3) {
        let back = target_from_source.inverse();
        let places = self.nodes.iter_mut().map(|node| &mut node.world_from_node);
        places.for_each(|place| *place = target_from_source * *place * back);
    }

    /// Checks invariants 1 and 2; the error says what is wrong.
    pub fn check(&self, vertices: usize, faces: &crate::mesh::Topology) -> Result<(), String> {
        if self.is_empty() {
            return Ok(());
        }
        let sums = self.meshes.iter().map(|part| (part.vertices, part.faces));
        let sums = sums.fold((0usize, 0usize), |a, b| (a.0.saturating_add(b.0), a.1.saturating_add(b.1)));
        if sums != (vertices, faces.face_count()) {
            let count = faces.face_count();
            return Err(format!("meshes of {} vertices and {} faces, but {vertices} and {count}", sums.0, sums.1));
        }
        if let Some(at) = (0..self.nodes.len()).find(|&at| self.nodes[at].parent.is_some_and(|parent| parent >= at)) {
            return Err(format!("node {:?} comes before its parent", self.nodes[at].name));
        }
        let mut taken = vec![false; self.nodes.len()];
        for (at, (part, own, of_part)) in self.ranges().enumerate() {
            let (name, node) = (self.name(part), taken.get_mut(part.node));
            if node.is_none_or(|taken| std::mem::replace(taken, true)) || part.instance_of.is_some_and(|of| of >= at) {
                return Err(format!(
                    "mesh {name:?} has no node of its own, or is an instance of a mesh that is not there"
                ));
            }
            let mut corners = of_part.flat_map(|f| faces.face(f));
            if let Some(vertex) = corners.find(|&&v| !own.contains(&(v as usize))) {
                return Err(format!("a face of mesh {name:?} names vertex {vertex}, which is of another mesh"));
            }
        }
        match self.skeleton.is_none_or(|node| node < self.nodes.len()) {
            true => Ok(()),
            false => Err("the skeleton hangs on a node that does not exist".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mesh::Topology;

    /// Meshes of a triangle each, below one node.
    fn triangles(names: &[&str]) -> Parts {
        let node = |(at, name): (usize, &&str)| PartNode {
            name: (*name).to_owned(),
            parent: (at > 0).then_some(0),
            world_from_node: DAffine3::IDENTITY,
        };
        let part = |at: usize| Part {
            node: at + 1,
            mesh: String::new(),
            vertices: 3,
            faces: 1,
            uv_sets: Vec::new(),
            colors: false,
            still: false,
            instance_of: None,
        };
        let nodes = [&["group"], names].concat();
        Parts {
            nodes: nodes.iter().enumerate().map(node).collect(),
            meshes: (0..names.len()).map(part).collect(),
            skeleton: None,
        }
    }

    #[test]
    fn faces_stay_within_their_mesh() {
        let faces = Topology::from_triangles(&[[0, 1, 2], [3, 4, 5]]);
        let parts = triangles(&["a", "b"]);
        parts.check(6, &faces).unwrap();
        assert_eq!(parts.of_vertex(3), Some("b"));
        let across = Topology::from_triangles(&[[0, 1, 2], [2, 4, 5]]);
        assert!(parts.check(6, &across).unwrap_err().contains("\"b\" names vertex 2"));
        assert!(parts.check(7, &faces).is_err());
        let lost = Parts { skeleton: Some(3), ..parts.clone() };
        assert!(lost.check(6, &faces).is_err());
        let mut cyclic = parts;
        cyclic.nodes[0].parent = Some(2);
        assert!(cyclic.check(6, &faces).unwrap_err().contains("\"group\" comes before its parent"));
    }

    #[test]
    fn nodes_at_the_origin_stay_there() {
        let mut parts = triangles(&["a"]);
        parts.place(DAffine3::from_rotation_x(1.0) * DAffine3::from_scale(glam::DVec3::splat(100.0)));
        assert!(parts.nodes[1].world_from_node.abs_diff_eq(DAffine3::IDENTITY, 1e-12));
    }
}
