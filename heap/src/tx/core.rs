// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the transactions of all policies have in common: the session's slot, its free objects, and
//! the allocations and frees that wait for the commit.

use std::sync::Arc;

use crate::alloc::{Chunk, Object, Refill, free_objects, object_at};
use crate::classes::{CLASS, CLASSES, class_of};
use crate::error::TxError;
use crate::layout::CHUNK_BYTES;
use crate::log::{SEQUENCE_MAX, entry, kind};
use crate::pmem::{LINE_BYTES, Pmem};
use crate::shared::{LogState, Shared, SlotState, Taken, orecs_of};
use crate::tx::word_set::{WordSet, runs};
use crate::tx::{Range, TxResult};

/// Objects up to this size are written into the record, larger ones past the log: then a second
/// fence costs less than writing them twice.
pub const DIRECT_MIN_BYTES: u64 = 512;

/// What becomes of an object at the end of the transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Allocated, if it commits.
    Alloc,
    /// Freed, if it commits.
    Free,
    /// Allocated and freed in it: given back in any case.
    Cancelled,
    /// Freed while no list has its slab's free objects: nothing more is to be done.
    Gone,
}

/// An object whose state changes with the transaction.
#[derive(Clone, Copy, Debug)]
pub struct Pending {
    pub offset: u64,
    pub bytes: u64,
    pub object: Object,
    pub fate: Fate,
    /// Written past the log.
    pub direct: bool,
}

impl Pending {
    /// Whether a word lies in it.
    #[inline(always)]
    fn has(&self, offset: u64) -> bool {
        (self.offset..self.offset + self.bytes).contains(&offset)
    }
}

/// What a part of a transaction that fails goes back to.
#[derive(Debug)]
struct Part {
    /// Where the words of the part around it begin.
    around: usize,
    pending: Vec<Pending>,
    /// Where its own begin in `kept`.
    kept: usize,
}

/// A session's part of the heap.
#[derive(Debug)]
pub struct Core<B: Pmem> {
    /// What all sessions share.
    pub shared: Arc<Shared<B>>,
    /// Where the region is mapped.
    pub base: *mut u8,
    /// Where objects are.
    pub window: (u64, u64),
    /// This session's number.
    pub slot: usize,
    /// This session's undo log.
    pub undo_log: LogState,
    /// Objects that are allocated or freed.
    pub pending: Vec<Pending>,
    /// Parts of the transaction that have begun and not ended, the innermost last.
    parts: Vec<Part>,
    /// Old words of new objects: the log has none, as they go with the transaction, but a part that
    /// fails puts them back in objects of the parts around it.
    kept: WordSet,
    lists: Box<[Vec<u64>]>,
}

// SAFETY: `base` is the address of the mapping that `shared` keeps.
unsafe impl<B: Pmem> Send for Core<B> {}

impl<B: Pmem> Core<B> {
    /// Takes a slot; none if all are taken.
    pub fn new(shared: Arc<Shared<B>>) -> Option<Self> {
        let (slot, undo_log) = shared.take_slot()?;
        let layout = &shared.layout;
        Some(Self {
            base: shared.map.base(),
            window: (layout.chunks_offset, layout.chunks * CHUNK_BYTES),
            slot,
            undo_log,
            pending: Vec::with_capacity(16),
            parts: Vec::new(),
            kept: WordSet::default(),
            lists: (0..CLASSES).map(|_| Vec::new()).collect(),
            shared,
        })
    }

    /// A word of the region, whatever thread wrote it.
    #[inline(always)]
    pub fn load(&self, offset: u64) -> u64 {
        let at = self.base.wrapping_add(offset as usize).cast::<u64>();
        // SAFETY: the callers are `Tx::load` and ours, which say that the word is in the region.
        unsafe { std::sync::atomic::AtomicU64::from_ptr(at) }
            .load(std::sync::atomic::Ordering::Acquire)
    }

    /// A byte of a map. Not as part of its word: a load that is wider than the store before it waits
    /// until that has reached the cache, and behind a fence that is when the last record is durable.
    #[inline(always)]
    fn load_byte(&self, offset: u64) -> u8 {
        let at = self.base.wrapping_add(offset as usize);
        // SAFETY: the caller found the byte in a slab's map.
        unsafe { std::sync::atomic::AtomicU8::from_ptr(at) }
            .load(std::sync::atomic::Ordering::Acquire)
    }

    #[inline(always)]
    fn chunk_word(&self, chunk: u64) -> u64 {
        self.load(self.shared.layout.table_entry(chunk))
    }

