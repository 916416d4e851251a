// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Undo log: old words are written past the cache and awaited before new ones are stored in place.
//! The commit is a record of the new words in the redo log: data need not be written back first.
//!
//! Least number of fences: 1 for each group of words that change ([`Tx::will_set`]) and 1 for the
//! commit; objects that are new need no undo. 0 without changes.

use crate::error::TxError;
use crate::log::{CONTENT_WORDS, Content, ENTRY_WORDS_MAX, entry, kind, lines_of};
use crate::pmem::Pmem;
use crate::tx::core::{
    Core, DIRECT_MIN_BYTES, Fate, PENDING_WORDS, Pending, apply_pending, encode_pending,
};
use crate::tx::word_set::{WordSet, runs};
use crate::tx::{Engine, Parts, Range, Tx, TxResult};

/// A transaction over an undo log.
#[derive(Debug)]
pub struct UndoTx<B: Pmem, const FLUSH: bool> {
    core: Core<B>,
    /// Old words, in the order in which they were saved.
    saved: WordSet,
    /// Sequence number of this transaction's undo records, once there are some.
    sequence: u64,
    /// Where the innermost part's begin in `saved`. It saves again, for itself alone, what the parts
    /// around it have saved.
    from: usize,
    /// What a nested part saves and the log does not have yet.
    nested: WordSet,
    view: bool,
    /// The record that ends it.
    record: Vec<u64>,
}

impl<B: Pmem, const FLUSH: bool> UndoTx<B, FLUSH> {
    /// Save the words that are not saved yet, and wait until they are durable.
    #[inline(always)]
    fn save(&mut self, ranges: &[Range]) -> TxResult<()> {
        let first = self.saved.part();
        self.nested.clear();
        for range in ranges {
            for offset in (range.offset..).step_by(8).take(range.words as usize) {
                let known = self.saved.find(offset);
                if known.is_some_and(|place| place >= self.from) {
                    continue;
                }
                if let Some(object) = self.core.fresh(offset) {
                    self.core.keep(object, Range { offset, words: 1 });
                    continue;
                }
                let old = self.core.load(offset);
                self.saved.push(offset, old);
                if self.from > 0 && known.is_none() {
                    self.nested.push(offset, old);
                }
            }
        }
        let group = if self.from == 0 {
            self.saved.fill();
            self.saved.lines(first)
        } else {
            self.nested.fill();
            self.nested.lines(0)
        };
        let shared = &self.core.shared;
        // The end of the transaction, whichever, must fit the redo log.
        let most = self.saved.content().len() + 64;
        let room = shared.layout.redo_lines as usize * CONTENT_WORDS;
        if most > room || !self.core.undo_log.has_room(group.len()) {
            // Nothing of it has changed, so the record that ends it need not have it.
            self.saved.truncate(first);
            return Err(TxError::TooLarge);
        }
        if group.is_empty() {
            return Ok(());
        }
        let log = &mut self.core.undo_log;
        if self.sequence == 0 {
            self.sequence = shared.enter(self.core.slot);
            shared.append::<FLUSH>(log, group, self.sequence);
            // SAFETY: this session, active.
            unsafe { shared.state(self.core.slot) }.open_undo = self.sequence;
            shared.leave(self.core.slot);
        } else {
            shared.append::<FLUSH>(log, group, self.sequence);
        }
        shared.fence::<FLUSH>();
        Ok(())
    }

    /// The words that were changed, as they are now; then new objects.
    fn encode(&mut self, committed: bool) {
        let core = &self.core;
        let objects = |it: &Pending| {
            let words = it.bytes.div_ceil(8) as usize;
            PENDING_WORDS + words + words.div_ceil(ENTRY_WORDS_MAX)
        };
        let saved = self.saved.content();
        let most = 1 + saved.len() + core.pending.iter().map(objects).sum::<usize>();
        let mut content = Content::begin(&mut self.record, most);
        if self.sequence != 0 {
            content.push(entry(kind::ENDS_UNDO, 0, self.sequence));
        }
        for (offset, words) in runs(saved) {
            content.row(offset, words.len(), |offset| core.load(offset));
        }
        if committed {
            for it in &core.pending {
                if it.fate == Fate::Alloc && !it.direct {
                    let words = it.bytes.div_ceil(8) as usize;
                    content.row(it.offset, words, |offset| core.load(offset));
                }
            }
            encode_pending(&core.shared, &core.pending, |word| content.push(word));
        }
    }

    /// Write the record that ends the transaction: data are in place already.
    #[inline(always)]
    fn write(&mut self, committed: bool) -> TxResult<()> {
        let Core {
            shared,
            slot,
            pending,
            ..
        } = &mut self.core;
        let lines = lines_of(&self.record);
        let sequence = shared.enter_for::<FLUSH>(*slot, lines.len())?;
        // SAFETY: this session, active.
        let state = unsafe { shared.state(*slot) };
        shared.append::<FLUSH>(&mut state.redo, lines, sequence);
        shared.fence::<FLUSH>();
        if FLUSH {
            for (offset, words) in runs(self.saved.content()) {
                state.mark_range(offset, 8 * words.len() as u64);
            }
            for it in pending.iter() {
                if committed && it.fate == Fate::Alloc && !it.direct {
                    state.mark_range(it.offset, it.bytes);
                }
            }
        }
        if committed {
            apply_pending::<B, FLUSH>(shared, pending, state);
        }
        state.open_undo = 0;
        shared.leave(*slot);
        Ok(())
    }

