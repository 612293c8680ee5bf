//! Tables in files: where positions are that do not fit into memory.
//!
//! ```text
//! file  = groups of K frames, one after the other
//! group = tiles of 64 points; the last one is padded
//! tile  = K rows of 64 cells, one row for each frame
//! ```
//!
//! K is as large as a buffer of a group may be. Frames come one after the other and are written in order, a group at a time; a
//! pass over vertices reads F / K pieces for each tile, all frames of a group are one piece. A file has no name from the
//! moment it is made, so nothing is left behind however the program ends.

use std::fs::File;
use std::io::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use bonesmith_core::mesh::stored::{Scratch, TILE, Table, TableWriter};

use crate::IoError;
use crate::sink::bytes_text;

/// Most frames of a group: a tile of positions is about 200 kB then.
const MAX_GROUP: usize = 256;

/// Least bytes of a buffer.
const MIN_BUFFER: u64 = 1 << 20;

/// Why a file of some tables could not be written or read, the first time. Tables read as zeros after that.
#[derive(Clone, Default)]
pub(crate) struct Failure(Arc<OnceLock<String>>);

impl Failure {
    /// Fails if a table could not be written or read so far: what was made of it is not to be used.
    pub fn check(&self) -> Result<(), IoError> {
        match self.0.get() {
            Some(why) => Err(IoError::os(folder(), std::io::Error::other(format!("scratch file: {why}")))),
            None => Ok(()),
        }
    }

    fn note(&self, error: &std::io::Error) {
        _ = self.0.set(error.to_string());
    }
}

/// Where files are made: `TMPDIR`, else `/var/tmp`, which is on a disk where `/tmp` may be in memory.
pub fn folder() -> PathBuf {
    let lasting = Path::new("/var/tmp");
    match std::env::var_os("TMPDIR").is_none_or(|own| own.is_empty()) && lasting.is_dir() {
        true => lasting.to_owned(),
        false => std::env::temp_dir(),
    }
}

/// Bytes that are free for files in this folder; `None` where the system does not report it.
#[cfg(unix)]
pub fn free_space(folder: &Path) -> Option<u64> {
    let found = rustix::fs::statvfs(folder).ok()?;
    found.f_bavail.checked_mul(found.f_frsize)
}

/// Bytes that are free for files in this folder; `None` where the system does not report it.
#[cfg(not(unix))]
pub fn free_space(_folder: &Path) -> Option<u64> {
    None
}

/// Fails, with both numbers, if less is free for scratch files.
pub fn room_for(need: u64) -> Result<(), String> {
    match free_space(&folder()).filter(|free| *free < need) {
        Some(free) => Err(format!(
            "{} of scratch space are needed, and {} are free (TMPDIR sets another folder)",
            bytes_text(need),
            bytes_text(free)
        )),
        None => Ok(()),
    }
}

/// Files without a name, for what belongs to one sequence.
pub(crate) struct ScratchFiles {
    /// Bytes of a buffer while a file is written.
    buffer: u64,
    /// Of any of the files.
    failure: Failure,
}

impl ScratchFiles {
    /// The transaction of this thread, if there is one, commits nothing after a failure of these files.
    pub fn new(buffer: u64) -> Self {
        let failure = Failure::default();
        crate::atomic::depend_on(failure.clone());
        Self { buffer, failure }
    }

    /// Fails if a file could not be written or read so far.
    pub fn check(&self) -> Result<(), IoError> {
        self.failure.check()
    }
}

impl Scratch for ScratchFiles {
    fn table(&self, points: usize, frames: usize, words: usize) -> Box<dyn TableWriter> {
        let of_frame = 4 * points.next_multiple_of(TILE) as u64 * words as u64;
        // Without a number of frames the reader has looked at the space.
        if let Some(need) = of_frame.checked_mul(frames as u64)
            && let Err(what) = room_for(need)
        {
            self.failure.note(&std::io::Error::other(what));
        }
        Box::new(Writer::new(self.buffer, self.failure.clone(), points, frames, words))
    }
}

/// Where cells are in a file.
#[derive(Clone, Copy)]
struct Layout {
    points: usize,
    words: usize,
    /// K.
    group: usize,
}

impl Layout {
    fn tiles(&self) -> usize {
        self.points.div_ceil(TILE)
    }

    /// Words of a row of a tile.
    fn row(&self) -> usize {
        TILE * self.words
    }

    /// Words of a group.
    fn group_words(&self) -> usize {
        self.tiles() * self.group * self.row()
    }
}

/// A file that is being written.
struct Writer {
    file: Option<File>,
    layout: Layout,
    /// One group.
    buffer: Vec<u32>,
    /// Frames in the buffer.
    held: usize,
    failure: Failure,
}

impl Writer {
    fn new(buffer: u64, failure: Failure, points: usize, frames: usize, words: usize) -> Self {
        let of_frame = (4 * points.next_multiple_of(TILE) * words).max(1) as u64;
        let group = (buffer.max(MIN_BUFFER) / of_frame).clamp(1, MAX_GROUP as u64) as usize;
        let layout = Layout { points, words, group: group.min(frames.max(1)) };
        let file = tempfile::tempfile_in(folder()).inspect_err(|error| failure.note(error)).ok();
        Self { file, layout, buffer: vec![0; layout.group_words()], held: 0, failure }
    }

    fn flush(&mut self) {
        if let Some(file) = &mut self.file
            && let Err(error) = file.write_all(bytemuck::cast_slice(&self.buffer))
        {
            self.failure.note(&error);
            self.file = None;
        }
        self.held = 0;
    }
}

