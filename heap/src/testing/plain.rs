// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A back end for looking at a crash state: plain stores, into a copy of the state that is brought
//! up to date line by line.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use remanence_crash_states::Image;

use crate::error::Error;
use crate::map::Mapping;
use crate::pmem::{LINE_BYTES, LINE_WORDS, Pmem};

/// Memory of a replica: which lines a check has stored to.
struct Tracked {
    base: usize,
    bytes: usize,
    lines: Vec<usize>,
}

thread_local! {
    /// Looks may be nested, so there may be several.
    static TRACKED: RefCell<Vec<Tracked>> = const { RefCell::new(Vec::new()) };
}

fn note(at: usize) {
    TRACKED.with_borrow_mut(|all| {
        let inside = |it: &&mut Tracked| (it.base..it.base + it.bytes).contains(&at);
        if let Some(it) = all.iter_mut().find(inside) {
            it.lines.push((at - it.base) / LINE_BYTES);
        }
    });
}

/// Plain stores; nothing is flushed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plain;

// SAFETY: every store is made at once.
unsafe impl Pmem for Plain {
    unsafe fn store(&self, at: *mut u64, value: u64) {
        note(at as usize);
        // SAFETY: the caller promises that `at` is aligned and writable.
        unsafe { AtomicU64::from_ptr(at) }.store(value, Ordering::Relaxed);
    }

    unsafe fn store_byte(&self, at: *mut u8, value: u8) {
        note(at as usize);
        // SAFETY: the caller promises that `at` is writable.
        unsafe { AtomicU8::from_ptr(at) }.store(value, Ordering::Relaxed);
    }

    unsafe fn stream_line(&self, at: *mut u64, line: &[u64; LINE_WORDS]) {
        for (index, word) in line.iter().enumerate() {
            // SAFETY: the caller promises that the line is writable.
            unsafe { self.store(at.add(index), *word) };
        }
    }

    unsafe fn flush(&self, _: *const u8) {}

    fn fence(&self) {}

    fn pause(&self) {
        std::thread::yield_now();
    }
}

/// A copy of one state after the other, for heaps that are opened with [`Plain`] in this thread.
#[derive(Debug)]
pub struct Replica {
    memory: Mapping,
}

impl Replica {
    /// Of states of this size.
    ///
    /// # Errors
    /// As [`Mapping::anonymous`].
    pub fn new(bytes: u64) -> Result<Self, Error> {
        let memory = Mapping::anonymous(bytes)?;
        let tracked = Tracked {
            base: memory.base() as usize,
            bytes: memory.bytes(),
            lines: Vec::new(),
        };
        TRACKED.with_borrow_mut(|all| all.push(tracked));
        Ok(Self { memory })
    }

    /// Gives `look` a mapping of the state.
    pub fn show<R>(&mut self, image: &Image<'_>, look: impl FnOnce(Mapping) -> R) -> R {
        let stored = self.take_stored();
        match image.changed() {
            None => self.put(image.bytes(), 0..image.bytes().len()),
            Some(changed) => {
                let changed = changed.iter().map(|line| *line as usize);
                for line in stored.into_iter().chain(changed) {
                    let at = line * LINE_BYTES;
                    self.put(image.bytes(), at..at + LINE_BYTES);
                }
            }
        }
        // SAFETY: `self` is borrowed until `look` returns, and it drops the mapping.
        look(unsafe { self.memory.lend() })
    }

    /// Lines that the look before has stored to.
    fn take_stored(&self) -> Vec<usize> {
        let base = self.memory.base() as usize;
        TRACKED.with_borrow_mut(|all| {
            let own = all.iter_mut().find(|it| it.base == base);
            own.map(|it| std::mem::take(&mut it.lines))
                .unwrap_or_default()
        })
    }

    fn put(&mut self, image: &[u8], part: Range<usize>) {
        let from = &image[part.clone()];
        // SAFETY: the memory is as long as the image, and nothing else uses it now.
        unsafe {
            let to = self.memory.base().add(part.start);
            std::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len());
        }
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        let base = self.memory.base() as usize;
        TRACKED.with_borrow_mut(|all| all.retain(|it| it.base != base));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use remanence_crash_states::{Event, History};

    use crate::testing::Trial;

    const BYTES: usize = 4096;

    /// Looks in which each state is compared as a whole, is written to, and begins others.
    fn compare(depth: u64) -> u64 {
        let events: Vec<Event> = (0..6)
            .flat_map(|n| {
                [
                    Event::word(n * 72, n + 1),
                    Event::Flush(0, n),
                    Event::Fence(0),
                ]
            })
            .collect();
        let mut replica = Replica::new(BYTES as u64).unwrap();
        let mut history = History::new(vec![0; BYTES], Trial::limits(100, 10), 1);
        let mut nested = 0;
        let done = history.follow(&events, &mut |visit| {
            let image = visit.image.bytes().to_vec();
            replica.show(visit.image, |map| {
                // SAFETY: the mapping is as long as the image.
                let found = unsafe { std::slice::from_raw_parts(map.base(), BYTES) };
                assert_eq!(found, image);
                // SAFETY: a word of the mapping.
                unsafe { Plain.store(map.base().add(3000).cast(), 7) };
                if depth > 0 {
                    nested += compare(depth - 1);
                }
                // SAFETY: a byte of the mapping.
                unsafe { Plain.store_byte(map.base().add(900), 9) };
                Ok::<_, ()>(())
            })
        });
        done.unwrap();
        nested + history.images()
    }

    #[test]
    fn replica_follows_states_and_undoes_stores() {
        assert!(compare(1) > 50);
    }
}
