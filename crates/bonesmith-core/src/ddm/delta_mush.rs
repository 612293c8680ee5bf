//! Classic Delta Mush [Mancewicz2014]: pose, smooth, put the details back; all of it again in every frame.
//!
//! The reference that Direct Delta Mush is held against. Smoothing is the same implicit one, but step by step, each
//! solved by biconjugate gradients: nothing is shared with the series in `smooth` but the mesh.

use glam::{DAffine3, DMat3, DVec3, Vec3};
use rayon::prelude::*;

use crate::ddm::params::{DdmError, DdmMaps, DdmParams};
use crate::ddm::precompute::Nodes;
use crate::deform::lbs;
use crate::mesh::vertex_normals;
use crate::model::Rig;
use crate::solve::transform::nearest_rotation;

/// Residual at which a solve ends, relative to the right side.
const TOLERANCE: f64 = 1e-12;
const MAX_ITERATIONS: usize = 2000;

/// How details find their place on the smoothed surface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Frames {
    /// Normal and a tangent of the smoothed surface, as published.
    #[default]
    Tangent,
    /// The rotation that fits a vertex's smoothed surroundings best: what Direct Delta Mush turns into closed form.
    Procrustes,
}

/// A rig ready to be deformed by Delta Mush.
pub struct DeltaMush<'a> {
    rig: &'a Rig,
    frames: Frames,
    nodes: Nodes,
    /// [nodes] smoothed rest places.
    smooth_rest: Vec<DVec3>,
    /// [nodes] edge that the tangent of a vertex follows.
    tangent: Vec<usize>,
}

impl<'a> DeltaMush<'a> {
    /// Prepares a rig. Kappa and alpha are not used; lambda and p are those of Direct Delta Mush.
    pub fn new(rig: &'a Rig, params: &DdmParams, maps: &DdmMaps, frames: Frames) -> Result<Self, DdmError> {
        let nodes = Nodes::new(rig, params, maps)?;
        let tangent = |i: usize| nodes.neighbours.of(i).next().map_or(i, |(k, _)| k);
        let tangent = (0..nodes.places.len()).map(tangent).collect();
        let mut mush = Self { rig, frames, nodes, smooth_rest: Vec::new(), tangent };
        mush.smooth_rest = mush.smooth_points(&mush.nodes.places);
        Ok(mush)
    }

    /// [N] posed vertices for [B] `posed_from_rest` of one frame.
    pub fn pose(&self, pose: &[DAffine3]) -> Vec<Vec3> {
        let posed_origin = pose.first().map_or(self.nodes.origin, |m| m.transform_point3(self.nodes.origin));
        let posed = lbs(&self.rig.rest, &self.rig.weights, pose);
        let posed = self.weld_points(&posed, posed_origin);
        let smooth = self.smooth_points(&posed);
        let rotations = match self.frames {
            Frames::Tangent => self.tangent_rotations(&smooth),
            Frames::Procrustes => self.procrustes_rotations(&posed, &smooth),
        };
        let place = |&node: &u32| {
            let i = node as usize;
            (posed_origin + smooth[i] + rotations[i] * (self.nodes.places[i] - self.smooth_rest[i])).as_vec3()
        };
        self.nodes.weld.node.iter().map(place).collect()
    }

    /// [nodes] mean place of the vertices of each node, relative to `origin`.
    fn weld_points(&self, points: &[Vec3], origin: DVec3) -> Vec<DVec3> {
        let axis = |a: usize| self.nodes.weld.mean(points.iter().map(move |p| f64::from(p[a]) - origin[a]));
        let [x, y, z] = [axis(0), axis(1), axis(2)];
        (0..x.len()).map(|i| DVec3::new(x[i], y[i], z[i])).collect()
    }

    fn smooth_points(&self, points: &[DVec3]) -> Vec<DVec3> {
        let columns: Vec<Vec<f64>> =
            (0..3).into_par_iter().map(|a| self.smooth(points.iter().map(|p| p[a]).collect())).collect();
        (0..points.len()).map(|i| DVec3::new(columns[0][i], columns[1][i], columns[2][i])).collect()
    }

