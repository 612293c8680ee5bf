//! Bytes of one layer: a file, or a part of one (a layer inside a USDZ), read piece by piece.
//!
//! Nothing is read before it is asked for, and never more than lies inside: a time-sampled cache is decoded frame by
//! frame without the file in memory beside it.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use crate::IoError;

/// A readable range of a file.
pub struct Blob {
    path: PathBuf,
    file: File,
    /// First byte of the range.
    base: u64,
    /// Bytes of the range.
    len: u64,
}

impl Blob {
    /// A whole file.
    pub fn open(path: &Path) -> Result<Self, IoError> {
        let os = |e| IoError::os(path, e);
        let file = crate::opens::open(path).map_err(os)?;
        crate::opens::count();
        let len = file.metadata().map_err(os)?.len();
        Ok(Self { path: path.to_owned(), file, base: 0, len })
    }

    /// Part of this one, for messages called `name` inside it; cut to what is there.
    pub fn part(&self, name: &str, start: u64, len: u64) -> Result<Self, IoError> {
        let file = self.file.try_clone().map_err(|e| IoError::os(&self.path, e))?;
        let start = start.min(self.len);
        Ok(Self { path: self.path.join(name), file, base: self.base + start, len: len.min(self.len - start) })
    }

    /// The file, for messages; a layer of a USDZ counts as a file inside it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes there are.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// `len` bytes from `at`. Checked before any memory is asked for.
    pub fn read(&self, at: u64, len: u64, what: &str) -> Result<Vec<u8>, IoError> {
        let inside = at.checked_add(len).is_some_and(|end| end <= self.len);
        let size = usize::try_from(len).ok().filter(|_| inside);
        let Some(size) = size else {
            let have = self.len;
            return Err(self.malformed(format!("{what}: {len} bytes at {at} lie outside the {have} bytes of the file")));
        };
        let mut bytes = vec![0; size];
        let mut file = &self.file;
        let read = file.seek(SeekFrom::Start(self.base + at)).and_then(|_| file.read_exact(&mut bytes));
        read.map_err(|e| IoError::os(&self.path, e))?;
        Ok(bytes)
    }

    /// A 64-bit number at `at`.
    pub fn u64(&self, at: u64, what: &str) -> Result<u64, IoError> {
        let bytes = self.read(at, 8, what)?;
        Ok(bytes.first_chunk().map_or(0, |b| u64::from_le_bytes(*b)))
    }

    /// Most bytes that one value of this file may unfold to: values are stored plainly or compressed, and no real
    /// file is smaller than a quarter of what one array of its indices takes. A small file cannot ask for much.
    pub fn most_unfolded(&self) -> u64 {
        self.len.saturating_mul(4).saturating_add(1 << 18)
    }

    /// This file is broken.
    pub fn malformed(&self, what: impl Into<String>) -> IoError {
        IoError::malformed(&self.path, what)
    }

    /// This file is sound, but not for us.
    pub fn unsupported(&self, what: impl Into<String>) -> IoError {
        IoError::unsupported(&self.path, what)
    }
}
