// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Words by offset, in the order in which they came: the new ones of a redo log, the old ones of
//! an undo log. They are kept as the entries of a record (`src/log.rs`), so that what was collected
//! is what is written: no second list is made of it. A few are searched entry by entry, more through
//! an index.

use crate::log::{CONTENT_WORDS, ENTRY_WORDS_MAX, LineContent, entry, kind, lines_of, words_of};

/// Up to so many words, heads of entries included, lie in the set itself.
const FEW: usize = 28;
/// Zeros after them that fill the last line of a record up.
const FILL: usize = CONTENT_WORDS - 1;

/// The set. An offset may come again ([`WordSet::push`]); a search finds the last.
///
/// The first few lie in it, behind a word that says all about them: behind a fence it is stores that
/// cost, each of them, and those to one line in a row cost least.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct WordSet {
    state: Few,
    few: [u64; FEW + FILL],
    /// All, if there were more.
    many: Many,
}

/// Bits 0 to 15: how many words; 16 to 31: where the last entry begins, if the next word may become
/// part of it; from 32 on: which offsets may be there, a bit for those that are the same modulo 32
/// words.
#[derive(Clone, Copy, Debug)]
struct Few(u64);

/// No place.
const NONE: usize = 0xffff;

impl Few {
    const EMPTY: Self = Self::new(0, NONE, 0);
    /// More than fit: all are in [`Many`].
    const SPILLED: Self = Self::new(NONE, NONE, u32::MAX);

    #[inline(always)]
    const fn new(count: usize, last: usize, seen: u32) -> Self {
        Self(count as u64 | ((last as u64) << 16) | ((seen as u64) << 32))
    }

    #[inline(always)]
    const fn count(self) -> usize {
        self.0 as u16 as usize
    }

    #[inline(always)]
    const fn last(self) -> usize {
        (self.0 >> 16) as u16 as usize
    }

