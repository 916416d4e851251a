// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where lines are: private arrays of each core, and a shared last level.
//!
//! Invariants:
//! - A line that is dirty has one owner: one core's private arrays, or the last level.
//! - Within a core at most one array holds a line dirty.
//! - While a core holds a line dirty, no other core holds it at all.
//! - An inclusive last level holds every line that a core holds.
//! - `holders` has a core's bit exactly while one of its arrays holds the line.
//!
//! Instructions have a first level of their own, in front of the other levels. It never has anything
//! that they need to know of: nothing in it is dirty, and it need not be told of stores.

use crate::array::{Array, Slot, Victim};
use crate::profile::Profile;
use crate::{Core, Line};

/// The level that served an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Served {
    First,
    Second,
    /// The last level, or another core's caches through it.
    Shared,
    Memory,
}

#[derive(Clone, Debug)]
struct Private {
    l1: Array,
    l1i: Option<Array>,
    l2: Option<Array>,
}

impl Private {
    /// Removes the line from both arrays; returns whether it was dirty.
    fn remove(&mut self, line: Line) -> bool {
        let first = self.l1.remove(line) == Some(true);
        let second = self.l2.as_mut().and_then(|l2| l2.remove(line)) == Some(true);
        first | second
    }

    fn clean(&mut self, line: Line) -> bool {
        let first = self.l1.clean(line);
        first | self.l2.as_mut().is_some_and(|l2| l2.clean(line))
    }

    fn is_dirty(&self, line: Line) -> bool {
        let dirty = |array: &Array| array.find(line).is_some_and(|slot| array.is_dirty(slot));
        dirty(&self.l1) || self.l2.as_ref().is_some_and(dirty)
    }

    fn arrays(&self) -> impl Iterator<Item = &Array> {
        std::iter::once(&self.l1).chain(&self.l2)
    }

    fn arrays_mut(&mut self) -> impl Iterator<Item = &mut Array> {
        std::iter::once(&mut self.l1).chain(&mut self.l2)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Hierarchy {
    cores: Vec<Private>,
    llc: Option<Array>,
    inclusive: bool,
    holders: Vec<u64>,
    /// Dirty lines evicted from all caches, for the caller to write back.
    pub(crate) evicted: Vec<Line>,
}

/// The cores whose bits are set.
fn bits(mut mask: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        (mask != 0).then(|| {
            let bit = mask.trailing_zeros() as usize;
            mask &= mask - 1;
            bit
        })
    })
}

impl Hierarchy {
    pub(crate) fn new(profile: &Profile, cores: usize, lines: u32) -> Self {
        let array =
            |geometry, seed: usize| Array::new(&geometry, profile.replacement, seed as u64 * 2 + 1);
        let private = |core| Private {
            l1: array(profile.l1, core * 2 + 1),
            l1i: profile.l1i.map(|geometry| array(geometry, core * 2 + 1)),
            l2: profile.l2.map(|geometry| array(geometry, core * 2 + 2)),
        };
        Self {
            cores: (0..cores).map(private).collect(),
            llc: profile.llc.map(|geometry| array(geometry, 0)),
            inclusive: profile.inclusive,
            holders: vec![0; lines as usize],
            evicted: Vec::new(),
        }
    }

    #[inline]
    pub(crate) fn store_again(&mut self, core: Core, slot: Slot, line: Line) -> bool {
        self.cores[core.0].l1.touch_dirty(slot, line)
    }

    #[inline]
    pub(crate) fn load_again(&mut self, core: Core, slot: Slot, line: Line) -> bool {
        self.cores[core.0].l1.touch_held(slot, line)
    }

    pub(crate) fn store(&mut self, core: Core, line: Line) -> (Slot, Served) {
        let l1 = &mut self.cores[core.0].l1;
        if let Some(slot) = l1.find(line) {
            l1.touch(slot);
            if l1.is_dirty(slot) {
                return (slot, Served::First);
            }
            let shared = self.holders[line.index()] != 1 << core.0;
            self.claim(core, line);
            self.cores[core.0].l1.set_dirty(slot, true);
            let served = if shared {
                Served::Shared
            } else {
                Served::First
            };
            return (slot, served);
        }
        let served = self.claim(core, line);
        self.include(line);
        (self.fill(core, line, true), served)
    }

    pub(crate) fn load(&mut self, core: Core, line: Line) -> (Slot, Served) {
        let own = &mut self.cores[core.0];
        if let Some(slot) = own.l1.find(line) {
            own.l1.touch(slot);
            return (slot, Served::First);
        }
        let second = own.l2.as_mut().and_then(|l2| {
            let slot = l2.find(line)?;
            l2.touch(slot);
            Some(())
        });
        if second.is_some() {
            return (self.fill(core, line, false), Served::Second);
        }
        let others = self.holders[line.index()];
        let in_llc = self.touch_llc(line);
        let mut dirty = false;
        for other in bits(others) {
            dirty |= self.cores[other].clean(line);
        }
        if dirty {
            self.push_down(Victim { line, dirty });
        }
        self.include(line);
        let served = if others != 0 || in_llc {
            Served::Shared
        } else {
            Served::Memory
        };
        (self.fill(core, line, false), served)
    }

