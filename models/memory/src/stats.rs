// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Statistics as records: name, value, unit and what it says.

use crate::units::Ps;
use serde::{Deserialize, Serialize};

/// One figure of a model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// Noun first.
    pub name: &'static str,
    /// In `unit`.
    pub value: f64,
    /// `ns`, `pJ`, `bytes`, `1` for counts and ratios.
    pub unit: &'static str,
    /// One sentence.
    pub about: &'static str,
}

/// A count as a figure.
#[must_use]
#[expect(
    clippy::cast_precision_loss,
    reason = "shown to people; exact below 2^53"
)]
pub fn count(name: &'static str, value: u64, about: &'static str) -> Figure {
    Figure {
        name,
        value: value as f64,
        unit: "1",
        about,
    }
}

/// How long requests of one kind took.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Latency {
    /// How many.
    pub count: u64,
    /// Together.
    pub sum: Ps,
    /// The shortest, `Ps(u64::MAX)` when there is none.
    pub min: Ps,
    /// The longest.
    pub max: Ps,
}

impl Default for Latency {
    fn default() -> Self {
        Self {
            count: 0,
            sum: Ps::ZERO,
            min: Ps(u64::MAX),
            max: Ps::ZERO,
        }
    }
}

impl Latency {
    /// One more.
    #[inline]
    pub fn add(&mut self, took: Ps) {
        self.count += 1;
        self.sum = self.sum + took;
        self.min = self.min.min(took);
        self.max = self.max.max(took);
    }

    /// The mean, 0 when there is none.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "shown to people")]
    pub fn mean_ns(&self) -> f64 {
        if self.count == 0 {
            0.0
        } else {
            self.sum.ns() / self.count as f64
        }
    }
}

/// Energy by cause, in whole picojoules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Energy {
    /// Whatever is on uses it, accessed or not.
    pub background_pj: u64,
    /// DRAM only.
    pub refresh_pj: u64,
    /// Opening of DRAM rows.
    pub activate_pj: u64,
    /// Of arrays and buffers.
    pub read_pj: u64,
    /// Of arrays and buffers.
    pub write_pj: u64,
}

impl Energy {
    /// All causes together.
    #[must_use]
    pub fn total_pj(&self) -> u64 {
        self.background_pj + self.refresh_pj + self.activate_pj + self.read_pj + self.write_pj
    }

    /// The same in millijoules.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "shown to people")]
    pub fn total_mj(&self) -> f64 {
        self.total_pj() as f64 / 1e9
    }

    /// Cause by cause.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            background_pj: self.background_pj + other.background_pj,
            refresh_pj: self.refresh_pj + other.refresh_pj,
            activate_pj: self.activate_pj + other.activate_pj,
            read_pj: self.read_pj + other.read_pj,
            write_pj: self.write_pj + other.write_pj,
        }
    }

    /// Cause by cause; `earlier` is of the same model.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            background_pj: self.background_pj - earlier.background_pj,
            refresh_pj: self.refresh_pj - earlier.refresh_pj,
            activate_pj: self.activate_pj - earlier.activate_pj,
            read_pj: self.read_pj - earlier.read_pj,
            write_pj: self.write_pj - earlier.write_pj,
        }
    }
}

/// Energy of something that is on: 1 mW for 1 ns is 1 pJ.
#[must_use]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "rounded, of a product of two numbers that are not negative"
)]
pub fn on_pj(power_mw: f64, time: Ps) -> u64 {
    (power_mw * time.ns()).round() as u64
}
