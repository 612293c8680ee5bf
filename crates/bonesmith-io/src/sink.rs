//! Where readers put frames: in memory, or in a table where they do not fit.
//!
//! What fits is set once for the process ([`limit_positions`]), as the memory of a process is one: readers hand over one frame
//! after the other ([`Sink`]) and do not see the difference.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bonesmith_core::RawFrame;
use bonesmith_core::mesh::frames::Frames;
use bonesmith_core::mesh::sequence::{StoredFrame, first_unsound};
use bonesmith_core::mesh::stored::{Scratch, StoredFrames, TableWriter};
use glam::Vec3;

use crate::IoError;
use crate::scratch::{ScratchFiles, folder, room_for};

/// Bytes of memory that positions may take, how many were taken since the limit was set, and bytes of a buffer while a table is written; 0: positions that need
/// more are refused.
static LIMIT: AtomicU64 = AtomicU64::new(u64::MAX);
static HELD: AtomicU64 = AtomicU64::new(0);
static BUFFER: AtomicU64 = AtomicU64::new(0);

/// Words of scratch space for each three of a position: normals are there too.
const WITH_NORMALS: u64 = 4;

/// What becomes of positions that need more than the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beyond {
    /// They are refused.
    Refuse,
    /// They are put into a scratch file, through a buffer of so many bytes.
    Store {
        /// Bytes, at least 1.
        buffer: u64,
    },
}

/// From now on positions that are read may take so many bytes of memory, all of them together. Those that were read before do not count: a run begins
/// with its limit.
pub fn limit_positions(bytes: u64, beyond: Beyond) {
    LIMIT.store(bytes, Ordering::Relaxed);
    HELD.store(0, Ordering::Relaxed);
    let buffer = if let Beyond::Store { buffer } = beyond { buffer.max(1) } else { 0 };
    BUFFER.store(buffer, Ordering::Relaxed);
}

/// Frames that are being read.
pub(crate) struct Sink<'a> {
    path: &'a Path,
    /// Frames in all, where that is known.
    expected: usize,
    frames: Vec<RawFrame>,
    /// Bytes of positions that are held.
    bytes: u64,
    table: Option<Storing>,
}

/// A table that is being written, and what is in it.
struct Storing {
    scratch: Arc<ScratchFiles>,
    writer: Box<dyn TableWriter>,
    vertices: usize,
    /// Number in the sequence, and what is wrong with it, of each frame.
    stored: Vec<(usize, Option<(usize, Vec3)>)>,
}

impl<'a> Sink<'a> {
    /// For `expected` frames of a file; 0 where their number is not known.
    pub fn new(path: &'a Path, expected: usize) -> Self {
        Self { path, expected, frames: Vec::with_capacity(expected.min(1 << 20)), bytes: 0, table: None }
    }

    /// Frames so far.
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// Appends a frame.
    pub fn push(&mut self, frame: impl Into<RawFrame>) -> Result<(), IoError> {
        let mut frame: RawFrame = frame.into();
        let own = 12 * frame.positions.len() as u64;
        if self.table.is_none()
            && !own.checked_add(self.bytes).is_some_and(|bytes| self.fits(bytes.max(self.whole(own))))
        {
            self.start(frame.positions.len(), self.whole(own).max(own + self.bytes))?;
        }
        match &mut self.table {
            Some(table) if table.vertices == frame.positions.len() => table.take(self.frames.len(), &mut frame),
            _ => self.bytes += own,
        }
        self.frames.push(frame);
        Ok(())
    }

    /// Fails if this many frames of this many vertices are not held in memory.
    pub fn must_fit(&self, frames: usize, vertices: usize, why: &str) -> Result<(), IoError> {
        let bytes = 12 * frames as u64 * vertices as u64;
        if self.fits(bytes) { Ok(()) } else { Err(self.refused(bytes, why)) }
    }

    /// Bytes of all frames that are expected, each of `own`.
    fn whole(&self, own: u64) -> u64 {
        own.saturating_mul(self.expected as u64)
    }

    fn fits(&self, bytes: u64) -> bool {
        bytes.saturating_add(HELD.load(Ordering::Relaxed)) <= LIMIT.load(Ordering::Relaxed)
    }

    fn refused(&self, bytes: u64, why: &str) -> IoError {
        let (need, limit) = (bytes_text(bytes), bytes_text(LIMIT.load(Ordering::Relaxed)));
        IoError::unsupported(self.path, format!("positions need {need} of memory, and the limit is {limit}; {why}"))
    }

    /// Makes a table, and moves there what is held.
    fn start(&mut self, vertices: usize, bytes: u64) -> Result<(), IoError> {
        let buffer = BUFFER.load(Ordering::Relaxed);
        if buffer == 0 {
            return Err(self.refused(bytes, "this command cannot read them in blocks yet"));
        }
        room_for(bytes / 3 * WITH_NORMALS).map_err(|what| IoError::unsupported(folder(), what))?;
        let scratch = Arc::new(ScratchFiles::new(buffer));
        let frames = if self.expected > 0 { self.expected } else { usize::MAX };
        let writer = scratch.table(vertices, frames, 3);
        let mut table = Storing { scratch, writer, vertices, stored: Vec::new() };
        for (t, frame) in self.frames.iter_mut().enumerate().filter(|(_, frame)| frame.positions.len() == vertices) {
            self.bytes -= 12 * vertices as u64;
            table.take(t, frame);
        }
        self.table = Some(table);
        Ok(())
    }

    /// All frames.
    pub fn finish(mut self) -> Result<Vec<RawFrame>, IoError> {
        HELD.fetch_add(self.bytes, Ordering::Relaxed);
        if let Some(Storing { scratch, writer, vertices, stored }) = self.table {
            let (table, of_sequence) = (writer.finish(), scratch.clone());
            let source: Arc<dyn Frames> = Arc::new(StoredFrames::new(table, of_sequence, stored.len(), vertices));
            for (at, (t, unsound)) in stored.into_iter().enumerate() {
                self.frames[t].stored = Some(StoredFrame { source: source.clone(), frame: at as u32, unsound });
            }
            scratch.check()?;
        }
        Ok(self.frames)
    }
}

impl Storing {
    /// Writes the positions of frame `t`.
    fn take(&mut self, t: usize, frame: &mut RawFrame) {
        let positions = std::mem::take(&mut frame.positions);
        self.stored.push((t, first_unsound(&positions)));
        self.writer.push(bytemuck::cast_slice(&positions));
    }
}

/// Bytes with a decimal prefix: "4.20 MB".
pub fn bytes_text(n: u64) -> String {
    const UNITS: [&str; 6] = ["kB", "MB", "GB", "TB", "PB", "EB"];
    if n < 1000 {
        return format!("{n} B");
    }
    let (mut value, mut unit) = (n as f64 / 1000.0, 0);
    while value >= 1000.0 {
        (value, unit) = (value / 1000.0, unit + 1);
    }
    format!("{value:.2} {}", UNITS[unit])
}
