//! Tangents of a surface with texture coordinates: the direction in which the first coordinate rises, as normal maps need it.
//!
//! glTF asks for MikkTSpace tangents where a file has none. Here, as there, faces count together that share vertex, normal, texture
//! coordinate and orientation in the texture; their directions are added, weighted by area (MikkTSpace: by angle), and made orthogonal to
//! the normal.

use glam::{DVec2, DVec3, Vec3};

use crate::mesh::shading::ShadingVertices;
use crate::mesh::surface::Surface;

/// Corners of one shading vertex that share a texture coordinate and an orientation are one tangent vertex.
#[derive(Clone, Debug)]
pub struct TangentVertices {
    /// [G] vertex of each.
    vertices: Vec<u32>,
    /// [G] shading vertex of each.
    shading: Vec<u32>,
    /// [G] whether the texture is mirrored there.
    mirrored: Vec<bool>,
    /// [corners] tangent vertex of each corner, `None` where its faces have no area in the texture.
    of_corner: Vec<Option<u32>>,
    /// Triangles with an area in the texture: tangent vertices, and the rates that make the direction from two edges.
    triangles: Vec<([u32; 3], DVec2)>,
}

impl TangentVertices {
    /// By the first set of texture coordinates; `None` without one, and where no face has an area in the texture.
    pub fn new(surface: &Surface, shading: &ShadingVertices) -> Option<Self> {
        let uv = surface.uv_sets.first()?;
        let corners = surface.topology.corners();
        let at = |c: usize| DVec2::from(uv.values[uv.indices[c] as usize].map(f64::from));
        let area = |[a, b, c]: [usize; 3]| (at(b) - at(a)).perp_dot(at(c) - at(a));
        let faces: Vec<([usize; 3], f64)> = (surface.topology.triangles())
            .map(|(_, triangle)| (triangle, area(triangle)))
            .filter(|(_, area)| area.is_finite() && *area != 0.0)
            .collect();
        let key = |c: usize, area: f64| (shading.of_corner()[c], uv.indices[c], area < 0.0);
        let mut keys: Vec<((u32, u32, bool), u32)> =
            faces.iter().flat_map(|(t, area)| t.map(|c| (key(c, *area), corners[c]))).collect();
        keys.sort_unstable();
        keys.dedup();
        let find = |c: usize, area: f64| keys.partition_point(|(other, _)| *other < key(c, area)) as u32;
        let triangle = |&(t, area): &([usize; 3], f64)| {
            let [_, b, c] = t.map(|corner| at(corner).y - at(t[0]).y);
            (t.map(|corner| find(corner, area)), DVec2::new(c, -b) / area)
        };
        let mut of_corner = vec![None; corners.len()];
        for (triangle, area) in &faces {
            triangle.iter().for_each(|&c| of_corner[c] = of_corner[c].or(Some(find(c, *area))));
        }
        (!faces.is_empty()).then(|| Self {
            triangles: faces.iter().map(triangle).collect(),
            mirrored: keys.iter().map(|((.., mirrored), _)| *mirrored).collect(),
            of_corner,
            vertices: keys.iter().map(|(_, vertex)| *vertex).collect(),
            shading: keys.iter().map(|((g, ..), _)| *g).collect(),
        })
    }

    /// [G] vertex of each.
    pub fn vertices(&self) -> &[u32] {
        &self.vertices
    }

    /// [G] shading vertex of each.
    pub fn shading(&self) -> &[u32] {
        &self.shading
    }

    /// [G] whether the texture is mirrored there.
    pub fn mirrored(&self) -> &[bool] {
        &self.mirrored
    }

    /// [corners] tangent vertex of each corner, `None` where its faces have no area in the texture.
    pub fn of_corner(&self) -> &[Option<u32>] {
        &self.of_corner
    }

    /// [G] tangents of the rest pose: those of the surface where they have a direction, else from the positions.
    pub fn rest_tangents(&self, surface: &Surface, rest: &[Vec3], normals: &[DVec3]) -> Vec<DVec3> {
        let mut tangents = self.tangents(rest, normals);
        let Some(own) = &surface.tangents else { return tangents };
        for (g, &index) in self.of_corner.iter().zip(&own.indices) {
            let [x, y, z, _] = own.values[index as usize].map(f64::from);
            if let (Some(g), Some(own)) = (g, DVec3::new(x, y, z).try_normalize()) {
                tangents[*g as usize] = own;
            }
        }
        tangents
    }

