// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lines and records of a log.
//!
//! A line is eight words, each with a *torn bit* (its bit 63) that differs from the one it had when
//! the line was last written. So a line is whole exactly if all eight bits are the same: no checksum,
//! and no fence between content and validity. The bits 63 of the seven words of content move into
//! the line's first word:
//!
//! ```text
//! bit 63 torn | 62..56 bits 63 of words 1..7 | 55 last | 54 first | 53..48 zero | 47..0 sequence
//! ```
//!
//! A record is lines in a row with one sequence number, the first marked `first`, the last `last`.
//! It is committed if it is whole and its number is above the region's truncated number. Its content
//! is entries, each a word with kind, count and offset, and words after it as the kind has it.

use crate::pmem::LINE_WORDS;

/// Words of content in a line.
pub const CONTENT_WORDS: usize = LINE_WORDS - 1;
/// Sequence numbers and offsets have 48 bits.
pub const SEQUENCE_MAX: u64 = (1 << 48) - 1;
const TORN_BIT: u32 = 63;
const TORN: u64 = 1 << TORN_BIT;
const LAST_BIT: u32 = 55;
const LAST: u64 = 1 << LAST_BIT;
const FIRST_BIT: u32 = 54;
const FIRST: u64 = 1 << FIRST_BIT;

/// The content of one line.
pub type LineContent = [u64; CONTENT_WORDS];

/// Words as the whole lines that they fill.
#[inline(always)]
#[must_use]
pub fn lines_of(words: &[u64]) -> &[LineContent] {
    // SAFETY: an array has the layout of its words, and so many lie there.
    unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), words.len() / CONTENT_WORDS) }
}

/// The count of an entry has 12 bits.
pub const ENTRY_WORDS_MAX: usize = 4095;
/// Kinds of entries. Zero ends a record early: the rest of its last line is empty.
pub mod kind {
    /// `count` words to store from the offset on.
    pub const WORDS: u64 = 1;
    /// The byte at the offset becomes `count` (0 or 1).
    pub const BYTE: u64 = 2;
    /// Zeros from the offset on; a word with the number of bytes follows.
    pub const ZERO: u64 = 3;
    /// Memory that was written past the log: older records do not count there. A word with the
    /// number of bytes follows.
    pub const DIRECT: u64 = 4;
    /// This record ends the undo record whose sequence number stands in the offset's place.
    pub const ENDS_UNDO: u64 = 5;
}

/// The first word of an entry.
#[inline(always)]
#[must_use]
pub const fn entry(kind: u64, count: u64, offset: u64) -> u64 {
    (kind << 60) | (count << 48) | offset
}

/// The offset and the number of words of an entry of that kind.
#[inline(always)]
#[must_use]
pub const fn words_of(head: u64) -> (u64, usize) {
    (head & SEQUENCE_MAX, ((head >> 48) & 0xfff) as usize)
}

/// A line's first word, without bits of its content.
#[inline(always)]
#[must_use]
pub const fn head_of(sequence: u64, first: bool, last: bool, torn: bool) -> u64 {
    ((torn as u64) << TORN_BIT)
        | ((last as u64) << LAST_BIT)
        | ((first as u64) << FIRST_BIT)
        | sequence
}

/// Make a line of a record: as most are, without a bit 63 in its content.
#[inline(always)]
#[must_use]
pub fn pack(content: &LineContent, head: u64) -> [u64; LINE_WORDS] {
    let mut line = [head; LINE_WORDS];
    for (index, word) in content.iter().enumerate() {
        line[index + 1] = word | head & TORN;
    }
    line
}

/// Whether a line needs [`pack_moved`].
#[inline(always)]
#[must_use]
pub fn has_bits_63(content: &LineContent) -> bool {
    content.iter().fold(0, |any, word| any | word) & TORN != 0
}

/// Make a line of any content.
#[cold]
#[must_use]
pub fn pack_moved(content: &LineContent, head: u64) -> [u64; LINE_WORDS] {
    let mut line = pack(&content.map(|word| word & !TORN), head);
    for (index, word) in content.iter().enumerate() {
        line[0] |= (word >> 63) << (56 + index);
    }
    line
}

/// The content of a record that is being made, in a buffer that is used again. How far it is stays in
/// a register: a store to the buffer's length between any two to the buffer would cost as much as
/// they do, as behind a fence stores wait in their order.
#[derive(Debug)]
pub struct Content<'a> {
    buffer: &'a mut Vec<u64>,
    start: *mut u64,
    room: usize,
    words: usize,
}

impl<'a> Content<'a> {
    /// Nothing yet; room for so many words.
    #[inline(always)]
    pub fn begin(buffer: &'a mut Vec<u64>, most: usize) -> Self {
        buffer.clear();
        let room = most.next_multiple_of(CONTENT_WORDS);
        buffer.reserve(room);
        let start = buffer.as_mut_ptr();
        Self {
            buffer,
            start,
            room,
            words: 0,
        }
    }

    /// One word more.
    #[inline(always)]
    pub fn push(&mut self, word: u64) {
        assert!(self.words < self.room, "the caller made room");
        // SAFETY: within the capacity.
        unsafe { self.start.add(self.words).write(word) };
        self.words += 1;
    }

