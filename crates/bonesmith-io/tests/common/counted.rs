//! An allocator that counts. For test files that are alone in their binary: `#[path = "common/counted.rs"] mod counted;`.

#![allow(dead_code, reason = "each test file uses its part")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts what is held, and the most that ever was.
struct Count;

/// Bytes held.
pub static HELD: AtomicUsize = AtomicUsize::new(0);
/// The most since it was last set.
pub static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes on to the system allocator unchanged; `realloc` is the default one over these.
unsafe impl GlobalAlloc for Count {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let held = HELD.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST.fetch_max(held, Ordering::Relaxed);
        // SAFETY: the caller's promises are the system allocator's demands.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNT: Count = Count;

/// Most bytes held during `work`, beyond those before it.
pub fn most_during<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = HELD.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    let result = work();
    (result, MOST.load(Ordering::Relaxed) - before)
}
