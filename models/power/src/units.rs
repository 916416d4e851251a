// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Quantities that must not be mixed up. Base units: ns and pJ; power is mW, which is pJ per ns.

use serde::{Deserialize, Serialize};

/// Time, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Ns(pub u64);

/// Energy, in picojoules: 18 MJ at most, a thousand times what any supply here holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Pj(pub u64);

/// One second.
pub const NS_PER_S: u64 = 1_000_000_000;
/// Picoseconds in a nanosecond.
pub const PS_PER_NS: u64 = 1000;
/// One joule.
pub const PJ_PER_J: u64 = 1_000_000_000_000;
/// One kilojoule.
pub const PJ_PER_KJ: u64 = 1_000 * PJ_PER_J;
/// One gibibyte.
pub const GIB_BYTES: u64 = 1 << 30;
/// Unit of margins and ageing: thousandths.
pub const PERMILLE: u64 = 1000;

/// `a * b / c` without overflow in between; saturates at `u64::MAX`, rounds down.
#[must_use]
pub fn mul_div(a: u64, b: u64, c: u64) -> u64 {
    assert!(c != 0, "division by zero in mul_div");
    u64::try_from(u128::from(a) * u128::from(b) / u128::from(c)).unwrap_or(u64::MAX)
}

/// The same, rounded up: for lower bounds.
#[must_use]
pub fn mul_div_up(a: u64, b: u64, c: u64) -> u64 {
    assert!(c != 0, "division by zero in mul_div_up");
    u64::try_from((u128::from(a) * u128::from(b)).div_ceil(u128::from(c))).unwrap_or(u64::MAX)
}

impl Pj {
    /// Energy of a power over a time.
    #[must_use]
    pub fn of(power_mw: u64, time: Ns) -> Self {
        Self(power_mw.saturating_mul(time.0))
    }

    /// Time that it lasts at a power; `u64::MAX` at power 0.
    #[must_use]
    pub fn lasts(self, power_mw: u64) -> Ns {
        Ns(self.0.checked_div(power_mw).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn milliwatt_is_a_picojoule_per_nanosecond() {
        assert_eq!(Pj::of(1000, Ns(NS_PER_S)), Pj(PJ_PER_J));
        assert_eq!(Pj(PJ_PER_J).lasts(1000), Ns(NS_PER_S));
        assert_eq!(Pj(1).lasts(0), Ns(u64::MAX));
    }

    #[test]
    fn products_have_128_bits_and_results_saturate() {
        assert_eq!(mul_div(u64::MAX, 1000, 1000), u64::MAX);
        assert_eq!(mul_div(u64::MAX, 2, 1), u64::MAX);
        assert_eq!(mul_div(10, 1, 3), 3);
        assert_eq!(mul_div_up(10, 1, 3), 4);
        assert_eq!(mul_div_up(9, 1, 3), 3);
    }
}
