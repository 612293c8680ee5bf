//! How many files readers have opened: tests check that each is opened once.

use std::cell::Cell;

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
