// SPDX-License-Identifier: GPL-2.0-or-later
//! Firmware, of which nothing is modelled: `begin=`.
//!
//! Under icount UEFI firmware with the plugin would take minutes, or would never end:
//!
//! - It polls with PAUSE for what takes time, such as a second for a TPM that is not there. An
//!   instruction is a nanosecond, and each read of its timer is slow.
//! - OVMF starts CPUs with a locked instruction on a misaligned address. With `CF_PARALLEL`, which the
//!   counters need, QEMU executes it outside of the vCPU's turn, where icount has no instruction left:
//!   it is begun again and again.
//!
//! So until an instruction is executed at which memory has the bytes of `begin=`, the loader's first,
//! code is translated without `CF_PARALLEL`, counters, fuses, marks and caches, and a PAUSE takes
//! `PAUSE_NS`. From then on it is translated once more, with all of them. A reset goes back to firmware.
//!
//! What firmware stores to NVRAM has no callback, as DMA has none: it is found by comparing.

use crate::caching;
use crate::cut::{PLUGIN, Plugin};
use crate::decode;
use crate::guest_time::Bias;
use crate::instrument::copy_insn;
use crate::qemu;
use libc::{c_uint, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Time of a PAUSE: as long as the shortest delay that firmware asks for, so that none is much longer.
const PAUSE_NS: i64 = 10_000;
/// The first instruction of an x86 CPU after a reset.
const RESET_VECTOR: u64 = 0xffff_fff0;

/// Whether firmware runs, and what moves QEMU's clock.
#[derive(Debug, Default)]
pub(crate) struct Firmware {
    runs: AtomicBool,
    bias: OnceLock<Bias>,
}

impl Firmware {
    /// Before any vCPU runs: firmware comes first.
    pub(crate) fn power_on(&self, bias: Bias) {
        self.bias.get_or_init(|| bias);
        self.runs.store(true, Relaxed);
    }

    /// Whether code is translated as firmware's.
    pub(crate) fn runs(&self) -> bool {
        self.runs.load(Relaxed)
    }
}

/// Adds what firmware's code needs to a block of it.
///
/// # Safety
/// QEMU passes a block that is valid during this call.
pub(crate) unsafe fn translate(plugin: &Plugin, block: *mut qemu::Block) {
    let Some(first) = &plugin.plan.begin else {
        return;
    };
    // SAFETY: only instructions within the block's number are requested; the callbacks use no data,
    // or a number.
    unsafe {
        for index in 0..qemu::qemu_plugin_tb_n_insns(block) {
            let insn = qemu::qemu_plugin_tb_get_insn(block, index);
            let mut bytes = [0; decode::INSN_BYTES_MAX];
            let code = copy_insn(insn, &mut bytes);
            let callback: qemu::ExecCallback = if decode::is_pause(code) {
                pauses
            } else if index == 0 && first.starts_with(code) {
                may_end
            } else {
                continue;
            };
            let address = qemu::qemu_plugin_insn_vaddr(insn);
            let data = std::ptr::without_provenance_mut(usize::try_from(address).unwrap_or(0));
            let registers = qemu::Registers::Untouched;
            qemu::qemu_plugin_register_vcpu_insn_exec_cb(insn, callback, registers, data);
        }
    }
}

/// Adds what finds a reset to a block behind firmware.
///
/// # Safety
/// As for [`translate`].
pub(crate) unsafe fn watch_reset(plugin: &Plugin, block: *mut qemu::Block) {
    if plugin.plan.begin.is_none() {
        return;
    }
    // SAFETY: as the caller guarantees; a block has an instruction; the callback uses no data.
    unsafe {
        let insn = qemu::qemu_plugin_tb_get_insn(block, 0);
        if qemu::qemu_plugin_insn_vaddr(insn) == RESET_VECTOR {
            let (registers, data) = (qemu::Registers::Untouched, std::ptr::null_mut());
            qemu::qemu_plugin_register_vcpu_insn_exec_cb(insn, begins, registers, data);
        }
    }
}

/// Firmware is about to execute PAUSE.
unsafe extern "C" fn pauses(_cpu: c_uint, _data: *mut c_void) {
    if let Some(bias) = PLUGIN.get().and_then(|plugin| plugin.firmware.bias.get()) {
        bias.add(PAUSE_NS);
    }
}

/// About to execute what may be the loader's first instruction; the data is its address.
unsafe extern "C" fn may_end(cpu: c_uint, data: *mut c_void) {
    let Some(plugin) = PLUGIN.get() else {
        return;
    };
    let Some(first) = &plugin.plan.begin else {
        return;
    };
    // SAFETY: a callback of the vCPU whose memory is read; the array is freed here.
    let found = unsafe {
        let array = qemu::g_byte_array_new();
        let read = qemu::qemu_plugin_read_memory_vaddr(data.addr() as u64, array, first.len());
        let len = usize::try_from((*array).len).unwrap_or(0);
        let found = read && std::slice::from_raw_parts((*array).data, len) == first.as_slice();
        qemu::g_byte_array_free(array, 1);
        found
    };
    if found && plugin.firmware.runs.swap(false, Relaxed) {
        each_cpu(plugin, |cpu| {
            if let Some(parallel) = plugin.parallel {
                parallel.set(cpu);
            }
        });
        plugin.end_turn(cpu);
    }
}

/// About to execute the first instruction after a reset.
unsafe extern "C" fn begins(cpu: c_uint, _data: *mut c_void) {
    let Some(plugin) = PLUGIN.get() else {
        return;
    };
    if !plugin.firmware.runs.swap(true, Relaxed) {
        each_cpu(plugin, |cpu| {
            if let Some(parallel) = plugin.parallel {
                parallel.clear(cpu);
            }
        });
        plugin.end_turn(cpu);
    }
}

/// Changes each vCPU; what the model knew of their translations and clocks is void.
fn each_cpu(plugin: &Plugin, change: impl Fn(c_uint)) {
    for cpu in 0..c_uint::try_from(plugin.cpu_count).unwrap_or(0) {
        change(cpu);
        // SAFETY: a callback of the vCPUs' thread.
        if let Some(job) = unsafe { caching::job() } {
            job.forget_translations(cpu);
            if let Some(time) = &mut job.time {
                time.halts(cpu as usize);
            }
        }
    }
}