impl TableWriter for Writer {
    fn push(&mut self, cells: &[u32]) {
        let Layout { group, .. } = self.layout;
        let row = self.layout.row();
        for (tile, cells) in cells.chunks(row).enumerate() {
            let at = (tile * group + self.held) * row;
            self.buffer[at..at + cells.len()].copy_from_slice(cells);
        }
        self.held += 1;
        if self.held == group {
            self.flush();
        }
    }

    fn finish(mut self: Box<Self>) -> Arc<dyn Table> {
        if self.held > 0 {
            self.flush();
        }
        Arc::new(Stored { file: self.file, layout: self.layout, failure: self.failure })
    }
}

/// A file that is read.
struct Stored {
    file: Option<File>,
    layout: Layout,
    failure: Failure,
}

impl Stored {
    /// Words from this place on; zeros where they cannot be read.
    fn words(&self, first: usize, words: &mut [u32]) {
        let read = match &self.file {
            Some(file) => read_at(file, bytemuck::cast_slice_mut(words), 4 * first as u64),
            None => return,
        };
        if let Err(error) = read {
            self.failure.note(&error);
            words.fill(0);
        }
    }
}

#[cfg(unix)]
fn read_at(file: &File, bytes: &mut [u8], place: u64) -> std::io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, place)
}

#[cfg(windows)]
fn read_at(file: &File, mut bytes: &mut [u8], mut place: u64) -> std::io::Result<()> {
    while !bytes.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, bytes, place)? {
            0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            read => (bytes, place) = (&mut bytes[read..], place + read as u64),
        }
    }
    Ok(())
}

impl Table for Stored {
    fn read(&self, frames: Range<usize>, points: Range<usize>, cells: &mut Vec<u32>) {
        let Layout { words, group, .. } = self.layout;
        let (row, width) = (self.layout.row(), points.len() * words);
        cells.clear();
        cells.resize(frames.len() * width, 0);
        if points.is_empty() || frames.is_empty() {
            return;
        }
        let mut piece = Vec::new();
        for g in frames.start / group..=(frames.end - 1) / group {
            let rows = frames.start.max(g * group)..frames.end.min((g + 1) * group);
            for tile in points.start / TILE..=(points.end - 1) / TILE {
                let first = g * self.layout.group_words() + (tile * group + rows.start - g * group) * row;
                let to = (rows.start - frames.start) * width..(rows.end - frames.start) * width;
                let own = points.start.max(tile * TILE)..points.end.min((tile + 1) * TILE);
                if own.len() == TILE && width == row {
                    self.words(first, &mut cells[to]);
                    continue;
                }
                piece.resize(rows.len() * row, 0);
                self.words(first, &mut piece);
                let (from, into) = ((own.start - tile * TILE) * words, (own.start - points.start) * words);
                for (to, from_row) in cells[to].chunks_exact_mut(width).zip(piece.chunks_exact(row)) {
                    to[into..into + own.len() * words].copy_from_slice(&from_row[from..from + own.len() * words]);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn cells_are_those_that_were_written(
            (points, frames, words) in (1usize..300, 1usize..40, 1usize..4),
            group in 1u64..9,
            (a, b, c, d) in (0usize..300, 0usize..300, 0usize..40, 0usize..40),
        ) {
            let cell = |t: usize, i: usize, w: usize| (t * 1_000_000 + i * 10 + w) as u32;
            let failure = Failure::default();
            let mut writer = Writer::new(0, failure.clone(), points, frames, words);
            writer.layout.group = (group as usize).min(frames);
            writer.buffer = vec![0; writer.layout.group_words()];
            let mut writer: Box<dyn TableWriter> = Box::new(writer);
            for t in 0..frames {
                let row: Vec<u32> = (0..points).flat_map(|i| (0..words).map(move |w| cell(t, i, w))).collect();
                writer.push(&row);
            }
            let table = writer.finish();
            let range = |a: usize, b: usize, most: usize| a.min(b).min(most)..a.max(b).min(most);
            let (points, frames) = (range(a, b, points), range(c, d, frames));
            let mut cells = vec![7; 3];
            table.read(frames.clone(), points.clone(), &mut cells);
            let mut expected = Vec::new();
            for t in frames {
                expected.extend(points.clone().flat_map(|i| (0..words).map(move |w| cell(t, i, w))));
            }
            prop_assert_eq!(cells, expected);
            prop_assert!(failure.check().is_ok());
        }
    }

    /// A failure is that of its own files and of the transaction that they were made in.
    #[test]
    fn a_failure_ends_with_its_transaction() {
        let first = crate::Transaction::begin();
        let scratch = ScratchFiles::new(0);
        let mut writer = Writer::new(0, scratch.failure.clone(), 64, 2, 3);
        writer.push(&[7; 192]);
        let table = Box::new(writer).finish();
        let mut cells = Vec::new();
        table.read(0..1, 0..64, &mut cells);
        assert_eq!(cells, vec![7; 192]);
        first.commit().unwrap();
        // Frames that the file does not have.
        table.read(4..5, 0..64, &mut cells);
        assert_eq!(cells, vec![0; 192]);
        let refused = first.commit().unwrap_err().to_string();
        assert!(refused.contains("scratch file"), "{refused}");
        assert!(scratch.check().is_err() && ScratchFiles::new(0).check().is_ok());
        drop(first);
        crate::Transaction::begin().commit().unwrap();
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn files_have_no_name() {
        let names = || std::fs::read_dir(folder()).unwrap().flatten().map(|e| e.file_name()).collect::<Vec<_>>();
        let before = names();
        let writer = Writer::new(0, Failure::default(), 100, 10, 3);
        assert!(writer.file.is_some());
        assert!(names().iter().all(|name| before.contains(name) || !name.to_string_lossy().contains("bonesmith")));
        assert!(free_space(&folder()).is_some_and(|free| free > 0));
    }
}
