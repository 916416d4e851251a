// SPDX-License-Identifier: Apache-2.0 OR MIT
//! OC-PMEM with content: a PSM and what its devices hold, so that power can be
//! cut at any moment and faults be put into cells.
//!
//! What a cut leaves: a piece whose programming has ended is new; one that had not
//! begun is old; one under way is finished by the device's own charge
//! (ASSUMED), or garbage where `torn_pieces` is set. Row buffers are lost.
//!
//! Invariants:
//! - After the flush port, every write before it is read after a cut.
//! - Without it, a line is what it was at some moment since the last flush.
//! - Start, gap and seed are found from the journal alone.

pub mod journal;
mod recover;

use crate::error::MediaError;
use crate::memory::Memory;
use crate::psm::group::Window;
use crate::psm::{Event, Layout, Psm, Record};
use crate::units::{LineAddr, PhysLine, Ps};
use crate::xcc::{self, Line, Pieces, Read};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How a line is read from its pieces.
type Decoder = fn(&Pieces, usize, PhysLine) -> Read;

/// A programming under way.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Flight {
    phys: u64,
    line: Option<Vec<u8>>,
    generation: u8,
    start: [Ps; 3],
    end: [Ps; 3],
}

impl Flight {
    fn over(&self) -> Ps {
        self.end[0].max(self.end[1]).max(self.end[2])
    }
}

/// Controller, devices and content.
#[derive(Clone, Debug)]
pub struct Oc {
    psm: Psm,
    count: usize,
    media: BTreeMap<u64, Pieces>,
    generation_reads: u64,
    programs: u64,
    buffers: BTreeMap<u64, Line>,
    flights: Vec<Flight>,
    /// A piece under way at a cut is garbage.
    pub torn_pieces: bool,
}

impl Oc {
    /// Over a PSM that was never written; `second_code` adds the fourth piece.
    ///
    /// # Errors
    /// When the PSM has no code.
    pub fn new(mut psm: Psm, second_code: bool) -> Result<Self, MediaError> {
        if psm.config().layout != Layout::Dual || !psm.config().xcc {
            let why = "content needs layout dual with xcc: codes are what it is stored with";
            return Err(MediaError::Geometry(why.to_owned()));
        }
        psm.log_events();
        let mut oc = Self {
            psm,
            count: if second_code { 4 } else { 3 },
            media: BTreeMap::new(),
            generation_reads: 0,
            programs: 0,
            buffers: BTreeMap::new(),
            flights: Vec::new(),
            torn_pieces: false,
        };
        oc.begin_journal();
        Ok(oc)
    }

    /// The first record, so that seed and registers are on media before any line is.
    fn begin_journal(&mut self) {
        let leveler = self.psm.leveler();
        let record = Record::Move {
            region: 0,
            after: leveler.region(0),
            epoch: leveler.epoch(),
        };
        let line = journal::encode(0, record, leveler);
        let (first, _) = self.psm.journal();
        self.store(first, &line);
        self.psm.set_journal_next(1);
    }

    /// The controller.
    #[must_use]
    pub fn psm(&self) -> &Psm {
        &self.psm
    }

    /// Where a host's line is now.
    #[must_use]
    pub fn locate(&self, line: LineAddr) -> PhysLine {
        self.psm.leveler().locate(line)
    }

    /// The pieces of a line as devices have them, to put faults into.
    pub fn cells(&mut self, phys: PhysLine) -> &mut Pieces {
        self.media
            .entry(phys.0)
            .or_insert_with(|| xcc::encode(&[0; 64], 0, phys))
    }

    /// Pieces that were read to learn a line's generation before it was programmed. The controller
    /// keeps none: a byte for each line of a large memory has no place on it. The journal's lines
    /// need no read: their generation is that of their turn.
    #[must_use]
    pub fn generation_reads(&self) -> u64 {
        self.generation_reads
    }

    /// Lines that were programmed, the journal's too.
    #[must_use]
    pub fn programs(&self) -> u64 {
        self.programs
    }

    /// Moments at which what a cut leaves changes.
    #[must_use]
    pub fn moments(&self) -> Vec<Ps> {
        let flights = self.flights.iter();
        flights
            .flat_map(|it| it.start.iter().chain(&it.end).copied().collect::<Vec<_>>())
            .collect()
    }

    fn decode(&self, phys: PhysLine) -> Read {
        self.decode_by(xcc::decode, phys)
    }

    fn decode_by(&self, by: Decoder, phys: PhysLine) -> Read {
        match self.media.get(&phys.0) {
            Some(pieces) => by(pieces, self.count, phys),
            None => Read::Clean([0; 64]),
        }
    }

    /// What a line is now, wherever it is.
    fn content(&self, phys: PhysLine) -> Read {
        if let Some(line) = self.buffers.get(&phys.0) {
            return Read::Clean(*line);
        }
        if let Some(flight) = self.flights.iter().rev().find(|it| it.phys == phys.0) {
            return match &flight.line {
                Some(line) => Read::Clean(line[..].try_into().expect("64 bytes")),
                None => Read::Contained,
            };
        }
        self.decode(phys)
    }

