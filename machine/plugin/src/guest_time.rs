// SPDX-License-Identifier: GPL-2.0-or-later
//! Guest time that the model sets: timers, TSC and devices follow the model of cores and memory.
//!
//! Under `-icount shift=0` QEMU's clock is the instructions of all vCPUs plus a bias. Before each
//! block the bias is set so that the clock at the block's end is what the model gives. An
//! instruction that reads the clock is the last of its block, so no reader sees a time in between.
//!
//! Each vCPU has a time of its own: its instructions by the core model, and its waits. vCPUs run in
//! turns, and a turn ends where the vCPU's time reaches the window's end; the window moves on when
//! all have reached it. The clock that the guest reads is the furthest time shown so far: it never
//! goes back, also from one vCPU to another, and it is ahead of a vCPU's own time by a window at most.
//!
//! A block that ends early, at a fault, has executed fewer instructions than were counted. The
//! difference is found at the next turn, where QEMU's own count is exact.

use crate::clock::{Clock, symbol};
use crate::control::CPUS_MAX;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

/// Width of a window where several vCPUs run: the furthest that one's time can be ahead of another's.
pub(crate) const WINDOW_NS: u64 = 2_000;
/// The same where cores are out of order: each has several requests under way, and those of vCPUs
/// that are behind are made when the last one was made.
pub(crate) const WINDOW_OUT_OF_ORDER_NS: u64 = 500;
/// Width where only one runs: a timer is late by this at most.
pub(crate) const WINDOW_ALONE_NS: u64 = 10_000;
/// Words of QEMU's `timers_state` among which the two that are used are looked for.
const WORDS: usize = 32;
/// Added to a word to see whether it is the one; even, so that a sequence lock is not disturbed.
const PROBE: i64 = 4096;

/// What to do before a block is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// To be added to QEMU's bias.
    pub(crate) bias_ns: i64,
    /// Whether the vCPU's turn ends after the block.
    pub(crate) ends_turn: bool,
}

/// The time of one vCPU.
#[derive(Clone, Copy, Debug, Default)]
struct Own {
    ps: u64,
    /// Waits that are in `ps`.
    waited_ps: u64,
    /// Instructions, until the end of the last block.
    insns: u64,
    halted: bool,
}

/// Times of all vCPUs, and the time that the guest has been shown.
#[derive(Clone, Debug)]
pub(crate) struct GuestTime {
    own: [Own; CPUS_MAX],
    cycle_ps: u64,
    window_ns: u64,
    begin_ns: u64,
    shown_ns: u64,
    /// The vCPU whose turn it is; none: the next block begins a turn.
    turn: Option<usize>,
    alone: bool,
}

impl GuestTime {
    /// An instruction takes `cycle_ps`; vCPUs run in turns of `window_ns`.
    pub(crate) fn new(cpus: usize, cycle_ps: u64, window_ns: u64) -> Self {
        Self {
            own: [Own::default(); CPUS_MAX],
            cycle_ps,
            window_ns: if cpus == 1 {
                WINDOW_ALONE_NS
            } else {
                window_ns
            },
            begin_ns: 0,
            shown_ns: 0,
            turn: None,
            alone: cpus == 1,
        }
    }

    /// A vCPU's own time, with what it has waited since its block began.
    pub(crate) fn own_ps(&self, cpu: usize, waited_ps: u64) -> u64 {
        self.own[cpu].ps + (waited_ps - self.own[cpu].waited_ps)
    }

    /// A vCPU's time now: that of a halted one is what the guest has been shown.
    pub(crate) fn now_ps(&self, cpu: usize, waited_ps: u64) -> u64 {
        let own_ps = self.own_ps(cpu, waited_ps);
        match self.own[cpu].halted {
            true => own_ps.max(self.shown_ns * 1000),
            false => own_ps,
        }
    }

    /// Instructions that a vCPU has executed at its own time.
    pub(crate) const fn instructions(&self, cpu: usize) -> u64 {
        self.own[cpu].insns
    }

    pub(crate) const fn shown_ns(&self) -> u64 {
        self.shown_ns
    }

    /// Whether the next block of this vCPU begins a turn, for which [`Self::begin_turn`] is due.
    #[inline]
    pub(crate) fn begins_turn(&self, cpu: usize) -> bool {
        self.turn != Some(cpu)
    }

    const fn end_ns(&self) -> u64 {
        self.begin_ns + self.window_ns
    }

