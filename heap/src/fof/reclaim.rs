// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Slabs without an object become free chunks again, so that other sizes can have their memory.

use std::collections::{BTreeMap, BTreeSet};
use std::ptr;

use super::classes::CLASS;
use super::header::Chunk;
use super::space::{ClassShared, Free, Space, Thread};

/// Free the slabs without an object. Returns how many they were.
///
/// # Safety
/// No thread has a part of the region.
pub unsafe fn reclaim(space: &Space) -> u64 {
    let mut reclaimed = 0;
    for (class, kind) in CLASS.iter().enumerate() {
        // SAFETY: as the caller says.
        let free = unsafe { take_all(space, class) };
        let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
        for object in &free {
            *counts.entry(space.number_of(object.cast())).or_default() += 1;
        }
        let empty: BTreeSet<usize> = counts
            .into_iter()
            .filter(|(_, count)| *count == kind.count)
            .map(|(chunk, _)| chunk)
            .collect();
        let kept = free
            .into_iter()
            .filter(|object| !empty.contains(&space.number_of(object.cast())));
        // SAFETY: as the caller says; the objects are free, and in no list any more.
        unsafe { give_all(space, class, kept.collect()) };
        reclaimed += empty.len() as u64;
        for chunk in empty {
            space.give_chunk(chunk);
        }
    }
    reclaimed
}

/// All threads' parts.
fn threads(space: &Space) -> Vec<*mut Thread> {
    let mut found = Vec::new();
    // SAFETY: the list is of objects that are never freed.
    unsafe {
        let mut thread = (*space.shared()).threads;
        while !thread.is_null() {
            found.push(thread);
            thread = (*thread).next;
        }
    }
    found
}

/// Every free object of a class, the lowest last; all lists are empty then.
///
/// # Safety
/// As [`reclaim`].
unsafe fn take_all(space: &Space, class: usize) -> Vec<*mut Free> {
    let mut found = Vec::new();
    let mut list = |mut object: *mut Free| {
        while !object.is_null() {
            found.push(object);
            // SAFETY: lists are of free objects.
            object = unsafe { (*object).next };
        }
    };
    // SAFETY: as the caller says, nobody else uses any of it.
    unsafe {
        let shared: &mut ClassShared = &mut (*space.shared()).classes[class];
        while !shared.batches.is_null() {
            let batch = shared.batches;
            shared.batches = (*batch).next_batch;
            list(batch);
        }
        for thread in threads(space) {
            let cache = &mut (*thread).caches[class];
            list(std::mem::replace(&mut cache.free, ptr::null_mut()));
            list(std::mem::replace(&mut cache.full, ptr::null_mut()));
            cache.count = 0;
        }
        while shared.fresh != shared.fresh_end {
            found.push(shared.fresh.cast());
            shared.fresh = shared.fresh.wrapping_add(CLASS[class].size_bytes);
        }
    }
    found.sort_unstable_by(|a, b| b.cmp(a));
    found
}

/// Put free objects into lists: whole batches for all threads, the rest for one.
///
/// # Safety
/// As [`reclaim`]; the objects are free and in no list.
unsafe fn give_all(space: &Space, class: usize, objects: Vec<*mut Free>) {
    let whole = objects.len() / CLASS[class].batch * CLASS[class].batch;
    let link = |objects: &[*mut Free]| {
        let mut list = ptr::null_mut();
        for object in objects {
            // SAFETY: a free object.
            unsafe { (**object).next = list };
            list = *object;
        }
        list
    };
    for batch in objects[..whole].chunks(CLASS[class].batch) {
        // SAFETY: as many free objects as a batch has.
        unsafe { space.give_batch(class, link(batch)) };
    }
    if let Some(thread) = threads(space).first() {
        let rest = &objects[whole..];
        // SAFETY: as the caller says, no thread has it.
        unsafe {
            (**thread).caches[class].free = link(rest);
            (**thread).caches[class].count = rest.len();
        }
    }
}

impl Space {
    /// A slab has become a free chunk.
    fn give_chunk(&self, chunk: usize) {
        let at = self.chunk(chunk as u64);
        debug_assert!(matches!(self.chunk_of(at), Some(Chunk::Slab(_))));
        self.give_large(at, 1);
    }
}
