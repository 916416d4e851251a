// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Recordings of a model of the protocol: a memory behind a cache that evicts by chance, a Stop and a
//! Go that do what `kernel/stop/` and `loader/` do, and on demand one of their bugs.
//!
//! They show that the campaign sees what it is for, in milliseconds and without a machine. What real
//! kernels do is shown by recordings of these.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;

use remanence_recording::{Cause, Event, Fence, Header, LINE_BYTES, Phase, Writer};

use crate::media::Line;
use crate::plan::Rng;
use crate::{CampaignError, format};

const PHYS: u64 = 1 << 32;
const NVRAM_BYTES: u64 = 4 << 20;
const CPUS: u64 = 2;
/// Behind the block: a page table of four levels, contexts, stacks, then memory of programs.
const TABLES: u64 = 0x20_1000;
const CONTEXTS: u64 = 0x20_8000;
const STACKS: u64 = 0x21_0000;
const STACK_BYTES: u64 = 0x4000;
const MEMORY: u64 = 0x30_0000;
const MEMORY_BYTES: u64 = 0x4_0000;
const CONTEXT_BYTES: u64 = 640;
/// Virtual addresses of stacks, as where a kernel maps them.
const STACKS_VIRT: u64 = 0xffff_c900_0000_0000;

/// Bugs of the model. Each is found by some cut.
pub const MUTANTS: [&str; 12] = [
    "skip-flush",
    "flush-one-line-short",
    "commit-before-flush",
    "body-after-commit",
    "store-after-flush",
    "commit-not-flushed",
    "arm-keeps-commit",
    "not-consumed",
    "consume-not-flushed",
    "consume-after-entry",
    "loader-writes-image",
    "commit-twice",
];

struct Model<W: Write> {
    writer: Writer<W>,
    media: Vec<u8>,
    view: Vec<u8>,
    dirty: BTreeMap<u64, ()>,
    rng: Rng,
    time_ns: u64,
    mutant: Option<String>,
}

fn crc(parts: &[&[u8]]) -> u32 {
    parts
        .iter()
        .fold(0, |crc, part| crc32c::crc32c_append(crc, part))
}

fn word(kind: u32, sequence: u32, body: Option<u32>) -> u64 {
    let seed = [
        kind.to_le_bytes(),
        sequence.to_le_bytes(),
        body.unwrap_or(0).to_le_bytes(),
    ]
    .concat();
    let check = crc(&[if body.is_some() { &seed } else { &seed[..8] }]);
    u64::from(sequence) | u64::from(check) << 32
}

const WORD_COMMIT: u32 = 0x4d4d_4f43;

impl<W: Write> Model<W> {
    fn is(&self, mutant: &str) -> bool {
        self.mutant.as_deref() == Some(mutant)
    }

    fn put(&mut self, vcpu: u8, event: &Event<'_>) -> std::io::Result<()> {
        self.time_ns += 1;
        self.writer.put(vcpu, self.time_ns, event)
    }

    fn range(at: u64, bytes: usize) -> std::ops::Range<usize> {
        let from = usize::try_from(at).unwrap_or(usize::MAX);
        from..from + bytes
    }

    fn store(&mut self, vcpu: u8, at: u64, bytes: &[u8]) -> std::io::Result<()> {
        let mut at = at;
        let mut rest = bytes;
        while !rest.is_empty() {
            let room = LINE_BYTES - usize::try_from(at % 64).unwrap_or(0);
            let (now, later) = rest.split_at(room.min(rest.len()));
            self.put(
                vcpu,
                &Event::Store {
                    address: PHYS + at,
                    bytes: now,
                    pc: 0xffff_ffff_8100_0000,
                },
            )?;
            self.view[Self::range(at, now.len())].copy_from_slice(now);
            self.dirty.insert(at - at % 64, ());
            at += now.len() as u64;
            rest = later;
        }
        // Caches evict what they like, when they like; not at once what was just stored.
        if self.rng.below(6) == 0 {
            let n = usize::try_from(self.rng.below(self.dirty.len() as u64)).unwrap_or(0);
            let chosen = self.dirty.keys().nth(n).copied();
            if let Some(line) = chosen.filter(|&line| line != (at - 1) - (at - 1) % 64) {
                self.write_back(line, Cause::EVICTION)?;
            }
        }
        Ok(())
    }

    fn write_back(&mut self, line: u64, cause: Cause) -> std::io::Result<()> {
        if self.dirty.remove(&line).is_none() {
            return Ok(());
        }
        let mut data: Line = [0; LINE_BYTES];
        data.copy_from_slice(&self.view[Self::range(line, LINE_BYTES)]);
        self.media[Self::range(line, LINE_BYTES)].copy_from_slice(&data);
        self.put(
            0xff,
            &Event::WriteBack {
                line: PHYS + line,
                data: &data,
                cause,
            },
        )
    }

