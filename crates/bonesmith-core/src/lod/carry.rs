//! Weights and poses of one mesh on another of the same shape, such as a decimated one: each vertex of the other mesh hangs on the closest
//! point of the surface.
//!
//! Closest points are looked for in the faces around the [`NEAREST`] vertices that are nearest: exact where no face is much larger than
//! its neighbours. In a pose the point has the same place in its triangle and the same distance from it along the normal.

use glam::{DVec3, Vec3};

use crate::mesh::Topology;
use crate::model::{SparseWeights, add_to, keep_largest, normalise};
use crate::solve::nearest::Points;

/// Vertices whose faces are looked at.
const NEAREST: usize = 8;

/// A point of a surface: three corners, their shares, and the distance along the normal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attachment {
    corners: [u32; 3],
    shares: [f64; 3],
    height: f64,
}

/// The closest point of a surface for each of the points.
pub fn attach(rest: &[Vec3], topology: &Topology, points: &[Vec3]) -> Vec<Attachment> {
    let tree = Points::new(rest.iter().enumerate().map(|(i, p)| (p.as_dvec3(), i as u32)));
    let mut triangles: Vec<Vec<[u32; 3]>> = vec![Vec::new(); rest.len()];
    for face in topology.faces() {
        for c in 1..face.len().saturating_sub(1) {
            let triangle = [face[0], face[c], face[c + 1]];
            triangle.iter().for_each(|&v| triangles[v as usize].push(triangle));
        }
    }
    let mut found = Vec::new();
    let mut attach = |point: &Vec3| {
        let point = point.as_dvec3();
        tree.nearest(point, NEAREST, &mut found);
        let nearest = found.first().map_or(0, |(_, i)| *i);
        let mut best = Attachment { corners: [nearest; 3], shares: [1.0, 0.0, 0.0], height: 0.0 };
        let mut least = f64::INFINITY;
        for &corners in found.iter().flat_map(|(_, i)| &triangles[*i as usize]) {
            let at = corners.map(|v| rest[v as usize].as_dvec3());
            let shares = closest(point, at);
            let off = point - mix(at, shares);
            if off.length_squared() < least {
                least = off.length_squared();
                let normal = (at[1] - at[0]).cross(at[2] - at[0]).try_normalize().unwrap_or(DVec3::ZERO);
                best = Attachment { corners, shares, height: off.dot(normal) };
            }
        }
        best
    };
    points.iter().map(&mut attach).collect()
}

/// Positions of attached points in a pose.
pub fn posed(points: &[Attachment], pose: &[Vec3]) -> Vec<Vec3> {
    let place = |point: &Attachment| {
        let at = point.corners.map(|v| pose[v as usize].as_dvec3());
        let normal = (at[1] - at[0]).cross(at[2] - at[0]).try_normalize().unwrap_or(DVec3::ZERO);
        (mix(at, point.shares) + normal * point.height).as_vec3()
    };
    points.iter().map(place).collect()
}

/// Weights of attached points: those of the corners by their shares, the largest `count` of them.
pub fn carried(weights: &SparseWeights, points: &[Attachment], count: usize) -> SparseWeights {
    let mut carried = SparseWeights::new(points.len(), count);
    for (i, point) in points.iter().enumerate() {
        let mut row = Vec::new();
        for (corner, share) in point.corners.iter().zip(point.shares).filter(|(_, share)| *share > 0.0) {
            weights.of(*corner as usize).for_each(|(j, w)| add_to(&mut row, j, share * f64::from(w)));
        }
        keep_largest(&mut row, count);
        normalise(&mut row);
        carried.set(i, &row);
    }
    carried
}

fn mix(at: [DVec3; 3], shares: [f64; 3]) -> DVec3 {
    at[0] * shares[0] + at[1] * shares[1] + at[2] * shares[2]
}

/// Shares of the corners at the point of a triangle that is closest to `p`: by the regions of its corners, edges and inside.
fn closest(p: DVec3, [a, b, c]: [DVec3; 3]) -> [f64; 3] {
    let (ab, ac, ap) = (b - a, c - a, p - a);
    let (d1, d2) = (ab.dot(ap), ac.dot(ap));
    if d1 <= 0.0 && d2 <= 0.0 {
        return [1.0, 0.0, 0.0];
    }
    let bp = p - b;
    let (d3, d4) = (ab.dot(bp), ac.dot(bp));
    if d3 >= 0.0 && d4 <= d3 {
        return [0.0, 1.0, 0.0];
    }
    let vc = d1 * d4 - d3 * d2;
    if vc <= 0.0 && d1 >= 0.0 && d3 <= 0.0 {
        let v = d1 / (d1 - d3).max(f64::MIN_POSITIVE);
        return [1.0 - v, v, 0.0];
    }
    let cp = p - c;
    let (d5, d6) = (ab.dot(cp), ac.dot(cp));
    if d6 >= 0.0 && d5 <= d6 {
        return [0.0, 0.0, 1.0];
    }
    let vb = d5 * d2 - d1 * d6;
    if vb <= 0.0 && d2 >= 0.0 && d6 <= 0.0 {
        let w = d2 / (d2 - d6).max(f64::MIN_POSITIVE);
        return [1.0 - w, 0.0, w];
    }
    let va = d3 * d6 - d5 * d4;
    if va <= 0.0 && d4 - d3 >= 0.0 && d5 - d6 >= 0.0 {
        let w = (d4 - d3) / ((d4 - d3) + (d5 - d6)).max(f64::MIN_POSITIVE);
        return [0.0, 1.0 - w, w];
    }
    let sum = va + vb + vc;
    if sum == 0.0 { [1.0, 0.0, 0.0] } else { [va / sum, vb / sum, vc / sum] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::{PosedRigParams, posed_rig};

    /// Against the best of many points of the triangle.
    #[test]
    fn closest_points_of_a_triangle() {
        let triangle = [DVec3::ZERO, DVec3::new(2.0, 0.0, 0.0), DVec3::new(0.5, 1.5, 0.3)];
        for k in 0..200 {
            let angle = f64::from(k);
            let p = DVec3::new(1.0 + 3.0 * angle.sin(), 0.5 + 3.0 * (1.7 * angle).cos(), (0.3 * angle).sin());
            let found = mix(triangle, closest(p, triangle)).distance(p);
            let mut best = f64::INFINITY;
            for u in 0..=100 {
                for v in 0..=100 - u {
                    let (u, v) = (f64::from(u) / 100.0, f64::from(v) / 100.0);
                    best = best.min(mix(triangle, [1.0 - u - v, u, v]).distance(p));
                }
            }
            assert!(found <= best + 1e-12 && found > best - 0.05, "{k}: {found} {best}");
        }
    }

    #[test]
    fn the_mesh_itself_carries_its_own_weights_and_poses() {
        let rig = posed_rig(2, &PosedRigParams::default()).rig;
        let points = attach(&rig.rest, &rig.surface.topology, &rig.rest);
        let carried = carried(&rig.weights, &points, rig.weights.max_influences());
        let pose = crate::deform::lbs(&rig.rest, &rig.weights, rig.clips[0].frame(3));
        let posed = posed(&points, &pose);
        for i in 0..rig.vertex_count() {
            assert!(posed[i].distance(pose[i]) < 1e-4, "vertex {i}");
            let own: f32 = rig
                .weights
                .of(i)
                .map(|(j, w)| {
                    let found: f32 = carried.of(i).filter(|(k, _)| *k == j).map(|(_, x)| x).sum();
                    (found - w).abs()
                })
                .sum();
            assert!(own < 1e-3, "vertex {i}: {own}");
        }
    }
}
