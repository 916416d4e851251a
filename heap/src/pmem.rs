// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The few operations by which anything reaches persistent memory.
//!
//! All algorithms are generic over [`Pmem`]. [`Native`] is the machine's own instructions and costs
//! nothing; [`crate::testing::Recorder`] performs and records each operation, so that every state
//! a cut could leave can be made from the record. The rules of x86-64 that both obey:
//!
//! - an aligned store of 8 bytes is never torn;
//! - stores to one line reach memory in their order, those to different lines in any order, and at
//!   any time from the store on (an eviction);
//! - `flush` and then `fence` make the line's earlier stores durable;
//! - the eight words of `stream_line` become durable in any order, all of them by the next `fence`.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// Bytes of a cache line.
pub const LINE_BYTES: usize = 64;
/// Words of 8 bytes in a line.
pub const LINE_WORDS: usize = 8;

/// What a back end of the heap can do.
///
/// # Safety
/// An implementation must perform the stores, in program order as the calling
/// thread sees them: memory safety of the heap's volatile state relies on it.
pub unsafe trait Pmem: Send + Sync + 'static {
    /// Store one aligned word.
    ///
    /// # Safety
    /// `at` is aligned, mapped and writable.
    unsafe fn store(&self, at: *mut u64, value: u64);

    /// Store one byte.
    ///
    /// # Safety
    /// `at` is mapped and writable.
    unsafe fn store_byte(&self, at: *mut u8, value: u8);

    /// Store a line past the cache.
    ///
    /// # Safety
    /// `at` is aligned to a line, mapped and writable; the line is written by nothing else.
    unsafe fn stream_line(&self, at: *mut u64, line: &[u64; LINE_WORDS]);

    /// Begin to write back the line that holds `at`.
    ///
    /// # Safety
    /// `at` is mapped.
    unsafe fn flush(&self, at: *const u8);

    /// Wait until what was flushed and streamed before is durable.
    fn fence(&self);

    /// Called in loops that wait for another thread.
    fn pause(&self);

    /// A place where another thread may come between; nothing outside of tests.
    #[inline(always)]
    fn step(&self) {}
}

/// How this CPU writes a line back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WriteBack {
    Clwb,
    Clflushopt,
    Clflush,
}

/// The machine's own instructions.
#[derive(Clone, Copy, Debug)]
pub struct Native {
    write_back: WriteBack,
}

impl Native {
    /// Finds out which instruction writes a line back.
    #[must_use]
    pub fn new() -> Self {
        // CPUID leaf 7: EBX bit 24 is CLWB, bit 23 CLFLUSHOPT.
        #[allow(unused_unsafe)] // newer compilers take the calls for safe
        // SAFETY: every CPU of 64 bits has CPUID, and the leaf is read only if there is one.
        let ebx = unsafe {
            if std::arch::x86_64::__cpuid(0).eax >= 7 {
                std::arch::x86_64::__cpuid_count(7, 0).ebx
            } else {
                0
            }
        };
        let write_back = if ebx & (1 << 24) != 0 {
            WriteBack::Clwb
        } else if ebx & (1 << 23) != 0 {
            WriteBack::Clflushopt
        } else {
            WriteBack::Clflush
        };
        Self { write_back }
    }

    /// The name of the instruction that writes a line back here.
    #[must_use]
    pub fn write_back_name(&self) -> &'static str {
        match self.write_back {
            WriteBack::Clwb => "clwb",
            WriteBack::Clflushopt => "clflushopt",
            WriteBack::Clflush => "clflush",
        }
    }
}

impl Default for Native {
    fn default() -> Self {
        Self::new()
    }
}

// SAFETY: every operation is the instruction of that name.
unsafe impl Pmem for Native {
    #[inline(always)]
    unsafe fn store(&self, at: *mut u64, value: u64) {
        // SAFETY: the caller says that `at` is aligned and writable.
        unsafe { AtomicU64::from_ptr(at) }.store(value, Ordering::Relaxed);
    }

    #[inline(always)]
    unsafe fn store_byte(&self, at: *mut u8, value: u8) {
        // SAFETY: the caller says that `at` is writable.
        unsafe { AtomicU8::from_ptr(at) }.store(value, Ordering::Relaxed);
    }

    #[inline(always)]
    unsafe fn stream_line(&self, at: *mut u64, line: &[u64; LINE_WORDS]) {
        for (index, word) in line.iter().enumerate() {
            // SAFETY: the caller says that the line is writable and nobody else's.
            unsafe {
                std::arch::x86_64::_mm_stream_si64(
                    at.add(index).cast(),
                    i64::from_ne_bytes(word.to_ne_bytes()),
                );
            }
        }
    }

    #[inline(always)]
    unsafe fn flush(&self, at: *const u8) {
        // SAFETY: the instructions change no state but the cache's; `new` saw that they exist.
        unsafe {
            match self.write_back {
                WriteBack::Clwb => {
                    std::arch::asm!("clwb [{}]", in(reg) at, options(nostack, preserves_flags));
                }
                WriteBack::Clflushopt => {
                    std::arch::asm!("clflushopt [{}]", in(reg) at, options(nostack, preserves_flags));
                }
                WriteBack::Clflush => {
                    std::arch::asm!("clflush [{}]", in(reg) at, options(nostack, preserves_flags));
                }
            }
        }
    }

    #[inline(always)]
    fn fence(&self) {
        // SAFETY: SSE is part of x86-64.
        unsafe { std::arch::x86_64::_mm_sfence() }
    }

    #[inline]
    fn pause(&self) {
        // With more threads than CPUs the one that is waited for may not be running.
        std::thread::yield_now();
    }
}
