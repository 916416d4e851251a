// SPDX-License-Identifier: GPL-2.0-or-later
//! Makes per-vCPU counters right when vCPUs run in turn, as under icount.
//!
//! Translated code is shared by all vCPUs, so an inline operation has to find out
//! which one runs it. QEMU 10.0 does that only for code translated with
//! `CF_PARALLEL`, which it sets when vCPUs have threads of their own. Otherwise it
//! uses the vCPU that *translated* the code instead of the one that runs it; and
//! when it scales that number it overwrites the constant
//! (accel/tcg/plugin-gen.c, `gen_cpu_index`, `gen_plugin_u64_ptr`), which breaks
//! the guest if the number is not 0. Observed: the second CPU's code had
//! the index 1024.
//!
//! `CF_PARALLEL` is legal for vCPUs that run in turn: locked instructions use the
//! host's. QEMU has a function that sets it, which is called here for each vCPU
//! before it translates anything.
//!
//! Turns under icount last up to the next timer of any vCPU, a millisecond and
//! more, in which another vCPU does not see its interrupts: what a real machine
//! does at once seems to take one turn of each. `quantum=` ends turns after the
//! given number of instructions.
//!
//! Limitation: a locked instruction on a misaligned address is translated once
//! more, alone and without the flag; under icount it is then begun again for ever,
//! as no vCPU has its turn. Neither Linux nor any compiler emits one; OVMF does,
//! before the flag is set (`firmware.rs`).

use crate::clock::symbol;
use libc::{c_int, c_uint, c_void};
use std::mem::transmute;

/// A `CPUState` of QEMU 10 is smaller than so many words.
const STATE_WORDS: usize = 1 << 18;

type GetCpuFn = unsafe extern "C" fn(c_int) -> *mut c_void;
type ExitFn = unsafe extern "C" fn(*mut c_void);
type InitFlagsFn = unsafe extern "C" fn(*mut c_void, bool);
type FlushFn = unsafe extern "C" fn(*mut c_void);
type PageFn = unsafe extern "C" fn(*mut c_void, u64) -> u64;

/// The functions of QEMU that are used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parallel {
    get_cpu: GetCpuFn,
    init_flags: InitFlagsFn,
    exit: ExitFn,
    flush: FlushFn,
    page: PageFn,
}

impl Parallel {
    /// The functions, if this QEMU exports them.
    pub(crate) fn find() -> Option<Self> {
        let get_cpu = symbol(c"qemu_get_cpu")?;
        let init_flags = symbol(c"tcg_cpu_init_cflags")?;
        let exit = symbol(c"cpu_exit")?;
        let flush = symbol(c"tb_flush")?;
        let page = symbol(c"cpu_get_phys_page_debug")?;
        // SAFETY: these are CPUState *qemu_get_cpu(int), void cpu_exit(CPUState *),
        // void tcg_cpu_init_cflags(CPUState *, bool parallel), void tb_flush(CPUState *) and
        // hwaddr cpu_get_phys_page_debug(CPUState *, vaddr) in QEMU 5.2 to 10.
        unsafe {
            Some(Self {
                get_cpu: transmute::<*mut c_void, GetCpuFn>(get_cpu),
                init_flags: transmute::<*mut c_void, InitFlagsFn>(init_flags),
                exit: transmute::<*mut c_void, ExitFn>(exit),
                flush: transmute::<*mut c_void, FlushFn>(flush),
                page: transmute::<*mut c_void, PageFn>(page),
            })
        }
    }

    fn state(self, cpu: c_uint) -> Option<*mut c_void> {
        let index = c_int::try_from(cpu).ok()?;
        // SAFETY: looks the number up in QEMU's list of vCPUs; null if there is none.
        let state = unsafe { (self.get_cpu)(index) };
        (!state.is_null()).then_some(state)
    }

    /// To be called in the thread of this vCPU, before it runs.
    pub(crate) fn set(self, cpu: c_uint) {
        if let Some(state) = self.state(cpu) {
            // SAFETY: the vCPU is realized, does not run yet, and this is its
            // thread; the function only adds flags.
            unsafe { (self.init_flags)(state, true) };
        }
    }

    /// Takes back [`Self::set`]. In the vCPUs' thread, if they run in turn.
    pub(crate) fn clear(self, cpu: c_uint) {
        if let (Some(state), Some((offset, flag))) = (self.state(cpu), self.flag()) {
            // SAFETY: the field at this offset is a u32 of the vCPU, which this thread alone uses.
            unsafe { *state.byte_add(offset).cast::<u32>() &= !flag };
        }
    }

    /// Where a vCPU has its flags, and `CF_PARALLEL`: the one word that differs if it is set.
    fn flag(self) -> Option<(usize, u32)> {
        let flags_of = |parallel| {
            let mut state = vec![0_u32; STATE_WORDS];
            // SAFETY: the function reads and changes fields of a vCPU, which is not so large; zeros
            // are valid for them.
            unsafe { (self.init_flags)(state.as_mut_ptr().cast(), parallel) };
            state
        };
        let (without, with) = (flags_of(false), flags_of(true));
        let mut words = (0..STATE_WORDS).filter(|&word| without[word] != with[word]);
        let word = words.next()?;
        let flag = without[word] ^ with[word];
        (words.next().is_none() && flag.is_power_of_two())
            .then_some((word * size_of::<u32>(), flag))
    }

    /// Ends the turn of this vCPU after the block that it executes.
    pub(crate) fn end_turn(self, cpu: c_uint) {
        if let Some(state) = self.state(cpu) {
            // SAFETY: may be called from any thread, at any time: it only
            // sets flags that the vCPU checks between blocks.
            unsafe { (self.exit)(state) };
        }
    }

    /// All code will be translated again, before any vCPU continues. The VM must be stopped.
    pub(crate) fn forget_code(self) {
        if let Some(state) = self.state(0) {
            // SAFETY: with CF_PARALLEL set, QEMU defers the work until the vCPUs' thread can do it.
            unsafe { (self.flush)(state) };
        }
    }

    /// The physical page of a virtual address, by this vCPU's page tables; for its own callbacks.
    pub(crate) fn physical_page(self, cpu: c_uint, address: u64) -> Option<u64> {
        let state = self.state(cpu)?;
        // SAFETY: walks the page tables and changes nothing; it takes the address of a page.
        let page = unsafe { (self.page)(state, address & !0xfff) };
        (page != u64::MAX).then_some(page & !0xfff)
    }
}
