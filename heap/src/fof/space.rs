// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The allocator's part that threads share: batches of free objects, slabs that are not yet divided,
//! free chunks, and what each thread keeps for itself. All of it lies in the region, as plain memory:
//! after a Stop and a Go it is what it was. Only the lock is the process's own.

use std::mem::offset_of;
use std::ptr::{self, NonNull};
use std::sync::{Mutex, MutexGuard, PoisonError};

use remanence_format::{RemFofCache, RemFofClass, RemFofThread};

use super::classes::{CLASS, CLASSES, class_of};
use super::header::{
    CHUNK_BYTES, Chunk, ENTRY_BYTES, Header, LISTS_OFFSET, OPENING_OFFSET, SHARED_OFFSET,
    TABLE_OFFSET, THREADS_OFFSET,
};
use super::runs::{BINS, Entry, Runs};

/// What a free object holds.
#[derive(Debug)]
#[repr(C)]
pub struct Free {
    /// The next one of its list.
    pub next: *mut Free,
    /// In the first of a batch: the next batch.
    pub next_batch: *mut Free,
}

/// What threads share of a class.
#[derive(Debug)]
#[repr(C)]
pub struct ClassShared {
    /// Whole batches.
    pub batches: *mut Free,
    /// The part of a slab that was never given out.
    pub fresh: *mut u8,
    /// Its end.
    pub fresh_end: *mut u8,
}

/// What threads share.
#[derive(Debug)]
#[repr(C)]
pub struct Shared {
    /// By class.
    pub classes: [ClassShared; CLASSES],
    /// Lists of free chunks.
    bins: [u32; BINS],
    /// What each thread keeps, in a list.
    pub threads: *mut Thread,
}

const _: () = assert!(SHARED_OFFSET + size_of::<Shared>() <= TABLE_OFFSET);
const _: () = assert!(size_of::<Entry>() == ENTRY_BYTES);
const _: () = assert!(size_of::<ClassShared>() == RemFofClass::BYTES);
const _: () = assert!(offset_of!(ClassShared, fresh) == offset_of!(RemFofClass, fresh));
const _: () = assert!(offset_of!(ClassShared, fresh_end) == offset_of!(RemFofClass, fresh_end));
const _: () = assert!(size_of::<Cache>() == RemFofCache::BYTES);
const _: () = assert!(offset_of!(Cache, full) == offset_of!(RemFofCache, full));
const _: () = assert!(offset_of!(Cache, count) == offset_of!(RemFofCache, count));
const _: () = assert!(offset_of!(Thread, opening) == offset_of!(RemFofThread, opening));
const _: () = assert!(offset_of!(Thread, caches) == RemFofThread::BYTES);
const _: () = assert!(SHARED_OFFSET + offset_of!(Shared, bins) == LISTS_OFFSET);
const _: () = assert!(SHARED_OFFSET + offset_of!(Shared, threads) == THREADS_OFFSET);

/// What a thread keeps of a class: at most two batches.
#[derive(Debug)]
#[repr(C)]
pub struct Cache {
    /// Free objects, the last freed first.
    pub free: *mut Free,
    /// A whole batch, or null.
    pub full: *mut Free,
    /// Objects in `free`.
    pub count: usize,
    spare: usize,
}

/// What a thread keeps. When the thread ends it stays, for the next one.
#[derive(Debug)]
#[repr(C)]
pub struct Thread {
    /// The next in the list.
    pub next: *mut Thread,
    /// The opening in which a thread has it: in any other one nobody has.
    pub opening: u64,
    spare: [u64; 6],
    /// By class.
    pub caches: [Cache; CLASSES],
}

/// What a thread gets when it has no free object of a class.
#[derive(Debug)]
pub enum Refill {
    /// A list of as many as a batch has.
    Batch(*mut Free),
    /// Memory that was never given out, for at most a batch.
    Fresh(*mut u8, usize),
}

/// A region's memory, by what it is divided into.
#[derive(Debug)]
pub struct Space {
    base: *mut u8,
    header: Header,
    lock: Mutex<()>,
}

// SAFETY: what threads share is changed under the lock only.
unsafe impl Send for Space {}
// SAFETY: as above.
unsafe impl Sync for Space {}

impl Space {
    /// Of a region that is mapped at `base`.
    ///
    /// # Safety
    /// The memory is mapped and writable as long as this lives, was divided as the header says, and
    /// nothing else changes it but the objects' owners.
    pub unsafe fn new(base: *mut u8, header: Header) -> Self {
        Self {
            base,
            header,
            lock: Mutex::default(),
        }
    }

    /// The region's header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// A place in the region.
    #[inline(always)]
    pub fn at(&self, offset: usize) -> *mut u8 {
        self.base.wrapping_add(offset)
    }

