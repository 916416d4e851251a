// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table of an image: which page of the range is which address of which process.
//!
//! Bytes on media are not trusted: a table is used only if everything in it is right, and what is
//! wrong has a name.

use remanence_format::{REM_KEEP_PAGE_BYTES, RemKeepEntry, RemVmBody};

use crate::frames::Frames;
use crate::layout::Layout;

/// Addresses of processes are below this, also with five levels of page tables.
pub const VADDR_END: u64 = 1 << 56;
/// The kernel's `PID_MAX_LIMIT`.
pub const PID_END: u32 = 1 << 22;

/// Why a table is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// The image is of a range of another size.
    #[error("range-differs")]
    Range,
    /// Its length, its CRC, or an entry is wrong.
    #[error("table-damaged")]
    Table,
}

/// The table's length in bytes, by its body.
///
/// # Errors
/// If no table has it, or the range is another one.
pub fn length(body: &RemVmBody, layout: Layout) -> Result<usize, Damage> {
    if body.ram_bytes != layout.range_bytes() {
        return Err(Damage::Range);
    }
    let fits = body.state_bytes <= layout.table_bytes();
    if !fits || body.state_bytes % RemKeepEntry::BYTES as u64 != 0 {
        return Err(Damage::Table);
    }
    usize::try_from(body.state_bytes).map_err(|_| Damage::Table)
}

/// The entries of a table: a function of its bytes and of the body alone.
///
/// # Errors
/// What is wrong.
pub fn check(bytes: &[u8], body: &RemVmBody, layout: Layout) -> Result<Vec<RemKeepEntry>, Damage> {
    if bytes.len() != length(body, layout)? || crc32c::crc32c(bytes) != body.state_crc {
        return Err(Damage::Table);
    }
    check_entries(bytes, layout)?;
    Ok(decode(bytes))
}

/// Whether bytes are entries that make a table.
///
/// # Errors
/// If they are not sorted, or one of them is no page's.
pub fn check_entries(bytes: &[u8], layout: Layout) -> Result<(), Damage> {
    let used = Frames::none_of(layout.frames);
    let mut last = None;
    for entry in entries(bytes) {
        let order = (entry.pid, entry.vaddr);
        let right = last < Some(order)
            && (1..PID_END).contains(&entry.pid)
            && entry.vaddr % REM_KEEP_PAGE_BYTES == 0
            && entry.vaddr < VADDR_END
            && entry.frame >= layout.reserved()
            && used.insert(entry.frame);
        if !right {
            return Err(Damage::Table);
        }
        last = Some(order);
    }
    Ok(())
}

fn entries(bytes: &[u8]) -> impl Iterator<Item = RemKeepEntry> {
    let parts = bytes.chunks_exact(RemKeepEntry::BYTES);
    let parts = parts.filter_map(|part| part.try_into().ok());
    parts.map(RemKeepEntry::from_bytes)
}

/// The entry at the beginning of bytes; of too few, one that is no page's.
#[must_use]
pub fn entry_of(bytes: &[u8]) -> RemKeepEntry {
    let part = bytes.first_chunk();
    part.map_or_else(RemKeepEntry::default, RemKeepEntry::from_bytes)
}

/// Entries of bytes that were checked, or are our own.
#[must_use]
pub fn decode(bytes: &[u8]) -> Vec<RemKeepEntry> {
    entries(bytes).collect()
}

/// Where the first entry is, in bytes, that is not before this address of this process.
#[must_use]
pub fn place_of(table: &[u8], pid: u32, vaddr: u64) -> usize {
    let (mut first, mut end) = (0, table.len() / RemKeepEntry::BYTES);
    while first < end {
        let middle = usize::midpoint(first, end);
        let entry = entry_of(&table[middle * RemKeepEntry::BYTES..]);
        if (entry.pid, entry.vaddr) < (pid, vaddr) {
            first = middle + 1;
        } else {
            end = middle;
        }
    }
    first * RemKeepEntry::BYTES
}

/// One table of two, which have no address of a process in common.
#[must_use]
pub fn join(one: &[u8], other: &[u8]) -> Vec<u8> {
    let mut all = decode(one);
    all.extend(decode(other));
    all.sort_unstable_by_key(|entry| (entry.pid, entry.vaddr));
    encode(&all)
}

/// One table of those of programs, which have no process in common.
#[must_use]
pub fn merge(mut tables: Vec<Vec<u8>>) -> Vec<u8> {
    if tables.len() == 1 {
        return tables.pop().unwrap_or_default();
    }
    let mut processes: Vec<&[u8]> = Vec::new();
    for table in &tables {
        let mut rest = table.as_slice();
        while !rest.is_empty() {
            let end = place_of(rest, entry_of(rest).pid.saturating_add(1), 0);
            let (process, others) = rest.split_at(end);
            processes.push(process);
            rest = others;
        }
    }
    processes.sort_by_key(|process| entry_of(process).pid);
    processes.concat()
}

/// As they are on media, and for the kernel.
#[must_use]
pub fn encode(entries: &[RemKeepEntry]) -> Vec<u8> {
    let parts = entries.iter().map(RemKeepEntry::to_bytes);
    parts.flatten().collect()
}

