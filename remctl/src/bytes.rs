// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Little-endian words at a place that may not be there.

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

/// The 16-bit word at *at*.
#[must_use]
pub fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    array(bytes, at).map(u16::from_le_bytes)
}

/// The 32-bit word at *at*.
#[must_use]
pub fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    array(bytes, at).map(u32::from_le_bytes)
}

/// A size or a place of a file's format, for indices. Targets have at least 32 bits.
#[must_use]
pub fn index(word: u32) -> usize {
    usize::try_from(word).unwrap_or(usize::MAX)
}
