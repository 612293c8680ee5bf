//! The fit's view of a sequence: normalised, vertex by vertex, in float32.

use std::ops::Range;
use std::sync::Arc;

use glam::{DVec3, Vec3};
use rayon::prelude::*;

use crate::mesh::sequence::MeshSequence;
use crate::mesh::sphere::{Sphere, smallest_enclosing_sphere};

/// A sequence in units of its rest pose's smallest enclosing sphere, laid out by vertex.
///
/// `L` is the length of a vertex's trajectory: `3 F`, all x over time, then all y, then all z; or the dimension of a
/// subspace that trajectories were reduced to (affine bones only: rotations need real frames).
pub(crate) struct Problem {
    /// L.
    pub length: usize,
    /// [N] rest positions.
    pub rest: Vec<DVec3>,
    /// [N, L] trajectories; none where they are read from `frames`.
    pub trajectories: Vec<f32>,
    /// Model units of this problem's unit sphere: `model = center + radius * normalised`.
    pub sphere: Sphere,
    /// [F] positions in model units that trajectories are read from, a few vertices at a time, where they are not
    /// stored: the whole sequence is passed over a few times only, a copy of it would be the most memory by far.
    frames: Vec<Arc<Vec<Vec3>>>,
    /// [F] what was taken off all positions of a frame: how far the whole model has gone. A walk of a hundred sizes
    /// would otherwise leave float32 few digits for the rest. None: nothing was.
    shifts: Vec<DVec3>,
}

impl Problem {
    /// Trajectories in hand.
    pub fn stored(length: usize, rest: Vec<DVec3>, trajectories: Vec<f32>, sphere: Sphere) -> Self {
        debug_assert_eq!(trajectories.len(), rest.len() * length);
        Self { length, rest, trajectories, sphere, frames: Vec::new(), shifts: Vec::new() }
    }

    /// Normalises a sequence.
    pub fn new(sequence: &MeshSequence) -> Self {
        let all_vertices: Vec<u32> = (0..sequence.vertex_count() as u32).collect();
        let all_frames: Vec<u32> = (0..sequence.frame_count() as u32).collect();
        Self::gather(sequence, unit_sphere(sequence), &[], &all_vertices, &all_frames)
    }

    /// As [`Problem::new`], each frame moved back to the rest pose's centre ([`Problem::shift`]), and trajectories
    /// left where they are: only [`Problem::block`] reads them.
    pub fn streamed(sequence: &MeshSequence) -> Self {
        let sphere = unit_sphere(sequence);
        let rest: Vec<DVec3> = sequence.rest().iter().map(|p| normalise(sphere, *p)).collect();
        let center = rest.iter().sum::<DVec3>() / rest.len() as f64;
        let frames = sequence.shared_frames();
        let shift = |frame: &Arc<Vec<Vec3>>| {
            let sum: DVec3 = frame.iter().map(|p| normalise(sphere, *p)).sum();
            sum / frame.len() as f64 - center
        };
        let shifts = frames.par_iter().map(shift).collect();
        Self { length: 3 * frames.len(), rest, trajectories: Vec::new(), sphere, frames, shifts }
    }

    /// As [`Problem::streamed`], trajectories stored.
    pub fn centered(sequence: &MeshSequence) -> Self {
        let streamed = Self::streamed(sequence);
        let all_vertices: Vec<u32> = (0..sequence.vertex_count() as u32).collect();
        let all_frames: Vec<u32> = (0..sequence.frame_count() as u32).collect();
        streamed.subset(sequence, &all_vertices, &all_frames)
    }

    /// How far the whole model has gone in frame `t`: not part of the trajectories, to be added to every bone.
    pub fn shift(&self, t: usize) -> DVec3 {
        self.shifts.get(t).copied().unwrap_or_default()
    }

    /// Only some vertices and frames of a sequence, in the unit of an existing problem.
    pub fn subset(&self, sequence: &MeshSequence, vertices: &[u32], frames: &[u32]) -> Self {
        Self::gather(sequence, self.sphere, &self.shifts, vertices, frames)
    }

