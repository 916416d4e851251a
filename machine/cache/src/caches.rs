// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Effects of instructions on lines, and the state after a cut.

use crate::array::Slot;
use crate::clock::Clock;
use crate::flight::Flights;
use crate::hierarchy::{Hierarchy, Served};
use crate::profile::{Domain, Profile, ps};
use crate::queue::Queue;
use crate::timing::{Access, Timing};
use crate::{Bytes, Cause, Core, Line, Memory};
use std::collections::BTreeMap;
use std::ops::Range;

/// Which flushes have an effect. All, except in negative tests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Honoured {
    /// All.
    #[default]
    All,
    /// Flushes of these lines; other lines are written by eviction only.
    Only(Range<Line>),
    /// None.
    Nothing,
}

impl Honoured {
    fn has(&self, line: Line) -> bool {
        match self {
            Self::All => true,
            Self::Only(range) => range.contains(&line),
            Self::Nothing => false,
        }
    }
}

/// Counts of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are clear")]
pub struct Counters {
    /// Of all cores; those that go past the caches are in neither.
    pub loads: u64,
    pub stores: u64,
    pub first_level_misses: u64,
    /// Of them those of stores.
    pub store_misses: u64,
    /// Lines of instructions that were fetched, without such as were fetched just before; not among
    /// the loads.
    pub fetches: u64,
    pub fetch_misses: u64,
    pub memory_reads: u64,
    pub write_backs: u64,
    pub evictions: u64,
    pub swept: u64,
    /// Lines that a flush wrote although no recorded store had changed them.
    pub unseen: u64,
}

/// The caches of one machine. See the crate's description.
#[derive(Debug)]
pub struct Caches<M, T> {
    /// The two memories.
    pub memory: M,
    /// The memory controller.
    pub timing: T,
    /// Which flushes have an effect.
    pub honoured: Honoured,
    /// Lines whose flush was not [`Self::honoured`], since this list was last emptied.
    pub refused: Vec<Line>,
    profile: Profile,
    hierarchy: Hierarchy,
    flights: Flights,
    queue: Queue,
    waited_ps: Vec<u64>,
    /// Loads and stores of each core.
    loads: Vec<u64>,
    stores: Vec<u64>,
    clock: Clock,
    sweep_at: Line,
    lines: u32,
    counters: Counters,
    latency_ps: [u64; 3],
    /// Changes without a recorded store that were found: the content, and the cores that may hold it.
    unseen: BTreeMap<Line, (Bytes, u64)>,
    /// Cores that may change memory: until [`Self::power_fails`] all, then those that have not
    /// written their caches back.
    active: u64,
    power_fails: bool,
}

impl<M: Memory, T: Timing> Caches<M, T> {
    /// Empty caches of `cores` cores over `lines` lines.
    ///
    /// # Panics
    /// `cores` is 0 or more than the profile allows.
    pub fn new(profile: Profile, cores: usize, lines: u32, memory: M, timing: T) -> Self {
        assert!(
            (1..=profile.cores_max).contains(&cores),
            "{cores} cores: {} has 1 to {}",
            profile.name,
            profile.cores_max
        );
        let latency = |level: Option<crate::Geometry>| ps(level.map_or(0.0, |l| l.latency_ns));
        Self {
            memory,
            timing,
            honoured: Honoured::All,
            refused: Vec::new(),
            hierarchy: Hierarchy::new(&profile, cores, lines),
            flights: Flights::new(cores, lines, profile.fill_buffers),
            queue: Queue::new(profile.queue_lines),
            waited_ps: vec![0; cores],
            loads: vec![0; cores],
            stores: vec![0; cores],
            clock: Clock::new(cores),
            sweep_at: Line(0),
            lines,
            counters: Counters::default(),
            latency_ps: [
                latency(Some(profile.l1)),
                latency(profile.l2),
                latency(profile.llc),
            ],
            unseen: BTreeMap::new(),
            active: u64::MAX >> (u64::BITS as usize - cores),
            power_fails: false,
            profile,
        }
    }