    /// The newest generation that a line has on media, or will have.
    fn newest_generation(&self, phys: PhysLine) -> u8 {
        if let Some(flight) = self.flights.iter().rev().find(|it| it.phys == phys.0) {
            return flight.generation;
        }
        self.media.get(&phys.0).map_or(0, |pieces| {
            let ages = pieces[..self.count].iter().map(|piece| piece.generation);
            ages.reduce(|a, b| if b.wrapping_sub(a) < 128 { b } else { a })
                .unwrap_or(0)
        })
    }

    fn launch(&mut self, phys: PhysLine, line: Option<Line>, window: &Window) {
        let generation = self.newest_generation(phys).wrapping_add(1);
        self.programs += 1;
        self.flights.push(Flight {
            phys: phys.0,
            line: line.map(|line| line.to_vec()),
            generation,
            start: window.start,
            end: window.end,
        });
    }

    fn pieces_of(&self, flight: &Flight) -> Pieces {
        let phys = PhysLine(flight.phys);
        let Some(line) = &flight.line else {
            return xcc::poison(flight.generation, phys);
        };
        let line: Line = line[..].try_into().expect("64 bytes");
        xcc::encode(&line, flight.generation, phys)
    }

    /// Before cells are looked at: what has been programmed by `at` is in them.
    pub fn settle_at(&mut self, at: Ps) {
        self.settle(at);
    }

    /// What has been programmed by `at` is on media.
    fn settle(&mut self, at: Ps) {
        let flights = std::mem::take(&mut self.flights);
        for flight in flights {
            if flight.over() <= at {
                let pieces = self.pieces_of(&flight);
                self.media.insert(flight.phys, pieces);
            } else {
                self.flights.push(flight);
            }
        }
    }

    fn take_in(&mut self, events: Vec<Event>, mut new: Option<(PhysLine, Line)>) {
        let (early, buffered) = (self.psm.config().early_return, self.psm.config().row_buffer);
        for event in events {
            let leveling = !matches!(event, Event::Program(..));
            if leveling && early && buffered {
                if let Some((phys, line)) = new.take() {
                    self.buffers.insert(phys.0, line);
                }
            }
            match event {
                Event::Program(phys, window) => {
                    let own = new.filter(|(own, _)| *own == phys);
                    let line = own
                        .map(|(_, line)| line)
                        .or_else(|| self.buffers.remove(&phys.0));
                    if own.is_some() {
                        new = None;
                    }
                    if let Some(line) = line {
                        self.generation_reads += 1;
                        self.launch(phys, Some(line), &window);
                    }
                }
                Event::Copy(from, to, window) => {
                    let line = self.content(from).line();
                    self.buffers.remove(&from.0);
                    self.generation_reads += 1;
                    self.launch(to, line, &window);
                }
                Event::Journal(slot, record, window) => self.note(slot, record, window),
            }
        }
        if let Some((phys, line)) = new {
            self.buffers.insert(phys.0, line);
        }
    }

    fn note(&mut self, slot: PhysLine, record: Record, window: Window) {
        let sequence = journal::sequence_of(&self.psm, slot);
        let line = journal::encode(sequence, record, self.psm.leveler());
        self.launch(slot, Some(line), &window);
    }

    /// A write-back of the host; when it may forget the line.
    pub fn write(&mut self, at: Ps, line: LineAddr, data: &Line) -> Ps {
        self.settle(at);
        let phys = self.locate(line);
        let done = self.psm.write(at, line);
        let events = self.psm.take_events();
        self.take_in(events, Some((phys, *data)));
        done
    }

    /// A miss of the host: when the data is there, and what it is.
    pub fn read(&mut self, at: Ps, line: LineAddr) -> (Ps, Read) {
        self.settle(at);
        let phys = self.locate(line);
        let done = self.psm.read(at, line);
        (done, self.content(phys))
    }

    /// The flush port.
    pub fn flush(&mut self, at: Ps) -> Ps {
        self.settle(at);
        let done = self.psm.flush(at);
        let events = self.psm.take_events();
        self.take_in(events, None);
        done
    }

    /// The reset port: all lines are zeros afterwards.
    pub fn reset(&mut self, at: Ps) -> Ps {
        let done = self.psm.reset(at);
        self.psm.take_events();
        self.media.clear();
        self.buffers.clear();
        self.flights.clear();
        self.begin_journal();
        done
    }

    /// Look at every line on media and mend what can be; lines repaired and contained.
    pub fn scrub(&mut self) -> (u64, u64) {
        self.scrub_by(xcc::decode)
    }

    fn scrub_by(&mut self, by: Decoder) -> (u64, u64) {
        let (mut repaired, mut contained) = (0, 0);
        let all: Vec<u64> = self.media.keys().copied().collect();
        for phys in all.into_iter().map(PhysLine) {
            match self.decode_by(by, phys) {
                Read::Clean(_) => {}
                Read::Repaired(line) => {
                    repaired += 1;
                    self.store(phys, &line);
                }
                Read::Contained => contained += 1,
            }
        }
        (repaired, contained)
    }

    /// Write a line to media at once, with a generation above all that are there.
    fn store(&mut self, phys: PhysLine, line: &Line) {
        let generation = self.newest_generation(phys).wrapping_add(1);
        self.media
            .insert(phys.0, xcc::encode(line, generation, phys));
    }
}
