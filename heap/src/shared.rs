// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What all sessions of an open region share: the clock, the logs, checkpoints.
//!
//! A commit is one record in the session's redo log and one fence. Data are changed in place and
//! stay in the caches; the log holds what a cut would lose. When a log is full, a *checkpoint*
//! writes back all changed lines of all sessions, waits, and moves the truncated number, one word,
//! past all records: this makes all logs empty at once.
//!
//! A session is *active* while it takes a sequence number, writes its record and changes data.
//! A checkpoint waits until none is. The order of the two flags is kept by the locked addition that
//! takes the number: on x86-64 it is a full barrier.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, compiler_fence};
use std::sync::{Arc, Mutex};

use crate::alloc::Alloc;
use crate::error::TxError;
use crate::held::Held;
use crate::layout::{Layout, TRUNCATED_OFFSET};
use crate::log::{
    LineContent, SEQUENCE_MAX, entry, has_bits_63, head_of, kind, pack, pack_moved, unpack,
    words_of,
};
use crate::map::Mapping;
use crate::pmem::{LINE_BYTES, LINE_WORDS, Pmem};

/// Locks of transactional memory: enough that few lines share one, few enough for a cache.
pub const ORECS: usize = 1 << 16;

/// The lock of a line.
#[inline(always)]
pub fn orec_of(offset: u64) -> usize {
    (offset / LINE_BYTES as u64) as usize % ORECS
}

/// The locks of all lines that so many bytes touch, each once.
pub fn orecs_of(offset: u64, bytes: u64) -> impl Iterator<Item = usize> {
    let line = LINE_BYTES as u64;
    let lines = offset / line..(offset + bytes).div_ceil(line);
    lines.take(ORECS).map(|line| line as usize % ORECS)
}

/// Whether a lock is taken; else it is twice the number of the commit that changed its lines.
#[inline(always)]
pub const fn is_locked(orec: u64) -> bool {
    orec & 1 == 1
}

/// What a lock is while a session has it.
#[inline(always)]
pub const fn locked_by(slot: usize) -> u64 {
    ((slot as u64) << 1) | 1
}

/// What came of the attempt to take a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// The session has had it before.
    Before,
    /// It has it; what the lock was.
    Now(u64),
    /// A line has changed since the version; nobody has the lock.
    Newer,
    /// Another session has it.
    Busy,
}

/// Changed lines that are remembered as changed, so that they are written back once.
const FILTER_LINES: usize = 1024;
/// A log that stays in the cache starts over after so many lines (a quarter of it, if that is less):
/// one that went through all of its lines would miss the cache with each record, and push out what
/// the program works with.
const CACHED_LINES: usize = 64;
/// Turns of a waiting loop before the CPU is given away.
const SPINS: u32 = 64;

/// On a cache line of its own, so that sessions do not take it from each other.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Padded<T>(pub T);

/// One log of a session.
#[derive(Debug)]
pub struct LogState {
    offset: u64,
    lines: usize,
    next: usize,
    torn: Vec<bool>,
}

/// What belongs to the session while it is active, and else to a checkpoint.
#[derive(Debug)]
pub struct SlotState {
    pub redo: LogState,
    /// Sequence number of the undo record in progress, 0 if there is none.
    pub open_undo: u64,
    /// What the region has as this session's "live" word.
    live: u64,
    dirty: Vec<u64>,
    filter: Box<[u64; FILTER_LINES]>,
}

/// A place for a session.
#[derive(Debug)]
pub struct Slot {
    active: Padded<AtomicBool>,
    pub taken: AtomicBool,
    state: UnsafeCell<SlotState>,
}

// SAFETY: `state` is used by the session that took the slot while it is active, and by a checkpoint
// while no session is; `Shared` keeps to that.
unsafe impl Sync for Slot {}

/// An open region.
#[derive(Debug)]
pub struct Shared<B: Pmem> {
    pub pm: B,
    pub map: Mapping,
    pub layout: Layout,
    pub clock: Padded<AtomicU64>,
    checkpointing: Padded<AtomicBool>,
    checkpoint_turn: Mutex<()>,
    pub slots: Box<[Slot]>,
    pub orecs: Box<[AtomicU64]>,
    pub alloc: Alloc,
    /// Of a region with flush on fail: it follows the platform's promise.
    pub held: Option<Arc<Held>>,
}

impl<B: Pmem> Drop for Shared<B> {
    fn drop(&mut self) {
        if let Some(held) = self.held.take() {
            held.end();
        }
    }
}

