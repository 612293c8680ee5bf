//! Vertices in the rest pose and in all frames, in float64, and bones that move some of them rigidly.

use glam::{DAffine3, DMat3, DVec3};
use rayon::prelude::*;

use crate::cluster::exact::Path;
use crate::mesh::sequence::MeshSequence;
use crate::mesh::topology::Adjacency;
use crate::skinning::unit::UnitSpace;
use crate::solve::transform::nearest_rotation;

/// The share of patches that count as the most rigid ones, from which the rounding of the input is read.
const MOST_RIGID: f64 = 0.01;

/// Rounds of growing a rigid part.
const GROWTH: usize = 8;

/// Some vertices in some frames.
pub(crate) struct Points {
    /// [N]
    pub rest: Vec<DVec3>,
    frames: usize,
    /// [N, F]
    posed: Vec<DVec3>,
    near: Adjacency,
    /// Least RMS rounding per coordinate: that of float32 numbers of the input's size.
    least: f64,
}

impl Points {
    /// `vertices` of a sequence in `frames`, in a unit space; `near` are their neighbours.
    pub fn new(sequence: &MeshSequence, space: &UnitSpace, vertices: &[u32], frames: &[u32], near: Adjacency) -> Self {
        let (n, f) = (vertices.len(), frames.len());
        let rest = vertices.iter().map(|&i| space.point(sequence.rest()[i as usize])).collect();
        let (mut posed, mut largest) = (vec![DVec3::ZERO; n * f], 0f32);
        let mut order: Vec<usize> = (0..n).collect();
        order.sort_unstable_by_key(|&i| vertices[i]);
        let ascending: Vec<u32> = order.iter().map(|&i| vertices[i]).collect();
        sequence.frames().pick(frames, &ascending, &mut |at, positions| {
            let shift = space.shift(frames[at] as usize);
            for (&i, p) in order.iter().zip(positions) {
                posed[i * f + at] = space.point(*p) - shift;
                largest = largest.max(p.abs().max_element());
            }
        });
        // Half a unit in the last place at most, uniform.
        let least = f64::from(largest * f32::EPSILON) / space.sphere.radius / 48f64.sqrt();
        Self { rest, frames: f, posed, near, least: least.max(1e-9) }
    }

    /// N.
    pub fn len(&self) -> usize {
        self.rest.len()
    }

    /// F.
    pub fn frames(&self) -> usize {
        self.frames
    }

    /// Neighbours.
    pub fn near(&self) -> &Adjacency {
        &self.near
    }

    /// [F] of a vertex.
    pub fn posed(&self, i: usize) -> &[DVec3] {
        &self.posed[i * self.frames..(i + 1) * self.frames]
    }

    /// The `count` vertices nearest to one along edges, itself first, of those that `counts` holds for.
    pub fn around(&self, centre: usize, count: usize, counts: impl Fn(usize) -> bool) -> Vec<usize> {
        let mut found = vec![centre];
        let mut at = 0;
        while at < found.len() && found.len() < count {
            for &k in self.near.of(found[at]) {
                let k = k as usize;
                if !found.contains(&k) && counts(k) {
                    found.push(k);
                }
            }
            at += 1;
        }
        found.truncate(count);
        found
    }

    /// The vertex nearest to one along edges of those that `counts` holds for.
    pub fn nearest(&self, from: usize, counts: impl Fn(usize) -> bool) -> Option<usize> {
        let (mut found, mut seen) = (vec![from], vec![false; self.len()]);
        seen[from] = true;
        let mut at = 0;
        while at < found.len() {
            if counts(found[at]) {
                return Some(found[at]);
            }
            for &k in self.near.of(found[at]) {
                if !std::mem::replace(&mut seen[k as usize], true) {
                    found.push(k as usize);
                }
            }
            at += 1;
        }
        None
    }

    /// The best rigid motion of some vertices.
    pub fn rigid(&self, members: &[usize]) -> Path {
        let n = members.len() as f64;
        let centre = members.iter().map(|&i| self.rest[i]).sum::<DVec3>() / n;
        let of_frame = |t: usize| {
            let mean = members.iter().map(|&i| self.posed(i)[t]).sum::<DVec3>() / n;
            let outer = |i: usize| {
                let (p, u) = (self.posed(i)[t] - mean, self.rest[i] - centre);
                DMat3::from_cols(p * u.x, p * u.y, p * u.z)
            };
            let cross = members.iter().map(|&i| outer(i)).fold(DMat3::ZERO, |sum, m| sum + m);
            let rotation = nearest_rotation(&cross);
            DAffine3::from_mat3_translation(rotation, mean - rotation * centre)
        };
        (0..self.frames).map(of_frame).collect()
    }

    /// Mean squared error per coordinate of a vertex on one bone.
    pub fn error(&self, path: &[DAffine3], i: usize) -> f64 {
        let squared = |(m, p): (&DAffine3, &DVec3)| (m.transform_point3(self.rest[i]) - *p).length_squared();
        path.iter().zip(self.posed(i)).map(squared).sum::<f64>() / (3 * self.frames) as f64
    }

    /// RMS distance per coordinate between where two bones move some vertices.
    pub fn distance(&self, a: &[DAffine3], b: &[DAffine3], members: &[usize]) -> f64 {
        let squared = |u: DVec3| {
            let gap = |(a, b): (&DAffine3, &DAffine3)| (a.transform_point3(u) - b.transform_point3(u)).length_squared();
            a.iter().zip(b).map(gap).sum::<f64>()
        };
        let sum: f64 = members.iter().map(|&i| squared(self.rest[i])).sum();
        (sum / (3 * self.frames * members.len()) as f64).sqrt()
    }

    /// [N] RMS error per degree of freedom of the best rigid motion of each vertex and its neighbours, `patch` vertices in all; infinite
    /// where a connected part has fewer.
    pub fn rigid_errors(&self, patch: usize) -> Vec<f64> {
        let error = |i: usize| {
            let members = self.around(i, patch, |_| true);
            if members.len() < patch {
                return f64::INFINITY;
            }
            let path = self.rigid(&members);
            let sum: f64 = members.iter().map(|&k| self.error(&path, k)).sum();
            (sum * 3.0 / (3 * patch - 6) as f64).sqrt()
        };
        (0..self.len()).into_par_iter().map(error).collect()
    }

    /// RMS rounding per coordinate: that of the most rigid patches.
    pub fn rounding(&self, rigid_errors: &[f64]) -> f64 {
        let mut sorted = rigid_errors.to_vec();
        let at = ((MOST_RIGID * sorted.len() as f64) as usize).min(sorted.len() - 1);
        sorted.select_nth_unstable_by(at, f64::total_cmp).1.max(self.least)
    }

    /// The bone of some vertices, and all vertices that it moves within an RMS error of `limit`.
    pub fn grown(&self, patch: &[usize], limit: f64) -> (Path, Vec<usize>) {
        let mut members = patch.to_vec();
        let mut path = self.rigid(&members);
        for _ in 0..GROWTH {
            let is_own = |&i: &usize| self.error(&path, i) < limit * limit;
            let found: Vec<usize> = (0..self.len()).into_par_iter().filter(is_own).collect();
            if found.len() <= members.len() {
                break;
            }
            members = found;
            path = self.rigid(&members);
        }
        (path, members)
    }
}
