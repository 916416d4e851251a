// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The back end of a region that no file holds: nothing is written back, as nothing outlives the
//! process by that.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use crate::pmem::{LINE_WORDS, Pmem};

/// Stores, and no more.
#[derive(Clone, Copy, Debug)]
pub struct Volatile;

// SAFETY: every store is made at once.
unsafe impl Pmem for Volatile {
    unsafe fn store(&self, at: *mut u64, value: u64) {
        // SAFETY: the caller says that `at` is aligned and writable.
        unsafe { AtomicU64::from_ptr(at) }.store(value, Ordering::Relaxed);
    }

    unsafe fn store_byte(&self, at: *mut u8, value: u8) {
        // SAFETY: the caller says that `at` is writable.
        unsafe { AtomicU8::from_ptr(at) }.store(value, Ordering::Relaxed);
    }

    unsafe fn stream_line(&self, at: *mut u64, line: &[u64; LINE_WORDS]) {
        for (index, word) in line.iter().enumerate() {
            // SAFETY: the caller says that the line is writable.
            unsafe { self.store(at.add(index), *word) };
        }
    }

    unsafe fn flush(&self, _: *const u8) {}

    fn fence(&self) {}

    fn pause(&self) {
        std::thread::yield_now();
    }
}
