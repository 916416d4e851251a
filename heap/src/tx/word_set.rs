// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Words by offset, in the order in which they came: the new ones of a redo log, the old ones of
//! an undo log. A few are searched one by one, more through an index.

/// Up to here a search looks at all.
const PLAIN_MAX: usize = 8;

/// The set. An offset may come again ([`WordSet::push`]); a search finds the last.
///
/// The first few lie in it, beside their number: stores to one line in a row are one to the cache.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct WordSet {
    count: usize,
    few: [(u64, u64); PLAIN_MAX],
    /// All, if there are more.
    many: Vec<(u64, u64)>,
    /// Open addressing: place + 1, or 0. Empty while there are few entries.
    index: Vec<u32>,
    indexed: bool,
}

impl WordSet {
    #[inline(always)]
    pub fn entries(&self) -> &[(u64, u64)] {
        if self.count <= PLAIN_MAX {
            &self.few[..self.count]
        } else {
            &self.many
        }
    }

    #[inline(always)]
    fn entries_mut(&mut self) -> &mut [(u64, u64)] {
        if self.count <= PLAIN_MAX {
            &mut self.few[..self.count]
        } else {
            &mut self.many
        }
    }

    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    #[inline(always)]
    pub fn clear(&mut self) {
        self.count = 0;
        if self.indexed {
            self.index.fill(0);
            self.indexed = false;
        }
    }

    /// Where the last entry of that offset is.
    #[inline(always)]
    pub fn find(&self, offset: u64) -> Option<usize> {
        if self.indexed {
            return self.find_indexed(offset);
        }
        self.few[..self.count.min(PLAIN_MAX)]
            .iter()
            .rposition(|(at, _)| *at == offset)
    }

    #[inline(always)]
    pub fn value(&self, place: usize) -> u64 {
        self.entries()[place].1
    }

    #[inline(always)]
    pub fn replace(&mut self, place: usize, value: u64) {
        self.entries_mut()[place].1 = value;
    }

    #[inline(always)]
    pub fn push(&mut self, offset: u64, value: u64) {
        if let Some(entry) = self.few.get_mut(self.count) {
            *entry = (offset, value);
            self.count += 1;
        } else {
            self.push_many(offset, value);
        }
    }

    #[inline(never)]
    fn push_many(&mut self, offset: u64, value: u64) {
        if self.count == PLAIN_MAX {
            self.many.clear();
            self.many.extend(self.few);
        }
        self.many.push((offset, value));
        self.count += 1;
        self.index_last();
    }

    /// Drop what came after the first `count`.
    pub fn truncate(&mut self, count: usize) {
        let before = self.count;
        self.count = count.min(before);
        if before > PLAIN_MAX {
            self.many.truncate(self.count);
            if self.count <= PLAIN_MAX {
                self.few[..self.count].copy_from_slice(&self.many);
            }
        }
        if self.indexed {
            self.index.fill(0);
            self.indexed = false;
            if self.count > PLAIN_MAX {
                self.rebuild();
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn rebuild(&mut self) {
        let size = (self.many.len() * 4)
            .next_power_of_two()
            .max(self.index.len());
        self.index.clear();
        self.index.resize(size, 0);
        self.indexed = true;
        for place in 0..self.many.len() {
            self.put(place);
        }
    }

    fn index_last(&mut self) {
        if !self.indexed || self.many.len() * 2 > self.index.len() {
            self.rebuild();
        } else {
            self.put(self.many.len() - 1);
        }
    }

    fn slot(&self, offset: u64) -> usize {
        let hash = (offset >> 3).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        hash as usize & (self.index.len() - 1)
    }

    fn put(&mut self, place: usize) {
        let offset = self.many[place].0;
        let mut slot = self.slot(offset);
        loop {
            match self.index[slot] as usize {
                0 => break,
                other if self.many[other - 1].0 == offset => break,
                _ => slot = (slot + 1) & (self.index.len() - 1),
            }
        }
        self.index[slot] = u32::try_from(place + 1).unwrap_or(u32::MAX);
    }

    fn find_indexed(&self, offset: u64) -> Option<usize> {
        let mut slot = self.slot(offset);
        loop {
            match self.index[slot] as usize {
                0 => return None,
                place if self.many[place - 1].0 == offset => return Some(place - 1),
                _ => slot = (slot + 1) & (self.index.len() - 1),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        /// The set against a map, through growth, truncation and use again.
        #[test]
        fn finds_the_last_of_each(rounds in prop::collection::vec(
            (prop::collection::vec((0..40_u64, any::<u64>()), 0..100), 0..100_usize), 1..4)) {
            let mut set = WordSet::default();
            for (pushes, kept) in rounds {
                set.clear();
                for (offset, value) in &pushes {
                    set.push(offset * 8, *value);
                }
                let kept = kept.min(pushes.len());
                set.truncate(kept);
                let map: HashMap<u64, u64> = pushes[..kept].iter().copied().collect();
                for offset in 0..40 {
                    let found = set.find(offset * 8).map(|place| set.value(place));
                    prop_assert_eq!(found, map.get(&offset).copied());
                }
            }
        }
    }
}
