// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Controllers made of others: LegacyPC (DRAM beside OC-PMEM), memory mode (DRAM
//! as a cache, NMEM) and NVDIMM-N (DRAM with a save of its own).

use crate::dram::{Dram, DramPart};
use crate::error::MediaError;
use crate::memory::{Counts, Memory};
use crate::optane::Optane;
use crate::parts::Part;
use crate::psm::Psm;
use crate::stats::{Energy, Figure, count};
use crate::units::{LINE_BYTES, LineAddr, Ps};
use serde::{Deserialize, Serialize};

/// DRAM at the bottom, OC-PMEM above it: programs run in DRAM, files and images
/// are in OC-PMEM.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LegacyPc {
    dram: Dram,
    psm: Psm,
    counts: Counts,
}

impl LegacyPc {
    /// Of both.
    #[must_use]
    pub fn new(dram: Dram, psm: Psm) -> Self {
        Self {
            dram,
            psm,
            counts: Counts::default(),
        }
    }

    fn side(&mut self, line: LineAddr) -> (&mut dyn Memory, LineAddr) {
        match line.0.checked_sub(self.dram.lines()) {
            Some(above) => (&mut self.psm, LineAddr(above)),
            None => (&mut self.dram, line),
        }
    }
}

impl Memory for LegacyPc {
    fn lines(&self) -> u64 {
        self.dram.lines() + self.psm.lines()
    }

    fn read(&mut self, at: Ps, line: LineAddr) -> Ps {
        let (side, line) = self.side(line);
        let done = side.read(at, line);
        self.counts.read.add(done - at);
        done
    }

    fn write(&mut self, at: Ps, line: LineAddr) -> Ps {
        let (side, line) = self.side(line);
        let done = side.write(at, line);
        self.counts.write.add(done - at);
        done
    }

    fn persist(&mut self, at: Ps) -> Ps {
        self.dram.persist(at).max(self.psm.persist(at))
    }

    fn has_flush_port(&self) -> bool {
        true
    }

    fn flush(&mut self, at: Ps) -> Ps {
        self.dram.flush(at).max(self.psm.flush(at))
    }

    fn reset(&mut self, at: Ps) -> Ps {
        self.dram.reset(at).max(self.psm.reset(at))
    }

    fn counts(&self) -> &Counts {
        &self.counts
    }

    fn energy(&self, until: Ps) -> Energy {
        self.dram.energy(until).plus(&self.psm.energy(until))
    }

    fn checkpoint(&self) -> Vec<u8> {
        crate::memory::save(self)
    }
}

/// Memory mode: DRAM is a direct-mapped cache of the far memory. With snarf DRAM
/// takes a fill from the bus while it passes to the host; without, the host reads
/// it from DRAM after the fill. Its hits are counted as requests that met an open row, so all other
/// reads are fills.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Nmem {
    near: Dram,
    far: Optane,
    snarf: bool,
    tag: Ps,
    snarf_time: Ps,
    tags: Vec<u32>,
    dirty: Vec<bool>,
    counts: Counts,
    evictions: u64,
}

const NO_TAG: u32 = u32::MAX;

impl Nmem {
    /// From the part of the cache, the DRAM's and the far memory.
    ///
    /// # Errors
    /// When the part is none, or the far memory too large for its tags.
    pub fn new(part: &Part, dram: DramPart, far: Optane, snarf: bool) -> Result<Self, MediaError> {
        let mut from = part.reader("nmem")?;
        let lines = from.power_of_two("cache_bytes")? / LINE_BYTES;
        let (tag, snarf_time) = (from.ns("tag_ns")?, from.ns("snarf_ns")?);
        from.finish()?;
        if lines == 0 || lines > 1 << 32 || far.lines() / lines >= u64::from(NO_TAG) {
            let why = format!("a cache of {lines} lines before {} lines", far.lines());
            return Err(MediaError::Geometry(why));
        }
        let size =
            usize::try_from(lines).map_err(|_| MediaError::Geometry("cache_bytes".into()))?;
        Ok(Self {
            near: Dram::new(dram, lines)?,
            far,
            snarf,
            tag,
            snarf_time,
            tags: vec![NO_TAG; size],
            dirty: vec![false; size],
            counts: Counts::default(),
            evictions: 0,
        })
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "checked when the cache was made"
    )]
    fn slot(&self, line: LineAddr) -> (usize, u32) {
        let lines = self.tags.len() as u64;
        ((line.0 % lines) as usize, (line.0 / lines) as u32)
    }

    /// The old content of the slot leaves; dirty lines are read from DRAM and go to far memory.
    fn claim(&mut self, at: Ps, slot: usize, tag: u32) -> Ps {
        let old = self.tags[slot];
        let mut free = at;
        if old != NO_TAG && self.dirty[slot] {
            let read = self.near.read(at, LineAddr(slot as u64));
            let line = u64::from(old) * self.tags.len() as u64 + slot as u64;
            free = self.far.write(read, LineAddr(line));
            self.evictions += 1;
        }
        self.tags[slot] = tag;
        self.dirty[slot] = false;
        free
    }

    /// Dirty lines of DRAM go to far memory; when it has accepted them.
    fn write_back(&mut self, at: Ps) -> Ps {
        let mut end = at;
        for slot in 0..self.tags.len() {
            if self.tags[slot] != NO_TAG && self.dirty[slot] {
                let tag = self.tags[slot];
                end = self.claim(end, slot, tag);
            }
        }
        end
    }
}

impl Memory for Nmem {
    fn lines(&self) -> u64 {
        self.far.lines()
    }

