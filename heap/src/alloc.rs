// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The allocator's volatile side: which objects and chunks may be given out.
//!
//! Persistent are only a word for each chunk (`Chunk`) and a byte for each object of a slab, and
//! both change in the record of the transaction that allocates or frees: no cut loses an object or
//! leaks one. All lists here are rebuilt from them, little by little, while
//! objects are allocated; opening a region reads none.
//!
//! A slab's free objects belong to one owner at a time: the map (its slab is not *harvested* since
//! the opening), a session's list, or the depot.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::classes::{CLASS, CLASSES};
use crate::layout::{CHUNK_BYTES, Layout};

/// Chunks examined at a time when memory is allocated.
const LOOK_CHUNKS: u64 = 64;

/// The meaning of a chunk's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chunk {
    /// Nothing, or the rest of the large object before it.
    Free,
    /// Objects of a class.
    Slab(usize),
    /// A large object: (chunks, bytes requested).
    Large(u64, u64),
    /// What no program writes.
    Impossible,
}

const KIND_SLAB: u64 = 1 << 56;
const KIND_LARGE: u64 = 2 << 56;

impl Chunk {
    /// The word that says it.
    #[must_use]
    pub fn encode(self) -> u64 {
        match self {
            Self::Free | Self::Impossible => 0,
            Self::Slab(class) => KIND_SLAB | class as u64,
            Self::Large(_, bytes) => KIND_LARGE | bytes,
        }
    }

    /// What a word says.
    #[must_use]
    #[inline(always)]
    pub fn decode(word: u64) -> Self {
        let rest = word & ((1 << 56) - 1);
        match word >> 56 {
            0 if rest == 0 => Self::Free,
            1 if rest < CLASSES as u64 => Self::Slab(rest as usize),
            2 if rest > 0 && rest < 1 << 47 => Self::Large(rest.div_ceil(CHUNK_BYTES), rest),
            _ => Self::Impossible,
        }
    }
}

/// An object as the allocator sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Object {
    /// In a slab: its class, and where its byte in the map is.
    Small(u8, u64),
    /// With chunks of its own: first and number.
    Large(u32, u32),
}

const UNKNOWN: u8 = 0;
const LOCKED: u8 = 1;
const HARVESTED: u8 = 2;

/// Free runs of chunks, and how far the table has been looked at.
#[derive(Debug, Default)]
struct Pool {
    runs: BTreeMap<u64, u64>,
    looked: u64,
    /// Objects beyond that which a commit is freeing: whether their words still say so is open.
    leaving: BTreeMap<u64, u64>,
}

#[derive(Debug, Default)]
struct Depot {
    /// Lists of free objects that sessions gave back.
    lists: Vec<Vec<u64>>,
    /// Slabs whose map nobody has looked at since the opening.
    slabs: Vec<u64>,
}

/// The volatile side.
#[derive(Debug)]
pub struct Alloc {
    pool: Mutex<Pool>,
    depots: Box<[Mutex<Depot>]>,
    states: Box<[AtomicU8]>,
    chunks: u64,
}

