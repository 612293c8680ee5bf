//! The container: groups of children that are groups or data, found by their place in the file.
//!
//! | bytes | what |
//! |---|---|
//! | head | `Ogawa`, `ff` once closed, version 0 1, place of the root group (u64) |
//! | group | number of children (u64), place of each (u64; the top bit marks data, place 0 is empty) |
//! | data | number of bytes (u64), then the bytes |
//!
//! Everything is little-endian. The file is read where it is asked for: nothing is held but what is returned, and
//! nothing is asked of memory before its bytes are known to be in the file.

use std::cell::Cell;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use crate::IoError;

/// Marks the place of a child as data.
const DATA: u64 = 1 << 63;
/// Bytes of a head.
const HEAD: u64 = 16;
/// Groups may share children: all reading together is bounded by this many times the file, and a little more.
const MAX_READ: u64 = 64;
const MAX_READ_MORE: u64 = 1 << 24;

/// An open file.
pub struct Ogawa {
    file: File,
    path: PathBuf,
    bytes: u64,
    /// Bytes that may still be read.
    budget: Cell<u64>,
}

/// A group: the places of its children.
#[derive(Clone, Debug, Default)]
pub struct Group {
    children: Vec<u64>,
}

/// Data that lies in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Data {
    /// Where its bytes start.
    pub place: u64,
    /// How many there are.
    pub bytes: u64,
}

impl Ogawa {
    /// Opens a file; the root group too.
    pub fn open(path: &Path) -> Result<(Self, Group), IoError> {
        let os = |e| IoError::os(path, e);
        let file = crate::opens::open(path).map_err(os)?;
        crate::opens::count();
        let bytes = file.metadata().map_err(os)?.len();
        let budget = Cell::new(bytes.saturating_mul(MAX_READ).saturating_add(MAX_READ_MORE));
        let ogawa = Self { file, path: path.to_owned(), bytes, budget };
        let mut head = [0; HEAD as usize];
        ogawa.read(0, &mut head, "its head")?;
        if &head[..5] != b"Ogawa" {
            return Err(ogawa.malformed("not an Alembic file (Ogawa)"));
        }
        if head[5] != 0xff {
            return Err(ogawa.malformed("the file was not closed by the program that wrote it: export it again"));
        }
        if head[6..8] != [0, 1] {
            let version = u16::from_be_bytes([head[6], head[7]]);
            return Err(IoError::unsupported(path, format!("Ogawa version {version}, only 1 is known")));
        }
        let root = head.last_chunk().map_or(0, |place| u64::from_le_bytes(*place));
        let root = ogawa.group_at(root, "the root")?;
        Ok((ogawa, root))
    }

    /// Bytes of the file.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// An error about this file.
    pub fn malformed(&self, what: impl Into<String>) -> IoError {
        IoError::malformed(&self.path, what)
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// An error about something sound that we do not read.
    pub fn unsupported(&self, what: impl Into<String>) -> IoError {
        IoError::unsupported(&self.path, what)
    }

    fn read(&self, place: u64, into: &mut [u8], what: &str) -> Result<(), IoError> {
        let wanted = into.len() as u64;
        if place.checked_add(wanted).is_none_or(|end| end > self.bytes) {
            return Err(self.malformed(format!(
                "the file is cut off or damaged: {what} at byte {place} takes {wanted} bytes, the file has {}",
                self.bytes
            )));
        }
        let left = self.budget.get().checked_sub(wanted);
        self.budget.set(left.ok_or_else(|| {
            self.malformed(format!("{what}: the file names the same bytes over and over, far beyond its size"))
        })?);
        let mut file = &self.file;
        let read = file.seek(SeekFrom::Start(place)).and_then(|_| file.read_exact(into));
        read.map_err(|e| IoError::os(&self.path, e))
    }

    fn number(&self, place: u64, what: &str) -> Result<u64, IoError> {
        let mut bytes = [0; 8];
        self.read(place, &mut bytes, what)?;
        Ok(u64::from_le_bytes(bytes))
    }

    fn group_at(&self, place: u64, what: &str) -> Result<Group, IoError> {
        if place == 0 {
            return Ok(Group::default());
        }
        let count = self.number(place, what)?;
        if count > self.bytes.saturating_sub(place) / 8 {
            return Err(self.malformed(format!("{what} claims {count} children, more than the file has room for")));
        }
        let mut bytes = vec![0; 8 * count as usize];
        self.read(place + 8, &mut bytes, what)?;
        Ok(Group { children: bytes.as_chunks().0.iter().map(|place| u64::from_le_bytes(*place)).collect() })
    }

    /// Child `at` as a group.
    pub fn group(&self, parent: &Group, at: usize, what: &str) -> Result<Group, IoError> {
        match parent.children.get(at) {
            Some(place) if place & DATA == 0 => self.group_at(*place, what),
            Some(_) => Err(self.malformed(format!("{what}: child {at} is data, not a group"))),
            None => Err(self.malformed(format!("{what}: there is no child {at} among {}", parent.len()))),
        }
    }

    /// Where the bytes of child `at` are.
    pub fn data(&self, parent: &Group, at: usize, what: &str) -> Result<Data, IoError> {
        let place = match parent.children.get(at) {
            Some(place) if place & DATA != 0 => place & !DATA,
            Some(_) => return Err(self.malformed(format!("{what}: child {at} is a group, not data"))),
            None => return Err(self.malformed(format!("{what}: there is no child {at} among {}", parent.len()))),
        };
        if place == 0 {
            return Ok(Data { place: 0, bytes: 0 });
        }
        let bytes = self.number(place, what)?;
        let data = Data { place: place + 8, bytes };
        if bytes > self.bytes - data.place {
            return Err(self.malformed(format!(
                "the file is cut off or damaged: {what} at byte {place} claims {bytes} bytes, the file has {}",
                self.bytes
            )));
        }
        Ok(data)
    }

    /// Fills `into` from byte `from` of `data` on.
    pub fn fill(&self, data: Data, from: u64, into: &mut [u8], what: &str) -> Result<(), IoError> {
        if from.checked_add(into.len() as u64).is_none_or(|end| end > data.bytes) {
            let (wanted, bytes) = (into.len(), data.bytes);
            return Err(self.malformed(format!("{what}: {wanted} bytes from byte {from} on are not in its {bytes}")));
        }
        self.read(data.place + from, into, what)
    }

    /// All bytes of child `at`.
    pub fn all(&self, parent: &Group, at: usize, what: &str) -> Result<Vec<u8>, IoError> {
        let data = self.data(parent, at, what)?;
        let mut bytes = vec![0; data.bytes as usize];
        self.fill(data, 0, &mut bytes, what)?;
        Ok(bytes)
    }
}

impl Group {
    /// Number of children.
    pub fn len(&self) -> usize {
        self.children.len()
    }

    /// Whether child `at` is there and is a group.
    pub fn has_group(&self, at: usize) -> bool {
        self.children.get(at).is_some_and(|place| place & DATA == 0)
    }

    /// Whether child `at` is there and is data.
    pub fn has_data(&self, at: usize) -> bool {
        self.children.get(at).is_some_and(|place| place & DATA != 0)
    }
}
