// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where each page of a frozen process is: in the range, where it stays, or elsewhere; then it is
//! copied to a page of the range.

use std::fs::File;
use std::io;
use std::mem::offset_of;
use std::os::unix::fs::FileExt;

use remanence_format::{REM_KEEP_PAGE_BYTES, RemKeepEntry, usize_of};

use crate::device::ELSEWHERE;
use crate::fault::{Fault, at};
use crate::pagemap_image::Run;
use crate::table::entry_of;

const PAGE: usize = usize_of(REM_KEEP_PAGE_BYTES);
const BYTES: usize = RemKeepEntry::BYTES;
const PAGES_AT_ONCE: usize = 256; // that are copied: a MiB

/// Pages of the range.
pub trait Pages {
    /// Finds successive pages of a process, as entries of a table. Those of the range stay there;
    /// the others have the frame [`ELSEWHERE`], also those that another entry has already. Returns
    /// how many these are.
    ///
    /// # Errors
    /// Those of the kernel.
    fn pin(&self, pid: u32, vaddr: u64, entries: &mut [u8]) -> Result<u32, Fault>;

    /// Takes pages that nobody has, for copies.
    ///
    /// # Errors
    /// If there are not enough.
    fn take(&self, count: usize) -> Result<Vec<u32>, Fault>;

    /// Fills one of them; durable when it returns.
    ///
    /// # Errors
    /// Those of the device.
    fn write(&self, frame: u32, content: &[u8]) -> io::Result<()>;
}

/// How many pages of a program there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Those that stay where they are.
    pub in_place: u64,
    /// Those that are copied.
    pub copied: u64,
}

/// The pages of a program.
#[derive(Debug, Default)]
pub struct Found {
    /// All of them, as a table has them.
    pub table: Vec<u8>,
    /// How many they are.
    pub counts: Counts,
}

impl Counts {
    /// With those of others.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            in_place: self.in_place + other.in_place,
            copied: self.copied + other.copied,
        }
    }
}

impl Found {
    /// Adds a process's pages in these runs. Processes come by their numbers, runs by address.
    ///
    /// # Errors
    /// If it has gone, or pages for copies are not there.
    pub fn add(&mut self, pid: u32, runs: &[Run], pages: &impl Pages) -> Result<(), Fault> {
        for run in runs {
            let first = self.table.len();
            self.table.resize(first + usize_of(run.pages) * BYTES, 0);
            let elsewhere = pages.pin(pid, run.vaddr, &mut self.table[first..])?;
            self.counts.in_place += run.pages - u64::from(elsewhere);
            if elsewhere > 0 {
                self.counts.copied += copy_elsewhere(pid, &mut self.table, first, pages)?;
            }
        }
        Ok(())
    }
}

/// Where entries from a place on are that have no page of the range. Nearly all have one, and there
/// are as many as pages: each is looked at with as little as possible.
fn places_elsewhere(table: &[u8], begin: usize) -> Vec<usize> {
    const AT: usize = offset_of!(RemKeepEntry, frame);
    let frame = ELSEWHERE.to_le_bytes();
    let entries = table[begin..].chunks_exact(BYTES).enumerate();
    entries
        .filter(|(_, entry)| entry[AT..AT + frame.len()] == frame)
        .map(|(number, _)| begin + number * BYTES)
        .collect()
}

/// Gives each entry from a place on that is elsewhere a copy. What reads as zeros needs none, and
/// has no entry then.
fn copy_elsewhere(
    pid: u32,
    table: &mut Vec<u8>,
    begin: usize,
    pages: &impl Pages,
) -> Result<u64, Fault> {
    let memory = format!("/proc/{pid}/mem");
    let memory = File::open(&memory).map_err(at(memory))?;
    let mut copier = Copier {
        pages,
        waiting: Vec::new(),
        content: Vec::new(),
        copied: 0,
    };
    for place in places_elsewhere(table, begin) {
        let vaddr = entry_of(&table[place..]).vaddr;
        let read = copier.read(&memory, place, vaddr);
        read.map_err(at(format!("/proc/{pid}/mem at {vaddr:#x}")))?;
        if copier.waiting.len() == PAGES_AT_ONCE {
            copier.flush(table)?;
        }
    }
    copier.flush(table)?;
    let copied = copier.copied;
    let gone = places_elsewhere(table, begin);
    drop_entries(table, &gone);
    Ok(copied)
}

/// Removes entries; what is between them moves at once.
fn drop_entries(table: &mut Vec<u8>, gone: &[usize]) {
    let ends = gone.iter().skip(1).copied().chain([table.len()]);
    let mut end = gone.first().copied().unwrap_or(table.len());
    for (&place, next) in gone.iter().zip(ends) {
        table.copy_within(place + BYTES..next, end);
        end += next - place - BYTES;
    }
    table.truncate(end);
}

/// Copies pages, many at a time.
struct Copier<'a, P> {
    pages: &'a P,
    /// Places of entries in the table.
    waiting: Vec<usize>,
    content: Vec<u8>,
    copied: u64,
}

