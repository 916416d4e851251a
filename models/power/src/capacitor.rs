// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A capacitor between its full and its lowest usable voltage, and what one costs.

use crate::units::{NS_PER_S, Ns, PERMILLE, PJ_PER_KJ, Pj, mul_div_up};

/// Energy is C/2 (V1^2 - V2^2). One uF mV^2 / 2 is half a picojoule.
#[must_use]
pub fn energy(capacitance_uf: u64, from_mv: u64, to_mv: u64) -> Pj {
    let square = |mv: u64| u128::from(mv) * u128::from(mv);
    let difference = square(from_mv).saturating_sub(square(to_mv));
    Pj(u64::try_from(u128::from(capacitance_uf) * difference / 2).unwrap_or(u64::MAX))
}

/// The smallest capacitance that gives an energy between two voltages.
#[must_use]
pub fn capacitance_uf(energy: Pj, from_mv: u64, to_mv: u64) -> u64 {
    let square = |mv: u64| u128::from(mv) * u128::from(mv);
    let difference = square(from_mv) - square(to_mv);
    u64::try_from((u128::from(energy.0) * 2).div_ceil(difference)).unwrap_or(u64::MAX)
}

/// The voltage after a time at a steady power, from a full capacitor; 0 when it is empty.
#[must_use]
pub fn voltage_mv(capacitance_uf: u64, full_mv: u64, power_mw: u64, time: Ns) -> u64 {
    let full = u128::from(full_mv) * u128::from(full_mv);
    let fall = u128::from(Pj::of(power_mw, time).0) * 2 / u128::from(capacitance_uf.max(1));
    u64::try_from(full.saturating_sub(fall).isqrt()).unwrap_or(u64::MAX)
}

/// How long until so much energy has been put back at a steady power.
#[must_use]
pub fn charge_time(missing: Pj, charge_mw: u64) -> Ns {
    Ns(missing
        .0
        .div_ceil(charge_mw.max(1))
        .min(NS_PER_S * 86_400 * 365))
}

/// A type of capacitor, with prices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capacitor {
    /// Voltage when charged.
    pub full_mv: u64,
    /// Lowest usable voltage.
    pub empty_mv: u64,
    /// Price by capacitance.
    pub uusd_per_f: u64,
    /// Price by energy.
    pub uusd_per_kj: u64,
    /// Price of one part.
    pub part_uusd: u64,
    /// The capacitance of that part.
    pub part_uf: u64,
    /// Name of its ageing curve.
    pub ageing: String,
}

/// Cost of a capacitance, by the three prices that WSP gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Cost {
    /// By the farad: the trade's price.
    pub by_capacitance_uusd: u64,
    /// By the joule it holds.
    pub by_energy_uusd: u64,
    /// In whole parts.
    pub by_parts_uusd: u64,
    /// Number of parts.
    pub parts: u64,
}

impl Capacitor {
    /// The smallest that still gives `need` when `left_permille` thousandths of it are left.
    #[must_use]
    pub fn sized(&self, energy: Pj, left_permille: u64) -> u64 {
        let new = capacitance_uf(energy, self.full_mv, self.empty_mv);
        mul_div_up(new, PERMILLE, left_permille)
    }

    /// Prices of a capacitance.
    #[must_use]
    pub fn cost(&self, capacitance_uf: u64) -> Cost {
        let held = energy(capacitance_uf, self.full_mv, 0);
        let parts = capacitance_uf.div_ceil(self.part_uf);
        Cost {
            by_capacitance_uusd: mul_div_up(capacitance_uf, self.uusd_per_f, 1_000_000),
            by_energy_uusd: mul_div_up(held.0, self.uusd_per_kj, PJ_PER_KJ),
            by_parts_uusd: parts.saturating_mul(self.part_uusd),
            parts,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::PJ_PER_J;

    #[test]
    fn farad_from_12_to_6_volts_is_54_joules() {
        assert_eq!(energy(1_000_000, 12_000, 6_000), Pj(54 * PJ_PER_J));
        assert_eq!(energy(1_000_000, 6_000, 12_000), Pj(0));
        assert_eq!(capacitance_uf(Pj(54 * PJ_PER_J), 12_000, 6_000), 1_000_000);
        assert_eq!(
            capacitance_uf(Pj(54 * PJ_PER_J + 1), 12_000, 6_000),
            1_000_001
        );
    }

    #[test]
    fn voltage_falls_with_the_root_of_what_is_left() {
        let at = |s| voltage_mv(1_000_000, 12_000, 54_000, Ns(s * NS_PER_S));
        assert_eq!(at(0), 12_000);
        assert_eq!(at(1), 6_000, "54 W for 1 s from 1 F");
        assert_eq!(at(2), 0);
    }

    #[test]
    fn aged_capacitor_must_be_larger() {
        let capacitor = Capacitor {
            full_mv: 12_000,
            empty_mv: 6_000,
            uusd_per_f: 10_000,
            uusd_per_kj: 2_850_000,
            part_uusd: 2_000_000,
            part_uf: 500_000,
            ageing: String::new(),
        };
        let new = capacitor.sized(Pj(PJ_PER_J), 1000);
        assert_eq!(capacitor.sized(Pj(PJ_PER_J), 500), 2 * new);
        let cost = capacitor.cost(500_001);
        assert_eq!((cost.parts, cost.by_parts_uusd), (2, 4_000_000));
        assert_eq!(capacitor.cost(1_000_000).by_capacitance_uusd, 10_000);
        assert_eq!(
            capacitor.cost(1_000_000).by_energy_uusd,
            205_200,
            "72 J at 2.85 $/kJ"
        );
    }
}
