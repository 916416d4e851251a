// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Timing of accesses and flushes.
//!
//! Unless the caller's [`Timing`] says otherwise, cores follow the one-IPC model (Carlson, Heirman,
//! Eeckhout: Sniper, SC 2011, there as the simplest of its core models): an instruction takes one
//! cycle, and an access that misses waits for the level that serves it. The caller counts
//! instructions; the model counts waiting.

use crate::profile::{Profile, ps};
use crate::{Core, Line};

/// An access that the first level does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Its line.
    pub line: Line,
    /// What the level that has the line takes; none: memory has it.
    pub level_ps: Option<u64>,
    /// Of a store: how many stores this core has made, with this one.
    pub store: Option<u64>,
}

/// Interface of a memory controller's timing. Times are of the requesting core's clock, in
/// picoseconds. The time of a request is known to the caller, which passes it to its
/// implementation.
pub trait Timing {
    /// Time that a core waits for a read of a line.
    fn read_ps(&mut self, core: Core, line: Line) -> u64;
    /// Time that a core waits for an access. A core in order waits until the line is there.
    fn access_ps(&mut self, core: Core, access: Access) -> u64 {
        match access.level_ps {
            Some(level_ps) => level_ps,
            None => self.read_ps(core, access.line),
        }
    }
    /// Time that a core waits at a fence or a locked instruction until its accesses are done.
    fn drain_ps(&mut self, _core: Core) -> u64 {
        0
    }
    /// Time that the controller needs to accept a written line.
    fn write_ps(&mut self, core: Core, line: Line) -> u64;
    /// Time that a core waits because too many of its write-backs are under way for which it does
    /// not wait. Asked after each such write.
    fn stall_ps(&mut self, _core: Core) -> u64 {
        0
    }
    /// Time that a core waits until nothing that the controller accepted is volatile any more: at a
    /// fence after flushes, a CLFLUSH, a WBINVD. Zero if accepted lines are durable.
    fn flush_ps(&mut self, _core: Core) -> u64 {
        0
    }
    /// Time for which a core has executed instructions so far, waits not included. The model adds
    /// what it knows of waits, and asks where it matters what has been written by now.
    fn executed_ps(&self, _core: Core) -> u64 {
        0
    }
}

/// Every read and every write takes the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlatTiming {
    /// Time of a read.
    pub read_ps: u64,
    /// Time of a write.
    pub write_ps: u64,
}

impl FlatTiming {
    /// Timing by the figures of a profile.
    #[must_use]
    pub fn of(profile: &Profile) -> Self {
        Self {
            read_ps: ps(profile.memory_read_ns),
            write_ps: ps(profile.memory_write_ns),
        }
    }
}

impl Timing for FlatTiming {
    fn read_ps(&mut self, _core: Core, _line: Line) -> u64 {
        self.read_ps
    }

    fn write_ps(&mut self, _core: Core, _line: Line) -> u64 {
        self.write_ps
    }
}