    /// p implicit steps; a vertex with fewer steps keeps what it had after them.
    fn smooth(&self, column: Vec<f64>) -> Vec<f64> {
        let most = self.nodes.steps.iter().copied().max().unwrap_or(0);
        let (mut now, mut result) = (column.clone(), column);
        for step in 1..=most {
            now = self.solve(&now);
            for ((result, now), &steps) in result.iter_mut().zip(&now).zip(&self.nodes.steps) {
                if steps >= step {
                    *result = *now;
                }
            }
        }
        result
    }

    /// `(I + Lambda L) x = b` by BiCGSTAB: the matrix is not symmetric.
    fn solve(&self, b: &[f64]) -> Vec<f64> {
        let multiply = |x: &[f64]| -> Vec<f64> {
            let row = |i: usize| {
                let mut lone = true;
                let mean = self.nodes.neighbours.of(i).fold(0.0, |mean, (k, w)| {
                    lone = false;
                    mean + w * x[k]
                });
                x[i] + if lone { 0.0 } else { self.nodes.lambda[i] * (x[i] - mean) }
            };
            (0..x.len()).map(row).collect()
        };
        let dot = |a: &[f64], b: &[f64]| -> f64 { a.iter().zip(b).map(|(a, b)| a * b).sum() };
        let mut x = b.to_vec();
        let mut r: Vec<f64> = multiply(&x).iter().zip(b).map(|(a, b)| b - a).collect();
        let shadow = r.clone();
        let limit = TOLERANCE * TOLERANCE * dot(b, b);
        let mut p = r.clone();
        let mut rho = dot(&shadow, &r);
        for _ in 0..MAX_ITERATIONS {
            if dot(&r, &r) <= limit || rho == 0.0 {
                break;
            }
            let v = multiply(&p);
            let along = dot(&shadow, &v);
            if along == 0.0 {
                break;
            }
            let alpha = rho / along;
            let s: Vec<f64> = r.iter().zip(&v).map(|(r, v)| r - alpha * v).collect();
            let t = multiply(&s);
            let squared = dot(&t, &t);
            let omega = if squared > 0.0 { dot(&t, &s) / squared } else { 0.0 };
            for i in 0..x.len() {
                x[i] += alpha * p[i] + omega * s[i];
                r[i] = s[i] - omega * t[i];
            }
            if omega == 0.0 {
                break;
            }
            let next = dot(&shadow, &r);
            let beta = next / rho * alpha / omega;
            rho = next;
            for i in 0..p.len() {
                p[i] = r[i] + beta * (p[i] - omega * v[i]);
            }
        }
        x
    }

    fn tangent_rotations(&self, smooth: &[DVec3]) -> Vec<DMat3> {
        let triangles = self.nodes.topology.vertex_triangles();
        let frames = |points: &[DVec3]| -> Vec<DMat3> {
            let floats: Vec<Vec3> = points.iter().map(|p| p.as_vec3()).collect();
            let normals = vertex_normals(&floats, &triangles);
            let frame = |i: usize| {
                let normal = normals[i].try_normalize().unwrap_or(DVec3::Z);
                let edge = points[self.tangent[i]] - points[i];
                let tangent = (edge - normal * normal.dot(edge)).try_normalize();
                let tangent = tangent.unwrap_or_else(|| normal.any_orthonormal_vector());
                DMat3::from_cols(tangent, normal.cross(tangent), normal)
            };
            (0..points.len()).map(frame).collect()
        };
        let posed = frames(smooth);
        frames(&self.smooth_rest).iter().zip(&posed).map(|(rest, posed)| *posed * rest.transpose()).collect()
    }

    /// Polar factors of `sum_k b_ik (x_k - q_i)(u_k - p_i)^T`, nine columns smoothed.
    fn procrustes_rotations(&self, posed: &[DVec3], smooth: &[DVec3]) -> Vec<DMat3> {
        let columns: Vec<Vec<f64>> = (0..9)
            .into_par_iter()
            .map(|at| self.smooth(posed.iter().zip(&self.nodes.places).map(|(x, u)| x[at % 3] * u[at / 3]).collect()))
            .collect();
        let rotation = |i: usize| {
            let entries: [f64; 9] =
                std::array::from_fn(|at| columns[at][i] - smooth[i][at % 3] * self.smooth_rest[i][at / 3]);
            nearest_rotation(&DMat3::from_cols_array(&entries))
        };
        (0..posed.len()).map(rotation).collect()
    }
}
