// SPDX-License-Identifier: GPL-2.0-or-later
//! Instrumentation of translated code, and its callbacks.
//!
//! Order at each instruction: marks, then "is the fuse burnt?", then the fuse
//! burns and the count grows. So a fuse of n lets n instructions begin, and a
//! mark that arms a fuse of 0 cuts before the marked instruction.

use crate::args::Mark;
use crate::caching;
use crate::code;
use crate::cut::{PLUGIN, Plugin, RAX, RDX};
use crate::decode;
use crate::decode_cache::{self, Kind};
use crate::firmware;
use crate::flush::{self, Site};
use crate::isa::isa;
use crate::qemu;
use crate::timing;
use libc::{c_uint, c_void};
use std::sync::atomic::Ordering::Relaxed;

/// `qemu_plugin_register_vcpu_tb_trans_cb`'s callback.
pub(crate) unsafe extern "C" fn translate(_id: qemu::PluginId, block: *mut qemu::Block) {
    let Some(plugin) = PLUGIN.get() else {
        return;
    };
    if plugin.firmware.runs() {
        // SAFETY: the block is QEMU's.
        unsafe { firmware::translate(plugin, block) };
        return;
    }
    let caches = caching::is_on();
    let exact = !caches || plugin.is_exact();
    // SAFETY: translation runs on the vCPUs' thread.
    let timed = unsafe { caching::job() }.is_some_and(|job| job.time.is_some());
    // SAFETY: QEMU passes a block that is valid during this call, and
    // only instructions within its number are requested.
    unsafe {
        firmware::watch_reset(plugin, block);
        let insns = qemu::qemu_plugin_tb_n_insns(block);
        for index in 0..insns {
            let insn = qemu::qemu_plugin_tb_get_insn(block, index);
            add_marks(plugin, insn, index == 0);
            if plugin.plan.cut && exact {
                add_fuse(plugin, insn);
            }
            if plugin.plan.quantum > 0 && isa().pause_goes_on() {
                add_yield(insn);
            }
            if plugin.plan.count && exact {
                qemu::qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(
                    insn,
                    qemu::InlineOp::Add,
                    plugin.count,
                    1,
                );
            }
            if caches {
                add_caches(plugin, insn);
            }
            if timed {
                add_idling(insn);
            }
        }
        if timed && insns > 0 {
            let begin = qemu::qemu_plugin_insn_vaddr(qemu::qemu_plugin_tb_get_insn(block, 0));
            let last = qemu::qemu_plugin_tb_get_insn(block, insns - 1);
            let end = qemu::qemu_plugin_insn_vaddr(last)
                .saturating_add(qemu::qemu_plugin_insn_size(last) as u64);
            qemu::qemu_plugin_register_vcpu_tb_exec_cb(
                block,
                timing::block_begins,
                qemu::Registers::Untouched,
                code::note(insns as u64, begin..end).cast_mut().cast(),
            );
        }
        if !exact {
            qemu::qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(
                block,
                qemu::InlineOp::Add,
                plugin.count,
                insns as u64,
            );
        }
    }
}

/// # Safety
/// `insn` belongs to the block being translated.
unsafe fn add_idling(insn: *mut qemu::Insn) {
    let mut bytes = [0; decode::INSN_BYTES_MAX];
    // SAFETY: as the caller guarantees; the callbacks use no data.
    unsafe {
        let code = copy_insn(insn, &mut bytes);
        let callback: qemu::ExecCallback = if decode::is_halt(code) {
            timing::halts
        } else if decode::is_pause(code) {
            timing::pauses
        } else {
            return;
        };
        let (registers, data) = (qemu::Registers::Untouched, std::ptr::null_mut());
        qemu::qemu_plugin_register_vcpu_insn_exec_cb(insn, callback, registers, data);
    }
}

/// # Safety
/// `insn` belongs to the block being translated.
unsafe fn add_yield(insn: *mut qemu::Insn) {
    let mut bytes = [0; decode::INSN_BYTES_MAX];
    // SAFETY: as the caller guarantees; the callback uses no data.
    unsafe {
        if decode::is_pause(copy_insn(insn, &mut bytes)) {
            let (registers, data) = (qemu::Registers::Untouched, std::ptr::null_mut());
            qemu::qemu_plugin_register_vcpu_insn_exec_cb(insn, pauses, registers, data);
        }
    }
}

