// SPDX-License-Identifier: GPL-2.0-or-later
//! The two files: the guest's coherent memory, and media, which survives power loss.

use crate::mapped::map_shared;
use crate::recorder::Recorder;
use libc::c_void;
use remanence_cache::{Bytes, Cause, LINE_BYTES, Line, Memory};
use std::cell::Cell;
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const PAGE_BYTES: u64 = 4096;
const WORDS: usize = 8;

/// A file mapped shared, as words: QEMU and devices change the same bytes at any time.
#[derive(Debug)]
struct Mapping {
    words: &'static [AtomicU64],
    file: File,
    /// Size of what is left out at the file's beginning.
    skip: u64,
}

impl Mapping {
    fn open(path: &str, skip: u64) -> Result<Self, String> {
        let refused = |error: std::io::Error| format!("{path}: {error}");
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(path)
            .map_err(refused)?;
        let bytes = file.metadata().map_err(refused)?.len();
        let left = bytes.saturating_sub(skip);
        if left == 0
            || bytes % PAGE_BYTES != 0
            || skip % PAGE_BYTES != 0
            || bytes / LINE_BYTES > u64::from(u32::MAX)
        {
            return Err(format!(
                "{path}: {bytes} bytes, {skip} left out; memory has whole pages, at least one"
            ));
        }
        let len = usize::try_from(left).map_err(|error| format!("{path}: {error}"))?;
        let start = map_shared(&file, skip, len).map_err(refused)?;
        // SAFETY: the mapping is `len` bytes long, aligned to a page, and never removed; the words are
        // atomics, so others may change them.
        let words = unsafe { std::slice::from_raw_parts(start.cast::<AtomicU64>(), len / 8) };
        Ok(Self { words, file, skip })
    }

    fn line(&self, line: Line) -> &'static [AtomicU64] {
        let first = line.index() * WORDS;
        &self.words[first..first + WORDS]
    }

    fn bytes(&self, line: Line) -> Bytes {
        let mut bytes = [0; 64];
        for (to, from) in bytes.chunks_exact_mut(8).zip(self.line(line)) {
            to.copy_from_slice(&from.load(Relaxed).to_le_bytes());
        }
        bytes
    }

    fn seek(&self, from: u64, whence: libc::c_int) -> Option<u64> {
        let from = i64::try_from(from).ok()?;
        // SAFETY: finds where a piece begins or ends; nothing uses this file's position.
        let found = unsafe { libc::lseek(self.file.as_raw_fd(), from, whence) };
        u64::try_from(found).ok()
    }

    /// The first piece of what is mapped that is not a hole and begins in `from..end`; in bytes. The
    /// search for its end takes time by its size, so it is made only for a piece that exists.
    fn next_data(&self, from: u64, end: u64) -> Option<(u64, u64)> {
        let begin = self
            .seek(self.skip + from, libc::SEEK_DATA)
            .filter(|begin| *begin < self.skip + end)?;
        let piece_end = self.seek(begin, libc::SEEK_HOLE)?;
        Some((begin - self.skip, piece_end - self.skip))
    }
}

fn same(left: &[AtomicU64], right: &[AtomicU64]) -> bool {
    // SAFETY: both are mapped memory of that length. If bytes change meanwhile, the result is that of
    // a moment just before or after, which is all that a caller can rely on.
    unsafe {
        libc::memcmp(
            left.as_ptr().cast::<c_void>(),
            right.as_ptr().cast::<c_void>(),
            size_of_val(left),
        ) == 0
    }
}

/// Coherent memory and media of one machine, and the recorder of writes to media.
#[derive(Debug)]
pub(crate) struct Memories {
    coherent: Mapping,
    media: Mapping,
    /// The last piece of coherent memory that was inspected; it never becomes a hole again.
    piece: Cell<(u64, u64)>,
    pub(crate) recorder: Option<Recorder>,
}

impl Memories {
    /// Both from `skip` on, which is a multiple of the page size.
    pub(crate) fn open(coherent: &str, media: &str, skip: u64) -> Result<Self, String> {
        let memories = Self {
            coherent: Mapping::open(coherent, skip)?,
            media: Mapping::open(media, skip)?,
            piece: Cell::new((0, 0)),
            recorder: None,
        };
        let sizes = [&memories.coherent, &memories.media].map(|m| m.words.len() * 8);
        if sizes[0] != sizes[1] {
            return Err(format!(
                "memory={coherent} has {} bytes and media={media} has {}: they must be equal",
                sizes[0], sizes[1]
            ));
        }
        Ok(memories)
    }