    /// The machine modelled.
    pub const fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Counts of events so far.
    pub fn counters(&self) -> Counters {
        Counters {
            loads: self.loads.iter().sum(),
            stores: self.stores.iter().sum(),
            ..self.counters
        }
    }

    /// Has a core wait for something other than memory.
    pub fn wait(&mut self, core: Core, wait_ps: u64) {
        self.waited_ps[core.0] += wait_ps;
    }

    /// Time that a core has waited for memory so far. Its clock is this plus its instructions.
    pub fn waited_ps(&self, core: Core) -> u64 {
        self.waited_ps[core.0]
    }

    /// What time alone does, up to now: the memory controller writes lines that it has accepted. The
    /// caller says it before it looks at media, and before each event whose order matters.
    pub fn advance(&mut self) {
        if !self.queue.is_empty() {
            self.look();
        }
    }

    /// The machine's time. What the controller had to write until then is on media.
    fn look(&mut self) -> u64 {
        let executed_ps = |core| self.timing.executed_ps(Core(core));
        let clocks_ps = self.waited_ps.iter().enumerate();
        let clocks_ps = clocks_ps.map(|(core, waited_ps)| executed_ps(core) + waited_ps);
        let now_ps = self.clock.look(clocks_ps);
        self.write_queued(now_ps);
        now_ps
    }

    fn write_queued(&mut self, until_ps: u64) {
        while let Some(oldest) = self.queue.take_written(until_ps) {
            self.memory.write(oldest.line, &oldest.bytes, oldest.cause);
        }
    }

    /// A store to a line that is still in `slot`, dirty; if false, call [`Self::store`].
    #[inline]
    pub fn store_again(&mut self, core: Core, slot: Slot, line: Line) -> bool {
        let again = self.hierarchy.store_again(core, slot, line);
        self.stores[core.0] += u64::from(again);
        again
    }

    /// A load from a line that is still in `slot`; if false, call [`Self::load`].
    #[inline]
    pub fn load_again(&mut self, core: Core, slot: Slot, line: Line) -> bool {
        let again = self.hierarchy.load_again(core, slot, line);
        self.loads[core.0] += u64::from(again);
        again
    }

    /// A store that goes through the caches.
    pub fn store(&mut self, core: Core, line: Line) -> Slot {
        let (slot, served) = self.hierarchy.store(core, line);
        self.stores[core.0] += 1;
        self.account(core, line, served, Some(self.stores[core.0]));
        slot
    }

    /// A load.
    pub fn load(&mut self, core: Core, line: Line) -> Slot {
        let (slot, served) = self.hierarchy.load(core, line);
        self.loads[core.0] += 1;
        self.account(core, line, served, None);
        slot
    }

    /// A line of instructions is executed. No instruction begins before it is there: cores out of
    /// order wait like others, as they have nothing to go on with.
    pub fn fetch(&mut self, core: Core, line: Line) -> Slot {
        self.counters.fetches += 1;
        let (slot, served) = self.hierarchy.fetch(core, line);
        if served == Served::First {
            return slot;
        }
        let wait_ps = match self.level_ps(served) {
            Some(level_ps) => level_ps,
            None => self.timing.read_ps(core, line),
        };
        self.counters.fetch_misses += 1;
        self.waited_ps[core.0] += wait_ps;
        self.write_evicted(core);
        slot
    }

    /// The same of a line that is still in `slot`; if false, call [`Self::fetch`].
    #[inline]
    pub fn fetch_again(&mut self, core: Core, slot: Slot, line: Line) -> bool {
        let again = self.hierarchy.fetch_again(core, slot, line);
        self.counters.fetches += u64::from(again);
        again
    }

    /// What the level takes; none: memory, whose reads are counted.
    fn level_ps(&mut self, served: Served) -> Option<u64> {
        match served {
            Served::First => Some(self.latency_ps[0]),
            Served::Second => Some(self.latency_ps[1]),
            Served::Shared => Some(self.latency_ps[2]),
            Served::Memory => {
                self.counters.memory_reads += 1;
                None
            }
        }
    }