    #[inline(always)]
    fn end(&mut self, committed: bool) {
        self.saved.clear();
        self.sequence = 0;
        self.core.undo_log.rewind();
        self.core.settle(committed);
    }

    fn restore_from(&self, first: usize) {
        // A part within may have saved a word again: the older one comes last.
        let saved: Vec<_> = runs(&self.saved.content()[first..]).collect();
        for (offset, words) in saved.into_iter().rev() {
            self.core.write_direct::<false>(offset, words);
        }
    }

    /// New objects that are too large for the record: begin to write them back.
    fn flush_large(&mut self) -> bool {
        let mut any = false;
        for place in 0..self.core.pending.len() {
            let it = self.core.pending[place];
            if it.fate == Fate::Alloc && it.bytes >= DIRECT_MIN_BYTES {
                self.core.pending[place].direct = true;
                any = true;
                if FLUSH {
                    self.core.flush_range(it.offset, it.bytes);
                }
            }
        }
        any
    }
}

impl<B: Pmem, const FLUSH: bool> Tx for UndoTx<B, FLUSH> {
    #[inline(always)]
    unsafe fn load(&mut self, offset: u64) -> TxResult<u64> {
        Ok(self.core.load(offset))
    }

    #[inline(always)]
    unsafe fn store(&mut self, offset: u64, value: u64) -> TxResult<()> {
        if self.view {
            return Err(TxError::ReadOnly);
        }
        self.save(&[Range { offset, words: 1 }])?;
        let at = self.core.base.wrapping_add(offset as usize).cast();
        // SAFETY: as the caller says.
        unsafe { self.core.shared.pm.store(at, value) };
        Ok(())
    }

    #[inline(always)]
    unsafe fn init(&mut self, offset: u64, words: &[u64]) -> TxResult<()> {
        if let Some(object) = self.core.fresh(offset) {
            let words = words.len() as u64;
            self.core.keep(object, Range { offset, words });
        }
        self.core.write_direct::<false>(offset, words);
        Ok(())
    }

    #[inline(always)]
    fn will_set(&mut self, ranges: &[Range]) -> TxResult<()> {
        if self.view {
            return Err(TxError::ReadOnly);
        }
        let (start, length) = self.window();
        for range in ranges {
            let within = range.offset.wrapping_sub(start);
            let bytes = range.words.wrapping_mul(8);
            if within >= length || bytes > length - within || range.offset % 8 != 0 {
                return Err(TxError::BadPointer);
            }
        }
        self.save(ranges)
    }

    #[inline(always)]
    fn reserve(&mut self, bytes: u64) -> TxResult<u64> {
        if self.view {
            return Err(TxError::ReadOnly);
        }
        let pending = self.core.reserve::<FLUSH>(bytes)?;
        self.core.pending.push(pending);
        Ok(pending.offset)
    }

    #[inline(always)]
    fn release(&mut self, offset: u64) -> TxResult<()> {
        if self.view {
            return Err(TxError::ReadOnly);
        }
        self.core.release(offset)
    }

    #[inline(always)]
    fn window(&self) -> (u64, u64) {
        self.core.window
    }

    fn nested<R>(&mut self, body: impl FnOnce(&mut Self) -> TxResult<R>) -> TxResult<R> {
        self.part(body)
    }
}

impl<B: Pmem, const FLUSH: bool> Parts for UndoTx<B, FLUSH> {
    fn begin_part(&mut self) {
        let first = self.saved.part();
        let around = std::mem::replace(&mut self.from, first);
        self.core.begin_part(around);
    }

    fn end_part(&mut self, failed: bool) {
        let first = self.from;
        // New objects are written back with the commit.
        self.from = self.core.end_part::<false>(failed);
        if failed {
            self.restore_from(first);
        }
    }
}

impl<B: Pmem, const FLUSH: bool> Engine<B> for UndoTx<B, FLUSH> {
    fn new(core: Core<B>) -> Self {
        Self {
            core,
            saved: WordSet::default(),
            sequence: 0,
            from: 0,
            nested: WordSet::default(),
            view: false,
            record: Vec::with_capacity(64),
        }
    }

    #[inline(always)]
    fn begin(&mut self, view: bool) {
        self.view = view;
    }

    #[inline(always)]
    fn commit(&mut self) -> TxResult<()> {
        if self.saved.is_empty() && self.core.pending.is_empty() {
            return Ok(());
        }
        if self.flush_large() {
            self.core.shared.fence::<FLUSH>();
        }
        self.encode(true);
        if self.record.is_empty() {
            self.end(true);
            return Ok(());
        }
        if let Err(error) = self.write(true) {
            self.roll_back()?;
            return Err(error);
        }
        self.end(true);
        Ok(())
    }

    fn roll_back(&mut self) -> TxResult<()> {
        if self.sequence != 0 {
            self.restore_from(0);
            // The words are as before, and a record states them as that of a commit does: a later
            // recovery must not put them back over what others commit.
            self.encode(false);
            self.write(false)?;
        }
        self.end(false);
        Ok(())
    }

    fn wait_for_change(&mut self) -> bool {
        false
    }

    fn core(&mut self) -> &mut Core<B> {
        &mut self.core
    }
}
