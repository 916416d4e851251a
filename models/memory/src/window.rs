// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An out-of-order core between two of its misses (interval model: Karkhanis and Smith, ISCA 2004;
//! Eyerman et al., TOCS 2009): instructions are dispatched at the core's width until a rule stops
//! them.
//!
//! Rules, each of which only takes time:
//! - *Window.* An instruction enters when the one `window` before it has retired. Loads retire in
//!   order, so one that is under way stops dispatch `window` instructions later.
//! - *Misses.* `mshrs` lines are under way at most; a load that finds no place stops dispatch.
//! - *Stores.* A store retires at once and waits in the store buffer for its line. Stores leave it
//!   in order, so all after a store that waits take a place, and a full buffer stops dispatch.
//! - *Write-backs.* A line that is evicted while no more may be on their way keeps the place of the
//!   miss that has evicted it.
//! - *Drain.* A fence or a locked instruction waits for all of them.
//!
//! What a caller cannot see are dependences: loads are taken to be independent of each other, which
//! bounds the time from below. A core in order, where each access waits for its line, bounds it from
//! above; that is this model with a window of 1, one MSHR and no store buffer.
//!
//! The caller tells at which moment and instruction an access comes. Nothing is done between
//! accesses: what the window has stopped since the last one is found at the next.

use crate::units::{LineAddr, Ps};
use std::collections::VecDeque;

/// The numbers of a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowPart {
    /// Instructions in flight (entries of the reorder buffer).
    pub window: u64,
    /// Lines under way (fill buffers of the first level).
    pub mshrs: usize,
    /// Entries of the store buffer.
    pub store_buffer: u64,
    /// From one instruction to the next where nothing stops them.
    pub instruction: Ps,
}

/// When an access comes: the core's own time, its instructions and its stores until then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// With all that it has waited.
    pub at: Ps,
    /// Dispatched.
    pub instructions: u64,
    /// Among them.
    pub stores: u64,
}

/// Where a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// In memory.
    Memory(LineAddr),
    /// In a lower level of the caches, which takes so long.
    Level(Ps),
}

/// Gets a line that is requested at a moment: when it is there.
pub trait Fetch {
    /// Moments of one core's requests to memory need not increase.
    fn fetch(&mut self, at: Ps, from: Source) -> Ps;
}

impl<F: FnMut(Ps, Source) -> Ps> Fetch for F {
    fn fetch(&mut self, at: Ps, from: Source) -> Ps {
        self(at, from)
    }
}

#[derive(Clone, Copy, Debug)]
struct Load {
    instruction: u64,
    done: Ps,
}

#[derive(Clone, Copy, Debug)]
struct Store {
    number: u64,
    from: Source,
    asked: Ps,
    done: Option<Ps>,
}

/// One core.
#[derive(Clone, Debug)]
pub struct Window {
    part: WindowPart,
    loads: VecDeque<Load>,
    stores: VecDeque<Store>,
    /// When each line that is under way is there.
    fills: Vec<Ps>,
}

impl Window {
    /// A core with nothing under way.
    #[must_use]
    pub fn new(part: WindowPart) -> Self {
        Self {
            part,
            loads: VecDeque::new(),
            stores: VecDeque::new(),
            fills: Vec::new(),
        }
    }

    /// A load that the first level does not have; for how long dispatch has stopped.
    pub fn load(&mut self, now: Moment, from: Source, memory: &mut dyn Fetch) -> Ps {
        let settled = self.settle(now, memory);
        let at = self.place(settled, memory);
        let done = self.ask(at, from, memory);
        self.loads.push_back(Load {
            instruction: now.instructions,
            done,
        });
        self.retire(now.instructions + 1, now.instructions, at) - now.at
    }