    #[inline(always)]
    const fn seen(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// The bits of words in a row in [`Few`].
#[inline(always)]
fn bits(offset: u64, words: usize) -> u32 {
    let ones = if words < 32 {
        (1 << words) - 1
    } else {
        u32::MAX
    };
    u32::rotate_left(ones, (offset / 8 % 32) as u32)
}

impl Default for WordSet {
    fn default() -> Self {
        Self {
            state: Few::EMPTY,
            few: [0; FEW + FILL],
            many: Many::default(),
        }
    }
}

/// The entries of content that this set made: (offset, words).
#[inline(always)]
pub fn runs(content: &[u64]) -> impl Iterator<Item = (u64, &[u64])> {
    let mut rest = content;
    std::iter::from_fn(move || {
        let (head, after) = rest.split_first()?;
        let (offset, count) = words_of(*head);
        let (words, after) = after.split_at_checked(count)?;
        rest = after;
        Some((offset, words))
    })
}

impl WordSet {
    #[inline(always)]
    fn is_spilled(&self) -> bool {
        self.state.count() == NONE
    }

    /// What a record has of it.
    #[inline(always)]
    pub fn content(&self) -> &[u64] {
        if self.is_spilled() {
            &self.many.content[..self.many.count]
        } else {
            &self.few[..self.state.count()]
        }
    }

    /// Have zeros after it, so that its end makes a whole line, wherever that begins.
    #[inline(always)]
    pub fn fill(&mut self) {
        if self.is_spilled() {
            let zeros = self.many.count + FILL;
            self.many.content.resize(zeros, 0);
        } else {
            let count = self.state.count();
            self.few[count..count + FILL].fill(0);
        }
    }

    /// From one of its words on, in whole lines; after [`WordSet::fill`].
    #[inline(always)]
    pub fn lines(&self, from: usize) -> &[LineContent] {
        let (all, count) = if self.is_spilled() {
            (&self.many.content[..], self.many.count)
        } else {
            (&self.few[..], self.state.count())
        };
        let lines = (count - from).div_ceil(CONTENT_WORDS);
        &lines_of(&all[from..])[..lines]
    }

    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.state.count() == 0
    }

    #[inline(always)]
    pub fn clear(&mut self) {
        if self.is_spilled() {
            self.many.clear();
        }
        self.state = Few::EMPTY;
    }

    /// The number of words until now; what comes then begins an entry of its own.
    #[inline(always)]
    pub fn part(&mut self) -> usize {
        let few = self.state;
        if self.is_spilled() {
            self.many.last = usize::MAX;
        } else {
            self.state = Few::new(few.count(), NONE, few.seen());
        }
        self.content().len()
    }

    /// Where the last word of that offset is.
    #[inline(always)]
    pub fn find(&self, offset: u64) -> Option<usize> {
        if self.state.seen() & bits(offset, 1) == 0 {
            None
        } else if self.is_spilled() {
            self.many.index.find(offset)
        } else {
            self.find_few(offset)
        }
    }

    #[inline(always)]
    fn find_few(&self, offset: u64) -> Option<usize> {
        let words = &self.few[..self.state.count()];
        let (mut at, mut found) = (0, None);
        while let Some(head) = words.get(at) {
            let (start, count) = words_of(*head);
            let within = offset.wrapping_sub(start);
            if within < 8 * count as u64 {
                found = Some(at + 1 + within as usize / 8);
            }
            at += 1 + count;
        }
        found
    }

    #[inline(always)]
    pub fn value(&self, place: usize) -> u64 {
        self.content()[place]
    }

    #[inline(always)]
    pub fn replace(&mut self, place: usize, value: u64) {
        if self.is_spilled() {
            self.many.content[place] = value;
        } else {
            self.few[place] = value;
        }
    }

    #[inline(always)]
    pub fn push(&mut self, offset: u64, value: u64) {
        let (count, last) = (self.state.count(), self.state.last());
        if count + 2 > FEW {
            return self.push_many(offset, value);
        }
        let seen = self.state.seen() | bits(offset, 1);
        if let Some(head) = self.few.get_mut(last) {
            if continues(*head, offset) {
                *head += entry(0, 1, 0);
                self.few[count] = value;
                self.state = Few::new(count + 1, last, seen);
                return;
            }
        }
        self.few[count] = entry(kind::WORDS, 1, offset);
        self.few[count + 1] = value;
        self.state = Few::new(count + 2, count, seen);
    }

    /// Words in a row.
    #[inline(always)]
    pub fn push_row(&mut self, offset: u64, words: &[u64]) {
        let count = self.state.count();
        if words.len() < FEW && count + 1 + words.len() <= FEW {
            self.few[count] = entry(kind::WORDS, words.len() as u64, offset);
            for (place, word) in self.few[count + 1..].iter_mut().zip(words) {
                *place = *word;
            }
            let seen = self.state.seen() | bits(offset, words.len());
            self.state = Few::new(count + 1 + words.len(), count, seen);
        } else {
            for (at, word) in (offset..).step_by(8).zip(words) {
                self.push_many(at, *word);
            }
        }
    }

    /// A word of the record that is no change. No change may come after it.
    #[inline(always)]
    pub fn note(&mut self, word: u64) {
        let few = self.state;
        if few.count() < FEW {
            self.few[few.count()] = word;
            self.state = Few(few.0 + 1);
        } else {
            // The index takes other entries for changes, too: nobody searches any more.
            self.spill();
            self.many.content.push(word);
            self.many.count += 1;
        }
    }

    #[inline(never)]
    fn push_many(&mut self, offset: u64, value: u64) {
        self.spill();
        self.many.push(offset, value);
    }

    /// The few become many.
    #[inline(never)]
    fn spill(&mut self) {
        if !self.is_spilled() {
            self.many.set(&self.few[..self.state.count()]);
            self.state = Few::SPILLED;
        }
    }

    /// Drop what came after the first `count` words, a number that [`WordSet::part`] gave.
    pub fn truncate(&mut self, count: usize) {
        if self.is_spilled() {
            let kept = self.many.content[..count].to_vec();
            self.many.set(&kept);
        } else {
            self.state = Few::new(count, NONE, self.state.seen());
        }
    }
}

/// Words that do not fit the set itself.
#[derive(Debug, Default)]
struct Many {
    /// Some zeros may follow ([`WordSet::fill`]).
    content: Vec<u64>,
    count: usize,
    last: usize,
    index: Index,
}

impl Many {
    fn set(&mut self, content: &[u64]) {
        self.clear();
        self.content.extend_from_slice(content);
        self.count = content.len();
        self.index.add(content);
    }

