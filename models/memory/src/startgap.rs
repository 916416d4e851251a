// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Wear levelling: a randomizer, then Start-Gap in each region, then reseeding.
//!
//! A line's address is spread by a static randomizer (a bijection that a secret
//! seed chooses) and changed by the *key* of the epoch (exclusive or). Its upper
//! bits choose a region, its lower bits a place there. Each region has one line
//! more than it needs, the gap; every `threshold` writes to the region the line
//! below the gap moves into it, so that all lines wander (Start-Gap). With one
//! region and no reseeding this is LightPC's leveler.
//!
//! Reseeding gives each line another region: from one epoch to the next the
//! key changes by `delta`, so lines change places in pairs `x`, `x ^ delta`. A
//! pointer walks over all `x`; a pair whose smaller member is below the pointer
//! has been exchanged. Each region's number is keyed with every value once before
//! one comes again (`key_of`): what one address wears is spread over all regions
//! evenly, not only by chance.
//!
//! Invariants:
//! - `locate` is injective at every moment, and never gives the gap.
//! - State changes only by `commit_move` and `commit_swap`, after the journal holds it.
//! - Registers: 28 bytes, and 12 for each region; below 64 with one (or two).

use crate::error::MediaError;
use crate::units::{LineAddr, PhysLine, mix};
use serde::{Deserialize, Serialize};

/// Writes between two moves of a region's gap, unless asked otherwise.
pub const THRESHOLD_WRITES: u32 = 100;

/// How addresses are spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WearConfig {
    /// Start-Gap on; off, a line stays where it is.
    pub start_gap: bool,
    /// The static randomizer on.
    pub randomize: bool,
    /// Writes to a region between two moves of its gap.
    pub threshold_writes: u32,
    /// Number of regions, a power of two; LightPC has one.
    pub regions: u32,
    /// Writes to the whole memory between two exchanges of a pair; 0 = never reseeded.
    pub swap_writes: u32,
    /// Chooses the randomizer and the order of keys.
    pub seed: u64,
}

impl WearConfig {
    /// LightPC's leveler.
    #[must_use]
    pub fn paper(seed: u64) -> Self {
        Self {
            start_gap: true,
            randomize: true,
            threshold_writes: THRESHOLD_WRITES,
            regions: 1,
            swap_writes: 0,
            seed,
        }
    }
}

/// Start and gap of one region, and its writes since the last move.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Region {
    /// How far the region's lines are rotated.
    pub start: u32,
    /// Which line of the region is empty.
    pub gap: u32,
    /// Writes since the gap moved; not recovered, it only delays the next move.
    pub writes: u32,
}

/// Epoch of the keys, and how far the reseeding has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Epoch {
    /// Number of reseedings that are complete.
    pub number: u64,
    /// Pairs whose smaller member is below have been exchanged.
    pub pointer: u64,
}

/// A move of a gap: copy `from` to `to`, put `after` on media, then commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GapMove {
    /// Whose gap moves.
    pub region: u32,
    /// The line that moves.
    pub from: PhysLine,
    /// The old gap.
    pub to: PhysLine,
    /// The region's registers afterwards.
    pub after: Region,
}

/// An exchange of two lines, which advances the reseeding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Swap {
    /// Where the smaller member is.
    pub first: PhysLine,
    /// Where the other is.
    pub second: PhysLine,
    /// The epoch afterwards.
    pub after: Epoch,
}

/// The leveler's registers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leveler {
    config: WearConfig,
    bits: u32,
    lines: u64,
    region_lines: u64,
    region_bits: u32,
    multiply: [u64; 2],
    add: u64,
    /// Key of the epoch, and the change to the next.
    key: u64,
    delta: u64,
    epoch: Epoch,
    writes: u32,
    regions: Vec<Region>,
}

impl Leveler {
    /// A leveler of memory that was never written.
    ///
    /// # Errors
    /// When the sizes cannot be.
    pub fn new(config: WearConfig, lines: u64) -> Result<Self, MediaError> {
        let geometry = |why: String| Err(MediaError::Geometry(why));
        if !lines.is_power_of_two() || !(2..=1 << 36).contains(&lines) {
            return geometry(format!("{lines} lines: give a power of two from 2 to 2^36"));
        }
        let regions = u64::from(config.regions);
        if !regions.is_power_of_two() || regions * 2 > lines || lines / regions > 1 << 31 {
            return geometry(format!(
                "{regions} regions of {lines} lines: give a power of two that leaves 2 to 2^31 lines each"
            ));
        }
        if config.threshold_writes == 0 {
            return geometry("threshold_writes = 0: give at least 1".to_owned());
        }
        let region_lines = lines / regions;
        let gap = u32::try_from(region_lines).map_err(|_| MediaError::Geometry("region".into()))?;
        let region = Region {
            start: 0,
            gap,
            writes: 0,
        };
        let mut leveler = Self {
            config,
            bits: lines.trailing_zeros(),
            lines,
            region_lines,
            region_bits: region_lines.trailing_zeros(),
            multiply: [1; 2],
            add: 0,
            key: 0,
            delta: 0,
            epoch: Epoch::default(),
            writes: 0,
            regions: vec![region; config.regions as usize],
        };
        leveler.set_seed(config.seed);
        Ok(leveler)
    }

