// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where each page of a frozen process is: in the range, where it stays, or elsewhere; then it is
//! copied to a page of the range.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use remanence_format::{REM_KEEP_PAGE_BYTES, RemKeepEntry, usize_of};

use crate::fault::{Fault, at};
use crate::frames::Frames;
use crate::page_words::{Where, read_words};
use crate::pagemap_image::Run;

const PAGE: usize = usize_of(REM_KEEP_PAGE_BYTES);
const WORD_BYTES: u64 = 8;
const WORDS_AT_ONCE: u64 = 1 << 13;
const PAGES_AT_ONCE: usize = 256; // that are copied: a MiB

/// Pages of the range for copies.
pub trait Pages {
    /// The page of the range that a page of memory is, by its number.
    fn frame_of(&self, page_number: u64) -> Option<u32>;

    /// Takes pages that nobody has.
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

/// What the kernel says of a frozen process.
#[derive(Debug)]
pub struct Process {
    pid: u32,
    words: File,
    memory: File,
}

/// The pages of a program.
#[derive(Debug, Default)]
pub struct Found {
    /// All of them, in no order.
    pub entries: Vec<RemKeepEntry>,
    /// How many stay where they are.
    pub in_place: u64,
    /// How many are copied.
    pub copied: u64,
}

impl Process {
    /// Of this number.
    ///
    /// # Errors
    /// If it is not there.
    pub fn open(pid: u32) -> Result<Self, Fault> {
        let open = |name: &str| {
            let path = format!("/proc/{pid}/{name}");
            File::open(&path).map_err(at(path))
        };
        let (words, memory) = (open("pagemap")?, open("mem")?);
        Ok(Self { pid, words, memory })
    }

    /// Adds its pages. *claimed* has those of the range that another process has already.
    ///
    /// # Errors
    /// If it has gone, or pages for copies are not there.
    pub fn collect(
        &self,
        runs: &[Run],
        pages: &impl Pages,
        claimed: &Frames,
        found: &mut Found,
    ) -> Result<(), Fault> {
        let mut copier = Copier {
            process: self,
            pages,
            waiting: Vec::new(),
            content: Vec::new(),
        };
        for run in runs {
            let mut done = 0;
            while done < run.pages {
                let count = (run.pages - done).min(WORDS_AT_ONCE);
                let first = run.vaddr + done * REM_KEEP_PAGE_BYTES;
                self.collect_some(first, count, claimed, &mut copier, found)?;
                done += count;
            }
        }
        copier.flush(found)
    }

    fn collect_some(
        &self,
        first: u64,
        count: u64,
        claimed: &Frames,
        copier: &mut Copier<'_, impl Pages>,
        found: &mut Found,
    ) -> Result<(), Fault> {
        let mut bytes = vec![0; usize_of(count * WORD_BYTES)];
        let place = first / REM_KEEP_PAGE_BYTES * WORD_BYTES;
        self.words
            .read_exact_at(&mut bytes, place)
            .map_err(at(format!("/proc/{}/pagemap", self.pid)))?;
        let addresses = (first..).step_by(PAGE);
        for (vaddr, page) in addresses.zip(read_words(&bytes)) {
            let frame = match page {
                Where::Absent => continue,
                Where::Page(number) => copier.pages.frame_of(number),
                Where::Elsewhere => None,
            };
            match frame.filter(|&frame| claimed.insert(frame)) {
                Some(frame) => {
                    found.entries.push(self.entry(vaddr, frame));
                    found.in_place += 1;
                }
                None => copier.add(vaddr, found)?,
            }
        }
        Ok(())
    }

    fn entry(&self, vaddr: u64, frame: u32) -> RemKeepEntry {
        let pid = self.pid;
        RemKeepEntry { vaddr, frame, pid }
    }
}

/// Copies pages, many at a time.
struct Copier<'a, P> {
    process: &'a Process,
    pages: &'a P,
    waiting: Vec<u64>,
    content: Vec<u8>,
}

