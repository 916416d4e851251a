// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What time accesses and flushes take.
//!
//! Cores follow the one-IPC model (Carlson, Heirman, Eeckhout: Sniper, SC 2011, there as the simplest
//! of its core models): an instruction takes one cycle, and an access that misses waits for
//! the level that serves it. The caller counts instructions; the model counts waiting.

use crate::profile::{Profile, ps};
use crate::{Core, Line};

/// What a memory controller is asked: here its own timing plugs in. Times are of the asking core's
/// clock, in picoseconds. When a core asks, its caller knows, and tells its implementation.
pub trait Timing {
    /// How long a core waits for a line to be read.
    fn read_ps(&mut self, core: Core, line: Line) -> u64;
    /// How long the controller needs to take a line that is written.
    fn write_ps(&mut self, core: Core, line: Line) -> u64;
    /// How long a core waits until nothing of what the controller took is volatile any more: at a
    /// fence that waits for flushes, a CLFLUSH, a WBINVD. Nothing, where what is taken is safe.
    fn flush_ps(&mut self, _core: Core) -> u64 {
        0
    }
}

/// Every read and every write takes the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlatTiming {
    /// Of a read.
    pub read_ps: u64,
    /// Of a write.
    pub write_ps: u64,
}

impl FlatTiming {
    /// The figures of a profile.
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
