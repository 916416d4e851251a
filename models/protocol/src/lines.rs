// SPDX-License-Identifier: Apache-2.0 OR MIT
//! NVRAM behind volatile caches, and maybe a memory controller whose queue is volatile, too.
//!
//! Only lines that a decision depends on exist, one for each part of the record. A line in the caches
//! keeps each content that it has had since its last write-back: a cache may have evicted any of
//! them, so a cut leaves any of them. Evictions need no steps of their own then, and no order of
//! them is left out.

use std::collections::BTreeSet;

/// Slots of the record block.
pub const SLOTS: usize = 2;
/// CPUs of the machine.
pub const CPUS: usize = 2;

/// A line of NVRAM.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Line {
    /// The header of the block.
    Header,
    /// The consumed word.
    Consumed,
    /// The commit word of a slot.
    Commit(usize),
    /// The header of a slot's body.
    Head(usize),
    /// The rest of it: what does not change after the machine was armed.
    Rest(usize),
    /// The event in a slot's timeline that says why a Go was given up.
    Event(usize),
    /// Memory of what a CPU runs.
    Memory(usize),
    /// The stamp of the range that the last CPU's memory is in, where that is a range of its own.
    Stamp,
}

/// Number of lines.
pub const LINES: usize = 13;

/// All of them, in the order of [`Line::index`].
pub const ALL: [Line; LINES] = [
    Line::Header,
    Line::Consumed,
    Line::Commit(0),
    Line::Commit(1),
    Line::Head(0),
    Line::Head(1),
    Line::Rest(0),
    Line::Rest(1),
    Line::Event(0),
    Line::Event(1),
    Line::Memory(0),
    Line::Memory(1),
    Line::Stamp,
];

impl Line {
    /// Its place in [`ALL`].
    #[must_use]
    pub const fn index(self) -> usize {
        match self {
            Self::Header => 0,
            Self::Consumed => 1,
            Self::Commit(slot) => 2 + slot,
            Self::Head(slot) => 4 + slot,
            Self::Rest(slot) => 6 + slot,
            Self::Event(slot) => 8 + slot,
            Self::Memory(cpu) => 10 + cpu,
            Self::Stamp => 12,
        }
    }

    /// The CPU whose cache has it when it is dirty.
    #[must_use]
    pub const fn cpu(self) -> usize {
        match self {
            Self::Memory(cpu) => cpu,
            _ => 0,
        }
    }
}

/// The header of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Head {
    /// Sequence of the image.
    pub sequence: u8,
    /// The boot whose Stop finished it: no two images have the same.
    pub image: u8,
}

/// The rest of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Rest {
    /// The machine that it describes.
    pub machine: u8,
    /// The stamp of the other range.
    pub stamp: u8,
}

/// The content of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Value {
    /// Zeros, or what nobody has written for this protocol.
    Zero,
    /// A header with a right checksum.
    Header,
    /// A consumed word.
    Consumed(u8),
    /// A commit word: its sequence, and the body that its checksum covers.
    Commit(u8, Covered, Covered),
    /// A finished header of a body.
    Head(Head),
    /// A header that has been prepared, and has no checksum yet.
    Prepared,
    /// The rest of a body.
    Rest(Rest),
    /// Why the Go of this image was given up, and whether a boot has reported it.
    Event(u8, bool),
    /// Memory of programs.
    Content(u8),
    /// A stamp.
    Stamp(u8),
}

/// What a commit word's checksum covers of one line of the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Covered {
    /// A finished header.
    Head(Head),
    /// The rest.
    Rest(Rest),
    /// Anything else, or the checksum does not cover it.
    Other,
}

impl From<Value> for Covered {
    fn from(value: Value) -> Self {
        match value {
            Value::Head(head) => Self::Head(head),
            Value::Rest(rest) => Self::Rest(rest),
            _ => Self::Other,
        }
    }
}

/// What is wrong with a line of media.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Damage {
    /// Nothing of it can be read.
    Whole,
    /// A word reads with its sequence, and with a wrong checksum.
    Check,
    /// It reads, and does not take what is stored.
    Stuck,
}

/// A content that a line has had in the caches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Pending {
    value: Value,
    /// Lines in the controller's queue when it was stored.
    after: usize,
}

/// A content that was in the caches until a flush, whose line is still in the queue.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Older {
    line: Line,
    pending: Pending,
    /// Where the flushed content is in the queue: once that is written, this one is gone.
    until: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Cell {
    media: Value,
    damage: Option<Damage>,
    /// Oldest first; the last is what CPUs read.
    pending: Vec<Pending>,
}

/// The persistence domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Domain {
    /// Media only: the memory controller's queue is volatile.
    Media,
    /// And the queue: a line that has left the caches is durable.
    Queue,
    /// And the caches.
    Caches,
}

/// NVRAM and its caches.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Memory {
    domain: Domain,
    cells: [Cell; LINES],
    /// What the controller has accepted and may not have written, oldest first.
    queue: Vec<(Line, Value)>,
    older: Vec<Older>,
}

/// Media after a cut: the lines that differ from what was there before.
pub type Left = Vec<(Line, Value)>;

impl Memory {
    /// NVRAM on which nobody has written.
    #[must_use]
    pub fn blank(domain: Domain) -> Self {
        let cell = Cell {
            media: Value::Zero,
            damage: None,
            pending: Vec::new(),
        };
        Self {
            domain,
            cells: std::array::from_fn(|_| cell.clone()),
            queue: Vec::new(),
            older: Vec::new(),
        }
    }

    fn cell(&self, line: Line) -> &Cell {
        &self.cells[line.index()]
    }

