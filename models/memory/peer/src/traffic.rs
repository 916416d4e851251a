// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The requests: made by rule, or of a recorded trace. Both sides get the same list.

use crate::error::PeerError;
use ocpmem::cores::CoresPart;
use ocpmem::parts::Part;
use ocpmem::trace::{Kind, Trace};
use ocpmem::units::{LineAddr, Ps, random};
use ocpmem::workloads;
use serde::Deserialize;
use std::path::Path;

/// Which lines follow each other.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// One after another.
    Sequential,
    /// Each equally likely.
    Random,
    /// Always another row of the same bank.
    RowConflict,
}

/// One request.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// A read, or else a write.
    pub read: bool,
    /// Of which line.
    pub line: LineAddr,
    /// When the host wants it, unless it has to wait.
    pub at: Ps,
}

/// How requests are made.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Traffic {
    /// Rule; or one of the next two.
    pub pattern: Option<Pattern>,
    /// A workload of `ocpmem::workloads`, on LightPC's cores and caches.
    pub workload: Option<String>,
    /// A recorded trace (`format/rem_trace.h`), from its beginning.
    pub trace: Option<String>,
    /// How many.
    pub requests: usize,
    /// The others are writes; not of a trace.
    #[serde(default = "hundred")]
    pub read_percent: u64,
    /// Between two, if the host need not wait; 0: as fast as it can.
    #[serde(default)]
    pub gap_ns: f64,
    /// Reads under way at most; as many writes are accepted before one has to be done.
    pub in_flight: usize,
    /// Of lines and kinds.
    #[serde(default = "one")]
    pub seed: u64,
}

fn hundred() -> u64 {
    100
}
fn one() -> u64 {
    1
}

/// Loads and stores of a workload for each request that leaves the caches, more than enough.
const ACCESSES: u64 = 20;
/// The most requests of a job: both sides keep them in memory.
const REQUESTS_MAX: usize = 10_000_000;

impl Traffic {
    /// All requests; `stride` lines lie between two rows of one bank.
    ///
    /// # Errors
    /// When the job cannot be meant, or the trace has too few.
    pub fn requests(&self, lines: u64, stride: u64) -> Result<Vec<Request>, PeerError> {
        let job = |why: &str| Err(PeerError::Job(why.to_owned()));
        if !(1..=REQUESTS_MAX).contains(&self.requests) || !(1..=4096).contains(&self.in_flight) {
            return job("requests is 1 to 10,000,000, in_flight 1 to 4096");
        }
        if self.read_percent > 100 || !(0.0..=1e6).contains(&self.gap_ns) {
            return job("read_percent is 0 to 100, gap_ns 0 to 1e6");
        }
        let gap = Ps::from_ns(self.gap_ns);
        match (&self.trace, &self.workload, self.pattern) {
            (Some(file), None, None) => {
                let trace = Trace::load(Path::new(file))?;
                self.recorded(file, &trace, lines, gap)
            }
            (None, Some(name), None) => {
                let cores = CoresPart::from_part(&Part::built_in("lpc-core")?)?;
                let accesses = self.requests as u64 * ACCESSES;
                let traced = workloads::run(name, &cores, accesses, self.seed)?;
                self.recorded(name, &traced.trace, lines, gap)
            }
            (None, None, Some(pattern)) => Ok(self.made(pattern, lines, stride, gap)),
            _ => job("give either a pattern, a workload or a trace"),
        }
    }

    fn made(&self, pattern: Pattern, lines: u64, stride: u64, gap: Ps) -> Vec<Request> {
        let mut state = self.seed;
        let request = |number: u64| {
            let dice = random(&mut state);
            let line = match pattern {
                Pattern::Sequential => number % lines,
                Pattern::Random => dice % lines,
                Pattern::RowConflict => number * stride % lines,
            };
            Request {
                read: (dice >> 40) % 100 < self.read_percent,
                line: LineAddr(line),
                at: gap.times(number),
            }
        };
        (0..self.requests as u64).map(request).collect()
    }

    /// Of a trace, from its beginning; lines beyond the memory wrap around.
    fn recorded(
        &self,
        name: &str,
        trace: &Trace,
        lines: u64,
        gap: Ps,
    ) -> Result<Vec<Request>, PeerError> {
        let request = |(number, it): (u64, ocpmem::trace::Request)| Request {
            read: it.kind == Kind::Read,
            line: LineAddr(it.line.0 % lines),
            at: gap.times(number),
        };
        let found: Vec<Request> = (0..)
            .zip(trace.requests())
            .take(self.requests)
            .map(request)
            .collect();
        if found.len() < self.requests {
            let why = format!("{name} has {} reads and writes only", found.len());
            return Err(PeerError::Job(why));
        }
        Ok(found)
    }
}
