// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A memory behind a cache that evicts by chance, and maybe a memory controller whose queue loses its
//! content with the power, recorded.

use std::collections::{BTreeSet, VecDeque};
use std::fs::{self, File};
use std::io::{BufWriter, Result};
use std::ops::Range;
use std::path::Path;

use remanence_crash_states::{LINE_BYTES, Line, Rng};
use remanence_recording::{CLOCK_GUEST, Cause, DOMAIN_NONE, Event, Fence, Header, NO_VCPU, Writer};

use crate::image::{MEMORY, MEMORY_BYTES, NVRAM_BYTES, PHYS};

/// The program counter of each store: somewhere in a kernel.
const PC: u64 = 0xffff_ffff_8100_0000;
/// One store of so many evicts a line.
const EVICTS_ONE_OF: u64 = 6;
/// How long the memory controller takes for a line: several events.
const QUEUE_NS: u64 = 4;

/// A line that the memory controller has accepted.
#[derive(Debug)]
struct Accepted {
    line: u64,
    data: Line,
    cause: Cause,
    /// When it is on media.
    done_ns: u64,
}

/// A machine that is being recorded. Offsets are in NVRAM.
#[derive(Debug)]
pub struct Machine {
    writer: Writer<BufWriter<File>>,
    media: Vec<u8>,
    /// What CPUs see.
    view: Vec<u8>,
    dirty: BTreeSet<u64>,
    kept: Option<u64>, // a line that caches do not evict by themselves
    /// Whether the power takes away what the controller has accepted.
    uncovered: bool,
    queue: VecDeque<Accepted>,
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
    /// Records `work` on a machine with this persistence domain and media into `dir`; returns the
    /// media it left.
    ///
    /// # Errors
    /// The directory's.
    pub fn record(
        dir: &Path,
        domain: u32,
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
            domain,
            profile: Header::profile_field("model"),
            ..Header::default()
        };
        let file = BufWriter::new(File::create(dir.join("recording.bin"))?);
        let mut machine = Self {
            writer: Writer::new(file, &header)?,
            view: media.clone(),
            media,
            dirty: BTreeSet::new(),
            kept: None,
            uncovered: domain == DOMAIN_NONE,
            queue: VecDeque::new(),
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
        self.write_queued()?;
        self.writer.put(vcpu, self.time_ns, event)
    }

    /// The controller writes what it has had the time for.
    fn write_queued(&mut self) -> Result<()> {
        let now_ns = self.time_ns;
        let is_done = |oldest: &Accepted| oldest.done_ns <= now_ns;
        while self.queue.front().is_some_and(is_done) {
            let Some(oldest) = self.queue.pop_front() else {
                break;
            };
            self.media[range(oldest.line, LINE_BYTES)].copy_from_slice(&oldest.data);
            let written = Event::WriteBack {
                line: PHYS + oldest.line,
                data: &oldest.data,
                cause: oldest.cause,
            };
            self.writer.put(NO_VCPU, now_ns, &written)?;
        }
        Ok(())
    }

    /// Time passes, until all is on media that left the cache.
    ///
    /// # Errors
    /// See [`Self::put`].
    pub fn wait_written(&mut self) -> Result<()> {
        if let Some(newest) = self.queue.back() {
            self.time_ns = newest.done_ns;
        }
        self.write_queued()
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
        let stays = |line: &u64| *line == newest || Some(*line) == self.kept;
        match chosen.copied().filter(|line| !stays(line)) {
            Some(line) => self.write_back(line, Cause::EVICTION),
            None => Ok(()),
        }
    }

    fn write_back(&mut self, line: u64, cause: Cause) -> Result<()> {
        if !self.dirty.remove(&line) {
            return Ok(());
        }
        let data = self.line(line);
        if self.uncovered {
            return self.accept(line, data, cause);
        }
        self.media[range(line, LINE_BYTES)].copy_from_slice(&data);
        let written = Event::WriteBack {
            line: PHYS + line,
            data: &data,
            cause,
        };
        self.put(NO_VCPU, &written)
    }

    fn accept(&mut self, line: u64, data: Line, cause: Cause) -> Result<()> {
        let accepted = Event::Accepted {
            line: PHYS + line,
            data: &data,
            cause,
        };
        self.put(NO_VCPU, &accepted)?;
        let newest_ns = self.queue.back().map_or(0, |newest| newest.done_ns);
        self.queue.push_back(Accepted {
            line,
            data,
            cause,
            done_ns: newest_ns.max(self.time_ns) + QUEUE_NS,
        });
        Ok(())
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

    /// From now on caches do not evict this line by themselves, as they may choose: a bug that
    /// forgets to write it back is then not mended by chance.
    pub fn keep(&mut self, offset: u64) {
        self.kept = Some(line_of(offset));
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