    /// The randomizer, and the keys of the present epoch, of this seed.
    pub fn set_seed(&mut self, seed: u64) {
        self.config.seed = seed;
        self.multiply = [mix(seed) | 1, mix(seed ^ 0x55) | 1];
        self.add = mix(seed ^ 0xaa);
        self.set_epoch(self.epoch);
    }

    /// Lines that the host sees.
    #[must_use]
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// Lines on the devices, gaps included.
    #[must_use]
    pub fn phys_lines(&self) -> u64 {
        self.lines + u64::from(self.config.regions)
    }

    /// How it was asked to be.
    #[must_use]
    pub fn config(&self) -> &WearConfig {
        &self.config
    }

    /// Start, gap and count of a region.
    #[must_use]
    pub fn region(&self, index: u32) -> Region {
        self.regions[index as usize]
    }

    /// How far reseeding is.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Bytes of registers that an implementation needs: seed, epoch, pointer,
    /// count of writes, and start, gap and count of each region.
    #[must_use]
    pub fn register_bytes(&self) -> u64 {
        8 + 8 + 8 + 4 + 12 * u64::from(self.config.regions)
    }

    /// Where a line is.
    #[inline]
    #[must_use]
    pub fn locate(&self, line: LineAddr) -> PhysLine {
        self.place(self.spread(line))
    }

    /// The randomizer, and the key of the pair's epoch.
    #[inline]
    fn spread(&self, line: LineAddr) -> u64 {
        let x = self.randomize(line.0) ^ self.key;
        let other = x ^ self.delta;
        if x.min(other) < self.epoch.pointer {
            other
        } else {
            x
        }
    }

    /// A bijection of 0..lines: each step can be undone.
    #[inline]
    fn randomize(&self, line: u64) -> u64 {
        if !self.config.randomize {
            return line;
        }
        let mask = self.lines - 1;
        let half = self.bits.div_ceil(2);
        let mut x = line.wrapping_mul(self.multiply[0]).wrapping_add(self.add) & mask;
        x ^= x >> half;
        x = x.wrapping_mul(self.multiply[1]) & mask;
        x ^= x >> half;
        x.wrapping_mul(self.multiply[0]) & mask
    }

    /// Start-Gap within the region.
    #[inline]
    fn place(&self, x: u64) -> PhysLine {
        let index = x >> self.region_bits;
        #[expect(clippy::cast_possible_truncation, reason = "regions is a u32")]
        let region = &self.regions[index as usize];
        let mask = self.region_lines - 1;
        let turned = ((x & mask) + u64::from(region.start)) & mask;
        let skipped = turned + u64::from(turned >= u64::from(region.gap));
        PhysLine(index * (self.region_lines + 1) + skipped)
    }

    /// Count a write of the host's; says whether a gap or a pair has to move.
    #[inline]
    pub fn count_write(&mut self, line: LineAddr) -> (Option<GapMove>, Option<Swap>) {
        let mut moves = (None, None);
        if self.config.start_gap {
            let x = self.spread(line);
            #[expect(clippy::cast_possible_truncation, reason = "regions is a u32")]
            let index = (x >> self.region_bits) as u32;
            let region = &mut self.regions[index as usize];
            region.writes += 1;
            if region.writes >= self.config.threshold_writes {
                region.writes = 0;
                moves.0 = Some(self.next_move(index));
            }
        }
        if self.config.swap_writes != 0 {
            self.writes += 1;
            if self.writes >= self.config.swap_writes {
                self.writes = 0;
                moves.1 = Some(self.next_swap());
            }
        }
        moves
    }

    /// Count `threshold_writes` writes to one line at once, for lives that are too
    /// long to count one by one: how many pairs have to be exchanged now.
    #[inline]
    pub fn count_burst(&mut self, line: LineAddr) -> (Option<GapMove>, u32) {
        let mut gap = None;
        if self.config.start_gap {
            let x = self.spread(line);
            #[expect(clippy::cast_possible_truncation, reason = "regions is a u32")]
            let index = (x >> self.region_bits) as u32;
            gap = Some(self.next_move(index));
        }
        let mut swaps = 0;
        if self.config.swap_writes != 0 {
            self.writes += self.config.threshold_writes;
            while self.writes >= self.config.swap_writes {
                self.writes -= self.config.swap_writes;
                swaps += 1;
            }
        }
        (gap, swaps)
    }

