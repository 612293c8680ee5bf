//! The solvers' view of a sequence: in the unit space, vertex by vertex, in float32.

use std::ops::Range;
use std::sync::Arc;

use glam::{DVec3, Vec3};
use rayon::prelude::*;

use crate::mesh::frames::{FrameList, Frames};
use crate::mesh::sequence::MeshSequence;
use crate::mesh::sphere::Sphere;
use crate::mesh::stored::{TILE, rewritten};
use crate::skinning::loss::Loss;
use crate::skinning::normals::Normals;
use crate::skinning::unit::UnitSpace;

/// Vertices whose trajectories are gathered at once: both sides of the transpose stay in cache. Tables have them in one tile.
const BLOCK: usize = TILE;

/// Positions of some vertices that are read at once.
const MAX_PICKED: usize = 1 << 20;

/// A sequence in the unit space, laid out by vertex.
///
/// `L` is the length of a vertex's trajectory: `3 F`, all x over time, then all y, then all z; or the dimension of a
/// subspace that trajectories were reduced to (affine bones only: rotations need real frames).
#[derive(Clone)]
pub(crate) struct Problem {
    /// L.
    pub length: usize,
    /// [N] rest positions.
    pub rest: Vec<DVec3>,
    /// [N, L] trajectories; none where they are read from `source`.
    pub trajectories: Arc<Vec<f32>>,
    pub space: UnitSpace,
    /// Where trajectories are read from, a few vertices at a time, if they are not stored: all of them are read a few times only, and
    /// a copy would be the largest buffer by far.
    source: Option<Arc<dyn Frames>>,
    /// What an error costs.
    pub loss: Loss,
    /// True normals, where they count.
    pub normals: Option<Normals>,
}

impl Problem {
    /// Trajectories that are known already.
    pub fn stored(length: usize, rest: Vec<DVec3>, trajectories: Vec<f32>, space: UnitSpace) -> Self {
        debug_assert_eq!(trajectories.len(), rest.len() * length);
        let trajectories = Arc::new(trajectories);
        Self { length, rest, trajectories, space, source: None, loss: Loss::default(), normals: None }
    }

    /// A sequence in its own unit space; trajectories are copied.
    pub fn new(sequence: &MeshSequence) -> Self {
        Self::in_space(sequence, UnitSpace::new(sequence))
    }

    /// As [`Problem::new`], in a space that is known.
    pub fn in_space(sequence: &MeshSequence, space: UnitSpace) -> Self {
        Self::of_frames(sequence.rest(), &*sequence.frames(), space)
    }

    /// As [`Problem::in_space`], of any frames.
    pub fn of_frames(rest: &[Vec3], source: &dyn Frames, space: UnitSpace) -> Self {
        let all_vertices: Vec<u32> = (0..source.vertex_count() as u32).collect();
        let all_frames: Vec<u32> = (0..source.frame_count() as u32).collect();
        Self::gather(rest, source, space, &all_vertices, &all_frames)
    }

    /// As [`Problem::new`], trajectories left in the source: only [`Problem::block`] reads them.
    pub fn streamed(sequence: &MeshSequence) -> Self {
        Self::streamed_in(sequence, UnitSpace::new(sequence))
    }

    /// As [`Problem::streamed`], in a space that is known.
    pub fn streamed_in(sequence: &MeshSequence, space: UnitSpace) -> Self {
        let rest = sequence.rest().iter().map(|p| space.point(*p)).collect();
        let source = Some(sequence.frames());
        Self {
            length: 3 * sequence.frame_count(),
            rest,
            trajectories: Arc::default(),
            space,
            source,
            loss: Loss::default(),
            normals: None,
        }
    }

    /// As [`Problem::in_space`]; trajectories are left in the source where that is not in memory.
    pub fn held_in(sequence: &MeshSequence, space: UnitSpace) -> Self {
        if sequence.is_stored() { Self::streamed_in(sequence, space) } else { Self::in_space(sequence, space) }
    }