/// # Safety
/// `insn` belongs to the block being translated.
unsafe fn add_caches(plugin: &Plugin, insn: *mut qemu::Insn) {
    let mut bytes = [0; decode::INSN_BYTES_MAX];
    // SAFETY: as the caller guarantees.
    let found = decode_cache::classify(unsafe { copy_insn(insn, &mut bytes) });
    // SAFETY: as the caller guarantees; sites passed to callbacks are never freed.
    unsafe {
        add_stores(plugin, insn, found);
        let Some((kind, operand)) = found.filter(|(kind, _)| *kind != Kind::NtStore) else {
            return;
        };
        let address = qemu::qemu_plugin_insn_vaddr(insn);
        let site = flush::keep(Site {
            kind,
            operand,
            address,
            next: address.wrapping_add(qemu::qemu_plugin_insn_size(insn) as u64),
        });
        let is_fence = matches!(kind, Kind::Sfence | Kind::Mfence | Kind::Locked);
        if is_fence && !plugin.is_exact() {
            qemu::qemu_plugin_register_vcpu_insn_exec_cond_cb(
                insn,
                flush::executes,
                qemu::Registers::Untouched,
                qemu::Condition::NotEqual,
                plugin.in_flight,
                0,
                site,
            );
        } else {
            let registers = if is_fence || kind == Kind::Translation {
                qemu::Registers::Untouched
            } else {
                qemu::Registers::Read
            };
            qemu::qemu_plugin_register_vcpu_insn_exec_cb(insn, flush::executes, registers, site);
        }
    }
}

/// # Safety
/// `insn` belongs to the block being translated.
unsafe fn add_stores(
    plugin: &Plugin,
    insn: *mut qemu::Insn,
    found: Option<(Kind, decode_cache::Operand)>,
) {
    let exact = plugin.is_exact();
    let callback: qemu::MemoryCallback = if found.is_some_and(|(kind, _)| kind == Kind::NtStore) {
        flush::bypassed
    } else if exact {
        flush::stored_exactly
    } else {
        caching::stored
    };
    // SAFETY: as the caller guarantees; the data is a number.
    unsafe {
        let pc = address_as_data(insn);
        qemu::qemu_plugin_register_vcpu_mem_cb(
            insn,
            callback,
            qemu::Registers::Untouched,
            qemu::MemoryAccess::Store,
            pc,
        );
        let loads = caching::job().is_some_and(|job| job.wants_loads());
        if exact || loads {
            qemu::qemu_plugin_register_vcpu_mem_cb(
                insn,
                caching::loaded,
                qemu::Registers::Untouched,
                qemu::MemoryAccess::Load,
                pc,
            );
        }
    }
}

/// # Safety
/// `insn` belongs to the block being translated.
unsafe fn add_fuse(plugin: &Plugin, insn: *mut qemu::Insn) {
    let mut bytes = [0; decode::INSN_BYTES_MAX];
    // SAFETY: as the caller guarantees; one callback uses no data, the other a number.
    unsafe {
        if decode::is_halt(copy_insn(insn, &mut bytes)) {
            qemu::qemu_plugin_register_vcpu_insn_exec_cb(
                insn,
                halts,
                qemu::Registers::Untouched,
                std::ptr::null_mut(),
            );
        }
        qemu::qemu_plugin_register_vcpu_insn_exec_cond_cb(
            insn,
            burnt,
            qemu::Registers::Untouched,
            qemu::Condition::Equal,
            plugin.fuse,
            0,
            address_as_data(insn),
        );
        qemu::qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(
            insn,
            qemu::InlineOp::Add,
            plugin.fuse,
            u64::MAX, // minus one
        );
    }
}

/// # Safety
/// `insn` belongs to the block being translated.
unsafe fn add_marks(plugin: &Plugin, insn: *mut qemu::Insn, is_first: bool) {
    for (index, mark) in plugin.plan.marks.iter().enumerate() {
        let data = std::ptr::without_provenance_mut::<c_void>(index);
        // SAFETY: as the caller guarantees; the callbacks use the data as a number.
        unsafe {
            let address = qemu::qemu_plugin_insn_vaddr(insn);
            match *mark {
                Mark::Pc(at) | Mark::Stopped(at) if at == address => {
                    qemu::qemu_plugin_register_vcpu_insn_exec_cb(
                        insn,
                        pc_reached,
                        qemu::Registers::Untouched,
                        data,
                    )
                }
                Mark::Out { .. } if is_out(insn) => qemu::qemu_plugin_register_vcpu_insn_exec_cb(
                    insn,
                    out_reached,
                    qemu::Registers::Read,
                    data,
                ),
                // Entering a program always begins a block.
                Mark::User if is_first && address < decode::USER_END => {
                    qemu::qemu_plugin_register_vcpu_insn_exec_cond_cb(
                        insn,
                        low_address_reached,
                        qemu::Registers::Read,
                        qemu::Condition::NotEqual,
                        plugin.user_wanted,
                        0,
                        data,
                    );
                }
                _ => {}
            }
        }
    }
}

