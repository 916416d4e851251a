// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Free chunks: runs of them, in lists by the power of two of their length. The first and the last
//! chunk of a run hold its length, so that a run that becomes free finds its neighbours at once, and
//! all of it lies in the region: opening one looks at nothing.

use super::header::Chunk;

/// Lists of runs: as many as a number of chunks has bits.
pub const BINS: usize = 32;

/// A chunk's entry in the table. `before` and `after` link the first chunks of free runs of a list;
/// they are numbers of chunks plus one, and zero is none.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Entry {
    /// What the chunk is ([`Chunk`]).
    pub word: u64,
    before: u32,
    after: u32,
}

/// The free runs of a region. For one thread at a time.
#[derive(Debug)]
pub struct Runs<'a> {
    /// First run of each list, plus one.
    bins: &'a mut [u32; BINS],
    table: &'a mut [Entry],
}

fn bin_of(count: u64) -> usize {
    count.ilog2() as usize
}

impl<'a> Runs<'a> {
    /// Over a region's lists and its table.
    pub fn new(bins: &'a mut [u32; BINS], table: &'a mut [Entry]) -> Self {
        Self { bins, table }
    }

    fn word(&self, chunk: u64) -> Chunk {
        Chunk::decode(self.table[chunk as usize].word)
    }

    /// So many chunks in a row, no longer free; their words say nothing.
    pub fn take(&mut self, count: u64) -> Option<u64> {
        let (first, length) = self.find(count)?;
        self.remove(first, length);
        if length > count {
            self.insert(first + count, length - count);
        }
        Some(first)
    }

    /// The first run that is long enough, in the list of the shortest ones that may be.
    fn find(&self, count: u64) -> Option<(u64, u64)> {
        for bin in bin_of(count)..BINS {
            let mut at = self.bins[bin];
            while at != 0 {
                let first = u64::from(at) - 1;
                match self.word(first) {
                    Chunk::Free(length) if length >= count => return Some((first, length)),
                    _ => at = self.table[first as usize].after,
                }
            }
        }
        None
    }

    /// Chunks are free again, and one run with free ones beside them.
    pub fn give(&mut self, first: u64, count: u64) {
        let (mut first, mut count) = (first, count);
        self.table[first as usize].word = Chunk::Inside.encode();
        if first > 0 {
            if let Chunk::Free(length) = self.word(first - 1) {
                first -= length;
                count += length;
                self.remove(first, length);
            }
        }
        let end = first + count;
        if end < self.table.len() as u64 {
            if let Chunk::Free(length) = self.word(end) {
                count += length;
                self.remove(end, length);
            }
        }
        self.insert(first, count);
    }

    fn insert(&mut self, first: u64, count: u64) {
        let head = &mut self.bins[bin_of(count)];
        let after = std::mem::replace(head, first as u32 + 1);
        if after != 0 {
            self.table[after as usize - 1].before = first as u32 + 1;
        }
        let word = Chunk::Free(count).encode();
        self.table[(first + count - 1) as usize].word = word;
        self.table[first as usize] = Entry {
            word,
            before: 0,
            after,
        };
    }

    fn remove(&mut self, first: u64, count: u64) {
        let Entry { before, after, .. } = self.table[first as usize];
        match before {
            0 => self.bins[bin_of(count)] = after,
            before => self.table[before as usize - 1].after = after,
        }
        if after != 0 {
            self.table[after as usize - 1].before = before;
        }
        for end in [first, first + count - 1] {
            self.table[end as usize].word = Chunk::Inside.encode();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CHUNKS: u64 = 96;

    #[test]
    fn runs_join_with_both_neighbours() {
        let (mut bins, mut table) = ([0; BINS], vec![Entry::default(); 8]);
        let mut runs = Runs::new(&mut bins, &mut table);
        runs.give(0, 8);
        let (a, b, c) = (runs.take(2), runs.take(3), runs.take(3));
        assert_eq!((a, b, c, runs.take(1)), (Some(0), Some(2), Some(5), None));
        runs.give(0, 2);
        runs.give(5, 3);
        runs.give(2, 3);
        assert_eq!(runs.take(8), Some(0));
    }

    proptest! {
        /// Against a plain map of which chunks are taken.
        #[test]
        fn no_chunk_is_given_twice_and_none_is_lost(
            steps in prop::collection::vec((any::<bool>(), 0..20_u64), 0..200),
        ) {
            let (mut bins, mut table) = ([0; BINS], vec![Entry::default(); CHUNKS as usize]);
            let mut runs = Runs::new(&mut bins, &mut table);
            runs.give(0, CHUNKS);
            let mut taken: Vec<(u64, u64)> = Vec::new();
            for (take, number) in steps {
                if take {
                    let count = number + 1;
                    let longest = longest_free(&taken);
                    let Some(first) = runs.take(count) else {
                        prop_assert!(longest < count, "{longest} in a row are free");
                        continue;
                    };
                    prop_assert!(first + count <= CHUNKS);
                    for (other, length) in &taken {
                        prop_assert!(first + count <= *other || other + length <= first);
                    }
                    taken.push((first, count));
                } else if !taken.is_empty() {
                    let (first, count) = taken.swap_remove(number as usize % taken.len());
                    runs.give(first, count);
                }
            }
            for (first, count) in taken {
                runs.give(first, count);
            }
            prop_assert_eq!(runs.take(CHUNKS), Some(0));
        }
    }

    fn longest_free(taken: &[(u64, u64)]) -> u64 {
        let mut sorted = taken.to_vec();
        sorted.push((CHUNKS, 0));
        sorted.sort_unstable();
        let mut from = 0;
        let mut longest = 0;
        for (first, count) in sorted {
            longest = longest.max(first - from);
            from = first + count;
        }
        longest
    }
}