impl<B: Pmem> Shared<B> {
    /// Of a region whose logs are already empty but for what `truncated` covers.
    pub fn new(pm: B, map: Mapping, layout: Layout, truncated: u64) -> Self {
        let stm = matches!(
            layout.policy,
            crate::PolicyKind::FocStm | crate::PolicyKind::FofStm
        );
        let slots = (0..layout.sessions as usize)
            .map(|index| Slot::new(&layout, index))
            .collect();
        Self {
            pm,
            map,
            clock: Padded(AtomicU64::new(truncated)),
            checkpointing: Padded(AtomicBool::new(false)),
            checkpoint_turn: Mutex::new(()),
            slots,
            orecs: zeroed_words(if stm { ORECS } else { 0 }),
            alloc: Alloc::new(&layout),
            layout,
            held: None,
        }
    }

    /// The address of an offset that is known to lie in the region.
    #[inline(always)]
    pub fn at(&self, offset: u64) -> *mut u8 {
        self.map.base().wrapping_add(offset as usize)
    }

    /// The word at an aligned offset within the region.
    #[inline(always)]
    pub fn load(&self, offset: u64) -> u64 {
        assert!(offset % 8 == 0 && offset <= self.layout.size_bytes - 8);
        // SAFETY: aligned and mapped; other threads access it by atomics only.
        unsafe { AtomicU64::from_ptr(self.at(offset).cast()) }.load(Ordering::Acquire)
    }

    /// Store and, with `FLUSH`, write back one word past the logs, not yet waiting for it.
    pub fn store_through<const FLUSH: bool>(&self, offset: u64, value: u64) {
        assert!(offset % 8 == 0 && offset <= self.layout.size_bytes - 8);
        // SAFETY: aligned and within the mapping.
        unsafe {
            self.pm.store(self.at(offset).cast(), value);
            if FLUSH {
                self.pm.flush(self.at(offset));
            }
        }
    }

    /// The state of a slot.
    ///
    /// # Safety
    /// The caller has the session, is active, and has no other reference to its state.
    #[inline(always)]
    #[allow(clippy::mut_from_ref)] // the slot is the caller's alone
    pub unsafe fn state(&self, slot: usize) -> &mut SlotState {
        // SAFETY: as the caller says.
        unsafe { &mut *self.slots[slot].state.get() }
    }

    /// Become active with a new sequence number. Never while holding a lock of the allocator.
    #[inline(always)]
    pub fn enter(&self, slot: usize) -> u64 {
        loop {
            self.slots[slot].active.0.store(true, Ordering::Release);
            let sequence = self.clock.0.fetch_add(1, Ordering::SeqCst) + 1;
            self.pm.step();
            if !self.checkpointing.0.load(Ordering::SeqCst) {
                assert!(
                    sequence < SEQUENCE_MAX,
                    "a region's 2^48 commits are used up"
                );
                return sequence;
            }
            self.slots[slot].active.0.store(false, Ordering::Release);
            self.wait(|| !self.checkpointing.0.load(Ordering::Acquire));
        }
    }

    /// No longer active: record and data are written.
    #[inline(always)]
    pub fn leave(&self, slot: usize) {
        self.slots[slot].active.0.store(false, Ordering::Release);
    }

    /// Wait for another thread.
    #[cold]
    pub fn wait(&self, done: impl Fn() -> bool) {
        let mut spins = 0;
        while !done() {
            spins += 1;
            if spins < SPINS {
                std::hint::spin_loop();
                self.pm.step();
            } else {
                self.pm.pause();
            }
        }
    }

    /// Write a record. With `FLUSH` it is durable after the next fence, else it stays in cache.
    #[inline(always)]
    pub fn append<const FLUSH: bool>(
        &self,
        log: &mut LogState,
        lines: &[LineContent],
        sequence: u64,
    ) {
        let count = lines.len();
        let start = self
            .at(log.offset + (log.next * LINE_BYTES) as u64)
            .cast::<u64>();
        // As long as the log: that there is room is checked here.
        let torn = &mut log.torn[log.next..][..count];
        for index in 0..count {
            let content = &lines[index];
            let bit = torn[index];
            torn[index] = !bit;
            let first = index == 0;
            let last = index == count - 1;
            let head = head_of(sequence, first, last, bit);
            let at = start.wrapping_add(index * LINE_WORDS);
            // SAFETY: the line lies in this session's log, in the mapping (the layout was checked).
            unsafe {
                if has_bits_63(content) {
                    self.put_line::<FLUSH>(at, &pack_moved(content, head));
                } else {
                    self.put_line::<FLUSH>(at, &pack(content, head));
                }
            }
        }
        log.next += count;
    }

    /// Write a line of a log.
    ///
    /// # Safety
    /// It is in the mapping, and the caller's alone.
    #[inline(always)]
    unsafe fn put_line<const FLUSH: bool>(&self, at: *mut u64, line: &[u64; LINE_WORDS]) {
        // SAFETY: as the caller says.
        unsafe {
            if FLUSH {
                self.pm.stream_line(at, line);
            } else {
                // Content before the head: a process that dies leaves no whole half line.
                for word in (0..LINE_WORDS).rev() {
                    self.pm.store(at.add(word), line[word]);
                }
            }
        }
    }

