// SPDX-License-Identifier: GPL-2.0-or-later
//! Guest time in which all vCPUs were halted.
//!
//! Under `-icount shift=0` QEMU's virtual clock is the number of instructions
//! of all vCPUs plus a bias, and the bias grows only when every vCPU is halted:
//! with `sleep=off` the clock jumps to the next timer, with `sleep=on` it waits
//! for it. So the bias *is* the halted time. The plugin API does not report it; QEMU exports the two functions
//! whose difference it is, for its own modules. They are looked up when QEMU
//! runs; without them halted time is "not known", never zero.

use libc::{c_char, c_int, c_void};
use std::mem::transmute;

type GetFn = unsafe extern "C" fn() -> i64;
type ToNsFn = unsafe extern "C" fn(i64) -> i64;
type RunningFn = unsafe extern "C" fn() -> c_int;

/// `ICOUNT_PRECISE` of QEMU's `ICountMode`.
const ICOUNT_PRECISE: c_int = 1;

/// QEMU's own icount functions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    virtual_ns: GetFn,
    executed: GetFn,
}

/// A function or variable of the QEMU this runs in.
pub(crate) fn symbol(name: &std::ffi::CStr) -> Option<*mut c_void> {
    let name: *const c_char = name.as_ptr();
    // SAFETY: `name` is a C string, and dlsym only looks it up.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name) };
    (!found.is_null()).then_some(found)
}

impl Clock {
    /// The clock, if QEMU runs with one nanosecond per instruction.
    pub(crate) fn find() -> Option<Self> {
        let mode = symbol(c"use_icount")?.cast::<c_int>();
        // SAFETY: `use_icount` is an enum without negative values, which C
        // stores as a 32-bit integer; QEMU sets it before vCPUs exist.
        if unsafe { *mode } != ICOUNT_PRECISE {
            return None;
        }
        let to_ns = symbol(c"icount_to_ns")?;
        let virtual_ns = symbol(c"icount_get")?;
        let executed = symbol(c"icount_get_raw")?;
        // SAFETY: these are int64_t icount_to_ns(int64_t), int64_t icount_get(void)
        // and int64_t icount_get_raw(void) in every QEMU since 5.2.
        let (to_ns, virtual_ns, executed) = unsafe {
            (
                transmute::<*mut c_void, ToNsFn>(to_ns),
                transmute::<*mut c_void, GetFn>(virtual_ns),
                transmute::<*mut c_void, GetFn>(executed),
            )
        };
        // SAFETY: shifts its argument, nothing more.
        let one_ns = unsafe { to_ns(1) };
        (one_ns == 1).then_some(Self {
            virtual_ns,
            executed,
        })
    }

    /// The virtual clock.
    ///
    /// # Safety
    /// Not while the calling thread executes guest code: QEMU would end the process.
    pub(crate) unsafe fn now_ns(self) -> i64 {
        // SAFETY: as the caller guarantees.
        unsafe { (self.virtual_ns)() }
    }

    /// Instructions of all vCPUs.
    ///
    /// # Safety
    /// As for [`Self::now_ns`].
    pub(crate) unsafe fn insns(self) -> i64 {
        // SAFETY: as the caller guarantees.
        unsafe { (self.executed)() }
    }

    /// Halted time since the start. Not for vCPU threads: QEMU ends the process
    /// if one of them reads icount in the middle of a block.
    fn read_halted_ns(self) -> u64 {
        loop {
            // SAFETY: both only read, under QEMU's own sequence lock; this is
            // not a vCPU thread.
            let (before, now_ns, after) =
                unsafe { ((self.executed)(), (self.virtual_ns)(), (self.executed)()) };
            if before == after {
                return u64::try_from(now_ns - before).unwrap_or(0);
            }
        }
    }

    /// Halted time since the start, from any thread; `None` if no helper
    /// thread could be started.
    pub(crate) fn halted_ns(self) -> Option<u64> {
        let helper = std::thread::Builder::new().spawn(move || self.read_halted_ns());
        helper.ok()?.join().ok()
    }
}

/// Whether QEMU reports that the VM runs.
pub(crate) fn vm_is_running() -> bool {
    let Some(running) = symbol(c"runstate_is_running") else {
        return false;
    };
    // SAFETY: it is bool runstate_is_running(void) in every QEMU since 1.0; bool
    // is returned in al, so only the low byte is used.
    let running = unsafe { transmute::<*mut c_void, RunningFn>(running)() };
    running & 0xff != 0
}
