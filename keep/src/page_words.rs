// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kernel's words about pages of a process (`/proc/PID/pagemap`).

const WORD_BYTES: usize = 8;
const PRESENT: u64 = 1 << 63;
const SWAPPED: u64 = 1 << 62;
const NUMBER: u64 = (1 << 55) - 1;

/// Where the content of an address is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Where {
    /// Nowhere: it was never stored to.
    Absent,
    /// In the page of memory of this number.
    Page(u64),
    /// Elsewhere, on a disk for example.
    Elsewhere,
}

/// What a word says.
#[must_use]
pub fn read_word(word: u64) -> Where {
    match (word & PRESENT != 0, word & SWAPPED != 0) {
        // Without rights the number is 0, which is no page's.
        (true, _) if word & NUMBER != 0 => Where::Page(word & NUMBER),
        (false, false) => Where::Absent,
        _ => Where::Elsewhere,
    }
}

/// What successive words say.
pub fn read_words(bytes: &[u8]) -> impl Iterator<Item = Where> {
    let words = bytes.chunks_exact(WORD_BYTES);
    words.map(|part| {
        let mut word = [0; WORD_BYTES];
        word.copy_from_slice(part);
        read_word(u64::from_le_bytes(word))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the kernel's bits are read (Documentation/admin-guide/mm/pagemap.rst).
    #[test]
    fn bits_are_those_of_the_kernel() {
        let soft_dirty_exclusive = 3 << 55;
        assert_eq!(read_word(0), Where::Absent);
        assert_eq!(read_word(soft_dirty_exclusive), Where::Absent);
        let page = PRESENT | soft_dirty_exclusive | 0x12_3456;
        assert_eq!(read_word(page), Where::Page(0x12_3456));
        assert_eq!(read_word(PRESENT), Where::Elsewhere);
        assert_eq!(read_word(SWAPPED | 0x77), Where::Elsewhere);
        let bytes = [page.to_le_bytes(), 0u64.to_le_bytes()].concat();
        let words: Vec<Where> = read_words(&bytes).collect();
        assert_eq!(words, [Where::Page(0x12_3456), Where::Absent]);
    }

    /// Goal: the kernel's words of a page of our own say that it is there. Method: the file.
    #[test]
    fn a_page_of_this_process_is_there() {
        use std::os::unix::fs::FileExt;
        let held = vec![1u8; 3 * 4096];
        let page = (held.as_ptr().addr() as u64).div_ceil(4096);
        let file = std::fs::File::open("/proc/self/pagemap").unwrap();
        let mut bytes = [0; 16];
        file.read_exact_at(&mut bytes, page * 8).unwrap();
        assert!(read_words(&bytes).all(|found| found != Where::Absent));
        drop(held);
    }
}
