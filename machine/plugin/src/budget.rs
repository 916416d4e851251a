// SPDX-License-Identifier: GPL-2.0-or-later
//! The arithmetic of the hold-up: how much guest time has passed, and when to check again.
//!
//! Clock `flat-1ns`, without a model of caches: a phase costs the largest number of instructions
//! that any vCPU began in it, plus the time in which all were halted. A fuse burns with its own
//! vCPU's instructions only, so it is set for a short chunk, and the time is computed again when
//! it has burnt.

use crate::control::CPUS_MAX;

/// Most instructions between two checks of the clock; a cut at the end of the hold-up is late by
/// at most this, and never early.
pub(crate) const CHUNK_NS: u64 = 20_000;

/// All clocks at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clocks {
    pub(crate) halted_ns: u64,
    /// Time of one instruction.
    pub(crate) cycle_ps: u64,
    pub(crate) count: [u64; CPUS_MAX],
    /// Time waited for memory, by the model of caches.
    pub(crate) waited_ns: [u64; CPUS_MAX],
}

impl Clocks {
    /// The clock of one vCPU, without halts.
    pub(crate) fn of_cpu_ns(&self, cpu: usize) -> u64 {
        let executed_ns = u128::from(self.count[cpu]) * u128::from(self.cycle_ps) / 1000;
        self.waited_ns[cpu] + u64::try_from(executed_ns).unwrap_or(u64::MAX)
    }
}

/// How much one vCPU's clock advanced, without halts.
fn own_ns(begin: &Clocks, end: &Clocks, cpu: usize) -> u64 {
    end.of_cpu_ns(cpu).saturating_sub(begin.of_cpu_ns(cpu))
}

/// The largest `own_ns` of any vCPU.
fn executed_ns(begin: &Clocks, end: &Clocks) -> u64 {
    let own = |cpu| own_ns(begin, end, cpu);
    (0..CPUS_MAX).map(own).max().unwrap_or(0)
}

fn halted_ns(begin: &Clocks, end: &Clocks) -> u64 {
    end.halted_ns.saturating_sub(begin.halted_ns)
}

/// Guest time from one moment to another: the largest clock of any vCPU, and halted time.
pub(crate) fn elapsed_ns(begin: &Clocks, end: &Clocks) -> u64 {
    executed_ns(begin, end) + halted_ns(begin, end)
}

/// The same by the clock of one vCPU, which may lag behind others that wait for memory.
pub(crate) fn own_elapsed_ns(begin: &Clocks, end: &Clocks, cpu: usize) -> u64 {
    own_ns(begin, end, cpu) + halted_ns(begin, end)
}

/// How far the clock of one vCPU lags behind the largest.
pub(crate) fn lag_ns(begin: &Clocks, end: &Clocks, cpu: usize) -> u64 {
    executed_ns(begin, end) - own_ns(begin, end, cpu)
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

    fn clocks(counts: &[u64], halted_ns: u64) -> Clocks {
        let mut clocks = Clocks {
            halted_ns,
            cycle_ps: 1000,
            count: [0; CPUS_MAX],
            waited_ns: [0; CPUS_MAX],
        };
        clocks.count[..counts.len()].copy_from_slice(counts);
        clocks
    }

    #[test]
    fn elapsed_is_the_largest_count_plus_halted_time() {
        let begin = clocks(&[10, 20, 30], 5);
        let end = clocks(&[110, 520, 31], 12);
        assert_eq!(elapsed_ns(&begin, &end), 507);
        assert_eq!(elapsed_ns(&begin, &begin), 0);
        assert_eq!(elapsed_ns(&clocks(&[], 1), &clocks(&[], 4)), 3);
    }

    #[test]
    fn vcpu_lags_behind_the_furthest_clock() {
        let begin = clocks(&[1000, 20, 30], 5);
        let end = clocks(&[1100, 520, 31], 12);
        let lags = [0, 1, 2].map(|cpu| lag_ns(&begin, &end, cpu));
        assert_eq!(lags, [400, 0, 499]);
        let own = [0, 1, 2].map(|cpu| own_elapsed_ns(&begin, &end, cpu));
        assert_eq!(own, [107, 507, 8]);
    }

    #[test]
    fn memory_waits_count_on_their_vcpu() {
        let mut begin = clocks(&[0, 0], 0);
        let mut end = clocks(&[1000, 3000], 10);
        (begin.cycle_ps, end.cycle_ps) = (500, 500);
        end.waited_ns[0] = 2000;
        assert_eq!(elapsed_ns(&begin, &end), 2510);
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
