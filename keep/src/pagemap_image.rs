// SPDX-License-Identifier: Apache-2.0 OR MIT
//! CRIU's list of a process's pages (`pagemap-PID.img`): those whose content it did not write are
//! taken out, so that a restore knows nothing of them.
//!
//! A file is two magic words, a head, and entries; before each is its length. An entry that is
//! lazy and not present has its content in the process, or in our range.

use prost::Message;
use remanence_format::REM_KEEP_PAGE_BYTES;

use crate::table::VADDR_END;

const MAGIC: [u8; 8] = [0x19, 0x43, 0x56, 0x54, 0x25, 0x40, 0x08, 0x56];
const LENGTH_BYTES: usize = 4;
const PARENT: u32 = 1;
const LAZY: u32 = 2;
const PRESENT: u32 = 4;

/// `pagemap_head` of CRIU.
#[derive(Clone, PartialEq, Eq, Message)]
struct Head {
    #[prost(uint32, tag = "1")]
    pages_id: u32,
}

/// `pagemap_entry` of CRIU. From 4.1 on, the number of pages has 64 bits.
#[derive(Clone, PartialEq, Eq, Message)]
struct Entry {
    #[prost(uint64, tag = "1")]
    vaddr: u64,
    #[prost(uint32, tag = "2")]
    compat_nr_pages: u32,
    #[prost(bool, optional, tag = "3")]
    in_parent: Option<bool>,
    #[prost(uint32, optional, tag = "4")]
    flags: Option<u32>,
    #[prost(uint64, optional, tag = "5")]
    nr_pages: Option<u64>,
}

/// Why a file is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// It does not begin as such a file.
    #[error("no list of pages")]
    Magic,
    /// It ends within a record.
    #[error("a list of pages is cut short")]
    Short,
    /// A record is no message.
    #[error("a list of pages has a damaged record")]
    Record,
    /// An entry has no pages, pages that no process has, or those of another entry.
    #[error("a list of pages has a wrong address")]
    Address,
    /// A page is in an image that we do not have.
    #[error("a list of pages refers to another image")]
    Parent,
}

/// Successive pages of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The address of the first.
    pub vaddr: u64,
    /// How many.
    pub pages: u64,
}

/// A file in two parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    /// The file without its lazy entries.
    pub rest: Vec<u8>,
    /// Those, by address.
    pub lazy: Vec<Run>,
}

/// A record as it stands in the file, and its message.
type Record<'a> = (&'a [u8], &'a [u8]);

fn next<'a>(bytes: &mut &'a [u8]) -> Result<Option<Record<'a>>, Damage> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let (length, rest) = bytes
        .split_first_chunk::<LENGTH_BYTES>()
        .ok_or(Damage::Short)?;
    let length = usize::try_from(u32::from_le_bytes(*length)).map_err(|_| Damage::Short)?;
    let message = rest.get(..length).ok_or(Damage::Short)?;
    let whole = &bytes[..LENGTH_BYTES + length];
    *bytes = &rest[length..];
    Ok(Some((whole, message)))
}

impl Entry {
    fn run(&self) -> Result<Run, Damage> {
        let pages = self
            .nr_pages
            .unwrap_or_else(|| u64::from(self.compat_nr_pages));
        let bytes = pages.checked_mul(REM_KEEP_PAGE_BYTES);
        let end = bytes.and_then(|bytes| self.vaddr.checked_add(bytes));
        let right = pages > 0
            && self.vaddr % REM_KEEP_PAGE_BYTES == 0
            && end.is_some_and(|end| end <= VADDR_END);
        let vaddr = self.vaddr;
        right.then_some(Run { vaddr, pages }).ok_or(Damage::Address)
    }
}

impl Run {
    fn end(self) -> u64 {
        self.vaddr + self.pages * REM_KEEP_PAGE_BYTES
    }
}

