// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rails and PWR_OK around a failure as an oscilloscope shows them (WSP, Figure 6), and the rule
//! that reads the window from them.
//!
//! A converter holds its rails until its bulk capacitor is spent; then they fall as their own small
//! output capacitors do. Samples are noisy, hence the rule: the window ends with the first 250 us
//! throughout which a rail is below 95 % of its nominal voltage.

use crate::units::{Ns, mul_div};

/// WSP's oscilloscope: 100 kHz.
pub const SAMPLE: Ns = Ns(10_000);
/// A rail must be low for this long.
pub const LOW_FOR: Ns = Ns(250_000);
/// A rail is low below this many thousandths of its nominal voltage.
pub const LOW_PERMILLE: u64 = 950;
/// A rail's own output capacitor falls to 1/e in this time (ASSUMED; only for the shape of the
/// curve).
const FALL: Ns = Ns(20_000_000);
const UV_PER_MV: u64 = 1000;
/// Rails of an ATX supply.
pub const NOMINAL_MV: [u64; 3] = [12_000, 5_000, 3_300];

/// A small generator with a seed, for noise only (SplitMix64).
#[derive(Clone, Copy, Debug)]
struct Noise(u64);

impl Noise {
    fn next_below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound.max(1)
    }
}

/// Samples of one rail from PWR_OK on, for a window that ends at `end`.
#[must_use]
pub fn samples(nominal_mv: u64, end: Ns, until: Ns, noise_permille: u64, seed: u64) -> Vec<u64> {
    let mut noise = Noise(seed);
    let swing = mul_div(nominal_mv, noise_permille, 1000);
    let mut voltage_uv = nominal_mv * UV_PER_MV;
    let mut out = Vec::new();
    let mut at = 0;
    while at <= until.0 {
        if at > end.0 {
            // One step of an exponential fall, in integers.
            voltage_uv -= mul_div(voltage_uv, SAMPLE.0, FALL.0);
        } else if at + SAMPLE.0 > end.0 {
            // The supervisor switches off: at the window's end the rail is just out of
            // specification.
            voltage_uv = (mul_div(nominal_mv, LOW_PERMILLE - 1, 1000) - swing) * UV_PER_MV;
        }
        let voltage = voltage_uv / UV_PER_MV;
        out.push(voltage + noise.next_below(2 * swing + 1) - swing.min(voltage));
        at += SAMPLE.0;
    }
    out
}

/// WSP's rule: the beginning of the first 250 us with all samples low, if any.
#[must_use]
pub fn window(samples: &[u64], nominal_mv: u64) -> Option<Ns> {
    let low = mul_div(nominal_mv, LOW_PERMILLE, 1000);
    let needed = usize::try_from(LOW_FOR.0 / SAMPLE.0).unwrap_or(usize::MAX);
    let mut run = 0;
    for (index, &sample) in samples.iter().enumerate() {
        run = if sample < low { run + 1 } else { 0 };
        if run == needed {
            let first = u64::try_from(index + 1 - needed).unwrap_or(u64::MAX);
            return Some(Ns(first.saturating_mul(SAMPLE.0)));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_finds_the_end_to_a_sample_whatever_the_noise() {
        for nominal_mv in NOMINAL_MV {
            for (seed, noise) in [(1, 0), (2, 10), (3, 40)] {
                let end = Ns(33_000_000);
                let trace = samples(nominal_mv, end, Ns(100_000_000), noise, seed);
                let found = window(&trace, nominal_mv).unwrap();
                assert!(found.0.abs_diff(end.0) <= 2 * SAMPLE.0, "{found:?} {noise}");
            }
        }
    }

    #[test]
    fn dip_shorter_than_250_us_is_not_the_end() {
        let mut trace = vec![12_000; 100];
        trace[10..34].fill(11_000); // 24 samples
        assert_eq!(window(&trace, 12_000), None);
        trace[60..85].fill(11_399); // 25, one millivolt under 95 %
        assert_eq!(window(&trace, 12_000), Some(Ns(600_000)));
        trace[60..85].fill(11_400);
        assert_eq!(window(&trace, 12_000), None);
    }
}
