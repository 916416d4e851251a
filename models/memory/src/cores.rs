// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Cores that replay a trace: each begins one instruction a cycle, waits when
//! its misses in flight are all under way (one: in order), and when its queue of
//! write-backs is full.
//!
//! Invariant: requests reach the memory in the order of time, since always the core
//! that is earliest goes next.

use crate::error::MediaError;
use crate::memory::Memory;
use crate::parts::Part;
use crate::stats::{Energy, on_pj};
use crate::trace::{Kind, Trace};
use crate::units::Ps;

/// Cores in flight at most, for tables of fixed size.
const IN_FLIGHT_MAX: u64 = 64;

/// The numbers of a part of kind `cores`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CoresPart {
    /// How many.
    pub cores: u64,
    /// One instruction.
    pub cycle: Ps,
    /// L1, of data.
    pub cache_bytes: u64,
    /// Its ways.
    pub cache_ways: u64,
    /// Reads that a core can have under way.
    pub misses_in_flight: u64,
    /// Write-backs that wait for the memory to take them.
    pub writes_in_flight: u64,
    /// Of one core that works.
    pub active_mw: f64,
    /// Of one that waits for memory.
    pub stalled_mw: f64,
    /// Of one that has ended.
    pub parked_mw: f64,
}

impl CoresPart {
    /// From its table.
    ///
    /// # Errors
    /// When it is no such part.
    pub fn from_part(part: &Part) -> Result<Self, MediaError> {
        let mut from = part.reader("cores")?;
        let clock_mhz = from.number("clock_mhz")?;
        let read = Self {
            cores: from.count("cores")?,
            cycle: Ps::from_ns(1000.0 / clock_mhz.max(1.0)),
            cache_bytes: from.power_of_two("cache_bytes")?,
            cache_ways: from.power_of_two("cache_ways")?,
            misses_in_flight: from.count("misses_in_flight")?,
            writes_in_flight: from.count("writes_in_flight")?,
            active_mw: from.number("active_mw")?,
            stalled_mw: from.number("stalled_mw")?,
            parked_mw: from.number("parked_mw")?,
        };
        from.finish()?;
        let geometry = |why: &str| Err(MediaError::Geometry(format!("part {}: {why}", part.name)));
        if !(1.0..=100_000.0).contains(&clock_mhz) {
            return geometry("clock_mhz: give 1 to 100000");
        }
        if read.cores > u64::from(crate::trace::CPUS_MAX) {
            return geometry("more than 64 cores");
        }
        if read.misses_in_flight > IN_FLIGHT_MAX || read.writes_in_flight > IN_FLIGHT_MAX {
            return geometry("more than 64 misses or writes in flight");
        }
        if read.cache_bytes / 64 < read.cache_ways || read.cache_bytes > 1 << 30 {
            return geometry("cache_bytes: less than one set, or more than 1 GiB");
        }
        Ok(read)
    }
}

/// What a replay took.
#[derive(Clone, Debug, Default)]
pub struct Replay {
    /// From the first instruction to the end of the last core.
    pub time: Ps,
    /// Of all cores together.
    pub active: Ps,
    /// Of all cores together.
    pub stalled: Ps,
    /// Of all cores together, after their last record.
    pub parked: Ps,
    /// Begun by all cores.
    pub instructions: u64,
    /// Requests that the memory was given.
    pub requests: u64,
}

impl Replay {
    /// Energy of the cores.
    #[must_use]
    pub fn energy(&self, part: &CoresPart) -> Energy {
        let active = on_pj(part.active_mw, self.active);
        let stalled = on_pj(part.stalled_mw, self.stalled);
        Energy {
            background_pj: active + stalled + on_pj(part.parked_mw, self.parked),
            ..Energy::default()
        }
    }
}

#[derive(Clone, Debug)]
struct Core {
    now: Ps,
    queue: Vec<usize>,
    next: usize,
    reads: Vec<Ps>,
    writes: Vec<Ps>,
    active: Ps,
}

