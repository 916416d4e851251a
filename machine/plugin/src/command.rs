// SPDX-License-Identifier: GPL-2.0-or-later
//! The lab's commands, executed by a thread of the plugin.

use crate::caching;
use crate::clock::vm_is_running;
use crate::control::{
    CMD_ARM_CUT, CMD_ARM_CUT_AT, CMD_ARM_HOLD_UP, CMD_ARM_STORE, CMD_DISARM, CMD_HONOUR,
    CMD_POWER_CUT, CMD_READ, CMD_RESET_MARKS, CMD_TRACE, CMD_WINDOW, CommandError, Cut, NONE,
    TRACE_RECORDS_MAX,
};
use crate::cut::Plugin;
use libc::{c_int, c_uint, timespec};
use std::sync::atomic::{AtomicU32, Ordering};

/// Longest wait of a command whose futex wake-up was lost.
const POLL_NS: i64 = 20_000_000;
/// How often a hold-up is checked, since halted vCPUs burn no fuse.
const HOLD_UP_POLL_NS: i64 = 1_000_000;

/// Serves commands for ever.
pub(crate) fn serve(plugin: &'static Plugin) {
    let ctl = plugin.ctl;
    loop {
        let request = ctl.request.load(Ordering::Acquire);
        if request == ctl.done.load(Ordering::Relaxed) {
            let poll_ns = if plugin.hold_up_is_armed() {
                HOLD_UP_POLL_NS
            } else {
                POLL_NS
            };
            futex(&ctl.request, libc::FUTEX_WAIT, request, poll_ns);
            plugin.check_hold_up();
            continue;
        }
        let error = carry_out(plugin).err().map_or(0, |error| error as u32);
        ctl.error.store(error, Ordering::Relaxed);
        ctl.done.store(request, Ordering::Release);
        futex(&ctl.done, libc::FUTEX_WAKE, u32::MAX >> 1, 0);
    }
}

fn carry_out(plugin: &Plugin) -> Result<(), CommandError> {
    let ctl = plugin.ctl;
    let first = ctl.argument[0].load(Ordering::Relaxed);
    let second = ctl.argument[1].load(Ordering::Relaxed);
    match ctl.command.load(Ordering::Relaxed) {
        CMD_READ => {
            need(plugin.plan.count, CommandError::JobOff)?;
            plugin.snapshot(&ctl.now, NONE);
            if !vm_is_running() {
                // SAFETY: the VM is stopped.
                if let Some(job) = unsafe { caching::job() } {
                    job.report(ctl);
                }
            }
        }
        CMD_DISARM => {
            need(!vm_is_running(), CommandError::Running)?;
            plugin.disarm();
        }
        CMD_ARM_CUT => {
            need(plugin.plan.cut, CommandError::JobOff)?;
            need(!vm_is_running(), CommandError::Running)?;
            let cpu = index(first, plugin.cpu_count)?;
            need(second != NONE, CommandError::BadArgument)?;
            plugin.arm_count(c_uint::try_from(cpu).unwrap_or(0), second);
        }
        CMD_ARM_CUT_AT => {
            need(plugin.plan.cut, CommandError::JobOff)?;
            need(!vm_is_running(), CommandError::Running)?;
            let mark = index(first, plugin.plan.marks.len())?;
            need(second != NONE, CommandError::BadArgument)?;
            plugin.disarm();
            plugin.set_exact(true);
            ctl.marks[mark].cut_after.store(second, Ordering::Relaxed);
            plugin.want_user();
        }
        CMD_ARM_HOLD_UP => {
            need(plugin.plan.cut, CommandError::JobOff)?;
            need(!vm_is_running(), CommandError::Running)?;
            need(plugin.halted_ns() != NONE, CommandError::NoIcount)?;
            plugin.arm_hold_up(first);
        }
        CMD_RESET_MARKS => {
            for mark in &ctl.marks {
                mark.first.taken.store(0, Ordering::Relaxed);
            }
            plugin.want_user();
        }
        CMD_POWER_CUT => {
            need(!vm_is_running(), CommandError::Running)?;
            plugin.cut(Cut::Supply, NONE)
        }
        command => return with_caches(plugin, command, first),
    }
    Ok(())
}

/// Commands that only a machine with caches takes.
fn with_caches(plugin: &Plugin, command: u32, argument: u64) -> Result<(), CommandError> {
    if !matches!(command, CMD_HONOUR | CMD_ARM_STORE | CMD_WINDOW | CMD_TRACE) {
        return Err(CommandError::BadCommand);
    }
    need(!vm_is_running(), CommandError::Running)?;
    // SAFETY: the VM is stopped.
    let job = unsafe { caching::job() }.ok_or(CommandError::JobOff)?;
    match command {
        CMD_HONOUR => need(job.set_honour(argument), CommandError::BadArgument)?,
        CMD_ARM_STORE => {
            (job.stores, job.store_fuse) = (0, argument);
            plugin.set_exact(argument != 0);
        }
        CMD_TRACE => {
            need(job.caches.timing.has_file(), CommandError::JobOff)?;
            need(argument <= TRACE_RECORDS_MAX, CommandError::BadArgument)?;
            job.caches.timing.begin(argument);
            plugin.retranslate();
        }
        _ => {
            need(job.is_recording(), CommandError::JobOff)?;
            need(argument <= 1, CommandError::BadArgument)?;
            job.set_window(argument == 1);
            plugin.set_exact(argument == 1);
        }
    }
    Ok(())
}

fn need(holds: bool, error: CommandError) -> Result<(), CommandError> {
    if holds { Ok(()) } else { Err(error) }
}

fn index(argument: u64, len: usize) -> Result<usize, CommandError> {
    usize::try_from(argument)
        .ok()
        .filter(|index| *index < len)
        .ok_or(CommandError::BadArgument)
}

/// Waits at most `timeout_ns` while `word` is `value`, or wakes those that wait
/// for it. The page is shared with another process, so the futex is not private.
fn futex(word: &AtomicU32, operation: c_int, value: u32, timeout_ns: i64) {
    let timeout = timespec {
        tv_sec: 0,
        tv_nsec: timeout_ns,
    };
    // SAFETY: the word is 4 bytes of a mapping that is never removed; FUTEX_WAKE
    // ignores the time-out. Its result is not needed: callers read the
    // words again.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            operation,
            value,
            &raw const timeout,
        )
    };
}