    /// Wait until everything written before is durable; without `FLUSH`, only keep the order.
    #[inline(always)]
    pub fn fence<const FLUSH: bool>(&self) {
        if FLUSH {
            self.pm.fence();
        } else {
            compiler_fence(Ordering::SeqCst);
        }
    }

    /// Change a word in place and remember that its line must be written back some time.
    ///
    /// The caller has checked the offset.
    #[inline(always)]
    pub fn apply<const FLUSH: bool>(&self, state: &mut SlotState, offset: u64, value: u64) {
        self.apply_all::<FLUSH>(state, &[entry(kind::WORDS, 1, offset), value]);
    }

    /// The same for the words of a record's entries.
    #[inline(always)]
    pub fn apply_all<const FLUSH: bool>(&self, state: &mut SlotState, content: &[u64]) {
        let (mut offset, mut count, mut line) = (0, 0, u64::MAX);
        for word in content {
            if count == 0 {
                (offset, count) = words_of(*word);
                continue;
            }
            // SAFETY: checked by the caller.
            unsafe { self.pm.store(self.at(offset).cast(), *word) };
            if FLUSH && line != offset / LINE_BYTES as u64 {
                line = offset / LINE_BYTES as u64;
                state.mark(offset);
            }
            offset += 8;
            count -= 1;
        }
    }

    /// The same for a byte of an allocation map.
    #[inline(always)]
    pub fn apply_byte<const FLUSH: bool>(&self, state: &mut SlotState, offset: u64, value: u8) {
        // SAFETY: checked by the caller.
        unsafe { self.pm.store_byte(self.at(offset), value) };
        if FLUSH {
            state.mark(offset);
        }
    }

    /// Become active with room for a record of so many lines in the redo log.
    ///
    /// # Errors
    /// [`TxError::TooLarge`] if no log has that much room; the session is then not active.
    #[inline(always)]
    pub fn enter_for<const FLUSH: bool>(&self, slot: usize, lines: usize) -> Result<u64, TxError> {
        loop {
            let sequence = self.enter(slot);
            // SAFETY: the caller has the session and is active.
            if unsafe { self.state(slot) }
                .redo
                .has_room_now::<FLUSH>(lines)
            {
                return Ok(sequence);
            }
            self.leave(slot);
            if lines > self.layout.redo_lines as usize {
                return Err(TxError::TooLarge);
            }
            self.checkpoint::<FLUSH>();
        }
    }

    /// Take the lock of lines that have not changed since a version. There is no other way to a lock
    /// that is kept over reads: its owner may rely on what was read under that version.
    #[inline(always)]
    pub fn lock_orec(&self, slot: usize, index: usize, version: u64) -> Taken {
        let mine = locked_by(slot);
        let orec = &self.orecs[index];
        let found = orec.load(Ordering::Relaxed);
        if found == mine {
            return Taken::Before;
        }
        if is_locked(found) {
            return Taken::Busy;
        }
        if found >> 1 > version {
            return Taken::Newer;
        }
        match orec.compare_exchange(found, mine, Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => Taken::Now(found),
            Err(_) => Taken::Busy,
        }
    }

    /// Release locks: with a new version, or as they were.
    #[inline(always)]
    pub fn unlock_orecs(&self, locked: &[(u32, u64)], version: Option<u64>) {
        for (index, old) in locked {
            let word = version.map_or(*old, |version| version << 1);
            self.orecs[*index as usize].store(word, Ordering::Release);
        }
    }

    /// Write back all that was changed and forget all records.
    pub fn checkpoint<const FLUSH: bool>(&self) {
        let turn = loop {
            match self.checkpoint_turn.try_lock() {
                Ok(turn) => break turn,
                Err(std::sync::TryLockError::WouldBlock) => self.pm.pause(),
                Err(std::sync::TryLockError::Poisoned(turn)) => break turn.into_inner(),
            }
        };
        self.checkpointing.0.swap(true, Ordering::SeqCst);
        self.pm.step();
        for slot in &*self.slots {
            self.wait(|| !slot.active.0.load(Ordering::Acquire));
        }
        let now = self.clock.0.load(Ordering::SeqCst);
        self.write_back::<FLUSH>();
        self.truncate::<FLUSH>(now);
        self.checkpointing.0.store(false, Ordering::Release);
        drop(turn);
    }

    /// Begin and await the write-back of every changed line, and say which undo records are open.
    fn write_back<const FLUSH: bool>(&self) {
        for index in 0..self.slots.len() {
            // SAFETY: no session is active, and those that come wait: the states are ours.
            let state = unsafe { &mut *self.slots[index].state.get() };
            if FLUSH && !state.dirty.is_empty() {
                state.filter.fill(u64::MAX);
            }
            for line in state.dirty.drain(..) {
                if FLUSH {
                    // SAFETY: a line of the region.
                    unsafe { self.pm.flush(self.at(line * LINE_BYTES as u64)) };
                }
            }
            let live = state.open_undo;
            if state.live != live {
                state.live = live;
                self.store_through::<FLUSH>(self.layout.live_offset(index), live);
            }
        }
        self.fence::<FLUSH>();
    }

