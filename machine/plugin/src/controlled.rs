// SPDX-License-Identifier: GPL-2.0-or-later
//! A memory controller of `models/memory` behind the caches: what a core waits for it.
//!
//! Controllers take requests at moments that never decrease. vCPUs run in turns, so one's time may
//! be behind another's by a window of guest time: such a request is made at the moment of the last
//! one, and takes as long as it takes from there.

use crate::control::MemoryRecord;
use ocpmem::build::MemoryJob;
use ocpmem::error::MediaError;
use ocpmem::memory::{Counts, Memory};
use ocpmem::stats::Energy;
use ocpmem::units::{LineAddr, Ps};
use ocpmem::window::{Fetch, Moment, Source, Window, WindowPart};
use remanence_cache::{Access, Core, Line};
use serde_json::{Map, Value};
use std::str::FromStr;
use std::sync::atomic::Ordering::{Relaxed, Release};

/// Requests of one core.
#[derive(Clone, Debug, Default)]
struct Port {
    /// When the core makes its next request.
    at: Ps,
    /// When it made its last write.
    begun: Ps,
    /// Until when each write-back that nobody waits for is on its way.
    on_way: Vec<Ps>,
    /// What the shortest of them took.
    shortest: Option<Ps>,
    /// Its instructions at `at`, and its stores.
    instructions: u64,
    stores: u64,
}

impl Port {
    const fn now(&self) -> Moment {
        Moment {
            at: self.at,
            instructions: self.instructions,
            stores: self.stores,
        }
    }

    /// A line is to be written that memory would accept so late if it were sent at once; when it is
    /// sent. From then it takes no less than the shortest has taken, as memory may have been busy
    /// with what is before it.
    fn send(&mut self, begun: Ps, accepted: Ps, places: usize) -> Ps {
        self.on_way.retain(|until| *until > begun);
        self.on_way.sort_unstable();
        let sent = match self.on_way.len().checked_sub(places) {
            Some(index) => self.on_way[index],
            None => begun,
        };
        let took = accepted - begun;
        let shortest = self.shortest.map_or(took, |least| least.min(took));
        self.shortest = Some(shortest);
        self.on_way.push(accepted.max(sent + shortest));
        sent
    }
}

/// The memory that has lines from one on.
#[derive(Debug)]
struct Further {
    first: u64,
    memory: Box<dyn Memory>,
}

/// The memory, DRAM beside it if there is any, and the moment of the last request.
#[derive(Debug)]
struct Served {
    memory: Box<dyn Memory>,
    dram: Option<Further>,
    last: Ps,
}

impl Served {
    fn moment(&mut self, at: Ps) -> Ps {
        self.last = self.last.max(at);
        self.last
    }

    /// The memory that has the line, and which of its lines that is.
    fn of(&mut self, line: LineAddr) -> (&mut dyn Memory, LineAddr) {
        match &mut self.dram {
            Some(dram) if line.0 >= dram.first => {
                (dram.memory.as_mut(), LineAddr(line.0 - dram.first))
            }
            _ => (self.memory.as_mut(), line),
        }
    }

    fn read(&mut self, at: Ps, line: LineAddr) -> Ps {
        let (memory, line) = self.of(line);
        memory.read(at, line)
    }

    fn write(&mut self, at: Ps, line: LineAddr) -> Ps {
        let (memory, line) = self.of(line);
        memory.write(at, line)
    }

    fn all(&self) -> impl Iterator<Item = &dyn Memory> {
        let dram = self.dram.as_ref().map(|dram| dram.memory.as_ref());
        std::iter::once(self.memory.as_ref()).chain(dram)
    }

    /// What all memories have counted or used, of one thing.
    fn sum(&self, of: impl Fn(&dyn Memory) -> u64) -> u64 {
        self.all().map(of).sum()
    }
}

impl Fetch for Served {
    /// A line takes as long as from the moment at which it is really asked for.
    fn fetch(&mut self, at: Ps, from: Source) -> Ps {
        match from {
            Source::Level(level) => at + level,
            Source::Memory(line) => {
                let asked = self.moment(at);
                at + (self.read(asked, line) - asked)
            }
        }
    }
}