    /// Its holder may change what threads share.
    pub fn lock(&self) -> MutexGuard<'_, ()> {
        // A panic within is an index out of bounds: the lists are in order, if perhaps shorter.
        self.lock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What threads share. Only under the lock is it anyone's to use.
    pub fn shared(&self) -> *mut Shared {
        self.at(SHARED_OFFSET).cast()
    }

    #[inline(always)]
    fn entry(&self, chunk: usize) -> *mut Entry {
        self.at(TABLE_OFFSET).cast::<Entry>().wrapping_add(chunk)
    }

    /// Use the free chunks; the caller holds the lock.
    fn runs<R>(&self, _: &MutexGuard<'_, ()>, work: impl FnOnce(&mut Runs<'_>) -> R) -> R {
        // SAFETY: both lie in the region, and the lock makes them ours.
        let (bins, table) = unsafe {
            let bins = &mut (*self.shared()).bins;
            let chunks = self.header.chunks as usize;
            (bins, std::slice::from_raw_parts_mut(self.entry(0), chunks))
        };
        work(&mut Runs::new(bins, table))
    }

    /// Make all chunks free: the region was just made, and what precedes the chunks is zero.
    pub fn format(&self) {
        let guard = self.lock();
        self.runs(&guard, |runs| runs.give(0, self.header.chunks));
    }

    /// The number of the chunk that holds an address.
    #[inline(always)]
    pub fn number_of(&self, at: *mut u8) -> usize {
        let first = self.base as usize + self.header.chunks_offset as usize;
        (at as usize).wrapping_sub(first) / CHUNK_BYTES
    }

    /// What the chunk is that holds an address; none if no chunk does.
    #[inline(always)]
    pub fn chunk_of(&self, at: *mut u8) -> Option<Chunk> {
        let chunk = self.number_of(at);
        if chunk >= self.header.chunks as usize {
            return None;
        }
        // SAFETY: an entry of the table; that of a chunk with a live object does not change.
        let word = unsafe { (*self.entry(chunk)).word };
        Some(Chunk::decode(word))
    }

    /// Where a chunk is.
    pub fn chunk(&self, chunk: u64) -> *mut u8 {
        self.at(self.header.chunk_offset(chunk) as usize)
    }

    /// Chunks of its own for a large object.
    pub fn take_large(&self, bytes: usize) -> Option<NonNull<u8>> {
        let count = bytes.div_ceil(CHUNK_BYTES) as u64;
        let guard = self.lock();
        let first = self.take_chunks(&guard, count, Chunk::Large(count))?;
        NonNull::new(self.chunk(first))
    }

    /// The chunks of the large object at an address are free again.
    pub fn give_large(&self, at: *mut u8, count: u64) {
        let chunk = self.number_of(at) as u64;
        let guard = self.lock();
        self.runs(&guard, |runs| runs.give(chunk, count));
    }

    fn take_chunks(&self, guard: &MutexGuard<'_, ()>, count: u64, what: Chunk) -> Option<u64> {
        let first = self.runs(guard, |runs| runs.take(count))?;
        // SAFETY: the entry of a chunk that was just taken.
        unsafe { (*self.entry(first as usize)).word = what.encode() };
        Some(first)
    }

    /// Free objects of a class.
    pub fn refill(&self, class: usize) -> Option<Refill> {
        let guard = self.lock();
        self.refill_locked(&guard, class)
    }

    fn refill_locked(&self, guard: &MutexGuard<'_, ()>, class: usize) -> Option<Refill> {
        let kind = &CLASS[class];
        // SAFETY: under the lock what threads share is ours; batches are lists of free objects.
        let shared = unsafe { &mut (*self.shared()).classes[class] };
        if !shared.batches.is_null() {
            let batch = shared.batches;
            // SAFETY: as above.
            shared.batches = unsafe { (*batch).next_batch };
            return Some(Refill::Batch(batch));
        }
        if shared.fresh == shared.fresh_end {
            let chunk = self.take_chunks(guard, 1, Chunk::Slab(class))?;
            shared.fresh = self.chunk(chunk);
            shared.fresh_end = shared.fresh.wrapping_add(kind.count * kind.size_bytes);
        }
        let left = (shared.fresh_end as usize - shared.fresh as usize) / kind.size_bytes;
        let count = left.min(kind.batch);
        let fresh = shared.fresh;
        shared.fresh = fresh.wrapping_add(count * kind.size_bytes);
        Some(Refill::Fresh(fresh, count))
    }

    /// A batch that a thread has no use for.
    ///
    /// # Safety
    /// It is a list of as many free objects of the class as a batch has, and nobody else has it.
    pub unsafe fn give_batch(&self, class: usize, batch: *mut Free) {
        let _guard = self.lock();
        // SAFETY: under the lock what threads share is ours; the batch is the caller's.
        unsafe {
            let shared = &mut (*self.shared()).classes[class];
            (*batch).next_batch = shared.batches;
            shared.batches = batch;
        }
    }

    /// The number of this opening.
    fn opening(&self) -> u64 {
        // SAFETY: a word of the state, written once per opening.
        unsafe { *self.at(OPENING_OFFSET).cast::<u64>() }
    }

    /// What a thread keeps: what one that ended has left, or new.
    pub fn thread(&self) -> Option<NonNull<Thread>> {
        let opening = self.opening();
        let guard = self.lock();
        // SAFETY: under the lock the list is ours; its members are objects that are never freed.
        unsafe {
            let mut at = (*self.shared()).threads;
            while !at.is_null() {
                if (*at).opening != opening {
                    (*at).opening = opening;
                    return NonNull::new(at);
                }
                at = (*at).next;
            }
        }
        let class = class_of(size_of::<Thread>(), align_of::<Thread>())?;
        let (list, count) = self.refill_locked(&guard, class)?.into_list(class);
        // SAFETY: the first object of a list of free ones becomes the thread's, the others are kept
        // by it; the list of threads is ours under the lock.
        unsafe {
            let rest = (*list).next;
            let made = list.cast::<Thread>();
            ptr::write_bytes(made, 0, 1);
            (*made).caches[class].free = rest;
            (*made).caches[class].count = count - 1;
            (*made).opening = opening;
            (*made).next = (*self.shared()).threads;
            (*self.shared()).threads = made;
            Some(NonNull::new_unchecked(made))
        }
    }
}

