// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A table of a save that was checked, with the CRCs of its blocks. Entries that are dropped after
//! that cost what their blocks do, and move no others: a save has little time then.

use remanence_format::RemKeepEntry;

use crate::layout::Layout;
use crate::pagemap_image::Run;
use crate::table::{Damage, check_entries, place_of};

const ENTRY: usize = RemKeepEntry::BYTES;
const BLOCK: usize = 8192 * ENTRY; // bytes

/// Entries that make a table.
#[derive(Debug, Default)]
pub struct Sealed {
    bytes: Vec<u8>,
    /// CRCs of its blocks; the last may be short.
    blocks: Vec<u32>,
    /// Where entries are that were dropped, sorted.
    gone: Vec<usize>,
}

impl Sealed {
    /// Checks a table.
    ///
    /// # Errors
    /// What is wrong.
    pub fn new(bytes: Vec<u8>, layout: Layout) -> Result<Self, Damage> {
        check_entries(&bytes, layout)?;
        Ok(Self {
            blocks: bytes.chunks(BLOCK).map(crc32c::crc32c).collect(),
            gone: Vec::new(),
            bytes,
        })
    }

    /// Drops a process's pages in these runs, and says how many.
    pub fn forget(&mut self, pid: u32, runs: &[Run]) -> usize {
        let before = self.gone.len();
        for run in runs {
            let first = place_of(&self.bytes, pid, run.vaddr);
            let end = place_of(&self.bytes, pid, run.end());
            self.gone.extend((first..end).step_by(ENTRY));
        }
        self.gone.sort_unstable();
        self.gone.dedup();
        self.gone.len() - before
    }

    /// Its length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len() - self.gone.len() * ENTRY
    }

    /// Whether it has no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where the parts between dropped entries begin and end.
    fn spans(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let begins = self.gone.iter().map(|place| place + ENTRY);
        let ends = self.gone.iter().copied().chain([self.bytes.len()]);
        [0].into_iter().chain(begins).zip(ends)
    }

    /// Its bytes, in parts.
    pub fn parts(&self) -> impl Iterator<Item = &[u8]> {
        let parts = self.spans().map(|(begin, end)| &self.bytes[begin..end]);
        parts.filter(|part| !part.is_empty())
    }

    /// Its bytes as a whole.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        if self.gone.is_empty() {
            self.bytes
        } else {
            self.to_bytes()
        }
    }

    /// A copy of its bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let parts: Vec<&[u8]> = self.parts().collect();
        parts.concat()
    }

    /// CRC-32C of all of it.
    #[must_use]
    pub fn crc(&self) -> u32 {
        let mut crc = 0;
        for (mut at, end) in self.spans() {
            while at < end {
                let block = at / BLOCK;
                let block_end = self.bytes.len().min((block + 1) * BLOCK);
                let to = end.min(block_end);
                let part = if at % BLOCK == 0 && to == block_end {
                    self.blocks[block]
                } else {
                    crc32c::crc32c(&self.bytes[at..to])
                };
                crc = crc32c::crc32c_combine(crc, part, to - at);
                at = to;
            }
        }
        crc
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{decode, encode};
    use proptest::prelude::*;

    const PAGE: u64 = 4096;

    fn layout() -> Layout {
        Layout { frames: 1 << 20 }
    }

    fn entries(count: u32) -> Vec<RemKeepEntry> {
        let entry = |number| RemKeepEntry {
            vaddr: u64::from(number) * PAGE,
            frame: (1 << 19) + number,
            pid: 20000 + number / 10000,
        };
        (0..count).map(entry).collect()
    }

    proptest! {
        /// Goal: bytes and CRC are those of a table that never had the dropped entries. Method:
        /// tables around the size of blocks, with runs that begin and end anywhere.
        #[test]
        fn dropped_entries_were_never_there(
            count in prop::sample::select(vec![0u32, 1, 8191, 8192, 8193, 20000]),
            runs in prop::collection::vec((0u32..2, 0u64..20000, 1u64..300), 0..6),
        ) {
            let mut kept = entries(count);
            let mut sealed = Sealed::new(encode(&kept), layout()).unwrap();
            let mut gone = 0;
            for (process, first, pages) in runs {
                let (pid, vaddr) = (20000 + process, first * PAGE);
                gone += sealed.forget(pid, &[Run { vaddr, pages }]);
                let end = vaddr + pages * PAGE;
                let is_in = |one: &RemKeepEntry| (vaddr..end).contains(&one.vaddr);
                kept.retain(|one| one.pid != pid || !is_in(one));
            }
            let bytes = encode(&kept);
            prop_assert_eq!(gone, count as usize - kept.len());
            prop_assert_eq!(sealed.len(), bytes.len());
            prop_assert_eq!(sealed.is_empty(), kept.is_empty());
            prop_assert_eq!(sealed.crc(), crc32c::crc32c(&bytes));
            prop_assert_eq!(decode(&sealed.to_bytes()), kept);
            prop_assert_eq!(sealed.into_bytes(), bytes);
        }
    }

    /// Goal: what is no table is not sealed.
    #[test]
    fn a_wrong_table_is_refused() {
        let mut wrong = entries(3);
        wrong[2].frame = wrong[0].frame;
        assert_eq!(
            Sealed::new(encode(&wrong), layout()).unwrap_err(),
            Damage::Table
        );
    }
}
