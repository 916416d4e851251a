// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether a region's allocator is in order, and what is allocated. Reads words through a function,
//! so that mapped memory and the bytes of a damaged file are checked by the same code. No address
//! that is read is followed before it is known to be that of an object.

use std::collections::BTreeMap;
use std::mem::offset_of;

use remanence_format::RemFofEntry;

use super::classes::{CLASS, CLASSES, Class, class_of};
use super::header::{
    CHUNK_BYTES, Chunk, Header, LISTS_OFFSET, ROOTS_OFFSET, SHARED_OFFSET, THREADS_OFFSET,
};
use super::runs::BINS;
use super::space::{Cache, ClassShared, Free, Thread};
use crate::fsck::{Allocated, Finding, Root, Usage, root_at};
use crate::layout::{ROOT_BYTES, ROOTS};

/// What was found.
#[derive(Debug, Default)]
pub struct Look {
    /// What no program leaves behind.
    pub findings: Vec<Finding>,
    /// What is allocated, without what threads keep.
    pub usage: Usage,
    /// Names of addresses.
    pub roots: Vec<Root>,
    /// What is allocated: address and bytes.
    pub objects: Vec<Allocated>,
}

/// Check a region whose header is in order.
#[must_use]
pub fn look(header: &Header, word: &dyn Fn(u64) -> u64) -> Look {
    let mut it = Looking {
        header,
        word,
        free: BTreeMap::new(),
        found: Look::default(),
    };
    let runs = it.table();
    it.bins(&runs);
    for class in 0..CLASSES {
        it.class(class);
    }
    it.threads();
    it.usage();
    it.roots();
    it.found
}

struct Looking<'a> {
    header: &'a Header,
    word: &'a dyn Fn(u64) -> u64,
    /// Of each slab, which objects are free or a thread's own: a bit each.
    free: BTreeMap<u64, Vec<u64>>,
    found: Look,
}

/// Offsets of the words of what lies in a region.
const NEXT: u64 = offset_of!(Free, next) as u64;
const NEXT_BATCH: u64 = offset_of!(Free, next_batch) as u64;
const LINKS: u64 = offset_of!(RemFofEntry, before) as u64;
const FRESH: u64 = offset_of!(ClassShared, fresh) as u64;
const FRESH_END: u64 = offset_of!(ClassShared, fresh_end) as u64;
const FULL: u64 = offset_of!(Cache, full) as u64;