    /// What moves next in a region.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a region has at most 2^31 lines"
    )]
    pub fn next_move(&self, index: u32) -> GapMove {
        let region = self.regions[index as usize];
        let base = u64::from(index) * (self.region_lines + 1);
        let (from, after) = if region.gap == 0 {
            let start = (u64::from(region.start) + 1) & (self.region_lines - 1);
            let gap = self.region_lines as u32;
            (
                self.region_lines,
                Region {
                    start: start as u32,
                    gap,
                    writes: 0,
                },
            )
        } else {
            let gap = region.gap - 1;
            (u64::from(gap), Region { gap, ..region })
        };
        GapMove {
            region: index,
            from: PhysLine(base + from),
            to: PhysLine(base + u64::from(region.gap)),
            after,
        }
    }

    /// The journal holds it: from now on lines are found at their new place.
    pub fn commit_move(&mut self, region: u32, after: Region) {
        let writes = self.regions[region as usize].writes;
        self.regions[region as usize] = Region { writes, ..after };
    }

    /// Which pair changes places next.
    #[must_use]
    pub fn next_swap(&self) -> Swap {
        // The pairs whose smaller member is below the pointer are done; the next
        // smaller member is the pointer itself, or the first after it.
        let mut x = self.epoch.pointer;
        while x ^ self.delta < x {
            x += 1;
        }
        let mut after = Epoch {
            pointer: x + 1,
            ..self.epoch
        };
        while after.pointer < self.lines && after.pointer ^ self.delta < after.pointer {
            after.pointer += 1;
        }
        if after.pointer >= self.lines {
            after = Epoch {
                number: self.epoch.number + 1,
                pointer: 0,
            };
        }
        Swap {
            first: self.place(x),
            second: self.place(x ^ self.delta),
            after,
        }
    }

    /// The journal holds it: the pair is found exchanged.
    pub fn commit_swap(&mut self, after: Epoch) {
        if after.number == self.epoch.number {
            self.epoch = after;
        } else {
            self.set_epoch(after);
        }
    }

    /// As recovered from media.
    pub fn set_epoch(&mut self, epoch: Epoch) {
        self.key = self.key_of(epoch.number);
        self.delta = self.key ^ self.key_of(epoch.number + 1);
        self.epoch = epoch;
    }

    /// The key of an epoch: another region (one region alone has nothing but places to change). A
    /// cycle goes through all regions in a Gray code: each once, and from one epoch to the next one bit
    /// changes. Then a pair is exchanged at nearly the same part of each epoch, so that a line stays in
    /// each region for nearly as long; with keys in any other order a stay lasts 0 to 2 epochs, by
    /// chance. Where a cycle begins is another place each time, so that the few stays that are not as long
    /// are everybody's in turn. Within a cycle the place in a region is left to the gap; from cycle to
    /// cycle it changes, so that two lines do not for ever wear the same places one after the other.
    fn key_of(&self, number: u64) -> u64 {
        if self.config.swap_writes == 0 {
            return 0;
        }
        let (count, shift) = match u64::from(self.config.regions) {
            1 => (self.lines, 0),
            regions => (regions, self.region_bits),
        };
        let (cycle, step) = (number / count, number % count);
        let order = mix(self.config.seed ^ 0x77);
        // The last key of a cycle is not the first of the next: an odd stride changes the lowest bit, a
        // Gray code ends with the highest. Of two, these are the same bit.
        let stride = if count == 2 { 0 } else { order | 1 };
        let begin = cycle.wrapping_mul(stride).wrapping_add(order >> 32) & (count - 1);
        let place = mix(self.config.seed ^ mix(cycle)) & ((1 << shift) - 1);
        ((begin ^ step ^ (step >> 1)) << shift) | place
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn leveler(regions: u32, swap_writes: u32, lines: u64) -> Leveler {
        let config = WearConfig {
            regions,
            swap_writes,
            threshold_writes: 3,
            ..WearConfig::paper(9)
        };
        Leveler::new(config, lines).unwrap()
    }

    fn is_injective(leveler: &Leveler) {
        let places: BTreeSet<_> = (0..leveler.lines())
            .map(|l| leveler.locate(LineAddr(l)).0)
            .collect();
        assert_eq!(places.len() as u64, leveler.lines());
        assert!(places.last().unwrap() < &leveler.phys_lines());
        for index in 0..leveler.config().regions {
            let to = leveler.next_move(index).to.0;
            assert!(!places.contains(&to), "a line lies in the gap {to}");
        }
    }

    /// Goal: no two lines share a place, at any moment of moves and reseedings.
    #[test]
    fn every_line_has_its_own_place() {
        for (regions, swap, lines) in [(1, 0, 32), (4, 5, 64), (1, 2, 16), (8, 1, 16)] {
            let mut it = leveler(regions, swap, lines);
            for n in 0..2000 {
                is_injective(&it);
                let (gap, pair) = it.count_write(LineAddr(n % 7));
                if let Some(gap) = gap {
                    it.commit_move(gap.region, gap.after);
                }
                if pair.is_some() {
                    let pair = it.next_swap(); // after the gap has moved
                    it.commit_swap(pair.after);
                }
            }
            assert!(swap == 0 || it.epoch().number > 2);
        }
    }

    /// Goal: what moves is what the new registers look for, and nothing else changes place.
    #[test]
    fn move_and_a_swap_change_exactly_their_lines() {
        let mut it = leveler(4, 1, 64);
        for n in 0..1500 {
            let before: Vec<_> = (0..64).map(|l| it.locate(LineAddr(l))).collect();
            let moved: Vec<(PhysLine, PhysLine)> = if n % 3 == 0 {
                let gap = it.next_move(n % 4);
                it.commit_move(gap.region, gap.after);
                vec![(gap.from, gap.to)]
            } else {
                let pair = it.next_swap();
                it.commit_swap(pair.after);
                vec![(pair.first, pair.second), (pair.second, pair.first)]
            };
            for (line, old) in before.iter().enumerate() {
                let now = it.locate(LineAddr(line as u64));
                let expected = moved
                    .iter()
                    .find(|(from, _)| from == old)
                    .map_or(*old, |(_, to)| *to);
                assert_eq!(now, expected, "step {n} line {line}");
            }
        }
    }

    /// Goal: a cycle of keys has each once, and no epoch keeps the key of the one before.
    #[test]
    fn cycle_of_keys_has_each_once() {
        for (regions, lines) in [(1, 32_u64), (2, 8), (4, 64), (64, 256)] {
            let it = leveler(regions, 1, lines);
            let count = if regions == 1 { lines } else { regions.into() };
            let keys: Vec<_> = (0..4 * count).map(|n| it.key_of(n)).collect();
            for cycle in keys.chunks(usize::try_from(count).unwrap()) {
                let all: BTreeSet<_> = cycle.iter().map(|key| key * count / lines).collect();
                assert_eq!(all, (0..count).collect(), "{regions}");
            }
            assert!(keys.windows(2).all(|two| two[0] != two[1]), "{regions}");
        }
    }

    /// Goal: a line stays in each region for nearly as long. Method: exchanges that each stay takes; where
    /// the order of regions is any other, the root of the mean square is 0.41 of an epoch.
    #[test]
    fn line_stays_in_each_region_as_long() {
        let (regions, lines) = (64, 256);
        let mut it = leveler(regions, 1, lines);
        let epoch = f64::from(u32::try_from(lines / 2).unwrap());
        for line in [0, 77, 200] {
            let (mut stays, mut stay, mut at) = (Vec::new(), 0, None);
            for _ in 0..lines / 2 * 64 * 4 {
                let swap = it.next_swap();
                it.commit_swap(swap.after);
                let region = it.locate(LineAddr(line)).0 / (lines / 64 + 1);
                if at.is_some_and(|old| old != region) {
                    stays.push(f64::from(stay) / epoch - 1.0);
                    stay = 0;
                }
                at = Some(region);
                stay += 1;
            }
            stays.remove(0); // begun before
            let count = f64::from(u32::try_from(stays.len()).unwrap());
            assert!(count > 250.0, "{count}");
            let square = stays.iter().map(|off| off * off).sum::<f64>() / count;
            assert!(square.sqrt() < 0.2, "{}", square.sqrt());
        }
    }

    /// Goal: a need for more than 64 bytes of registers is reported. The paper's leveler does not, nor does
    /// reseeding with one region; each region more has a start, a gap and a count of its own.
    #[test]
    fn registers_are_below_64_bytes_with_one_region() {
        assert_eq!(leveler(1, 0, 1 << 26).register_bytes(), 40);
        assert_eq!(leveler(1, 256, 1 << 26).register_bytes(), 40);
        assert_eq!(leveler(2, 256, 1 << 26).register_bytes(), 52);
        assert_eq!(leveler(64, 256, 1 << 26).register_bytes(), 28 + 64 * 12);
    }

    #[test]
    fn impossible_sizes_are_refused() {
        let paper = WearConfig::paper(1);
        for (config, lines) in [
            (paper, 0),
            (paper, 100),
            (
                WearConfig {
                    regions: 3,
                    ..paper
                },
                64,
            ),
            (
                WearConfig {
                    regions: 64,
                    ..paper
                },
                64,
            ),
            (
                WearConfig {
                    regions: 0,
                    ..paper
                },
                64,
            ),
            (
                WearConfig {
                    threshold_writes: 0,
                    ..paper
                },
                64,
            ),
        ] {
            assert!(Leveler::new(config, lines).is_err(), "{config:?} {lines}");
        }
    }
}