/// The entries of one process.
#[must_use]
pub fn of_process(entries: &[RemKeepEntry], pid: u32) -> &[RemKeepEntry] {
    let first = entries.partition_point(|entry| entry.pid < pid);
    let end = entries.partition_point(|entry| entry.pid <= pid);
    &entries[first..end]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LAYOUT: Layout = Layout { frames: 4096 };

    fn body(bytes: &[u8]) -> RemVmBody {
        RemVmBody {
            sequence: 1,
            state_crc: crc32c::crc32c(bytes),
            state_bytes: bytes.len() as u64,
            ram_bytes: LAYOUT.range_bytes(),
            ..RemVmBody::default()
        }
    }

    fn entry(pid: u32, page: u64, frame: u32) -> RemKeepEntry {
        RemKeepEntry {
            vaddr: page * 4096,
            frame,
            pid,
        }
    }

    fn table() -> Vec<RemKeepEntry> {
        let first = LAYOUT.reserved();
        vec![
            entry(20001, 16, first + 2),
            entry(20001, 17, first),
            entry(20002, 16, 4095),
        ]
    }

    /// Goal: a right table is read, also an empty one.
    #[test]
    fn a_table_is_read() {
        let bytes = encode(&table());
        let entries = check(&bytes, &body(&bytes), LAYOUT).unwrap();
        assert_eq!(entries, table());
        assert_eq!(of_process(&entries, 20001), &table()[..2]);
        assert_eq!(of_process(&entries, 20003), &[]);
        assert_eq!(check(&[], &body(&[]), LAYOUT).unwrap(), []);
    }

    /// Goal: an address has its place, also one that is not there. Method: all edges.
    #[test]
    fn places_are_found() {
        let bytes = encode(&table());
        let place = |pid, page: u64| place_of(&bytes, pid, page * 4096) / RemKeepEntry::BYTES;
        let found = [
            (1, 0),
            (20001, 16),
            (20001, 17),
            (20001, 18),
            (20002, 16),
            (20002, 17),
        ];
        assert_eq!(
            found.map(|(pid, page)| place(pid, page)),
            [0, 0, 1, 2, 2, 3]
        );
        assert_eq!(place_of(&[], 20001, 0), 0);
    }

    /// Goal: tables of programs become one, by the processes' numbers.
    #[test]
    fn tables_are_merged() {
        let process = |pid| encode(&[entry(pid, 16, pid), entry(pid, 17, pid + 1)]);
        let one = [process(20001), process(20009)].concat();
        let other = [process(20003), process(20004)].concat();
        let all = [20001, 20003, 20004, 20009].map(process).concat();
        assert_eq!(merge(vec![other, one.clone(), Vec::new()]), all);
        assert_eq!(merge(vec![one.clone()]), one);
        assert_eq!(merge(Vec::new()), Vec::<u8>::new());
    }

    /// Goal: what no save writes is refused even under a right CRC.
    #[test]
    fn wrong_entries_are_refused() {
        let first = LAYOUT.reserved();
        let wrong = [
            ("no process", entry(0, 16, first + 9)),
            ("a frame of the record", entry(20003, 16, 0)),
            ("a frame of a table", entry(20003, 16, first - 1)),
            ("a frame beyond the range", entry(20003, 16, 4096)),
            ("a frame twice", entry(20003, 16, first)),
            ("an address twice", entry(20002, 16, first + 9)),
            ("unsorted", entry(20001, 15, first + 9)),
            ("an address beyond", entry(20003, 1 << 44, first + 9)),
            ("a number beyond", entry(PID_END, 16, first + 9)),
        ];
        for (what, entry) in wrong {
            let mut entries = table();
            entries.push(entry);
            let bytes = encode(&entries);
            let found = check(&bytes, &body(&bytes), LAYOUT);
            assert_eq!(found, Err(Damage::Table), "{what}");
        }
        let mut unaligned = table();
        unaligned[2].vaddr += 8;
        let bytes = encode(&unaligned);
        assert_eq!(check(&bytes, &body(&bytes), LAYOUT), Err(Damage::Table));
    }

    /// Goal: an image of another range, or of an impossible length, is refused by name.
    #[test]
    fn lengths_are_checked() {
        let bytes = encode(&table());
        let mut other = body(&bytes);
        other.ram_bytes += 4096;
        assert_eq!(check(&bytes, &other, LAYOUT), Err(Damage::Range));
        for state_bytes in [40, LAYOUT.table_bytes() + 16, u64::MAX - 15] {
            let mut other = body(&bytes);
            other.state_bytes = state_bytes;
            assert_eq!(length(&other, LAYOUT), Err(Damage::Table));
        }
    }

    proptest! {
        /// Goal: whatever the bytes are, checking them ends.
        #[test]
        fn any_bytes_are_checked(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = check(&bytes, &body(&bytes), LAYOUT);
        }

        /// Goal: the same for entries that are nearly right; what is taken is a table.
        #[test]
        fn taken_entries_are_right(
            given in prop::collection::vec((0..4u32, 0..8u64, 0..4200u32), 0..20),
        ) {
            let mut entries: Vec<_> = given.iter().map(|&(p, v, f)| entry(p, v, f)).collect();
            entries.sort_unstable_by_key(|entry| (entry.pid, entry.vaddr));
            let bytes = encode(&entries);
            if let Ok(found) = check(&bytes, &body(&bytes), LAYOUT) {
                let mut frames: Vec<u32> = found.iter().map(|entry| entry.frame).collect();
                frames.sort_unstable();
                frames.dedup();
                prop_assert_eq!(frames.len(), entries.len());
                prop_assert!(frames.iter().all(|frame| (LAYOUT.reserved()..4096).contains(frame)));
            }
        }

        /// Goal: a flipped bit is found.
        #[test]
        fn a_flipped_bit_is_refused(bit in 0..3 * 16 * 8usize) {
            let mut bytes = encode(&table());
            let body = body(&bytes);
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(check(&bytes, &body, LAYOUT), Err(Damage::Table));
        }
    }
}
