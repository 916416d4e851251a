// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What an opening does after a cut: committed records are applied again in the order of their
//! numbers, then what an unfinished undo transaction had changed is put back. All of it is bounded
//! by the size of the logs, and all of it may be done again after another cut.

use std::collections::HashSet;

use crate::error::Error;
use crate::layout::{Layout, TRUNCATED_OFFSET};
use crate::log::{Entries, Entry, SEQUENCE_MAX, unpack};
use crate::pmem::{LINE_BYTES, Pmem};

/// A region with fewer numbers left is not opened: years of commits are gone, or it is damaged.
const SEQUENCES_LEFT_MIN: u64 = 1 << 40;

/// A record that was found.
#[derive(Clone, Debug)]
pub struct Record {
    /// Its number.
    pub sequence: u64,
    /// The session in whose log it was.
    pub session: usize,
    /// The words of its lines.
    pub content: Vec<u64>,
}

/// What the logs hold.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Committed records that are not forgotten, in the order of their numbers.
    pub redo: Vec<Record>,
    /// Undo records of transactions that did not end, oldest first.
    pub undo: Vec<Record>,
    /// The largest number in any line.
    pub newest: u64,
    /// The number up to which records were forgotten.
    pub truncated: u64,
}

/// Reads words of a region: mapped memory or the bytes of a file.
pub trait Words {
    /// The word at that offset, which lies in the region.
    fn word(&self, offset: u64) -> u64;
}

impl Words for [u64] {
    fn word(&self, offset: u64) -> u64 {
        usize::try_from(offset / 8)
            .ok()
            .and_then(|index| self.get(index))
            .copied()
            .unwrap_or(0)
    }
}

/// Read the logs, and check every entry of what would be applied.
///
/// # Errors
/// [`Error::Corrupt`] for a whole record with impossible content: no cut makes one.
pub fn scan(layout: &Layout, words: &(impl Words + ?Sized)) -> Result<Found, Error> {
    let mut found = Found {
        truncated: words.word(TRUNCATED_OFFSET),
        ..Found::default()
    };
    if found.truncated > SEQUENCE_MAX {
        return Err(Error::Corrupt("truncated number", TRUNCATED_OFFSET));
    }
    found.newest = found.truncated;
    let mut undo = Vec::new();
    let mut ended = HashSet::new();
    for session in 0..layout.sessions as usize {
        let redo_area = (layout.redo_offset(session), layout.redo_lines);
        let records = records(words, redo_area, session, &mut found.newest, false);
        for record in records {
            if record.sequence <= found.truncated {
                continue;
            }
            check_entries(layout, &record, redo_area.0)?;
            for entry in Entries::new(&record.content).flatten() {
                if let Entry::EndsUndo(sequence) = entry {
                    ended.insert(sequence);
                }
            }
            found.redo.push(record);
        }
        let undo_area = (layout.undo_offset(session), layout.undo_lines);
        undo.extend(self::records(
            words,
            undo_area,
            session,
            &mut found.newest,
            true,
        ));
    }
    if found.newest > SEQUENCE_MAX - SEQUENCES_LEFT_MIN {
        return Err(Error::Corrupt("sequence number", TRUNCATED_OFFSET));
    }
    found.redo.sort_by_key(|record| record.sequence);
    for record in undo {
        let live = words.word(layout.live_offset(record.session));
        let open = record.sequence > found.truncated || record.sequence == live;
        if open && !ended.contains(&record.sequence) {
            check_entries(layout, &record, layout.undo_offset(record.session))?;
            found.undo.push(record);
        }
    }
    Ok(found)
}

/// Whole records of a log. Of an undo log, each group of lines is a record of its own: several of
/// them may have one number.
fn records(
    words: &(impl Words + ?Sized),
    (offset, lines): (u64, u32),
    session: usize,
    newest: &mut u64,
    undo: bool,
) -> Vec<Record> {
    let mut found: Vec<Record> = Vec::new();
    let mut open: Option<Record> = None;
    for number in 0..u64::from(lines) {
        let at = offset + number * LINE_BYTES as u64;
        let line = unpack(&std::array::from_fn(|word| {
            words.word(at + word as u64 * 8)
        }));
        *newest = (*newest).max(line.sequence);
        if !line.whole {
            open = None;
            continue;
        }
        if line.first {
            open = Some(Record {
                sequence: line.sequence,
                session,
                content: Vec::new(),
            });
        }
        match &mut open {
            Some(record) if record.sequence == line.sequence => {
                record.content.extend(line.content);
            }
            _ => {
                open = None;
                continue;
            }
        }
        if line.last {
            found.extend(open.take());
        }
    }
    if undo {
        // Lines of earlier transactions may lie behind those of the last: only a run counts.
        let run = found.first().map(|first| first.sequence);
        found.retain(|record| Some(record.sequence) == run);
    }
    found
}

fn check_entries(layout: &Layout, record: &Record, log: u64) -> Result<(), Error> {
    for entry in Entries::new(&record.content) {
        let (offset, bytes) = match entry {
            None => return Err(Error::Corrupt("record", log)),
            Some(Entry::EndsUndo(_)) => continue,
            Some(Entry::Words(offset, words)) if offset % 8 == 0 => {
                (offset, words.len() as u64 * 8)
            }
            Some(Entry::Zero(offset, bytes)) if offset % 8 == 0 && bytes % 8 == 0 => {
                (offset, bytes)
            }
            Some(Entry::Byte(offset, _)) => (offset, 1),
            Some(Entry::Direct(offset, bytes)) => (offset, bytes),
            Some(_) => return Err(Error::Corrupt("offset in a record", log)),
        };
        let roots = crate::layout::ROOTS_OFFSET..crate::layout::LOGS_OFFSET;
        let rest = layout.table_offset..layout.size_bytes;
        let end = offset.saturating_add(bytes);
        let inside = |area: &std::ops::Range<u64>| area.contains(&offset) && end <= area.end;
        if !inside(&roots) && !inside(&rest) {
            return Err(Error::Corrupt("offset in a record", log));
        }
    }
    Ok(())
}

