//! The bytes of a buffer while it grows: in memory, or in a file without a name where frames are not in memory either.

use std::fs::File;
use std::io::{self, Seek, Write};

use crate::scratch;

/// Bytes that are held before they go to the file.
const MAX_HELD: usize = 1 << 24;

/// A growing buffer.
#[derive(Default)]
pub struct Blob {
    /// The bytes, or the last ones of them.
    pub bytes: Vec<u8>,
    /// The others.
    file: Option<File>,
    in_file: u64,
    /// Why the file could not be written, the first time.
    failed: Option<io::Error>,
}

impl Blob {
    /// In a file.
    pub fn in_file() -> io::Result<Self> {
        Ok(Self { file: Some(tempfile::tempfile_in(scratch::folder())?), ..Self::default() })
    }

    /// Bytes in all.
    pub fn len(&self) -> u64 {
        self.in_file + self.bytes.len() as u64
    }

    /// Appends zeros up to a multiple of 4. Returns the number of bytes then.
    pub fn align(&mut self) -> u64 {
        let short = self.len().next_multiple_of(4) - self.len();
        self.bytes.resize(self.bytes.len() + short as usize, 0);
        self.len()
    }

    /// Appends bytes.
    pub fn extend(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        let Some(file) = self.file.as_mut().filter(|_| self.bytes.len() >= MAX_HELD) else { return };
        if let Err(error) = file.write_all(&self.bytes) {
            self.failed.get_or_insert(error);
        }
        self.in_file += self.bytes.len() as u64;
        self.bytes.clear();
    }

    /// Writes all of it.
    pub fn write(mut self, out: &mut impl Write) -> io::Result<()> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        if let Some(file) = &mut self.file {
            file.rewind()?;
            io::copy(file, out)?;
        }
        out.write_all(&self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_the_same_bytes() {
        let parts = [vec![1; 5], vec![2; MAX_HELD], vec![3; 7], vec![4; MAX_HELD - 1], vec![5; 3]];
        let written = [Blob::default(), Blob::in_file().unwrap()].map(|mut blob| {
            for part in &parts {
                assert_eq!(blob.align() % 4, 0);
                blob.extend(part);
            }
            let mut out = Vec::new();
            assert_eq!((blob.in_file > 0, blob.len()), (blob.file.is_some(), 2 * MAX_HELD as u64 + 19));
            blob.write(&mut out).unwrap();
            out
        });
        assert!(written[0] == written[1]);
    }
}