/// The controller, and a port of each core.
#[derive(Debug)]
pub(crate) struct Controlled {
    served: Served,
    ports: Vec<Port>,
    /// Of each core, where they are out of order.
    windows: Vec<Window>,
    /// Write-backs of one core that are on their way at most.
    places: usize,
}

impl Controlled {
    /// The controller of this name, with settings as `memory_job` takes them, over so many lines;
    /// its cores are in order if `core` is none.
    pub(crate) fn new(
        name: &str,
        lines: u32,
        cores: usize,
        places: usize,
        core: Option<WindowPart>,
    ) -> Result<Self, String> {
        let memory = memory_job(name)
            .and_then(|job| job.build(lines.into()))
            .map_err(|error| format!("controller={name}: {error}"))?;
        Ok(Self {
            served: Served {
                memory,
                dram: None,
                last: Ps::ZERO,
            },
            ports: vec![Port::default(); cores],
            windows: core.map_or_else(Vec::new, |part| vec![Window::new(part); cores]),
            places,
        })
    }

    /// Lines from this one on, so many, are of DRAM with a controller of its own.
    pub(crate) fn add_dram(&mut self, name: &str, first: u32, lines: u32) -> Result<(), String> {
        let memory = memory_job(name)
            .and_then(|job| job.build(lines.into()))
            .map_err(|error| format!("dramcontroller={name}: {error}"))?;
        self.served.dram = Some(Further {
            first: first.into(),
            memory,
        });
        Ok(())
    }

    /// The core's next requests are made at this moment of its own time, and after so many
    /// instructions.
    #[inline]
    pub(crate) fn set_time(&mut self, core: Core, own_ps: u64, instructions: u64) {
        let port = &mut self.ports[core.0];
        (port.at, port.instructions) = (Ps(own_ps), instructions);
    }

    fn moment(&mut self, core: Core) -> Ps {
        self.served.moment(self.ports[core.0].at)
    }

    /// Whether a core waits for each line that it asks for.
    pub(crate) fn is_in_order(&self) -> bool {
        self.windows.is_empty()
    }

    /// How long the window of a core out of order stops for an access. Write-backs that the access
    /// causes come after that.
    pub(crate) fn access_ps(&mut self, core: Core, access: Access) -> u64 {
        let from = match access.level_ps {
            Some(level_ps) => Source::Level(Ps(level_ps)),
            None => Source::Memory(LineAddr(access.line.0.into())),
        };
        let port = &mut self.ports[core.0];
        port.stores = access.store.unwrap_or(port.stores);
        let (now, window) = (port.now(), &mut self.windows[core.0]);
        let wait = match access.store {
            Some(_) => window.store(now, from, &mut self.served),
            None => window.load(now, from, &mut self.served),
        };
        port.at = port.at + wait;
        wait.0
    }

    /// How long a core waits until its accesses are done.
    pub(crate) fn drain_ps(&mut self, core: Core) -> u64 {
        let port = &mut self.ports[core.0];
        let Some(window) = self.windows.get_mut(core.0) else {
            return 0;
        };
        let wait = window.drain(port.now(), &mut self.served);
        port.at = port.at + wait;
        wait.0
    }

    pub(crate) fn read_ps(&mut self, core: Core, line: Line) -> u64 {
        let at = self.moment(core);
        (self.served.read(at, LineAddr(line.0.into())) - at).0
    }

    /// The core's next request comes after this one, as where it waits for each.
    pub(crate) fn write_ps(&mut self, core: Core, line: Line) -> u64 {
        let at = self.moment(core);
        let accepted = self.served.write(at, LineAddr(line.0.into()));
        let port = &mut self.ports[core.0];
        (port.begun, port.at) = (at, accepted);
        (accepted - at).0
    }

    /// The core does not wait for its last write, unless too many are on their way: then one in
    /// order does until there is a place. One out of order goes on, but the miss that has evicted the
    /// line keeps its own place until then.
    pub(crate) fn stall_ps(&mut self, core: Core) -> u64 {
        let port = &mut self.ports[core.0];
        let (begun, accepted) = (port.begun, port.at);
        let sent = port.send(begun, accepted, self.places);
        let Some(window) = self.windows.get_mut(core.0) else {
            port.at = sent;
            return (sent - begun).0;
        };
        port.at = begun;
        window.hold(sent);
        0
    }

