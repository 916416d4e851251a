// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Threads under a deterministic scheduler, and objects that are written past the log: it may switch
//! whenever a lock is taken.

use std::sync::Arc;

use nvheap::testing::{Broken, Plain, verdict};
use nvheap::{Heap, LINE_WORDS, Mapping, Options, PPtr, Pmem, Policy, Session, Tx};
use shuttle::thread;

use crate::found::must;

const THREADS: u64 = 3;
const EACH: u64 = 3;
/// An object with a chunk of its own.
const WORDS: u64 = 0x10000 / 8;
/// With so many between the words that all change and the objects, they share locks.
const CHUNKS_BETWEEN: u64 = 63;

/// The additions and the object, each in its line.
type Shared = [u64; 16];

/// Plain stores; another thread may come where one waits or has taken a lock.
#[derive(Debug)]
struct Stepping;

// SAFETY: `Plain` makes every store at once.
unsafe impl Pmem for Stepping {
    unsafe fn store(&self, at: *mut u64, value: u64) {
        // SAFETY: the caller's promise is the same.
        unsafe { Plain.store(at, value) };
    }

    unsafe fn store_byte(&self, at: *mut u8, value: u8) {
        // SAFETY: the caller's promise is the same.
        unsafe { Plain.store_byte(at, value) };
    }

    unsafe fn stream_line(&self, at: *mut u64, line: &[u64; LINE_WORDS]) {
        // SAFETY: the caller's promise is the same.
        unsafe { Plain.stream_line(at, line) };
    }

    unsafe fn flush(&self, _: *const u8) {}

    fn fence(&self) {
        thread::yield_now();
    }

    fn pause(&self) {
        thread::yield_now();
    }

    fn step(&self) {
        thread::yield_now();
    }
}

fn content(value: u64) -> Vec<u8> {
    (0..WORDS).flat_map(|_| value.to_le_bytes()).collect()
}

/// Replace the object by one whose words are the number of additions.
fn replace<P: Policy>(session: &mut Session<P, Stepping>, shared: PPtr<Shared>) {
    let (count, object) = (shared.cast::<u64>(), shared.cast::<PPtr<u64>>().element(8));
    session
        .run(|tx| {
            let now = tx.get(count)? + 1;
            let old = tx.get(object)?;
            let new = tx.alloc_bytes(&content(now))?.start;
            tx.set(object, new)?;
            tx.free(old)?;
            tx.set(count, now)
        })
        .unwrap();
}

/// Add to the number without an allocation; the object's first word follows it.
fn add<P: Policy>(session: &mut Session<P, Stepping>, shared: PPtr<Shared>) {
    let (count, object) = (shared.cast::<u64>(), shared.cast::<PPtr<u64>>().element(8));
    session
        .run(|tx| {
            let now = tx.get(count)? + 1;
            let at = tx.get(object)?;
            tx.set(at, now)?;
            tx.set(at.element(WORDS - 1), now)?;
            tx.set(count, now)
        })
        .unwrap();
}

fn look<P: Policy>(session: &mut Session<P, Stepping>, shared: PPtr<Shared>) {
    let (count, object) = (shared.cast::<u64>(), shared.cast::<PPtr<u64>>().element(8));
    let seen = session
        .view(|tx| {
            let now = tx.get(count)?;
            let at = tx.get(object)?;
            Ok((now, tx.get(at)?, tx.get(at.element(WORDS - 1))?))
        })
        .unwrap();
    if seen.0 != seen.1 || seen.0 != seen.2 {
        let what = format!("a number, and an object's first and last word: {seen:?}");
        must(Err(Broken::new(verdict::NOT_ISOLATED, what)))
    }
}

fn schedule<P: Policy>() {
    let options = Options {
        sessions: THREADS as u32 + 1,
        redo_lines: 64,
        undo_lines: 64,
        ..Options::assume_all()
    };
    let map = Mapping::anonymous(6 << 20).unwrap();
    let heap: Arc<Heap<P, Stepping>> = Arc::new(Heap::format(Stepping, map, &options).unwrap());
    let mut session = heap.session().unwrap();
    let shared = session.root_or("shared", |tx| tx.alloc([0; 16])).unwrap();
    session
        .run(|tx| {
            tx.reserve(CHUNKS_BETWEEN * 0x10000)?;
            let made = tx.alloc_bytes(&content(0))?.start;
            tx.set(shared.cast::<PPtr<u64>>().element(8), made)
        })
        .unwrap();
    let workers: Vec<_> = (0..THREADS)
        .map(|number| {
            let heap = Arc::clone(&heap);
            thread::spawn(move || {
                let mut session = heap.session().unwrap();
                for _ in 0..EACH {
                    match number {
                        0 => replace(&mut session, shared),
                        1 => add(&mut session, shared),
                        _ => look(&mut session, shared),
                    }
                }
            })
        })
        .collect();
    for worker in workers {
        worker.join().unwrap();
    }
    look(&mut session, shared);
    let (found, wanted) = (session.view(|tx| tx.get(shared)).unwrap()[0], 2 * EACH);
    if found != wanted {
        let what = format!("{found} after {wanted} additions");
        must(Err(Broken::new(verdict::NOT_ISOLATED, what)))
    }
}

/// In so many schedules.
pub fn allocating<P: Policy>(schedules: usize) {
    shuttle::check_random(schedule::<P>, schedules);
}
