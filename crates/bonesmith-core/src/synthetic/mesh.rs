//! Meshes from rings and grids, with texture coordinates and materials.

use glam::Vec3;

use crate::mesh::normals::vertex_normals;
use crate::mesh::sequence::RawFrame;
use crate::mesh::surface::{CornerAttribute, Material, Surface};
use crate::mesh::topology::Topology;

/// A frame of positions alone.
pub(super) fn frame(positions: Vec<Vec3>) -> RawFrame {
    RawFrame { positions, ..RawFrame::default() }
}

/// Quads of a tube whose vertices are numbered ring by ring: `[low, low next, high next, high]` of each.
pub(super) fn tube(rings: usize, around: usize) -> impl Iterator<Item = [u32; 4]> {
    let id = move |ring: usize, at: usize| (ring * around + at % around) as u32;
    let quad = move |r: usize, c: usize| [id(r, c), id(r, c + 1), id(r + 1, c + 1), id(r + 1, c)];
    (0..rings - 1).flat_map(move |r| (0..around).map(move |c| quad(r, c)))
}

/// A corner: vertex and texture coordinate.
pub(super) type Corner = (u32, u32);

/// Faces under construction. Vertices are counted by the caller's own list.
#[derive(Default)]
pub(super) struct FaceBuilder {
    topology: Topology,
    uv_values: Vec<[f32; 2]>,
    uv_indices: Vec<u32>,
    face_materials: Vec<u32>,
}

impl FaceBuilder {
    /// [rows, columns] new texture coordinates, evenly spread over a rectangle.
    pub fn uv_grid(&mut self, columns: usize, rows: usize, from: [f64; 2], size: [f64; 2]) -> Vec<u32> {
        let first = self.uv_values.len() as u32;
        for (r, c) in (0..rows).flat_map(|r| (0..columns).map(move |c| (r, c))) {
            let (u, v) = (c as f64 / (columns - 1) as f64, r as f64 / (rows - 1) as f64);
            self.uv_values.push([(from[0] + size[0] * u) as f32, (from[1] + size[1] * v) as f32]);
        }
        (first..self.uv_values.len() as u32).collect()
    }

    /// A polygon of one material; `flip` turns it inside out. A vertex that comes twice in a row is taken once.
    pub fn face(&mut self, corners: &[Corner], material: u32, flip: bool) {
        let mut corners = corners.to_vec();
        corners.dedup_by_key(|corner| corner.0);
        if corners[0].0 == corners[corners.len() - 1].0 {
            corners.pop();
        }
        if flip {
            corners.reverse();
        }
        let vertices: Vec<u32> = corners.iter().map(|(vertex, _)| *vertex).collect();
        self.topology.push_face(&vertices);
        self.uv_indices.extend(corners.iter().map(|(_, uv)| *uv));
        self.face_materials.push(material);
    }

    /// The finished surface, with smooth normals of `rest`.
    pub fn finish(self, rest: &[Vec3], materials: Vec<Material>) -> Surface {
        let triangles = self.topology.vertex_triangles();
        let normals = vertex_normals(rest, &triangles);
        let values = normals.iter().map(|n| n.try_normalize().unwrap_or(glam::DVec3::Y).as_vec3().to_array());
        let normals = CornerAttribute {
            name: "normals".into(),
            values: values.collect(),
            indices: self.topology.corners().to_vec(),
        };
        Surface {
            topology: self.topology,
            uv_sets: vec![CornerAttribute { name: "uv".into(), values: self.uv_values, indices: self.uv_indices }],
            normals: Some(normals),
            face_materials: self.face_materials,
            materials,
            ..Surface::default()
        }
    }
}

/// A smooth curve through (x, y) points with rising x; constant outside. Monotone between points, so that shapes
/// do not overshoot [Fritsch1980].
pub(super) fn curve(points: &[(f64, f64)], x: f64) -> f64 {
    let last = points.len() - 1;
    if x <= points[0].0 {
        return points[0].1;
    }
    if x >= points[last].0 {
        return points[last].1;
    }
    let at = points.partition_point(|p| p.0 <= x) - 1;
    let secant = |k: usize| (points[k + 1].1 - points[k].1) / (points[k + 1].0 - points[k].0);
    // Slope at a point: harmonic mean of the secants beside it, 0 at a turn.
    let slope = |k: usize| {
        if k == 0 {
            return secant(0);
        }
        if k == last {
            return secant(last - 1);
        }
        let (a, b) = (secant(k - 1), secant(k));
        if a * b <= 0.0 { 0.0 } else { 2.0 * a * b / (a + b) }
    };
    let width = points[at + 1].0 - points[at].0;
    let t = (x - points[at].0) / width;
    let (t2, t3) = (t * t, t * t * t);
    (2.0 * t3 - 3.0 * t2 + 1.0) * points[at].1
        + (t3 - 2.0 * t2 + t) * width * slope(at)
        + (3.0 * t2 - 2.0 * t3) * points[at + 1].1
        + (t3 - t2) * width * slope(at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_pass_through_their_points_and_do_not_overshoot() {
        let points = [(0.0, 1.0), (1.0, 3.0), (2.0, 3.0), (3.0, 0.0)];
        for (x, y) in points {
            assert!((curve(&points, x) - y).abs() < 1e-12);
        }
        for step in 0..=400 {
            let y = curve(&points, -0.5 + step as f64 * 0.01);
            assert!((-1e-12..=3.0 + 1e-12).contains(&y), "{y}");
        }
    }
}
