// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A back end in which one session can do something in the middle of what another one does, in one
//! thread: the order is certain.

use std::cell::RefCell;

use nvheap::testing::Plain;
use nvheap::{LINE_WORDS, Pmem};

type Work = Box<dyn FnOnce()>;

thread_local! {
    static WAITING: RefCell<Option<Work>> = const { RefCell::new(None) };
    static STORED: RefCell<Option<(usize, Work)>> = const { RefCell::new(None) };
}

/// Have something done as soon as a session waits.
#[allow(dead_code, reason = "not all files of tests have that")]
pub fn when_waiting(work: impl FnOnce() + 'static) {
    WAITING.set(Some(Box::new(work)));
}

/// Have something done as soon as the word at that address was stored.
#[allow(dead_code, reason = "not all files of tests have that")]
pub fn when_stored(at: *mut u8, work: impl FnOnce() + 'static) {
    STORED.set(Some((at as usize, Box::new(work))));
}

/// Plain stores, and what is to be done meanwhile.
#[derive(Debug)]
pub struct Meanwhile;

// SAFETY: `Plain` makes every store at once.
unsafe impl Pmem for Meanwhile {
    unsafe fn store(&self, at: *mut u64, value: u64) {
        // SAFETY: the caller's promise is the same.
        unsafe { Plain.store(at, value) };
        let now = STORED.with_borrow(|stored| {
            stored
                .as_ref()
                .is_some_and(|(wanted, _)| *wanted == at as usize)
        });
        if now {
            if let Some((_, work)) = STORED.take() {
                work();
            }
        }
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

    fn fence(&self) {}

    fn pause(&self) {
        if let Some(work) = WAITING.take() {
            work();
        }
    }
}