    /// [G] unit tangents at positions whose shading vertices have these normals; zero where there is none.
    pub fn tangents(&self, positions: &[Vec3], normals: &[DVec3]) -> Vec<DVec3> {
        let mut sums = vec![DVec3::ZERO; self.vertices.len()];
        for (triangle, rates) in &self.triangles {
            let [a, b, c] = triangle.map(|g| positions[self.vertices[g as usize] as usize].as_dvec3());
            let direction = ((b - a) * rates.x + (c - a) * rates.y).normalize_or_zero();
            let weighted = direction * (b - a).cross(c - a).length();
            triangle.iter().for_each(|&g| sums[g as usize] += weighted);
        }
        for (sum, &g) in sums.iter_mut().zip(&self.shading) {
            let normal = normals[g as usize].normalize_or_zero();
            *sum = (*sum - normal * normal.dot(*sum)).normalize_or_zero();
        }
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mesh::surface::CornerAttribute;
    use crate::mesh::topology::Topology;

    /// A square of two triangles whose texture is turned by an angle, and mirrored in the second half.
    fn square(angle: f64, mirrored: bool) -> (Vec<Vec3>, Surface) {
        let rest = vec![Vec3::ZERO, Vec3::X, Vec3::new(1.0, 1.0, 0.0), Vec3::Y];
        let mut surface = Surface::bare(Topology::from_triangles(&[[0, 1, 2], [0, 2, 3]]));
        let turned = |p: &Vec3| DVec2::from_angle(-angle).rotate(DVec2::new(p.x.into(), p.y.into()));
        let mut values: Vec<[f32; 2]> = rest.iter().map(|p| turned(p).as_vec2().to_array()).collect();
        if mirrored {
            // The texture of the second triangle is that of the first, folded over the diagonal.
            values[3] = values[1];
        }
        surface.uv_sets.push(CornerAttribute { name: "uv".into(), values, indices: vec![0, 1, 2, 0, 2, 3] });
        (rest, surface)
    }

    #[test]
    fn tangents_follow_the_texture() {
        for angle in [0.0, 0.4, 2.0, -3.0] {
            let (rest, surface) = square(angle, false);
            let shading = ShadingVertices::new(&surface);
            let tangents = TangentVertices::new(&surface, &shading).unwrap();
            assert_eq!(tangents.vertices(), [0, 1, 2, 3]);
            let truth = DVec3::new(angle.cos(), angle.sin(), 0.0);
            for tangent in tangents.tangents(&rest, &shading.normals(&rest)) {
                assert!(tangent.distance(truth) < 1e-6, "{angle}: {tangent} {truth}");
            }
            // A normal that leans over takes the tangent along.
            let leaning = tangents.tangents(&rest, &[DVec3::new(0.3, 0.1, 1.0); 4]);
            assert!(leaning.iter().all(|t| t.dot(DVec3::new(0.3, 0.1, 1.0)).abs() < 1e-9 && t.length() > 0.99));
        }
    }

    #[test]
    fn mirrored_faces_have_tangents_of_their_own() {
        let (rest, surface) = square(0.0, true);
        let shading = ShadingVertices::new(&surface);
        let tangents = TangentVertices::new(&surface, &shading).unwrap();
        assert_eq!(tangents.vertices(), [0, 0, 1, 2, 2, 3]);
        let found = tangents.tangents(&rest, &shading.normals(&rest));
        assert!(found.iter().any(|t| t.distance(DVec3::X) < 1e-6) && found.iter().any(|t| t.distance(DVec3::Y) < 1e-6));
        let mut bare = surface.clone();
        bare.uv_sets[0].values.iter_mut().for_each(|uv| *uv = [0.5, 0.5]);
        assert!(TangentVertices::new(&bare, &shading).is_none());
        bare.uv_sets.clear();
        assert!(TangentVertices::new(&bare, &shading).is_none());
    }
}
