// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The persistent support module of OC-PMEM, with its Bare-NVDIMMs: timing,
//! wear and energy. What the lines hold is `oc`'s business.
//!
//! There are no events: each device knows when it is free next, and a request
//! is served by looking at three of them. Requests come in the order of time.
//!
//! Invariants:
//! - A line whose programming has begun and not ended is read from the latches,
//!   never from media, where its pieces differ in age.
//! - A gap moves (and a pair is exchanged) only after the record of the move
//!   before it is on media; its own record is written after the copy.
//! - The flush port returns only when every window is over.

pub mod config;
pub mod group;
pub mod wear;

use crate::error::MediaError;
use crate::memory::{Counts, Memory};
use crate::startgap::{Epoch, GapMove, Leveler, Region, Swap};
use crate::stats::{Energy, Figure, count, on_pj};
use crate::units::{LineAddr, PhysLine, Ps};
pub use config::{Layout, Order, PramPart, PsmConfig, Stagger};
use group::{Group, NO_PAGE, PIECES, Window};
use serde::{Deserialize, Serialize};
use wear::Wear;

/// Lines of the journal for each line of memory: 1 in so many. With a move for each 100 writes and an exchange,
/// which is three records, for each 256, its lines wear 0.7 times as fast as those of memory.
const JOURNAL_SHARE: u64 = 32;
/// The journal is never shorter, in lines.
const JOURNAL_MIN_LINES: u64 = 64;
/// Lines of 64 B that one access of the rank layout covers.
const RANK_LINES: u64 = 4;
/// Devices that it covers.
const RANK_DEVICES: u64 = 8;

/// What a record of the journal says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Record {
    /// A region's gap has moved.
    Move {
        /// Whose.
        region: u32,
        /// Its registers now.
        after: Region,
        /// How far reseeding is.
        epoch: Epoch,
    },
    /// A pair is being exchanged: `phase` 0, `first` is also in `spare`; 1, `second`
    /// is at `first`; 2, done.
    Swap {
        /// See above.
        phase: u8,
        /// The epoch until then.
        before: Epoch,
        /// The epoch when it is done.
        after: Epoch,
        /// Of the pair.
        first: PhysLine,
        /// Of the pair.
        second: PhysLine,
        /// Where a copy of `first` is.
        spare: PhysLine,
    },
}

/// What went to media, for callers that keep the content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// A line left the row buffer (or was written through).
    Program(PhysLine, Window),
    /// A line was copied as it is now, row buffer included.
    Copy(PhysLine, PhysLine, Window),
    /// A record of the journal.
    Journal(PhysLine, Record, Window),
}

/// The controller and its devices.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Psm {
    config: PsmConfig,
    part: PramPart,
    leveler: Leveler,
    groups: Vec<Group>,
    channel_start: Vec<Ps>,
    channel_bus: Vec<Ps>,
    blocked_until: Ps,
    map_ready: Ps,
    page_lines: u64,
    journal_next: u64,
    journal_lines: u64,
    wear: Wear,
    counts: Counts,
    piece_reads: u64,
    piece_programs: u64,
    buffer_uses: u64,
    flushes: u64,
    events: Option<Vec<Event>>,
}

/// Where a line is among the devices.
struct Place {
    group: usize,
    channel: usize,
    page: u64,
    bit: u32,
}

impl Psm {
    /// A memory of `lines` lines that was never written.
    ///
    /// # Errors
    /// When the sizes cannot be.
    pub fn new(config: PsmConfig, part: PramPart, lines: u64) -> Result<Self, MediaError> {
        if config.layout == Layout::Rank && config.xcc {
            let why = "layout rank has no device free to rebuild from: switch xcc off";
            return Err(MediaError::Geometry(why.to_owned()));
        }
        let leveler = Leveler::new(config.wear, lines)?;
        let groups = match config.layout {
            Layout::Dual => part.dimms * (part.devices_per_dimm / PIECES as u64),
            Layout::Rank => part.dimms * (part.devices_per_dimm * 2 / 3 / RANK_DEVICES).max(1),
        };
        let journal_lines = (lines / JOURNAL_SHARE)
            .max(JOURNAL_MIN_LINES)
            .max(4 * u64::from(config.wear.regions));
        let wear_lines = usize::try_from(leveler.phys_lines() + 2 * journal_lines)
            .map_err(|_| MediaError::Geometry("more lines than this host can count".to_owned()))?;
        let as_size = |n: u64| usize::try_from(n).expect("bounded by 64 DIMMs of 64 devices");
        Ok(Self {
            config,
            part,
            leveler,
            groups: vec![Group::new(); as_size(groups)],
            channel_start: vec![Ps::ZERO; as_size(part.dimms)],
            channel_bus: vec![Ps::ZERO; as_size(part.dimms)],
            blocked_until: Ps::ZERO,
            map_ready: Ps::ZERO,
            page_lines: part.page_bytes / 32,
            journal_next: 0,
            journal_lines,
            wear: Wear::new(wear_lines),
            counts: Counts::default(),
            piece_reads: 0,
            piece_programs: 0,
            buffer_uses: 0,
            flushes: 0,
            events: None,
        })
    }

