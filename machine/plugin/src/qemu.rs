// SPDX-License-Identifier: GPL-2.0-or-later
//! The part of QEMU's plugin API v4 that is used here, declared by hand from
//! `qemu-plugin.h`.
//!
//! The crates that bind this API need a newer compiler than Debian 13's
//! (1.88 against 1.85); and hot callbacks must be plain `extern "C"` functions
//! anyway, since boxed closures cost more than what they count.

use libc::{c_char, c_int, c_uint, c_void};

/// The API that this plugin was written for.
#[unsafe(no_mangle)]
pub static qemu_plugin_version: c_int = 4;

pub(crate) type PluginId = u64;
pub(crate) type VcpuCallback = unsafe extern "C" fn(PluginId, c_uint);
pub(crate) type TranslateCallback = unsafe extern "C" fn(PluginId, *mut Block);
pub(crate) type FlushCallback = unsafe extern "C" fn(PluginId);
pub(crate) type ExecCallback = unsafe extern "C" fn(c_uint, *mut c_void);
pub(crate) type MemoryCallback = unsafe extern "C" fn(c_uint, u32, u64, *mut c_void);

/// `struct qemu_plugin_tb`
#[repr(C)]
pub(crate) struct Block {
    opaque: [u8; 0],
}

/// `struct qemu_plugin_insn`
#[repr(C)]
pub(crate) struct Insn {
    opaque: [u8; 0],
}

/// `struct qemu_plugin_hwaddr`
#[repr(C)]
pub(crate) struct HwAddr {
    opaque: [u8; 0],
}

/// `struct qemu_plugin_scoreboard`
#[repr(C)]
pub(crate) struct Scoreboard {
    opaque: [u8; 0],
}

/// `struct qemu_plugin_register`
#[repr(C)]
pub(crate) struct Register {
    opaque: [u8; 0],
}

/// `qemu_plugin_u64`: one 64-bit field of each vCPU's entry in a scoreboard.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field {
    pub(crate) score: *mut Scoreboard,
    pub(crate) offset: usize,
}

/// `qemu_info_t`
#[repr(C)]
pub struct Info {
    pub(crate) target_name: *const c_char,
    version_min: c_int,
    version_cur: c_int,
    pub(crate) system_emulation: bool,
    smp_vcpus: c_int,
    pub(crate) max_vcpus: c_int,
}

/// `qemu_plugin_reg_descriptor`
#[repr(C)]
pub(crate) struct RegisterDescriptor {
    pub(crate) handle: *mut Register,
    pub(crate) name: *const c_char,
    feature: *const c_char,
}

/// glib's `GArray` and `GByteArray`, which have the same public part.
#[repr(C)]
pub(crate) struct GlibArray<T> {
    pub(crate) data: *mut T,
    pub(crate) len: c_uint,
}

/// `enum qemu_plugin_cb_flags`
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) enum Registers {
    Untouched = 0,
    Read = 1,
}

/// `enum qemu_plugin_cond`
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) enum Condition {
    Equal = 2,
    NotEqual = 3,
}

/// `enum qemu_plugin_op`
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) enum InlineOp {
    Add = 0,
}

/// `enum qemu_plugin_mem_rw`
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) enum MemoryAccess {
    Load = 1,
    Store = 2,
}

unsafe extern "C" {
    pub(crate) fn qemu_plugin_register_vcpu_mem_cb(
        insn: *mut Insn,
        cb: MemoryCallback,
        registers: Registers,
        access: MemoryAccess,
        data: *mut c_void,
    );
    pub(crate) fn qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(
        block: *mut Block,
        op: InlineOp,
        field: Field,
        value: u64,
    );
    pub(crate) fn qemu_plugin_register_vcpu_tb_exec_cb(
        block: *mut Block,
        cb: ExecCallback,
        registers: Registers,
        data: *mut c_void,
    );
    pub(crate) fn qemu_plugin_mem_size_shift(info: u32) -> c_uint;
    pub(crate) fn qemu_plugin_get_hwaddr(info: u32, address: u64) -> *mut HwAddr;
    pub(crate) fn qemu_plugin_hwaddr_is_io(place: *const HwAddr) -> bool;
    pub(crate) fn qemu_plugin_hwaddr_phys_addr(place: *const HwAddr) -> u64;
    pub(crate) fn qemu_plugin_insn_size(insn: *const Insn) -> usize;
    pub(crate) fn qemu_plugin_register_vcpu_init_cb(id: PluginId, cb: VcpuCallback);
    pub(crate) fn qemu_plugin_register_vcpu_tb_trans_cb(id: PluginId, cb: TranslateCallback);
    pub(crate) fn qemu_plugin_register_flush_cb(id: PluginId, cb: FlushCallback);
    pub(crate) fn qemu_plugin_register_vcpu_insn_exec_cb(
        insn: *mut Insn,
        cb: ExecCallback,
        registers: Registers,
        data: *mut c_void,
    );
    pub(crate) fn qemu_plugin_register_vcpu_insn_exec_cond_cb(
        insn: *mut Insn,
        cb: ExecCallback,
        registers: Registers,
        condition: Condition,
        field: Field,
        value: u64,
        data: *mut c_void,
    );
    pub(crate) fn qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(
        insn: *mut Insn,
        op: InlineOp,
        field: Field,
        value: u64,
    );
    pub(crate) fn qemu_plugin_tb_n_insns(block: *const Block) -> usize;
    pub(crate) fn qemu_plugin_tb_get_insn(block: *const Block, index: usize) -> *mut Insn;
    pub(crate) fn qemu_plugin_insn_data(insn: *const Insn, to: *mut c_void, bytes: usize) -> usize;
    pub(crate) fn qemu_plugin_insn_vaddr(insn: *const Insn) -> u64;
    pub(crate) fn qemu_plugin_num_vcpus() -> c_int;
    pub(crate) fn qemu_plugin_scoreboard_new(entry_bytes: usize) -> *mut Scoreboard;
    pub(crate) fn qemu_plugin_u64_get(field: Field, vcpu: c_uint) -> u64;
    pub(crate) fn qemu_plugin_u64_set(field: Field, vcpu: c_uint, value: u64);
    pub(crate) fn qemu_plugin_get_registers() -> *mut GlibArray<RegisterDescriptor>;
    pub(crate) fn qemu_plugin_read_memory_vaddr(
        address: u64,
        to: *mut GlibArray<u8>,
        bytes: usize,
    ) -> bool;
    pub(crate) fn qemu_plugin_read_register(
        register: *mut Register,
        to: *mut GlibArray<u8>,
    ) -> c_int;

    // glib is in the process because QEMU itself uses it.
    pub(crate) fn g_array_free(
        array: *mut GlibArray<RegisterDescriptor>,
        free_data: c_int,
    ) -> *mut c_char;
    pub(crate) fn g_byte_array_new() -> *mut GlibArray<u8>;
    pub(crate) fn g_byte_array_free(array: *mut GlibArray<u8>, free_data: c_int) -> *mut u8;
}