impl Core {
    /// When there is room for one more, of those under way the first of which ends.
    fn room(under_way: &mut Vec<Ps>, limit: u64, at: Ps) -> Ps {
        under_way.retain(|end| *end > at);
        if (under_way.len() as u64) < limit {
            return at;
        }
        let first = under_way.iter().enumerate().min_by_key(|(_, end)| **end);
        let (index, end) = first.map_or((0, at), |(index, end)| (index, *end));
        under_way.swap_remove(index);
        end
    }

    /// When its next record reaches the memory.
    fn issue(&mut self, trace: &Trace, part: &CoresPart) -> Option<Ps> {
        let request = trace.get(*self.queue.get(self.next)?);
        let at = self.now + part.cycle.times(request.gap);
        Some(match request.kind {
            Kind::Read => Self::room(&mut self.reads.clone(), part.misses_in_flight, at),
            Kind::Write => Self::room(&mut self.writes.clone(), part.writes_in_flight, at),
            Kind::Flush => self.writes.iter().fold(at, |end, write| end.max(*write)),
            Kind::Idle => at,
        })
    }
}

/// Replay a trace.
///
/// # Errors
/// When it has more CPUs or lines than there are.
pub fn replay(
    trace: &Trace,
    part: &CoresPart,
    memory: &mut dyn Memory,
) -> Result<Replay, MediaError> {
    let name = || "replay".to_owned();
    if u64::from(trace.cpu_count) > part.cores {
        let why = format!("{} CPUs, the machine has {}", trace.cpu_count, part.cores);
        return Err(MediaError::Trace { name: name(), why });
    }
    if trace.lines > memory.lines() {
        let why = format!("{} lines, the memory has {}", trace.lines, memory.lines());
        return Err(MediaError::Trace { name: name(), why });
    }
    let mut cores = queues(trace);
    let mut issues: Vec<Option<Ps>> = cores
        .iter_mut()
        .map(|core| core.issue(trace, part))
        .collect();
    let mut done = Replay::default();
    loop {
        let earliest = issues
            .iter()
            .enumerate()
            .filter_map(|(index, at)| at.map(|at| (at, index)))
            .min();
        let Some((at, index)) = earliest else { break };
        let core = &mut cores[index];
        let request = trace.get(core.queue[core.next]);
        let work = part.cycle.times(request.gap);
        core.active = core.active + work;
        done.instructions += request.gap;
        done.requests += u64::from(request.kind != Kind::Idle);
        core.now = at;
        match request.kind {
            Kind::Read => {
                Core::room(&mut core.reads, part.misses_in_flight, at);
                core.reads.push(memory.read(at, request.line));
            }
            Kind::Write => {
                Core::room(&mut core.writes, part.writes_in_flight, at);
                core.writes.push(memory.write(at, request.line));
            }
            Kind::Flush => core.now = memory.persist(at),
            Kind::Idle => {}
        }
        core.next += 1;
        issues[index] = core.issue(trace, part);
    }
    for core in &mut cores {
        core.now = core
            .reads
            .iter()
            .chain(&core.writes)
            .fold(core.now, |end, it| end.max(*it));
        done.time = done.time.max(core.now);
    }
    for core in &cores {
        done.active = done.active + core.active;
        done.stalled = done.stalled + (core.now - core.active);
        done.parked = done.parked + (done.time - core.now);
    }
    let idle = part.cores - cores.len() as u64;
    done.parked = done.parked + done.time.times(idle);
    Ok(done)
}

fn queues(trace: &Trace) -> Vec<Core> {
    let core = Core {
        now: Ps::ZERO,
        queue: Vec::new(),
        next: 0,
        reads: Vec::new(),
        writes: Vec::new(),
        active: Ps::ZERO,
    };
    let mut cores = vec![core; trace.cpu_count as usize];
    for (index, request) in trace.iter().enumerate() {
        cores[request.cpu as usize].queue.push(index);
    }
    cores
}
