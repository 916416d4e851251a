// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One set-associative array of tags. It has no knowledge of other levels.

use crate::profile::{Geometry, Replacement};
use crate::{LINE_BYTES, Line};

/// Place of a line in an array; valid until another line replaces it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot(u32);

impl Slot {
    /// A slot outside every array: it never hits.
    pub const NONE: Self = Self(u32::MAX);
}

/// The line that was evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Victim {
    pub(crate) line: Line,
    pub(crate) dirty: bool,
}

/// A tag: 0 = empty, else (line + 1) << 1 | dirty.
type Tag = u64;

const EMPTY: Tag = 0;

const fn tag(line: Line, dirty: bool) -> Tag {
    ((line.0 as Tag + 1) << 1) | dirty as Tag
}

fn line_of(tag: Tag) -> Line {
    // A tag is made from a line, so the shift restores it.
    Line(u32::try_from((tag >> 1) - 1).unwrap_or(u32::MAX))
}

#[derive(Clone, Debug)]
pub(crate) struct Array {
    sets: u32,
    /// Of a line's number, its set; none if that takes a division.
    mask: Option<u32>,
    ways: u32,
    tags: Vec<Tag>,
    /// Last use of each slot, in accesses of this array.
    used: Vec<u64>,
    tick: u64,
    replacement: Replacement,
    /// State of the generator for random replacement.
    random: u64,
}

impl Array {
    pub(crate) fn new(geometry: &Geometry, replacement: Replacement, seed: u64) -> Self {
        let slots = geometry.bytes() / LINE_BYTES;
        let ways = u64::from(geometry.ways);
        let sets = u32::try_from(slots / ways).unwrap_or(1);
        let slots = usize::try_from(slots).unwrap_or(0);
        Self {
            sets,
            mask: sets.is_power_of_two().then(|| sets - 1),
            ways: geometry.ways,
            tags: vec![EMPTY; slots],
            used: vec![0; slots],
            tick: 0,
            replacement,
            random: seed | 1,
        }
    }

    /// Capacity in lines.
    pub(crate) fn capacity(&self) -> u64 {
        self.tags.len() as u64
    }

    /// Whether `slot` holds `line` and it is dirty; if so, it has been used.
    #[inline]
    pub(crate) fn touch_dirty(&mut self, slot: Slot, line: Line) -> bool {
        let index = slot.0 as usize;
        if self.tags.get(index) != Some(&tag(line, true)) {
            return false;
        }
        self.tick += 1;
        self.used[index] = self.tick;
        true
    }

    /// Whether `slot` holds `line`; if so, it has been used.
    #[inline]
    pub(crate) fn touch_held(&mut self, slot: Slot, line: Line) -> bool {
        let index = slot.0 as usize;
        match self.tags.get(index) {
            Some(held) if held | 1 == tag(line, true) => {
                self.tick += 1;
                self.used[index] = self.tick;
                true
            }
            _ => false,
        }
    }

    #[inline]
    fn first_slot(&self, line: Line) -> usize {
        // A division takes as long as the rest of the search, and few arrays need one.
        let set = match self.mask {
            Some(mask) => line.0 & mask,
            None => line.0 % self.sets,
        };
        set as usize * self.ways as usize
    }

    pub(crate) fn find(&self, line: Line) -> Option<Slot> {
        let first = self.first_slot(line);
        let set = &self.tags[first..first + self.ways as usize];
        let wanted = tag(line, true);
        let way = set.iter().position(|held| held | 1 == wanted)?;
        Some(Slot(u32::try_from(first + way).unwrap_or(u32::MAX)))
    }

    pub(crate) fn touch(&mut self, slot: Slot) {
        self.tick += 1;
        self.used[slot.0 as usize] = self.tick;
    }

    pub(crate) fn is_dirty(&self, slot: Slot) -> bool {
        self.tags[slot.0 as usize] & 1 == 1
    }

    pub(crate) fn set_dirty(&mut self, slot: Slot, dirty: bool) {
        let held = &mut self.tags[slot.0 as usize];
        *held = *held & !1 | Tag::from(dirty);
    }

