// SPDX-License-Identifier: GPL-2.0-or-later
//! Counts, armed fuses, and the cut itself.

use crate::args::{Mark, Plan};
use crate::budget::{self, Clocks};
use crate::caching::{self, Job};
use crate::clock::Clock;
use crate::control::{self, CPUS_MAX, Ctl, Cut, NONE, Snapshot};
use crate::decode;
use crate::firmware::Firmware;
use crate::isa::GENERAL_MAX;
use crate::parallel::Parallel;
use crate::qemu;
use libc::c_uint;
use remanence_cache::{Core, Line};
use remanence_recording::{Event, Phase};
use std::mem::offset_of;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering::Relaxed, Ordering::Release};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Each vCPU's entry in the scoreboard. QEMU initialises it to zeros.
#[repr(C)]
struct Score {
    count: u64,
    fuse: u64,
    user_wanted: u64,
    /// With caches: a write-back of this vCPU is in flight, and a fence has to wait for it.
    in_flight: u64,
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
    begin: Option<Clocks>,
    seen_halted_ns: u64,
}

/// Numbers of registers in instructions of x86-64.
pub(crate) const RAX: usize = 0;
pub(crate) const RDX: usize = 2;

/// Handles of the registers that marks and flushes read.
#[derive(Debug, Default)]
pub(crate) struct Registers {
    pub(crate) general: [AtomicPtr<qemu::Register>; GENERAL_MAX],
    pub(crate) privilege: AtomicPtr<qemu::Register>,
    pub(crate) fs_base: AtomicPtr<qemu::Register>,
    pub(crate) gs_base: AtomicPtr<qemu::Register>,
}

#[derive(Debug)]
pub(crate) struct Plugin {
    pub(crate) plan: Plan,
    pub(crate) ctl: &'static Ctl,
    pub(crate) cpu_count: usize,
    pub(crate) count: qemu::Field,
    pub(crate) fuse: qemu::Field,
    pub(crate) user_wanted: qemu::Field,
    pub(crate) in_flight: qemu::Field,
    pub(crate) registers: [Registers; CPUS_MAX],
    pub(crate) clock: OnceLock<Option<Clock>>,
    pub(crate) parallel: Option<Parallel>,
    pub(crate) firmware: Firmware,
    /// With caches: whether code is translated so that a cut is exact, which costs time.
    exact: AtomicBool,
    /// A vCPU halted since the hold-up was last checked.
    halted: AtomicBool,
    armed: AtomicU32,
    /// The vCPU whose fuse was set for a cut.
    cut_cpu: AtomicU32,
    hold_up: Mutex<HoldUp>,
}

// SAFETY: the scoreboard pointers inside the fields are only handed back to
// QEMU, which takes them from any thread.
unsafe impl Sync for Plugin {}
// SAFETY: as above.
unsafe impl Send for Plugin {}

pub(crate) static PLUGIN: OnceLock<Plugin> = OnceLock::new();

