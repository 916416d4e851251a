// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The back end that performs and records.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use remanence_crash_states::Event;

use crate::pmem::{LINE_BYTES, LINE_WORDS, Pmem};
use crate::testing::Plain;

/// How the recorder knows threads, and where it lets another thread run.
#[derive(Clone, Copy, Debug)]
pub struct Threads {
    /// The number of the calling thread.
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

/// Records what is done to one region; clones record into the same list. Offsets of the events are
/// from the region's beginning.
#[derive(Clone, Debug)]
pub struct Recorder {
    base: usize,
    threads: Threads,
    events: Arc<Mutex<Vec<Event>>>,
}

impl Recorder {
    /// Of the region that begins at `base`.
    #[must_use]
    pub fn new(base: *mut u8, threads: Threads) -> Self {
        Self {
            base: base as usize,
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

    /// Marks this place of the record.
    pub fn mark(&self, what: u64) {
        self.events().push(Event::Mark(what));
    }

    fn offset(&self, at: usize) -> u64 {
        (at - self.base) as u64
    }

    fn line(&self, at: usize) -> u64 {
        self.offset(at) / LINE_BYTES as u64
    }
}

// SAFETY: `Plain` performs every store, under the lock of the record, so they have one order.
unsafe impl Pmem for Recorder {
    unsafe fn store(&self, at: *mut u64, value: u64) {
        (self.threads.step)();
        let mut events = self.events();
        // SAFETY: the caller's promise is the same.
        unsafe { Plain.store(at, value) };
        events.push(Event::word(self.offset(at as usize), value));
    }

    unsafe fn store_byte(&self, at: *mut u8, value: u8) {
        (self.threads.step)();
        let mut events = self.events();
        // SAFETY: the caller's promise is the same.
        unsafe { Plain.store_byte(at, value) };
        events.push(Event::byte(self.offset(at as usize), value));
    }

    unsafe fn stream_line(&self, at: *mut u64, line: &[u64; LINE_WORDS]) {
        (self.threads.step)();
        let mut events = self.events();
        // SAFETY: the caller's promise is the same.
        unsafe { Plain.stream_line(at, line) };
        let mut content = [0; LINE_BYTES];
        for (to, word) in content.chunks_exact_mut(8).zip(line) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        let number = self.line(at as usize);
        events.push(Event::Stream((self.threads.current)(), number, content));
    }

    unsafe fn flush(&self, at: *const u8) {
        (self.threads.step)();
        let number = self.line(at as usize);
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
}
