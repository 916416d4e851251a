// SPDX-License-Identifier: GPL-2.0-or-later
//! Translated blocks and the lines of memory that they are in, where instruction fetches are modelled.
//!
//! QEMU gives a translated block's virtual addresses only. Its physical ones are looked up when it
//! first runs, by the page tables of the vCPU that runs it. They are the same for all that run it:
//! QEMU finds blocks by physical address, and drops those of a page that changes.

use crate::caching::Job;
use crate::cut::PLUGIN;
use remanence_cache::{Core, LINE_BYTES, Line, Slot};
use std::cell::Cell;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

const PAGE_BYTES: u64 = 4096;
/// No QEMU block has so many bytes: it is in two pages at most.
const PAGES: usize = 2;

/// Lines that follow each other, of one page. None of them: outside memory that is modelled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Piece {
    first: u32,
    count: u32,
}

/// Most blocks have so many lines at most, all in one page.
const SHORT: usize = 2;

/// One translated block.
#[derive(Debug)]
pub(crate) struct Code {
    pub(crate) insns: u64,
    /// Of a short block whose place is known: its lines, and where the cache had them last.
    short: Cell<Piece>,
    slots: Cell<[Slot; SHORT]>,
    begin: u64,
    end: u64,
    pieces: Cell<Option<[Piece; PAGES]>>,
}

/// Blocks that QEMU has. Only the vCPUs' thread uses them.
#[expect(clippy::vec_box, reason = "QEMU keeps their places")]
static BLOCKS: Mutex<Vec<Box<Code>>> = Mutex::new(Vec::new());

/// Notes a block of so many instructions at these virtual addresses; valid until [`forget_all`].
pub(crate) fn note(insns: u64, addresses: Range<u64>) -> *const Code {
    let code = Box::new(Code {
        insns,
        short: Cell::default(),
        slots: Cell::new([Slot::NONE; SHORT]),
        begin: addresses.start,
        end: addresses.end,
        pieces: Cell::new(None),
    });
    let place: *const Code = &raw const *code;
    BLOCKS
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(code);
    place
}

/// QEMU has dropped all blocks; none of them runs.
pub(crate) fn forget_all() {
    BLOCKS
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clear();
}

/// The parts of a range of addresses that are in one page each.
fn pages(begin: u64, end: u64) -> impl Iterator<Item = Range<u64>> {
    let bound = (begin | (PAGE_BYTES - 1)).saturating_add(1).min(end);
    [begin..bound, bound..end]
        .into_iter()
        .filter(|part| !part.is_empty())
}

impl Code {
    fn find(&self, job: &Job, cpu: usize) -> [Piece; PAGES] {
        let mut pieces = [Piece::default(); PAGES];
        let Some(parallel) = PLUGIN.get().and_then(|plugin| plugin.parallel) else {
            return pieces;
        };
        for (piece, part) in pieces.iter_mut().zip(pages(self.begin, self.end)) {
            let cpu = u32::try_from(cpu).unwrap_or(0);
            let Some(page) = parallel.physical_page(cpu, part.start) else {
                continue; // about to fault
            };
            let last = (part.end - 1) / LINE_BYTES - part.start / LINE_BYTES;
            if let Some(line) = job.line_at(page + part.start % PAGE_BYTES) {
                *piece = Piece {
                    first: line.0,
                    count: u32::try_from(last + 1).unwrap_or(0),
                };
            }
        }
        pieces
    }
}

impl Job {
    /// A vCPU is about to execute a block. The line from which it has got its last instruction costs
    /// nothing.
    #[inline]
    pub(crate) fn fetch(&mut self, cpu: usize, code: &Code) {
        let short = code.short.get();
        if short.count == 0 {
            self.fetch_other(cpu, code);
            return;
        }
        for (number, slot) in (0..short.count).zip(code.slots.get()) {
            let line = Line(short.first + number);
            let last = std::mem::replace(&mut self.fetched[cpu], line);
            if last != line && !self.caches.fetch_again(Core(cpu), slot, line) {
                let mut slots = code.slots.get();
                slots[number as usize] = self.fetch_line(cpu, line);
                code.slots.set(slots);
            }
        }
    }

    fn fetch_line(&mut self, cpu: usize, line: Line) -> Slot {
        self.set_time(Core(cpu));
        self.caches.fetch(Core(cpu), line)
    }

    /// A long block, or one whose place is not known yet.
    fn fetch_other(&mut self, cpu: usize, code: &Code) {
        let pieces = code.pieces.get().unwrap_or_else(|| code.find(self, cpu));
        code.pieces.set(Some(pieces));
        if pieces[1].count == 0 && pieces[0].count as usize <= SHORT {
            code.short.set(pieces[0]);
        }
        for piece in pieces {
            for line in (piece.first..piece.first + piece.count).map(Line) {
                if std::mem::replace(&mut self.fetched[cpu], line) != line {
                    self.fetch_line(cpu, line);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_in_one_page_or_two() {
        let parts = |begin, end| {
            pages(begin, end)
                .map(|part| (part.start, part.end))
                .collect::<Vec<_>>()
        };
        assert_eq!(parts(0x1000, 0x1010), [(0x1000, 0x1010)]);
        assert_eq!(parts(0x1ff0, 0x2000), [(0x1ff0, 0x2000)]);
        assert_eq!(parts(0x1ff0, 0x2008), [(0x1ff0, 0x2000), (0x2000, 0x2008)]);
        let top = u64::MAX - 15;
        assert_eq!(parts(top, u64::MAX), [(top, u64::MAX)]);
    }
}