    fn gather(sequence: &MeshSequence, sphere: Sphere, shifts: &[DVec3], vertices: &[u32], frames: &[u32]) -> Self {
        let shifts: Vec<DVec3> =
            if shifts.is_empty() { Vec::new() } else { frames.iter().map(|&t| shifts[t as usize]).collect() };
        let length = 3 * frames.len();
        let mut trajectories = vec![0f32; vertices.len() * length];
        // In blocks of vertices, so that both sides stay in cache.
        const BLOCK: usize = 64;
        trajectories.par_chunks_mut(BLOCK * length).zip(vertices.par_chunks(BLOCK)).for_each(|(rows, block)| {
            let positions = frames.iter().map(|&t| sequence.frame(t as usize));
            transpose(rows, length, (sphere, &shifts), positions, block.iter().map(|&i| i as usize));
        });
        let rest = vertices.iter().map(|&i| normalise(sphere, sequence.rest()[i as usize])).collect();
        Self { shifts, ..Self::stored(length, rest, trajectories, sphere) }
    }

    /// [n, L] trajectories of some vertices, in `buffer` where they are not stored.
    pub fn block<'a>(&'a self, vertices: Range<usize>, buffer: &'a mut Vec<f32>) -> &'a [f32] {
        if self.frames.is_empty() {
            return &self.trajectories[vertices.start * self.length..vertices.end * self.length];
        }
        buffer.resize(vertices.len() * self.length, 0.0);
        let frames = self.frames.iter().map(|frame| frame.as_slice());
        transpose(buffer, self.length, (self.sphere, &self.shifts), frames, vertices);
        buffer
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
        let (f, mut buffer) = (self.frames(), Vec::new());
        (0..self.vertices()).any(|i| {
            let (u, v) = (self.rest[i], self.block(i..i + 1, &mut buffer));
            let position = |t: usize| Vec3::new(v[t], v[f + t], v[2 * f + t]).as_dvec3() + self.shift(t);
            (0..f).any(|t| position(t).distance_squared(u) >= 1e-12)
        })
    }

    /// [N] where vertices are in the first frame; trajectories must be stored.
    pub fn first_frame(&self) -> Vec<DVec3> {
        let f = self.frames();
        let position = |v: &[f32]| DVec3::new(f64::from(v[0]), f64::from(v[f]), f64::from(v[2 * f]));
        self.trajectories.chunks_exact(self.length).map(position).collect()
    }

    /// [L] trajectory of vertex `i`, which must be stored.
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

/// The rest pose's smallest enclosing sphere.
fn unit_sphere(sequence: &MeshSequence) -> Sphere {
    let mut sphere = smallest_enclosing_sphere(sequence.rest().iter().map(|p| p.as_dvec3()));
    // All vertices in one point, or so close that float32 cannot tell: keep model units.
    if sphere.radius <= 1e-12 * sphere.center.abs().max_element() || sphere.radius == 0.0 {
        sphere.radius = 1.0;
    }
    sphere
}

/// In units of the sphere.
pub(super) fn normalise(sphere: Sphere, p: Vec3) -> DVec3 {
    (p.as_dvec3() - sphere.center) / sphere.radius
}

/// Trajectories of some vertices, rows of `length`, from positions frame by frame.
fn transpose<'a>(
    rows: &mut [f32],
    length: usize,
    (sphere, shifts): (Sphere, &[DVec3]),
    frames: impl Iterator<Item = &'a [Vec3]>,
    vertices: impl Iterator<Item = usize> + Clone,
) {
    let (f, scale) = (length / 3, 1.0 / sphere.radius);
    for (t, positions) in frames.enumerate() {
        let origin = sphere.center * scale + shifts.get(t).copied().unwrap_or_default();
        for (row, i) in rows.chunks_exact_mut(length).zip(vertices.clone()) {
            let p = (positions[i].as_dvec3() * scale - origin).as_vec3();
            row[t] = p.x;
            row[f + t] = p.y;
            row[2 * f + t] = p.z;
        }
    }
}