    /// Fills the counters.
    pub(crate) fn report(&self, to: &MemoryRecord, guest_ns: u64) {
        let served = &self.served;
        let counts = |of: fn(&Counts) -> u64| served.sum(|memory| of(memory.counts()));
        let energy = |of: fn(&Energy) -> u64| served.sum(|memory| of(&memory.energy(served.last)));
        let values = [
            (&to.guest_ns, guest_ns),
            (&to.reads, counts(|c| c.read.count)),
            (&to.writes, counts(|c| c.write.count)),
            (&to.read_ns, counts(|c| c.read.sum.0 / 1000)),
            (&to.write_ns, counts(|c| c.write.sum.0 / 1000)),
            (&to.row_reads, counts(|c| c.row_reads)),
            (&to.row_writes, counts(|c| c.row_writes)),
            (&to.rebuilt_reads, counts(|c| c.rebuilt_reads)),
            (&to.blocked_reads, counts(|c| c.blocked_reads)),
            (&to.array_writes, counts(|c| c.array_writes)),
            (&to.extra_writes, counts(|c| c.extra_writes)),
            (&to.background_pj, energy(|e| e.background_pj)),
            (&to.refresh_pj, energy(|e| e.refresh_pj)),
            (&to.activate_pj, energy(|e| e.activate_pj)),
            (&to.read_pj, energy(|e| e.read_pj)),
            (&to.write_pj, energy(|e| e.write_pj)),
        ];
        for (word, value) in values {
            word.store(value, Relaxed);
        }
        to.taken.store(1, Release);
    }

    pub(crate) fn flush_ps(&mut self, core: Core) -> u64 {
        let at = self.moment(core);
        let done = self.served.memory.persist(at);
        self.ports[core.0].at = done;
        (done - at).0
    }
}