    fn flush(&mut self, line: u64) -> std::io::Result<()> {
        let cause = Cause::CLFLUSH;
        self.put(
            0,
            &Event::Flush {
                line: PHYS + line,
                pc: 0,
                cause,
            },
        )?;
        self.write_back(line, cause)?;
        self.put(
            0,
            &Event::Fence {
                pc: 0,
                fence: Fence::MFENCE,
            },
        )
    }

    fn flush_all(&mut self, but: u64) -> std::io::Result<()> {
        self.put(
            0,
            &Event::CacheAll {
                pc: 0,
                cause: Cause::WBINVD,
            },
        )?;
        let lines: Vec<u64> = self
            .dirty
            .keys()
            .copied()
            .filter(|&line| line != but)
            .collect();
        lines
            .into_iter()
            .try_for_each(|line| self.write_back(line, Cause::WBINVD))
    }

    fn event(&mut self, sequence: u32, n: u64, kind: u16) -> std::io::Result<()> {
        let mut event = [0; format::EVENT_BYTES];
        event[..4].copy_from_slice(&sequence.to_le_bytes());
        event[4..6].copy_from_slice(&kind.to_le_bytes());
        event[8..16].copy_from_slice(&self.time_ns.to_le_bytes());
        let check = crc(&[&event[..28]]);
        event[28..].copy_from_slice(&check.to_le_bytes());
        let timeline = format::TIMELINE_OFFSET
            + u64::from(sequence) % format::SLOTS * format::TIMELINE_STRIDE_BYTES;
        self.store(0, timeline + n * 32, &event)
    }

    fn programs(&mut self, stores: u64) -> std::io::Result<()> {
        for _ in 0..stores {
            let at = MEMORY + self.rng.below(MEMORY_BYTES / 8) * 8;
            let value = self.rng.next().to_le_bytes();
            let vcpu = u8::from(self.rng.below(2) == 1);
            self.store(vcpu, at, &value)?;
        }
        Ok(())
    }

    fn body(&self, sequence: u32, complete: bool) -> Vec<u8> {
        let desc = description();
        let mut body = vec![0; 256 + desc.len() - 16];
        let bytes = u32::try_from(body.len()).unwrap_or(0);
        let mut put = |at: usize, value: &[u8]| body[at..at + value.len()].copy_from_slice(value);
        put(0, &0x4547_414d_494d_4552u64.to_le_bytes());
        put(8, &1u32.to_le_bytes());
        put(12, &bytes.to_le_bytes());
        put(16, &sequence.to_le_bytes());
        put(24, &1u32.to_le_bytes());
        put(28, &2u32.to_le_bytes());
        for (at, value) in [
            (32, PHYS),
            (40, NVRAM_BYTES),
            (48, PHYS + MEMORY),
            (56, PHYS + TABLES),
            (64, PHYS + CONTEXTS),
        ] {
            put(at, &value.to_le_bytes());
        }
        put(72, &640u32.to_le_bytes());
        put(76, &2u32.to_le_bytes());
        put(80, &if complete { self.time_ns } else { 0 }.to_le_bytes());
        put(112, &256u32.to_le_bytes());
        put(116, &2u32.to_le_bytes());
        put(256, &desc[16..]);
        let header = crc(&[&body[..20]]);
        body[20..24].copy_from_slice(&header.to_le_bytes());
        body
    }

    fn arm(&mut self, sequence: u32) -> std::io::Result<()> {
        let slot = u64::from(sequence) % format::SLOTS;
        let commit = format::COMMIT_OFFSET + slot * format::COMMIT_STRIDE_BYTES;
        if !self.is("arm-keeps-commit") {
            self.store(0, commit, &[0; 8])?;
            self.flush(commit)?;
        }
        let body = self.body(sequence, false);
        for (n, part) in body.chunks(64).enumerate() {
            self.store(
                0,
                format::BODY_OFFSET + slot * format::BODY_STRIDE_BYTES + n as u64 * 64,
                part,
            )?;
        }
        Ok(())
    }

