// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A cut of power, and what is done when power is back.

use super::{Oc, journal};
use crate::psm::Psm;
use crate::startgap::{Epoch, Region};
use crate::units::{PhysLine, Ps};
use crate::xcc::{Line, decode_after_cut};
use std::collections::BTreeMap;

/// What recovery found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Records of the journal that were readable.
    pub records: u64,
    /// Lines of mixed age that were mended.
    pub repaired: u64,
    /// Lines that no code could give back.
    pub contained: u64,
    /// An exchange had been cut and was completed.
    pub swap_completed: bool,
}

impl Oc {
    /// Power goes at `at` and comes back: only media is left. The registers of the
    /// leveler are found in the journal; a new controller starts at time zero.
    #[must_use]
    pub fn cut(mut self, at: Ps) -> (Self, Recovery) {
        let flights = std::mem::take(&mut self.flights);
        for flight in &flights {
            let new = self.pieces_of(flight);
            let phys = PhysLine(flight.phys);
            let torn = self.torn_pieces;
            let count = self.count;
            let cells = self.cells(phys);
            for (index, piece) in new.iter().enumerate().take(count) {
                // The second code is written with the first.
                let (start, end) = (flight.start[index.min(2)], flight.end[index.min(2)]);
                if end <= at || (start < at && !torn) {
                    cells[index] = *piece;
                } else if start < at {
                    cells[index].data.iter_mut().for_each(|byte| *byte ^= 0xa5);
                }
            }
        }
        self.buffers.clear();
        let lines = self.psm.leveler().lines();
        let mut config = *self.psm.config();
        config.wear.seed = 0; // a register, and gone
        let mut fresh = Psm::new(config, *self.psm.part(), lines)
            .expect("a controller that was made can be made again");
        fresh.log_events();
        self.psm = fresh;
        let mut found = Recovery::default();
        self.recover_map(&mut found);
        (found.repaired, found.contained) = self.scrub_by(decode_after_cut);
        (self, found)
    }

    /// The journal's records by their sequence; of each region the newest state.
    fn recover_map(&mut self, found: &mut Recovery) {
        let (first, lines) = self.psm.journal();
        let mut entries = BTreeMap::new();
        for slot in first.0..first.0 + lines {
            if !self.media.contains_key(&slot) {
                continue;
            }
            let line = self.decode_by(decode_after_cut, PhysLine(slot)).line();
            if let Some(entry) = line.as_ref().and_then(journal::parse) {
                entries.insert(entry.sequence, entry);
            }
        }
        found.records = entries.len() as u64;
        let Some((sequence, last)) = entries.last_key_value().map(|(at, it)| (*at, *it)) else {
            return;
        };
        let mut regions: BTreeMap<u32, Region> = BTreeMap::new();
        for entry in entries.values() {
            regions.insert(entry.other.0, entry.other.1);
            if let Some((index, region)) = entry.moved {
                regions.insert(index, region);
            }
        }
        self.psm.set_seed(last.seed);
        let leveler = self.psm.leveler_mut();
        for (index, region) in regions {
            leveler.commit_move(index, region);
        }
        leveler.set_epoch(last.epoch);
        self.psm.set_journal_next(sequence + 1);
        if let Some(phase @ (0 | 1)) = last.phase {
            self.complete_swap(phase, sequence, first, lines);
            found.swap_completed = true;
        }
    }

    /// Phase 0: `first` is in the spare line, so `second` can go to its place again.
    /// Phase 1: `second` is there, so the spare can go to its place again.
    fn complete_swap(&mut self, phase: u8, sequence: u64, journal: PhysLine, lines: u64) {
        let swap = self.psm.leveler().next_swap();
        let begun = sequence - u64::from(phase);
        let spare = PhysLine(journal.0 + lines + begun % lines);
        if phase == 0 {
            self.copy_now(swap.second, swap.first);
            // Power may go again: what is done must not be done twice.
            let before = self.psm.leveler().epoch();
            self.write_epoch(1, before, begun + 1);
        }
        self.copy_now(spare, swap.second);
        self.psm.leveler_mut().commit_swap(swap.after);
        self.write_epoch(2, swap.after, begun + 2);
    }

    fn copy_now(&mut self, from: PhysLine, to: PhysLine) {
        match self.decode_by(decode_after_cut, from).line() {
            Some(line) => self.store(to, &line),
            None => {
                self.media.insert(to.0, crate::xcc::poison(0, to));
            }
        }
    }

    fn write_epoch(&mut self, phase: u8, epoch: Epoch, sequence: u64) {
        let record = crate::psm::Record::Swap {
            phase,
            before: epoch,
            after: epoch,
            first: PhysLine(0),
            second: PhysLine(0),
            spare: PhysLine(0),
        };
        let line: Line = journal::encode(sequence, record, self.psm.leveler());
        let (first, lines) = self.psm.journal();
        self.store(PhysLine(first.0 + sequence % lines), &line);
        self.psm.set_journal_next(sequence + 1);
    }
}