/// What a session gets when its list of a class is empty.
#[derive(Debug)]
pub enum Refill {
    /// Free objects.
    Objects(Vec<u64>),
    /// A slab whose map is to be read, under [`Alloc::lock_slab`].
    Harvest(u64),
    /// A free chunk, to be made a slab.
    Fresh(u64),
    /// Nothing is left.
    Nothing,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic within leaves lists that are valid, if perhaps shorter.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Alloc {
    /// Of a region of which nothing has been looked at.
    pub fn new(layout: &Layout) -> Self {
        let count = usize::try_from(layout.chunks).unwrap_or(usize::MAX);
        Self {
            pool: Mutex::default(),
            depots: (0..CLASSES).map(|_| Mutex::default()).collect(),
            states: zeroed_bytes(count),
            chunks: layout.chunks,
        }
    }

    /// More free objects of a class. `word` reads a chunk's word.
    pub fn refill(&self, class: usize, word: &impl Fn(u64) -> u64) -> Refill {
        loop {
            {
                let mut depot = lock(&self.depots[class]);
                if let Some(list) = depot.lists.pop() {
                    return Refill::Objects(list);
                }
                if let Some(chunk) = depot.slabs.pop() {
                    return Refill::Harvest(chunk);
                }
            }
            let mut pool = lock(&self.pool);
            if pool.looked < self.chunks && pool.runs.is_empty() {
                self.look(&mut pool, word);
                continue;
            }
            if let Some(chunk) = pool.take(1) {
                return Refill::Fresh(chunk);
            }
            if pool.looked == self.chunks {
                // Another session may have given objects back meanwhile.
                drop(pool);
                return match lock(&self.depots[class]).lists.pop() {
                    Some(list) => Refill::Objects(list),
                    None => Refill::Nothing,
                };
            }
            self.look(&mut pool, word);
        }
    }

    /// Chunks in a row for a large object.
    pub fn take_run(&self, count: u64, word: &impl Fn(u64) -> u64) -> Option<u64> {
        let mut pool = lock(&self.pool);
        loop {
            if let Some(first) = pool.take(count) {
                return Some(first);
            }
            if pool.looked == self.chunks {
                return None;
            }
            self.look(&mut pool, word);
        }
    }

    /// A commit is about to free an object: [`Alloc::give_run`] follows when its word says so. Until
    /// then a scan does not take these chunks for free, nor for an object that stays.
    pub fn leave_run(&self, first: u64, count: u64) {
        let mut pool = lock(&self.pool);
        if first >= pool.looked {
            pool.leaving.insert(first, count);
        }
    }

    /// Chunks are free again. Those that were not looked at stay for the look, which finds them free.
    pub fn give_run(&self, first: u64, count: u64) {
        let mut pool = lock(&self.pool);
        pool.leaving.remove(&first);
        if first < pool.looked {
            pool.give(first, count);
        }
    }

    /// Free objects that a session has no use for.
    pub fn give_list(&self, class: usize, list: Vec<u64>) {
        if !list.is_empty() {
            lock(&self.depots[class]).lists.push(list);
        }
    }

    /// Look at the next chunks of the table: in one go all that are surely needed, none twice.
    fn look(&self, pool: &mut Pool, word: &impl Fn(u64) -> u64) {
        let end = (pool.looked + LOOK_CHUNKS).min(self.chunks);
        while pool.looked < end {
            let chunk = pool.looked;
            if let Some(count) = pool.leaving.get(&chunk) {
                pool.looked = (chunk + count).min(self.chunks);
                continue;
            }
            pool.looked += 1;
            match Chunk::decode(word(chunk)) {
                Chunk::Free => pool.give(chunk, 1),
                Chunk::Slab(class) => lock(&self.depots[class]).slabs.push(chunk),
                Chunk::Large(count, _) => pool.looked = (chunk + count).min(self.chunks),
                Chunk::Impossible => {} // never given out; `nvheap check` reports it
            }
        }
    }

    /// Whether free objects of a slab are in lists: then one more may be put there.
    #[inline(always)]
    pub fn is_harvested(&self, chunk: u64) -> bool {
        self.states[chunk as usize].load(Ordering::Acquire) == HARVESTED
    }

    /// Have a slab's map alone. Says whether it is harvested already.
    pub fn lock_slab(&self, chunk: u64, pause: &impl Fn()) -> bool {
        let state = &self.states[chunk as usize];
        loop {
            let order = Ordering::Acquire;
            match state.compare_exchange(UNKNOWN, LOCKED, order, order) {
                Ok(_) => return false,
                Err(HARVESTED) => return true,
                Err(_) => pause(),
            }
        }
    }

    /// Releases the map after [`Alloc::lock_slab`] refused it.
    pub fn unlock_slab(&self, chunk: u64, harvested: bool) {
        let state = if harvested { HARVESTED } else { UNKNOWN };
        self.states[chunk as usize].store(state, Ordering::Release);
    }

    /// A chunk stops to be a slab.
    pub fn forget(&self, chunk: u64) {
        self.states[chunk as usize].store(UNKNOWN, Ordering::Release);
    }

    /// Forgets all lists: they are rebuilt. There must be no session.
    pub fn reset(&mut self) {
        *lock(&self.pool) = Pool::default();
        for depot in &self.depots {
            *lock(depot) = Depot::default();
        }
        for state in &mut self.states {
            *state.get_mut() = UNKNOWN;
        }
    }
}

/// Zeroed without being touched, so that the time does not depend on how many there are.
fn zeroed_bytes(count: usize) -> Box<[AtomicU8]> {
    let zeroed = vec![0_u8; count].into_boxed_slice();
    // SAFETY: `AtomicU8` has the layout of `u8`.
    unsafe { Box::from_raw(Box::into_raw(zeroed) as *mut [AtomicU8]) }
}

impl Pool {
    /// First fit: the lowest run that is long enough.
    fn take(&mut self, count: u64) -> Option<u64> {
        let (first, length) = self
            .runs
            .iter()
            .map(|(first, length)| (*first, *length))
            .find(|(_, length)| *length >= count)?;
        self.runs.remove(&first);
        if length > count {
            self.runs.insert(first + count, length - count);
        }
        Some(first)
    }

