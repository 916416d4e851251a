// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Redo log: changes are collected, written as one record past the cache, awaited by one fence, and
//! then made in place. With `STM` transactions of several threads are isolated (TL2): lines have
//! versioned locks, reads are checked against the version at the beginning (opacity: no transaction
//! ever sees two states mixed), the commit locks what it changes and checks what was read.
//!
//! Least number of fences: 1 per commit, 2 if an object went past the log, 0 without changes.

use std::sync::atomic::{Ordering, fence};

use crate::error::TxError;
use crate::pmem::Pmem;
use crate::shared::{Taken, is_locked, locked_by, orec_of, orecs_of};
use crate::tx::core::{Core, DIRECT_MIN_BYTES, apply_pending, encode_pending};
use crate::tx::word_set::{WordSet, runs};
use crate::tx::{Engine, Parts, Range, Tx, TxResult};

/// Under STM all lines of an object that is written past the log are locked until the commit: only
/// for large ones is this less than to write them twice.
const DIRECT_ISOLATED_MIN_BYTES: u64 = 4096;

/// A transaction over a redo log.
#[derive(Debug)]
pub struct RedoTx<B: Pmem, const STM: bool, const FLUSH: bool> {
    core: Core<B>,
    /// New words, and when it commits all that the record has.
    changes: WordSet,
    /// Where the innermost part's begin in `changes`: what the parts around it changed stays there, in
    /// case it fails.
    from: usize,
    view: bool,
    direct: bool,
    // Of the transactional memory:
    version: u64,
    reads: Vec<u32>,
    locked: Vec<(u32, u64)>,
}

impl<B: Pmem, const STM: bool, const FLUSH: bool> RedoTx<B, STM, FLUSH> {
    #[inline(always)]
    fn load_isolated(&mut self, offset: u64) -> TxResult<u64> {
        let index = orec_of(offset);
        loop {
            let orec = &self.core.shared.orecs[index];
            let before = orec.load(Ordering::Acquire);
            self.core.shared.pm.step();
            let value = self.core.load(offset);
            self.core.shared.pm.step();
            fence(Ordering::Acquire);
            let after = orec.load(Ordering::Relaxed);
            if before == after && !is_locked(before) && before >> 1 <= self.version {
                if !self.view {
                    self.reads.push(index as u32);
                }
                return Ok(value);
            }
            if before == locked_by(self.core.slot) {
                return Ok(value);
            }
            self.extend(before != after || is_locked(before))?;
        }
    }

    /// Something is newer than the beginning: if nothing that was read has changed since, the
    /// transaction may as well have begun now.
    #[cold]
    fn extend(&mut self, busy: bool) -> TxResult<()> {
        if busy || self.view {
            return Err(TxError::Conflict);
        }
        let now = self.core.shared.clock.0.load(Ordering::SeqCst);
        if !self.reads_hold() {
            return Err(TxError::Conflict);
        }
        self.version = now;
        Ok(())
    }

    /// Whether all that was read is as it was.
    fn reads_hold(&self) -> bool {
        self.reads.iter().all(|index| {
            let orec = self.core.shared.orecs[*index as usize].load(Ordering::Acquire);
            if is_locked(orec) {
                // Ours, then: what it was before was checked when it was locked.
                self.locked.iter().any(|(own, _)| own == index)
            } else {
                orec >> 1 <= self.version
            }
        })
    }

    /// Lock the lines that change.
    #[inline(always)]
    fn lock(&mut self) -> TxResult<()> {
        if self.lock_changes() {
            Ok(())
        } else {
            self.unlock_failed();
            Err(TxError::Conflict)
        }
    }

    #[inline(always)]
    fn lock_changes(&mut self) -> bool {
        let words = runs(self.changes.content())
            .flat_map(|(offset, words)| (offset..).step_by(8).take(words.len()));
        for offset in words {
            let taken = self
                .core
                .shared
                .lock_orec(self.core.slot, orec_of(offset), self.version);
            match taken {
                Taken::Before => {}
                Taken::Now(found) => {
                    self.locked.push((orec_of(offset) as u32, found));
                    self.core.shared.pm.step();
                }
                Taken::Newer | Taken::Busy => return false,
            }
        }
        true
    }