    /// A free object of at least so many bytes, which becomes allocated with the transaction.
    #[inline(always)]
    pub fn reserve<const FLUSH: bool>(&mut self, bytes: u64) -> TxResult<Pending> {
        let Some(class) = class_of(bytes) else {
            return self.reserve_large(bytes);
        };
        let offset = match self.lists[class].pop() {
            Some(offset) => offset,
            None => self.refill::<FLUSH>(class)?,
        };
        let within = offset - self.window.0;
        let chunk = within / CHUNK_BYTES;
        let start = self.window.0 + chunk * CHUNK_BYTES;
        let index = CLASS[class]
            .index_of(offset - start)
            .ok_or(TxError::BadPointer)?;
        // Both are written soon; until then their lines come while the log is waited for.
        self.expect(offset);
        self.expect(start + index);
        let pending = Pending {
            offset,
            bytes,
            object: Object::Small(class as u8, start + index),
            fate: Fate::Alloc,
            direct: false,
        };
        Ok(pending)
    }

    /// Have a line come that is to be written.
    #[inline(always)]
    fn expect(&self, offset: u64) {
        use std::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
        if cfg!(miri) {
            return; // knows no such instruction
        }
        let at = self.base.wrapping_add(offset as usize);
        // SAFETY: a hint, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_ET0>(at.cast()) };
    }

    #[cold]
    fn reserve_large(&mut self, bytes: u64) -> TxResult<Pending> {
        let count = bytes.div_ceil(CHUNK_BYTES);
        let shared = &self.shared;
        let first = shared
            .alloc
            .take_run(count, &|chunk| {
                shared.load(shared.layout.table_entry(chunk))
            })
            .ok_or(TxError::OutOfSpace)?;
        let offset = shared.layout.chunk_offset(first);
        let object = Object::Large(first as u32, count as u32);
        Ok(Pending {
            offset,
            bytes,
            object,
            fate: Fate::Alloc,
            direct: false,
        })
    }

    #[cold]
    #[inline(never)]
    fn refill<const FLUSH: bool>(&mut self, class: usize) -> TxResult<u64> {
        loop {
            let shared = &self.shared;
            let word = |chunk| shared.load(shared.layout.table_entry(chunk));
            let list = match shared.alloc.refill(class, &word) {
                Refill::Objects(list) => list,
                Refill::Harvest(chunk) => self.harvest(class, chunk),
                Refill::Fresh(chunk) => {
                    if let Err(error) = self.make_slab::<FLUSH>(class, chunk) {
                        self.shared.alloc.give_run(chunk, 1);
                        return Err(error);
                    }
                    free_objects(
                        &self.shared.layout,
                        chunk,
                        class,
                        &vec![0; CLASS[class].count as usize],
                    )
                }
                Refill::Nothing => return Err(TxError::OutOfSpace),
            };
            self.lists[class] = list;
            if let Some(offset) = self.lists[class].pop() {
                return Ok(offset);
            }
        }
    }

    fn harvest(&self, class: usize, chunk: u64) -> Vec<u64> {
        let shared = &self.shared;
        if shared.alloc.lock_slab(chunk, &|| shared.pm.pause()) {
            return Vec::new();
        }
        let start = shared.layout.chunk_offset(chunk);
        let words = u64::from(CLASS[class].count).div_ceil(8);
        let map: Vec<u8> = (0..words)
            .flat_map(|word| shared.load(start + word * 8).to_le_bytes())
            .collect();
        let list = free_objects(&shared.layout, chunk, class, &map);
        shared.alloc.unlock_slab(chunk, true);
        list
    }

    /// A chunk becomes a slab by a record of its own: the session does not matter.
    fn make_slab<const FLUSH: bool>(&mut self, class: usize, chunk: u64) -> TxResult<()> {
        let shared = &*self.shared;
        let (map, bytes) = (
            shared.layout.chunk_offset(chunk),
            u64::from(CLASS[class].data),
        );
        let table = shared.layout.table_entry(chunk);
        let word = Chunk::Slab(class).encode();
        let mut record = WordSet::default();
        record.push(table, word);
        record.note(entry(kind::ZERO, 0, map));
        record.note(bytes);
        record.fill();
        let record = record.lines(0);
        let locked = self.lock_map(map, bytes)?;
        let sequence = match shared.enter_for::<FLUSH>(self.slot, record.len()) {
            Ok(sequence) => sequence,
            Err(error) => {
                shared.unlock_orecs(&locked, None);
                return Err(error);
            }
        };
        // SAFETY: this session, active.
        let state = unsafe { shared.state(self.slot) };
        shared.append::<FLUSH>(&mut state.redo, record, sequence);
        shared.fence::<FLUSH>();
        for offset in (map..map + bytes).step_by(8) {
            shared.apply::<FLUSH>(state, offset, 0);
        }
        shared.apply::<FLUSH>(state, table, word);
        if !shared.alloc.lock_slab(chunk, &|| shared.pm.pause()) {
            shared.alloc.unlock_slab(chunk, true);
        }
        shared.leave(self.slot);
        shared.unlock_orecs(&locked, Some(sequence));
        Ok(())
    }

