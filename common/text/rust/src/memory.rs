//! A limit on what one piece of work may allocate: it runs on a thread of its own, whose allocations are counted.
//!
//! Allocation cannot fail gracefully in Rust, and most of it is in crates that do not ask. So a thread that wants more
//! than its limit never gets an answer: it stands still for ever, with what it has, and the caller is told. That costs a
//! thread and at most the limit, so the caller must see to it that the same work is not tried again.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::ptr::null;
use std::sync::mpsc;

pub enum Outcome<T> {
    Done(T),
    Panicked,
    OutOfMemory,
}

/// Runs `work` with `stack_bytes` of stack and at most `heap_bytes` of heap. An error if there is no thread for it.
pub fn run_limited<T: Send + 'static>(
    stack_bytes: usize,
    heap_bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<Outcome<T>> {
    let (sender, receiver) = mpsc::channel();
    std::thread::Builder::new().stack_size(stack_bytes).spawn(move || {
        let exhausted = || drop(sender.send(Outcome::OutOfMemory));
        let meter = Meter { left: Cell::new(heap_bytes as isize), exhausted: &exhausted };
        METER.set((&meter as *const Meter).cast());
        let result = catch_unwind(AssertUnwindSafe(work));
        METER.set(null());
        drop(sender.send(result.map_or(Outcome::Panicked, Outcome::Done)));
    })?;
    Ok(receiver.recv().unwrap_or(Outcome::Panicked))
}

struct Meter<'t> {
    left: Cell<isize>,
    exhausted: &'t dyn Fn(),
}

thread_local! {
    /// The meter of this thread, or null. Valid while it is set: it lives in the frame that sets and clears it.
    static METER: Cell<*const Meter<'static>> = const { Cell::new(null()) };
}

/// Counts `bytes` more (or fewer). Returns only if they are within the limit. Called before the system's allocator, so a
/// thread that stands still holds none of its locks.
fn charge(bytes: isize) {
    // SAFETY: see METER; it is of this thread alone.
    let Some(meter) = (unsafe { METER.get().as_ref() }) else { return };
    let left = meter.left.get().saturating_sub(bytes);
    if left >= 0 || bytes <= 0 {
        return meter.left.set(left);
    }
    METER.set(null()); // what follows may allocate
    (meter.exhausted)();
    loop {
        std::thread::park();
    }
}

struct Counted;

#[global_allocator]
static COUNTED: Counted = Counted;

// SAFETY: the system's allocator does all the work. No size is above isize::MAX.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        charge(layout.size() as isize);
        System.alloc(layout)
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        charge(layout.size() as isize);
        System.alloc_zeroed(layout)
    }
    unsafe fn realloc(&self, old: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        charge(new_size as isize - layout.size() as isize);
        System.realloc(old, layout, new_size)
    }
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        charge(-(layout.size() as isize));
        System.dealloc(memory, layout);
    }
}
