// SPDX-License-Identifier: Apache-2.0 OR MIT
//! DRAM behind a conventional controller: channels, bank groups, banks, open rows, refresh.
//!
//! Invariants (the gates of JESD79-4 that bind here): a row is opened not before
//! tRP after it was closed and tRP + tRAS after it was opened, a column is accessed
//! not before tRCD after that, a row is closed not before tWR after its last write.
//! On a channel two rows are opened not closer than tRRD_S, in one bank group than tRRD_L;
//! five not within tFAW. In one bank group two columns are accessed not closer than
//! tCCD_L; tCCD_S is a burst, which the bus keeps.
//!
//! Lines that follow each other on a channel are of different bank groups, as in real
//! controllers: otherwise tCCD_L would bind every stream.

use crate::error::MediaError;
use crate::memory::{Counts, Memory};
use crate::parts::Part;
use crate::spacing::{Apart, Spacing};
use crate::stats::{Energy, on_pj};
use crate::units::{LINE_BYTES, LineAddr, Ps};
use serde::{Deserialize, Serialize};

const NO_ROW: u64 = u64::MAX;

/// The numbers of a part of kind `dram`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct DramPart {
    channels: u64,
    banks: u64,
    groups: u64,
    row_lines: u64,
    controller: Ps,
    /// Opening a row.
    pub trcd: Ps,
    /// Closing it.
    pub trp: Ps,
    tcl: Ps,
    tcwl: Ps,
    /// From opening to closing.
    pub tras: Ps,
    /// From the last write to closing.
    pub twr: Ps,
    /// From opening a row to opening one of another bank group.
    pub trrd_s: Ps,
    /// The same in one bank group.
    pub trrd_l: Ps,
    /// From opening a row to opening the fourth after it.
    pub tfaw: Ps,
    /// From a column to the next in one bank group.
    pub tccd_l: Ps,
    tburst: Ps,
    trefi: Ps,
    trfc: Ps,
    activate_pj: u64,
    read_pj: u64,
    write_pj: u64,
    refresh_pj: u64,
    background_mw: f64,
}

impl DramPart {
    /// From its table.
    ///
    /// # Errors
    /// When it is no such part.
    pub fn from_part(part: &Part) -> Result<Self, MediaError> {
        let mut from = part.reader("dram")?;
        let read = Self {
            channels: from.count("channels")?,
            banks: from.power_of_two("banks")?,
            groups: from.power_of_two("bank_groups")?,
            row_lines: from.power_of_two("row_bytes")? / LINE_BYTES,
            controller: from.ns("controller_ns")?,
            trcd: from.ns("trcd_ns")?,
            trp: from.ns("trp_ns")?,
            tcl: from.ns("tcl_ns")?,
            tcwl: from.ns("tcwl_ns")?,
            tras: from.ns("tras_ns")?,
            twr: from.ns("twr_ns")?,
            trrd_s: from.ns("trrd_s_ns")?,
            trrd_l: from.ns("trrd_l_ns")?,
            tfaw: from.ns("tfaw_ns")?,
            tccd_l: from.ns("tccd_l_ns")?,
            tburst: from.ns("tburst_ns")?,
            trefi: from.ns("trefi_ns")?,
            trfc: from.ns("trfc_ns")?,
            activate_pj: from.count("activate_pj")?,
            read_pj: from.count("read_pj")?,
            write_pj: from.count("write_pj")?,
            refresh_pj: from.count("refresh_pj")?,
            background_mw: from.number("background_mw")?,
        };
        from.finish()?;
        let geometry = |why: &str| Err(MediaError::Geometry(format!("part {}: {why}", part.name)));
        if read.channels > 64 || read.banks > 1024 {
            return geometry("more than 64 channels or 1024 banks");
        }
        if read.groups > read.banks {
            return geometry("more bank_groups than banks");
        }
        if read.row_lines == 0 {
            return geometry("a row shorter than a line of 64 bytes");
        }
        if read.trefi <= read.trfc {
            return geometry("refresh takes all the time: trfc_ns must be below trefi_ns");
        }
        Ok(read)
    }

    /// Of rows that are opened.
    fn opens(&self) -> Apart {
        Apart {
            // Each takes current that the chip has to recover.
            same: self.trrd_l,
            // Of another bank group.
            other: self.trrd_s,
            // And four at a time at most.
            five: self.tfaw,
        }
    }

    /// Of columns, beside what the bus keeps.
    fn columns(&self) -> Apart {
        Apart {
            // A bank group has one path for data.
            same: self.tccd_l,
            other: Ps::ZERO,
            five: Ps::ZERO,
        }
    }
}

