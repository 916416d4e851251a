// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A group: the devices that hold one line (two halves and their code, or a whole
//! rank), their row buffers and when they are busy.
//!
//! Devices of a group are programmed one after another when there is a code, so
//! that at any moment two of three can be read: the *window* of a programming
//! says when each is busy. A group knows its last windows, up to `WINDOWS`; a
//! request cannot overtake more.
//!
//! Invariants: windows follow one another in time on each device; a read never
//! overlaps one; a window never begins before reads that were granted end.

use crate::units::Ps;
use serde::{Deserialize, Serialize};

/// Devices of a group: half, half, code.
pub const PIECES: usize = 3;
/// Windows that a group keeps.
pub const WINDOWS: usize = 8;
/// No page is open.
pub const NO_PAGE: u64 = u64::MAX;

/// When each device of a group is busy with one programming.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// It begins.
    pub start: [Ps; PIECES],
    /// It has cooled off.
    pub end: [Ps; PIECES],
    /// The page that is programmed, and which lines of it.
    pub page: u64,
    /// As `page`.
    pub dirty: u32,
}

impl Window {
    /// When the last device has cooled off.
    #[must_use]
    pub fn over(&self) -> Ps {
        self.end[0].max(self.end[1]).max(self.end[2])
    }
}

/// The devices of one group.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Group {
    /// Page in the row buffer.
    pub page: u64,
    /// Its lines that are not on media yet.
    pub dirty: u32,
    /// When the row buffer can take the next line.
    pub buffer_free: Ps,
    reads_end: [Ps; PIECES],
    windows: [Window; WINDOWS],
    count: u64,
}

impl Group {
    /// Nothing going on.
    #[must_use]
    pub fn new() -> Self {
        Self {
            page: NO_PAGE,
            dirty: 0,
            buffer_free: Ps::ZERO,
            reads_end: [Ps::ZERO; PIECES],
            windows: [Window::default(); WINDOWS],
            count: 0,
        }
    }

    /// The end of all programming there is.
    #[inline]
    #[must_use]
    pub fn programmed(&self) -> Ps {
        self.last().over()
    }

    #[inline]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the remainder is below WINDOWS"
    )]
    fn at(&self, number: u64) -> &Window {
        &self.windows[number as usize % WINDOWS]
    }

    #[inline]
    fn last(&self) -> &Window {
        self.at(self.count.wrapping_sub(1))
    }

    /// When a device can begin a read that was asked for at `at`.
    #[inline]
    #[must_use]
    pub fn readable(&self, piece: usize, at: Ps, read: Ps) -> Ps {
        let mut start = at.max(self.reads_end[piece]);
        if start >= self.last().end[piece] {
            return start;
        }
        let oldest = self.count.saturating_sub(WINDOWS as u64);
        if oldest > 0 {
            start = start.max(self.at(oldest).start[0]);
        }
        for number in oldest..self.count {
            let window = self.at(number);
            if window.end[piece] <= start {
                continue;
            }
            if start + read <= window.start[piece] {
                break;
            }
            start = window.end[piece];
        }
        start
    }

    /// When both devices of a pair can begin a read that was asked for at `at`: at the moment at
    /// which one is ready the other may be about to be programmed.
    #[inline]
    #[must_use]
    pub fn both_readable(&self, pieces: [usize; 2], at: Ps, read: Ps) -> Ps {
        let mut start = at;
        loop {
            let ready = pieces.map(|piece| self.readable(piece, start, read));
            let both = ready[0].max(ready[1]);
            if both == start {
                return start;
            }
            start = both;
        }
    }

    /// A line that is being programmed at `at` is in the devices' latches: its
    /// pieces on media are partly old.
    #[inline]
    #[must_use]
    pub fn latched(&self, at: Ps, page: u64, bit: u32) -> bool {
        if at >= self.programmed() {
            return false;
        }
        let oldest = self.count.saturating_sub(WINDOWS as u64);
        (oldest..self.count).any(|number| {
            let window = self.at(number);
            window.page == page && window.dirty & bit != 0 && at < window.over()
        })
    }

    /// When reads that were granted to a device are over.
    #[inline]
    #[must_use]
    pub fn reads_end(&self, piece: usize) -> Ps {
        self.reads_end[piece]
    }

    /// A device reads until `end`.
    #[inline]
    pub fn note_read(&mut self, piece: usize, end: Ps) {
        self.reads_end[piece] = self.reads_end[piece].max(end);
    }

    /// Program for `busy` on each of `pieces` devices, at or after `at`; `staggered`
    /// means one after another. A piece that is not used gets an empty window.
    #[inline]
    pub fn program(
        &mut self,
        at: Ps,
        busy: Ps,
        pieces: usize,
        staggered: bool,
        what: (u64, u32),
    ) -> Window {
        let mut window = Window {
            page: what.0,
            dirty: what.1,
            ..Window::default()
        };
        let begin = at.max(self.programmed());
        let mut next = begin;
        for piece in 0..pieces {
            let start = next.max(self.reads_end[piece]);
            window.start[piece] = start;
            window.end[piece] = start + busy;
            if staggered {
                next = window.end[piece];
            }
        }
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the remainder is below WINDOWS"
        )]
        let slot = self.count as usize % WINDOWS;
        self.windows[slot] = window;
        self.count += 1;
        window
    }
}

impl Default for Group {
    fn default() -> Self {
        Self::new()
    }
}