impl<P: Pages> Copier<'_, P> {
    fn read(&mut self, memory: &File, place: usize, vaddr: u64) -> io::Result<()> {
        let end = self.content.len();
        self.content.resize(end + PAGE, 0);
        let page = &mut self.content[end..];
        memory.read_exact_at(page, vaddr)?;
        // An address without a page reads as zeros, too.
        if page.iter().all(|&byte| byte == 0) {
            self.content.truncate(end);
        } else {
            self.waiting.push(place);
        }
        Ok(())
    }

    fn flush(&mut self, table: &mut [u8]) -> Result<(), Fault> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let frames = self.pages.take(self.waiting.len())?;
        let parts = self.waiting.drain(..).zip(self.content.chunks_exact(PAGE));
        for ((place, content), frame) in parts.zip(frames) {
            let written = self.pages.write(frame, content);
            written.map_err(at("writing a page of the range"))?;
            let entry = RemKeepEntry {
                frame,
                ..entry_of(&table[place..])
            };
            table[place..place + BYTES].copy_from_slice(&entry.to_bytes());
            self.copied += 1;
        }
        self.content.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{decode, encode};
    use std::cell::RefCell;
    use std::collections::{HashMap, HashSet};

    /// A range that has this process's pages with an even number, each for its first owner; or
    /// none. Method: a number for each address.
    #[derive(Default)]
    struct Range {
        claimed: RefCell<HashSet<u64>>,
        written: RefCell<HashMap<u32, Vec<u8>>>,
        even: bool,
    }

    impl Pages for Range {
        fn pin(&self, pid: u32, vaddr: u64, entries: &mut [u8]) -> Result<u32, Fault> {
            let mut elsewhere = 0;
            let mut found = Vec::new();
            for number in 0..(entries.len() / BYTES) as u64 {
                let vaddr = vaddr + number * REM_KEEP_PAGE_BYTES;
                let page = vaddr / REM_KEEP_PAGE_BYTES;
                let own = self.even && page % 2 == 0 && self.claimed.borrow_mut().insert(page);
                let frame = if own {
                    u32::try_from(page & 0xffff).unwrap()
                } else {
                    elsewhere += 1;
                    ELSEWHERE
                };
                found.push(RemKeepEntry { vaddr, frame, pid });
            }
            entries.copy_from_slice(&encode(&found));
            Ok(elsewhere)
        }

        fn take(&self, count: usize) -> Result<Vec<u32>, Fault> {
            let first = u32::try_from(self.written.borrow().len()).unwrap() + 0x10000;
            Ok((first..).take(count).collect())
        }

        fn write(&self, frame: u32, content: &[u8]) -> io::Result<()> {
            self.written.borrow_mut().insert(frame, content.to_vec());
            Ok(())
        }
    }

    fn aligned(memory: &mut [u8]) -> &mut [u8] {
        let skip = memory.as_ptr().align_offset(PAGE);
        let pages = (memory.len() - skip) / PAGE;
        &mut memory[skip..skip + pages * PAGE]
    }

    /// Goal: each page is there once, by address, in place or with its content; zeros need none.
    /// Method: this process's own memory, more than is copied at a time.
    #[test]
    fn each_page_is_found_once() {
        let mut memory = vec![0u8; 1202 * PAGE];
        let memory = aligned(&mut memory);
        let vaddr = memory.as_ptr().addr() as u64;
        let odd = usize_of(1 - vaddr / REM_KEEP_PAGE_BYTES % 2);
        for (number, page) in memory.chunks_exact_mut(PAGE).enumerate() {
            // A page of zeros that was stored to.
            page[7] = 1;
            page[7] = u8::from(number % 100 != odd);
        }
        let all = (memory.len() / PAGE) as u64;
        let run = |first: u64, pages| Run {
            vaddr: vaddr + first * REM_KEEP_PAGE_BYTES,
            pages,
        };
        let pid = std::process::id();
        let runs = [run(0, 700), run(700, all - 700)];
        let zeros = (0..all).filter(|number| number % 100 == odd as u64).count() as u64;
        let check = |range: &Range, found: &Found, in_place: u64| {
            let copied = all - zeros - in_place;
            assert_eq!(found.counts, Counts { in_place, copied });
            let entries = decode(&found.table);
            assert_eq!(entries.len() as u64, all - zeros);
            assert!(entries.is_sorted_by_key(|entry| entry.vaddr));
            for entry in &entries {
                let offset = usize_of(entry.vaddr - vaddr);
                if let Some(content) = range.written.borrow().get(&entry.frame) {
                    assert_eq!(content, &memory[offset..offset + PAGE]);
                } else {
                    let page = entry.vaddr / REM_KEEP_PAGE_BYTES;
                    assert_eq!(u64::from(entry.frame), page & 0xffff);
                }
            }
        };
        let (range, mut found) = (Range::default(), Found::default());
        found.add(pid, &runs, &range).unwrap();
        check(&range, &found, 0);
        let range = Range {
            even: true,
            ..Range::default()
        };
        let mut found = Found::default();
        found.add(pid, &runs, &range).unwrap();
        let even = all / 2 + u64::from(all % 2 == 1 && odd == 1);
        check(&range, &found, even);
        // A second owner of the same pages gets copies.
        let (table, copied) = (found.table.clone(), found.counts.copied);
        found.add(pid, &runs, &range).unwrap();
        assert_eq!(
            (found.counts.in_place, found.counts.copied),
            (even, copied + all - zeros)
        );
        assert_eq!(found.table[..table.len()], table);
    }
}