/// # Safety
/// `insn` belongs to the block being translated.
pub(crate) unsafe fn copy_insn(
    insn: *const qemu::Insn,
    to: &mut [u8; decode::INSN_BYTES_MAX],
) -> &[u8] {
    // SAFETY: QEMU writes at most the number of bytes passed.
    let bytes = unsafe { qemu::qemu_plugin_insn_data(insn, to.as_mut_ptr().cast(), to.len()) };
    &to[..bytes.min(to.len())]
}

/// # Safety
/// `insn` belongs to the block being translated.
unsafe fn address_as_data(insn: *const qemu::Insn) -> *mut c_void {
    // SAFETY: as the caller guarantees.
    let address = unsafe { qemu::qemu_plugin_insn_vaddr(insn) };
    std::ptr::without_provenance_mut(usize::try_from(address).unwrap_or(0))
}

/// # Safety
/// `insn` belongs to the block being translated.
unsafe fn is_out(insn: *const qemu::Insn) -> bool {
    let mut bytes = [0; decode::INSN_BYTES_MAX];
    // SAFETY: as the caller guarantees.
    decode::is_out_dx_al(unsafe { copy_insn(insn, &mut bytes) })
}

unsafe extern "C" fn halts(cpu: c_uint, _data: *mut c_void) {
    if let Some(plugin) = PLUGIN.get() {
        plugin.halts(cpu);
    }
}

unsafe extern "C" fn pauses(cpu: c_uint, _data: *mut c_void) {
    if let Some(plugin) = PLUGIN.get() {
        plugin.end_turn(cpu);
    }
}

unsafe extern "C" fn burnt(cpu: c_uint, data: *mut c_void) {
    if let Some(plugin) = PLUGIN.get() {
        plugin.burnt(cpu, data.addr() as u64);
    }
}

unsafe extern "C" fn pc_reached(cpu: c_uint, data: *mut c_void) {
    if let Some(plugin) = PLUGIN.get() {
        plugin.reach(data.addr(), cpu);
    }
}

unsafe extern "C" fn out_reached(cpu: c_uint, data: *mut c_void) {
    let Some(plugin) = PLUGIN.get() else {
        return;
    };
    let Some(Mark::Out { port, byte }) = plugin.plan.marks.get(data.addr()) else {
        return;
    };
    let registers = &plugin.registers[cpu as usize];
    let dx = read_register(registers.general[RDX].load(Relaxed)) & 0xffff;
    let al = read_register(registers.general[RAX].load(Relaxed)) & 0xff;
    if dx == u64::from(*port) && al == u64::from(*byte) {
        plugin.reach(data.addr(), cpu);
    }
}

unsafe extern "C" fn low_address_reached(cpu: c_uint, data: *mut c_void) {
    let Some(plugin) = PLUGIN.get() else {
        return;
    };
    let privilege = read_register(plugin.registers[cpu as usize].privilege.load(Relaxed));
    if isa().is_user(privilege) {
        plugin.set(plugin.user_wanted, cpu as usize, 0);
        plugin.reach(data.addr(), cpu);
    }
}

/// Reads a register of the vCPU that runs this callback.
pub(crate) fn read_register(register: *mut qemu::Register) -> u64 {
    if register.is_null() {
        return 0;
    }
    // SAFETY: the handle is this vCPU's, taken when it was created; every caller is
    // a callback registered with `Registers::Read`; the array is freed here.
    unsafe {
        let bytes = qemu::g_byte_array_new();
        qemu::qemu_plugin_read_register(register, bytes);
        let len = usize::try_from((*bytes).len).unwrap_or(0);
        let value = if len == 0 {
            0
        } else {
            std::slice::from_raw_parts((*bytes).data, len.min(8))
                .iter()
                .rev()
                .fold(0_u64, |value, byte| (value << 8) | u64::from(*byte))
        };
        qemu::g_byte_array_free(bytes, 1);
        value
    }
}
