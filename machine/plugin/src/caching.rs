// SPDX-License-Identifier: GPL-2.0-or-later
//! The caches between the vCPUs and NVRAM: the model, fed by callbacks.
//!
//! Caches need icount, under which all vCPUs run on one thread. So the job belongs to that thread,
//! or to the command thread while the VM is stopped; no other thread may use it.
//!
//! Most stores hit a line that is already dirty in their vCPU's cache. A small table by virtual line
//! finds it without asking QEMU for the physical address, which costs as much as all the rest. An
//! entry holds the slot of the first level in which the line was; the slot shows whether it still
//! is, so evictions, flushes and other vCPUs' stores do not have to update the table. Everything
//! that may change translations empties it: until then a processor may use old ones, too.

use crate::args::CachePlan;
use crate::control::{
    CacheRecord, Ctl, HONOUR_ALL, HONOUR_BLOCK, HONOUR_FIRST, HONOUR_INVD, HONOUR_NOTHING, NONE,
};
use crate::controlled::Controlled;
use crate::cut::{self, PLUGIN};
use crate::guest_time::{Bias, GuestTime, WINDOW_NS, WINDOW_OUT_OF_ORDER_NS};
use crate::memories::Memories;
use crate::qemu;
use crate::recorder::{self, Recorder};
use crate::traced::Traced;
use crate::writers::Writers;
use libc::{c_uint, c_void};
use ocpmem::units::Ps;
use ocpmem::window::WindowPart;
use remanence_cache::{Caches, Core, Honoured, LINE_BYTES, Line, Memory, Profile, Slot};
use remanence_format::{REM_BLOCK_BYTES, u32_of};
use remanence_recording::{CLOCK_MODEL, Event, Header, NO_VCPU};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{Seek, Write};
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// Entries of a vCPU's table: twice the lines of the largest first level that is modelled.
const ENTRIES: usize = 2048;
/// A line outside NVRAM; no memory has that many lines.
const NOT_OURS: Line = Line(u32::MAX);
/// Misses of the first level after which the sweep inspects the next piece of memory.
const SWEEP_EVERY_MISSES: u64 = 1024;
/// Size of a piece: a sweep of 1 GiB takes 17 million misses.
const SWEEP_LINES: u32 = 1024;
/// Lines of the record block.
pub(crate) const BLOCK_LINES: u32 = u32_of(REM_BLOCK_BYTES) / 64;

#[derive(Clone, Copy, Debug)]
struct Entry {
    key: u64,
    line: Line,
    slot: Slot,
}

/// Table of the lines that one vCPU stored to.
#[derive(Debug)]
struct Filter {
    entries: Vec<Entry>,
    /// Part of each key, so that a new one forgets all entries at once.
    generation: u64,
}

impl Filter {
    fn new() -> Self {
        let empty = Entry {
            key: 0,
            line: NOT_OURS,
            slot: Slot::NONE,
        };
        Self {
            entries: vec![empty; ENTRIES],
            generation: 1,
        }
    }

    /// Addresses have 48 bits of meaning, so the upper 16 of 64 make room for the generation.
    const fn key(&self, address: u64) -> u64 {
        ((address & !(LINE_BYTES - 1)) << 10) | self.generation
    }

    const fn index(address: u64) -> usize {
        (address / LINE_BYTES % ENTRIES as u64) as usize
    }

    fn forget(&mut self) {
        self.generation = (self.generation + 1) & 0xffff;
        if self.generation == 0 {
            *self = Self::new();
        }
    }
}

/// The model and its connection to QEMU.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) caches: Caches<Memories, Traced>,
    filters: Vec<Filter>,
    base: u64,
    lines: u32,
    /// Of DRAM: they come after those of NVRAM, and have no content here, as none of it survives.
    dram_lines: u32,
    misses: u64,
    /// Stores while something was armed, and at which of them power is cut.
    pub(crate) stores: u64,
    pub(crate) store_fuse: u64,
    honour: u64,
    /// Lines that a flush should have written, with their digest at that time.
    due: BTreeMap<u32, u64>,
    reverted: u64,
    pub(crate) loads_always: bool,
    /// Where guest time follows a controller.
    pub(crate) time: Option<GuestTime>,
    pub(crate) bias: Option<Bias>,
    /// From one instruction to the next where nothing is waited for.
    pub(crate) instruction_ps: u64,
    /// Of each vCPU, the line of its last instruction.
    pub(crate) fetched: Vec<Line>,
    writers: Option<Writers>,
    flushes: Option<File>,
    /// Cores that have begun to write their caches back since power began to fail.
    flushed: BTreeSet<usize>,
}

