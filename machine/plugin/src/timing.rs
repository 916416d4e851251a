// SPDX-License-Identifier: GPL-2.0-or-later
//! Callbacks by which guest time follows the model.

use crate::caching::{self, Job};
use crate::code::Code;
use crate::cut::PLUGIN;
use crate::guest_time::GuestTime;
use libc::{c_uint, c_void};
use remanence_cache::Core;

impl Job {
    /// A block begins. Returns whether the turn ends after it.
    #[inline]
    fn block_begins(&mut self, cpu: usize, code: &Code) -> bool {
        let (Some(time), Some(bias)) = (&mut self.time, self.bias) else {
            return false;
        };
        if time.begins_turn(cpu) {
            bias.add(time.begin_turn(cpu, bias.now_ns()));
        }
        self.fetch(cpu, code);
        let waited_ps = self.caches.waited_ps(Core(cpu));
        let Some(time) = &mut self.time else {
            return false;
        };
        let step = time.step(cpu, code.insns, waited_ps);
        bias.add(step.bias_ns);
        step.ends_turn
    }
}

impl Job {
    /// What a core has waited, given for how long it has executed: for memory only, or, where guest
    /// time follows the model, all else until now.
    pub(crate) fn waited_ps(&self, core: Core, executed_ps: u64) -> u64 {
        let waited_ps = self.caches.waited_ps(core);
        self.time.as_ref().map_or(waited_ps, |time| {
            time.now_ps(core.0, waited_ps).saturating_sub(executed_ps)
        })
    }

    /// Where guest time follows the model: for how long all vCPUs have been halted.
    pub(crate) fn beyond_ns(&self) -> Option<u64> {
        let (time, bias) = (self.time.as_ref()?, self.bias?);
        Some(bias.now_ns().saturating_sub(time.shown_ns()))
    }
}

/// A block begins, which is the data.
pub(crate) unsafe extern "C" fn block_begins(cpu: c_uint, data: *mut c_void) {
    // SAFETY: a callback of the vCPUs' thread.
    let Some(job) = (unsafe { caching::job() }) else {
        return;
    };
    // SAFETY: QEMU has this block, so it has not been forgotten.
    let code = unsafe { &*data.cast::<Code>() };
    if job.block_begins(cpu as usize, code) {
        if let Some(parallel) = PLUGIN.get().and_then(|plugin| plugin.parallel) {
            parallel.end_turn(cpu);
        }
    }
}

fn with_time(change: impl Fn(&mut GuestTime)) {
    // SAFETY: a callback of the vCPUs' thread.
    if let Some(time) = unsafe { caching::job() }.and_then(|job| job.time.as_mut()) {
        change(time);
    }
}

/// About to halt.
pub(crate) unsafe extern "C" fn halts(cpu: c_uint, _data: *mut c_void) {
    with_time(|time| time.halts(cpu as usize));
}

/// About to execute PAUSE.
pub(crate) unsafe extern "C" fn pauses(cpu: c_uint, _data: *mut c_void) {
    with_time(|time| time.pauses(cpu as usize));
}
