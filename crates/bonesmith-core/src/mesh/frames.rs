//! A source of positions: the one way in which algorithms reach the frames of an animation.
//!
//! Algorithms read blocks of frames and vertices, so that a source on disk can replace one in memory. A loop over vertices
//! that reads one frame after another would read everything once per vertex.

use std::ops::Range;
use std::sync::Arc;

use glam::Vec3;

/// Positions of N vertices in F frames.
pub trait Frames: Send + Sync {
    /// F.
    fn frame_count(&self) -> usize;

    /// N.
    fn vertex_count(&self) -> usize;

    /// Calls `visit` with the number in `frames` and the positions of `vertices`, for one frame after another.
    fn read(&self, frames: &[u32], vertices: Range<usize>, visit: &mut dyn FnMut(usize, &[Vec3]));
}

/// Frames in memory; copies share them.
#[derive(Clone, Debug, Default)]
pub struct FramesInMemory(pub Vec<Arc<Vec<Vec3>>>);

impl Frames for FramesInMemory {
    fn frame_count(&self) -> usize {
        self.0.len()
    }

    fn vertex_count(&self) -> usize {
        self.0.first().map_or(0, |frame| frame.len())
    }

    fn read(&self, frames: &[u32], vertices: Range<usize>, visit: &mut dyn FnMut(usize, &[Vec3])) {
        for (at, &t) in frames.iter().enumerate() {
            visit(at, &self.0[t as usize][vertices.clone()]);
        }
    }
}