    /// A store whose line the first level does not have; for how long dispatch has stopped.
    pub fn store(&mut self, now: Moment, from: Source, memory: &mut dyn Fetch) -> Ps {
        let mut at = self.settle(now, memory);
        self.stores.push_back(Store {
            number: now.stores,
            from,
            asked: at,
            done: None,
        });
        self.ask_for_stores(at, memory);
        while let Some(first) = self.stores.front().copied() {
            if now.stores - first.number < self.part.store_buffer {
                break;
            }
            at = self.leave(first, at, memory);
        }
        at - now.at
    }

    /// All is done; for how long dispatch has stopped.
    pub fn drain(&mut self, now: Moment, memory: &mut dyn Fetch) -> Ps {
        let mut at = self.settle(now, memory);
        while let Some(first) = self.stores.front().copied() {
            at = self.leave(first, at, memory);
        }
        while let Some(load) = self.loads.pop_front() {
            at = at.max(load.done);
        }
        at - now.at
    }

    /// The last line that was asked for keeps its place until this moment, at least.
    pub fn hold(&mut self, until: Ps) {
        if let Some(last) = self.fills.last_mut() {
            *last = (*last).max(until);
        }
    }

    /// The oldest store leaves the buffer, at this moment or when its line is there.
    fn leave(&mut self, first: Store, at: Ps, memory: &mut dyn Fetch) -> Ps {
        let Some(done) = first.done else {
            let free = self.free_from(at);
            self.ask_for_stores(free, memory);
            return free;
        };
        self.stores.pop_front();
        at.max(done)
    }

    /// What happened until this moment; when it really is.
    fn settle(&mut self, now: Moment, memory: &mut dyn Fetch) -> Ps {
        let at = self.retire(now.instructions, now.instructions, now.at);
        self.ask_for_stores(at, memory);
        let left = |it: &Store| it.done.is_some_and(|done| done <= at);
        while self.stores.front().is_some_and(left) {
            self.stores.pop_front();
        }
        at
    }

    /// Loads retire in order until the instruction `next` can enter; `at` is when the instruction
    /// `last` has entered. Returns when it really has.
    fn retire(&mut self, next: u64, last: u64, mut at: Ps) -> Ps {
        while let Some(first) = self.loads.front() {
            if next - first.instruction >= self.part.window {
                // The window was full when so many fewer instructions had come.
                let fewer = last + 1 - first.instruction - self.part.window;
                let full = at.0.saturating_sub(self.part.instruction.times(fewer).0);
                at = at + Ps(first.done.0.saturating_sub(full));
            } else if first.done > at {
                break;
            }
            self.loads.pop_front();
        }
        at
    }

    /// When there is a place for one more line, after those of stores that wait for one.
    fn place(&mut self, mut at: Ps, memory: &mut dyn Fetch) -> Ps {
        loop {
            self.ask_for_stores(at, memory);
            let free = self.free_from(at);
            if free == at {
                return at;
            }
            at = free;
        }
    }

    /// Lines of stores are requested in order, each as soon as there is a place.
    fn ask_for_stores(&mut self, until: Ps, memory: &mut dyn Fetch) {
        for index in 0..self.stores.len() {
            let store = self.stores[index];
            if store.done.is_some() {
                continue;
            }
            let at = self.free_from(store.asked);
            if at > until {
                return;
            }
            let done = self.ask(at, store.from, memory);
            self.stores[index].done = Some(done);
        }
    }

    /// The first moment from this one on at which there is a place for one more line.
    fn free_from(&self, at: Ps) -> Ps {
        let mut under_way: Vec<Ps> = self.fills.iter().copied().filter(|end| *end > at).collect();
        if under_way.len() < self.part.mshrs {
            return at;
        }
        under_way.sort_unstable();
        under_way[under_way.len() - self.part.mshrs]
    }

    fn ask(&mut self, at: Ps, from: Source, memory: &mut dyn Fetch) -> Ps {
        self.fills.retain(|end| *end > at);
        let done = memory.fetch(at, from);
        self.fills.push(done);
        done
    }
}