    fn truncate<const FLUSH: bool>(&self, now: u64) {
        self.store_through::<FLUSH>(TRUNCATED_OFFSET, now);
        self.fence::<FLUSH>();
        for slot in &*self.slots {
            // SAFETY: as in `write_back`.
            unsafe { &mut *slot.state.get() }.redo.next = 0;
        }
    }

    /// Look at a log before it is written: read the torn bits, clear torn lines.
    pub fn prepare(&self, log: &mut LogState) {
        let mut cleared = false;
        log.torn = Vec::with_capacity(log.lines);
        for number in 0..log.lines {
            let at = log.offset + (number * LINE_BYTES) as u64;
            let line = unpack(&self.load_line(at));
            if !line.whole {
                // SAFETY: a line of this session's log.
                unsafe { self.pm.stream_line(self.at(at).cast(), &[0; LINE_WORDS]) };
                cleared = true;
            }
            // The next pass writes the other bit.
            log.torn.push(!line.whole || !line.torn);
        }
        if cleared {
            self.pm.fence();
        }
    }

    /// Take a free slot; its undo log is the session's own.
    pub fn take_slot(&self) -> Option<(usize, LogState)> {
        let free = |slot: &Slot| !slot.taken.swap(true, Ordering::Acquire);
        let index = self.slots.iter().position(free)?;
        self.enter(index);
        // SAFETY: the slot was just taken, and is active.
        let state = unsafe { self.state(index) };
        if state.redo.torn.is_empty() {
            self.prepare(&mut state.redo);
        }
        self.leave(index);
        let mut undo = LogState::new(self.layout.undo_offset(index), self.layout.undo_lines);
        self.prepare(&mut undo);
        Some((index, undo))
    }

    /// A session ends.
    pub fn give_slot(&self, slot: usize) {
        self.slots[slot].taken.store(false, Ordering::Release);
    }

    /// Read a line.
    pub fn load_line(&self, offset: u64) -> [u64; LINE_WORDS] {
        std::array::from_fn(|word| self.load(offset + word as u64 * 8))
    }
}

/// Zeroed by the system when they are touched.
fn zeroed_words(count: usize) -> Box<[AtomicU64]> {
    let zeroed = vec![0_u64; count].into_boxed_slice();
    // SAFETY: `AtomicU64` has the layout of `u64`.
    unsafe { Box::from_raw(Box::into_raw(zeroed) as *mut [AtomicU64]) }
}

impl LogState {
    fn new(offset: u64, lines: u32) -> Self {
        Self {
            offset,
            lines: lines as usize,
            next: 0,
            torn: Vec::new(),
        }
    }

    /// Whether a record of so many lines fits what is left.
    #[inline(always)]
    pub fn has_room(&self, lines: usize) -> bool {
        lines <= self.lines - self.next
    }

    /// Whether they should be written there, without a checkpoint before.
    #[inline(always)]
    fn has_room_now<const FLUSH: bool>(&self, lines: usize) -> bool {
        let begin_anew = !FLUSH && self.next >= CACHED_LINES.min(self.lines / 4).max(1);
        !begin_anew && self.has_room(lines)
    }

    /// Begin at its first line again.
    #[inline(always)]
    pub fn rewind(&mut self) {
        self.next = 0;
    }
}

impl Slot {
    fn new(layout: &Layout, index: usize) -> Self {
        let state = SlotState {
            redo: LogState::new(layout.redo_offset(index), layout.redo_lines),
            open_undo: 0,
            live: u64::MAX, // unknown: the first checkpoint writes it
            dirty: Vec::new(),
            filter: Box::new([u64::MAX; FILTER_LINES]),
        };
        Self {
            active: Padded(AtomicBool::new(false)),
            taken: AtomicBool::new(false),
            state: UnsafeCell::new(state),
        }
    }
}

impl SlotState {
    #[inline(always)]
    fn mark(&mut self, offset: u64) {
        let line = offset / LINE_BYTES as u64;
        let place = &mut self.filter[line as usize % FILTER_LINES];
        if *place != line {
            *place = line;
            self.dirty.push(line);
        }
    }

    /// Remember that the bytes from the offset on were changed in place.
    #[inline(always)]
    pub fn mark_range(&mut self, offset: u64, bytes: u64) {
        let line = LINE_BYTES as u64;
        for number in offset / line..(offset + bytes).div_ceil(line) {
            self.mark(number * line);
        }
    }
}
