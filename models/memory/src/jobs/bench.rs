// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How many requests a second the model itself serves. The host's clock is read
//! here and nowhere else in this crate.

use crate::build::MemoryJob;
use crate::error::MediaError;
use crate::memory::Memory;
use crate::psm::Psm;
use crate::trace::{Kind, Trace};
use crate::units::{LineAddr, Ps, random};
use serde::Deserialize;
use serde_json::{Value, json};
use std::path::Path;
use std::time::Instant;

/// The job.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BenchJob {
    /// A PSM.
    pub memory: MemoryJob,
    /// Lines of memory.
    pub lines: u64,
    /// How many.
    pub requests: u64,
    /// The others are writes.
    pub read_percent: u64,
    /// Requests under way; a power of two.
    pub in_flight: usize,
    /// Instead of random requests: a trace, repeated.
    pub trace: Option<String>,
    /// Of random requests.
    pub seed: u64,
}

/// Time that this thread had a CPU of the host: what others take of it does not enter.
fn cpu_s() -> Result<f64, MediaError> {
    let path = "/proc/thread-self/schedstat";
    let io = |cause| MediaError::Io {
        path: path.to_owned(),
        cause,
    };
    let text = std::fs::read_to_string(path).map_err(io)?;
    let ns = text
        .split(' ')
        .next()
        .and_then(|word| word.parse::<f64>().ok());
    ns.map(|ns| ns / 1e9)
        .ok_or_else(|| io(std::io::ErrorKind::InvalidData.into()))
}

impl BenchJob {
    pub(super) fn run(&self) -> Result<Value, MediaError> {
        if !self.in_flight.is_power_of_two() || self.read_percent > 100 || self.requests == 0 {
            let why = "bench: in_flight is a power of two, read_percent 0 to 100, requests not 0";
            return Err(MediaError::Job(why.to_owned()));
        }
        let mut psm = self.memory.psm(self.lines)?;
        let trace = match &self.trace {
            Some(file) => Some(Trace::load(Path::new(file))?),
            None => None,
        };
        if trace
            .as_ref()
            .is_some_and(|it| it.lines > self.lines || it.requests().next().is_none())
        {
            let why = "bench: the trace has no read or write, or needs more lines";
            return Err(MediaError::Job(why.to_owned()));
        }
        let (begin, cpu_begin_s) = (Instant::now(), cpu_s()?);
        let until = match &trace {
            None => self.random_requests(&mut psm),
            Some(trace) => self.traced(&mut psm, trace),
        };
        let (took_s, cpu_s) = (begin.elapsed().as_secs_f64(), cpu_s()? - cpu_begin_s);
        let counts = psm.counts();
        #[expect(clippy::cast_precision_loss, reason = "shown to people")]
        let served = (counts.read.count + counts.write.count) as f64;
        Ok(json!({
            "mreq_s": served / cpu_s / 1e6,
            "cpu_s": cpu_s,
            "took_s": took_s,
            "requests": counts.read.count + counts.write.count,
            "modelled_ns": until.ns(),
            "memory": super::figures(&psm, until),
        }))
    }

    fn random_requests(&self, psm: &mut Psm) -> Ps {
        let mut state = self.seed;
        let mut slots = vec![Ps::ZERO; self.in_flight];
        let mut now = Ps::ZERO;
        let mask = self.lines - 1;
        let limit = (self.read_percent << 32) / 100;
        for number in 0..self.requests {
            #[expect(clippy::cast_possible_truncation, reason = "masked below in_flight")]
            let slot = number as usize & (self.in_flight - 1);
            let dice = random(&mut state);
            let kind = if dice >> 32 < limit {
                Kind::Read
            } else {
                Kind::Write
            };
            now = serve(psm, now, &mut slots[slot], kind, LineAddr(dice & mask));
        }
        now
    }

    fn traced(&self, psm: &mut Psm, trace: &Trace) -> Ps {
        let mut slots = vec![Ps::ZERO; self.in_flight];
        let mut now = Ps::ZERO;
        let mut number = 0;
        while number < self.requests {
            for request in trace.iter() {
                #[expect(clippy::cast_possible_truncation, reason = "masked below in_flight")]
                let slot = number as usize & (self.in_flight - 1);
                match request.kind {
                    Kind::Read | Kind::Write if number == self.requests => return now,
                    kind @ (Kind::Read | Kind::Write) => {
                        now = serve(psm, now, &mut slots[slot], kind, request.line);
                        number += 1;
                    }
                    Kind::Flush => now = psm.persist(now),
                    Kind::Idle => {}
                }
            }
        }
        now
    }
}

/// A read or a write, when its slot is free; returns when that was.
fn serve(psm: &mut Psm, now: Ps, slot: &mut Ps, kind: Kind, line: LineAddr) -> Ps {
    let now = now.max(*slot);
    *slot = match kind {
        Kind::Read => psm.read(now, line),
        _ => psm.write(now, line),
    };
    now
}