    fn stop(&mut self, sequence: u32) -> std::io::Result<()> {
        let slot = u64::from(sequence) % format::SLOTS;
        let commit_at = format::COMMIT_OFFSET + slot * format::COMMIT_STRIDE_BYTES;
        let body_at = format::BODY_OFFSET + slot * format::BODY_STRIDE_BYTES;
        self.put(0xff, &Event::Power { ok: false })?;
        self.event(sequence, 0, format::EVENT_STOP_BEGIN)?;
        self.programs(200)?;
        self.event(sequence, 1, format::EVENT_STOP_DEVICES)?;
        for cpu in 0..CPUS {
            for word in 5..40 {
                let value = self.rng.next().to_le_bytes();
                self.store(0, CONTEXTS + cpu * CONTEXT_BYTES + word * 8, &value)?;
            }
        }
        let body = self.body(sequence, true);
        let commit = word(WORD_COMMIT, sequence, Some(crc(&[&body])));
        if !self.is("body-after-commit") {
            self.store(0, body_at, &body)?;
        }
        self.event(sequence, 2, format::EVENT_STOP_BODY)?;
        if self.is("commit-before-flush") {
            self.store(0, commit_at, &commit.to_le_bytes())?;
        }
        let short = if self.is("flush-one-line-short") {
            CONTEXTS + 64
        } else {
            u64::MAX
        };
        if !self.is("skip-flush") {
            self.dirty.insert(CONTEXTS + 64, ());
            self.view[Self::range(CONTEXTS + 100, 1)][0] ^= 0x55;
            let line: Line = self.line(CONTEXTS + 64);
            self.put(
                0,
                &Event::Unseen {
                    line: PHYS + CONTEXTS + 64,
                    data: &line,
                },
            )?;
            self.flush_all(short)?;
        }
        if self.is("store-after-flush") {
            self.store(0, MEMORY + 64, &[0xee; 8])?;
        }
        // Functions called on the way leave something on the stack below the saved pointer.
        self.store(0, STACKS + STACK_BYTES - 0x140, &[0xdd; 40])?;
        self.store(0, commit_at, &commit.to_le_bytes())?;
        if !self.is("commit-not-flushed") {
            self.flush(commit_at)?;
        }
        if self.is("body-after-commit") {
            self.store(0, body_at, &body)?;
            self.flush(body_at)?;
        }
        if self.is("commit-twice") {
            self.store(
                0,
                commit_at,
                &word(WORD_COMMIT, sequence + 2, Some(crc(&[&body]))).to_le_bytes(),
            )?;
            self.flush(commit_at)?;
        }
        self.put(0, &Event::Phase(Phase::STOPPED))?;
        self.put(0xff, &Event::Cut { cause: 2 })
    }

    fn go(&mut self, sequence: u32) -> std::io::Result<()> {
        let consumed = word(format::WORD_CONSUMED, sequence, None).to_le_bytes();
        let consume = !self.is("not-consumed");
        self.put(0, &Event::Phase(Phase::LOADER))?;
        for n in 0..120 {
            let value = self.rng.next().to_le_bytes();
            self.store(0, format::WORK_OFFSET + n * 40, &value)?;
        }
        for (n, part) in description().chunks(16).enumerate() {
            self.store(0, format::DESC_OFFSET + n as u64 * 16, part)?;
        }
        self.store(0, format::NOTE_OFFSET, &[0x5a; 160])?;
        if self.is("loader-writes-image") {
            self.store(0, MEMORY + 0x2000, &[0xaa; 32])?;
        }
        let late = self.is("consume-after-entry");
        if consume && !late {
            self.store(0, format::CONSUMED_OFFSET, &consumed)?;
            if !self.is("consume-not-flushed") {
                self.flush(format::CONSUMED_OFFSET)?;
            }
        }
        self.put(0, &Event::Phase(Phase::GO))?;
        self.event(sequence, 512, format::EVENT_GO_BEGIN)?;
        self.programs(100)?;
        if consume && late {
            self.store(0, format::CONSUMED_OFFSET, &consumed)?;
            self.flush(format::CONSUMED_OFFSET)?;
        }
        self.event(sequence, 513, format::EVENT_GO_SYSCORE)?;
        self.programs(150)?;
        self.event(sequence, 514, format::EVENT_GO_DONE)?;
        self.arm(sequence + 1)?;
        self.programs(300)?;
        self.put(0xff, &Event::Cut { cause: 1 })
    }

    fn line(&self, at: u64) -> Line {
        let mut line = [0; LINE_BYTES];
        line.copy_from_slice(&self.view[Self::range(at, LINE_BYTES)]);
        line
    }
}

/// struct rem_desc with two entries.
fn description() -> Vec<u8> {
    let entry = |kind: u16, values: [u64; 5]| {
        let mut out = kind.to_le_bytes().to_vec();
        out.extend([0; 6]);
        values
            .iter()
            .for_each(|value| out.extend(value.to_le_bytes()));
        out
    };
    let entries = [entry(1, [11, 12, 13, 0, 0]), entry(2, [CPUS, 0, 0, 0, 0])].concat();
    let mut out = 0x5243_5345_444d_4552u64.to_le_bytes().to_vec();
    out.extend(2u32.to_le_bytes());
    out.extend(crc(&[&entries]).to_le_bytes());
    out.extend(entries);
    out
}