    /// From a checkpoint.
    ///
    /// # Errors
    /// When the bytes are none of a PSM.
    pub fn restore(bytes: &[u8]) -> Result<Self, MediaError> {
        crate::memory::restore(bytes)
    }

    /// Keep what goes to media, for `take_events`.
    pub fn log_events(&mut self) {
        self.events = Some(Vec::new());
    }

    /// What went to media since the last call.
    pub fn take_events(&mut self) -> Vec<Event> {
        self.events.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// The wear leveler.
    #[must_use]
    pub fn leveler(&self) -> &Leveler {
        &self.leveler
    }

    /// For recovery: the seed as media have it.
    pub fn set_seed(&mut self, seed: u64) {
        self.config.wear.seed = seed;
        self.leveler.set_seed(seed);
    }

    /// For recovery: the registers as media have them.
    pub fn leveler_mut(&mut self) -> &mut Leveler {
        &mut self.leveler
    }

    /// How it was asked to be.
    #[must_use]
    pub fn config(&self) -> &PsmConfig {
        &self.config
    }

    /// Numbers of the devices.
    #[must_use]
    pub fn part(&self) -> &PramPart {
        &self.part
    }

    /// Writes of each line on the devices: data, then journal, then spares.
    #[must_use]
    pub fn wear(&self) -> &Wear {
        &self.wear
    }

    /// First line of the journal, and how many it has; spares follow.
    #[must_use]
    pub fn journal(&self) -> (PhysLine, u64) {
        (PhysLine(self.leveler.phys_lines()), self.journal_lines)
    }

    /// The number of the journal's next record.
    #[must_use]
    pub fn journal_next(&self) -> u64 {
        self.journal_next
    }

    /// The same, after recovery.
    pub fn set_journal_next(&mut self, number: u64) {
        self.journal_next = number;
    }

    /// The group of devices that a line is on.
    #[must_use]
    pub fn group_of(&self, phys: PhysLine) -> usize {
        self.place(phys).group
    }

    #[inline]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "remainders are below usize and u32"
    )]
    fn place(&self, phys: PhysLine) -> Place {
        let unit = match self.config.layout {
            Layout::Dual => phys.0,
            Layout::Rank => phys.0 / RANK_LINES,
        };
        let groups = self.groups.len() as u64;
        let row = unit / groups;
        let group = (unit - row * groups) as usize;
        Place {
            group,
            channel: group % self.channel_bus.len(),
            page: row / self.page_lines,
            bit: 1 << (row % self.page_lines),
        }
    }

    fn pieces(&self) -> usize {
        match (self.config.layout, self.config.xcc) {
            (Layout::Rank, _) => 1,
            (Layout::Dual, false) => 2,
            (Layout::Dual, true) => 3,
        }
    }

    /// Time for which programming one line (or block) keeps a device busy.
    fn program_time(&self) -> Ps {
        match self.config.layout {
            Layout::Dual => self.part.program,
            Layout::Rank => self.part.read + self.part.program,
        }
    }

    fn front(&self) -> Ps {
        Ps(self.part.controller.0 / 2)
    }

    fn back(&self) -> Ps {
        self.part.controller - self.front()
    }

    /// When a request that came at `at` may begin.
    #[inline]
    fn begin(&self, at: Ps, channel: usize) -> Ps {
        let begin = (at + self.front()).max(self.blocked_until);
        match self.config.order {
            Order::Free => begin,
            Order::Channel => begin.max(self.channel_start[channel]),
            Order::Module => begin.max(self.channel_start[0]),
        }
    }

    /// A request has begun at `start`: those behind it may.
    #[inline]
    fn begun(&mut self, channel: usize, start: Ps) {
        match self.config.order {
            Order::Free => {}
            Order::Channel => self.channel_start[channel] = start,
            Order::Module => self.channel_start[0] = start,
        }
    }

    /// The channel carries one line: by how much that delays what is ready at `ready`.
    #[inline]
    fn carry(&mut self, channel: usize, asked: Ps, ready: Ps) -> Ps {
        let bus = self.channel_bus[channel].max(asked);
        self.channel_bus[channel] = bus + self.part.burst;
        ready.max(bus) + self.part.burst
    }

    /// Program lines of a page; how many lines that are.
    fn program(&mut self, group: usize, at: Ps, page: u64, dirty: u32) -> Window {
        let pieces = self.pieces();
        let lines = u64::from(dirty.count_ones());
        let busy = self.program_time().times(lines);
        let staggered = pieces == PIECES
            && match self.config.stagger {
                Stagger::Always => true,
                Stagger::WhenIdle => at >= self.groups[group].programmed(),
                Stagger::Never => false,
            };
        let window = self.groups[group].program(at, busy, pieces, staggered, (page, dirty));
        let devices = if self.config.layout == Layout::Rank {
            RANK_DEVICES
        } else {
            pieces as u64
        };
        self.piece_programs += devices * lines;
        if self.config.layout == Layout::Rank {
            self.piece_reads += devices * lines;
            self.counts.extra_reads += lines;
        }
        window
    }

    /// Put the row buffer of a group on media.
    fn evict(&mut self, group: usize, at: Ps) -> Window {
        let (page, dirty) = (self.groups[group].page, self.groups[group].dirty);
        self.groups[group].dirty = 0;
        let window = self.program(group, at, page, dirty);
        self.counts.array_writes += u64::from(dirty.count_ones());
        let mut left = dirty;
        while left != 0 {
            let row = page * self.page_lines + u64::from(left.trailing_zeros());
            left &= left - 1;
            self.wear_unit(row, group, window);
        }
        window
    }

    /// One more write of what lies at a row of a group.
    #[inline]
    fn wear_unit(&mut self, row: u64, group: usize, window: Window) {
        let unit = row * self.groups.len() as u64 + group as u64;
        let (first, lines) = match self.config.layout {
            Layout::Dual => (unit, 1),
            Layout::Rank => (unit * RANK_LINES, RANK_LINES),
        };
        for phys in first..first + lines {
            self.wear.add(phys);
        }
        if let Some(events) = &mut self.events {
            events.push(Event::Program(PhysLine(first), window));
        }
    }

    /// When a line that comes at `at` is in its row buffer.
    #[inline]
    fn buffer_write(&mut self, place: &Place, at: Ps) -> Ps {
        let group = &mut self.groups[place.group];
        let begin = if group.page == place.page {
            self.counts.row_writes += u64::from(group.dirty != 0);
            at.max(group.buffer_free)
        } else if group.dirty == 0 {
            at.max(group.buffer_free)
        } else {
            let lines = group.dirty.count_ones();
            let at = at.max(group.buffer_free);
            let window = self.evict(place.group, at);
            // One line waits in the devices' latches; of more, the row buffer
            // holds the rest until the last is latched.
            if lines == 1 {
                window.start[0]
            } else {
                window.over() - self.program_time()
            }
        };
        let group = &mut self.groups[place.group];
        group.page = place.page;
        group.dirty |= place.bit;
        group.buffer_free = begin + self.part.row_buffer;
        self.buffer_uses += self.pieces() as u64;
        begin
    }

    /// A write that does not stay in the row buffer.
    fn write_through(&mut self, place: &Place, at: Ps) -> Window {
        let group = &mut self.groups[place.group];
        group.page = place.page;
        group.dirty = place.bit;
        let window = self.evict(place.group, at);
        self.groups[place.group].page = NO_PAGE;
        window
    }

    fn copy(&mut self, from: PhysLine, to: PhysLine, at: Ps) -> Ps {
        let source = self.place(from);
        let read = self.part.read;
        let mut ready = at;
        for piece in 0..self.pieces().min(2) {
            let start = self.groups[source.group].readable(piece, at, read);
            self.groups[source.group].note_read(piece, start + read);
            ready = ready.max(start + read);
            self.piece_reads += 1;
        }
        let group = &mut self.groups[source.group];
        if group.page == source.page && self.config.layout == Layout::Dual {
            group.dirty &= !source.bit; // it goes along; the old place is free
        }
        self.counts.extra_reads += 1;
        let window = self.extra_program(to, ready);
        if let Some(events) = &mut self.events {
            events.push(Event::Copy(from, to, window));
        }
        window.over()
    }

    fn extra_program(&mut self, to: PhysLine, at: Ps) -> Window {
        let target = self.place(to);
        let window = self.program(target.group, at, target.page, target.bit);
        self.counts.extra_writes += 1;
        self.wear.add(to.0);
        window
    }

    fn record(&mut self, record: Record, at: Ps) -> Ps {
        let slot = PhysLine(self.leveler.phys_lines() + self.journal_next % self.journal_lines);
        self.journal_next += 1;
        let window = self.extra_program(slot, at);
        if let Some(events) = &mut self.events {
            events.push(Event::Journal(slot, record, window));
        }
        window.over()
    }

    #[cold]
    fn move_gap(&mut self, gap: GapMove, at: Ps) {
        let copied = self.copy(gap.from, gap.to, at.max(self.map_ready));
        let record = Record::Move {
            region: gap.region,
            after: gap.after,
            epoch: self.leveler.epoch(),
        };
        self.map_ready = self.record(record, copied);
        self.leveler.commit_move(gap.region, gap.after);
    }

    #[cold]
    fn swap(&mut self, swap: Swap, at: Ps) {
        let slot = self.journal_next % self.journal_lines;
        let spare = PhysLine(self.leveler.phys_lines() + self.journal_lines + slot);
        let Swap {
            first,
            second,
            after,
        } = swap;
        let before = self.leveler.epoch();
        let mut ready = at.max(self.map_ready);
        for (phase, (from, to)) in [(first, spare), (second, first), (spare, second)]
            .into_iter()
            .enumerate()
        {
            ready = self.copy(from, to, ready);
            #[expect(clippy::cast_possible_truncation, reason = "three phases")]
            let phase = phase as u8;
            ready = self.record(
                Record::Swap {
                    phase,
                    before,
                    after,
                    first,
                    second,
                    spare,
                },
                ready,
            );
        }
        self.map_ready = ready;
        self.leveler.commit_swap(after);
    }

    fn level(&mut self, line: LineAddr, at: Ps) {
        let (gap, swap) = self.leveler.count_write(line);
        if let Some(gap) = gap {
            self.move_gap(gap, at);
        }
        if swap.is_some() {
            let swap = self.leveler.next_swap(); // the gap may have moved since
            self.swap(swap, at);
        }
    }

    /// Two of three devices, or both, or the whole rank: when their data is there.
    #[inline]
    fn array_read(&mut self, place: &Place, at: Ps) -> (Ps, Ps) {
        let read = self.part.read;
        let group = &self.groups[place.group];
        if self.config.layout == Layout::Rank {
            let start = group.readable(0, at, read);
            self.counts.blocked_reads += u64::from(start > at.max(group.reads_end(0)));
            self.groups[place.group].note_read(0, start + read);
            self.piece_reads += RANK_DEVICES;
            return (start, start + read);
        }
        let ready = [group.readable(0, at, read), group.readable(1, at, read)];
        let mut use_pieces = [0, 1];
        let mut start = ready[0].max(ready[1]);
        if self.config.xcc && start > at {
            let code = group.readable(2, at, read);
            let (best, other) = if ready[0] <= ready[1] { (0, 1) } else { (1, 0) };
            if code < ready[other] {
                use_pieces = [best, 2];
                start = ready[best].max(code);
                self.counts.rebuilt_reads += 1;
            }
        }
        if start > at {
            start = group.both_readable(use_pieces, start, read);
        }
        let idle = at
            .max(group.reads_end(use_pieces[0]))
            .max(group.reads_end(use_pieces[1]));
        self.counts.blocked_reads += u64::from(start > idle);
        for piece in use_pieces {
            self.groups[place.group].note_read(piece, start + read);
        }
        self.piece_reads += 2;
        (start, start + read)
    }
}

