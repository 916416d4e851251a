// SPDX-License-Identifier: GPL-2.0-or-later
//! The arithmetic of the hold-up: how much guest time has gone by, and when to
//! look again.
//!
//! Clock `flat-1ns`: a phase costs the largest number of instructions that any
//! vCPU began in it, plus the time in which all were halted. A fuse burns down
//! with its own vCPU's instructions only, so it is set for a short chunk, and
//! the whole is worked out anew when it has burnt.

/// Longest stretch of instructions between two looks at the clock; a cut at the
/// end of the hold-up is late by at most this, and never early.
pub(crate) const CHUNK_NS: u64 = 20_000;

/// Guest time between two sets of counters, given per vCPU and halted time.
pub(crate) fn elapsed_ns(begin: (&[u64], u64), end: (&[u64], u64)) -> u64 {
    let executed = begin
        .0
        .iter()
        .zip(end.0)
        .map(|(begin, end)| end.saturating_sub(*begin))
        .max()
        .unwrap_or(0);
    executed + end.1.saturating_sub(begin.1)
}

/// The next fuse, or `None` when the hold-up is over.
pub(crate) fn next_fuse(hold_up_ns: u64, elapsed_ns: u64) -> Option<u64> {
    match hold_up_ns.saturating_sub(elapsed_ns) {
        0 => None,
        left_ns => Some(left_ns.min(CHUNK_NS)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elapsed_is_the_largest_count_plus_halted_time() {
        let begin = ([10_u64, 20, 30], 5);
        let end = ([110_u64, 520, 31], 12);
        assert_eq!(elapsed_ns((&begin.0, begin.1), (&end.0, end.1)), 507);
        assert_eq!(elapsed_ns((&begin.0, begin.1), (&begin.0, begin.1)), 0);
        assert_eq!(elapsed_ns((&[], 1), (&[], 4)), 3);
    }

    #[test]
    fn hold_up_ends_at_its_last_nanosecond_and_not_before() {
        assert_eq!(next_fuse(100, 99), Some(1));
        assert_eq!(next_fuse(100, 100), None);
        assert_eq!(next_fuse(100, u64::MAX), None);
        assert_eq!(next_fuse(0, 0), None);
    }

    #[test]
    fn fuse_is_never_longer_than_a_chunk() {
        assert_eq!(next_fuse(u64::MAX, 0), Some(CHUNK_NS));
        assert_eq!(next_fuse(CHUNK_NS + 1, 0), Some(CHUNK_NS));
        assert_eq!(next_fuse(CHUNK_NS - 1, 0), Some(CHUNK_NS - 1));
    }
}
