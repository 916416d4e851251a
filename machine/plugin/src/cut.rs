// SPDX-License-Identifier: GPL-2.0-or-later
//! What is counted and armed, and the cut itself.

use crate::args::{Mark, Plan};
use crate::budget;
use crate::clock::Clock;
use crate::control::{CPUS_MAX, Ctl, Cut, NONE, Snapshot};
use crate::decode;
use crate::parallel::Parallel;
use crate::qemu;
use libc::c_uint;
use std::mem::offset_of;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering::Relaxed, Ordering::Release};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Each vCPU's entry in the scoreboard. QEMU makes it all zeros.
#[repr(C)]
struct Score {
    count: u64,
    fuse: u64,
    user_wanted: u64,
    reserved: u64,
}

/// What a burnt fuse means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
enum Armed {
    Nothing = 0,
    Count = 1,
    HoldUp = 2,
}

/// A hold-up that is running.
#[derive(Debug, Default)]
struct HoldUp {
    ns: u64,
    begin_count: [u64; CPUS_MAX],
    begin_halted_ns: u64,
    seen_halted_ns: u64,
}

/// Handles of the registers that marks look at.
#[derive(Debug, Default)]
pub(crate) struct Registers {
    pub(crate) rax: AtomicPtr<qemu::Register>,
    pub(crate) rdx: AtomicPtr<qemu::Register>,
    pub(crate) cs: AtomicPtr<qemu::Register>,
}

#[derive(Debug)]
pub(crate) struct Plugin {
    pub(crate) plan: Plan,
    pub(crate) ctl: &'static Ctl,
    pub(crate) cpu_count: usize,
    pub(crate) count: qemu::Field,
    pub(crate) fuse: qemu::Field,
    pub(crate) user_wanted: qemu::Field,
    pub(crate) registers: [Registers; CPUS_MAX],
    pub(crate) clock: OnceLock<Option<Clock>>,
    parallel: Option<Parallel>,
    /// A vCPU halted since the hold-up was last looked at.
    halted: AtomicBool,
    armed: AtomicU32,
    /// Whose fuse was set for a cut.
    cut_cpu: AtomicU32,
    hold_up: Mutex<HoldUp>,
}

// SAFETY: the scoreboard pointers inside the fields are only handed back to
// QEMU, which takes them from any thread.
unsafe impl Sync for Plugin {}
// SAFETY: as above.
unsafe impl Send for Plugin {}

pub(crate) static PLUGIN: OnceLock<Plugin> = OnceLock::new();

impl Plugin {
    pub(crate) fn new(plan: Plan, ctl: &'static Ctl, cpu_count: usize) -> Self {
        // SAFETY: called during installation; the scoreboard is never freed.
        let score = unsafe { qemu::qemu_plugin_scoreboard_new(size_of::<Score>()) };
        let field = |offset| qemu::Field { score, offset };
        Self {
            plan,
            ctl,
            cpu_count,
            count: field(offset_of!(Score, count)),
            fuse: field(offset_of!(Score, fuse)),
            user_wanted: field(offset_of!(Score, user_wanted)),
            registers: Default::default(),
            clock: OnceLock::new(),
            parallel: Parallel::find(),
            halted: AtomicBool::new(true),
            armed: AtomicU32::new(Armed::Nothing as u32),
            cut_cpu: AtomicU32::new(0),
            hold_up: Mutex::new(HoldUp::default()),
        }
    }

    /// Sets one field of one vCPU that exists.
    pub(crate) fn set(&self, field: qemu::Field, cpu: usize, value: u64) {
        let Ok(index) = c_uint::try_from(cpu) else {
            return;
        };
        if cpu < self.cpus() {
            // SAFETY: the vCPU exists, which is all that QEMU asks for.
            unsafe { qemu::qemu_plugin_u64_set(field, index, value) };
        }
    }

    /// vCPUs that exist so far.
    fn cpus(&self) -> usize {
        // SAFETY: takes no argument and only reads.
        let cpus = unsafe { qemu::qemu_plugin_num_vcpus() };
        usize::try_from(cpus).unwrap_or(0).min(self.cpu_count)
    }

    fn counts(&self) -> [u64; CPUS_MAX] {
        let mut counts = [0; CPUS_MAX];
        for (index, count) in (0..).zip(&mut counts[..self.cpus()]) {
            // SAFETY: the vCPU exists.
            *count = unsafe { qemu::qemu_plugin_u64_get(self.count, index) };
        }
        counts
    }

    /// Halted time, or `NONE`.
    pub(crate) fn halted_ns(&self) -> u64 {
        let clock = self.clock.get().copied().flatten();
        clock.and_then(Clock::halted_ns).unwrap_or(NONE)
    }

    pub(crate) fn snapshot(&self, to: &Snapshot, cpu: u64) {
        to.fill(cpu, self.halted_ns(), &self.counts());
    }

    /// A vCPU is about to execute a marked instruction.
    pub(crate) fn reach(&self, mark: usize, cpu: c_uint) {
        let Some(record) = self.ctl.marks.get(mark) else {
            return;
        };
        if record.first.claim() {
            self.snapshot(&record.first, cpu.into());
        }
        let after = record.cut_after.swap(NONE, Relaxed);
        if after != NONE {
            self.arm_fuse(cpu, after);
        }
    }

