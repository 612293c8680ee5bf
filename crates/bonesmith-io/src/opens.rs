//! Opening files to read: the one place. Counts them, too: tests check that each is parsed once.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::{Format, atomic};

thread_local! {
    static OPENED: Cell<usize> = const { Cell::new(0) };
}

/// Files that this thread has opened and parsed so far. Format detection, textures and buffers beside a file do not count.
pub fn files_opened() -> usize {
    OPENED.get()
}

/// Counts one file.
pub(crate) fn count() {
    OPENED.set(OPENED.get() + 1);
}

/// Opens a file, or a folder. A pipe or a device is refused: it might never end, and cannot be read twice.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let place = atomic::pending(path);
    if place.is_none() {
        atomic::note_read(path);
    }
    let place = place.as_deref().unwrap_or(path);
    let found = std::fs::metadata(place)?;
    if !found.is_file() && !found.is_dir() {
        return Err(io::Error::other(format!("is {}, not a file", atomic::kind(&found))));
    }
    File::open(place)
}

/// All of a file.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = open(path)?;
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX))?;
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Whether there is something of this name, also if it is not in its place yet.
pub(crate) fn exists(path: &Path) -> bool {
    atomic::pending(path).is_some() || path.exists()
}

/// Files that are read on other threads.
pub(crate) fn will_read(paths: &[PathBuf]) {
    paths.iter().for_each(|path| atomic::note_read(path));
}

/// Size of a file, and of those that writing it makes beside it.
pub fn file_bytes(path: &Path) -> u64 {
    let size = |path: PathBuf| std::fs::metadata(atomic::pending(&path).unwrap_or(path)).map_or(0, |found| found.len());
    files_of(path).into_iter().map(size).sum()
}

/// The files that a model of this name is written as: itself, and the buffer of a .gltf.
pub fn files_of(path: &Path) -> Vec<PathBuf> {
    Format::files(path)
}
