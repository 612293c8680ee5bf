//! Positions and other numbers that are not held in memory: tables that are written frame by frame and read in blocks.
//!
//! Core has no files. A [`Scratch`] makes tables; that of `bonesmith-io` keeps them in files that have no name. A sequence whose frames are in
//! a table reads the same numbers as one in memory, so results are the same to the bit. What is read is bounded: a call of
//! [`Frames::read`] holds about 16 MB or one frame, whatever it is asked for.
//!
//! Tables are laid out in tiles of [`TILE`] points: a pass over vertices reads a tile over all frames in few pieces.

use std::ops::Range;
use std::sync::Arc;

use glam::{DAffine3, Vec3};

use crate::mesh::frames::{FramePositions, Frames};

/// Points that lie side by side in a table.
pub const TILE: usize = 64;

/// Positions that are read at once, unless a frame has more.
const MAX_READ: usize = 1 << 20;

/// Where tables are made.
pub trait Scratch: Send + Sync {
    /// A table of `frames` rows of `points` cells, each of `words` words.
    fn table(&self, points: usize, frames: usize, words: usize) -> Box<dyn TableWriter>;
}

/// A table that is being written.
pub trait TableWriter: Send {
    /// Appends the cells [points, words] of the next frame.
    fn push(&mut self, cells: &[u32]);

    /// The table of what was written.
    fn finish(self: Box<Self>) -> Arc<dyn Table>;
}

/// Cells by frame and point. An error of the device is not reported here: the table fills with zeros, and its maker reports it.
pub trait Table: Send + Sync {
    /// Replaces `cells` by [frames, points, words].
    fn read(&self, frames: Range<usize>, points: Range<usize>, cells: &mut Vec<u32>);
}

/// Positions in a table.
pub struct StoredFrames {
    table: Arc<dyn Table>,
    scratch: Arc<dyn Scratch>,
    frames: usize,
    vertices: usize,
}

impl StoredFrames {
    /// Of a table with three words for each position: the bits of x, y and z.
    pub fn new(table: Arc<dyn Table>, scratch: Arc<dyn Scratch>, frames: usize, vertices: usize) -> Self {
        Self { table, scratch, frames, vertices }
    }
}

fn position(cell: &[u32; 3]) -> Vec3 {
    Vec3::from_array(cell.map(f32::from_bits))
}

impl Frames for StoredFrames {
    fn frame_count(&self) -> usize {
        self.frames
    }

    fn vertex_count(&self) -> usize {
        self.vertices
    }

    fn read(&self, frames: &[u32], vertices: Range<usize>, visit: &mut dyn FnMut(usize, &[Vec3])) {
        let n = vertices.len();
        let most = (MAX_READ / n.max(1)).max(1);
        let (mut cells, mut positions, mut at) = (Vec::new(), Vec::with_capacity(n), 0);
        while at < frames.len() {
            // Frames that follow each other closely are read in one piece.
            let first = frames[at] as usize;
            let follows = |k: &usize| frames[*k] > frames[*k - 1] && (frames[*k] as usize) < first + most;
            let end = at + 1 + (at + 1..frames.len()).take_while(follows).count();
            self.table.read(first..frames[end - 1] as usize + 1, vertices.clone(), &mut cells);
            for (k, &t) in frames[at..end].iter().enumerate() {
                let row = (t as usize - first) * 3 * n;
                positions.clear();
                positions.extend(cells[row..row + 3 * n].as_chunks::<3>().0.iter().map(position));
                visit(at + k, &positions);
            }
            at = end;
        }
    }

    fn pick(&self, frames: &[u32], vertices: &[u32], visit: &mut dyn FnMut(usize, &[Vec3])) {
        let (Some(&low), Some(&high)) = (frames.iter().min(), frames.iter().max()) else { return };
        let (n, mut cells, mut first) = (vertices.len(), Vec::new(), 0);
        let mut positions = vec![Vec3::ZERO; frames.len() * n];
        for run in vertices.chunk_by(|a, b| *a as usize / TILE == *b as usize / TILE) {
            let (start, end) = (run[0] as usize, run[run.len() - 1] as usize + 1);
            self.table.read(low as usize..high as usize + 1, start..end, &mut cells);
            let cells = cells.as_chunks::<3>().0;
            for (row, &t) in positions.chunks_exact_mut(n).zip(frames) {
                let cells = &cells[(t - low) as usize * (end - start)..];
                for (to, &i) in row[first..].iter_mut().zip(run) {
                    *to = position(&cells[i as usize - start]);
                }
            }
            first += run.len();
        }
        positions.chunks_exact(n.max(1)).enumerate().for_each(|(at, row)| visit(at, row));
    }

