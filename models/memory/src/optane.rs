// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A DIMM as Optane's: a load-store queue, a buffer of 256 B blocks in SRAM where
//! reads and partial writes are put together, a buffer of 4 KiB blocks in DRAM, and
//! media that is accessed 256 B at a time by a few banks. The buffers are inclusive.
//!
//! A block of the 4 KiB buffer holds those of its 16 sectors that were asked for.
//! A partial write costs no media read of its own: media compares before it writes,
//! and its write time contains that read (ASSUMED; the maker's table has 64 B writes
//! at exactly a quarter of 256 B ones, which a separate read would not give).
//!
//! Invariants: a block in SRAM has its 4 KiB block in DRAM; at most
//! `lsq_entries` media writes wait, and a write that would add one more waits itself.

use crate::error::MediaError;
use crate::memory::{Counts, Memory};
use crate::parts::Part;
use crate::stats::{Energy, Figure, count, on_pj};
use crate::units::{LINE_BYTES, LineAddr, Ps};
use serde::{Deserialize, Serialize};

const NONE: u64 = u64::MAX;
const SECTORS: u64 = 16;
/// Ways of the 4 KiB buffer: its real organisation is not published (ASSUMED).
const WAYS: usize = 16;

/// The numbers of a part of kind `optane`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct OptanePart {
    dimms: u64,
    core_path: Ps,
    controller: Ps,
    dimm: Ps,
    lookup: Ps,
    fill: Ps,
    make_room: Ps,
    media_read: Ps,
    media_send: Ps,
    media_write: Ps,
    media_banks: u64,
    block_lines: u64,
    rmw_blocks: u64,
    buffer_pages: u64,
    lsq_entries: u64,
    burst: Ps,
    media_read_pj: u64,
    media_write_pj: u64,
    buffer_pj: u64,
    background_mw: f64,
}