    /// Under transactional memory, lock the lines of a slab's map: a transaction of another session may
    /// still read the large object that was there. Nothing that this session has read depends on it.
    fn lock_map(&self, map: u64, bytes: u64) -> TxResult<Vec<(u32, u64)>> {
        let shared = &*self.shared;
        let mut locked = Vec::new();
        if shared.orecs.is_empty() {
            return Ok(locked);
        }
        for index in orecs_of(map, bytes) {
            match shared.lock_orec(self.slot, index, SEQUENCE_MAX) {
                Taken::Before => {} // for an object: unlocked at the end, with a new version
                Taken::Now(found) => {
                    locked.push((index as u32, found));
                    shared.pm.step();
                }
                Taken::Newer | Taken::Busy => {
                    shared.unlock_orecs(&locked, None);
                    return Err(TxError::Conflict);
                }
            }
        }
        Ok(locked)
    }

    /// The object that begins there and is allocated, as this transaction sees it; the place in
    /// `pending` if it was allocated in it.
    #[inline(always)]
    pub fn find(&self, offset: u64) -> TxResult<(Object, Option<usize>)> {
        let object = object_at(&self.shared.layout, offset, |chunk| self.chunk_word(chunk));
        if let Some(place) = self
            .pending
            .iter()
            .rposition(|other| other.offset == offset)
        {
            return match self.pending[place].fate {
                Fate::Alloc => Ok((self.pending[place].object, Some(place))),
                Fate::Free | Fate::Cancelled | Fate::Gone => Err(TxError::BadFree),
            };
        }
        match object {
            Some(found @ Object::Small(_, byte)) => {
                if self.load_byte(byte) == 1 {
                    Ok((found, None))
                } else {
                    Err(TxError::BadFree)
                }
            }
            Some(found @ Object::Large(..)) => Ok((found, None)),
            None => Err(TxError::BadFree),
        }
    }

    /// Note a free for the commit.
    #[inline(always)]
    pub fn release(&mut self, offset: u64) -> TxResult<()> {
        match self.find(offset)? {
            (_, Some(place)) => self.pending[place].fate = Fate::Cancelled,
            (object, None) => {
                let fate = Fate::Free;
                self.pending.push(Pending {
                    offset,
                    bytes: 0,
                    object,
                    fate,
                    direct: false,
                });
            }
        }
        Ok(())
    }

    /// The object that this transaction allocated in which a word lies.
    #[inline(always)]
    pub fn fresh(&self, offset: u64) -> Option<usize> {
        self.pending
            .iter()
            .position(|it| it.fate != Fate::Free && it.has(offset))
    }

    /// Words of that object are about to change in place: the innermost part keeps the old ones, if
    /// the object was there before it began.
    #[inline(always)]
    pub fn keep(&mut self, object: usize, range: Range) {
        if !self.parts.is_empty() {
            self.keep_words(object, range);
        }
    }

    #[cold]
    fn keep_words(&mut self, object: usize, range: Range) {
        let Some(part) = self.parts.last() else {
            return;
        };
        if object >= part.pending.len() {
            return;
        }
        let first = part.kept;
        for offset in (range.offset..).step_by(8).take(range.words as usize) {
            if self.kept.find(offset).is_none_or(|place| place < first) {
                let old = self.load(offset);
                self.kept.push(offset, old);
            }
        }
    }

    /// A part of the transaction begins; where the words of the part around it begin.
    pub fn begin_part(&mut self, around: usize) {
        let pending = self.pending.clone();
        let kept = self.kept.part();
        self.parts.push(Part {
            around,
            pending,
            kept,
        });
    }

    /// The innermost part ends: where the words of the part around it begin. If it failed, its
    /// allocations are cancelled, its frees forgotten, and new objects of others are as before.
    pub fn end_part<const FLUSH: bool>(&mut self, failed: bool) -> usize {
        let Some(part) = self.parts.pop() else {
            return 0; // there is one: each end has a beginning
        };
        if failed {
            // A part within may have kept a word again: the older one comes last.
            let kept: Vec<_> = runs(&self.kept.content()[part.kept..]).collect();
            for (offset, words) in kept.into_iter().rev() {
                self.write_direct::<FLUSH>(offset, words);
            }
            self.kept.truncate(part.kept);
            self.restore_pending(part.pending);
        }
        if self.parts.is_empty() {
            self.kept.clear();
        }
        part.around
    }

    fn restore_pending(&mut self, before: Vec<Pending>) {
        let failed = std::mem::replace(&mut self.pending, before);
        let known = self.pending.len();
        for mut it in failed.into_iter().skip(known) {
            if it.fate != Fate::Free {
                it.fate = Fate::Cancelled;
                self.pending.push(it);
            }
        }
    }

