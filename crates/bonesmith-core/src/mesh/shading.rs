//! Where a surface is shaded: a vertex once, or once for each side of a hard edge.

use glam::{DVec3, Vec3};

use crate::mesh::surface::Surface;
use crate::mesh::topology::{Adjacency, Topology};

/// Corners of one vertex that share a normal are one shading vertex. Without normals in the source every vertex with faces is one.
#[derive(Clone, Debug)]
pub struct ShadingVertices {
    /// [G] vertex of each, rising.
    vertices: Vec<u32>,
    /// [corners] shading vertex of each corner.
    of_corner: Vec<u32>,
    /// [triangles] shading vertices of the corners of each triangle.
    triangles: Vec<[u32; 3]>,
    /// [G] the source's normal, if it has any.
    own: Vec<DVec3>,
}

impl ShadingVertices {
    /// Of a surface; none of a point cloud.
    pub fn new(surface: &Surface) -> Self {
        let corners = surface.topology.corners();
        let value = |corner: usize| surface.normals.as_ref().map_or(0, |normals| normals.indices[corner]);
        let mut keys: Vec<(u32, u32)> = (0..corners.len()).map(|c| (corners[c], value(c))).collect();
        keys.sort_unstable();
        keys.dedup();
        let find = |c: usize| keys.partition_point(|key| *key < (corners[c], value(c))) as u32;
        let of_corner: Vec<u32> = (0..corners.len()).map(find).collect();
        let triangles = surface.topology.triangles().map(|(_, triangle)| triangle.map(|c| of_corner[c])).collect();
        let own = |values: &[[f32; 3]]| {
            keys.iter().map(|&(_, at)| Vec3::from_array(values[at as usize]).as_dvec3()).collect::<Vec<_>>()
        };
        let own = surface.normals.as_ref().map_or_else(Vec::new, |normals| own(&normals.values));
        Self { vertices: keys.iter().map(|(v, _)| *v).collect(), of_corner, triangles, own }
    }

    /// G.
    pub fn count(&self) -> usize {
        self.vertices.len()
    }

    /// [G] vertex of each.
    pub fn vertices(&self) -> &[u32] {
        &self.vertices
    }

    /// [triangles] shading vertices of the corners of each.
    pub fn triangles(&self) -> &[[u32; 3]] {
        &self.triangles
    }

    /// Whether no vertex is shaded twice.
    pub fn is_smooth(&self) -> bool {
        self.vertices.windows(2).all(|pair| pair[0] != pair[1])
    }

    /// [corners] shading vertex of each corner.
    pub fn of_corner(&self) -> &[u32] {
        &self.of_corner
    }

    /// [G] normals from positions: area-weighted means over the faces on this side, not normalised; zero where no face gives one.
    pub fn normals(&self, positions: &[Vec3]) -> Vec<DVec3> {
        let mut normals = vec![DVec3::ZERO; self.count()];
        for triangle in &self.triangles {
            let [a, b, c] = triangle.map(|g| positions[self.vertices[g as usize] as usize].as_dvec3());
            let normal = (b - a).cross(c - a);
            triangle.iter().for_each(|&g| normals[g as usize] += normal);
        }
        normals
    }

    /// [G] stored normals: the source's where they have a direction, else those of the rest positions.
    pub fn rest_normals(&self, rest: &[Vec3]) -> Vec<DVec3> {
        let mut normals = self.normals(rest);
        for (normal, own) in normals.iter_mut().zip(&self.own).filter(|(_, own)| is_direction(own)) {
            *normal = *own;
        }
        normals
    }

    /// [G] 1, or -1 in connected parts whose stored normals point against the faces: they stay so in all frames.
    ///
    /// A part decides as a whole, by area: a single normal against its faces is a fold of the rest pose, not another side.
    pub fn sides(&self, rest: &[Vec3]) -> Vec<f64> {
        let along: Vec<f64> = self.own.iter().zip(self.normals(rest)).map(|(own, n)| along(*own, n)).collect();
        if !along.iter().any(|x| *x < 0.0) {
            return vec![1.0; self.count()];
        }
        let corners = |triangle: &[u32; 3]| triangle.map(|g| self.vertices[g as usize]);
        let topology = Topology::from_triangles(&self.triangles.iter().map(corners).collect::<Vec<_>>());
        let (part, parts) = Adjacency::new(&topology, rest.len()).components();
        let mut sums = vec![0.0; parts];
        for (&i, x) in self.vertices.iter().zip(along) {
            sums[part[i as usize] as usize] += x;
        }
        self.vertices.iter().map(|&i| if sums[part[i as usize] as usize] < 0.0 { -1.0 } else { 1.0 }).collect()
    }
}

/// Product of a stored normal's direction with an area-weighted one; 0 where there is no direction.
fn along(own: DVec3, computed: DVec3) -> f64 {
    if is_direction(&own) { own.normalize_or_zero().dot(computed) } else { 0.0 }
}

/// Whether a stored normal has a direction.
fn is_direction(normal: &DVec3) -> bool {
    normal.is_finite() && normal.length_squared() > 0.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mesh::surface::CornerAttribute;

    /// Two triangles at a right angle over an edge.
    fn roof() -> (Vec<Vec3>, Surface) {
        let rest = vec![Vec3::ZERO, Vec3::X, Vec3::Y, Vec3::Z];
        (rest, Surface::bare(Topology::from_triangles(&[[0, 1, 2], [0, 3, 1]])))
    }

    #[test]
    fn smooth_vertices_have_one_normal_and_hard_edges_two() {
        let (rest, mut surface) = roof();
        let smooth = ShadingVertices::new(&surface);
        assert_eq!(smooth.vertices(), [0, 1, 2, 3]);
        assert!(smooth.normals(&rest)[0].normalize().distance(DVec3::new(0.0, 1.0, 1.0).normalize()) < 1e-12);
        surface.normals = Some(CornerAttribute {
            name: String::new(),
            values: vec![[0.0, 0.0, 2.0], [0.0, -1.0, 0.0]],
            indices: vec![0, 0, 0, 1, 1, 1],
        });
        let hard = ShadingVertices::new(&surface);
        assert_eq!(hard.vertices(), [0, 0, 1, 1, 2, 3]);
        assert_eq!(hard.normals(&rest)[0], DVec3::Z);
        assert_eq!(hard.normals(&rest)[1], DVec3::Y);
        assert_eq!(hard.rest_normals(&rest)[1], -DVec3::Y);
    }

    /// Two parts: the first one's normals point outwards but for one, the second one's inwards.
    #[test]
    fn a_part_decides_on_its_side_as_a_whole() {
        let quad = |x: f32| [[x, 0.0, 0.0], [x + 1.0, 0.0, 0.0], [x + 1.0, 1.0, 0.0], [x, 1.0, 0.0]].map(Vec3::from);
        let rest: Vec<Vec3> = [quad(0.0), quad(5.0)].concat();
        let mut surface = Surface::bare(Topology::from_triangles(&[[0, 1, 2], [0, 2, 3], [4, 5, 6], [4, 6, 7]]));
        let indices = surface.topology.corners().to_vec();
        let values = (0..8).map(|i| [0.0, 0.0, if i < 3 { 1.0 } else { -1.0 }]).collect();
        surface.normals = Some(CornerAttribute { name: String::new(), values, indices });
        let sides = ShadingVertices::new(&surface).sides(&rest);
        assert_eq!(sides, [1.0, 1.0, 1.0, 1.0, -1.0, -1.0, -1.0, -1.0]);
    }
}