    /// Looks for the first user instruction, on all vCPUs.
    pub(crate) fn want_user(&self) {
        if self.plan.marks.contains(&Mark::User) {
            for cpu in 0..self.cpu_count {
                self.set(self.user_wanted, cpu, 1);
            }
        }
    }

    /// The fuse of a vCPU for which nothing is armed.
    pub(crate) fn idle_fuse(&self) -> u64 {
        match self.plan.quantum {
            0 => NONE,
            quantum => quantum,
        }
    }

    pub(crate) fn disarm(&self) {
        self.armed.store(Armed::Nothing as u32, Release);
        for cpu in 0..self.cpu_count {
            self.set(self.fuse, cpu, self.idle_fuse());
        }
        for mark in &self.ctl.marks {
            mark.cut_after.store(NONE, Relaxed);
        }
    }

    fn arm_fuse(&self, cpu: c_uint, insns: u64) {
        self.cut_cpu.store(cpu, Relaxed);
        self.set(self.fuse, cpu as usize, insns);
        self.armed.store(Armed::Count as u32, Release);
    }

    pub(crate) fn arm_count(&self, cpu: c_uint, insns: u64) {
        self.disarm();
        self.arm_fuse(cpu, insns);
    }

    pub(crate) fn arm_hold_up(&self, ns: u64) {
        self.disarm();
        self.ctl.forget_turns();
        let halted_ns = self.halted_ns();
        let mut hold_up = self.hold_up.lock().unwrap_or_else(PoisonError::into_inner);
        *hold_up = HoldUp {
            ns,
            begin_count: self.counts(),
            begin_halted_ns: halted_ns,
            seen_halted_ns: halted_ns,
        };
        drop(hold_up);
        let fuse = budget::next_fuse(ns, 0).map_or(0, |fuse| fuse.min(self.idle_fuse()));
        for cpu in 0..self.cpu_count {
            self.set(self.fuse, cpu, fuse);
        }
        self.armed.store(Armed::HoldUp as u32, Release);
    }

    pub(crate) fn hold_up_is_armed(&self) -> bool {
        self.armed.load(Relaxed) == Armed::HoldUp as u32
    }

    /// What is left of the hold-up, as the next fuse; `None` when it is over.
    fn hold_up_fuse(&self) -> Option<u64> {
        let mut hold_up = self.hold_up.lock().unwrap_or_else(PoisonError::into_inner);
        // Asking for halted time costs more than a turn, so only where it grew.
        if self.halted.swap(false, Relaxed) {
            match self.halted_ns() {
                NONE => self.halted.store(true, Relaxed),
                halted_ns => hold_up.seen_halted_ns = halted_ns,
            }
        }
        let begin = (&hold_up.begin_count[..], hold_up.begin_halted_ns);
        let elapsed_ns = budget::elapsed_ns(begin, (&self.counts(), hold_up.seen_halted_ns));
        let fuse = budget::next_fuse(hold_up.ns, elapsed_ns)?;
        Some(fuse.min(self.idle_fuse()))
    }

    /// A vCPU is about to halt: the hold-up is looked at as soon as it wakes,
    /// since halted time burns no fuse.
    pub(crate) fn halts(&self, cpu: c_uint) {
        if self.hold_up_is_armed() {
            self.halted.store(true, Relaxed);
            self.set(self.fuse, cpu as usize, 1);
        }
    }

    /// Cuts if the hold-up is over, which halted vCPUs would never notice.
    pub(crate) fn check_hold_up(&self) {
        self.halted.store(true, Relaxed);
        if self.hold_up_is_armed() && self.hold_up_fuse().is_none() {
            self.cut(Cut::HoldUp, NONE);
        }
    }

    /// A fuse has burnt down, and its vCPU is about to execute one more, at this
    /// address.
    pub(crate) fn burnt(&self, cpu: c_uint, address: u64) {
        let fuse = if self.hold_up_is_armed() {
            if self.plan.quantum > 0 && address >= decode::USER_END {
                self.ctl.note_turn(cpu.into(), address);
            }
            match self.hold_up_fuse() {
                Some(fuse) => fuse,
                None => self.cut(Cut::HoldUp, cpu.into()),
            }
        } else if self.fuse_is_of_cut(cpu) {
            self.cut(Cut::Count, cpu.into())
        } else {
            self.idle_fuse()
        };
        self.set(self.fuse, cpu as usize, fuse);
        if self.plan.quantum > 0 {
            if let Some(parallel) = self.parallel {
                parallel.end_turn(cpu);
            }
        }
    }

    /// Whether this vCPU's fuse was set for a cut, rather than for its turn.
    fn fuse_is_of_cut(&self, cpu: c_uint) -> bool {
        self.armed.load(Relaxed) == Armed::Count as u32 && self.cut_cpu.load(Relaxed) == cpu
    }

    /// The power is gone. Does not return.
    fn cut(&self, cut: Cut, cpu: u64) -> ! {
        self.snapshot(&self.ctl.at_cut, cpu);
        self.ctl.cut.store(cut as u32, Release);
        loop {
            // SAFETY: SIGKILL to this process; nothing runs after it.
            unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
        }
    }
}
