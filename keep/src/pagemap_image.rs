// SPDX-License-Identifier: Apache-2.0 OR MIT
//! CRIU's list of a process's pages (`pagemap-PID.img`): those whose content it did not write are
//! taken out, so that a restore knows nothing of them.
//!
//! A file is two magic words, a head, and entries; before each is its length. An entry that is
//! lazy and not present has its content in the process, one of the parent in an older image.

use std::ops::Range;

use prost::Message;
use remanence_format::{REM_KEEP_PAGE_BYTES, usize_of};

use crate::table::VADDR_END;

const MAGIC: [u8; 8] = [0x19, 0x43, 0x56, 0x54, 0x25, 0x40, 0x08, 0x56];
const LENGTH_BYTES: usize = 4;
const PARENT: u32 = 1;
const LAZY: u32 = 2;
const PRESENT: u32 = 4;
/// Where addresses of processes end with four levels of page tables.
pub const ALL_END: u64 = 1 << 47;

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
}

/// Successive pages of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The address of the first.
    pub vaddr: u64,
    /// How many.
    pub pages: u64,
}

/// Where pages of the new file of contents come from, in its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The next pages of the file of contents that CRIU wrote.
    File {
        /// How many.
        pages: u64,
    },
    /// The process.
    Memory(Run),
}

/// A file in two parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    /// The file without what is left to us.
    pub rest: Vec<u8>,
    /// The file of contents that belongs to it (`pages-N.img`).
    pub pages_id: u32,
    /// What that consists of.
    pub sources: Vec<Source>,
    /// What is left to us, by address.
    pub left: Vec<Run>,
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

/// A message of CRIU's files, with its length before it.
pub(crate) fn record(message: &impl Message) -> Vec<u8> {
    let length = u32::try_from(message.encoded_len()).unwrap_or(u32::MAX);
    let mut bytes = length.to_le_bytes().to_vec();
    bytes.extend(message.encode_to_vec());
    bytes
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

    fn place(&self) -> u32 {
        let parent = if self.in_parent == Some(true) {
            PARENT
        } else {
            PRESENT
        };
        self.flags.unwrap_or(parent)
    }

    /// Pages whose content is in the file of contents. Every CRIU reads the smaller number.
    fn present(run: Run) -> impl Iterator<Item = Self> {
        let step = u64::from(u32::MAX);
        (0..run.pages)
            .step_by(usize_of(step))
            .map(move |first| Self {
                vaddr: run.vaddr + first * REM_KEEP_PAGE_BYTES,
                compat_nr_pages: u32::try_from((run.pages - first).min(step)).unwrap_or(u32::MAX),
                flags: Some(PRESENT),
                ..Self::default()
            })
    }
}

impl Run {
    /// The address after the last.
    #[must_use]
    pub fn end(self) -> u64 {
        self.vaddr + self.pages * REM_KEEP_PAGE_BYTES
    }

    /// Between two addresses, of which the second is larger.
    fn between(begin: u64, end: u64) -> Self {
        Self {
            vaddr: begin,
            pages: (end - begin) / REM_KEEP_PAGE_BYTES,
        }
    }

    /// Its parts in spans of addresses, which are sorted, and those outside of them.
    #[must_use]
    pub fn cut(self, spans: &[Range<u64>]) -> Vec<(bool, Self)> {
        let mut parts = Vec::new();
        let mut at = self.vaddr;
        let first = spans.partition_point(|span| span.end <= at);
        for span in &spans[first..] {
            let (begin, end) = (span.start.max(at), span.end.min(self.end()));
            if begin >= end {
                break;
            }
            if at < begin {
                parts.push((false, Self::between(at, begin)));
            }
            parts.push((true, Self::between(begin, end)));
            at = end;
        }
        if at < self.end() {
            parts.push((false, Self::between(at, self.end())));
        }
        parts
    }
}

/// Takes what is left to us out of a file: pages that CRIU leaves in the process, and those of its
/// parent (`parent`), which has none, in memory that is the process's *own*. Other pages of the
/// parent, those of the kernel, become pages of the file: a restore looks at them.
///
/// # Errors
/// What is wrong with the file.
pub fn split(bytes: &[u8], own: &[Range<u64>]) -> Result<Split, Damage> {
    let mut left = bytes.strip_prefix(&MAGIC).ok_or(Damage::Magic)?;
    let (head, message) = next(&mut left)?.ok_or(Damage::Short)?;
    let mut found = Split {
        rest: [&MAGIC, head].concat(),
        pages_id: Head::decode(message).map_err(|_| Damage::Record)?.pages_id,
        sources: Vec::new(),
        left: Vec::new(),
    };
    let mut end = 0;
    while let Some((whole, message)) = next(&mut left)? {
        let entry = Entry::decode(message).map_err(|_| Damage::Record)?;
        let run = entry.run()?;
        if run.vaddr < end {
            return Err(Damage::Address);
        }
        end = run.end();
        match entry.place() & (LAZY | PRESENT | PARENT) {
            LAZY => found.left.push(run),
            PARENT => {
                for (is_own, part) in run.cut(own) {
                    if is_own {
                        found.left.push(part);
                    } else {
                        let entries = Entry::present(part);
                        found.rest.extend(entries.flat_map(|entry| record(&entry)));
                        found.sources.push(Source::Memory(part));
                    }
                }
            }
            flags if flags & PARENT == 0 && flags & PRESENT != 0 => {
                found.rest.extend_from_slice(whole);
                found.sources.push(Source::File { pages: run.pages });
            }
            _ => return Err(Damage::Record),
        }
    }
    Ok(found)
}