    /// Removes `line`; returns whether it was dirty, or `None` if it was absent.
    pub(crate) fn remove(&mut self, line: Line) -> Option<bool> {
        let slot = self.find(line)?;
        let dirty = self.is_dirty(slot);
        self.tags[slot.0 as usize] = EMPTY;
        Some(dirty)
    }

    /// Makes `line` clean; returns whether it was there and dirty.
    pub(crate) fn clean(&mut self, line: Line) -> bool {
        let Some(slot) = self.find(line) else {
            return false;
        };
        let dirty = self.is_dirty(slot);
        self.set_dirty(slot, false);
        dirty
    }

    /// Inserts a line that is absent; returns the line it evicted.
    pub(crate) fn insert(&mut self, line: Line, dirty: bool) -> (Slot, Option<Victim>) {
        let first = self.first_slot(line);
        let index = first + self.way_to_fill(first);
        let held = std::mem::replace(&mut self.tags[index], tag(line, dirty));
        let slot = Slot(u32::try_from(index).unwrap_or(u32::MAX));
        self.touch(slot);
        let victim = (held != EMPTY).then(|| Victim {
            line: line_of(held),
            dirty: held & 1 == 1,
        });
        (slot, victim)
    }

    fn way_to_fill(&mut self, first: usize) -> usize {
        let ways = self.ways as usize;
        let set = &self.tags[first..first + ways];
        if let Some(empty) = set.iter().position(|held| *held == EMPTY) {
            return empty;
        }
        match self.replacement {
            Replacement::Lru => {
                let used = &self.used[first..first + ways];
                (0..ways).min_by_key(|way| used[*way]).unwrap_or(0)
            }
            Replacement::Random => {
                // xorshift64 (Marsaglia, 2003): any reproducible stream will do.
                self.random ^= self.random << 13;
                self.random ^= self.random >> 7;
                self.random ^= self.random << 17;
                usize::try_from(self.random % u64::from(self.ways)).unwrap_or(0)
            }
        }
    }

    /// Every line and whether it is dirty, in the order of slots.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (Line, bool)> + '_ {
        let held = self.tags.iter().filter(|tag| **tag != EMPTY);
        held.map(|tag| (line_of(*tag), tag & 1 == 1))
    }

    pub(crate) fn clear(&mut self) {
        self.tags.fill(EMPTY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(kib: u64, ways: u32, replacement: Replacement) -> Array {
        let geometry = Geometry {
            kib,
            ways,
            latency_ns: 0.0,
        };
        Array::new(&geometry, replacement, 7)
    }

    #[test]
    fn least_recently_used_way_is_evicted() {
        let mut array = array(1, 4, Replacement::Lru); // 4 sets
        let (first, _) = array.insert(Line(0), true);
        for line in [4, 8, 12] {
            assert_eq!(array.insert(Line(line), false).1, None);
        }
        assert!(array.touch_dirty(first, Line(0)));
        let victim = Victim {
            line: Line(4),
            dirty: false,
        };
        assert_eq!(array.insert(Line(16), true).1, Some(victim));
        assert!(array.find(Line(4)).is_none() && array.find(Line(0)).is_some());
    }

    #[test]
    fn slot_hits_only_while_its_line_is_there_and_dirty() {
        let mut array = array(1, 1, Replacement::Lru);
        let (slot, _) = array.insert(Line(3), true);
        assert!(array.touch_dirty(slot, Line(3)));
        assert!(!array.touch_dirty(slot, Line(19)));
        assert!(!array.touch_dirty(Slot::NONE, Line(3)));
        assert!(array.clean(Line(3)));
        assert!(!array.touch_dirty(slot, Line(3)) && array.touch_held(slot, Line(3)));
        assert_eq!(array.remove(Line(3)), Some(false));
        assert!(!array.touch_held(slot, Line(3)));
    }

    #[test]
    fn random_replacement_is_reproducible() {
        let run = || {
            let mut array = array(1, 4, Replacement::Random);
            let victims = (0..200).map(|n| array.insert(Line(n), true).1);
            victims.collect::<Vec<_>>()
        };
        assert_eq!(run(), run());
    }
}