    pub(crate) fn bytes(&self) -> u64 {
        (self.coherent.words.len() * 8) as u64
    }

    /// Whether a line is of these files; others are of DRAM, of which nothing survives.
    fn has(&self, line: Line) -> bool {
        line.index() < self.coherent.words.len() / WORDS
    }

    /// A line of media.
    pub(crate) fn media(&self, line: Line) -> Bytes {
        self.media.bytes(line)
    }

    /// The bytes that a store has just left in coherent memory.
    pub(crate) fn stored(&self, offset: u64, len: usize) -> ([u8; 64], usize) {
        let line = Line(u32::try_from(offset / LINE_BYTES).unwrap_or(u32::MAX));
        let all = self.coherent(line);
        let first = usize::try_from(offset % LINE_BYTES).unwrap_or(0);
        let len = len.min(64 - first);
        let mut bytes = [0; 64];
        bytes[..len].copy_from_slice(&all[first..first + len]);
        (bytes, len)
    }

    fn piece_after(&self, from: u64, range_end: u64) -> Option<(u64, u64)> {
        let (begin, end) = self.piece.get();
        if (begin..end).contains(&from) {
            return Some((from, end));
        }
        let piece = self.coherent.next_data(from, range_end)?;
        self.piece.set(piece);
        Some((piece.0.max(from), piece.1))
    }

    /// The first line that differs in `from..end`, both in bytes.
    fn difference_in(&self, from: u64, end: u64) -> Option<Line> {
        let words = |at: u64| usize::try_from(at / 8).unwrap_or(usize::MAX);
        let mut at = from;
        while at < end {
            let next = (at / PAGE_BYTES * PAGE_BYTES + PAGE_BYTES).min(end);
            let range = words(at)..words(next);
            if !same(
                &self.coherent.words[range.clone()],
                &self.media.words[range],
            ) {
                let lines =
                    u32::try_from(at / LINE_BYTES).ok()?..u32::try_from(next / LINE_BYTES).ok()?;
                if let Some(line) = lines.map(Line).find(|line| self.differs(*line)) {
                    return Some(line);
                }
            }
            at = next;
        }
        None
    }
}

impl Memory for Memories {
    fn coherent(&self, line: Line) -> Bytes {
        if !self.has(line) {
            return [0; 64];
        }
        self.coherent.bytes(line)
    }

    fn differs(&self, line: Line) -> bool {
        self.has(line) && !same(self.coherent.line(line), self.media.line(line))
    }

    fn next_difference(&self, from: Line, end: Line) -> Option<Line> {
        let mut at = u64::from(from.0) * LINE_BYTES;
        let end = (u64::from(end.0) * LINE_BYTES).min(self.bytes());
        while at < end {
            let (begin, piece_end) = self.piece_after(at, end)?;
            let piece_end = piece_end.min(end);
            if let Some(line) = self.difference_in(begin, piece_end) {
                return Some(line);
            }
            at = piece_end.max(begin);
        }
        None
    }

    fn accepted(&mut self, line: Line, bytes: &Bytes, cause: Cause) {
        if !self.has(line) {
            return;
        }
        let media = self.media(line);
        if let Some(recorder) = &mut self.recorder {
            recorder.accepted(line, &media, bytes, cause);
        }
    }

    fn write(&mut self, line: Line, bytes: &Bytes, cause: Cause) {
        if !self.has(line) {
            return;
        }
        let before = self.media(line);
        for (to, from) in self.media.line(line).iter().zip(bytes.chunks_exact(8)) {
            let mut word = [0; 8];
            word.copy_from_slice(from);
            to.store(u64::from_le_bytes(word), Relaxed);
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.write_back(line, &before, bytes, cause);
        }
    }

    fn revert(&mut self, line: Line) {
        if !self.has(line) {
            return;
        }
        for (to, from) in self.coherent.line(line).iter().zip(self.media.line(line)) {
            to.store(from.load(Relaxed), Relaxed);
        }
    }
}