impl Memory for Psm {
    fn lines(&self) -> u64 {
        self.leveler.lines()
    }

    #[inline]
    fn read(&mut self, at: Ps, line: LineAddr) -> Ps {
        let place = self.place(self.leveler.locate(line));
        let begin = self.begin(at, place.channel);
        let group = &self.groups[place.group];
        let open = group.page == place.page && group.dirty & place.bit != 0;
        let (start, ready) = if open || group.latched(begin, place.page, place.bit) {
            self.counts.row_reads += 1;
            self.buffer_uses += 2;
            let start = if open {
                begin.max(group.buffer_free)
            } else {
                begin
            };
            (start, start + self.part.row_buffer)
        } else {
            self.array_read(&place, begin)
        };
        self.begun(place.channel, start);
        let checked = if self.config.xcc {
            ready + self.part.xcc
        } else {
            ready
        };
        let done = self.carry(place.channel, begin, checked) + self.back();
        self.counts.read.add(done - at);
        done
    }

    #[inline]
    fn write(&mut self, at: Ps, line: LineAddr) -> Ps {
        let place = self.place(self.leveler.locate(line));
        let begin = self.begin(at, place.channel);
        let arrived = self.carry(place.channel, begin, begin);
        let (start, accepted) = if self.config.row_buffer && self.config.early_return {
            let start = self.buffer_write(&place, arrived);
            (start, start + self.part.row_buffer)
        } else {
            let window = if self.config.row_buffer {
                let start = self.buffer_write(&place, arrived);
                self.evict(place.group, start)
            } else {
                self.write_through(&place, arrived)
            };
            let accepted = if self.config.early_return {
                window.start[0] + self.part.row_buffer
            } else {
                window.over()
            };
            (window.start[0], accepted)
        };
        self.begun(place.channel, start);
        // Without early return, accepted means on media, and so must be the map.
        let accepted = if self.config.early_return {
            accepted
        } else {
            accepted.max(self.map_ready)
        };
        let done = accepted + self.back();
        self.counts.write.add(done - at);
        self.level(line, accepted);
        done
    }

