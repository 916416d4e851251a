// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Volatile CPU caches over persistent memory: the content of media after a power cut, and the cost
//! of flushing.
//!
//! Every store is in the *coherent* memory at once, which all cores and devices read. *Media*
//! survives power loss; a line gets there when it is evicted, flushed, or swept. The model holds
//! tags only: it decides which lines are where, and takes their bytes from coherent memory at the
//! moment of the write-back. The caller provides both memories ([`Memory`]).
//!
//! ```
//! use remanence_cache::{Caches, Core, FlatTiming, Image, Line, Profile};
//!
//! let profile = Profile::named("wsp-c5528").unwrap();
//! let timing = FlatTiming::of(&profile);
//! let mut caches = Caches::new(profile, 2, 1024, Image::new(1024), timing);
//! let (first, second) = (Core(0), Core(1));
//!
//! caches.memory.coherent[7][0] = 1; // as a store does
//! caches.store(first, Line(7));
//! caches.wbinvd(second); // the line is in the first core's private caches
//! assert_eq!(caches.memory.media[7][0], 0);
//!
//! caches.clwb(first, Line(7)); // in flight, and lost if power is cut now
//! assert_eq!(caches.memory.media[7][0], 0);
//! caches.fence(first);
//! assert_eq!(caches.memory.media[7][0], 1);
//! ```
//!
//! Rules for the caller:
//!
//! - Changes of coherent memory without a store (DMA, page walks, interrupt frames) may be in any
//!   core's caches: lost at a cut, written by a flush of their line, by [`Caches::sweep`], or once every
//!   core that may have made them has executed WBINVD.
//! - The caller may omit loads. Then a dirty line stays with the core that stored to it until it is
//!   evicted by stores, stored to by another, or flushed: more is lost at a cut than with loads.
//! - Nothing here reads a clock, uses threads or iterates over hashes: the same calls give the same
//!   write-backs in the same order.

mod array;
mod caches;
mod clock;
mod flight;
mod hierarchy;
mod image;
mod profile;
mod queue;
mod timing;

#[cfg(test)]
mod reference;

pub use array::Slot;
pub use caches::{Caches, Counters, Honoured};
pub use image::Image;
pub use profile::{
    CORES_MAX, Domain, Geometry, OutOfOrder, PROFILES, Profile, ProfileError, Replacement,
};
pub use timing::{Access, FlatTiming, Timing};

/// Line size of every modelled cache.
pub const LINE_BYTES: u64 = 64;

/// The content of a line.
pub type Bytes = [u8; 64];

/// A line of persistent memory, counted from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Line(pub u32);

impl Line {
    /// As an index.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A core, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Core(pub usize);

/// Why a line was written back; the numbers are those of `enum rem_rec_cause`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Cause {
    /// A cache needed the room.
    Eviction = 1,
    /// CLFLUSH.
    Clflush = 2,
    /// CLFLUSHOPT.
    Clflushopt = 3,
    /// CLWB.
    Clwb = 4,
    /// WBINVD.
    Wbinvd = 5,
    /// WBNOINVD.
    Wbnoinvd = 6,
    /// A store that bypasses the caches.
    NtStore = 8,
    /// A change without a recorded store, found by the sweep.
    Sweep = 9,
    /// The persistence domain, at power loss.
    Domain = 10,
}

/// Coherent memory and media.
pub trait Memory {
    /// What cores and devices read.
    fn coherent(&self, line: Line) -> Bytes;
    /// Whether media has other bytes.
    fn differs(&self, line: Line) -> bool;
    /// The first line in `from..end` that differs.
    fn next_difference(&self, from: Line, end: Line) -> Option<Line>;
    /// The memory controller has taken these bytes, and will write them: only where no domain covers
    /// its queue.
    fn accepted(&mut self, line: Line, bytes: &Bytes, cause: Cause);
    /// Writes these bytes to media.
    fn write(&mut self, line: Line, bytes: &Bytes, cause: Cause);
    /// Sets the coherent view to media: the line was not written back.
    fn revert(&mut self, line: Line);
}
