// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The requests of a trace, one by one, with content: what each gives and when. It is what the
//! PSM in RTL is compared with (`models/memory/rtl`), which never sees these answers.
//!
//! With a `schedule` the requests come at its moments and in its order (columns `index`, `kind`,
//! `at`, in cycles), and the log says when each is answered and with what. Without one the host is
//! part of it: one request a cycle, a number of them under way.

use crate::build::MemoryJob;
use crate::error::MediaError;
use crate::memory::Memory;
use crate::oc::Oc;
use crate::psm::Psm;
use crate::trace::{Kind, Trace};
use crate::units::{LineAddr, PhysLine, Ps, mix};
use crate::xcc::{Line, Read};
use serde::Deserialize;
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// Kinds of a schedule: those of a trace, and the reset port.
const READ: u64 = 0;
const WRITE: u64 = 1;
const FLUSH: u64 = 2;

/// The job.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestsJob {
    /// A PSM.
    pub memory: MemoryJob,
    /// Lines of memory.
    pub lines: u64,
    /// Writes between two exchanges; 0 = never.
    pub swap_writes: u32,
    /// Of the randomizer.
    pub wear_seed: u64,
    /// One cycle.
    pub cycle_ns: f64,
    /// A trace; a line beyond the memory is folded into it.
    pub trace: String,
    /// When requests come; without it the host waits for answers.
    pub schedule: Option<String>,
    /// Requests under way, without a schedule.
    pub in_flight: usize,
    /// The trace's pauses count, a cycle an instruction.
    pub pauses: bool,
    /// Faults in cells, after the trace and its last flush: lines of place, piece, byte, mask.
    pub faults: Option<String>,
    /// Where answers go.
    pub log: Option<String>,
    /// Where what the devices hold goes, as it is after the trace and its last flush.
    pub media: Option<String>,
}

fn io(path: &str) -> impl FnOnce(std::io::Error) -> MediaError {
    let path = path.to_owned();
    move |cause| MediaError::Io { path, cause }
}

/// A number for a content (FNV-1a).
fn digest(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// What request `number` writes.
fn written(number: u64) -> Line {
    let mut line = [0; 64];
    for (word, bytes) in (1..).zip(line.chunks_exact_mut(8)) {
        bytes.copy_from_slice(&mix(number * 8 + word).to_le_bytes());
    }
    line
}

/// One answer.
#[derive(Clone, Copy, Debug, Default)]
struct Answer {
    done: Ps,
    value: u64,
    contained: bool,
}

/// The memory and what is asked of it.
struct Subject<'a> {
    job: &'a RequestsJob,
    trace: Vec<(Kind, u64, u64)>,
    oc: Oc,
}

impl RequestsJob {
    pub(super) fn run(&self) -> Result<Value, MediaError> {
        let wrong = |why: &str| Err(MediaError::Job(format!("requests: {why}")));
        if self.in_flight == 0 || self.cycle_ns <= 0.0 {
            return wrong("in_flight and cycle_ns are above 0");
        }
        let base = self.memory.psm(self.lines)?;
        let mut config = *base.config();
        config.wear.swap_writes = self.swap_writes;
        config.wear.seed = self.wear_seed;
        let psm = Psm::new(config, *base.part(), self.lines)?;
        let mut pause = 0;
        let mut trace = Vec::new();
        for it in Trace::load(Path::new(&self.trace))?.iter() {
            pause += it.gap;
            if it.kind != Kind::Idle {
                trace.push((it.kind, it.line.0 % self.lines, pause));
                pause = 0;
            }
        }
        let mut subject = Subject {
            job: self,
            trace,
            oc: Oc::new(psm, false)?,
        };
        let (until, answered) = match &self.schedule {
            Some(schedule) => subject.scheduled(schedule)?,
            None => subject.host(),
        };
        let leveler = subject.oc.psm().leveler();
        let (region, epoch) = (leveler.region(0), leveler.epoch());
        Ok(json!({
            "answered": answered,
            "until_ns": until.ns(),
            "read_mean_ns": subject.oc.psm().counts().read.mean_ns(),
            "write_mean_ns": subject.oc.psm().counts().write.mean_ns(),
            "start": region.start,
            "gap": region.gap,
            "epoch": epoch.number,
            "pointer": epoch.pointer,
            "journal_next": subject.oc.psm().journal_next(),
            "register_bytes": leveler.register_bytes(),
            "memory": super::figures(subject.oc.psm(), until),
        }))
    }
}