    fn clear(&mut self) {
        self.content.clear();
        self.last = usize::MAX;
        self.index.clear();
    }

    fn push(&mut self, offset: u64, value: u64) {
        self.content.truncate(self.count);
        match self.content.get_mut(self.last) {
            Some(head) if continues(*head, offset) => *head += entry(0, 1, 0),
            _ => {
                self.last = self.content.len();
                self.content.push(entry(kind::WORDS, 1, offset));
            }
        }
        self.index.put(offset, self.content.len());
        self.content.push(value);
        self.count = self.content.len();
    }
}

/// Whether a word can become part of an entry.
#[inline(always)]
fn continues(head: u64, offset: u64) -> bool {
    let (start, words) = words_of(head);
    offset == start + 8 * words as u64 && words < ENTRY_WORDS_MAX
}

/// Where the last word of an offset is. Open addressing: (offset, place), offset 0 for none.
#[derive(Debug, Default)]
struct Index {
    slots: Vec<(u64, u32)>,
    used: usize,
}

impl Index {
    #[inline(always)]
    fn clear(&mut self) {
        if self.used > 0 {
            self.slots.fill((0, 0));
            self.used = 0;
        }
    }

    /// The slot of an offset, or the empty one where it would be.
    fn slot(&self, offset: u64) -> usize {
        let last = self.slots.len() - 1;
        let mut slot = ((offset >> 3).wrapping_mul(0x9e37_79b9_7f4a_7c15) as usize >> 32) & last;
        while self.slots[slot].0 != 0 && self.slots[slot].0 != offset {
            slot = (slot + 1) & last;
        }
        slot
    }

    fn find(&self, offset: u64) -> Option<usize> {
        if self.used == 0 {
            return None;
        }
        let (found, place) = self.slots[self.slot(offset)];
        (found == offset).then_some(place as usize)
    }

    fn put(&mut self, offset: u64, place: usize) {
        if self.used * 2 >= self.slots.len() {
            let known = std::mem::take(&mut self.slots);
            self.slots = vec![(0, 0); (known.len() * 2).max(4 * FEW.next_power_of_two())];
            for (offset, place) in known.into_iter().filter(|(offset, _)| *offset != 0) {
                let slot = self.slot(offset);
                self.slots[slot] = (offset, place);
            }
        }
        let slot = self.slot(offset);
        self.used += usize::from(self.slots[slot].0 == 0);
        self.slots[slot] = (offset, u32::try_from(place).unwrap_or(u32::MAX));
    }

    fn add(&mut self, content: &[u64]) {
        let mut place = 0;
        for (offset, words) in runs(content) {
            for number in 0..words.len() {
                place += 1;
                self.put(offset + 8 * number as u64, place);
            }
            place += 1;
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
            (prop::collection::vec((1..40_u64, any::<u64>(), 1..4_usize), 0..100), 0..100_usize), 1..4)) {
            let mut set = WordSet::default();
            for (pushes, kept) in rounds {
                set.clear();
                let (mut end, mut map) = (None, HashMap::new());
                for (number, (offset, value, words)) in pushes.iter().enumerate() {
                    if number == kept {
                        end = Some(set.part());
                    }
                    let row: Vec<u64> = (0..*words as u64).map(|word| value.wrapping_add(word)).collect();
                    if *words > 1 {
                        set.push_row(offset * 8, &row);
                    } else {
                        set.push(offset * 8, *value);
                    }
                    if end.is_none() {
                        map.extend((*offset..).zip(row));
                    }
                }
                if let Some(end) = end {
                    set.truncate(end);
                }
                let mut seen = HashMap::new();
                for (offset, words) in runs(set.content()) {
                    seen.extend((offset / 8..).zip(words.iter().copied()));
                }
                prop_assert_eq!(&seen, &map);
                for offset in 1..44 {
                    let found = set.find(offset * 8).map(|place| set.value(place));
                    prop_assert_eq!(found, map.get(&offset).copied());
                }
            }
        }
    }
}