    /// After the commit or the abort: what is free now may be given out again.
    #[inline(always)]
    pub fn settle(&mut self, committed: bool) {
        while let Some(it) = self.pending.pop() {
            let free = match it.fate {
                Fate::Alloc => !committed,
                Fate::Free => committed,
                Fate::Cancelled => true,
                Fate::Gone => false,
            };
            if free {
                self.give(it.object, it.offset);
            }
        }
    }

    /// An object is free: keep it for this session, or give some to the depot.
    #[inline(always)]
    pub fn give(&mut self, object: Object, offset: u64) {
        match object {
            Object::Small(class, _) => {
                let class = usize::from(class);
                let list = &mut self.lists[class];
                list.push(offset);
                if list.len() > 2 * CLASS[class].count as usize {
                    let half = list.split_off(list.len() / 2);
                    self.shared.alloc.give_list(class, half);
                }
            }
            Object::Large(first, count) => {
                self.shared.alloc.give_run(first.into(), count.into());
            }
        }
    }

    /// Write an object past the log; the caller waits for it before the commit.
    pub fn write_direct<const FLUSH: bool>(&self, offset: u64, words: &[u64]) {
        for (at, word) in (offset..).step_by(8).zip(words) {
            // SAFETY: the words lie in an object of this transaction.
            unsafe {
                self.shared
                    .pm
                    .store(self.base.wrapping_add(at as usize).cast(), *word)
            };
        }
        if FLUSH {
            self.flush_range(offset, words.len() as u64 * 8);
        }
    }

    /// Begin to write lines back.
    pub fn flush_range(&self, offset: u64, bytes: u64) {
        let line = LINE_BYTES as u64;
        for at in (offset / line * line..offset + bytes).step_by(LINE_BYTES) {
            // SAFETY: a line of the region.
            unsafe { self.shared.pm.flush(self.base.wrapping_add(at as usize)) };
        }
    }
}

/// Words of a record that one allocation or free takes at most.
pub const PENDING_WORDS: usize = 4;

/// Add allocations and frees to a record, word by word.
#[inline(always)]
pub fn encode_pending<B: Pmem>(shared: &Shared<B>, pending: &[Pending], mut push: impl FnMut(u64)) {
    for it in pending {
        let alloc = match it.fate {
            Fate::Alloc => 1,
            Fate::Free => 0,
            Fate::Cancelled | Fate::Gone => continue,
        };
        match it.object {
            Object::Small(_, byte) => push(entry(kind::BYTE, alloc, byte)),
            Object::Large(first, count) => {
                let table = shared.layout.table_entry(first.into());
                push(entry(kind::WORDS, 1, table));
                push(large_word(alloc == 1, count.into(), it.bytes));
            }
        }
        if it.direct {
            push(entry(kind::DIRECT, 0, it.offset));
            push(it.bytes.next_multiple_of(8));
        }
    }
}

/// Make pending allocations and frees true in place. The session is active, the record durable.
#[inline(always)]
pub fn apply_pending<B: Pmem, const FLUSH: bool>(
    shared: &Shared<B>,
    pending: &mut [Pending],
    state: &mut SlotState,
) {
    for it in pending {
        let alloc = match it.fate {
            Fate::Alloc => 1,
            Fate::Free => 0,
            Fate::Cancelled | Fate::Gone => continue,
        };
        match it.object {
            Object::Small(_, byte) => {
                let chunk = shared.layout.chunk_of(byte);
                if alloc == 1 || shared.alloc.is_harvested(chunk) {
                    shared.apply_byte::<FLUSH>(state, byte, alloc);
                    continue;
                }
                // Its slab's map may be read by another session at this very moment.
                let harvested = shared.alloc.lock_slab(chunk, &|| shared.pm.pause());
                shared.apply_byte::<FLUSH>(state, byte, alloc);
                if !harvested {
                    it.fate = Fate::Gone;
                    shared.alloc.unlock_slab(chunk, false);
                }
            }
            Object::Large(first, count) => {
                if alloc == 0 {
                    shared.alloc.leave_run(first.into(), count.into());
                }
                let table = shared.layout.table_entry(first.into());
                shared.apply::<FLUSH>(state, table, large_word(alloc == 1, count.into(), it.bytes));
            }
        }
    }
}

fn large_word(alloc: bool, count: u64, bytes: u64) -> u64 {
    if alloc {
        Chunk::Large(count, bytes).encode()
    } else {
        0
    }
}

impl<B: Pmem> Drop for Core<B> {
    fn drop(&mut self) {
        for (class, list) in self.lists.iter_mut().enumerate() {
            self.shared.alloc.give_list(class, std::mem::take(list));
        }
        self.shared.give_slot(self.slot);
    }
}