    #[inline]
    pub(crate) fn fetch_again(&mut self, core: Core, slot: Slot, line: Line) -> bool {
        let l1i = &mut self.cores[core.0].l1i;
        l1i.as_mut().is_none_or(|l1i| l1i.touch_held(slot, line))
    }

    /// Gets a line of instructions. Who has the line dirty keeps it so.
    pub(crate) fn fetch(&mut self, core: Core, line: Line) -> (Slot, Served) {
        let own = &mut self.cores[core.0];
        let Some(l1i) = &mut own.l1i else {
            return (Slot::NONE, Served::First);
        };
        if let Some(slot) = l1i.find(line) {
            l1i.touch(slot);
            return (slot, Served::First);
        }
        let (slot, _) = l1i.insert(line, false);
        (slot, self.fetch_below(core, line))
    }

    fn fetch_below(&mut self, core: Core, line: Line) -> Served {
        let Some(l2) = &mut self.cores[core.0].l2 else {
            return self.fetch_shared(line);
        };
        if let Some(slot) = l2.find(line) {
            l2.touch(slot);
            return Served::Second;
        }
        let served = self.fetch_shared(line);
        let holders = self.holders[line.index()];
        let is_dirty = |holder: usize| self.cores[holder].is_dirty(line);
        if !bits(holders).any(is_dirty) {
            self.include(line);
            self.holders[line.index()] |= 1 << core.0;
            self.fill_second(core, Victim { line, dirty: false });
        }
        served
    }

    fn fetch_shared(&mut self, line: Line) -> Served {
        let in_llc = self.touch_llc(line);
        if in_llc || self.holders[line.index()] != 0 {
            Served::Shared
        } else {
            Served::Memory
        }
    }

    fn touch_llc(&mut self, line: Line) -> bool {
        let Some(llc) = &mut self.llc else {
            return false;
        };
        let Some(slot) = llc.find(line) else {
            return false;
        };
        llc.touch(slot);
        true
    }

    /// Makes `core` the exclusive owner of `line`: no other core has a copy, and no array has it
    /// dirty.
    fn claim(&mut self, core: Core, line: Line) -> Served {
        let others = self.holders[line.index()] & !(1 << core.0);
        for other in bits(others) {
            self.cores[other].remove(line);
        }
        self.holders[line.index()] &= 1 << core.0;
        let in_llc = self.touch_llc(line);
        if let Some(llc) = &mut self.llc {
            if self.inclusive {
                llc.clean(line);
            } else {
                llc.remove(line);
            }
        }
        let own_l2 = self.cores[core.0].l2.as_mut();
        let in_l2 = own_l2.is_some_and(|l2| {
            l2.clean(line);
            l2.find(line).is_some()
        });
        match (in_l2, others != 0 || in_llc) {
            (true, _) => Served::Second,
            (false, true) => Served::Shared,
            (false, false) => Served::Memory,
        }
    }

    /// Puts the line into an inclusive last level before a core gets it.
    fn include(&mut self, line: Line) {
        if !self.inclusive {
            return;
        }
        let Some(llc) = &mut self.llc else { return };
        if llc.find(line).is_some() {
            return;
        }
        let (_, victim) = llc.insert(line, false);
        if let Some(victim) = victim {
            let mut dirty = victim.dirty;
            for holder in bits(std::mem::take(&mut self.holders[victim.line.index()])) {
                dirty |= self.cores[holder].remove(victim.line);
            }
            if dirty {
                self.evicted.push(victim.line);
            }
        }
    }

    /// Puts a line into the first level, and the line it evicts one level down.
    fn fill(&mut self, core: Core, line: Line, dirty: bool) -> Slot {
        self.holders[line.index()] |= 1 << core.0;
        let own = &mut self.cores[core.0];
        let (slot, victim) = own.l1.insert(line, dirty);
        if let Some(victim) = victim {
            self.fill_second(core, victim);
        }
        slot
    }

    /// Puts a line into the second level, and the line it evicts one level down.
    fn fill_second(&mut self, core: Core, line: Victim) {
        let own = &mut self.cores[core.0];
        let Some(l2) = &mut own.l2 else {
            self.leave(core, line);
            return;
        };
        if let Some(second) = l2.find(line.line) {
            if line.dirty {
                l2.set_dirty(second, true);
            }
            return;
        }
        let (_, victim) = l2.insert(line.line, line.dirty);
        if let Some(victim) = victim {
            match own.l1.find(victim.line) {
                Some(first) => {
                    if victim.dirty {
                        own.l1.set_dirty(first, true);
                    }
                }
                None => self.leave(core, victim),
            }
        }
    }

    /// Handles a line that has left all of the core's arrays.
    fn leave(&mut self, core: Core, victim: Victim) {
        self.holders[victim.line.index()] &= !(1 << core.0);
        self.push_down(victim);
    }