    /// A turn begins while QEMU's clock is `real_ns`. Returns what is to be added to the bias.
    pub(crate) fn begin_turn(&mut self, cpu: usize, real_ns: u64) -> i64 {
        self.turn = Some(cpu);
        // More than was shown: all vCPUs were halted, and QEMU went on to the next timer.
        let short_ns = self.shown_ns.saturating_sub(real_ns);
        self.shown_ns = self.shown_ns.max(real_ns);
        let own = &mut self.own[cpu];
        if std::mem::take(&mut own.halted) {
            own.ps = own.ps.max(self.shown_ns * 1000);
        }
        // One that waited to be started, or that QEMU has interrupted in its turns.
        let least_ns = self.begin_ns.saturating_sub(self.window_ns);
        own.ps = own.ps.max(least_ns * 1000);
        let own_ns = own.ps / 1000;
        if own_ns >= self.end_ns() {
            self.begin_ns = own_ns - own_ns % self.window_ns;
        }
        i64::try_from(short_ns).unwrap_or(0)
    }

    /// A block of so many instructions begins; the vCPU has waited so long in all.
    #[inline]
    pub(crate) fn step(&mut self, cpu: usize, insns: u64, waited_ps: u64) -> Step {
        let end_ns = self.end_ns();
        let own = &mut self.own[cpu];
        own.ps += insns * self.cycle_ps + (waited_ps - own.waited_ps);
        own.waited_ps = waited_ps;
        own.insns += insns;
        let own_ns = own.ps / 1000;
        let shown_ns = self.shown_ns.max(own_ns);
        let advance_ns = shown_ns - self.shown_ns;
        self.shown_ns = shown_ns;
        let ends_turn = own_ns >= end_ns;
        if ends_turn {
            self.turn = None;
        }
        Step {
            bias_ns: 0_i64
                .wrapping_add_unsigned(advance_ns)
                .wrapping_sub_unsigned(insns),
            ends_turn,
        }
    }

    /// A vCPU is about to halt.
    pub(crate) fn halts(&mut self, cpu: usize) {
        self.own[cpu].halted = true;
        self.turn = None;
    }

    /// A vCPU is about to execute a PAUSE, with which QEMU ends its turn: where others run it polls
    /// until the window ends.
    pub(crate) fn pauses(&mut self, cpu: usize) {
        if !self.alone {
            self.own[cpu].ps = self.own[cpu].ps.max(self.end_ns() * 1000);
        }
        self.turn = None;
    }
}

/// QEMU's two words: instructions executed, and the bias.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bias {
    executed: &'static AtomicI64,
    bias: &'static AtomicI64,
}

impl Bias {
    /// Finds the words; `None` where this QEMU does not have them. Before any vCPU runs.
    pub(crate) fn find(clock: Clock) -> Option<Self> {
        let state = symbol(c"timers_state")?.cast::<AtomicI64>();
        // SAFETY: QEMU's `timers_state` is static, aligned, and longer than what is looked at: its
        // fields up to the two are 64 bytes, and statistics and timers follow (QEMU 5.2 to 10).
        let words = unsafe { std::slice::from_raw_parts(state, WORDS) };
        // SAFETY: no vCPU runs, as the caller guarantees.
        let (now_ns, insns) = (|| unsafe { clock.now_ns() }, || unsafe { clock.insns() });
        let bias_ns = now_ns() - insns();
        let executed = only(words, insns(), insns)?;
        let bias = only(words, bias_ns, || now_ns() - insns())?;
        Some(Self { executed, bias })
    }

    /// QEMU's clock, exact where a turn begins.
    pub(crate) fn now_ns(self) -> u64 {
        let now_ns = self.executed.load(Relaxed) + self.bias.load(Relaxed);
        u64::try_from(now_ns).unwrap_or(0)
    }

    #[inline]
    pub(crate) fn add(self, ns: i64) {
        self.bias.fetch_add(ns, Relaxed);
    }
}

