// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sets of pages of the range, and the spans that are not in them.

use std::sync::atomic::{AtomicU64, Ordering};

/// Successive pages, as the kernel has them (`struct rem_keep_span`).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first.
    pub first: u32,
    /// How many.
    pub pages: u32,
}

impl Span {
    /// One page.
    #[must_use]
    pub fn one(frame: u32) -> Self {
        let (first, pages) = (frame, 1);
        Self { first, pages }
    }

    /// Its first half and the rest; none of a single page.
    #[must_use]
    pub fn halves(self) -> Option<[Self; 2]> {
        let (first, pages) = (self.first, self.pages / 2);
        let rest = Self {
            first: first + pages,
            pages: self.pages - pages,
        };
        (pages > 0).then_some([Self { first, pages }, rest])
    }
}

/// A set of pages; threads may insert at the same time.
#[derive(Debug)]
pub struct Frames {
    words: Vec<AtomicU64>,
    frames: u32,
}

fn place(frame: u32) -> (usize, u64) {
    ((frame / u64::BITS) as usize, 1 << (frame % u64::BITS))
}

impl Frames {
    /// The empty set, for a range of this many pages.
    #[must_use]
    pub fn none_of(frames: u32) -> Self {
        let words = (0..frames.div_ceil(u64::BITS)).map(|_| AtomicU64::new(0));
        let words = words.collect();
        Self { words, frames }
    }

    /// Whether the page was not there before; false for one outside of the range.
    #[must_use]
    pub fn insert(&self, frame: u32) -> bool {
        let (word, bit) = place(frame);
        frame < self.frames && self.words[word].fetch_or(bit, Ordering::Relaxed) & bit == 0
    }

    /// Whether the page is there.
    #[must_use]
    pub fn has(&self, frame: u32) -> bool {
        let (word, bit) = place(frame);
        frame < self.frames && self.words[word].load(Ordering::Relaxed) & bit != 0
    }

    /// Pages from *first* on that are not there, as spans.
    #[must_use]
    pub fn absent(&self, first: u32) -> Vec<Span> {
        let mut spans: Vec<Span> = Vec::new();
        for frame in (first..self.frames).filter(|&frame| !self.has(frame)) {
            match spans.last_mut() {
                Some(last) if last.first + last.pages == frame => last.pages += 1,
                _ => spans.push(Span::one(frame)),
            }
        }
        spans
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        /// Goal: a page is either in the set or in one span. Method: a set of the library.
        #[test]
        fn spans_are_the_complement(
            given in prop::collection::vec(0..300u32, 0..200),
            frames in 0..260u32,
            first in 0..260u32,
        ) {
            let set = Frames::none_of(frames);
            let mut naive = BTreeSet::new();
            for frame in given {
                prop_assert_eq!(set.insert(frame), frame < frames && naive.insert(frame));
            }
            let spans = set.absent(first);
            for pair in spans.windows(2) {
                prop_assert!(pair[0].first + pair[0].pages < pair[1].first);
            }
            let found: BTreeSet<u32> = spans
                .iter()
                .flat_map(|span| span.first..span.first + span.pages)
                .collect();
            let expected = (first..frames).filter(|frame| !naive.contains(frame)).collect();
            prop_assert_eq!(found, expected);
        }
    }
}
