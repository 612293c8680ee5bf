//! Normals of a surface from its positions.

use glam::{DVec3, Vec3};

/// [N] area-weighted vertex normals, not normalised; zero where no face gives one.
pub fn vertex_normals(positions: &[Vec3], triangles: &[[u32; 3]]) -> Vec<DVec3> {
    let mut normals = vec![DVec3::ZERO; positions.len()];
    for triangle in triangles {
        let [a, b, c] = triangle.map(|v| positions[v as usize].as_dvec3());
        let normal = (b - a).cross(c - a);
        for &v in triangle {
            normals[v as usize] += normal;
        }
    }
    normals
}