/// Where a line is.
#[derive(Clone, Copy, Debug)]
struct Place {
    channel: usize,
    group: u64,
    /// Of all channels'.
    bank: usize,
    row: u64,
}

/// What the banks of a channel share.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Channel {
    bus: Ps,
    opens: Spacing,
    columns: Spacing,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Bank {
    row: u64,
    opened: Ps,
    open_from: Ps,
    close_from: Ps,
    column_from: Ps,
    refreshed: u64,
}

/// A command that went to a bank, for checks of the gates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    /// The row is closed.
    Close,
    /// A row is opened.
    Open,
    /// A column is read.
    Read,
    /// A column is written; its data are there after tCWL and a burst.
    Write,
}

/// Controller and memory.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Dram {
    part: DramPart,
    lines: u64,
    banks: Vec<Bank>,
    channels: Vec<Channel>,
    /// When the last write is accepted.
    accepted: Ps,
    counts: Counts,
    opened: u64,
    commands: Option<Vec<(usize, Command, Ps)>>,
}

impl Dram {
    /// A memory of `lines` lines.
    ///
    /// # Errors
    /// When it has none.
    pub fn new(part: DramPart, lines: u64) -> Result<Self, MediaError> {
        if lines == 0 {
            return Err(MediaError::Geometry("a memory of 0 lines".to_owned()));
        }
        let bank = Bank {
            row: NO_ROW,
            opened: Ps::ZERO,
            open_from: Ps::ZERO,
            close_from: Ps::ZERO,
            column_from: Ps::ZERO,
            refreshed: 0,
        };
        let size = |n: u64| usize::try_from(n).expect("bounded when the part was read");
        Ok(Self {
            part,
            lines,
            banks: vec![bank; size(part.channels * part.banks)],
            channels: vec![Channel::default(); size(part.channels)],
            accepted: Ps::ZERO,
            counts: Counts::default(),
            opened: 0,
            commands: None,
        })
    }

    /// Keep commands, for `take_commands`.
    pub fn log_commands(&mut self) {
        self.commands = Some(Vec::new());
    }

    /// Commands since the last call: bank, what, when.
    pub fn take_commands(&mut self) -> Vec<(usize, Command, Ps)> {
        self.commands
            .as_mut()
            .map(std::mem::take)
            .unwrap_or_default()
    }