    /// Row buffers and registers are volatile until the flush port has answered.
    fn persist(&mut self, at: Ps) -> Ps {
        self.flush(at)
    }

    fn has_flush_port(&self) -> bool {
        true
    }

    fn flush(&mut self, at: Ps) -> Ps {
        let begin = (at + self.front()).max(self.blocked_until);
        let mut end = begin.max(self.map_ready);
        for group in 0..self.groups.len() {
            if self.groups[group].dirty != 0 {
                let from = begin.max(self.groups[group].buffer_free);
                self.evict(group, from);
            }
            end = end.max(self.groups[group].programmed());
        }
        self.blocked_until = end;
        self.flushes += 1;
        end + self.back()
    }

    fn reset(&mut self, at: Ps) -> Ps {
        let begin = self.flush(at);
        // Every device wipes its own cells; they do so at the same time, 32 B each.
        let rows =
            (self.leveler.phys_lines() + 2 * self.journal_lines).div_ceil(self.groups.len() as u64);
        let end = begin + self.part.program.times(rows);
        for phys in 0..self.wear.lines() {
            self.wear.add(phys);
        }
        for group in &mut self.groups {
            group.page = NO_PAGE;
        }
        // The journal is gone with the rest, so the registers are those of an empty one.
        self.leveler = Leveler::new(self.config.wear, self.leveler.lines())
            .expect("sizes that could be can be again");
        self.journal_next = 0;
        self.map_ready = end;
        self.blocked_until = end;
        end
    }