impl Space {
    /// A thread has ended: what it kept is the next one's.
    ///
    /// # Safety
    /// It is from [`Space::thread`], and is not used again.
    pub unsafe fn leave(&self, thread: NonNull<Thread>) {
        let _guard = self.lock();
        // SAFETY: as the caller says; under the lock others look at it.
        unsafe { (*thread.as_ptr()).opening = 0 };
    }

    /// Correct what a process that died in the middle of it has left: numbers of objects in lists
    /// whose links are in order.
    pub fn recount(&self) {
        let _guard = self.lock();
        // SAFETY: no thread has a part of this opening yet, and `check` found the lists in order.
        unsafe {
            let mut thread = (*self.shared()).threads;
            while !thread.is_null() {
                for (cache, class) in (*thread).caches.iter_mut().zip(&CLASS) {
                    let mut count = 0;
                    let mut object = cache.free;
                    while !object.is_null() {
                        count += 1;
                        object = (*object).next;
                    }
                    while count > class.batch {
                        // One that was being given away: it is lost.
                        cache.free = (*cache.free).next;
                        count -= 1;
                    }
                    cache.count = count;
                }
                thread = (*thread).next;
            }
        }
    }

    /// Call `each` with (offset, bytes) of every part that is in use, under the lock.
    pub fn used(&self, _: &MutexGuard<'_, ()>, mut each: impl FnMut(usize, usize)) {
        let mut table_end = TABLE_OFFSET;
        let mut chunk = 0;
        while chunk < self.header.chunks {
            // SAFETY: an entry of the table, under the lock.
            let word = unsafe { (*self.entry(chunk as usize)).word };
            let count = match Chunk::decode(word) {
                Chunk::Free(count) => {
                    let last = self.header.entry_offset(chunk + count - 1) as usize;
                    each(last, ENTRY_BYTES);
                    count
                }
                what => {
                    let count = if let Chunk::Large(count) = what {
                        count
                    } else {
                        1
                    };
                    let offset = self.header.chunk_offset(chunk) as usize;
                    each(offset, count as usize * CHUNK_BYTES);
                    count
                }
            };
            table_end = self.header.entry_offset(chunk + 1) as usize;
            chunk += count;
        }
        each(0, table_end);
    }
}

impl Refill {
    /// A list of free objects, the lowest first, and how many they are.
    pub fn into_list(self, class: usize) -> (*mut Free, usize) {
        match self {
            Self::Batch(list) => (list, CLASS[class].batch),
            Self::Fresh(fresh, count) => {
                let mut list = ptr::null_mut();
                for index in (0..count).rev() {
                    let object = fresh
                        .wrapping_add(index * CLASS[class].size_bytes)
                        .cast::<Free>();
                    // SAFETY: memory of a slab that was never given out, for so many objects.
                    unsafe { (*object).next = list };
                    list = object;
                }
                (list, count)
            }
        }
    }
}