    /// Lock all lines of an object that is written past the log: others may still read what was there.
    #[cold]
    fn lock_object(&mut self, offset: u64, bytes: u64) -> TxResult<()> {
        for index in orecs_of(offset, bytes) {
            let mut taken = self
                .core
                .shared
                .lock_orec(self.core.slot, index, self.version);
            if taken == Taken::Newer {
                // Perhaps this transaction has read one of its lines, and another has changed that.
                self.extend(false)?;
                taken = self
                    .core
                    .shared
                    .lock_orec(self.core.slot, index, self.version);
            }
            match taken {
                Taken::Before => {}
                Taken::Now(found) => {
                    self.locked.push((index as u32, found));
                    self.core.shared.pm.step();
                }
                Taken::Newer | Taken::Busy => return Err(TxError::Conflict),
            }
        }
        Ok(())
    }

    /// Unlock after a failure. Memory that was written past the log has changed anyway, and
    /// readers of the old object must notice.
    #[cold]
    fn unlock_failed(&mut self) {
        if !self.direct {
            return self.unlock(None);
        }
        let version = self.core.shared.clock.0.fetch_add(1, Ordering::SeqCst) + 1;
        // Its own locks are then no change that it would wait for (`wait_for_change`).
        if self.reads_hold() {
            self.version = version;
        }
        self.unlock(Some(version));
    }

    /// Unlock: with a new version, or as they were.
    #[inline(always)]
    fn unlock(&mut self, version: Option<u64>) {
        self.core.shared.unlock_orecs(&self.locked, version);
        self.locked.clear();
    }

    /// The record, durable; then the changes, its first words, in place.
    #[inline(always)]
    fn write(&mut self, changed: usize) -> TxResult<()> {
        let slot = self.core.slot;
        self.changes.fill();
        let lines = self.changes.lines(0);
        let sequence = self.core.shared.enter_for::<FLUSH>(slot, lines.len());
        let sequence = match sequence {
            Ok(sequence) => sequence,
            Err(error) => {
                self.unlock_failed();
                return Err(error);
            }
        };
        if STM && sequence != self.version + 1 && !self.reads_hold() {
            self.core.shared.leave(slot);
            self.unlock_failed();
            return Err(TxError::Conflict);
        }
        let shared = &self.core.shared;
        // SAFETY: this session, active.
        let state = unsafe { shared.state(slot) };
        shared.append::<FLUSH>(&mut state.redo, lines, sequence);
        self.await_record();
        Self::apply(&mut self.core, &self.changes, changed);
        self.core.shared.leave(slot);
        if STM {
            self.unlock(Some(sequence));
        }
        Ok(())
    }

    /// The record is durable behind this.
    #[inline(always)]
    fn await_record(&self) {
        self.core.shared.fence::<FLUSH>();
    }

    #[inline(always)]
    fn apply(core: &mut Core<B>, changes: &WordSet, changed: usize) {
        let Core {
            shared,
            slot,
            pending,
            ..
        } = core;
        // SAFETY: this session, active.
        let state = unsafe { shared.state(*slot) };
        shared.apply_all::<FLUSH>(state, &changes.content()[..changed]);
        apply_pending::<B, FLUSH>(shared, pending, state);
    }

    #[inline(always)]
    fn end(&mut self, committed: bool) {
        self.changes.clear();
        // Behind a fence a store costs more than a load.
        if self.direct {
            self.direct = false;
        }
        self.core.settle(committed);
    }

    /// The object that was just reserved is written past the log, if it is large.
    #[cold]
    fn make_direct(&mut self, offset: u64, bytes: u64) -> TxResult<()> {
        if STM {
            if bytes < DIRECT_ISOLATED_MIN_BYTES {
                return Ok(());
            }
            self.lock_object(offset, bytes)?;
        }
        if let Some(it) = self.core.pending.last_mut() {
            it.direct = true;
            self.direct = true;
        }
        Ok(())
    }

    /// Write words past the log, if they belong to a new object that is written so.
    #[inline(always)]
    fn put_direct(&mut self, offset: u64, words: &[u64]) -> bool {
        if !self.direct {
            return false;
        }
        match self.core.fresh(offset) {
            Some(object) if self.core.pending[object].direct => {
                let count = words.len() as u64;
                let range = Range {
                    offset,
                    words: count,
                };
                self.core.keep(object, range);
                self.core.write_direct::<FLUSH>(offset, words);
                true
            }
            _ => false,
        }
    }

    #[inline(always)]
    fn put(&mut self, offset: u64, value: u64) {
        match self.changes.find(offset) {
            Some(place) if place >= self.from => self.changes.replace(place, value),
            _ => self.changes.push(offset, value),
        }
    }
}

