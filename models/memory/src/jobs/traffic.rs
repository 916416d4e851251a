// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Requests of one size and mix, a fixed number of them in flight: latency and
//! bandwidth of a memory by itself.

use super::figures;
use crate::build::MemoryJob;
use crate::error::MediaError;
use crate::memory::Memory;
use crate::stats::Latency;
use crate::units::{LINE_BYTES, LineAddr, Ps, random};
use serde::Deserialize;
use serde_json::{Value, json};

/// Which blocks are accessed.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// Each equally likely.
    Random,
    /// One after another.
    Sequential,
}

/// The job.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrafficJob {
    /// On what.
    pub memory: MemoryJob,
    /// Lines of memory.
    #[serde(default = "lines")]
    pub lines: u64,
    /// Lines that are accessed, from the first; all if not given.
    pub span_lines: Option<u64>,
    /// Of one request.
    #[serde(default = "block_bytes")]
    pub block_bytes: u64,
    /// The others are writes.
    #[serde(default = "read_percent")]
    pub read_percent: u64,
    /// Requests under way at any time.
    #[serde(default = "in_flight")]
    pub in_flight: usize,
    /// After as many that are not counted.
    #[serde(default = "requests")]
    pub requests: u64,
    /// Which blocks.
    #[serde(default = "pattern")]
    pub pattern: Pattern,
    /// Of block and kind.
    #[serde(default = "one")]
    pub seed: u64,
}

fn lines() -> u64 {
    1 << 26
}
fn block_bytes() -> u64 {
    64
}
fn read_percent() -> u64 {
    100
}
fn in_flight() -> usize {
    1
}
fn requests() -> u64 {
    100_000
}
fn pattern() -> Pattern {
    Pattern::Random
}
fn one() -> u64 {
    1
}

/// What was seen of requests.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    /// Of reads.
    pub reads: Latency,
    /// Of writes.
    pub writes: Latency,
    /// From the first request that counted to the last.
    pub time: Ps,
}

impl TrafficJob {
    fn check(&self) -> Result<(), MediaError> {
        let job = |why: String| Err(MediaError::Job(why));
        if self.block_bytes == 0 || self.block_bytes % LINE_BYTES != 0 || self.block_bytes > 1 << 20
        {
            return job(format!(
                "block_bytes = {}: give a multiple of 64 up to 1 MiB",
                self.block_bytes
            ));
        }
        if self.read_percent > 100 {
            return job(format!(
                "read_percent = {}: give 0 to 100",
                self.read_percent
            ));
        }
        if !(1..=4096).contains(&self.in_flight) {
            return job(format!("in_flight = {}: give 1 to 4096", self.in_flight));
        }
        let span = self.span_lines.unwrap_or(self.lines);
        if span > self.lines || span * LINE_BYTES < self.block_bytes {
            return job(format!(
                "span_lines = {span}: give a block at least, and at most lines"
            ));
        }
        if self.requests == 0 {
            return job("requests = 0: give at least 1".to_owned());
        }
        Ok(())
    }

    pub(super) fn run(&self) -> Result<Value, MediaError> {
        self.check()?;
        let mut memory = self.memory.build(self.lines)?;
        let seen = self.drive(memory.as_mut());
        #[expect(clippy::cast_precision_loss, reason = "shown to people")]
        let bytes = (self.requests * self.block_bytes) as f64;
        Ok(json!({
            "time_ns": seen.time.ns(),
            "bandwidth_bytes_per_ns": bytes / seen.time.ns(),
            "read_mean_ns": seen.reads.mean_ns(),
            "read_min_ns": if seen.reads.count == 0 { 0.0 } else { seen.reads.min.ns() },
            "read_max_ns": seen.reads.max.ns(),
            "write_mean_ns": seen.writes.mean_ns(),
            "write_min_ns": if seen.writes.count == 0 { 0.0 } else { seen.writes.min.ns() },
            "write_max_ns": seen.writes.max.ns(),
            "reads": seen.reads.count,
            "writes": seen.writes.count,
            "memory": figures(memory.as_ref(), seen.time),
        }))
    }

    /// Keep `in_flight` requests under way: a new one starts when the oldest ends.
    pub fn drive(&self, memory: &mut dyn Memory) -> Seen {
        let block_lines = self.block_bytes / LINE_BYTES;
        let blocks = self.span_lines.unwrap_or(self.lines) / block_lines;
        let mut state = self.seed;
        let mut slots = vec![Ps::ZERO; self.in_flight];
        let mut seen = Seen::default();
        let (mut now, mut began) = (Ps::ZERO, Ps::ZERO);
        for number in 0..2 * self.requests {
            if number == self.requests {
                seen = Seen::default();
                began = now;
            }
            let slot = usize::try_from(number).unwrap_or(0) % self.in_flight;
            now = now.max(slots[slot]);
            let dice = random(&mut state);
            let block = match self.pattern {
                Pattern::Random => dice % blocks,
                Pattern::Sequential => number % blocks,
            };
            let read = (dice >> 40) % 100 < self.read_percent;
            let mut end = now;
            for line in block * block_lines..(block + 1) * block_lines {
                let done = if read {
                    memory.read(now, LineAddr(line))
                } else {
                    memory.write(now, LineAddr(line))
                };
                end = end.max(done);
            }
            slots[slot] = end;
            let side = if read {
                &mut seen.reads
            } else {
                &mut seen.writes
            };
            side.add(end - now);
        }
        seen.time = now - began;
        seen
    }
}