    /// Any number of words in a row, each with its offset; at most two words each.
    #[inline(always)]
    pub fn row(&mut self, mut offset: u64, count: usize, value: impl Fn(u64) -> u64) {
        let end = offset + 8 * count as u64;
        while offset < end {
            let count = ((end - offset) / 8).min(ENTRY_WORDS_MAX as u64);
            self.push(entry(kind::WORDS, count, offset));
            for at in (offset..offset + 8 * count).step_by(8) {
                self.push(value(at));
            }
            offset += 8 * count;
        }
    }
}

impl Drop for Content<'_> {
    /// Fills the last line up.
    #[inline(always)]
    fn drop(&mut self) {
        let end = self.words.next_multiple_of(CONTENT_WORDS);
        while self.words < end {
            self.push(0);
        }
        // SAFETY: so many were written.
        unsafe { self.buffer.set_len(end) };
    }
}

/// What a line says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// All its torn bits are the same.
    pub whole: bool,
    /// The torn bit of its first word.
    pub torn: bool,
    /// It is the last of its record.
    pub last: bool,
    /// It is the first of its record.
    pub first: bool,
    /// The record's number.
    pub sequence: u64,
    /// The words of content.
    pub content: LineContent,
}

/// Read a line.
#[must_use]
pub fn unpack(line: &[u64; LINE_WORDS]) -> Line {
    let head = line[0];
    let torn = head & TORN;
    let mut content = [0; CONTENT_WORDS];
    for (index, word) in content.iter_mut().enumerate() {
        *word = line[index + 1] & !TORN | (((head >> (56 + index)) & 1) << 63);
    }
    Line {
        whole: line.iter().all(|word| word & TORN == torn),
        torn: torn != 0,
        last: head & LAST != 0,
        first: head & FIRST != 0,
        sequence: head & SEQUENCE_MAX,
        content,
    }
}

/// One entry of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry<'a> {
    /// Words to store from an offset on.
    Words(u64, &'a [u64]),
    /// A byte to store.
    Byte(u64, u8),
    /// (offset, bytes) to clear.
    Zero(u64, u64),
    /// (offset, bytes) written past the log.
    Direct(u64, u64),
    /// The sequence number of the undo record that ended.
    EndsUndo(u64),
}

/// The entries of a record's content. The iterator ends at the first impossible one and then
/// yields an error.
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    rest: &'a [u64],
}

impl<'a> Entries<'a> {
    /// Of that content.
    #[must_use]
    pub fn new(content: &'a [u64]) -> Self {
        Self { rest: content }
    }

    fn parse(&mut self) -> Option<Option<Entry<'a>>> {
        let (head, rest) = self.rest.split_first()?;
        let (offset, count) = words_of(*head);
        let parsed = match head >> 60 {
            0 => return if *head == 0 { None } else { Some(None) },
            kind::WORDS if count > 0 && count <= rest.len() => {
                (Entry::Words(offset, &rest[..count]), count)
            }
            kind::BYTE if count <= 1 => (Entry::Byte(offset, u8::from(count == 1)), 0),
            kind::ZERO if !rest.is_empty() => (Entry::Zero(offset, rest[0]), 1),
            kind::DIRECT if !rest.is_empty() => (Entry::Direct(offset, rest[0]), 1),
            kind::ENDS_UNDO => (Entry::EndsUndo(offset), 0),
            _ => return Some(None),
        };
        self.rest = &rest[parsed.1..];
        Some(Some(parsed.0))
    }
}

impl<'a> Iterator for Entries<'a> {
    /// An entry, or none where the content is impossible.
    type Item = Option<Entry<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        let parsed = self.parse();
        if !matches!(parsed, Some(Some(_))) {
            self.rest = &[];
        }
        parsed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_reads_as_it_was_written() {
        let content = [u64::MAX, 1, 1 << 63, 0, u64::MAX >> 1, 77, TORN | 5];
        for torn in [false, true] {
            let head = head_of(0x1234_5678_9abc, true, false, torn);
            let line = unpack(&pack_moved(&content, head));
            assert!(line.whole && line.first && !line.last);
            assert_eq!((line.torn, line.sequence), (torn, 0x1234_5678_9abc));
            assert_eq!(line.content, content);
        }
    }

    /// Any part of a new line over an old one of the other pass is no whole line.
    #[test]
    fn torn_line_is_never_whole() {
        let old = pack_moved(&[u64::MAX; 7], head_of(5, true, true, false));
        let new = pack(&[3; 7], head_of(9, true, true, true));
        for kept in 1..255_u32 {
            let mut line = old;
            for (index, word) in line.iter_mut().enumerate() {
                if (kept >> index) & 1 == 1 {
                    *word = new[index];
                }
            }
            assert!(!unpack(&line).whole, "words {kept:#010b} of the new line");
        }
    }

    #[test]
    fn entries_of_any_words_end() {
        let content = [entry(kind::WORDS, 9, 64), 1, 2];
        assert_eq!(Entries::new(&content).collect::<Vec<_>>(), [None]);
        let content = [entry(kind::BYTE, 1, 9), entry(kind::WORDS, 1, 64), 7, 0, 5];
        let found: Vec<_> = Entries::new(&content).map(Option::unwrap).collect();
        assert_eq!(found, [Entry::Byte(9, 1), Entry::Words(64, &[7])]);
    }
}