impl Subject<'_> {
    fn cycle(&self) -> Ps {
        Ps::from_ns(self.job.cycle_ns)
    }

    fn serve(&mut self, at: Ps, index: u64, kind: Kind, line: u64) -> Answer {
        let line = LineAddr(line);
        match kind {
            Kind::Read => {
                let (done, read) = self.oc.read(at, line);
                self.answer(done, read)
            }
            Kind::Write => Answer {
                done: self.oc.write(at, line, &written(index)),
                ..Answer::default()
            },
            Kind::Flush | Kind::Idle => Answer {
                done: self.oc.flush(at),
                ..Answer::default()
            },
        }
    }

    #[expect(clippy::unused_self, reason = "beside its callers")]
    fn answer(&self, done: Ps, read: Read) -> Answer {
        Answer {
            done,
            value: read.line().map_or(0, |line| digest(&line)),
            contained: read == Read::Contained,
        }
    }

    /// Requests at the moments of a schedule.
    fn scheduled(&mut self, schedule: &str) -> Result<(Ps, u64), MediaError> {
        let text = fs::read_to_string(schedule).map_err(io(schedule))?;
        let mut rows = text.lines();
        let names: Vec<&str> = rows.next().unwrap_or("").split(' ').collect();
        let column = |name: &str| {
            names
                .iter()
                .position(|it| *it == name)
                .ok_or_else(|| MediaError::Job(format!("{schedule} has no column {name}")))
        };
        let (index_at, kind_at, moment_at) = (column("index")?, column("kind")?, column("at")?);
        let cycle = self.cycle();
        let mut log = "index kind done value contained\n".to_owned();
        let (mut until, mut answered) = (Ps::ZERO, 0);
        let (mut broken, mut swept) = (false, 0);
        for row in rows {
            let words: Vec<u64> = row.split(' ').filter_map(|it| it.parse().ok()).collect();
            if words.len() != names.len() {
                return Err(MediaError::Job(format!("{schedule}: {row}")));
            }
            let (index, kind) = (words[index_at], words[kind_at]);
            let at = cycle.times(words[moment_at]);
            #[expect(clippy::cast_possible_truncation, reason = "an index of a vector")]
            let request = self.trace.get(index as usize).copied();
            // What follows the trace: the last flush, a sweep of all lines, the reset port, a sweep.
            if kind != READ {
                swept = 0;
            }
            let answer = match (request, kind) {
                (Some((kind, line, _)), _) => self.serve(at, index, kind, line),
                (None, READ) => {
                    if !broken {
                        self.break_cells()?;
                        broken = true;
                    }
                    let (done, read) = self.oc.read(at, LineAddr(swept));
                    swept += 1;
                    self.answer(done, read)
                }
                (None, FLUSH) => {
                    let done = self.oc.flush(at);
                    self.oc.settle_at(done);
                    self.write_media()?;
                    Answer {
                        done,
                        ..Answer::default()
                    }
                }
                (None, WRITE) => return Err(MediaError::Job(format!("{schedule}: {row}"))),
                (None, _) => Answer {
                    done: self.oc.reset(at),
                    ..Answer::default()
                },
            };
            answered += 1;
            until = until.max(answer.done);
            let done = answer.done.0 / cycle.0;
            let rest = answer.done.0 % cycle.0;
            if rest != 0 {
                return Err(MediaError::Job(format!(
                    "requests: {} ps is no whole number of cycles of {} ps",
                    answer.done.0, cycle.0
                )));
            }
            let contained = u8::from(answer.contained);
            let value = answer.value;
            writeln!(log, "{index} {kind} {done} {value} {contained}").expect("a string grows");
        }
        if let Some(path) = &self.job.log {
            fs::write(path, log).map_err(io(path))?;
        }
        Ok((until, answered))
    }

    /// Requests as a host gives them that waits for answers.
    fn host(&mut self) -> (Ps, u64) {
        let cycle = self.cycle();
        let mut under_way = BinaryHeap::new();
        let (mut now, mut until) = (cycle, Ps::ZERO);
        for index in 0..self.trace.len() {
            let (kind, line, pause) = self.trace[index];
            if self.job.pauses {
                now = now + cycle.times(pause);
            }
            let room = if kind == Kind::Flush {
                1
            } else {
                self.job.in_flight
            };
            while under_way.len() >= room {
                let Some(Reverse(done)) = under_way.pop() else {
                    break;
                };
                now = now.max(done);
            }
            let done = self.serve(now, index as u64, kind, line).done;
            until = until.max(done);
            if kind == Kind::Flush {
                now = done;
            } else {
                under_way.push(Reverse(done));
                now = now + cycle;
            }
        }
        (until, self.trace.len() as u64)
    }

    fn break_cells(&mut self) -> Result<(), MediaError> {
        let Some(path) = &self.job.faults else {
            return Ok(());
        };
        for row in fs::read_to_string(path).map_err(io(path))?.lines() {
            let words: Vec<u64> = row.split(' ').filter_map(|it| it.parse().ok()).collect();
            let [place, piece @ 0..=2, byte @ 0..=36, mask @ 0..=255] = words[..] else {
                return Err(MediaError::Job(format!("{path}: {row}")));
            };
            #[expect(clippy::cast_possible_truncation, reason = "matched above")]
            let (index, byte, mask) = (piece as usize, byte as usize, mask as u8);
            let cell = &mut self.oc.cells(PhysLine(place))[index];
            match byte {
                0..32 => cell.data[byte] ^= mask,
                32 => cell.generation ^= mask,
                _ => cell.check ^= u32::from(mask) << (8 * (byte - 33)),
            }
        }
        Ok(())
    }

    fn write_media(&mut self) -> Result<(), MediaError> {
        let Some(path) = &self.job.media else {
            return Ok(());
        };
        let mut text = "place".to_owned();
        for number in 0..3 {
            write!(
                text,
                " check_{number} age_{number} data_{number} programs_{number}"
            )
            .expect("a string grows");
        }
        text.push('\n');
        let lines = self.oc.psm().wear().lines();
        for place in 0..lines {
            let programs = self.oc.psm().wear().of(place);
            write!(text, "{place}").expect("a string grows");
            let pieces = *self.oc.cells(PhysLine(place));
            for piece in &pieces[..3] {
                let (check, age) = (piece.check, piece.generation);
                let data = digest(&piece.data);
                write!(text, " {check} {age} {data} {programs}").expect("a string grows");
            }
            text.push('\n');
        }
        fs::write(path, text).map_err(io(path))
    }
}