/// Media of a machine that has run for a while: block, page table, contexts, one image consumed.
fn first_media() -> Vec<u8> {
    let mut media = vec![0; usize::try_from(NVRAM_BYTES).unwrap_or(0)];
    let mut put = |at: u64, bytes: &[u8]| {
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        media[at..at + bytes.len()].copy_from_slice(bytes);
    };
    let mut block = 0x4b43_4f4c_424d_4552u64.to_le_bytes().to_vec();
    block.extend(1u32.to_le_bytes());
    block.extend(0x20_0000u32.to_le_bytes());
    block.extend(NVRAM_BYTES.to_le_bytes());
    block.extend([0; 36]);
    block.extend(crc(&[&block]).to_le_bytes());
    put(0, &block);
    put(
        format::CONSUMED_OFFSET,
        &word(format::WORD_CONSUMED, 1, None).to_le_bytes(),
    );
    put(format::DESC_OFFSET, &description());
    let index = |shift: u32| (STACKS_VIRT >> shift & 0x1ff) * 8;
    for (level, shift) in [39, 30, 21].into_iter().enumerate() {
        let table = TABLES + level as u64 * 0x1000;
        put(
            table + index(shift),
            &((PHYS + table + 0x1000) | 0x3).to_le_bytes(),
        );
    }
    for page in 0..CPUS * STACK_BYTES / 0x1000 {
        let entry = (PHYS + STACKS + page * 0x1000) | 0x3;
        put(TABLES + 0x3000 + index(12) + page * 8, &entry.to_le_bytes());
    }
    for cpu in 0..CPUS {
        let rsp = STACKS_VIRT + (cpu + 1) * STACK_BYTES - 0x100;
        put(CONTEXTS + cpu * CONTEXT_BYTES, &rsp.to_le_bytes());
        put(
            CONTEXTS + cpu * CONTEXT_BYTES + 16,
            &(PHYS + TABLES).to_le_bytes(),
        );
    }
    media
}

fn record(
    dir: &Path,
    media: Vec<u8>,
    seed: u64,
    mutant: Option<&str>,
    act: impl FnOnce(&mut Model<BufWriter<File>>) -> std::io::Result<()>,
) -> std::io::Result<Vec<u8>> {
    fs::create_dir_all(dir)?;
    fs::write(dir.join("base.media"), &media)?;
    let header = Header {
        clock: remanence_recording::CLOCK_GUEST,
        nvram_phys: PHYS,
        nvram_bytes: NVRAM_BYTES,
        seed,
        cpu_count: 2,
        profile: Header::profile_field("model"),
        ..Header::default()
    };
    let file = BufWriter::new(File::create(dir.join("recording.bin"))?);
    let mut model = Model {
        writer: Writer::new(file, &header)?,
        view: media.clone(),
        media,
        dirty: BTreeMap::new(),
        rng: Rng(seed),
        time_ns: 0,
        mutant: mutant.map(str::to_owned),
    };
    model.put(0xff, &Event::Window { begins: true })?;
    act(&mut model)?;
    model.put(0xff, &Event::End)?;
    model.writer.finish()?;
    Ok(model.media)
}

/// Writes two recordings below `dir`: `stop`, of running and a Stop, and `go`, from the media it left.
///
/// # Errors
/// The directory's, or a mutant that is none.
pub fn write(dir: &Path, seed: u64, mutant: Option<&str>) -> Result<(), CampaignError> {
    let fail = |err| CampaignError::File(dir.to_owned(), err);
    if let Some(name) = mutant.filter(|name| !MUTANTS.contains(name)) {
        let known = format!("no mutant {name}; there are {}", MUTANTS.join(", "));
        return Err(fail(std::io::Error::new(
            std::io::ErrorKind::InvalidInput,
            known,
        )));
    }
    // Two cycles come before, so that every slot has held an image.
    let early = dir.join("early");
    let mut media = first_media();
    for sequence in 2..4 {
        media = record(&early, media, seed, None, |model| {
            model.arm(sequence)?;
            model.stop(sequence)
        })
        .map_err(fail)?;
        media = record(&early, media, seed, None, |model| model.go(sequence)).map_err(fail)?;
    }
    fs::remove_dir_all(&early).map_err(fail)?;
    let media = record(&dir.join("stop"), media, seed, mutant, |model| {
        model.put(0, &Event::Phase(Phase::RUNNING))?;
        model.arm(4)?;
        model.programs(600)?;
        model.stop(4)
    })
    .map_err(fail)?;
    record(&dir.join("go"), media, seed + 1, mutant, |model| {
        model.go(4)
    })
    .map_err(fail)?;
    Ok(())
}
