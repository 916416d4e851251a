// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Quantities. Times are whole picoseconds, because DRAM's clock is no whole
//! number of nanoseconds; they are given and shown in nanoseconds.

use serde::{Deserialize, Serialize};
use std::ops::{Add, Sub};

/// Bytes of one request: a line of the cache.
pub const LINE_BYTES: u64 = 64;

/// A moment or a duration of modelled time, in picoseconds.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Ps(pub u64);

impl Ps {
    /// Before everything.
    pub const ZERO: Self = Self(0);

    /// From nanoseconds, rounded to the next picosecond.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "parts are checked to be finite and not negative; the cast saturates"
    )]
    pub fn from_ns(ns: f64) -> Self {
        Self((ns * 1000.0).round() as u64)
    }

    /// In nanoseconds.
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        reason = "shown to people; exact below 2^53 ps"
    )]
    pub fn ns(self) -> f64 {
        self.0 as f64 / 1000.0
    }

    /// Several times this long.
    #[must_use]
    pub fn times(self, n: u64) -> Self {
        Self(self.0 * n)
    }
}

impl Add for Ps {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

/// The time between; it must not be negative.
impl Sub for Ps {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }
}

/// Number of a line of 64 bytes, as the host sees memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LineAddr(pub u64);

/// Number of a line of 64 bytes on the devices, after wear levelling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PhysLine(pub u64);

/// The next random number of a sequence that `state` stands for (SplitMix64).
pub fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mix(*state)
}

/// A number from which its source cannot be guessed at sight.
#[must_use]
pub fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
