//! The fit's view of a sequence: normalised, vertex by vertex, in float32.

use glam::{DVec3, Vec3};
use rayon::prelude::*;

use crate::sequence::MeshSequence;
use crate::sphere::{Sphere, smallest_enclosing_sphere};

/// A sequence in units of its rest pose's smallest enclosing sphere, laid out by vertex.
///
/// `L` is the length of a vertex's trajectory: `3 F`, all x over time, then all y, then all z; or the dimension of a
/// subspace that trajectories were reduced to (affine bones only: rotations need real frames).
pub(crate) struct Problem {
    /// L.
    pub length: usize,
    /// [N] rest positions.
    pub rest: Vec<DVec3>,
    /// [N, L] trajectories.
    pub trajectories: Vec<f32>,
    /// Model units of this problem's unit sphere: `model = center + radius * normalised`.
    pub sphere: Sphere,
}

impl Problem {
    /// Normalises a sequence.
    pub fn new(sequence: &MeshSequence) -> Self {
        let mut sphere = smallest_enclosing_sphere(sequence.rest().iter().map(|p| p.as_dvec3()));
        // All vertices in one point, or so close that float32 cannot tell: keep model units.
        if sphere.radius <= 1e-12 * sphere.center.abs().max_element() || sphere.radius == 0.0 {
            sphere.radius = 1.0;
        }
        let all_vertices: Vec<u32> = (0..sequence.vertex_count() as u32).collect();
        let all_frames: Vec<u32> = (0..sequence.frame_count() as u32).collect();
        Self::gather(sequence, sphere, &all_vertices, &all_frames)
    }

    /// Only some vertices and frames of a sequence, in the unit of an existing problem.
    pub fn subset(&self, sequence: &MeshSequence, vertices: &[u32], frames: &[u32]) -> Self {
        Self::gather(sequence, self.sphere, vertices, frames)
    }

    fn gather(sequence: &MeshSequence, sphere: Sphere, vertices: &[u32], frames: &[u32]) -> Self {
        let (f, length) = (frames.len(), 3 * frames.len());
        let normalise = |p: Vec3| (p.as_dvec3() - sphere.center) / sphere.radius;
        let mut trajectories = vec![0f32; vertices.len() * length];
        // Transposed in blocks of vertices, so that both sides stay in cache.
        const BLOCK: usize = 64;
        trajectories.par_chunks_mut(BLOCK * length).zip(vertices.par_chunks(BLOCK)).for_each(|(rows, block)| {
            for (t, &frame) in frames.iter().enumerate() {
                let positions = sequence.frame(frame as usize);
                for (row, &i) in rows.chunks_exact_mut(length).zip(block) {
                    let p = normalise(positions[i as usize]).as_vec3();
                    row[t] = p.x;
                    row[f + t] = p.y;
                    row[2 * f + t] = p.z;
                }
            }
        });
        let rest = vertices.iter().map(|&i| normalise(sequence.rest()[i as usize])).collect();
        Self { length, rest, trajectories, sphere }
    }

    /// N.
    pub fn vertices(&self) -> usize {
        self.rest.len()
    }

    /// F, where trajectories are not reduced.
    pub fn frames(&self) -> usize {
        self.length / 3
    }

    /// Whether anything leaves the rest pose.
    pub fn moves(&self) -> bool {
        let f = self.frames();
        let still = |i: usize| {
            let (u, v) = (self.rest[i].as_vec3(), self.trajectory(i));
            (0..f).all(|t| Vec3::new(v[t], v[f + t], v[2 * f + t]).distance_squared(u) < 1e-12)
        };
        !(0..self.vertices()).all(still)
    }

    /// [L] trajectory of vertex `i`.
    pub fn trajectory(&self, i: usize) -> &[f32] {
        &self.trajectories[i * self.length..(i + 1) * self.length]
    }

    /// E_RMS of a sum of squared errors over all vertices and frames [Kavan2010 s.5].
    pub fn e_rms(&self, squared_error: f64) -> f64 {
        1000.0 * (squared_error.max(0.0) / (self.vertices() * self.length) as f64).sqrt()
    }

    /// The sum of squared errors that stands for an E_RMS.
    pub fn squared_error(&self, e_rms: f64) -> f64 {
        (e_rms / 1000.0).powi(2) * (self.vertices() * self.length) as f64
    }
}