    fn read(&mut self, at: Ps, line: LineAddr) -> Ps {
        let (slot, tag) = self.slot(line);
        let near = LineAddr(slot as u64);
        // Tag and data come with one access of DRAM.
        let looked = self.near.read(at, near) + self.tag;
        let done = if self.tags[slot] == tag {
            self.counts.row_reads += 1;
            looked
        } else {
            self.claim(looked, slot, tag);
            let filled = self.far.read(looked, line);
            let kept = self.near.write(filled, near);
            if self.snarf {
                filled + self.snarf_time
            } else {
                self.near.read(kept, near)
            }
        };
        self.counts.read.add(done - at);
        done
    }

    fn write(&mut self, at: Ps, line: LineAddr) -> Ps {
        let (slot, tag) = self.slot(line);
        let mut free = at;
        if self.tags[slot] == tag {
            self.counts.row_writes += 1;
        } else {
            free = self.claim(at, slot, tag);
        }
        self.dirty[slot] = true;
        let done = self.near.write(free, LineAddr(slot as u64));
        self.counts.write.add(done - at);
        done
    }

    /// Its DRAM is volatile: what is dirty there is written back.
    fn persist(&mut self, at: Ps) -> Ps {
        let end = self.write_back(at);
        self.near.persist(end).max(self.far.persist(end))
    }

    fn has_flush_port(&self) -> bool {
        true
    }

    fn flush(&mut self, at: Ps) -> Ps {
        let end = self.write_back(at);
        self.far.flush(end)
    }

    fn reset(&mut self, at: Ps) -> Ps {
        self.tags.fill(NO_TAG);
        self.dirty.fill(false);
        self.near.reset(at).max(self.far.reset(at))
    }

    fn counts(&self) -> &Counts {
        &self.counts
    }

    fn energy(&self, until: Ps) -> Energy {
        self.near.energy(until).plus(&self.far.energy(until))
    }

    fn checkpoint(&self) -> Vec<u8> {
        crate::memory::save(self)
    }

    fn own_figures(&self) -> Vec<Figure> {
        vec![
            count(
                "cache_hits",
                self.counts.row_reads + self.counts.row_writes,
                "Requests that the DRAM cache had.",
            ),
            count(
                "cache_evictions",
                self.evictions,
                "Dirty lines that left it.",
            ),
        ]
    }
}

/// What became of the content of an NVDIMM-N at an outage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outage {
    /// All of it is in flash, after so much time.
    Saved(Ps),
    /// The supply was empty before the save was complete.
    Lost,
}

/// DRAM that is saved to flash on the DIMM by a supply of its own.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NvdimmN {
    dram: Dram,
    save_bytes_per_s: f64,
    restore_bytes_per_s: f64,
    save_mw: f64,
    supply_pj: f64,
    recharge_mw: f64,
    charge_pj: f64,
    charged_at: Ps,
}

impl NvdimmN {
    /// With its supply charged.
    ///
    /// # Errors
    /// When the part is none.
    pub fn new(part: &Part, dram: Dram) -> Result<Self, MediaError> {
        const PJ_PER_MJ: f64 = 1e9;
        let mut from = part.reader("nvdimm-n")?;
        let supply_pj = from.number("supply_mj")? * PJ_PER_MJ;
        let it = Self {
            dram,
            save_bytes_per_s: from.number("save_bytes_per_s")?,
            restore_bytes_per_s: from.number("restore_bytes_per_s")?,
            save_mw: from.number("save_mw")?,
            supply_pj,
            recharge_mw: from.number("recharge_mw")?,
            charge_pj: supply_pj,
            charged_at: Ps::ZERO,
        };
        from.finish()?;
        if it.save_bytes_per_s <= 0.0 || it.restore_bytes_per_s <= 0.0 {
            return Err(MediaError::Geometry("a save that never ends".to_owned()));
        }
        Ok(it)
    }

    #[expect(clippy::cast_precision_loss, reason = "sizes below 2^53")]
    fn bytes(&self) -> f64 {
        (self.dram.lines() * LINE_BYTES) as f64
    }

    /// Power is gone: the DIMM saves itself, if its supply has recovered enough
    /// from the last time.
    pub fn outage(&mut self, at: Ps) -> Outage {
        let gained = self.recharge_mw * (at - self.charged_at).ns();
        let charge = (self.charge_pj + gained).min(self.supply_pj);
        let time = Ps::from_ns(self.bytes() / self.save_bytes_per_s * 1e9);
        let needed = self.save_mw * time.ns();
        self.charged_at = at + time;
        self.charge_pj = (charge - needed).max(0.0);
        if needed <= charge {
            Outage::Saved(time)
        } else {
            Outage::Lost
        }
    }

    /// Power is back: how long until the DRAM has its content again.
    #[must_use]
    pub fn restore_time(&self) -> Ps {
        Ps::from_ns(self.bytes() / self.restore_bytes_per_s * 1e9)
    }
}

impl Memory for NvdimmN {
    fn lines(&self) -> u64 {
        self.dram.lines()
    }
    fn read(&mut self, at: Ps, line: LineAddr) -> Ps {
        self.dram.read(at, line)
    }
    fn write(&mut self, at: Ps, line: LineAddr) -> Ps {
        self.dram.write(at, line)
    }
    /// Its own supply saves what it has accepted.
    fn persist(&mut self, at: Ps) -> Ps {
        self.dram.persist(at)
    }
    fn has_flush_port(&self) -> bool {
        self.dram.has_flush_port()
    }
    fn flush(&mut self, at: Ps) -> Ps {
        self.dram.flush(at)
    }
    fn reset(&mut self, at: Ps) -> Ps {
        self.dram.reset(at)
    }
    fn counts(&self) -> &Counts {
        self.dram.counts()
    }
    fn energy(&self, until: Ps) -> Energy {
        self.dram.energy(until)
    }
    fn checkpoint(&self) -> Vec<u8> {
        crate::memory::save(self)
    }
}
