//! A source of positions: the one way in which algorithms reach the frames of an animation.
//!
//! Algorithms read blocks of frames and vertices, so that a source on disk (`stored`) replaces one in memory. A loop over vertices
//! that reads one frame after another would read everything once per vertex. Two orders are cheap: some vertices over all frames
//! ([`Frames::read`], [`Frames::pick`]), and all vertices of some frames ([`by_frame`]).

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use glam::{DAffine3, Vec3};
use rayon::prelude::*;

use crate::mesh::stored::{Picked, Placed, Scratch, placed};

/// Positions of N vertices in F frames.
pub trait Frames: Send + Sync {
    /// F.
    fn frame_count(&self) -> usize;

    /// N.
    fn vertex_count(&self) -> usize;

    /// Calls `visit` with the number in `frames` and the positions of `vertices`, for one frame after another.
    fn read(&self, frames: &[u32], vertices: Range<usize>, visit: &mut dyn FnMut(usize, &[Vec3]));

    /// As [`Frames::read`], of single vertices, ascending.
    fn pick(&self, frames: &[u32], vertices: &[u32], visit: &mut dyn FnMut(usize, &[Vec3])) {
        let (Some(&first), Some(&last)) = (vertices.first(), vertices.last()) else { return };
        let mut picked = Vec::with_capacity(vertices.len());
        self.read(frames, first as usize..last as usize + 1, &mut |at, positions| {
            picked.clear();
            picked.extend(vertices.iter().map(|&i| positions[(i - first) as usize]));
            visit(at, &picked);
        });
    }

    /// Where other numbers of all vertices and frames belong; `None` where positions are in memory.
    fn scratch(&self) -> Option<Arc<dyn Scratch>> {
        None
    }

    /// Whole frames that are best read in one call.
    fn frames_at_once(&self) -> usize {
        1
    }
}

/// What `find` makes of the positions of each of some frames, in parallel.
pub(crate) fn by_frame<R: Send>(
    source: &dyn Frames,
    frames: Range<usize>,
    find: impl Fn(usize, &[Vec3]) -> R + Sync,
) -> Vec<R> {
    let frames: Vec<u32> = frames.map(|t| t as u32).collect();
    let of_block = |block: &[u32]| {
        let mut found = Vec::with_capacity(block.len());
        source.read(block, 0..source.vertex_count(), &mut |at, positions| {
            found.push(find(block[at] as usize, positions));
        });
        found
    };
    frames.par_chunks(source.frames_at_once()).flat_map_iter(of_block).collect()
}

/// A buffer of positions that something else owns, such as an array of another language.
pub type SharedPositions = Arc<dyn AsRef<[Vec3]> + Send + Sync>;

/// [N] positions of one frame: owned, read in place from a shared buffer, or stored elsewhere. Copies share them.
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
    /// Not in memory.
    Stored {
        /// All frames of a source.
        source: Arc<dyn Frames>,
        /// The number of this one.
        frame: u32,
    },
}

impl From<Vec<Vec3>> for FramePositions {
    fn from(positions: Vec<Vec3>) -> Self {
        Self::Owned(Arc::new(positions))
    }
}

impl std::fmt::Debug for FramePositions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Stored { frame, .. } => write!(f, "stored frame {frame}"),
            _ => f.debug_list().entries(self.positions().iter()).finish(),
        }
    }
}

impl FramePositions {
    /// N.
    pub fn count(&self) -> usize {
        match self {
            Self::Owned(positions) => positions.len(),
            Self::Shared { range, .. } => range.len(),
            Self::Stored { source, .. } => source.vertex_count(),
        }
    }

    /// The positions, where they are in memory.
    fn in_memory(&self) -> Option<&[Vec3]> {
        match self {
            Self::Owned(positions) => Some(positions),
            Self::Shared { buffer, range } => Some(&(**buffer).as_ref()[range.clone()]),
            Self::Stored { .. } => None,
        }
    }

    /// The positions, read into memory where they are not.
    pub fn positions(&self) -> Cow<'_, [Vec3]> {
        self.of(0..self.count())
    }

    /// The positions of some vertices; no others are read.
    pub fn of(&self, vertices: Range<usize>) -> Cow<'_, [Vec3]> {
        match self {
            Self::Stored { source, frame } => {
                let mut positions = Vec::with_capacity(vertices.len());
                source.read(&[*frame], vertices, &mut |_, own| positions.extend_from_slice(own));
                Cow::Owned(positions)
            }
            here => Cow::Borrowed(&here.in_memory().unwrap_or_default()[vertices]),
        }
    }

    /// The positions as a buffer of its own.
    pub fn to_vec(&self) -> Vec<Vec3> {
        self.positions().into_owned()
    }
}

/// Frames wherever they are, one after the other; copies share them.
#[derive(Clone, Debug, Default)]
pub struct FrameList(pub Vec<FramePositions>);