    fn account(&mut self, core: Core, line: Line, served: Served, store: Option<u64>) {
        let access = Access {
            line,
            level_ps: self.level_ps(served),
            store,
        };
        let wait_ps = match served {
            Served::First => self.latency_ps[0],
            _ => self.timing.access_ps(core, access),
        };
        let missed = served != Served::First;
        self.counters.first_level_misses += u64::from(missed);
        self.counters.store_misses += u64::from(missed && store.is_some());
        self.waited_ps[core.0] += wait_ps;
        self.write_evicted(core);
    }

    fn write_evicted(&mut self, core: Core) {
        while let Some(line) = self.hierarchy.evicted.pop() {
            self.counters.evictions += 1;
            self.write_back(core, line, Cause::Eviction);
            self.waited_ps[core.0] += self.timing.stall_ps(core);
        }
    }

    /// Writes the line with its current content; returns how long the controller was busy.
    fn write_back(&mut self, core: Core, line: Line, cause: Cause) -> u64 {
        let bytes = self.memory.coherent(line);
        self.flights.forget(line);
        self.put(core, line, bytes, cause)
    }

    fn put(&mut self, core: Core, line: Line, bytes: Bytes, cause: Cause) -> u64 {
        self.put_in(core, line, bytes, cause, 0)
    }

    /// The same by a core that takes so long for it: what the controller takes is in that time, if
    /// it is no longer.
    fn put_in(&mut self, core: Core, line: Line, bytes: Bytes, cause: Cause, least_ps: u64) -> u64 {
        self.counters.write_backs += 1;
        // The same content without a recorded store, later, may be in any cache again.
        self.unseen.remove(&line);
        let busy_ps = self.timing.write_ps(core, line);
        self.waited_ps[core.0] += least_ps.saturating_sub(busy_ps);
        if self.profile.domain != Domain::None {
            self.memory.write(line, &bytes, cause);
            return busy_ps;
        }
        let mut now_ps = self.look();
        if let Some(room_ps) = self.queue.room_at_ps() {
            self.wait(core, room_ps - now_ps);
            now_ps = self.look();
        }
        self.memory.accepted(line, &bytes, cause);
        self.queue
            .accept(line, bytes, cause, now_ps + busy_ps, busy_ps);
        busy_ps
    }

    /// A store that bypasses the caches: in flight until a fence, and removed from every cache.
    pub fn nt_store(&mut self, core: Core, line: Line) {
        self.hierarchy.drop_line(line);
        self.send(core, line, Cause::NtStore);
    }

    fn send(&mut self, core: Core, line: Line, cause: Cause) {
        let bytes = self.memory.coherent(line);
        let landed = self.flights.send(core, line, bytes, cause);
        if let Some(landed) = landed {
            self.put(core, landed.line, landed.bytes, landed.cause);
        }
    }

    /// Takes the line for a flush; returns whether it has to be written.
    fn take(&mut self, line: Line, keep: bool) -> bool {
        let dirty = if keep {
            self.hierarchy.clean_line(line)
        } else {
            self.hierarchy.drop_line(line)
        };
        let unseen = !dirty && self.is_unseen(line);
        self.counters.unseen += u64::from(unseen);
        dirty || unseen
    }

    /// Whether a flush of the line has an effect; if not, the line is added to `refused`.
    fn honours(&mut self, line: Line) -> bool {
        let honoured = self.honoured.has(line);
        if !honoured && self.memory.differs(line) {
            self.refused.push(line);
        }
        honoured
    }