    fn scratch(&self) -> Option<Arc<dyn Scratch>> {
        Some(self.scratch.clone())
    }

    fn frames_at_once(&self) -> usize {
        (MAX_READ / self.vertices.max(1)).clamp(4, 64)
    }
}

/// Frames of another source, each moved.
pub(crate) struct Placed {
    pub source: Arc<dyn Frames>,
    /// [F] number of the frame in the source, and how it is moved.
    pub frames: Vec<(u32, DAffine3)>,
}

/// A position, moved.
pub(crate) fn placed(p: &Vec3, target_from_source: &DAffine3) -> Vec3 {
    target_from_source.transform_point3(p.as_dvec3()).as_vec3()
}

impl Placed {
    fn place<'a>(
        &'a self,
        frames: &'a [u32],
        visit: &'a mut dyn FnMut(usize, &[Vec3]),
    ) -> impl FnMut(usize, &[Vec3]) + 'a {
        let mut moved = Vec::new();
        move |at, positions| {
            let (_, target_from_source) = &self.frames[frames[at] as usize];
            moved.clear();
            moved.extend(positions.iter().map(|p| placed(p, target_from_source)));
            visit(at, &moved);
        }
    }

    fn of_source(&self, frames: &[u32]) -> Vec<u32> {
        frames.iter().map(|&t| self.frames[t as usize].0).collect()
    }
}

impl Frames for Placed {
    fn frame_count(&self) -> usize {
        self.frames.len()
    }

    fn vertex_count(&self) -> usize {
        self.source.vertex_count()
    }

    fn read(&self, frames: &[u32], vertices: Range<usize>, visit: &mut dyn FnMut(usize, &[Vec3])) {
        self.source.read(&self.of_source(frames), vertices, &mut self.place(frames, visit));
    }

    fn pick(&self, frames: &[u32], vertices: &[u32], visit: &mut dyn FnMut(usize, &[Vec3])) {
        self.source.pick(&self.of_source(frames), vertices, &mut self.place(frames, visit));
    }

    fn scratch(&self) -> Option<Arc<dyn Scratch>> {
        self.source.scratch()
    }

    fn frames_at_once(&self) -> usize {
        self.source.frames_at_once()
    }
}

/// Some vertices of another source.
pub(crate) struct Picked {
    pub source: Arc<dyn Frames>,
    /// Ascending.
    pub vertices: Vec<u32>,
}

impl Frames for Picked {
    fn frame_count(&self) -> usize {
        self.source.frame_count()
    }

    fn vertex_count(&self) -> usize {
        self.vertices.len()
    }

    fn read(&self, frames: &[u32], vertices: Range<usize>, visit: &mut dyn FnMut(usize, &[Vec3])) {
        let most = (MAX_READ / vertices.len().max(1)).max(1);
        for (at, block) in frames.chunks(most).enumerate() {
            self.source.pick(block, &self.vertices[vertices.clone()], &mut |k, row| visit(at * most + k, row));
        }
    }

    fn pick(&self, frames: &[u32], vertices: &[u32], visit: &mut dyn FnMut(usize, &[Vec3])) {
        let vertices: Vec<u32> = vertices.iter().map(|&i| self.vertices[i as usize]).collect();
        self.source.pick(frames, &vertices, visit);
    }

    fn scratch(&self) -> Option<Arc<dyn Scratch>> {
        self.source.scratch()
    }

    fn frames_at_once(&self) -> usize {
        self.source.frames_at_once()
    }
}

/// Some frames of a source, changed: in a table of their own where the source has its positions in tables, else in memory.
pub(crate) fn rewritten(
    source: &dyn Frames,
    frames: &[u32],
    vertices: usize,
    change: impl Fn(&[Vec3]) -> Vec<Vec3>,
) -> Vec<FramePositions> {
    let every = 0..source.vertex_count();
    let Some(scratch) = source.scratch() else {
        let mut changed = Vec::with_capacity(frames.len());
        source.read(frames, every, &mut |_, positions| changed.push(change(positions).into()));
        return changed;
    };
    let mut writer = scratch.table(vertices, frames.len(), 3);
    source.read(frames, every, &mut |_, positions| {
        let cells: Vec<u32> = change(positions).iter().flat_map(|p| p.to_array().map(f32::to_bits)).collect();
        writer.push(&cells);
    });
    let source: Arc<dyn Frames> = Arc::new(StoredFrames::new(writer.finish(), scratch, frames.len(), vertices));
    (0..frames.len() as u32).map(|frame| FramePositions::Stored { source: source.clone(), frame }).collect()
}