impl OptanePart {
    /// From its table.
    ///
    /// # Errors
    /// When it is no such part.
    pub fn from_part(part: &Part) -> Result<Self, MediaError> {
        let mut from = part.reader("optane")?;
        let block_bytes = from.power_of_two("block_bytes")?;
        let read = Self {
            dimms: from.count("dimms")?,
            core_path: from.ns("core_path_ns")?,
            controller: from.ns("controller_ns")?,
            dimm: from.ns("dimm_ns")?,
            lookup: from.ns("lookup_ns")?,
            fill: from.ns("fill_ns")?,
            make_room: from.ns("make_room_ns")?,
            media_read: from.ns("media_read_ns")?,
            media_send: from.ns("media_send_ns")?,
            media_write: from.ns("media_write_ns")?,
            media_banks: from.count("media_banks")?,
            block_lines: block_bytes / LINE_BYTES,
            rmw_blocks: from.count("rmw_blocks")?,
            buffer_pages: from.power_of_two("buffer_bytes")? / (SECTORS * block_bytes),
            lsq_entries: from.count("lsq_entries")?,
            burst: from.ns("tburst_ns")?,
            media_read_pj: from.count("media_read_pj")?,
            media_write_pj: from.count("media_write_pj")?,
            buffer_pj: from.count("buffer_pj")?,
            background_mw: from.number("background_mw")?,
        };
        from.finish()?;
        let geometry = |why: &str| Err(MediaError::Geometry(format!("part {}: {why}", part.name)));
        if !(1..=16).contains(&read.block_lines) {
            return geometry("block_bytes: give 64 to 1024");
        }
        if read.buffer_pages < WAYS as u64 || read.buffer_pages > 1 << 24 {
            return geometry("buffer_bytes: less than 16 blocks of 16 sectors, or more than 2^24");
        }
        if read.dimms > 64
            || read.media_banks > 1024
            || read.rmw_blocks > 4096
            || read.lsq_entries > 65536
        {
            return geometry("more DIMMs, banks, blocks or queue entries than any module has");
        }
        Ok(read)
    }
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Block {
    number: u64,
    used: u64,
    ready: Ps,
    dirty: bool,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Page {
    number: u64,
    used: u64,
    valid: u16,
    dirty: u16,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Dimm {
    blocks: Vec<Block>,
    pages: Vec<Page>,
    banks: Vec<Ps>,
    writes: Vec<Ps>,
    write_next: usize,
    bus: Ps,
}

/// Controller and DIMMs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Optane {
    part: OptanePart,
    lines: u64,
    dimms: Vec<Dimm>,
    /// When the last write is accepted.
    accepted: Ps,
    clock: u64,
    counts: Counts,
    media_reads: u64,
    media_writes: u64,
    block_hits: u64,
    page_hits: u64,
    buffer_uses: u64,
}

impl Optane {
    /// A memory of `lines` lines, spread over the DIMMs 4 KiB by 4 KiB.
    ///
    /// # Errors
    /// When it has none.
    pub fn new(part: OptanePart, lines: u64) -> Result<Self, MediaError> {
        if lines == 0 {
            return Err(MediaError::Geometry("a memory of 0 lines".to_owned()));
        }
        let size = |n: u64| usize::try_from(n).expect("bounded when the part was read");
        let block = Block {
            number: NONE,
            used: 0,
            ready: Ps::ZERO,
            dirty: false,
        };
        let page = Page {
            number: NONE,
            used: 0,
            valid: 0,
            dirty: 0,
        };
        let dimm = Dimm {
            blocks: vec![block; size(part.rmw_blocks)],
            pages: vec![page; size(part.buffer_pages)],
            banks: vec![Ps::ZERO; size(part.media_banks)],
            writes: vec![Ps::ZERO; size(part.lsq_entries)],
            write_next: 0,
            bus: Ps::ZERO,
        };
        Ok(Self {
            part,
            lines,
            dimms: vec![dimm; size(part.dimms)],
            accepted: Ps::ZERO,
            clock: 0,
            counts: Counts::default(),
            media_reads: 0,
            media_writes: 0,
            block_hits: 0,
            page_hits: 0,
            buffer_uses: 0,
        })
    }

    fn way_in(&self) -> Ps {
        Ps((self.part.core_path.0 + self.part.controller.0 + self.part.dimm.0) / 2)
    }

    fn way_out(&self) -> Ps {
        self.part.core_path + self.part.controller + self.part.dimm - self.way_in()
    }

    fn dimm_of(&self, block: u64) -> usize {
        (block / SECTORS % self.part.dimms) as usize
    }

    #[expect(clippy::cast_possible_truncation, reason = "a remainder below 1024")]
    fn bank_of(&self, block: u64) -> usize {
        (block % self.part.media_banks) as usize
    }

    /// Media reads one block; when it is at the 4 KiB buffer.
    fn media_read(&mut self, dimm: usize, block: u64, at: Ps) -> Ps {
        let bank = self.bank_of(block);
        let free = self.dimms[dimm].banks[bank];
        self.counts.blocked_reads += u64::from(free > at);
        let end = at.max(free) + self.part.media_read;
        self.dimms[dimm].banks[bank] = end;
        self.media_reads += 1;
        end + self.part.media_send
    }

    /// A block is queued for media; when there was room for it.
    fn media_write(&mut self, dimm: usize, block: u64, at: Ps) -> Ps {
        let bank = self.bank_of(block);
        let queue = &mut self.dimms[dimm];
        let room = at.max(queue.writes[queue.write_next]);
        let end = room.max(queue.banks[bank]) + self.part.media_write;
        queue.banks[bank] = end;
        queue.writes[queue.write_next] = end;
        queue.write_next = (queue.write_next + 1) % queue.writes.len();
        self.media_writes += 1;
        self.counts.array_writes += 1;
        room
    }

    /// The 4 KiB block that holds `block`, made if need be; when that was possible.
    fn page(&mut self, dimm: usize, block: u64, at: Ps) -> (usize, Ps) {
        let number = block / SECTORS;
        let sets = self.dimms[dimm].pages.len() / WAYS;
        let first = (number / self.part.dimms % sets as u64) as usize * WAYS;
        let ways = &self.dimms[dimm].pages[first..first + WAYS];
        let found = ways.iter().position(|page| page.number == number);
        let mut ready = at;
        let index = first
            + found.unwrap_or_else(|| {
                let oldest = ways.iter().enumerate().min_by_key(|(_, page)| page.used);
                oldest.map_or(0, |(way, _)| way)
            });
        if found.is_none() {
            ready = self.drop_page(dimm, index, at);
            self.dimms[dimm].pages[index] = Page {
                number,
                used: 0,
                valid: 0,
                dirty: 0,
            };
        }
        self.dimms[dimm].pages[index].used = self.clock;
        (index, ready)
    }

    /// Write what is dirty of a 4 KiB block, and forget it and its blocks in SRAM.
    fn drop_page(&mut self, dimm: usize, index: usize, at: Ps) -> Ps {
        let page = self.dimms[dimm].pages[index];
        if page.number == NONE {
            return at;
        }
        let mut dirty = page.dirty;
        for block in &mut self.dimms[dimm].blocks {
            if block.number != NONE && block.number / SECTORS == page.number {
                dirty |= u16::from(block.dirty) << (block.number % SECTORS);
                block.number = NONE;
                block.used = 0;
            }
        }
        let mut ready = at;
        for sector in (0..SECTORS).filter(|sector| dirty & (1 << sector) != 0) {
            ready = self.media_write(dimm, page.number * SECTORS + sector, ready);
        }
        ready
    }

    fn find(&mut self, dimm: usize, block: u64) -> Option<usize> {
        let found = self.dimms[dimm]
            .blocks
            .iter()
            .position(|it| it.number == block);
        if let Some(index) = found {
            self.dimms[dimm].blocks[index].used = self.clock;
            self.block_hits += 1;
            self.buffer_uses += 1;
        }
        found
    }

    /// A block comes into SRAM; what leaves it goes to its 4 KiB block first. When it is there.
    fn insert(&mut self, dimm: usize, block: u64, ready: Ps, dirty: bool) -> Ps {
        let blocks = &self.dimms[dimm].blocks;
        let oldest = blocks.iter().enumerate().min_by_key(|(_, it)| it.used);
        let index = oldest.map_or(0, |(index, _)| index);
        let old = blocks[index];
        let mut ready = ready;
        if old.number != NONE && old.dirty {
            ready = ready + self.part.make_room;
            let (page, _) = self.page(dimm, old.number, ready);
            let bit = 1 << (old.number % SECTORS);
            let page = &mut self.dimms[dimm].pages[page];
            page.valid |= bit;
            page.dirty |= bit;
            self.buffer_uses += 1;
        }
        let used = self.clock;
        self.dimms[dimm].blocks[index] = Block {
            number: block,
            used,
            ready,
            dirty,
        };
        ready
    }

    fn burst(&mut self, dimm: usize, asked: Ps, ready: Ps) -> Ps {
        let bus = self.dimms[dimm].bus.max(asked);
        self.dimms[dimm].bus = bus + self.part.burst;
        ready.max(bus) + self.part.burst
    }
}

impl Memory for Optane {
    fn lines(&self) -> u64 {
        self.lines
    }

    fn read(&mut self, at: Ps, line: LineAddr) -> Ps {
        self.clock += 1;
        let block = line.0 / self.part.block_lines;
        let dimm = self.dimm_of(block);
        let asked = at + self.way_in();
        let ready = if let Some(index) = self.find(dimm, block) {
            self.counts.row_reads += 1;
            asked.max(self.dimms[dimm].blocks[index].ready)
        } else {
            let (page, free) = self.page(dimm, block, asked);
            let bit = 1 << (block % SECTORS);
            let looked = free + self.part.lookup;
            let there = if self.dimms[dimm].pages[page].valid & bit != 0 {
                self.page_hits += 1;
                looked
            } else {
                self.dimms[dimm].pages[page].valid |= bit;
                self.media_read(dimm, block, looked)
            };
            self.buffer_uses += 1;
            self.insert(dimm, block, there + self.part.fill, false)
        };
        let done = self.burst(dimm, asked, ready) + self.way_out();
        self.counts.read.add(done - at);
        done
    }

    fn write(&mut self, at: Ps, line: LineAddr) -> Ps {
        self.clock += 1;
        let block = line.0 / self.part.block_lines;
        let dimm = self.dimm_of(block);
        let asked = at + self.way_in();
        let arrived = self.burst(dimm, asked, asked);
        let done = if let Some(index) = self.find(dimm, block) {
            self.counts.row_writes += 1;
            let block = &mut self.dimms[dimm].blocks[index];
            block.dirty = true;
            arrived.max(block.ready)
        } else {
            let (_, free) = self.page(dimm, block, arrived);
            let merged = free + self.part.lookup + self.part.fill;
            self.buffer_uses += 1;
            self.insert(dimm, block, merged, true)
        };
        // The controller reports it to the host, on the DIMM's word.
        let done = done + (Ps((self.part.core_path.0 + self.part.controller.0) / 2));
        self.counts.write.add(done - at);
        self.accepted = self.accepted.max(done);
        done
    }

    /// Power-fail logic empties the processor's queues of writes (Intel: Deprecating the PCOMMIT
    /// Instruction, 2016; eADR, 2021), and the DIMM's reserve its buffers: a fence does not wait for
    /// media.
    fn persist(&mut self, at: Ps) -> Ps {
        at.max(self.accepted)
    }

    fn has_flush_port(&self) -> bool {
        false
    }

    /// What the DIMM's own reserve does: its buffers go to media.
    fn flush(&mut self, at: Ps) -> Ps {
        let mut end = at + self.way_in();
        for dimm in 0..self.dimms.len() {
            for index in 0..self.dimms[dimm].blocks.len() {
                let block = self.dimms[dimm].blocks[index];
                if block.number != NONE && block.dirty {
                    let (page, _) = self.page(dimm, block.number, end);
                    self.dimms[dimm].pages[page].dirty |= 1 << (block.number % SECTORS);
                    self.dimms[dimm].blocks[index].dirty = false;
                }
            }
            for index in 0..self.dimms[dimm].pages.len() {
                let page = self.dimms[dimm].pages[index];
                for sector in (0..SECTORS).filter(|sector| page.dirty & (1 << sector) != 0) {
                    self.media_write(dimm, page.number * SECTORS + sector, end);
                }
                self.dimms[dimm].pages[index].dirty = 0;
            }
        }
        for dimm in &self.dimms {
            end = dimm.banks.iter().fold(end, |end, bank| end.max(*bank));
        }
        end + self.way_out()
    }

    fn reset(&mut self, at: Ps) -> Ps {
        let end = self.flush(at);
        for dimm in &mut self.dimms {
            dimm.blocks.iter_mut().for_each(|block| block.number = NONE);
            dimm.pages.iter_mut().for_each(|page| page.number = NONE);
        }
        end
    }

    fn counts(&self) -> &Counts {
        &self.counts
    }

    fn energy(&self, until: Ps) -> Energy {
        let dimms = u32::try_from(self.part.dimms).expect("at most 64");
        Energy {
            background_pj: on_pj(self.part.background_mw * f64::from(dimms), until),
            refresh_pj: 0,
            activate_pj: 0,
            read_pj: self.media_reads * self.part.media_read_pj
                + self.buffer_uses * self.part.buffer_pj,
            write_pj: self.media_writes * self.part.media_write_pj,
        }
    }

    fn checkpoint(&self) -> Vec<u8> {
        crate::memory::save(self)
    }

    fn own_figures(&self) -> Vec<Figure> {
        vec![
            count("media_reads", self.media_reads, "Reads of 256 B of media."),
            count(
                "media_writes",
                self.media_writes,
                "Writes of 256 B of media.",
            ),
            count(
                "block_hits",
                self.block_hits,
                "Requests served by the 256 B buffer.",
            ),
            count(
                "page_hits",
                self.page_hits,
                "Reads served by the 4 KiB buffer.",
            ),
        ]
    }
}