    fn give(&mut self, first: u64, count: u64) {
        let (mut first, mut count) = (first, count);
        if let Some((before, length)) = self.runs.range(..first).next_back() {
            if before + length == first {
                (first, count) = (*before, count + length);
            }
        }
        if let Some(length) = self.runs.remove(&(first + count)) {
            count += length;
        }
        self.runs.insert(first, count);
    }
}

/// The free objects of a slab, lowest last so that they are taken in order.
pub fn free_objects(layout: &Layout, chunk: u64, class: usize, map: &[u8]) -> Vec<u64> {
    let class = &CLASS[class];
    let start = layout.chunk_offset(chunk);
    let free = |(_, byte): &(u64, &u8)| **byte == 0;
    let mut objects: Vec<u64> = (0..u64::from(class.count))
        .zip(map)
        .filter(free)
        .map(|(index, _)| start + class.object(index))
        .collect();
    objects.reverse();
    objects
}

/// Which object begins at an offset, by the chunk's word.
#[inline(always)]
pub fn object_at(layout: &Layout, offset: u64, word: impl Fn(u64) -> u64) -> Option<Object> {
    let within = offset.checked_sub(layout.chunks_offset)?;
    let chunk = within / CHUNK_BYTES;
    if chunk >= layout.chunks {
        return None;
    }
    let start = layout.chunk_offset(chunk);
    match Chunk::decode(word(chunk)) {
        Chunk::Slab(class) => {
            let index = CLASS[class].index_of(offset - start)?;
            Some(Object::Small(class as u8, start + index))
        }
        Chunk::Large(count, _) if offset == start => {
            Some(Object::Large(chunk as u32, count as u32))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_grow_together_again() {
        let mut pool = Pool::default();
        pool.give(0, 8);
        let (a, b, c) = (pool.take(2), pool.take(3), pool.take(3));
        assert_eq!((a, b, c, pool.take(1)), (Some(0), Some(2), Some(5), None));
        pool.give(0, 2);
        pool.give(5, 3);
        pool.give(2, 3);
        assert_eq!(pool.take(8), Some(0));
    }

    #[test]
    fn words_of_chunks_read_as_written() {
        for chunk in [
            Chunk::Free,
            Chunk::Slab(0),
            Chunk::Slab(38),
            Chunk::Large(2, 65537),
        ] {
            assert_eq!(Chunk::decode(chunk.encode()), chunk);
        }
        assert_eq!(Chunk::decode(u64::MAX), Chunk::Impossible);
        assert_eq!(Chunk::decode(KIND_SLAB | 39), Chunk::Impossible);
    }
}