/// One store of a recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Store {
    /// A word at an offset.
    Word(u64, u64),
    /// A byte at an offset.
    Byte(u64, u8),
}

/// The stores that a recovery makes, in their order.
pub fn replay(found: &Found, store: &mut dyn FnMut(Store)) {
    let mut direct = Vec::new();
    for record in &found.redo {
        for entry in Entries::new(&record.content).flatten() {
            if let Entry::Direct(offset, bytes) = entry {
                direct.push((record.sequence, offset, offset + bytes));
            }
        }
    }
    for record in &found.redo {
        let hidden = |at: u64| {
            direct
                .iter()
                .any(|(from, begin, end)| *from > record.sequence && (*begin..*end).contains(&at))
        };
        let mut put = |what: Store| {
            let (Store::Word(at, _) | Store::Byte(at, _)) = what;
            if !hidden(at) {
                store(what);
            }
        };
        for entry in Entries::new(&record.content).flatten() {
            match entry {
                Entry::Words(offset, words) => {
                    for (at, word) in (offset..).step_by(8).zip(words) {
                        put(Store::Word(at, *word));
                    }
                }
                Entry::Byte(offset, value) => put(Store::Byte(offset, value)),
                Entry::Zero(offset, bytes) => {
                    for at in (offset..offset + bytes).step_by(8) {
                        put(Store::Word(at, 0));
                    }
                }
                Entry::Direct(..) | Entry::EndsUndo(_) => {}
            }
        }
    }
}

/// The stores that put back what unfinished transactions had changed. A transaction saves each word
/// once, so their order does not matter.
pub fn roll_back(found: &Found, store: &mut dyn FnMut(Store)) {
    for record in &found.undo {
        for entry in Entries::new(&record.content).flatten() {
            if let Entry::Words(offset, words) = entry {
                for (at, word) in (offset..).step_by(8).zip(words) {
                    store(Store::Word(at, *word));
                }
            }
        }
    }
}

/// What a recovery did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Committed records that were applied.
    pub applied: usize,
    /// Groups of undo entries that were put back.
    pub rolled_back: usize,
    /// The number from which the clock goes on.
    pub clock: u64,
}

/// Recover mapped memory through a back end.
///
/// # Errors
/// [`Error::Corrupt`], before anything is changed.
pub fn recover<B: Pmem>(pm: &B, base: *mut u8, layout: &Layout) -> Result<Recovered, Error> {
    let memory = Mapped {
        base,
        bytes: layout.size_bytes,
    };
    let found = scan(layout, &memory)?;
    let mut lines = HashSet::new();
    let mut order = Vec::new();
    let mut store = |what: Store| {
        let (Store::Word(at, _) | Store::Byte(at, _)) = what;
        // SAFETY: `scan` has checked that the offset lies in the region and is aligned.
        unsafe {
            match what {
                Store::Word(at, value) => pm.store(memory.at(at).cast(), value),
                Store::Byte(at, value) => pm.store_byte(memory.at(at), value),
            }
        }
        if lines.insert(at / LINE_BYTES as u64) {
            order.push(at);
        }
    };
    replay(&found, &mut store);
    roll_back(&found, &mut store);
    for at in order {
        // SAFETY: as above.
        unsafe { pm.flush(memory.at(at)) };
    }
    pm.fence();
    forget(pm, &memory, layout, found.newest);
    Ok(Recovered {
        applied: found.redo.len(),
        rolled_back: found.undo.len(),
        clock: found.newest,
    })
}

/// What there is to know of a region that was closed: its last checkpoint was its last change.
///
/// # Errors
/// [`Error::Corrupt`] for an impossible number.
pub fn closed(base: *mut u8, layout: &Layout) -> Result<Recovered, Error> {
    let clock = Mapped {
        base,
        bytes: layout.size_bytes,
    }
    .word(TRUNCATED_OFFSET);
    if clock > SEQUENCE_MAX - SEQUENCES_LEFT_MIN {
        return Err(Error::Corrupt("sequence number", TRUNCATED_OFFSET));
    }
    Ok(Recovered {
        clock,
        ..Recovered::default()
    })
}

/// Make all logs empty. First the words that keep undo records alive, then all numbers at once.
fn forget<B: Pmem>(pm: &B, memory: &Mapped, layout: &Layout, newest: u64) {
    for session in 0..layout.sessions as usize {
        let at = layout.live_offset(session);
        if memory.word(at) != 0 {
            // SAFETY: the state page lies in the region.
            unsafe {
                pm.store(memory.at(at).cast(), 0);
                pm.flush(memory.at(at));
            }
        }
    }
    pm.fence();
    // SAFETY: as above.
    unsafe {
        pm.store(memory.at(TRUNCATED_OFFSET).cast(), newest);
        pm.flush(memory.at(TRUNCATED_OFFSET));
    }
    pm.fence();
}

/// Memory of a region that nobody else uses yet.
struct Mapped {
    base: *mut u8,
    bytes: u64,
}

impl Mapped {
    fn at(&self, offset: u64) -> *mut u8 {
        self.base.wrapping_add(offset as usize)
    }
}

impl Words for Mapped {
    fn word(&self, offset: u64) -> u64 {
        assert!(offset % 8 == 0 && offset <= self.bytes - 8);
        // SAFETY: aligned and within the mapping, which lives as long as the opening.
        unsafe { self.at(offset).cast::<u64>().read() }
    }
}