/// Instructions that a vCPU has begun; exact to the block where nothing is armed.
pub(crate) fn begun(core: Core) -> u64 {
    let index = c_uint::try_from(core.0).unwrap_or(0);
    PLUGIN.get().map_or(0, |plugin| plugin.begun(index))
}

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
            in_flight: field(offset_of!(Score, in_flight)),
            registers: std::array::from_fn(|_| Registers::default()),
            clock: OnceLock::new(),
            parallel: Parallel::find(),
            firmware: Firmware::default(),
            exact: AtomicBool::new(false),
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
            // SAFETY: the vCPU exists, as QEMU requires.
            unsafe { qemu::qemu_plugin_u64_set(field, index, value) };
        }
    }

    /// vCPUs that exist so far.
    fn cpus(&self) -> usize {
        // SAFETY: takes no argument and only reads.
        let cpus = unsafe { qemu::qemu_plugin_num_vcpus() };
        usize::try_from(cpus).unwrap_or(0).min(self.cpu_count)
    }

    /// Instructions that a vCPU which exists has begun.
    fn begun(&self, cpu: c_uint) -> u64 {
        // SAFETY: the vCPU exists: it is one of cpus(), runs a callback, or is a core of the caches.
        unsafe { qemu::qemu_plugin_u64_get(self.count, cpu) }
    }

    fn counts(&self) -> [u64; CPUS_MAX] {
        let mut counts = [0; CPUS_MAX];
        for (index, count) in (0..).zip(&mut counts[..self.cpus()]) {
            *count = self.begun(index);
        }
        counts
    }

    /// Halted time, or `NONE`.
    pub(crate) fn halted_ns(&self) -> u64 {
        // SAFETY: only reads, as other callers of the command thread.
        if let Some(halted_ns) = unsafe { caching::job() }.and_then(|job| job.beyond_ns()) {
            return halted_ns;
        }
        let clock = self.clock.get().copied().flatten();
        clock.and_then(Clock::halted_ns).unwrap_or(NONE)
    }

    /// All clocks. With caches: only on the vCPUs' thread, or while the VM is stopped.
    fn clocks(&self, halted_ns: u64, job: Option<&Job>) -> Clocks {
        let mut clocks = Clocks {
            halted_ns,
            cycle_ps: job.map_or(1000, |job| job.instruction_ps),
            count: self.counts(),
            waited_ns: [0; CPUS_MAX],
        };
        if let Some(job) = job {
            for (cpu, waited_ns) in clocks.waited_ns[..self.cpu_count].iter_mut().enumerate() {
                let executed_ps = clocks.count[cpu] * clocks.cycle_ps;
                *waited_ns = job.waited_ps(Core(cpu), executed_ps) / 1000;
            }
        }
        clocks
    }

    /// The clock of one vCPU, without halts.
    pub(crate) fn model_ns(&self, job: &Job, cpu: c_uint) -> u64 {
        let executed_ps = self.begun(cpu) * job.instruction_ps;
        (executed_ps + job.waited_ps(Core(cpu as usize), executed_ps)) / 1000
    }

    /// Called on the vCPUs' thread, or while the VM is stopped.
    pub(crate) fn snapshot(&self, to: &Snapshot, cpu: u64) {
        // SAFETY: as the caller guarantees; the reference ends here.
        let job = unsafe { caching::job() };
        control::fill(to, cpu, &self.clocks(self.halted_ns(), job.as_deref()));
    }

    /// With caches: code is translated again if its exactness changes.
    pub(crate) fn set_exact(&self, exact: bool) {
        if caching::is_on() && self.exact.swap(exact, Relaxed) != exact {
            self.retranslate();
        }
    }

    /// Has all code translated again, with other callbacks.
    pub(crate) fn retranslate(&self) {
        if let Some(parallel) = self.parallel {
            parallel.forget_code();
        }
    }

    pub(crate) fn is_exact(&self) -> bool {
        self.exact.load(Relaxed)
    }

    /// A vCPU is about to execute a marked instruction.
    pub(crate) fn reach(&self, mark: usize, cpu: c_uint) {
        let Some(record) = self.ctl.marks.get(mark) else {
            return;
        };
        if control::claim(&record.first) {
            self.snapshot(&record.first, cpu.into());
        }
        if matches!(
            self.plan.marks.get(mark),
            Some(Mark::Out { .. } | Mark::Stopped(_))
        ) {
            // The mark is the machine's report that it has stopped.
            self.last_act(cpu.into(), &Event::Phase(Phase::STOPPED));
        }
        let after = record.cut_after.swap(NONE, Relaxed);
        if after != NONE {
            self.arm_fuse(cpu, after);
        }
    }

    /// Records an event that is not an instruction's: of this vCPU, or `NONE`. Same callers as cut().
    fn record(&self, job: &mut Job, cpu: u64, event: &Event<'_>) {
        let clocks = self.clocks(0, Some(job));
        let now_ns = (0..self.cpu_count).map(|cpu| clocks.of_cpu_ns(cpu)).max();
        job.stamp(cpu, now_ns.unwrap_or(0));
        job.record(event);
    }

    /// Records what may be the last event, and the state of caches. Same callers as cut().
    fn last_act(&self, cpu: u64, event: &Event<'_>) {
        // SAFETY: as for cut().
        if let Some(job) = unsafe { caching::job() } {
            job.find_unseen();
            self.record(job, cpu, event);
            job.last_act(self.ctl);
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
        // SAFETY: commands that disarm are refused while the VM runs.
        self.set_exact(unsafe { caching::job() }.is_some_and(|job| job.in_window()));
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
        self.set_exact(true);
        self.arm_fuse(cpu, insns);
    }

    pub(crate) fn arm_hold_up(&self, ns: u64) {
        self.disarm();
        self.set_exact(true);
        control::forget_turns(self.ctl);
        let halted_ns = self.halted_ns();
        // SAFETY: the command is refused while the VM runs.
        let job = unsafe { caching::job() };
        let begin = self.clocks(halted_ns, job.as_deref());
        let mut hold_up = self.hold_up.lock().unwrap_or_else(PoisonError::into_inner);
        *hold_up = HoldUp {
            ns,
            begin: Some(begin),
            seen_halted_ns: halted_ns,
        };
        drop(hold_up);
        let fuse = budget::next_fuse(ns, 0).map_or(0, |fuse| self.fuse_of(fuse, begin.cycle_ps));
        for cpu in 0..self.cpu_count {
            self.set(self.fuse, cpu, fuse);
        }
        if let Some(job) = job {
            job.begin_flushes();
            self.record(job, NONE, &Event::Power { ok: false });
        }
        self.armed.store(Armed::HoldUp as u32, Release);
    }

    /// Instructions that fit into this time, and into a turn.
    fn fuse_of(&self, ns: u64, cycle_ps: u64) -> u64 {
        (ns * 1000 / cycle_ps).max(1).min(self.idle_fuse())
    }

    pub(crate) fn hold_up_is_armed(&self) -> bool {
        self.armed.load(Relaxed) == Armed::HoldUp as u32
    }

    /// What is left of the hold-up; `None` when it is over, or none runs.
    fn left_ns(&self, job: Option<&Job>) -> Option<u64> {
        let mut hold_up = self.hold_up.lock().unwrap_or_else(PoisonError::into_inner);
        // Reading halted time costs more than a turn, so it is read only after a halt.
        if self.halted.swap(false, Relaxed) {
            match self.halted_ns() {
                NONE => self.halted.store(true, Relaxed),
                halted_ns => hold_up.seen_halted_ns = halted_ns,
            }
        }
        let begin = hold_up.begin?;
        let elapsed_ns = budget::elapsed_ns(&begin, &self.clocks(hold_up.seen_halted_ns, job));
        hold_up.ns.checked_sub(elapsed_ns).filter(|left| *left > 0)
    }

    /// What is left of a running hold-up by the clock of one vCPU; `None` if none runs, 0 if it is
    /// over.
    pub(crate) fn hold_up_left_ns(&self, job: &Job, cpu: c_uint) -> Option<u64> {
        let elapsed_ns = self.hold_up_elapsed_ns(job, cpu)?;
        let hold_up = self.hold_up.lock().unwrap_or_else(PoisonError::into_inner);
        Some(hold_up.ns.saturating_sub(elapsed_ns))
    }

    /// Time since PWR_OK dropped by the clock of one vCPU; `None` without a hold-up.
    pub(crate) fn hold_up_elapsed_ns(&self, job: &Job, cpu: c_uint) -> Option<u64> {
        if !self.hold_up_is_armed() {
            return None;
        }
        self.left_ns(Some(job)); // reads halted time, if there was any
        let hold_up = self.hold_up.lock().unwrap_or_else(PoisonError::into_inner);
        let begin = hold_up.begin?;
        let now = self.clocks(hold_up.seen_halted_ns, Some(job));
        Some(budget::own_elapsed_ns(&begin, &now, cpu as usize))
    }

    /// Advances clocks of vCPUs to the furthest.
    fn wait_for_furthest(&self, job: &mut Job, cpus: std::ops::Range<usize>) {
        let hold_up = self.hold_up.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(begin) = &hold_up.begin else {
            return;
        };
        let now = self.clocks(hold_up.seen_halted_ns, Some(job));
        for cpu in cpus {
            let lag_ns = budget::lag_ns(begin, &now, cpu);
            job.caches.wait(Core(cpu), lag_ns * 1000);
        }
    }

    /// Before the first WBINVD of a hold-up. CPUs have waited for each other in PAUSE loops, which
    /// take almost no modelled time: all clocks are advanced to the furthest.
    pub(crate) fn begin_flush(&self, job: &mut Job, cpu: c_uint) {
        if self.hold_up_is_armed() && job.begins_flushes(Core(cpu as usize)) {
            self.wait_for_furthest(job, 0..self.cpus());
        }
    }

    /// A vCPU that takes or flushes a line of one that has written its caches back has waited for
    /// that write-back: its clock is advanced to the furthest, so that what it does next comes after
    /// it.
    pub(crate) fn follow_flushes(&self, job: &mut Job, cpu: c_uint, line: Line) {
        if !self.hold_up_is_armed() || !job.is_of_flushed(Core(cpu as usize), line) {
            return;
        }
        let cpu = cpu as usize;
        self.wait_for_furthest(job, cpu..cpu + 1);
    }

    /// What is left of the hold-up as the next fuse; `None` when it is over.
    fn hold_up_fuse(&self) -> Option<u64> {
        // SAFETY: callbacks of the vCPUs' thread; or `check_hold_up`, whose comment gives the reason.
        let job = unsafe { caching::job() };
        let job = job.as_deref();
        let cycle_ps = job.map_or(1000, |job| job.instruction_ps);
        let left_ns = self.left_ns(job)?;
        Some(self.fuse_of(left_ns.min(budget::CHUNK_NS), cycle_ps))
    }

    /// A vCPU has waited long in one instruction: the hold-up is checked before its next.
    pub(crate) fn waited(&self, cpu: c_uint) {
        if self.hold_up_is_armed() {
            self.set(self.fuse, cpu as usize, 1);
        }
    }

    /// A vCPU is about to halt: the hold-up is checked as soon as it wakes,
    /// since halted time burns no fuse.
    pub(crate) fn halts(&self, cpu: c_uint) {
        if self.hold_up_is_armed() {
            self.halted.store(true, Relaxed);
            self.set(self.fuse, cpu as usize, 1);
        }
    }

    /// Cuts if the hold-up is over, which halted vCPUs would never notice. Runs on the command thread: it
    /// only reads what running vCPUs may change meanwhile, and checks again later.
    pub(crate) fn check_hold_up(&self) {
        self.halted.store(true, Relaxed);
        if self.hold_up_is_armed() && self.hold_up_fuse().is_none() {
            self.cut(Cut::HoldUp, NONE);
        }
    }

    /// A fuse has burnt, and its vCPU is about to execute one more instruction, at this address.
    pub(crate) fn burnt(&self, cpu: c_uint, address: u64) {
        let fuse = if self.hold_up_is_armed() {
            if self.plan.quantum > 0 && address >= decode::USER_END {
                control::note_turn(self.ctl, cpu.into(), address);
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
            self.end_turn(cpu);
        }
    }

    /// Another vCPU runs after the block that this one executes.
    pub(crate) fn end_turn(&self, cpu: c_uint) {
        if let Some(parallel) = self.parallel {
            parallel.end_turn(cpu);
        }
    }

    /// Whether this vCPU's fuse was set for a cut, rather than for its turn.
    fn fuse_is_of_cut(&self, cpu: c_uint) -> bool {
        self.armed.load(Relaxed) == Armed::Count as u32 && self.cut_cpu.load(Relaxed) == cpu
    }

    /// Cuts power; does not return. Called on the vCPUs' thread, or while the VM is stopped or halted.
    pub(crate) fn cut(&self, cut: Cut, cpu: u64) -> ! {
        self.last_act(cpu, &Event::Cut { cause: cut as u32 });
        self.snapshot(&self.ctl.at_cut, cpu);
        self.ctl.cut.store(cut as u32, Release);
        loop {
            // SAFETY: SIGKILL to this process; nothing runs after it.
            unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
        }
    }
}
