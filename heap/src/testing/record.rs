// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The back end that performs and records.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::mutant::Mutant;
use crate::pmem::{LINE_BYTES, LINE_WORDS, Pmem};
use crate::testing::Plain;

/// One operation, in the order in which memory saw them. Offsets are from the region's beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// (offset, value): an aligned word.
    Store(u64, u64),
    /// (offset, value): a byte.
    StoreByte(u64, u8),
    /// (thread, line, content) past the cache.
    Stream(usize, u64, [u64; LINE_WORDS]),
    /// (thread, line).
    Flush(usize, u64),
    /// By that thread.
    Fence(usize),
    /// What the test wants to know when it looks at a state, e.g. that a transaction returned.
    Mark(u64),
}

/// How the recorder knows threads, and where it lets another come between.
#[derive(Clone, Copy, Debug)]
pub struct Threads {
    /// The number of the thread that calls.
    pub current: fn() -> usize,
    /// Another thread may run now.
    pub step: fn(),
}

impl Threads {
    /// One thread only.
    pub const ONE: Self = Self {
        current: || 0,
        step: || {},
    };
}

/// Records what is done to one region; clones record into the same list.
#[derive(Clone, Debug)]
pub struct Recorder {
    base: usize,
    plain: Plain,
    threads: Threads,
    events: Arc<Mutex<Vec<Event>>>,
}

impl Recorder {
    /// Of the region that begins at `base`.
    #[must_use]
    pub fn new(base: *mut u8, mutant: Option<Mutant>, threads: Threads) -> Self {
        Self {
            base: base as usize,
            plain: Plain { mutant },
            threads,
            events: Arc::default(),
        }
    }

    fn events(&self) -> MutexGuard<'_, Vec<Event>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All that was recorded since the last call.
    #[must_use]
    pub fn take(&self) -> Vec<Event> {
        std::mem::take(&mut *self.events())
    }

    /// Note something at this place of the record.
    pub fn mark(&self, what: u64) {
        self.events().push(Event::Mark(what));
    }

    fn offset(&self, at: usize) -> u64 {
        (at - self.base) as u64
    }
}

// SAFETY: `Plain` performs every store, under the lock of the record: they have one order.
unsafe impl Pmem for Recorder {
    unsafe fn store(&self, at: *mut u64, value: u64) {
        (self.threads.step)();
        let mut events = self.events();
        // SAFETY: as the caller says.
        unsafe { self.plain.store(at, value) };
        events.push(Event::Store(self.offset(at as usize), value));
    }

    unsafe fn store_byte(&self, at: *mut u8, value: u8) {
        (self.threads.step)();
        let mut events = self.events();
        // SAFETY: as the caller says.
        unsafe { self.plain.store_byte(at, value) };
        events.push(Event::StoreByte(self.offset(at as usize), value));
    }

    unsafe fn stream_line(&self, at: *mut u64, line: &[u64; LINE_WORDS]) {
        (self.threads.step)();
        let mut events = self.events();
        // SAFETY: as the caller says.
        unsafe { self.plain.stream_line(at, line) };
        let number = self.offset(at as usize) / LINE_BYTES as u64;
        events.push(Event::Stream((self.threads.current)(), number, *line));
    }

    unsafe fn flush(&self, at: *const u8) {
        (self.threads.step)();
        let number = self.offset(at as usize) / LINE_BYTES as u64;
        self.events()
            .push(Event::Flush((self.threads.current)(), number));
    }

    fn fence(&self) {
        (self.threads.step)();
        self.events().push(Event::Fence((self.threads.current)()));
    }

    fn pause(&self) {
        (self.threads.step)();
    }

    fn step(&self) {
        (self.threads.step)();
    }

    fn mutant(&self, mutant: Mutant) -> bool {
        self.plain.mutant(mutant)
    }
}