/// The one word with this value whose change changes what is read by as much.
fn only(
    words: &'static [AtomicI64],
    value: i64,
    read: impl Fn() -> i64,
) -> Option<&'static AtomicI64> {
    let mut found = words.iter().filter(|word| {
        if word.load(Relaxed) != value {
            return false;
        }
        word.fetch_add(PROBE, Relaxed);
        let changed = read() == value + PROBE;
        word.fetch_sub(PROBE, Relaxed);
        changed
    });
    let word = found.next()?;
    found.next().is_none().then_some(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// QEMU's clock beside the model: what the guest would read at the end of each block.
    struct Guest {
        time: GuestTime,
        executed: i64,
        bias: i64,
        waited_ps: [u64; 2],
    }

    impl Guest {
        fn new(cpus: usize, cycle_ps: u64) -> Self {
            Self {
                time: GuestTime::new(cpus, cycle_ps, WINDOW_NS),
                executed: 0,
                bias: 0,
                waited_ps: [0; 2],
            }
        }

        fn now_ns(&self) -> i64 {
            self.executed + self.bias
        }

        /// Executes a block of which `done` instructions are executed, after a wait.
        fn block(&mut self, cpu: usize, insns: u64, done: u64, wait_ps: u64) -> bool {
            self.waited_ps[cpu] += wait_ps;
            if self.time.begins_turn(cpu) {
                let real_ns = u64::try_from(self.now_ns()).unwrap();
                self.bias += self.time.begin_turn(cpu, real_ns);
            }
            let step = self.time.step(cpu, insns, self.waited_ps[cpu]);
            self.bias += step.bias_ns;
            self.executed = self.executed.wrapping_add_unsigned(done);
            step.ends_turn
        }
    }

    #[test]
    fn clock_is_the_models_at_the_end_of_each_block() {
        let mut guest = Guest::new(1, 500);
        guest.block(0, 10, 10, 0);
        assert_eq!(guest.now_ns(), 5);
        guest.block(0, 20, 20, 300_000);
        assert_eq!(guest.now_ns(), 315);
        guest.block(0, 1, 1, 0);
        assert_eq!(guest.now_ns(), 315); // 315.5
        assert_eq!(guest.time.own_ps(0, guest.waited_ps[0] + 7), 315_507);
    }

    #[test]
    fn turn_ends_with_the_window() {
        let mut guest = Guest::new(1, 1000);
        assert!(!guest.block(0, 100, 100, 9_899_000));
        assert!(guest.block(0, 100, 100, 0));
        assert!(!guest.block(0, 100, 100, 0), "the next window");
    }

    #[test]
    fn what_a_fault_left_out_is_made_up_at_the_next_turn() {
        let mut guest = Guest::new(1, 1000);
        guest.block(0, 100, 40, 0);
        assert_eq!(guest.now_ns(), 40);
        guest.time.halts(0);
        guest.block(0, 10, 10, 0);
        assert_eq!(guest.now_ns(), 110);
    }

    #[test]
    fn halted_time_is_the_clocks() {
        let mut guest = Guest::new(2, 1000);
        guest.block(0, 100, 100, 0);
        guest.time.halts(0);
        guest.block(1, 50, 50, 0);
        guest.time.halts(1);
        assert_eq!(guest.now_ns(), 100);
        guest.bias += 1_000_000; // QEMU goes on to the next timer
        guest.block(1, 10, 10, 0);
        assert_eq!(guest.now_ns(), 1_000_110);
        guest.block(0, 5, 5, 0);
        assert_eq!(guest.now_ns(), 1_000_115);
    }

    #[test]
    fn clock_never_goes_back_from_one_vcpu_to_another() {
        let mut guest = Guest::new(2, 1000);
        let mut shown = 0;
        let mut state = 5_u64;
        for _ in 0..20_000 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let cpu = usize::from(state >> 63 != 0);
            guest.block(
                cpu,
                1 + (state >> 40) % 30,
                1 + (state >> 40) % 30,
                state >> 44,
            );
            assert!(guest.now_ns() >= shown);
            shown = guest.now_ns();
        }
    }

    /// Goal: two vCPUs that work side by side take the time of one, not of both.
    #[test]
    fn vcpus_in_turns_share_the_time() {
        let mut guest = Guest::new(2, 1000);
        for _ in 0..500 {
            for cpu in [0, 1] {
                while !guest.block(cpu, 10, 10, 0) {}
            }
        }
        let window_ns = i64::try_from(WINDOW_NS).unwrap();
        let now_ns = guest.now_ns();
        assert!(
            (500 * window_ns..=501 * window_ns).contains(&now_ns),
            "{now_ns}"
        );
        assert_eq!(guest.executed, 1000 * window_ns);
    }

    #[test]
    fn vcpu_that_polls_reaches_the_end_of_the_window() {
        let mut guest = Guest::new(2, 1000);
        guest.block(0, 10, 10, 0);
        guest.time.pauses(0);
        guest.block(0, 10, 10, 0);
        assert_eq!(guest.now_ns(), i64::try_from(WINDOW_NS).unwrap() + 10);
        let mut alone = Guest::new(1, 1000);
        alone.block(0, 10, 10, 0);
        alone.time.pauses(0);
        alone.block(0, 10, 10, 0);
        assert_eq!(alone.now_ns(), 20);
    }
}
