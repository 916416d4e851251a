// SPDX-License-Identifier: GPL-2.0-or-later
//! A memory controller of `models/memory` behind the caches: what a core waits for it.
//!
//! Controllers take requests at moments that never decrease. vCPUs run in turns, so one's time may
//! be behind another's by a window of guest time: such a request is made at the moment of the last
//! one, and takes as long as it takes from there.

use ocpmem::build::MemoryJob;
use ocpmem::memory::{Counts, Memory};
use ocpmem::stats::Energy;
use ocpmem::units::{LineAddr, Ps};
use remanence_cache::{Core, Line};

/// Requests of one core.
#[derive(Clone, Debug, Default)]
struct Port {
    /// When the core makes its next request.
    at: Ps,
    /// When it made its last write.
    begun: Ps,
    /// Until when write-backs that nobody waits for keep a place in its queue.
    queue: Vec<Ps>,
}

/// The controller, and a port of each core.
#[derive(Debug)]
pub(crate) struct Controlled {
    memory: Box<dyn Memory>,
    last: Ps,
    ports: Vec<Port>,
    /// Write-backs of one core that wait for the controller.
    places: usize,
}

impl Controlled {
    /// The controller of this name, over so many lines.
    pub(crate) fn new(
        name: &str,
        lines: u32,
        cores: usize,
        places: usize,
    ) -> Result<Self, String> {
        let memory = MemoryJob::named(name)
            .build(lines.into())
            .map_err(|error| format!("controller={name}: {error}"))?;
        Ok(Self {
            memory,
            last: Ps::ZERO,
            ports: vec![Port::default(); cores],
            places,
        })
    }

    /// The core's next requests are made at this moment of its own time.
    #[inline]
    pub(crate) fn set_time(&mut self, core: Core, own_ps: u64) {
        self.ports[core.0].at = Ps(own_ps);
    }

    fn moment(&mut self, core: Core) -> Ps {
        self.last = self.last.max(self.ports[core.0].at);
        self.last
    }

    pub(crate) fn read_ps(&mut self, core: Core, line: Line) -> u64 {
        let at = self.moment(core);
        (self.memory.read(at, LineAddr(line.0.into())) - at).0
    }

    /// The core's next request comes after this one, as where it waits for each.
    pub(crate) fn write_ps(&mut self, core: Core, line: Line) -> u64 {
        let at = self.moment(core);
        let accepted = self.memory.write(at, LineAddr(line.0.into()));
        let port = &mut self.ports[core.0];
        (port.begun, port.at) = (at, accepted);
        (accepted - at).0
    }

    /// The core does not wait for its last write, unless its queue is full.
    pub(crate) fn stall_ps(&mut self, core: Core) -> u64 {
        let port = &mut self.ports[core.0];
        let (begun, accepted) = (port.begun, port.at);
        port.queue.retain(|until| *until > begun);
        port.queue.push(accepted);
        let mut until = begun;
        if port.queue.len() > self.places {
            until = port.queue.iter().copied().min().unwrap_or(begun);
            port.queue.retain(|end| *end > until);
        }
        port.at = until;
        (until - begun).0
    }

    pub(crate) fn flush_ps(&mut self, core: Core) -> u64 {
        let at = self.moment(core);
        let done = self.memory.flush(at);
        self.ports[core.0].at = done;
        (done - at).0
    }

    pub(crate) fn counts(&self) -> &Counts {
        self.memory.counts()
    }

    /// Energy of the memory until the last request.
    pub(crate) fn energy(&self) -> Energy {
        self.memory.energy(self.last)
    }
}
