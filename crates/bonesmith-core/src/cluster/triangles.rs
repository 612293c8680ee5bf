//! Triangles and their deformation gradients [Kavan2010 s.4.1, as in Sumner2004].

use glam::{DMat3, DVec3};

use crate::mesh::topology::Topology;
use crate::skinning::problem::Problem;

/// Least height of a triangle over its longest side: thinner ones have no gradient.
const MIN_HEIGHT: f64 = 1e-2;

/// The triangles of the rest pose that have a gradient.
pub(crate) fn sound(rest: &[DVec3], topology: &Topology) -> Vec<[usize; 3]> {
    let triangles = topology.vertex_triangles().into_iter().map(|triangle| triangle.map(|i| i as usize));
    triangles.filter(|triangle| height(triangle.map(|i| rest[i])) > MIN_HEIGHT).collect()
}

/// Height over longest side; 0 where a triangle has no extent.
fn height([a, b, c]: [DVec3; 3]) -> f64 {
    let longest = a.distance_squared(b).max(b.distance_squared(c)).max(c.distance_squared(a));
    if longest > 0.0 { (b - a).cross(c - a).length() / longest } else { 0.0 }
}

/// The deformation gradient of a sound triangle in each frame: what takes its rest pose there, without the translation.
pub(crate) fn gradient(problem: &Problem, triangle: [usize; 3]) -> impl Fn(usize) -> DMat3 + '_ {
    let from_rest = frame(triangle.map(|i| problem.rest[i])).inverse();
    move |t| frame(triangle.map(|i| problem.position(i, t))) * from_rest
}

/// Edges and scaled normal: what a deformation gradient maps.
fn frame([a, b, c]: [DVec3; 3]) -> DMat3 {
    let cross = (b - a).cross(c - a);
    let length = cross.length();
    let normal = if length > 0.0 { cross / length.sqrt() } else { DVec3::ZERO };
    DMat3::from_cols(b - a, c - a, normal)
}
