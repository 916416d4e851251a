// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A core's data cache, which turns the addresses of a program into the requests
//! of a trace: write-back, write-allocate, least recently used.

use crate::trace::{Kind, Request, Trace};
use crate::units::{LINE_BYTES, LineAddr};

const NONE: u64 = u64::MAX;

/// Hits and misses of a kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rate {
    /// Accesses.
    pub count: u64,
    /// Those that the cache had.
    pub hits: u64,
}

impl Rate {
    /// The share of hits, 1 when there was no access.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "shown to people")]
    pub fn share(&self) -> f64 {
        if self.count == 0 {
            1.0
        } else {
            self.hits as f64 / self.count as f64
        }
    }
}

#[derive(Clone, Debug)]
struct Cache {
    tags: Vec<(u64, u64, bool)>,
    ways: usize,
    clock: u64,
    gap: u64,
}

/// Caches of all cores, and the trace of what leaves them.
#[derive(Debug)]
pub struct Tracer {
    caches: Vec<Cache>,
    trace: Trace,
    /// Of loads.
    pub loads: Rate,
    /// Of stores.
    pub stores: Rate,
}

impl Tracer {
    /// Cold caches.
    #[must_use]
    pub fn new(cpus: u32, cache_bytes: u64, ways: u64, lines: u64) -> Self {
        let size = |n: u64| usize::try_from(n).expect("a cache of at most 1 GiB");
        let cache = Cache {
            tags: vec![(NONE, 0, false); size(cache_bytes / LINE_BYTES)],
            ways: size(ways),
            clock: 0,
            gap: 0,
        };
        Self {
            caches: vec![cache; cpus as usize],
            trace: Trace::new(lines, cpus),
            loads: Rate::default(),
            stores: Rate::default(),
        }
    }

    /// Instructions that access no memory.
    #[inline]
    pub fn work(&mut self, cpu: u32, instructions: u64) {
        self.caches[cpu as usize].gap += instructions;
    }

    /// A load of up to a line, which it does not cross.
    #[inline]
    pub fn load(&mut self, cpu: u32, address: u64) {
        let hit = self.access(cpu, address / LINE_BYTES, false);
        self.loads.count += 1;
        self.loads.hits += u64::from(hit);
    }

    /// A store of up to a line, which it does not cross.
    #[inline]
    pub fn store(&mut self, cpu: u32, address: u64) {
        let hit = self.access(cpu, address / LINE_BYTES, true);
        self.stores.count += 1;
        self.stores.hits += u64::from(hit);
    }

    fn access(&mut self, cpu: u32, line: u64, write: bool) -> bool {
        let cache = &mut self.caches[cpu as usize];
        cache.clock += 1;
        cache.gap += 1;
        let sets = cache.tags.len() / cache.ways;
        #[expect(clippy::cast_possible_truncation, reason = "a remainder of usize")]
        let first = (line % sets as u64) as usize * cache.ways;
        let set = &mut cache.tags[first..first + cache.ways];
        if let Some(entry) = set.iter_mut().find(|entry| entry.0 == line) {
            entry.1 = cache.clock;
            entry.2 |= write;
            return true;
        }
        let oldest = set
            .iter_mut()
            .min_by_key(|entry| entry.1)
            .expect("a set has a way");
        let old = std::mem::replace(oldest, (line, cache.clock, write));
        let gap = std::mem::take(&mut cache.gap);
        self.trace.push(Request {
            kind: Kind::Read,
            cpu,
            line: LineAddr(line),
            gap,
        });
        if old.0 != NONE && old.2 {
            self.trace.push(Request {
                kind: Kind::Write,
                cpu,
                line: LineAddr(old.0),
                gap: 0,
            });
        }
        false
    }

    /// The trace; dirty lines that are still in a cache are not written back.
    #[must_use]
    pub fn finish(self) -> Trace {
        self.trace
    }
}
