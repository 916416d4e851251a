// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where record and tables are in a range (`format/rem_keep.h`).

use remanence_format::{REM_KEEP_PAGE_BYTES, REM_KEEP_TABLE_OFFSET, RemKeepEntry};

/// A range's parts, by the number of its pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Pages of the range.
    pub frames: u32,
}

impl Layout {
    /// Of a range of this many pages.
    #[must_use]
    pub fn of(frames: u32) -> Self {
        Self { frames }
    }

    /// The range's size.
    #[must_use]
    pub fn range_bytes(self) -> u64 {
        u64::from(self.frames) * REM_KEEP_PAGE_BYTES
    }

    /// A table's size at most.
    #[must_use]
    pub fn table_bytes(self) -> u64 {
        let entries_bytes = u64::from(self.frames) * RemKeepEntry::BYTES as u64;
        entries_bytes.next_multiple_of(REM_KEEP_PAGE_BYTES)
    }

    /// Where the table of a sequence's slot is.
    #[must_use]
    pub fn table_offset(self, sequence: u32) -> u64 {
        REM_KEEP_TABLE_OFFSET + u64::from(sequence % 2) * self.table_bytes()
    }

    /// The first pages, which have record and tables and are never a program's.
    #[must_use]
    pub fn reserved(self) -> u32 {
        let bytes = REM_KEEP_TABLE_OFFSET + 2 * self.table_bytes();
        // A range that is too small for its tables has no other page.
        u32::try_from(bytes.div_ceil(REM_KEEP_PAGE_BYTES))
            .map_or(self.frames, |reserved| reserved.min(self.frames))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: nothing of a range lies in two parts. Method: 512 MiB, by hand.
    #[test]
    fn parts_lie_side_by_side() {
        let layout = Layout::of(131_072);
        assert_eq!(layout.range_bytes(), 536_870_912);
        assert_eq!(layout.table_bytes(), 0x20_0000);
        assert_eq!(layout.table_offset(8), 0x8000);
        assert_eq!(layout.table_offset(9), 0x20_8000);
        assert_eq!(layout.reserved(), 8 + 2 * 512);
        assert_eq!(Layout::of(4).reserved(), 4);
    }
}
