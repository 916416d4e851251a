// SPDX-License-Identifier: GPL-2.0-or-later
//! Callbacks of instructions that flush, fence or bypass caches, and of stores while something is armed.

use crate::caching::{self, Access, Job};
use crate::control::Cut;
use crate::cut::{PLUGIN, Plugin};
use crate::decode_cache::{Kind, Operand, Segment};
use crate::instrument::read_register;
use crate::qemu;
use libc::{c_uint, c_void};
use remanence_cache::{Core, LINE_BYTES};
use remanence_recording::{Cause, Event, Fence};
use std::collections::BTreeSet;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, PoisonError};

const PAGE_BYTES: u64 = 4096;

/// A flush, as translated: what it is and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Site {
    pub(crate) kind: Kind,
    pub(crate) operand: Operand,
    pub(crate) address: u64,
    pub(crate) next: u64,
}

/// Every site ever translated. Code is translated repeatedly, so each site is kept once.
static SITES: Mutex<BTreeSet<&'static Site>> = Mutex::new(BTreeSet::new());

/// Interns a site; returns the data that QEMU passes to its callback.
pub(crate) fn keep(site: Site) -> *mut c_void {
    let mut sites = SITES.lock().unwrap_or_else(PoisonError::into_inner);
    let kept = match sites.get(&site) {
        Some(kept) => *kept,
        None => {
            let kept: &'static Site = Box::leak(Box::new(site));
            sites.insert(kept);
            kept
        }
    };
    std::ptr::from_ref(kept).cast_mut().cast()
}

/// Physical address of the line that a flush names, if its page is present.
fn physical(plugin: &Plugin, cpu: c_uint, site: &Site) -> Option<u64> {
    let registers = &plugin.registers[cpu as usize];
    let general = |number: u8| read_register(registers.general[usize::from(number)].load(Relaxed));
    let segment = |which| {
        let register = match which {
            Segment::Fs => &registers.fs_base,
            Segment::Gs => &registers.gs_base,
        };
        read_register(register.load(Relaxed))
    };
    let address = site.operand.address(site.next, general, segment);
    let page = plugin.parallel?.physical_page(cpu, address)?;
    Some((page + address % PAGE_BYTES) & !(LINE_BYTES - 1))
}

const fn cause(kind: Kind) -> Cause {
    match kind {
        Kind::Clflush => Cause::CLFLUSH,
        Kind::Clflushopt => Cause::CLFLUSHOPT,
        Kind::Wbinvd => Cause::WBINVD,
        Kind::Wbnoinvd => Cause::WBNOINVD,
        Kind::Invd => Cause::INVD,
        _ => Cause::CLWB,
    }
}

fn flush_line(plugin: &Plugin, job: &mut Job, cpu: c_uint, site: &Site) {
    let Some(phys) = physical(plugin, cpu, site) else {
        return; // it will fault
    };
    let Some(line) = job.line_at(phys) else {
        return; // not NVRAM
    };
    job.record_flush(line, site.address, cause(site.kind));
    plugin.follow_flushes(job, cpu, line);
    let core = Core(cpu as usize);
    match site.kind {
        Kind::Clflush => job.caches.clflush(core, line),
        Kind::Clflushopt => job.caches.clflushopt(core, line),
        _ => job.caches.clwb(core, line),
    }
    job.note_refused();
    plugin.set(plugin.in_flight, cpu as usize, 1);
}

fn fence(plugin: &Plugin, job: &mut Job, cpu: c_uint, site: &Site) {
    if job.in_window() {
        let fence = match site.kind {
            Kind::Sfence => Fence::SFENCE,
            Kind::Mfence => Fence::MFENCE,
            _ => Fence::LOCKED,
        };
        job.record(&Event::Fence {
            pc: site.address,
            fence,
        });
    }
    job.caches.fence(Core(cpu as usize));
    plugin.set(plugin.in_flight, cpu as usize, 0);
}

fn flush_all(plugin: &Plugin, job: &mut Job, cpu: c_uint, site: &Site) {
    job.find_unseen();
    job.record(&Event::CacheAll {
        pc: site.address,
        cause: cause(site.kind),
    });
    let core = Core(cpu as usize);
    plugin.begin_flush(job, cpu);
    log_progress(plugin, job, cpu, "begin");
    let limit_ns = plugin.hold_up_left_ns(job, cpu).unwrap_or(u64::MAX);
    match site.kind {
        Kind::Invd => {
            job.invd(core);
            job.record_dropped();
        }
        Kind::Wbnoinvd => {
            job.caches.wbnoinvd(core);
            job.note_refused();
        }
        _ => {
            if !job.wbinvd(core, limit_ns.saturating_mul(1000)) {
                log_progress(plugin, job, cpu, "dry");
                plugin.cut(Cut::HoldUp, cpu.into());
            }
        }
    }
    log_progress(plugin, job, cpu, "end");
    plugin.set(plugin.in_flight, cpu as usize, 0);
    plugin.waited(cpu);
}