    /// Some frames of all vertices of a sequence, in the space of this problem; copied, into a table where positions are in one. Without normals.
    pub fn of_all_vertices(&self, sequence: &MeshSequence, frames: &[u32]) -> Self {
        let (source, space) = (sequence.frames(), self.space.pick(frames));
        if !sequence.is_stored() {
            let every: Vec<u32> = (0..self.vertices() as u32).collect();
            return self.subset(sequence, &every, frames);
        }
        let copied = rewritten(&*source, frames, self.vertices(), <[Vec3]>::to_vec);
        Self {
            length: 3 * frames.len(),
            rest: self.rest.clone(),
            trajectories: Arc::default(),
            space,
            source: Some(Arc::new(FrameList(copied))),
            loss: self.loss.clone(),
            normals: None,
        }
    }

    /// Only some vertices and frames of a sequence, in the space of this problem; copied. Without normals.
    pub fn subset(&self, sequence: &MeshSequence, vertices: &[u32], frames: &[u32]) -> Self {
        let loss = self.loss.pick(vertices);
        Self { loss, ..Self::gather(sequence.rest(), &*sequence.frames(), self.space.pick(frames), vertices, frames) }
    }

    /// Some vertices of this problem, in the order given; copied. Without normals.
    pub fn pick(&self, vertices: &[u32]) -> Self {
        let (mut trajectories, mut buffer) = (Vec::with_capacity(vertices.len() * self.length), Vec::new());
        for &i in vertices {
            trajectories.extend_from_slice(self.block(i as usize..i as usize + 1, &mut buffer));
        }
        let rest = vertices.iter().map(|&i| self.rest[i as usize]).collect();
        let loss = self.loss.pick(vertices);
        Self { loss, ..Self::stored(self.length, rest, trajectories, self.space.clone()) }
    }

    /// The same with normals that count.
    pub fn with_normals(&self, normals: Option<Normals>) -> Self {
        Self { normals, ..self.clone() }
    }

    /// The same with another cost of errors.
    pub fn with_loss(&self, loss: Loss) -> Self {
        Self { loss, ..self.clone() }
    }

    fn gather(rest: &[Vec3], source: &dyn Frames, space: UnitSpace, vertices: &[u32], frames: &[u32]) -> Self {
        let length = 3 * frames.len();
        let mut trajectories = vec![0f32; vertices.len() * length];
        // In the order of the source, whatever the order of the rows.
        let rows = trajectories.chunks_exact_mut(length.max(1));
        let mut rows: Vec<(u32, &mut [f32])> = vertices.iter().copied().zip(rows).collect();
        rows.sort_unstable_by_key(|row| row.0);
        rows.par_chunks_mut(BLOCK).for_each(|rows| {
            let block: Vec<u32> = rows.iter().map(|row| row.0).collect();
            let mut add = |t: usize, positions: &[Vec3]| {
                transpose(rows.iter_mut().map(|row| &mut *row.1), &space, t, positions.iter().copied());
            };
            let (first, end) = (block[0] as usize, block[block.len() - 1] as usize + 1);
            match end - first == block.len() {
                true => source.read(frames, first..end, &mut add),
                false => source.pick(frames, &block, &mut add),
            }
        });
        let rest = vertices.iter().map(|&i| space.point(rest[i as usize])).collect();
        Self::stored(length, rest, trajectories, space)
    }

    /// [n, L] trajectories of some vertices, in `buffer` where they are not stored.
    pub fn block<'a>(&'a self, vertices: Range<usize>, buffer: &'a mut Vec<f32>) -> &'a [f32] {
        self.load(vertices.clone(), buffer);
        self.loaded(vertices, buffer)
    }

    /// Reads the trajectories of some vertices into `buffer`, where they are not stored.
    pub fn load(&self, vertices: Range<usize>, buffer: &mut Vec<f32>) {
        let Some(source) = &self.source else { return };
        buffer.resize(vertices.len() * self.length, 0.0);
        let frames: Vec<u32> = (0..self.frames() as u32).collect();
        source.read(&frames, vertices, &mut |t, positions| {
            transpose(buffer.chunks_exact_mut(self.length), &self.space, t, positions.iter().copied());
        });
    }