    /// What CPUs read, without regard to damage.
    #[must_use]
    pub fn content(&self, line: Line) -> Value {
        let cell = self.cell(line);
        cell.pending.last().map_or_else(
            || self.queued(line).unwrap_or(cell.media),
            |newest| newest.value,
        )
    }

    fn queued(&self, line: Line) -> Option<Value> {
        let newest = self.queue.iter().rev().find(|(at, _)| *at == line);
        newest.map(|(_, value)| *value)
    }

    /// What CPUs read; `None` if it is damaged.
    #[must_use]
    pub fn read(&self, line: Line) -> Option<Value> {
        match self.cell(line).damage {
            Some(Damage::Whole | Damage::Check) => None,
            Some(Damage::Stuck) | None => Some(self.content(line)),
        }
    }

    /// What is wrong with it.
    #[must_use]
    pub fn damage(&self, line: Line) -> Option<Damage> {
        self.cell(line).damage
    }

    /// Damages a line of media, or heals it. Only while the power is off.
    pub fn set_damage(&mut self, line: Line, damage: Option<Damage>) {
        self.cells[line.index()].damage = damage;
    }

    /// A CPU stores.
    pub fn store(&mut self, line: Line, value: Value) {
        let after = self.queue.len();
        let cell = &mut self.cells[line.index()];
        match cell.damage {
            Some(Damage::Stuck) => return,
            Some(Damage::Whole | Damage::Check) => cell.damage = None,
            None => {}
        }
        let newest = Pending { value, after };
        if cell.pending.last().map(|last| last.value) != Some(value) {
            cell.pending.push(newest);
        }
    }

    /// CLFLUSH and a fence.
    pub fn flush(&mut self, line: Line) {
        let mut evicted = std::mem::take(&mut self.cells[line.index()].pending);
        let Some(newest) = evicted.pop() else {
            return;
        };
        match self.domain {
            Domain::Media => {
                let until = self.queue.len();
                self.older.extend(evicted.into_iter().map(|pending| Older {
                    line,
                    pending,
                    until,
                }));
                self.queue.push((line, newest.value));
            }
            Domain::Queue | Domain::Caches => self.cells[line.index()].media = newest.value,
        }
    }

    /// WBINVD on one CPU.
    pub fn flush_all(&mut self, cpu: usize) {
        for line in ALL.into_iter().filter(|line| line.cpu() == cpu) {
            self.flush(line);
        }
    }

    /// The controller has written everything that it had accepted.
    pub fn drain(&mut self) {
        for (line, value) in std::mem::take(&mut self.queue) {
            self.cells[line.index()].media = value;
        }
        self.older.clear();
        for pending in self.cells.iter_mut().flat_map(|cell| &mut cell.pending) {
            pending.after = 0;
        }
    }

    /// Whether media has this content, whatever a cut does.
    #[must_use]
    pub fn is_durable(&self, line: Line, value: Value) -> bool {
        let queued = self.queue.iter().any(|(at, _)| *at == line);
        self.cell(line).pending.is_empty() && !queued && self.cell(line).media == value
    }

    /// Each content of media that a cut may leave. `plain` says which contents of a line need not be
    /// told apart.
    #[must_use]
    pub fn cuts(&self, plain: impl Fn(Line, Value) -> Value) -> BTreeSet<Left> {
        if self.domain == Domain::Caches {
            let now = ALL.into_iter().map(|line| (line, self.content(line)));
            let changed = now.filter(|(line, value)| self.cell(*line).media != *value);
            return BTreeSet::from([changed.collect()]);
        }
        let drained = 0..=self.queue.len();
        let all = drained.flat_map(|count| self.cuts_after(count, &plain));
        all.collect()
    }

    /// The same when the controller has written `count` lines.
    fn cuts_after(&self, count: usize, plain: &impl Fn(Line, Value) -> Value) -> Vec<Left> {
        let mut all: Vec<Left> = vec![Vec::new()];
        for line in ALL {
            let cell = self.cell(line);
            let written = self.queue[..count].iter().rev();
            let base = { written }
                .find(|(at, _)| *at == line)
                .map_or(cell.media, |(_, value)| *value);
            let older = self
                .older
                .iter()
                .filter(|older| older.line == line && count <= older.until)
                .map(|older| &older.pending);
            let evicted = { older }
                .chain(&cell.pending)
                .filter(|pending| pending.after <= count);
            let media = plain(line, cell.media);
            let mut contents: BTreeSet<Value> =
                evicted.map(|pending| plain(line, pending.value)).collect();
            contents.insert(plain(line, base));
            if contents.len() == 1 && contents.contains(&media) {
                continue;
            }
            let parts = |left: &Left| {
                let left = left.clone();
                contents.iter().map(move |value| {
                    let mut more = left.clone();
                    if *value != media {
                        more.push((line, *value));
                    }
                    more
                })
            };
            all = all.iter().flat_map(parts).collect::<Vec<Left>>();
        }
        all
    }

    /// The power is cut, and media is left like this.
    pub fn cut(&mut self, left: &Left) {
        self.queue.clear();
        self.older.clear();
        for cell in &mut self.cells {
            cell.pending.clear();
        }
        for (line, value) in left {
            self.cells[line.index()].media = *value;
        }
    }

    /// Puts a content on media, as at a restore.
    pub fn set_media(&mut self, line: Line, value: Value) {
        self.cells[line.index()].media = value;
    }

    /// What media has of each line.
    #[must_use]
    pub fn media(&self) -> [Value; LINES] {
        std::array::from_fn(|index| self.cells[index].media)
    }
}