/// A file that has all addresses of a process, without their content.
#[must_use]
pub fn all_addresses() -> Vec<u8> {
    let all = Run::between(REM_KEEP_PAGE_BYTES, ALL_END);
    let head = record(&Head { pages_id: 1 });
    let entries = Entry::present(all).flat_map(|entry| record(&entry));
    MAGIC.into_iter().chain(head).chain(entries).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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

    fn split(bytes: &[u8]) -> Result<Split, Damage> {
        super::split(bytes, &[])
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
        assert_eq!(found.left, runs.map(|(vaddr, pages)| Run { vaddr, pages }));
        let again = split(&found.rest).unwrap();
        assert_eq!((again.rest, again.left), (found.rest, Vec::new()));
    }

    /// Goal: the bytes are CRIU's, not only ours. Method: a record of CRIU 4.2.
    #[test]
    fn bytes_of_criu_are_read() {
        let message = [0x08, 0x80, 0x60, 0x10, 0x00, 0x20, 0x02, 0x28, 0x01];
        let mut bytes = image(&[]);
        bytes.extend([9, 0, 0, 0]);
        bytes.extend(message);
        let (vaddr, pages) = (12288, 1);
        assert_eq!(split(&bytes).unwrap().left, [Run { vaddr, pages }]);
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
        for flags in [0, LAZY | PARENT, PRESENT | PARENT] {
            let wrong = [entry(0x1000, 1, Some(flags))];
            assert_eq!(split(&image(&wrong)), Err(Damage::Record));
        }
    }

    /// Goal: pages of the parent are left to us in the process's own memory alone; the others get
    /// into the file, between those that it has. Method: spans at all edges.
    #[test]
    fn pages_of_the_parent_are_told_apart() {
        let old = Entry {
            in_parent: Some(true),
            ..entry(0x9000, 1, None)
        };
        let all = [
            entry(0x1000, 1, Some(PRESENT)),
            entry(0x2000, 6, Some(PARENT)),
            old,
            entry(0xb000, 1, Some(PRESENT | LAZY)),
        ];
        let run = |vaddr, pages| Run { vaddr, pages };
        let spans = [
            0x1000..0x3000,
            0x4000..0x6000,
            0x6000..0x7000,
            0xb000..0xc000,
        ];
        let found = super::split(&image(&all), &spans).unwrap();
        let left = [run(0x2000, 1), run(0x4000, 2), run(0x6000, 1)];
        assert_eq!(found.left, left);
        assert_eq!(found.pages_id, 3);
        let here = [(0x3000, 1), (0x7000, 1), (0x9000, 1)];
        let here = here.map(|(vaddr, pages)| entry(vaddr, pages, Some(PRESENT)));
        let kept = [&all[..1], &here[..], &all[3..]].concat();
        assert_eq!(found.rest, image(&kept));
        let memory = |vaddr| Source::Memory(run(vaddr, 1));
        let file = Source::File { pages: 1 };
        let sources = [file, memory(0x3000), memory(0x7000), memory(0x9000), file];
        assert_eq!(found.sources, sources);
        let everywhere = [0..0x2000, 0x2000..ALL_END];
        let none = super::split(&image(&all[1..2]), &everywhere).unwrap();
        assert_eq!((none.left, none.sources), (vec![run(0x2000, 6)], vec![]));
    }

    /// Goal: every address of a process is in the parent's list, and nothing twice.
    #[test]
    fn all_addresses_are_there() {
        let bytes = all_addresses();
        let found = split(&bytes).unwrap();
        assert_eq!(found.rest, bytes);
        let pages = found.sources.iter().map(|source| match source {
            Source::File { pages } => *pages,
            Source::Memory(_) => 0,
        });
        assert_eq!(pages.sum::<u64>(), ALL_END / REM_KEEP_PAGE_BYTES - 1);
    }

    proptest! {
        /// Goal: whatever the bytes are, reading them ends, and nothing is added.
        #[test]
        fn any_bytes_are_read(tail in prop::collection::vec(any::<u8>(), 0..200)) {
            let bytes = [image(&[]), tail].concat();
            // An entry of the parent may become many.
            if let Ok(found) = split(&bytes) {
                prop_assert!(found.rest.len() <= bytes.len() + (1 << 14) * found.sources.len());
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
                let again = split(&found.rest).unwrap();
                prop_assert_eq!(again.left, []);
                prop_assert_eq!(again.rest, found.rest);
            }
        }
    }
}