    fn counts(&self) -> &Counts {
        &self.counts
    }

    fn energy(&self, until: Ps) -> Energy {
        let devices = u32::try_from(self.part.dimms * self.part.devices_per_dimm);
        let devices = f64::from(devices.expect("bounded by 64 DIMMs of 64 devices"));
        let buffered = self.buffer_uses * self.part.row_buffer_pj;
        Energy {
            background_pj: on_pj(self.part.background_mw * devices, until),
            refresh_pj: 0,
            activate_pj: 0,
            read_pj: self.piece_reads * self.part.read_pj,
            write_pj: self.piece_programs * self.part.program_pj + buffered,
        }
    }

    fn checkpoint(&self) -> Vec<u8> {
        crate::memory::save(self)
    }

    fn own_figures(&self) -> Vec<Figure> {
        vec![
            count(
                "piece_reads",
                self.piece_reads,
                "Reads of 32 B of one device.",
            ),
            count(
                "piece_programs",
                self.piece_programs,
                "Programmings of 32 B of one device.",
            ),
            count(
                "wear_max",
                self.wear.max(),
                "Writes of the line that has most.",
            ),
            count("flushes", self.flushes, "Uses of the flush port."),
            Figure {
                name: "register_bytes",
                #[expect(clippy::cast_precision_loss, reason = "small")]
                value: self.leveler.register_bytes() as f64,
                unit: "bytes",
                about: "Registers of the wear leveler.",
            },
        ]
    }
}