    /// The trajectories that were loaded last.
    pub fn loaded<'a>(&'a self, vertices: Range<usize>, buffer: &'a [f32]) -> &'a [f32] {
        match self.source {
            Some(_) => &buffer[..vertices.len() * self.length],
            None => &self.trajectories[vertices.start * self.length..vertices.end * self.length],
        }
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
        let (n, f, mut buffer) = (self.vertices(), self.frames(), Vec::new());
        (0..n).step_by(BLOCK).any(|first| {
            let rows = self.block(first..n.min(first + BLOCK), &mut buffer).chunks_exact(self.length);
            self.rest[first..].iter().zip(rows).any(|(u, v)| {
                let position = |t: usize| Vec3::new(v[t], v[f + t], v[2 * f + t]).as_dvec3() + self.space.shift(t);
                (0..f).any(|t| position(t).distance_squared(*u) >= 1e-12)
            })
        })
    }

    /// Calls `visit` with each frame and where some vertices are in it, as in their trajectories.
    pub fn visit_frames(&self, vertices: &[usize], mut visit: impl FnMut(usize, &[Vec3])) {
        let (n, f) = (vertices.len(), self.frames());
        let mut row = vec![Vec3::ZERO; n];
        let Some(source) = &self.source else {
            for t in 0..f {
                for (p, &i) in row.iter_mut().zip(vertices) {
                    let v = self.trajectory(i);
                    *p = Vec3::new(v[t], v[f + t], v[2 * f + t]);
                }
                visit(t, &row);
            }
            return;
        };
        // Sources are read in the order of their vertices.
        let mut order: Vec<usize> = (0..n).collect();
        order.sort_unstable_by_key(|&at| vertices[at]);
        let sorted: Vec<u32> = order.iter().map(|&at| vertices[at] as u32).collect();
        let every: Vec<u32> = (0..f as u32).collect();
        for frames in every.chunks((MAX_PICKED / n.max(1)).max(1)) {
            source.pick(frames, &sorted, &mut |at, positions| {
                let to_unit = to_unit(&self.space, frames[at] as usize);
                order.iter().zip(positions).for_each(|(&to, p)| row[to] = to_unit(*p));
                visit(frames[at] as usize, &row);
            });
        }
    }

    /// Calls `visit` with each frame and where all vertices are in it, as in their trajectories: only for problems that are read from a source; false for others.
    pub fn visit_source(&self, mut visit: impl FnMut(&[Vec3])) -> bool {
        let Some(source) = &self.source else { return false };
        let every: Vec<u32> = (0..self.frames() as u32).collect();
        let mut row = Vec::with_capacity(self.vertices());
        source.read(&every, 0..self.vertices(), &mut |t, positions| {
            let to_unit = to_unit(&self.space, t);
            row.clear();
            row.extend(positions.iter().map(|p| to_unit(*p)));
            visit(&row);
        });
        true
    }

    /// [N] where vertices are in the first frame; trajectories must be stored.
    pub fn first_frame(&self) -> Vec<DVec3> {
        (0..self.vertices()).map(|i| self.position(i, 0)).collect()
    }

    /// Where vertex `i` is in frame `t`; trajectories must be stored.
    pub fn position(&self, i: usize, t: usize) -> DVec3 {
        let (f, v) = (self.frames(), self.trajectory(i));
        DVec3::new(f64::from(v[t]), f64::from(v[f + t]), f64::from(v[2 * f + t]))
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

/// Frame `t` of the trajectories of some vertices, from their positions.
fn transpose<'a>(
    rows: impl Iterator<Item = &'a mut [f32]>,
    space: &UnitSpace,
    t: usize,
    positions: impl Iterator<Item = Vec3>,
) {
    let to_unit = to_unit(space, t);
    for (row, p) in rows.zip(positions) {
        let f = row.len() / 3;
        let p = to_unit(p);
        row[t] = p.x;
        row[f + t] = p.y;
        row[2 * f + t] = p.z;
    }
}

/// Positions of frame `t` in a unit space.
fn to_unit(space: &UnitSpace, t: usize) -> impl Fn(Vec3) -> Vec3 + use<> {
    let Sphere { center, radius } = space.sphere;
    let scale = 1.0 / radius;
    let origin = center * scale + space.shift(t);
    move |p| (p.as_dvec3() * scale - origin).as_vec3()
}
