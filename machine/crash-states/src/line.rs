// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Cache lines and their words.

use crate::rng::mix;

/// Bytes of a cache line: what a write-back writes.
pub const LINE_BYTES: usize = 64;
/// Bytes that a store writes at once if they are aligned.
pub const WORD_BYTES: usize = 8;
/// Words of a line.
pub const LINE_WORDS: usize = LINE_BYTES / WORD_BYTES;

/// The content of a cache line.
pub type Line = [u8; LINE_BYTES];

/// The bytes of line number `line` in memory.
pub(crate) fn range(line: u64) -> std::ops::Range<usize> {
    let start = index(line) * LINE_BYTES;
    start..start + LINE_BYTES
}

pub(crate) fn line_of(memory: &[u8], line: u64) -> Line {
    let mut content = [0; LINE_BYTES];
    content.copy_from_slice(&memory[range(line)]);
    content
}

/// A number that came from a length or an offset in memory.
pub(crate) fn index(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// Which words of two lines differ, one bit for each.
pub(crate) fn differing(old: &Line, new: &Line) -> u8 {
    let pairs = old.chunks(WORD_BYTES).zip(new.chunks(WORD_BYTES));
    let differ = pairs.map(|(old, new)| u8::from(old != new));
    differ.rev().fold(0, |bits, bit| (bits << 1) | bit)
}

/// `new` laid over `old` in those of the differing words whose bit is set in `chosen`: bit n is of
/// the n-th word that differs.
pub(crate) fn overlaid(old: &Line, new: &Line, mut chosen: u64) -> Line {
    let mut mixed = *old;
    let words = mixed.chunks_mut(WORD_BYTES).zip(new.chunks(WORD_BYTES));
    for (to, from) in words.filter(|(to, from)| *to != *from) {
        if chosen & 1 == 1 {
            to.copy_from_slice(from);
        }
        chosen >>= 1;
    }
    mixed
}

/// What a line adds to the digest of all memory.
pub(crate) fn digest(line: u64, content: &Line) -> u64 {
    content
        .chunks(WORD_BYTES)
        .fold(mix(line ^ 0x9e37_79b9_7f4a_7c15), |sum, word| {
            let mut raw = [0; WORD_BYTES];
            raw.copy_from_slice(word);
            mix(sum.rotate_left(23) ^ u64::from_le_bytes(raw))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_counted_from_the_start_of_the_line() {
        let (old, mut new) = ([0; LINE_BYTES], [0; LINE_BYTES]);
        new[8] = 1;
        new[63] = 2;
        assert_eq!(differing(&old, &new), 0b1000_0010);
        assert_eq!(overlaid(&old, &new, 0), old);
        assert_eq!(overlaid(&old, &new, 0b11), new);
        assert_eq!(overlaid(&old, &new, 0b01)[8], 1);
        assert_eq!(overlaid(&old, &new, 0b01)[63], 0);
    }

    #[test]
    fn digest_depends_on_place_and_content() {
        let zeros = [0; LINE_BYTES];
        let mut one = zeros;
        one[60] = 1;
        let digests = [digest(0, &zeros), digest(1, &zeros), digest(0, &one)];
        assert!(digests[0] != digests[1] && digests[0] != digests[2] && digests[1] != digests[2]);
    }
}