    fn note(&mut self, bank: usize, command: Command, at: Ps) {
        if let Some(commands) = &mut self.commands {
            commands.push((bank, command, at));
        }
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "remainders are below usize"
    )]
    fn place(&self, line: LineAddr) -> Place {
        let part = &self.part;
        let (channel, column) = (line.0 % part.channels, line.0 / part.channels);
        let (group, column) = (column % part.groups, column / part.groups);
        let in_group = part.banks / part.groups;
        let bank = column / part.row_lines;
        let (bank, row) = (bank % in_group * part.groups + group, bank / in_group);
        Place {
            channel: channel as usize,
            group,
            bank: (channel * part.banks + bank) as usize,
            row,
        }
    }

    /// Refresh stops a channel for tRFC in each tREFI, and closes its rows.
    fn after_refresh(&mut self, bank: usize, at: Ps) -> Ps {
        let round = at.0 / self.part.trefi.0;
        let within = Ps(at.0 % self.part.trefi.0);
        let bank = &mut self.banks[bank];
        if bank.refreshed < round {
            bank.refreshed = round;
            bank.row = NO_ROW;
            bank.open_from = Ps::ZERO;
        }
        if round > 0 && within < self.part.trfc {
            at + (self.part.trfc - within)
        } else {
            at
        }
    }

    /// When the next command of a bank for a row can go out, and what it is for: a column, opening,
    /// or closing the row that is open to open another. A bank that is busy may be free only when
    /// the next refresh is due.
    fn next(&mut self, place: Place, at: Ps) -> (Ps, Ps) {
        let mut at = self.after_refresh(place.bank, at);
        loop {
            let state = self.banks[place.bank];
            let (due, opens) = if state.row == place.row {
                let column = self.column_at(place, at.max(state.column_from));
                (column, column)
            } else if state.row == NO_ROW {
                let free = at
                    .max(state.open_from)
                    .max(state.close_from + self.part.trp);
                let open = self.open_at(place, free);
                (open, open)
            } else {
                let close = at.max(state.close_from);
                let free = close + self.part.trp;
                (close, self.open_at(place, free))
            };
            let later = self.after_refresh(place.bank, opens);
            if later == opens && self.banks[place.bank].row == state.row {
                return (due, opens);
            }
            at = later;
        }
    }

    /// When a row can be opened, of all that its channel has opened and will.
    fn open_at(&self, place: Place, from: Ps) -> Ps {
        let opens = &self.channels[place.channel].opens;
        opens.earliest(self.part.opens(), place.group, from)
    }

    /// The same of a column.
    fn column_at(&self, place: Place, from: Ps) -> Ps {
        let columns = &self.channels[place.channel].columns;
        columns.earliest(self.part.columns(), place.group, from)
    }

    /// When the column command of an access goes out.
    fn column(&mut self, place: Place, at: Ps) -> (Ps, bool) {
        let (at, open) = self.next(place, at);
        let open_row = self.banks[place.bank].row;
        if open_row == place.row {
            return (at, true);
        }
        if open_row != NO_ROW {
            self.note(place.bank, Command::Close, at);
        }
        self.note(place.bank, Command::Open, open);
        self.opened += 1;
        self.channels[place.channel].opens.note(place.group, open);
        let state = &mut self.banks[place.bank];
        state.row = place.row;
        state.opened = open;
        state.close_from = open + self.part.tras;
        (self.column_at(place, open + self.part.trcd), false)
    }

    /// What went out before a refresh could is forgotten. Moments never decrease but for memory mode,
    /// whose fill comes after the next requests: for those the bus is taken until then, which is
    /// later than what is forgotten would allow.
    fn forget(&mut self, channel: usize, at: Ps) {
        let before = Ps(at.0.saturating_sub(self.part.trfc.0));
        let known = &mut self.channels[channel];
        known.opens.forget(self.part.opens(), before);
        known.columns.forget(self.part.columns(), before);
    }

    fn carry(&mut self, channel: usize, asked: Ps, ready: Ps) -> Ps {
        let bus = self.channels[channel].bus.max(asked);
        self.channels[channel].bus = bus + self.part.tburst;
        ready.max(bus) + self.part.tburst
    }

    fn access(&mut self, at: Ps, line: LineAddr, command: Command) -> (Ps, bool) {
        let place = self.place(line);
        let front = Ps(self.part.controller.0 / 2);
        let begin = at + front;
        self.forget(place.channel, begin);
        let (column, hit) = self.column(place, begin);
        self.note(place.bank, command, column);
        self.channels[place.channel]
            .columns
            .note(place.group, column);
        let wait = if command == Command::Read {
            self.part.tcl
        } else {
            self.part.tcwl
        };
        let moved = self.carry(place.channel, begin, column + wait);
        let state = &mut self.banks[place.bank];
        state.column_from = column + self.part.tburst;
        let settled = match command {
            Command::Write => column + wait + self.part.tburst + self.part.twr,
            _ => column + self.part.tburst,
        };
        state.close_from = state.close_from.max(settled);
        (moved + (self.part.controller - front), hit)
    }
}

impl Memory for Dram {
    fn lines(&self) -> u64 {
        self.lines
    }

    fn read(&mut self, at: Ps, line: LineAddr) -> Ps {
        let (done, hit) = self.access(at, line, Command::Read);
        self.counts.row_reads += u64::from(hit);
        self.counts.read.add(done - at);
        done
    }

    fn write(&mut self, at: Ps, line: LineAddr) -> Ps {
        let (done, hit) = self.access(at, line, Command::Write);
        self.counts.row_writes += u64::from(hit);
        self.counts.array_writes += 1;
        self.counts.write.add(done - at);
        self.accepted = self.accepted.max(done);
        done
    }

    /// That it does not outlive power is not the fence's matter.
    fn persist(&mut self, at: Ps) -> Ps {
        at.max(self.accepted)
    }

    fn has_flush_port(&self) -> bool {
        false
    }

    /// Every bank has settled its last write.
    fn flush(&mut self, at: Ps) -> Ps {
        self.banks
            .iter()
            .fold(at, |end, bank| end.max(bank.close_from))
    }

    fn reset(&mut self, at: Ps) -> Ps {
        let end = self.flush(at);
        self.banks.iter_mut().for_each(|bank| bank.row = NO_ROW);
        end
    }

    fn counts(&self) -> &Counts {
        &self.counts
    }

    fn energy(&self, until: Ps) -> Energy {
        let refreshes = until.0 / self.part.trefi.0 * self.part.channels;
        let channels = u32::try_from(self.part.channels).expect("at most 64");
        Energy {
            background_pj: on_pj(self.part.background_mw * f64::from(channels), until),
            refresh_pj: refreshes * self.part.refresh_pj,
            activate_pj: self.opened * self.part.activate_pj,
            read_pj: self.counts.read.count * self.part.read_pj,
            write_pj: self.counts.write.count * self.part.write_pj,
        }
    }

    fn checkpoint(&self) -> Vec<u8> {
        crate::memory::save(self)
    }
}
