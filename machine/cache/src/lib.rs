// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Volatile CPU caches over persistent memory: which bytes a power cut leaves, and what flushing costs.
//!
//! Every store is in the *coherent* memory at once, which all cores and devices read. *Media* holds
//! what outlives power; a line gets there when it is evicted, flushed, or swept. The model
//! holds tags only: it tells which lines are where, and takes their bytes from coherent memory
//! at the moment of the write-back. Both memories are the caller's ([`Memory`]).
//!
//! ```
//! use remanence_cache::{Caches, Core, FlatTiming, Image, Line, Profile};
//!
//! let profile = Profile::named("wsp-c5528").unwrap();
//! let timing = FlatTiming::of(&profile);
//! let mut caches = Caches::new(profile, 2, 1024, Image::new(1024), timing);
//! let (first, second) = (Core(0), Core(1));
//!
//! caches.memory.coherent[7][0] = 1; // what a store does
//! caches.store(first, Line(7));
//! caches.wbinvd(second); // the line is in the first core's private caches
//! assert_eq!(caches.memory.media[7][0], 0);
//!
//! caches.clwb(first, Line(7)); // under way, and lost if power goes now
//! assert_eq!(caches.memory.media[7][0], 0);
//! caches.fence(first);
//! assert_eq!(caches.memory.media[7][0], 1);
//! ```
//!
//! Rules that the caller should know:
//!
//! - What changes coherent memory unseen (DMA, page walks) counts as cached in the last level: lost at a
//!   cut, written by WBINVD, by a flush of its line, or by [`Caches::sweep`].
//! - The caller may leave out loads. Then a dirty line stays with the core that stored to it until it is
//!   evicted by stores, stored to by another, or flushed: more is lost at a cut than with loads.
//! - Nothing here reads a clock, uses threads or iterates over hashes: the same calls give the same
//!   write-backs in the same order.

mod array;
mod caches;
mod flight;
mod hierarchy;
mod image;
mod profile;
mod timing;

#[cfg(test)]
mod reference;

pub use array::Slot;
pub use caches::{Caches, Counters, Honoured};
pub use image::Image;
pub use profile::{CORES_MAX, Domain, Geometry, PROFILES, Profile, ProfileError, Replacement};
pub use timing::{FlatTiming, Timing};

/// Of every cache that is modelled.
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
    /// What nothing told of, found by looking.
    Sweep = 9,
    /// The persistence domain's last act.
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
    /// Media holds these bytes from now on.
    fn write(&mut self, line: Line, bytes: &Bytes, cause: Cause);
    /// The coherent view becomes what media has: nobody wrote the line back.
    fn revert(&mut self, line: Line);
}