impl Looking<'_> {
    fn report(&mut self, offset: u64, what: String) {
        self.found.findings.push(Finding { offset, what });
    }

    fn chunk(&self, chunk: u64) -> Chunk {
        Chunk::decode((self.word)(self.header.entry_offset(chunk)))
    }

    /// The free runs, by their first chunk.
    fn table(&mut self) -> BTreeMap<u64, u64> {
        let (mut runs, mut chunk) = (BTreeMap::new(), 0);
        while chunk < self.header.chunks {
            let entry = self.header.entry_offset(chunk);
            let what = self.chunk(chunk);
            let count = match what {
                Chunk::Slab(_) => 1,
                Chunk::Large(count) | Chunk::Free(count) => count,
                Chunk::Inside | Chunk::Impossible => {
                    let word = (self.word)(entry);
                    self.report(
                        entry,
                        format!("chunk {chunk}: word {word:#x} is impossible"),
                    );
                    1
                }
            };
            if count > self.header.chunks - chunk {
                self.report(entry, format!("chunk {chunk}: goes past the end"));
                break;
            }
            if let Chunk::Free(count) = what {
                runs.insert(chunk, count);
            }
            self.inside(chunk, count, what);
            chunk += count;
        }
        runs
    }

    /// The chunks of a run after its first one.
    fn inside(&mut self, first: u64, count: u64, what: Chunk) {
        for chunk in first + 1..first + count {
            let is_end = chunk + 1 == first + count && matches!(what, Chunk::Free(_));
            let wanted = if is_end { what } else { Chunk::Inside };
            if self.chunk(chunk) != wanted {
                let entry = self.header.entry_offset(chunk);
                self.report(entry, format!("chunk {chunk}: used twice"));
            }
        }
    }

    /// The lists have each free run once.
    fn bins(&mut self, runs: &BTreeMap<u64, u64>) {
        let mut seen = 0;
        for bin in 0..BINS {
            let at = LISTS_OFFSET as u64 + bin as u64 * 4;
            let halves = (self.word)(at & !7);
            let mut next = if at % 8 == 0 {
                halves as u32
            } else {
                (halves >> 32) as u32
            };
            let mut before = 0;
            while next != 0 && seen <= runs.len() {
                let first = u64::from(next) - 1;
                let fits = runs
                    .get(&first)
                    .is_some_and(|count| count.ilog2() as usize == bin);
                if !fits {
                    self.report(at, format!("list {bin} of free chunks has chunk {first}"));
                    return;
                }
                let links = (self.word)(self.header.entry_offset(first) + LINKS);
                if links as u32 != before {
                    self.report(
                        at,
                        format!("list {bin} of free chunks is broken at {first}"),
                    );
                    return;
                }
                seen += 1;
                (before, next) = (next, (links >> 32) as u32);
            }
        }
        if seen != runs.len() {
            let what = format!("{} runs of free chunks, {seen} in lists", runs.len());
            self.report(LISTS_OFFSET as u64, what);
        }
    }

    /// The class of the object that an address is of, and the object's slab and number in it.
    fn object(&self, address: u64) -> Option<(usize, u64, usize)> {
        let chunks = self.header.base + self.header.chunks_offset;
        let within = address.checked_sub(chunks)?;
        let chunk = within / CHUNK_BYTES as u64;
        if chunk >= self.header.chunks {
            return None;
        }
        let Chunk::Slab(class) = self.chunk(chunk) else {
            return None;
        };
        let into = (within % CHUNK_BYTES as u64) as usize;
        let Class {
            size_bytes: size,
            count,
            ..
        } = CLASS[class];
        (into % size == 0 && into / size < count).then_some((class, chunk, into / size))
    }

    fn offset(&self, address: u64) -> u64 {
        address.wrapping_sub(self.header.base)
    }

    /// Note that an object is free. Says no, and what is wrong, if it is none of the class, or was
    /// noted before.
    fn note(&mut self, class: usize, address: u64, by: &str) -> bool {
        match self.object(address) {
            Some((found, chunk, index)) if found == class => {
                let words = CLASS[class].count.div_ceil(64);
                let bits = self.free.entry(chunk).or_insert_with(|| vec![0; words]);
                let bit = 1 << (index % 64);
                if bits[index / 64] & bit == 0 {
                    bits[index / 64] |= bit;
                    return true;
                }
                let offset = self.offset(address);
                self.report(offset, format!("{by}: an object that is free twice"));
            }
            _ => {
                let offset = self.offset(address);
                self.report(offset, format!("{by}: {address:#x} is no object of it"));
            }
        }
        false
    }

    /// Note all objects of a list. Their number, or none if the list is broken.
    fn list(&mut self, class: usize, mut address: u64, by: &str) -> Option<usize> {
        let mut count = 0;
        while address != 0 {
            if !self.note(class, address, by) {
                return None;
            }
            count += 1;
            address = (self.word)(self.offset(address) + NEXT);
        }
        Some(count)
    }

    fn batch(&mut self, class: usize, address: u64, by: &str) -> bool {
        match self.list(class, address, by) {
            Some(count) if count == CLASS[class].batch => true,
            Some(count) => {
                let offset = self.offset(address);
                self.report(offset, format!("{by}: a batch of {count} objects"));
                false
            }
            None => false,
        }
    }

    /// What threads share of a class.
    fn class(&mut self, class: usize) {
        let by = format!("class of {} bytes", CLASS[class].size_bytes);
        let at = SHARED_OFFSET as u64 + (class * size_of::<ClassShared>()) as u64;
        let mut batch = (self.word)(at);
        while batch != 0 {
            if !self.batch(class, batch, &by) {
                break;
            }
            batch = (self.word)(self.offset(batch) + NEXT_BATCH);
        }
        let (fresh, end) = ((self.word)(at + FRESH), (self.word)(at + FRESH_END));
        let Class {
            size_bytes: size,
            count,
            ..
        } = CLASS[class];
        if fresh == end {
            return;
        }
        let Some((_, _, index)) = self.object(fresh) else {
            return self.report(at, format!("{by}: fresh memory at {fresh:#x}"));
        };
        let left = count - index;
        if end != fresh + (left * size) as u64 {
            return self.report(at, format!("{by}: fresh memory up to {end:#x}"));
        }
        for object in 0..left {
            if !self.note(class, fresh + (object * size) as u64, &by) {
                return;
            }
        }
    }

    /// What each thread keeps.
    fn threads(&mut self) {
        let Some(own) = class_of(size_of::<Thread>(), align_of::<Thread>()) else {
            return;
        };
        let mut thread = (self.word)(THREADS_OFFSET as u64);
        while thread != 0 {
            // The thread's object is none that a program has.
            if !self.note(own, thread, "the list of threads") {
                return;
            }
            let at = self.offset(thread);
            for (class, kind) in CLASS.iter().enumerate() {
                let by = format!("a thread's objects of {} bytes", kind.size_bytes);
                let cache = at + (offset_of!(Thread, caches) + class * size_of::<Cache>()) as u64;
                if self.list(class, (self.word)(cache), &by).is_none() {
                    return;
                }
                let full = (self.word)(cache + FULL);
                if full != 0 && !self.batch(class, full, &by) {
                    return;
                }
            }
            thread = (self.word)(at);
        }
    }

    fn usage(&mut self) {
        let mut usage = Usage {
            capacity_bytes: self.header.chunks * CHUNK_BYTES as u64,
            ..Usage::default()
        };
        let mut chunk = 0;
        while chunk < self.header.chunks {
            match self.chunk(chunk) {
                Chunk::Slab(class) => {
                    let free = self.free.get(&chunk);
                    let size = CLASS[class].size_bytes as u64;
                    let start = self.header.base + self.header.chunk_offset(chunk);
                    let live = (0..CLASS[class].count as u64)
                        .filter(|index| !is_noted(free, *index as usize))
                        .map(|index| (start + index * size, size));
                    self.found.objects.extend(live);
                    usage.chunk_bytes += CHUNK_BYTES as u64;
                    chunk += 1;
                }
                Chunk::Large(count) if count <= self.header.chunks - chunk => {
                    let bytes = count * CHUNK_BYTES as u64;
                    let start = self.header.base + self.header.chunk_offset(chunk);
                    self.found.objects.push((start, bytes));
                    usage.chunk_bytes += bytes;
                    chunk += count;
                }
                Chunk::Free(count) => chunk = chunk.saturating_add(count),
                _ => chunk += 1,
            }
        }
        usage.objects = self.found.objects.len() as u64;
        usage.object_bytes = self.found.objects.iter().map(|object| object.1).sum();
        self.found.usage = usage;
    }

    /// A root leads to an object that is allocated, or into one.
    fn roots(&mut self) {
        for index in 0..ROOTS {
            let at = ROOTS_OFFSET as u64 + index * ROOT_BYTES;
            let Some(root) = root_at(self.word, at) else {
                continue;
            };
            if !self.is_allocated(root.offset) {
                self.report(at, format!("root {:?} leads to no object", root.name));
            }
            self.found.roots.push(root);
        }
    }

    fn is_allocated(&self, address: u64) -> bool {
        let chunks = self.header.base + self.header.chunks_offset;
        let Some(within) = address.checked_sub(chunks) else {
            return false;
        };
        let mut chunk = within / CHUNK_BYTES as u64;
        if chunk >= self.header.chunks {
            return false;
        }
        match self.chunk(chunk) {
            Chunk::Slab(class) => {
                let index = (within % CHUNK_BYTES as u64) as usize / CLASS[class].size_bytes;
                index < CLASS[class].count && !is_noted(self.free.get(&chunk), index)
            }
            Chunk::Large(_) => true,
            Chunk::Inside => {
                // Of a large object, if its first chunk says so.
                while chunk > 0 && self.chunk(chunk) == Chunk::Inside {
                    chunk -= 1;
                }
                matches!(self.chunk(chunk), Chunk::Large(_))
            }
            Chunk::Free(_) | Chunk::Impossible => false,
        }
    }
}

fn is_noted(bits: Option<&Vec<u64>>, index: usize) -> bool {
    bits.is_some_and(|bits| (bits[index / 64] >> (index % 64)) & 1 != 0)
}