/// A controller and its settings in one word, as `lightpc-b:order=module:program_ns=500`:
/// fields of a `MemoryJob`, and numbers of its part.
fn memory_job(word: &str) -> Result<MemoryJob, MediaError> {
    let mut parts = word.split(':');
    let mut job = Map::new();
    let mut change = Map::new();
    job.insert("controller".to_owned(), parts.next().unwrap_or("").into());
    for setting in parts {
        let (key, value) = setting
            .split_once('=')
            .ok_or_else(|| MediaError::Job(format!("{setting}: give NAME=VALUE")))?;
        let json = match (value, value.parse::<f64>()) {
            ("on" | "true", _) => true.into(),
            ("off" | "false", _) => false.into(),
            (_, Ok(number)) if key == "threshold_writes" => {
                job.insert(
                    key.to_owned(),
                    Value::from_str(value).unwrap_or_else(|_| number.into()),
                );
                continue;
            }
            (_, Ok(number)) => {
                change.insert(key.to_owned(), number.into());
                continue;
            }
            (text, Err(_)) => text.into(),
        };
        job.insert(key.to_owned(), json);
    }
    job.insert("change".to_owned(), change.into());
    serde_json::from_value(job.into()).map_err(|error| MediaError::Job(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ocpmem::psm::{Layout, Order};

    const LINES: u32 = 1 << 16;
    const CORE: Core = Core(0);

    fn controlled(name: &str, places: usize) -> Controlled {
        Controlled::new(name, LINES, 2, places, None).unwrap()
    }

    #[test]
    fn read_takes_what_the_controller_takes() {
        let mut it = controlled("lightpc", 4);
        let mut alone = MemoryJob::named("lightpc").build(LINES.into()).unwrap();
        for number in 0..100_u32 {
            let at = Ps(u64::from(number) * 1_000_000);
            let (line, address) = (Line(number * 97), LineAddr(u64::from(number) * 97));
            it.set_time(CORE, at.0, 0);
            assert_eq!(it.read_ps(CORE, line), (alone.read(at, address) - at).0);
        }
    }

    /// Lines of DRAM take what its controller takes, and are counted; those before do not change.
    #[test]
    fn lines_of_dram_are_asked_of_a_controller_of_their_own() {
        let mut it = controlled("bare-pram", 4);
        it.add_dram("dram", LINES, 1 << 12).unwrap();
        let mut pram = MemoryJob::named("bare-pram").build(LINES.into()).unwrap();
        let mut dram = MemoryJob::named("dram").build(1 << 12).unwrap();
        for number in 0..50_u32 {
            let at = Ps(u64::from(number) * 2_000_000);
            let address = LineAddr(u64::from(number) * 31);
            it.set_time(CORE, at.0, 0);
            let dram_ps = (dram.read(at, address) - at).0;
            assert_eq!(it.read_ps(CORE, Line(LINES + number * 31)), dram_ps);
            let later = Ps(at.0 + 1_000_000);
            it.set_time(CORE, later.0, 0);
            let pram_ps = (pram.write(later, address) - later).0;
            assert_eq!(it.write_ps(CORE, Line(number * 31)), pram_ps);
        }
        assert_eq!(it.served.sum(|memory| memory.counts().read.count), 50);
        assert_eq!(it.served.sum(|memory| memory.counts().write.count), 50);
        assert!(it.add_dram("tape", LINES, 1).is_err());
    }

    /// A core whose time is behind makes its request when the last one was made.
    #[test]
    fn moments_never_decrease() {
        let mut it = controlled("dram", 4);
        it.set_time(CORE, 5_000_000, 0);
        let first_ps = it.read_ps(CORE, Line(1));
        it.set_time(Core(1), 1_000, 0);
        let second_ps = it.read_ps(Core(1), Line(9000));
        assert!(first_ps > 0 && second_ps > 0 && second_ps < 1_000_000);
        assert_eq!(it.served.last, Ps(5_000_000));
    }

    #[test]
    fn core_waits_for_write_backs_only_where_its_queue_is_full() {
        let mut it = controlled("bare-pram", 2);
        it.set_time(CORE, 1_000, 0);
        let mut stalls = Vec::new();
        for number in 0..16 {
            it.write_ps(CORE, Line(number)); // of one device: it is busy for long
            stalls.push(it.stall_ps(CORE));
        }
        assert_eq!(stalls[..2], [0, 0]);
        assert!(stalls[2..].iter().any(|stall| *stall > 0), "{stalls:?}");
    }

    #[test]
    fn writes_that_a_core_waits_for_come_one_after_another() {
        let mut it = controlled("bare-pram", 2);
        it.set_time(CORE, 1_000, 0);
        let sum_ps: u64 = (0..8).map(|number| it.write_ps(CORE, Line(number))).sum();
        assert_eq!(it.ports[0].at, Ps(1_000 + sum_ps));
        it.flush_ps(CORE);
        assert!(it.ports[0].at > Ps(1_000 + sum_ps));
    }

    /// Goal: where accepted lines are durable (Optane, with ADR) a fence after them does not wait for
    /// media; OC-PMEM's flush port it waits for. Red if a fence asks `Memory::flush`.
    #[test]
    fn fence_waits_for_media_only_where_accepted_lines_are_volatile() {
        for (name, waits) in [("optane", false), ("dram", false), ("lightpc", true)] {
            let mut it = controlled(name, 4);
            it.set_time(CORE, 1_000, 0);
            for number in 0..64 {
                it.write_ps(CORE, Line(number * 64));
            }
            let wait_ps = it.flush_ps(CORE);
            assert_eq!(wait_ps > 0, waits, "{name}: {wait_ps}");
        }
    }

    const CORE_PART: WindowPart = WindowPart {
        window: 352,
        mshrs: 12,
        store_buffer: 72,
        instruction: Ps(100),
    };

    fn access(line: u32, store: Option<u64>) -> Access {
        Access {
            line: Line(line),
            level_ps: None,
            store,
        }
    }

    /// Goal: accesses of a core out of order overlap, and a fence waits for them; a core that is
    /// behind waits as long as it would.
    #[test]
    fn core_out_of_order_waits_only_where_its_window_stops() {
        let mut in_order = controlled("dram", 4);
        assert!(in_order.is_in_order());
        assert_eq!(in_order.drain_ps(CORE), 0);
        in_order.set_time(CORE, 1_000_000, 0);
        let alone_ps = in_order.read_ps(CORE, Line(0));
        let mut it = Controlled::new("dram", LINES, 2, 4, Some(CORE_PART)).unwrap();
        assert!(!it.is_in_order());
        it.set_time(CORE, 1_000_000, 10);
        assert_eq!(it.access_ps(CORE, access(0, None)), 0);
        assert_eq!(it.access_ps(CORE, access(1, Some(1))), 0);
        let level = Access {
            level_ps: Some(7000),
            ..access(2, None)
        };
        assert_eq!(it.access_ps(CORE, level), 0);
        let fence_ps = it.drain_ps(CORE);
        assert!((alone_ps..2 * alone_ps).contains(&fence_ps), "{fence_ps}");
        assert_eq!(it.drain_ps(CORE), 0);
        it.set_time(Core(1), 1_000, 10);
        it.access_ps(Core(1), access(9000, None));
        let behind_ps = it.drain_ps(Core(1));
        assert!(behind_ps > 0 && behind_ps < 3 * alone_ps, "{behind_ps}");
    }

    /// Goal: with one line on its way at most, the next one that is evicted waits, and its miss keeps
    /// its place: the core goes on until it has no place for another.
    #[test]
    fn line_that_waits_for_the_one_before_keeps_the_place_of_its_miss() {
        let part = WindowPart {
            mshrs: 2,
            ..CORE_PART
        };
        let mut later_ps = Vec::new();
        for places in [1, 8] {
            let mut it = Controlled::new("bare-pram", LINES, 1, places, Some(part)).unwrap();
            it.set_time(CORE, 1_000, 10);
            let mut own_ps = 1_000;
            for number in 0..4 {
                it.set_time(CORE, own_ps, 10);
                own_ps += it.access_ps(CORE, access(number * 640, None));
                it.write_ps(CORE, Line(4000 + number * 640));
                assert_eq!(
                    it.stall_ps(CORE),
                    0,
                    "dispatch does not stop for that alone"
                );
            }
            later_ps.push(own_ps);
        }
        assert!(later_ps[0] > later_ps[1] + 100_000, "{later_ps:?}");
    }

    #[test]
    fn misses_of_a_core_out_of_order_are_bounded() {
        let mut it = Controlled::new("optane", LINES, 1, 4, Some(CORE_PART)).unwrap();
        let (mut own_ps, mut waits) = (1_000, Vec::new());
        for number in 0..13 {
            it.set_time(CORE, own_ps, 10);
            waits.push(it.access_ps(CORE, access(number * 640, None)));
            own_ps += waits.last().unwrap();
        }
        assert_eq!(waits[..12], [0; 12]);
        assert!(waits[12] > 100_000, "{waits:?}");
    }

    #[test]
    fn unknown_controller_is_refused_by_name() {
        let refused = Controlled::new("tape", LINES, 1, 4, None).unwrap_err();
        assert!(refused.starts_with("controller=tape: "), "{refused}");
        assert!(refused.contains("lightpc"), "{refused}");
    }

    #[test]
    fn words_have_mechanisms_layouts_and_numbers() {
        let word = "lightpc-b:order=module:layout=rank:xcc=off:threshold_writes=7:program_ns=500";
        let job = memory_job(word).unwrap();
        assert_eq!(job.controller, "lightpc-b");
        assert_eq!(
            (job.order, job.layout),
            (Some(Order::Module), Some(Layout::Rank))
        );
        assert_eq!((job.xcc, job.threshold_writes), (Some(false), Some(7)));
        assert_eq!(job.change["program_ns"].to_bits(), 500.0_f64.to_bits());
        assert_eq!(job.build(1 << 16).unwrap().lines(), 1 << 16);
        assert_eq!(memory_job("dram").unwrap().controller, "dram");
    }

    #[test]
    fn settings_that_are_none_are_refused() {
        for word in [
            "dram:",
            "dram:xcc",
            "lightpc:xcc=perhaps",
            "lightpc:order=first",
        ] {
            assert!(memory_job(word).is_err(), "{word}");
        }
        let job = memory_job("lightpc:no_such_ns=5").unwrap();
        job.build(1 << 16).unwrap_err();
    }
}
