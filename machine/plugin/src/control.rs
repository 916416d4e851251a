// SPDX-License-Identifier: GPL-2.0-or-later
//! The control file of `format/rem_plugin_ctl.h`: its numbers under short names, and the
//! operations on its structs.
//!
//! The lab writes to the same page at any time, so every field is an atomic.

use crate::args::Mark;
use crate::budget::Clocks;
use remanence_format as format;
use remanence_format::{u32_of, usize_of};
use std::sync::atomic::{Ordering::Relaxed, Ordering::Release};

pub(crate) use remanence_format::atomic::{
    RemPluginCache as CacheRecord, RemPluginCtl as Ctl, RemPluginMark as MarkRecord,
    RemPluginMemory as MemoryRecord, RemPluginSnapshot as Snapshot,
};
pub(crate) use remanence_format::{
    REM_PLUGIN_ARM_CUT as CMD_ARM_CUT, REM_PLUGIN_ARM_CUT_AT as CMD_ARM_CUT_AT,
    REM_PLUGIN_ARM_HOLD_UP as CMD_ARM_HOLD_UP, REM_PLUGIN_ARM_STORE as CMD_ARM_STORE,
    REM_PLUGIN_DISARM as CMD_DISARM, REM_PLUGIN_HONOUR as CMD_HONOUR, REM_PLUGIN_MAGIC as MAGIC,
    REM_PLUGIN_NONE as NONE, REM_PLUGIN_POWER_CUT as CMD_POWER_CUT, REM_PLUGIN_READ as CMD_READ,
    REM_PLUGIN_RESET_MARKS as CMD_RESET_MARKS, REM_PLUGIN_TRACE as CMD_TRACE,
    REM_PLUGIN_TRACE_RECORDS_MAX as TRACE_RECORDS_MAX, REM_PLUGIN_WINDOW as CMD_WINDOW,
};

pub(crate) const VERSION: u32 = u32_of(format::REM_PLUGIN_VERSION);
pub(crate) const CTL_BYTES: usize = usize_of(format::REM_PLUGIN_CTL_BYTES);
pub(crate) const CPUS_MAX: usize = usize_of(format::REM_PLUGIN_CPUS_MAX);
pub(crate) const MARKS_MAX: usize = usize_of(format::REM_PLUGIN_MARKS_MAX);

pub(crate) const JOB_COUNT: u32 = u32_of(format::REM_PLUGIN_JOB_COUNT);
pub(crate) const JOB_CUT: u32 = u32_of(format::REM_PLUGIN_JOB_CUT);
pub(crate) const JOB_CACHE: u32 = u32_of(format::REM_PLUGIN_JOB_CACHE);

pub(crate) const HONOUR_ALL: u64 = format::REM_PLUGIN_HONOUR_ALL as u64;
pub(crate) const HONOUR_BLOCK: u64 = format::REM_PLUGIN_HONOUR_BLOCK as u64;
pub(crate) const HONOUR_NOTHING: u64 = format::REM_PLUGIN_HONOUR_NOTHING as u64;
pub(crate) const HONOUR_FIRST: u64 = format::REM_PLUGIN_HONOUR_FIRST as u64;
pub(crate) const HONOUR_INVD: u64 = format::REM_PLUGIN_HONOUR_INVD as u64;

/// Why a command was refused: `enum rem_plugin_error`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum CommandError {
    BadCommand = format::REM_PLUGIN_BAD_COMMAND,
    BadArgument = format::REM_PLUGIN_BAD_ARGUMENT,
    JobOff = format::REM_PLUGIN_JOB_OFF,
    Running = format::REM_PLUGIN_RUNNING,
    NoIcount = format::REM_PLUGIN_NO_ICOUNT,
}

/// What ended the process: `enum rem_plugin_cut`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Cut {
    Count = format::REM_PLUGIN_CUT_COUNT,
    HoldUp = format::REM_PLUGIN_CUT_HOLD_UP,
    Supply = format::REM_PLUGIN_CUT_SUPPLY,
    Store = format::REM_PLUGIN_CUT_STORE,
}

// Values of `taken` of a snapshot; 0 is empty.
const TAKEN: u64 = 1;
const BEING_TAKEN: u64 = 2;

/// True for the one caller that must fill an empty snapshot.
pub(crate) fn claim(snapshot: &Snapshot) -> bool {
    let claimed = snapshot
        .taken
        .compare_exchange(0, BEING_TAKEN, Relaxed, Relaxed);
    claimed.is_ok()
}

/// Fills a snapshot; `taken` comes last, so that a reader never sees half of one.
pub(crate) fn fill(snapshot: &Snapshot, cpu: u64, clocks: &Clocks) {
    snapshot.cpu.store(cpu, Relaxed);
    snapshot.halted_ns.store(clocks.halted_ns, Relaxed);
    snapshot.cycle_ps.store(clocks.cycle_ps, Relaxed);
    for (to, from) in snapshot.count.iter().zip(&clocks.count) {
        to.store(*from, Relaxed);
    }
    for (to, from) in snapshot.waited_ns.iter().zip(&clocks.waited_ns) {
        to.store(*from, Relaxed);
    }
    snapshot.taken.store(TAKEN, Release);
}

/// Writes the description of this mark into the control file.
pub(crate) fn describe(record: &MarkRecord, mark: Mark) {
    let (kind, value) = match mark {
        Mark::Pc(address) | Mark::Stopped(address) => (format::REM_PLUGIN_MARK_PC, address),
        Mark::Out { port, byte } => {
            let value = u64::from(port) | (u64::from(byte) << 16);
            (format::REM_PLUGIN_MARK_OUT, value)
        }
        Mark::User => (format::REM_PLUGIN_MARK_USER, 0),
    };
    record.kind.store(u64::from(kind), Relaxed);
    record.value.store(value, Relaxed);
    record.cut_after.store(NONE, Relaxed);
}

pub(crate) fn forget_turns(ctl: &Ctl) {
    ctl.turn_count.store(0, Relaxed);
}

/// Records where a vCPU's turn ended. vCPUs run in turn, so one at a time.
pub(crate) fn note_turn(ctl: &Ctl, cpu: u64, address: u64) {
    let number = ctl.turn_count.load(Relaxed);
    let turn = usize::try_from(number)
        .ok()
        .and_then(|index| ctl.turns.get(index));
    if let Some(turn) = turn {
        turn.address.store(address, Relaxed);
        turn.cpu.store(cpu, Relaxed);
    }
    ctl.turn_count.store(number + 1, Release);
}

// Arrays of the structs have the lengths of the header.
const _: () = {
    assert!(size_of::<Ctl>() <= CTL_BYTES);
    assert!(size_of::<Snapshot>() == 32 + 2 * CPUS_MAX * size_of::<u64>());
    let marks = size_of::<MarkRecord>() * MARKS_MAX;
    assert!(std::mem::offset_of!(Ctl, turn_count) == std::mem::offset_of!(Ctl, marks) + marks);
    let turns = size_of::<format::RemPluginTurn>() * usize_of(format::REM_PLUGIN_TURNS_MAX);
    assert!(std::mem::offset_of!(Ctl, cache) == std::mem::offset_of!(Ctl, turns) + turns);
};