static JOB: AtomicPtr<Job> = AtomicPtr::new(std::ptr::null_mut());

/// The job, if the machine has caches.
///
/// # Safety
/// The caller is the thread that runs vCPUs, or the VM is stopped; and it holds no other reference to it.
pub(crate) unsafe fn job() -> Option<&'static mut Job> {
    // SAFETY: the pointer is null or of a leaked box; the rest is the caller's promise.
    unsafe { JOB.load(Acquire).as_mut() }
}

/// Whether the machine has caches.
pub(crate) fn is_on() -> bool {
    !JOB.load(Acquire).is_null()
}

/// FNV-1a over a line's place and content: no adversary chooses the lines.
fn digest(line: Line, bytes: &[u8; 64]) -> u64 {
    let place = line.0.to_le_bytes();
    let all = place.iter().chain(bytes);
    all.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The timing of memory, and guest time where it follows a controller. Cores are out of order where
/// a controller tells when lines are there and the profile has such; else one instruction a cycle.
/// Lines of DRAM, after so many of NVRAM.
fn dram_lines(plan: &CachePlan, lines: u32) -> Result<u32, String> {
    u32::try_from(plan.dram_bytes / LINE_BYTES)
        .ok()
        .filter(|dram_lines| lines.checked_add(*dram_lines).is_some())
        .ok_or_else(|| format!("dram={:#x}: too much", plan.dram_bytes))
}

fn timing_of(
    plan: &CachePlan,
    profile: &Profile,
    cpus: usize,
    lines: u32,
) -> Result<(Traced, Option<GuestTime>), String> {
    let mut timing = Traced::new(profile, plan.trace.clone(), cpus, lines, cut::begun);
    let Some(name) = &plan.controller else {
        return Ok((timing, None));
    };
    timing.instruction_ps = profile.instruction_ps();
    let core = profile.out_of_order().map(|core| WindowPart {
        window: core.window,
        mshrs: profile.fill_buffers,
        store_buffer: core.store_buffer,
        instruction: Ps(timing.instruction_ps),
    });
    let window_ns = match core {
        Some(_) => WINDOW_OUT_OF_ORDER_NS,
        None => WINDOW_NS,
    };
    let places = profile.write_backs();
    let mut controller = Controlled::new(name, lines, cpus, places, core)?;
    if let Some(dram) = &plan.dram_controller {
        controller.add_dram(dram, lines, dram_lines(plan, lines)?)?;
    }
    timing.controller = Some(controller);
    let time = GuestTime::new(cpus, timing.instruction_ps, window_ns);
    Ok((timing, Some(time)))
}

impl Job {
    /// Opens the files of the plan. The error is one line for the user.
    pub(crate) fn begin(plan: &CachePlan, cpus: usize) -> Result<(), String> {
        let profile = Profile::named(&plan.profile).map_err(|error| error.to_string())?;
        if cpus > profile.cores_max {
            return Err(format!(
                "cache={} has up to {} cores and the machine {cpus}",
                plan.profile, profile.cores_max
            ));
        }
        let base = plan.base.unwrap_or(0);
        let mut memories = Memories::open(&plan.memory, &plan.media, plan.skip_bytes)?;
        let lines = u32::try_from(memories.bytes() / LINE_BYTES).unwrap_or(u32::MAX);
        if let Some(dir) = &plan.record {
            let header = Header {
                clock: CLOCK_MODEL,
                nvram_phys: base,
                nvram_bytes: memories.bytes(),
                cpu_count: u32::try_from(cpus).unwrap_or(0),
                domain: profile.domain as u32,
                profile: Header::profile_field(&plan.profile),
                ..Header::default()
            };
            let mut recorder = Recorder::create(dir, &header)?;
            recorder.watch(&plan.disk_logs, plan.console.as_deref());
            memories.recorder = Some(recorder);
        }
        let dram_lines = dram_lines(plan, lines)?;
        let (timing, time) = timing_of(plan, &profile, cpus, lines)?;
        let instruction_ps = timing.instruction_ps;
        let writers = match &plan.writers {
            Some(path) => {
                let before = u32::try_from(plan.skip_bytes / LINE_BYTES).unwrap_or(0);
                Some(Writers::create(path, before, lines, cpus)?)
            }
            None => None,
        };
        let flushes = match &plan.flushes {
            Some(path) => {
                // The file of the last Stop is kept until the next.
                let opened = File::options()
                    .write(true)
                    .create(true)
                    .truncate(false)
                    .open(path);
                Some(opened.map_err(|error| format!("flushes={path}: {error}"))?)
            }
            None => None,
        };
        let job = Self {
            caches: Caches::new(profile, cpus, lines + dram_lines, memories, timing),
            filters: (0..cpus).map(|_| Filter::new()).collect(),
            base,
            lines,
            dram_lines,
            misses: 0,
            stores: 0,
            store_fuse: 0,
            honour: HONOUR_ALL,
            due: BTreeMap::new(),
            reverted: 0,
            loads_always: plan.loads || time.is_some(),
            time,
            bias: None,
            instruction_ps,
            fetched: vec![NOT_OURS; cpus],
            writers,
            flushes,
            flushed: BTreeSet::new(),
        };
        JOB.store(Box::into_raw(Box::new(job)), Release);
        Ok(())
    }

    pub(crate) fn set_honour(&mut self, honour: u64) -> bool {
        self.caches.honoured = match honour {
            HONOUR_ALL | HONOUR_FIRST | HONOUR_INVD => Honoured::All,
            HONOUR_BLOCK => Honoured::Only(Line(0)..Line(BLOCK_LINES)),
            HONOUR_NOTHING => Honoured::Nothing,
            _ => return false,
        };
        self.honour = honour;
        true
    }

    /// The line at a physical address.
    pub(crate) fn line_at(&self, phys: u64) -> Option<Line> {
        let line = |offset: u64| u32::try_from(offset / LINE_BYTES).ok();
        match phys.checked_sub(self.base) {
            Some(offset) => line(offset).filter(|line| *line < self.lines),
            None => line(phys)
                .filter(|line| *line < self.dram_lines)
                .map(|line| self.lines + line),
        }
        .map(Line)
    }

    /// Whether a line survives the loss of power.
    fn is_nvram(&self, line: Line) -> bool {
        line.0 < self.lines
    }

    /// WBINVD with power for `limit_ps`: false if it ran out.
    pub(crate) fn wbinvd(&mut self, core: Core, limit_ps: u64) -> bool {
        if self.honour == HONOUR_INVD {
            self.invd(core);
            return true;
        }
        let honoured = self.caches.honoured.clone();
        if self.honour == HONOUR_FIRST && core.0 != 0 {
            self.caches.honoured = Honoured::Nothing;
        }
        let whole = self.caches.wbinvd_within(core, limit_ps);
        self.caches.honoured = honoured;
        self.note_refused();
        whole
    }

    pub(crate) fn invd(&mut self, core: Core) {
        self.reverted += self.caches.invd(core);
    }

    /// Records the lines that a refused flush did not write.
    pub(crate) fn note_refused(&mut self) {
        for line in std::mem::take(&mut self.caches.refused) {
            if !self.is_nvram(line) {
                continue;
            }
            let bytes = self.caches.memory.coherent(line);
            self.due.insert(line.0, digest(line, &bytes));
        }
    }

    /// Of the lines that refused flushes left: how many are lost, and the digests of due and media.
    fn lost(&self) -> (u64, u64, u64) {
        let (mut lost, mut due_sum, mut media_sum) = (0, 0_u64, 0_u64);
        for (line, due) in &self.due {
            let line = Line(*line);
            let memory = &self.caches.memory;
            if digest(line, &memory.coherent(line)) != *due {
                continue; // stored to since: that store has not been flushed
            }
            let media = digest(line, &memory.media(line));
            lost += u64::from(media != *due);
            due_sum = due_sum.wrapping_add(*due);
            media_sum = media_sum.wrapping_add(media);
        }
        (lost, due_sum, media_sum)
    }

    fn differing(&self) -> u64 {
        let (mut from, mut lines) = (Line(0), 0);
        while let Some(line) = self.caches.memory.next_difference(from, Line(self.lines)) {
            from = Line(line.0 + 1);
            lines += 1;
        }
        lines
    }

    /// Fills the counters of caches and controller.
    pub(crate) fn report(&mut self, ctl: &Ctl) {
        self.report_caches(&ctl.cache);
        if let (Some(time), Some(controller)) = (&self.time, &self.caches.timing.controller) {
            controller.report(&ctl.memory, time.shown_ns());
        }
    }

    fn report_caches(&mut self, to: &CacheRecord) {
        self.caches.advance();
        let counters = self.caches.counters();
        let (lost, due, media) = self.lost();
        let values = [
            (&to.stores, self.stores),
            (&to.first_level_misses, counters.first_level_misses),
            (&to.memory_reads, counters.memory_reads),
            (&to.write_backs, counters.write_backs),
            (&to.evictions, counters.evictions),
            (&to.swept, counters.swept),
            (&to.unseen, counters.unseen),
            (&to.dirty_lines, self.caches.dirty_lines().len() as u64),
            (&to.differ_lines, self.differing()),
            (&to.lost_lines, lost),
            (&to.digest_due, due),
            (&to.digest_media, media),
            (&to.reverted_lines, self.reverted),
            (&to.cpu_loads, counters.loads),
            (&to.cpu_stores, counters.stores),
            (&to.store_misses, counters.store_misses),
            (&to.fetch_misses, counters.fetch_misses),
        ];
        for (word, value) in values {
            word.store(value, Relaxed);
        }
        to.taken.store(1, Release);
    }

    /// The machine's last report, or the loss of power: everything durable is on media after it.
    pub(crate) fn last_act(&mut self, ctl: &Ctl) {
        self.caches.power_cut();
        self.report(ctl);
        if let Some(recorder) = &mut self.caches.memory.recorder {
            recorder.flush();
        }
        self.caches.timing.finish();
    }

    /// Whether loads are modelled where nothing is armed.
    pub(crate) fn wants_loads(&self) -> bool {
        self.loads_always || self.caches.timing.is_on()
    }

    /// PWR_OK drops: a new list begins.
    pub(crate) fn begin_flushes(&mut self) {
        self.flushed.clear();
        self.caches.power_fails();
        if let Some(file) = &mut self.flushes {
            if let Err(error) = file.set_len(0).and_then(|()| file.rewind()) {
                eprintln!("remanence-plugin: flushes are not logged: {error}");
                self.flushes = None;
            }
        }
        self.log_flush(0, 0xff, "drop");
    }

    /// A core writes its caches back. Returns whether it is the first since power began to fail.
    pub(crate) fn begins_flushes(&mut self, core: Core) -> bool {
        let first = self.flushed.is_empty();
        self.flushed.insert(core.0);
        first
    }

    /// Whether a line is dirty in another core that has written its caches back since power began to
    /// fail: it was stored to after that.
    pub(crate) fn is_of_flushed(&self, core: Core, line: Line) -> bool {
        let mut others = self.flushed.iter().filter(|other| **other != core.0);
        others.any(|other| self.caches.is_dirty_in(Core(*other), line))
    }

    /// One line: nanoseconds since PWR_OK dropped, vCPU, what, lines that would be lost now.
    pub(crate) fn log_flush(&mut self, elapsed_ns: u64, vcpu: u64, what: &str) {
        let lines = match &self.flushes {
            Some(_) => self.differing(),
            None => return,
        };
        if let Some(file) = &mut self.flushes {
            if let Err(error) = writeln!(file, "{elapsed_ns} {vcpu} {what} {lines}") {
                eprintln!("remanence-plugin: flushes are no longer logged: {error}");
                self.flushes = None;
            }
        }
    }

    pub(crate) fn record(&mut self, event: &Event<'_>) {
        if let Some(recorder) = &mut self.caches.memory.recorder {
            recorder.put(event);
        }
    }

    /// Whether stores and flushes are recorded one by one.
    pub(crate) fn in_window(&self) -> bool {
        let recorder = self.caches.memory.recorder.as_ref();
        recorder.is_some_and(|recorder| recorder.window)
    }

    pub(crate) fn is_recording(&self) -> bool {
        self.caches.memory.recorder.is_some()
    }

    /// Records a store that has just been executed.
    pub(crate) fn record_store(&mut self, line: Line, offset: u64, len: usize, pc: u64) {
        let memory = &mut self.caches.memory;
        let at = u64::from(line.0) * LINE_BYTES + offset;
        let (bytes, len) = memory.stored(at, len);
        let media = memory.media(line);
        if let Some(recorder) = &mut memory.recorder {
            let offset = usize::try_from(offset).unwrap_or(0);
            recorder.stored(line, &media, offset, &bytes[..len], pc);
        }
    }

    /// Records a flush, if stores are recorded.
    pub(crate) fn record_flush(&mut self, line: Line, pc: u64, cause: remanence_recording::Cause) {
        let recorded = self.in_window() && self.is_nvram(line);
        if let (true, Some(recorder)) = (recorded, &mut self.caches.memory.recorder) {
            recorder.flushes(line, pc, cause);
        }
    }

    /// INVD has dropped what caches held.
    pub(crate) fn record_dropped(&mut self) {
        if let Some(recorder) = &mut self.caches.memory.recorder {
            recorder.dropped();
        }
    }

    /// Records what changed without a store, if stores are recorded.
    pub(crate) fn find_unseen(&mut self) {
        recorder::find_unseen(&mut self.caches.memory, self.lines);
    }

    pub(crate) fn set_window(&mut self, begins: bool) {
        if begins {
            recorder::begin_window(&mut self.caches.memory, self.lines);
        } else {
            recorder::end_window(&mut self.caches.memory);
        }
    }

    /// Sets vCPU and time of the events that follow, and records what reached media before them.
    pub(crate) fn stamp(&mut self, vcpu: u64, time_ns: u64) {
        if let Some(recorder) = &mut self.caches.memory.recorder {
            recorder.vcpu = u8::try_from(vcpu).unwrap_or(NO_VCPU);
            recorder.time_ns = time_ns;
            self.caches.advance();
        }
    }

    pub(crate) fn forget_translations(&mut self, cpu: c_uint) {
        self.filters[cpu as usize].forget();
    }

    /// Bytes from `address` on that a store of this kind writes; QEMU has it in bits 4 to 6.
    const fn len(info: u32) -> u64 {
        1 << ((info >> 4) & 7)
    }

    /// Sets the moment at which the core makes its next requests.
    pub(crate) fn set_time(&mut self, core: Core) {
        let Some(time) = &self.time else { return };
        let own_ps = time.own_ps(core.0, self.caches.waited_ps(core));
        if let Some(controller) = &mut self.caches.timing.controller {
            controller.set_time(core, own_ps, time.instructions(core.0));
        }
    }

    #[cold]
    fn miss(&mut self, cpu: c_uint, info: u32, address: u64, how: Access, pc: u64) {
        self.tell_time(cpu);
        // SAFETY: only extracts bits.
        let len = 1_u64 << unsafe { qemu::qemu_plugin_mem_size_shift(info) };
        assert_eq!(len, Self::len(info), "this QEMU packs meminfo differently");
        let next_line = (address | (LINE_BYTES - 1)) + 1;
        self.one_line(cpu, info, address, how, pc);
        if address + len > next_line {
            self.one_line(cpu, info, next_line, how, pc);
        }
    }

    /// Sets the time of what the access causes.
    fn tell_time(&mut self, cpu: c_uint) {
        if self.writers.is_none() && !self.is_recording() {
            return;
        }
        let Some(plugin) = PLUGIN.get() else { return };
        let time_ns = plugin.model_ns(self, cpu);
        if let Some(writers) = &mut self.writers {
            writers.set_time(cpu as usize, time_ns);
        }
        self.stamp(cpu.into(), time_ns);
    }

    /// The part of an access that is in the line of `address`.
    fn one_line(&mut self, cpu: c_uint, info: u32, address: u64, how: Access, pc: u64) {
        let Some(phys) = physical(info, address) else {
            return; // a device
        };
        let core = Core(cpu as usize);
        self.set_time(core);
        let mut entry = Entry {
            key: self.filters[core.0].key(address),
            line: NOT_OURS,
            slot: Slot::NONE,
        };
        if let Some(line) = self.line_at(phys) {
            entry.line = line;
            let is_nvram = self.is_nvram(line);
            if let (Some(plugin), true) = (PLUGIN.get(), is_nvram) {
                plugin.follow_flushes(self, cpu, line);
            }
            let stores = is_nvram && how != Access::Load;
            if let (Some(writers), true) = (&mut self.writers, stores) {
                writers.stored(core.0, line, pc);
            }
            entry.slot = match how {
                Access::Store => self.caches.store(core, line),
                Access::Load => self.caches.load(core, line),
                Access::NtStore => {
                    self.caches.nt_store(core, line);
                    Slot::NONE
                }
            };
            self.misses += 1;
            if self.misses % SWEEP_EVERY_MISSES == 0 {
                self.caches.sweep(core, SWEEP_LINES);
            }
        }
        self.filters[core.0].entries[Filter::index(address)] = entry;
    }

    /// Physical address of an access, for the recording; most are in the table.
    pub(crate) fn ours(&self, info: u32, address: u64) -> Option<u64> {
        let phys = physical(info, address)?;
        self.line_at(phys)
            .filter(|line| self.is_nvram(*line))
            .map(|_| phys)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Store,
    Load,
    NtStore,
}

/// Physical address of an access to memory; `None` for devices.
fn physical(info: u32, address: u64) -> Option<u64> {
    // SAFETY: called by the callback of this access, as QEMU requires; the handle is valid until the next.
    unsafe {
        let place = qemu::qemu_plugin_get_hwaddr(info, address);
        if place.is_null() || qemu::qemu_plugin_hwaddr_is_io(place) {
            return None;
        }
        Some(qemu::qemu_plugin_hwaddr_phys_addr(place))
    }
}

impl Job {
    #[inline]
    pub(crate) fn access(&mut self, cpu: c_uint, info: u32, address: u64, how: Access, pc: u64) {
        let filter = &self.filters[cpu as usize];
        let entry = filter.entries[Filter::index(address)];
        let in_one_line = address % LINE_BYTES + Self::len(info) <= LINE_BYTES;
        if entry.key == filter.key(address) && in_one_line {
            let core = Core(cpu as usize);
            let again = entry.line == NOT_OURS
                || match how {
                    Access::Store => self.caches.store_again(core, entry.slot, entry.line),
                    Access::Load => self.caches.load_again(core, entry.slot, entry.line),
                    Access::NtStore => false,
                };
            if again {
                if how == Access::Store && self.is_nvram(entry.line) {
                    if let Some(writers) = &mut self.writers {
                        writers.stored(core.0, entry.line, pc);
                    }
                }
                return;
            }
        }
        self.miss(cpu, info, address, how, pc);
    }
}

/// The hot callback: a store, while nothing is armed.
pub(crate) unsafe extern "C" fn stored(cpu: c_uint, info: u32, address: u64, data: *mut c_void) {
    // SAFETY: a callback of the vCPUs' thread.
    if let Some(job) = unsafe { job() } {
        job.access(cpu, info, address, Access::Store, data.addr() as u64);
    }
}

/// A load, where loads are modelled.
pub(crate) unsafe extern "C" fn loaded(cpu: c_uint, info: u32, address: u64, _data: *mut c_void) {
    // SAFETY: a callback of the vCPUs' thread.
    if let Some(job) = unsafe { job() } {
        job.access(cpu, info, address, Access::Load, 0);
    }
}

/// Whether the store at which power is cut has been reached.
pub(crate) const fn burns(job: &Job) -> bool {
    job.store_fuse != 0 && job.store_fuse != NONE && job.stores == job.store_fuse
}