/// Logs how far a Stop is, for people.
fn log_progress(plugin: &Plugin, job: &mut Job, cpu: c_uint, what: &str) {
    if let Some(elapsed_ns) = plugin.hold_up_elapsed_ns(job, cpu) {
        job.log_flush(elapsed_ns, cpu.into(), what);
    }
}

/// About to execute an instruction of [`Site`].
pub(crate) unsafe extern "C" fn executes(cpu: c_uint, data: *mut c_void) {
    // SAFETY: a callback of the vCPUs' thread; the data is from `keep`.
    let (job, site) = unsafe { (caching::job(), &*data.cast::<Site>()) };
    let (Some(plugin), Some(job)) = (PLUGIN.get(), job) else {
        return;
    };
    if job.is_recording() {
        job.stamp(cpu.into(), plugin.model_ns(job, cpu));
    }
    job.set_time(Core(cpu as usize));
    match site.kind {
        Kind::Clflush | Kind::Clflushopt | Kind::Clwb => flush_line(plugin, job, cpu, site),
        Kind::Sfence | Kind::Mfence | Kind::Locked => fence(plugin, job, cpu, site),
        Kind::Wbinvd | Kind::Wbnoinvd | Kind::Invd => flush_all(plugin, job, cpu, site),
        Kind::Translation => job.forget_translations(cpu),
        Kind::NtStore => {}
    }
}

/// A store that bypasses the caches has executed.
pub(crate) unsafe extern "C" fn bypassed(cpu: c_uint, info: u32, address: u64, data: *mut c_void) {
    // SAFETY: a callback of the vCPUs' thread.
    let Some(job) = (unsafe { caching::job() }) else {
        return;
    };
    note_store(job, cpu, info, address, data.addr() as u64);
    job.access(cpu, info, address, Access::NtStore, data.addr() as u64);
    if let Some(plugin) = PLUGIN.get() {
        plugin.set(plugin.in_flight, cpu as usize, 1);
        cut_at_store(plugin, job, cpu);
    }
}

/// A store has executed while something is armed, or recorded.
pub(crate) unsafe extern "C" fn stored_exactly(
    cpu: c_uint,
    info: u32,
    address: u64,
    data: *mut c_void,
) {
    // SAFETY: a callback of the vCPUs' thread.
    let Some(job) = (unsafe { caching::job() }) else {
        return;
    };
    note_store(job, cpu, info, address, data.addr() as u64);
    job.access(cpu, info, address, Access::Store, data.addr() as u64);
    if let Some(plugin) = PLUGIN.get() {
        cut_at_store(plugin, job, cpu);
    }
}

/// Counts a store, and records it in a window, unless it is to a device or to DRAM.
fn note_store(job: &mut Job, cpu: c_uint, info: u32, address: u64, pc: u64) {
    if job.store_fuse == 0 && !job.is_recording() {
        return;
    }
    let Some(phys) = job.ours(info, address) else {
        return;
    };
    job.stores += 1;
    let Some(plugin) = PLUGIN.get() else { return };
    if job.is_recording() {
        job.stamp(cpu.into(), plugin.model_ns(job, cpu));
    }
    if job.in_window() {
        // SAFETY: only extracts bits.
        let len = 1_usize << unsafe { qemu::qemu_plugin_mem_size_shift(info) };
        tell_store(job, phys, len, pc);
        let next_line = (address | (LINE_BYTES - 1)) + 1;
        let first = usize::try_from(next_line - address).unwrap_or(len);
        if first < len {
            if let Some(phys) = job.ours(info, next_line) {
                tell_store(job, phys, len - first, pc);
            }
        }
    }
}

fn tell_store(job: &mut Job, phys: u64, len: usize, pc: u64) {
    let Some(line) = job.line_at(phys) else {
        return;
    };
    job.record_store(line, phys % LINE_BYTES, len, pc);
}

fn cut_at_store(plugin: &Plugin, job: &Job, cpu: c_uint) {
    if caching::burns(job) {
        plugin.cut(Cut::Store, cpu.into());
    }
}