    /// CLFLUSH: in order with stores, so the line is in the persistence domain when it completes.
    pub fn clflush(&mut self, core: Core, line: Line) {
        if !self.honours(line) {
            return;
        }
        let flush_ps = ps(self.profile.flush_ns);
        if self.take(line, false) || self.flights.holds(line) {
            let bytes = self.memory.coherent(line);
            self.flights.forget(line);
            self.waited_ps[core.0] += self.put_in(core, line, bytes, Cause::Clflush, flush_ps);
            self.waited_ps[core.0] += self.timing.flush_ps(core);
        } else {
            self.waited_ps[core.0] += flush_ps;
        }
    }

    /// CLFLUSHOPT: in flight until a fence.
    pub fn clflushopt(&mut self, core: Core, line: Line) {
        if self.honours(line) && self.take(line, false) {
            self.send(core, line, Cause::Clflushopt);
        }
    }

    /// CLWB: in flight until a fence; the line stays in the cache, clean.
    pub fn clwb(&mut self, core: Core, line: Line) {
        if self.honours(line) && self.take(line, true) {
            self.send(core, line, Cause::Clwb);
        }
    }

    /// SFENCE, MFENCE or a locked instruction: all lines in flight from this core have arrived.
    pub fn fence(&mut self, core: Core) {
        let mut waits = false;
        while let Some(landed) = self.flights.next(core) {
            self.waited_ps[core.0] += self.put(core, landed.line, landed.bytes, landed.cause);
            waits = true;
        }
        if waits {
            self.waited_ps[core.0] += self.timing.flush_ps(core);
        }
        self.waited_ps[core.0] += self.timing.drain_ps(core);
    }

    /// WBINVD: the core's private caches and the last level are written back and emptied. It takes as
    /// long as walking them, or as writing, whichever is longer.
    pub fn wbinvd(&mut self, core: Core) {
        self.wbinvd_within(core, u64::MAX);
    }

    /// WBINVD with power for `limit_ps` only; returns false if power ended before all was written.
    pub fn wbinvd_within(&mut self, core: Core, limit_ps: u64) -> bool {
        let whole = self.write_all(core, Cause::Wbinvd, limit_ps);
        if whole && self.honoured == Honoured::All {
            self.hierarchy.empty(core);
        }
        if whole && self.power_fails {
            self.active &= !(1 << core.0);
        }
        whole
    }

    /// From now on a core that has written its caches back changes memory by stores only.
    pub fn power_fails(&mut self) {
        self.active = u64::MAX >> (u64::BITS as usize - self.waited_ps.len());
        self.power_fails = true;
    }

    /// WBNOINVD: like WBINVD, but the lines stay, clean.
    pub fn wbnoinvd(&mut self, core: Core) {
        self.write_all(core, Cause::Wbnoinvd, u64::MAX);
    }

    /// Lines that a WBINVD of this core has to write, in order.
    fn due(&mut self, core: Core) -> Vec<Line> {
        let mut due = self.hierarchy.dirty_of(core);
        let mut from = Line(0);
        while let Some(line) = self.next_unseen(from, Line(self.lines)) {
            from = Line(line.0 + 1);
            if self.leaves_last(core, line) {
                due.push(line);
            }
        }
        due.sort_unstable();
        due.dedup();
        due
    }

    /// A core writes its caches back; nobody has seen who changed this line. Returns whether no other
    /// core can hold it.
    fn leaves_last(&mut self, core: Core, line: Line) -> bool {
        let bytes = self.memory.coherent(line);
        let fresh = (bytes, self.active | (1 << core.0));
        let found = self.unseen.entry(line).or_insert(fresh);
        if found.0 != bytes {
            *found = fresh;
        }
        if self.honoured.has(line) {
            found.1 &= !(1 << core.0);
        }
        let last = found.1 & !(1 << core.0) == 0;
        if last {
            self.unseen.remove(&line);
        }
        last
    }