/// Takes the lazy entries out of a file. What is returned is no larger than what is given.
///
/// # Errors
/// What is wrong with the file.
pub fn split(bytes: &[u8]) -> Result<Split, Damage> {
    let mut left = bytes.strip_prefix(&MAGIC).ok_or(Damage::Magic)?;
    let mut rest = MAGIC.to_vec();
    let (head, message) = next(&mut left)?.ok_or(Damage::Short)?;
    Head::decode(message).map_err(|_| Damage::Record)?;
    rest.extend_from_slice(head);
    let mut lazy = Vec::new();
    let mut end = 0;
    while let Some((whole, message)) = next(&mut left)? {
        let entry = Entry::decode(message).map_err(|_| Damage::Record)?;
        let run = entry.run()?;
        if run.vaddr < end {
            return Err(Damage::Address);
        }
        end = run.end();
        let flags = entry.flags.unwrap_or(PRESENT);
        if flags & PARENT != 0 || entry.in_parent == Some(true) {
            return Err(Damage::Parent);
        }
        if flags & (LAZY | PRESENT) == LAZY {
            lazy.push(run);
        } else {
            rest.extend_from_slice(whole);
        }
    }
    Ok(Split { rest, lazy })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn record(message: &impl Message) -> Vec<u8> {
        let bytes = message.encode_to_vec();
        let length = u32::try_from(bytes.len()).unwrap();
        [length.to_le_bytes().to_vec(), bytes].concat()
    }

    fn entry(vaddr: u64, pages: u32, flags: Option<u32>) -> Entry {
        Entry {
            vaddr,
            compat_nr_pages: pages,
            flags,
            ..Entry::default()
        }
    }

    fn image(entries: &[Entry]) -> Vec<u8> {
        let mut bytes = [MAGIC.to_vec(), record(&Head { pages_id: 3 })].concat();
        bytes.extend(entries.iter().flat_map(record));
        bytes
    }

    /// Goal: lazy entries go, all else stays byte by byte. Method: a file by hand.
    #[test]
    fn lazy_entries_are_taken_out() {
        let kept = [
            entry(0x1000, 2, Some(PRESENT)),
            entry(0x8000, 1, Some(PRESENT | LAZY)),
            entry(0xa000, 1, None),
        ];
        let mut large = entry(0x1_0000_0000, 0, Some(LAZY));
        large.nr_pages = Some(1 << 33);
        let lazy = [entry(0x3000, 5, Some(LAZY)), large];
        let all = [&kept[..1], &lazy[..1], &kept[1..], &lazy[1..]].concat();
        let found = split(&image(&all)).unwrap();
        assert_eq!(found.rest, image(&kept));
        let runs = [(0x3000, 5), (0x1_0000_0000, 1 << 33)];
        assert_eq!(found.lazy, runs.map(|(vaddr, pages)| Run { vaddr, pages }));
        let again = split(&found.rest).unwrap();
        assert_eq!((again.rest, again.lazy), (found.rest, Vec::new()));
    }

    /// Goal: the bytes are CRIU's, not only ours. Method: a record of CRIU 4.2.
    #[test]
    fn bytes_of_criu_are_read() {
        let message = [0x08, 0x80, 0x60, 0x10, 0x00, 0x20, 0x02, 0x28, 0x01];
        let mut bytes = image(&[]);
        bytes.extend([9, 0, 0, 0]);
        bytes.extend(message);
        let (vaddr, pages) = (12288, 1);
        assert_eq!(split(&bytes).unwrap().lazy, [Run { vaddr, pages }]);
    }

    /// Goal: what is hostile is refused by name, and takes no memory.
    #[test]
    fn hostile_files_are_refused() {
        let with = |tail: &[u8]| split(&[&image(&[]), tail].concat());
        assert_eq!(split(&[]), Err(Damage::Magic));
        assert_eq!(split(&image(&[])[..8]), Err(Damage::Short));
        assert_eq!(with(&[1, 0]), Err(Damage::Short));
        assert_eq!(with(&[0xff, 0xff, 0xff, 0xff, 8]), Err(Damage::Short));
        let long_varint = [&[12, 0, 0, 0, 8][..], &[0x80; 11]].concat();
        assert_eq!(with(&long_varint), Err(Damage::Record));
        assert_eq!(with(&[2, 0, 0, 0, 0x12, 0x7f]), Err(Damage::Record));
        for wrong in [
            entry(0x1001, 1, Some(LAZY)),
            entry(0x1000, 0, Some(LAZY)),
            entry(VADDR_END, 1, Some(LAZY)),
            Entry {
                nr_pages: Some(u64::MAX),
                ..entry(0x1000, 1, Some(LAZY))
            },
        ] {
            assert_eq!(split(&image(&[wrong])), Err(Damage::Address));
        }
        let overlap = [entry(0x1000, 2, None), entry(0x2000, 1, None)];
        assert_eq!(split(&image(&overlap)), Err(Damage::Address));
        let parent = [entry(0x1000, 1, Some(PARENT))];
        assert_eq!(split(&image(&parent)), Err(Damage::Parent));
    }

    proptest! {
        /// Goal: whatever the bytes are, reading them ends, and nothing is added.
        #[test]
        fn any_bytes_are_read(tail in prop::collection::vec(any::<u8>(), 0..200)) {
            let bytes = [image(&[]), tail].concat();
            if let Ok(found) = split(&bytes) {
                prop_assert!(found.rest.len() <= bytes.len());
            }
        }

        /// Goal: the same for records that are nearly right.
        #[test]
        fn any_records_are_read(
            given in prop::collection::vec((0..9u64, 0..4u32, any::<u8>()), 0..20),
        ) {
            let entries: Vec<Entry> = given
                .iter()
                .map(|&(page, pages, flags)| entry(page * 4096, pages, Some(u32::from(flags))))
                .collect();
            if let Ok(found) = split(&image(&entries)) {
                prop_assert_eq!(split(&found.rest).unwrap().lazy, []);
            }
        }
    }
}