impl<P: Pages> Copier<'_, P> {
    fn add(&mut self, vaddr: u64, found: &mut Found) -> Result<(), Fault> {
        let end = self.content.len();
        self.content.resize(end + PAGE, 0);
        let page = &mut self.content[end..];
        self.process
            .memory
            .read_exact_at(page, vaddr)
            .map_err(at(format!("/proc/{}/mem at {vaddr:#x}", self.process.pid)))?;
        // An address without a page reads as zeros, too.
        if page.iter().all(|&byte| byte == 0) {
            self.content.truncate(end);
            return Ok(());
        }
        self.waiting.push(vaddr);
        if self.waiting.len() == PAGES_AT_ONCE {
            self.flush(found)?;
        }
        Ok(())
    }

    fn flush(&mut self, found: &mut Found) -> Result<(), Fault> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let frames = self.pages.take(self.waiting.len())?;
        let parts = self.waiting.drain(..).zip(self.content.chunks_exact(PAGE));
        for ((vaddr, content), frame) in parts.zip(frames) {
            let written = self.pages.write(frame, content);
            written.map_err(at("writing a page of the range"))?;
            found.entries.push(self.process.entry(vaddr, frame));
            found.copied += 1;
        }
        self.content.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::collections::HashMap;

    /// A range in which all pages of this process lie, or none.
    #[derive(Default)]
    struct Range {
        numbers: RefCell<HashMap<u64, u32>>,
        written: RefCell<HashMap<u32, Vec<u8>>>,
        all: bool,
    }

    impl Pages for Range {
        fn frame_of(&self, page_number: u64) -> Option<u32> {
            let mut numbers = self.numbers.borrow_mut();
            let next = u32::try_from(numbers.len()).unwrap();
            self.all
                .then(|| *numbers.entry(page_number).or_insert(next))
        }

        fn take(&self, count: usize) -> Result<Vec<u32>, Fault> {
            let first = u32::try_from(self.written.borrow().len()).unwrap() + 1000;
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

    /// Goal: each page is there once, in place or with its content; zeros need none. Method: this
    /// process's own memory, more than is copied at a time.
    #[test]
    fn each_page_is_found_once() {
        let mut memory = vec![0u8; 602 * PAGE];
        let memory = aligned(&mut memory);
        let pages = memory.len() / PAGE;
        for (number, page) in memory.chunks_exact_mut(PAGE).enumerate() {
            // A page of zeros that was stored to.
            page[7] = 1;
            page[7] = u8::from(number % 100 != 0);
        }
        let zeros = pages.div_ceil(100) as u64;
        let vaddr = memory.as_ptr().addr() as u64;
        let run = Run {
            vaddr,
            pages: pages as u64,
        };
        let process = Process::open(std::process::id()).unwrap();
        let claimed = Frames::none_of(2000);
        let mut found = Found::default();
        let range = Range::default();
        process
            .collect(&[run], &range, &claimed, &mut found)
            .unwrap();
        assert_eq!((found.in_place, found.copied), (0, run.pages - zeros));
        assert_eq!(found.entries.len() as u64, found.copied);
        for entry in &found.entries {
            let offset = usize_of(entry.vaddr - vaddr);
            assert_eq!(
                range.written.borrow()[&entry.frame],
                memory[offset..offset + PAGE]
            );
        }
        if rustix::process::geteuid().is_root() {
            let range = Range {
                all: true,
                ..Range::default()
            };
            let mut found = Found::default();
            process
                .collect(&[run], &range, &claimed, &mut found)
                .unwrap();
            assert_eq!((found.in_place, found.copied), (run.pages, 0));
            // A second owner of the same pages gets copies.
            process
                .collect(&[run], &range, &claimed, &mut found)
                .unwrap();
            assert_eq!(
                (found.in_place, found.copied),
                (run.pages, run.pages - zeros)
            );
        }
    }
}