    fn push_down(&mut self, victim: Victim) {
        let Some(llc) = &mut self.llc else {
            if victim.dirty {
                self.evicted.push(victim.line);
            }
            return;
        };
        if let Some(slot) = llc.find(victim.line) {
            if victim.dirty {
                llc.set_dirty(slot, true);
            }
            return;
        }
        assert!(
            !self.inclusive,
            "an inclusive last level holds all lines of cores"
        );
        let (_, pushed) = llc.insert(victim.line, victim.dirty);
        if let Some(pushed) = pushed.filter(|pushed| pushed.dirty) {
            self.evicted.push(pushed.line);
        }
    }

    /// Removes the line from every cache; returns whether it was dirty.
    pub(crate) fn drop_line(&mut self, line: Line) -> bool {
        let mut dirty = false;
        for holder in bits(std::mem::take(&mut self.holders[line.index()])) {
            dirty |= self.cores[holder].remove(line);
        }
        dirty | (self.llc.as_mut().and_then(|llc| llc.remove(line)) == Some(true))
    }

    /// Makes the line clean in every cache; returns whether it was dirty.
    pub(crate) fn clean_line(&mut self, line: Line) -> bool {
        let mut dirty = false;
        for holder in bits(self.holders[line.index()]) {
            dirty |= self.cores[holder].clean(line);
        }
        dirty | self.llc.as_mut().is_some_and(|llc| llc.clean(line))
    }

    /// Whether this core's private caches hold the line dirty.
    pub(crate) fn is_dirty_in(&self, core: Core, line: Line) -> bool {
        self.cores[core.0].is_dirty(line)
    }

    /// Whether any cache holds the line dirty.
    pub(crate) fn is_dirty(&self, line: Line) -> bool {
        let llc = self.llc.as_ref();
        bits(self.holders[line.index()]).any(|core| self.cores[core].is_dirty(line))
            || llc.is_some_and(|llc| llc.find(line).is_some_and(|slot| llc.is_dirty(slot)))
    }

    /// Dirty lines of the core's private caches and the last level, in order.
    pub(crate) fn dirty_of(&self, core: Core) -> Vec<Line> {
        let arrays = self.cores[core.0].arrays().chain(&self.llc);
        sorted_dirty(arrays)
    }

    /// Dirty lines of all caches, in order.
    pub(crate) fn dirty_of_all(&self) -> Vec<Line> {
        let private = self.cores.iter().flat_map(Private::arrays);
        sorted_dirty(private.chain(&self.llc))
    }

    /// Capacity of the core's private caches and the last level, in lines.
    pub(crate) fn capacity_of(&self, core: Core) -> u64 {
        let arrays = self.cores[core.0].arrays().chain(&self.llc);
        arrays.map(Array::capacity).sum()
    }

    /// Empties the core's private caches and the last level, except for lines that an inclusive
    /// last level holds for other cores.
    pub(crate) fn empty(&mut self, core: Core) {
        let own = &mut self.cores[core.0];
        for array in own.arrays_mut() {
            for (line, _) in array.lines() {
                self.holders[line.index()] &= !(1 << core.0);
            }
            array.clear();
        }
        if let Some(l1i) = &mut own.l1i {
            l1i.clear();
        }
        let Some(llc) = &mut self.llc else { return };
        if self.inclusive {
            let kept: Vec<_> = llc
                .lines()
                .filter(|(line, _)| self.holders[line.index()] != 0)
                .collect();
            llc.clear();
            for (line, _) in kept {
                llc.insert(line, false);
            }
        } else {
            llc.clear();
        }
    }

    #[cfg(test)]
    pub(crate) fn check(&self, lines: u32) {
        for line in (0..lines).map(Line) {
            let holders: Vec<usize> = (0..self.cores.len())
                .filter(|core| self.cores[*core].arrays().any(|a| a.find(line).is_some()))
                .collect();
            assert_eq!(
                bits(self.holders[line.index()]).collect::<Vec<_>>(),
                holders
            );
            let private = holders
                .iter()
                .filter(|c| self.cores[**c].is_dirty(line))
                .count();
            let llc = self.llc.as_ref().and_then(|llc| llc.find(line));
            let shared = llc.is_some_and(|slot| self.llc.as_ref().unwrap().is_dirty(slot));
            assert!(private + usize::from(shared) <= 1, "{line:?} has one owner");
            assert!(
                private == 0 || holders.len() == 1,
                "{line:?} is dirty and shared"
            );
            assert!(!self.inclusive || holders.is_empty() || llc.is_some());
        }
    }
}

fn sorted_dirty<'a>(arrays: impl Iterator<Item = &'a Array>) -> Vec<Line> {
    let lines = arrays.flat_map(Array::lines);
    let mut dirty: Vec<Line> = lines
        .filter(|(_, dirty)| *dirty)
        .map(|(line, _)| line)
        .collect();
    dirty.sort_unstable();
    dirty
}
