//! A source of positions: the one way in which algorithms reach the frames of an animation.
//!
//! Algorithms read blocks of frames and vertices, so that a source on disk can replace one in memory. A loop over vertices
//! that reads one frame after another would read everything once per vertex.

use std::ops::{Deref, Range};
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

/// A buffer of positions that something else owns, such as an array of another language.
pub type SharedPositions = Arc<dyn AsRef<[Vec3]> + Send + Sync>;

/// [N] positions of one frame: owned, or read in place from a shared buffer. Copies share them.
#[derive(Clone)]
pub enum FramePositions {
    /// Its own memory.
    Owned(Arc<Vec<Vec3>>),
    /// A part of a buffer.
    Shared {
        /// All frames.
        buffer: SharedPositions,
        /// The positions of this one.
        range: Range<usize>,
    },
}

impl From<Vec<Vec3>> for FramePositions {
    fn from(positions: Vec<Vec3>) -> Self {
        Self::Owned(Arc::new(positions))
    }
}

impl Deref for FramePositions {
    type Target = [Vec3];

    fn deref(&self) -> &[Vec3] {
        match self {
            Self::Owned(positions) => positions,
            Self::Shared { buffer, range } => &(**buffer).as_ref()[range.clone()],
        }
    }
}

impl std::fmt::Debug for FramePositions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl FramePositions {
    /// The positions, to be changed; copied first where they are shared.
    pub(crate) fn make_mut(&mut self) -> &mut Vec<Vec3> {
        if let Self::Shared { .. } = self {
            *self = self.to_vec().into();
        }
        match self {
            Self::Owned(positions) => Arc::make_mut(positions),
            Self::Shared { .. } => unreachable!("it was copied above"),
        }
    }
}

/// Frames in memory; copies share them.
#[derive(Clone, Debug, Default)]
pub struct FramesInMemory(pub Vec<FramePositions>);

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
