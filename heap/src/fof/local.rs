// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A thread's allocator: lists of free objects by class, without a lock. It reads nothing but
//! the object.

use std::alloc::Layout;
use std::fmt;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use super::classes::{CLASS, class_of};
use super::header::{CHUNK_BYTES, Chunk};
use super::memory::Memory;
use super::region::Inner;
use super::space::{Free, Thread};

/// A thread's part of a region: it allocates and frees. A thread that ends leaves its free objects to
/// the next one.
pub struct Local {
    thread: NonNull<Thread>,
    inner: Arc<Inner>,
}

// SAFETY: nobody else has its `Thread` while this lives.
unsafe impl Send for Local {}

impl fmt::Debug for Local {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Local").finish_non_exhaustive()
    }
}

impl Local {
    /// Of a region that has memory for it.
    pub(super) fn new(inner: Arc<Inner>) -> Option<Self> {
        let thread = inner.space.thread()?;
        inner.join();
        Some(Self { thread, inner })
    }

    #[inline(always)]
    fn alloc_small(&mut self, class: usize) -> Option<NonNull<u8>> {
        // SAFETY: the thread is ours, and its lists are of free objects.
        unsafe {
            let cache = &raw mut (*self.thread.as_ptr()).caches[class];
            let object = (*cache).free;
            if object.is_null() {
                return self.refill(class);
            }
            (*cache).free = (*object).next;
            (*cache).count = (*cache).count.wrapping_sub(1);
            Some(NonNull::new_unchecked(object.cast()))
        }
    }

    #[cold]
    #[inline(never)]
    fn refill(&mut self, class: usize) -> Option<NonNull<u8>> {
        // SAFETY: the thread is ours; a whole batch is a list of free objects.
        let cache = unsafe { &mut (*self.thread.as_ptr()).caches[class] };
        let (list, count) = if cache.full.is_null() {
            self.inner.space.refill(class)?.into_list(class)
        } else {
            let full = std::mem::replace(&mut cache.full, ptr::null_mut());
            (full, CLASS[class].batch)
        };
        // SAFETY: lists have at least one object.
        cache.free = unsafe { (*list).next };
        cache.count = count - 1;
        NonNull::new(list.cast())
    }

    #[cold]
    fn alloc_large(&mut self, layout: Layout) -> Option<NonNull<u8>> {
        if layout.align() > CHUNK_BYTES {
            return None;
        }
        self.inner.space.take_large(layout.size())
    }

    #[cold]
    fn free_large(&mut self, at: NonNull<u8>) {
        if let Some(Chunk::Large(count)) = self.inner.space.chunk_of(at.as_ptr()) {
            self.inner.space.give_large(at.as_ptr(), count);
        }
    }

    /// # Safety
    /// An object of that class that nobody uses again.
    #[inline(always)]
    unsafe fn free_small(&mut self, object: *mut Free, class: usize) {
        // SAFETY: the thread is ours, and so is the object now.
        unsafe {
            let cache = &raw mut (*self.thread.as_ptr()).caches[class];
            if (*cache).count == CLASS[class].batch {
                self.retire(class);
            }
            (*object).next = (*cache).free;
            (*cache).free = object;
            (*cache).count = (*cache).count.wrapping_add(1);
        }
    }

    /// The list has become a whole batch. A process that dies between two of these stores leaves a
    /// batch that nobody has, never one in two lists.
    #[cold]
    #[inline(never)]
    fn retire(&mut self, class: usize) {
        // SAFETY: the thread is ours; both lists are whole batches.
        unsafe {
            let cache = &raw mut (*self.thread.as_ptr()).caches[class];
            let full = std::mem::replace(&mut (*cache).free, ptr::null_mut());
            (*cache).count = 0;
            let before = std::mem::replace(&mut (*cache).full, full);
            if !before.is_null() {
                self.inner.space.give_batch(class, before);
            }
        }
    }
}

// SAFETY: an object is in one list, or a thread's own; lists of a class hold objects of its size,
// which a slab has at multiples of it.
unsafe impl Memory for Local {
    /// None if the region is full, or the alignment is above that of a chunk.
    #[inline(always)]
    fn alloc(&mut self, layout: Layout) -> Option<NonNull<u8>> {
        match class_of(layout.size(), layout.align()) {
            Some(class) => self.alloc_small(class),
            None => self.alloc_large(layout),
        }
    }

    /// Any thread may free what any thread of the region has allocated, in this opening or an
    /// earlier one.
    #[inline(always)]
    unsafe fn free(&mut self, at: NonNull<u8>, layout: Layout) {
        match class_of(layout.size(), layout.align()) {
            // SAFETY: as the caller says.
            Some(class) => unsafe { self.free_small(at.as_ptr().cast(), class) },
            None => self.free_large(at),
        }
    }

    #[inline(always)]
    unsafe fn free_unsized(&mut self, at: NonNull<u8>) -> bool {
        match self.inner.space.chunk_of(at.as_ptr()) {
            Some(Chunk::Slab(class)) => {
                // SAFETY: as the caller says.
                unsafe { self.free_small(at.as_ptr().cast(), class) };
                true
            }
            Some(Chunk::Large(_)) => {
                self.free_large(at);
                true
            }
            _ => false,
        }
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // What the thread was about to change may be half done.
            self.inner.poison();
        }
        // SAFETY: the thread is ours; from here on it is nobody's.
        unsafe { self.inner.space.leave(self.thread) };
        self.inner.leave();
    }
}