impl<B: Pmem, const STM: bool, const FLUSH: bool> Tx for RedoTx<B, STM, FLUSH> {
    #[inline(always)]
    unsafe fn load(&mut self, offset: u64) -> TxResult<u64> {
        if !self.changes.is_empty() {
            if let Some(place) = self.changes.find(offset) {
                return Ok(self.changes.value(place));
            }
        }
        if STM {
            self.load_isolated(offset)
        } else {
            Ok(self.core.load(offset))
        }
    }

    #[inline(always)]
    unsafe fn store(&mut self, offset: u64, value: u64) -> TxResult<()> {
        if self.view {
            return Err(TxError::ReadOnly);
        }
        if !self.put_direct(offset, &[value]) {
            self.put(offset, value);
        }
        Ok(())
    }

    #[inline(always)]
    unsafe fn init(&mut self, offset: u64, words: &[u64]) -> TxResult<()> {
        if !self.put_direct(offset, words) {
            self.changes.push_row(offset, words);
        }
        Ok(())
    }

    #[inline(always)]
    fn will_set(&mut self, _: &[Range]) -> TxResult<()> {
        Ok(())
    }

    #[inline(always)]
    fn reserve(&mut self, bytes: u64) -> TxResult<u64> {
        if self.view {
            return Err(TxError::ReadOnly);
        }
        match self.core.reserve::<FLUSH>(bytes) {
            Ok(pending) => {
                self.core.pending.push(pending);
                if pending.bytes > DIRECT_MIN_BYTES - 8 {
                    self.make_direct(pending.offset, pending.bytes.next_multiple_of(8))?;
                }
                Ok(pending.offset)
            }
            // It would not commit anyway, and the conflicting session may have made room.
            Err(TxError::OutOfSpace) if STM && !self.reads_hold() => Err(TxError::Conflict),
            Err(error) => Err(error),
        }
    }

    #[inline(always)]
    fn release(&mut self, offset: u64) -> TxResult<()> {
        if self.view {
            return Err(TxError::ReadOnly);
        }
        match self.core.release(offset) {
            // Another thread may have freed it since this one read the pointer.
            Err(TxError::BadFree) if STM && !self.reads_hold() => Err(TxError::Conflict),
            done => done,
        }
    }

    #[inline(always)]
    fn window(&self) -> (u64, u64) {
        self.core.window
    }

    fn nested<R>(&mut self, body: impl FnOnce(&mut Self) -> TxResult<R>) -> TxResult<R> {
        self.part(body)
    }
}

impl<B: Pmem, const STM: bool, const FLUSH: bool> Parts for RedoTx<B, STM, FLUSH> {
    fn begin_part(&mut self) {
        let first = self.changes.part();
        let around = std::mem::replace(&mut self.from, first);
        self.core.begin_part(around);
    }

    fn end_part(&mut self, failed: bool) {
        let first = self.from;
        self.from = self.core.end_part::<FLUSH>(failed);
        if failed {
            self.changes.truncate(first);
        }
    }
}

impl<B: Pmem, const STM: bool, const FLUSH: bool> Engine<B> for RedoTx<B, STM, FLUSH> {
    fn new(core: Core<B>) -> Self {
        Self {
            core,
            changes: WordSet::default(),
            from: 0,
            view: false,
            direct: false,
            version: 0,
            reads: Vec::new(),
            locked: Vec::new(),
        }
    }

    #[inline(always)]
    fn begin(&mut self, view: bool) {
        if self.view != view {
            self.view = view;
        }
        if STM {
            self.reads.clear();
            self.version = self.core.shared.clock.0.load(Ordering::SeqCst);
        }
    }

    #[inline(always)]
    fn commit(&mut self) -> TxResult<()> {
        if self.changes.is_empty() && self.core.pending.is_empty() {
            return Ok(());
        }
        let core = &self.core;
        if self.direct {
            core.shared.fence::<FLUSH>();
        }
        let mut done = Ok(());
        if STM {
            done = self.lock();
        }
        if done.is_ok() {
            let changed = self.changes.content().len();
            let core = &self.core;
            encode_pending(&core.shared, &core.pending, |word| self.changes.note(word));
            if !self.changes.is_empty() || STM {
                done = self.write(changed);
            }
        }
        self.end(done.is_ok());
        done
    }

    fn roll_back(&mut self) -> TxResult<()> {
        if STM {
            self.unlock_failed();
        }
        self.end(false);
        Ok(())
    }

    fn wait_for_change(&mut self) -> bool {
        if !STM || self.reads.is_empty() {
            return false;
        }
        self.core.shared.wait(|| !self.reads_hold());
        true
    }

    fn core(&mut self) -> &mut Core<B> {
        &mut self.core
    }
}
