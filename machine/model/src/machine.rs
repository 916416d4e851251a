// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A memory behind a cache that evicts by chance, recorded.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{BufWriter, Result};
use std::ops::Range;
use std::path::Path;

use remanence_crash_states::{LINE_BYTES, Line, Rng};
use remanence_recording::{CLOCK_GUEST, Cause, Event, Fence, Header, NO_VCPU, Writer};

use crate::image::{MEMORY, MEMORY_BYTES, NVRAM_BYTES, PHYS};

/// The program counter of each store: somewhere in a kernel.
const PC: u64 = 0xffff_ffff_8100_0000;
/// One store of so many evicts a line.
const EVICTS_ONE_OF: u64 = 6;

/// A machine that is being recorded. Offsets are in NVRAM.
#[derive(Debug)]
pub struct Machine {
    writer: Writer<BufWriter<File>>,
    media: Vec<u8>,
    /// What CPUs see.
    view: Vec<u8>,
    dirty: BTreeSet<u64>,
    /// Chooses what programs do and what is evicted.
    pub rng: Rng,
    /// Time of the last event.
    pub time_ns: u64,
}

fn line_of(offset: u64) -> u64 {
    offset - offset % LINE_BYTES as u64
}

fn range(offset: u64, bytes: usize) -> Range<usize> {
    let from = usize::try_from(offset).unwrap_or(usize::MAX);
    from..from + bytes
}

impl Machine {
    /// Records `work` on a machine with this media into `dir`; returns the media it left.
    ///
    /// # Errors
    /// The directory's.
    pub fn record(
        dir: &Path,
        media: Vec<u8>,
        seed: u64,
        work: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<Vec<u8>> {
        fs::create_dir_all(dir)?;
        fs::write(dir.join("base.media"), &media)?;
        let header = Header {
            clock: CLOCK_GUEST,
            nvram_phys: PHYS,
            nvram_bytes: NVRAM_BYTES,
            seed,
            cpu_count: 2,
            profile: Header::profile_field("model"),
            ..Header::default()
        };
        let file = BufWriter::new(File::create(dir.join("recording.bin"))?);
        let mut machine = Self {
            writer: Writer::new(file, &header)?,
            view: media.clone(),
            media,
            dirty: BTreeSet::new(),
            rng: Rng(seed),
            time_ns: 0,
        };
        machine.put(NO_VCPU, &Event::Window { begins: true })?;
        work(&mut machine)?;
        machine.put(NO_VCPU, &Event::End)?;
        machine.writer.finish()?;
        Ok(machine.media)
    }

    /// Appends an event.
    ///
    /// # Errors
    /// The file's, here and below.
    pub fn put(&mut self, vcpu: u8, event: &Event<'_>) -> Result<()> {
        self.time_ns += 1;
        self.writer.put(vcpu, self.time_ns, event)
    }

    /// A CPU stores; the cache may evict a line.
    ///
    /// # Errors
    /// See [`Self::put`].
    pub fn store(&mut self, vcpu: u8, offset: u64, bytes: &[u8]) -> Result<()> {
        let mut at = offset;
        let mut rest = bytes;
        while !rest.is_empty() {
            let room = LINE_BYTES - usize::try_from(at - line_of(at)).unwrap_or(0);
            let (now, later) = rest.split_at(room.min(rest.len()));
            let address = PHYS + at;
            let bytes = now;
            self.put(
                vcpu,
                &Event::Store {
                    address,
                    bytes,
                    pc: PC,
                },
            )?;
            self.view[range(at, now.len())].copy_from_slice(now);
            self.dirty.insert(line_of(at));
            at += now.len() as u64;
            rest = later;
        }
        self.evict(line_of(at - 1))
    }

    /// Caches evict any line at any time; not at once the one that was just stored to.
    fn evict(&mut self, newest: u64) -> Result<()> {
        if self.rng.below(EVICTS_ONE_OF) != 0 {
            return Ok(());
        }
        let chosen = self.dirty.iter().nth(self.rng.index(self.dirty.len()));
        match chosen.copied().filter(|line| *line != newest) {
            Some(line) => self.write_back(line, Cause::EVICTION),
            None => Ok(()),
        }
    }

    fn write_back(&mut self, line: u64, cause: Cause) -> Result<()> {
        if !self.dirty.remove(&line) {
            return Ok(());
        }
        let data = self.line(line);
        self.media[range(line, LINE_BYTES)].copy_from_slice(&data);
        let written = Event::WriteBack {
            line: PHYS + line,
            data: &data,
            cause,
        };
        self.put(NO_VCPU, &written)
    }

    /// CLFLUSH of one line, and a fence.
    ///
    /// # Errors
    /// See [`Self::put`].
    pub fn flush(&mut self, offset: u64) -> Result<()> {
        let (line, cause) = (line_of(offset), Cause::CLFLUSH);
        let flush = Event::Flush {
            line: PHYS + line,
            pc: 0,
            cause,
        };
        self.put(0, &flush)?;
        self.write_back(line, cause)?;
        let fence = Event::Fence {
            pc: 0,
            fence: Fence::MFENCE,
        };
        self.put(0, &fence)
    }

    /// WBINVD; with `but`, of all lines but that.
    ///
    /// # Errors
    /// See [`Self::put`].
    pub fn flush_all(&mut self, but: Option<u64>) -> Result<()> {
        let cause = Cause::WBINVD;
        self.put(0, &Event::CacheAll { pc: 0, cause })?;
        let lines: Vec<u64> = self.dirty.iter().copied().collect();
        let mut lines = lines.into_iter().filter(|line| Some(*line) != but);
        lines.try_for_each(|line| self.write_back(line, cause))
    }

    /// A device changes a byte of a line, which no store tells.
    ///
    /// # Errors
    /// See [`Self::put`].
    pub fn change_unseen(&mut self, offset: u64) -> Result<()> {
        let line = line_of(offset);
        self.dirty.insert(line);
        self.view[range(offset, 1)][0] ^= 0x55;
        let data = self.line(line);
        let unseen = Event::Unseen {
            line: PHYS + line,
            data: &data,
        };
        self.put(0, &unseen)
    }

    /// Programs store words, on either CPU.
    ///
    /// # Errors
    /// See [`Self::put`].
    pub fn run_programs(&mut self, stores: u64) -> Result<()> {
        for _ in 0..stores {
            let at = MEMORY + self.rng.below(MEMORY_BYTES / 8) * 8;
            let value = self.rng.next().to_le_bytes();
            let vcpu = u8::from(self.rng.below(2) == 1);
            self.store(vcpu, at, &value)?;
        }
        Ok(())
    }

    fn line(&self, line: u64) -> Line {
        let mut data = [0; LINE_BYTES];
        data.copy_from_slice(&self.view[range(line, LINE_BYTES)]);
        data
    }
}