    fn write_all(&mut self, core: Core, cause: Cause, limit_ps: u64) -> bool {
        self.fence(core);
        let capacity = self.hierarchy.capacity_of(core);
        let walk_ps = capacity * ps(self.profile.walk_ns);
        let due = self.due(core);
        let (mut busy_ps, mut passed_ps) = (0, 0);
        for (index, line) in (1..).zip(&due) {
            if !self.honours(*line) {
                continue;
            }
            let walked_ps = u128::from(walk_ps) * index / due.len() as u128;
            let begin_ps = busy_ps.max(u64::try_from(walked_ps).unwrap_or(u64::MAX));
            if begin_ps > limit_ps {
                self.wait(core, limit_ps - passed_ps);
                return false;
            }
            self.wait(core, begin_ps - passed_ps);
            passed_ps = begin_ps;
            self.counters.unseen += u64::from(!self.hierarchy.clean_line(*line));
            let line_ps = self.write_back(core, *line, cause);
            // Of lines that nobody has seen change, more cannot have been in these caches.
            if index <= u128::from(capacity) {
                busy_ps += line_ps;
            }
        }
        if !due.is_empty() {
            busy_ps += self.timing.flush_ps(core);
        }
        let whole_ps = walk_ps.max(busy_ps);
        self.wait(core, whole_ps.min(limit_ps) - passed_ps);
        whole_ps <= limit_ps
    }

    /// Whether a line differs from what media has or will have, and neither a cache nor a flight
    /// explains it.
    fn is_unseen(&self, line: Line) -> bool {
        if self.hierarchy.is_dirty(line) || self.flights.holds(line) {
            return false;
        }
        match self.queue.newest(line) {
            Some(bytes) => *bytes != self.memory.coherent(line),
            None => self.memory.differs(line),
        }
    }

    /// The first line in `from..end` that changed without a recorded store.
    fn next_unseen(&self, mut from: Line, end: Line) -> Option<Line> {
        while let Some(line) = self.memory.next_difference(from, end) {
            if self.is_unseen(line) {
                return Some(line);
            }
            from = Line(line.0 + 1);
        }
        None
    }

    /// INVD: the core's private caches and the last level are emptied without a write-back, so
    /// their lines revert to media. Returns the number of lines that changed.
    pub fn invd(&mut self, core: Core) -> u64 {
        self.write_queued(u64::MAX);
        for line in self.hierarchy.dirty_of(core) {
            self.hierarchy.clean_line(line);
        }
        self.hierarchy.empty(core);
        let mut lost = 0;
        let mut from = Line(0);
        while let Some(line) = self.next_unseen(from, Line(self.lines)) {
            from = Line(line.0 + 1);
            self.memory.revert(line);
            lost += 1;
        }
        lost
    }

    /// Checks the next `lines` lines for changes without a recorded store and writes them: a real
    /// cache would evict them eventually.
    pub fn sweep(&mut self, core: Core, lines: u32) {
        let begin = self.sweep_at;
        let end = Line(begin.0.saturating_add(lines).min(self.lines));
        let mut from = begin;
        while let Some(line) = self.next_unseen(from, end) {
            from = Line(line.0 + 1);
            self.counters.swept += 1;
            self.write_back(core, line, Cause::Sweep);
        }
        self.sweep_at = if end.0 == self.lines { Line(0) } else { end };
    }

    /// Media is as a cut now leaves it: the persistence domain has written what it covers. What the
    /// controller's queue still has is lost, unless power returns and the machine goes on.
    pub fn power_cut(&mut self) {
        self.advance();
        if self.profile.domain != Domain::Eadr {
            return;
        }
        let mut from = Line(0);
        while let Some(line) = self.memory.next_difference(from, Line(self.lines)) {
            from = Line(line.0 + 1);
            self.write_back(Core(0), line, Cause::Domain);
        }
    }

    /// Lines that stores made dirty and that are not written back, in order.
    pub fn dirty_lines(&self) -> Vec<Line> {
        self.hierarchy.dirty_of_all()
    }

    /// Whether this core's private caches hold the line dirty.
    pub fn is_dirty_in(&self, core: Core, line: Line) -> bool {
        self.hierarchy.is_dirty_in(core, line)
    }

    #[cfg(test)]
    pub(crate) fn check(&self) {
        self.hierarchy.check(self.lines);
    }
}