impl FrameList {
    /// Calls `visit` for each run of frames that one source has, with where it begins in `frames`, and `here` for frames in memory.
    fn runs<'a>(
        &'a self,
        frames: &[u32],
        mut here: impl FnMut(usize, &'a [Vec3]),
        mut stored: impl FnMut(usize, &'a Arc<dyn Frames>, &[u32]),
    ) {
        let mut run: (usize, Option<&Arc<dyn Frames>>, Vec<u32>) = (0, None, Vec::new());
        for (at, &t) in frames.iter().enumerate() {
            let entry = &self.0[t as usize];
            let source =
                if let FramePositions::Stored { source, frame } = entry { Some((source, *frame)) } else { None };
            if let (Some(last), Some((source, frame))) = (run.1, source)
                && Arc::ptr_eq(last, source)
            {
                run.2.push(frame);
                continue;
            }
            if let (first, Some(last), numbers) = std::mem::take(&mut run) {
                stored(first, last, &numbers);
            }
            match (source, entry.in_memory()) {
                (Some((source, frame)), _) => run = (at, Some(source), vec![frame]),
                (None, positions) => here(at, positions.unwrap_or_default()),
            }
        }
        if let (first, Some(last), numbers) = run {
            stored(first, last, &numbers);
        }
    }

    /// Some vertices, ascending.
    pub(crate) fn of_vertices(&self, vertices: &[u32]) -> Self {
        let mut sources: Vec<(&Arc<dyn Frames>, Arc<Picked>)> = Vec::new();
        let mut entries = Vec::with_capacity(self.0.len());
        for entry in &self.0 {
            let FramePositions::Stored { source, frame } = entry else {
                let positions = entry.positions();
                entries.push(vertices.iter().map(|&i| positions[i as usize]).collect::<Vec<_>>().into());
                continue;
            };
            let known = sources.iter().position(|(known, _)| Arc::ptr_eq(known, source)).unwrap_or_else(|| {
                sources.push((source, Arc::new(Picked { source: source.clone(), vertices: vertices.to_vec() })));
                sources.len() - 1
            });
            entries.push(FramePositions::Stored { source: sources[known].1.clone(), frame: *frame });
        }
        Self(entries)
    }

    /// Frames in another order, each moved where there is a transform.
    pub(crate) fn rearranged(&self, frames: &[(usize, Option<DAffine3>)]) -> Self {
        // Sources that are not in memory, and what is moved of each.
        let mut known: Vec<&Arc<dyn Frames>> = Vec::new();
        let mut moved: Vec<Vec<(u32, DAffine3)>> = Vec::new();
        let mut entries: Vec<Result<FramePositions, (usize, u32)>> = Vec::with_capacity(frames.len());
        for (t, place) in frames {
            entries.push(match (&self.0[*t], place) {
                (as_it_is, None) => Ok(as_it_is.clone()),
                (FramePositions::Stored { source, frame }, Some(place)) => {
                    let s = known.iter().position(|known| Arc::ptr_eq(known, source)).unwrap_or_else(|| {
                        known.push(source);
                        moved.push(Vec::new());
                        moved.len() - 1
                    });
                    moved[s].push((*frame, *place));
                    Err((s, moved[s].len() as u32 - 1))
                }
                (here, Some(place)) => Ok(here.positions().iter().map(|p| placed(p, place)).collect::<Vec<_>>().into()),
            });
        }
        let wrap = |(source, frames): (&Arc<dyn Frames>, _)| Arc::new(Placed { source: source.clone(), frames });
        let sources: Vec<Arc<Placed>> = known.into_iter().zip(moved).map(wrap).collect();
        let of_source = |(s, frame): (usize, u32)| FramePositions::Stored { source: sources[s].clone(), frame };
        Self(entries.into_iter().map(|entry| entry.unwrap_or_else(of_source)).collect())
    }
}

impl Frames for FrameList {
    fn frame_count(&self) -> usize {
        self.0.len()
    }

    fn vertex_count(&self) -> usize {
        self.0.first().map_or(0, FramePositions::count)
    }

    fn read(&self, frames: &[u32], vertices: Range<usize>, visit: &mut dyn FnMut(usize, &[Vec3])) {
        let visit = std::cell::RefCell::new(visit);
        self.runs(
            frames,
            |at, positions| visit.borrow_mut()(at, &positions[vertices.clone()]),
            |first, source, numbers| {
                source.read(numbers, vertices.clone(), &mut |at, positions| visit.borrow_mut()(first + at, positions));
            },
        );
    }

    fn pick(&self, frames: &[u32], vertices: &[u32], visit: &mut dyn FnMut(usize, &[Vec3])) {
        let (visit, mut picked) = (std::cell::RefCell::new(visit), Vec::with_capacity(vertices.len()));
        self.runs(
            frames,
            |at, positions| {
                picked.clear();
                picked.extend(vertices.iter().map(|&i| positions[i as usize]));
                visit.borrow_mut()(at, &picked);
            },
            |first, source, numbers| {
                source.pick(numbers, vertices, &mut |at, positions| visit.borrow_mut()(first + at, positions));
            },
        );
    }

    fn scratch(&self) -> Option<Arc<dyn Scratch>> {
        self.0.iter().find_map(|frame| match frame {
            FramePositions::Stored { source, .. } => source.scratch(),
            _ => None,
        })
    }

    fn frames_at_once(&self) -> usize {
        let of = |frame: &FramePositions| match frame {
            FramePositions::Stored { source, .. } => source.frames_at_once(),
            _ => 1,
        };
        self.0.iter().map(of).max().unwrap_or(1)
    }
}
