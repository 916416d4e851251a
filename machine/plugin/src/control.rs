// SPDX-License-Identifier: GPL-2.0-or-later
//! The control file as `format/rem_plugin_ctl.h` lays it out. A test reads that
//! header and compares.
//!
//! The lab writes to the same page at any time, so every field is an atomic.

use crate::args::Mark;
use crate::budget::Clocks;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::Release};

pub(crate) const MAGIC: u64 = 0x4e47_554c_504d_4552;
pub(crate) const VERSION: u32 = 4;
pub(crate) const CTL_BYTES: usize = 12288;
pub(crate) const CPUS_MAX: usize = 64;
pub(crate) const MARKS_MAX: usize = 8;
pub(crate) const TURNS_MAX: usize = 50;
pub(crate) const TRACE_RECORDS_MAX: u64 = 1 << 26;
pub(crate) const NONE: u64 = u64::MAX;

pub(crate) const JOB_COUNT: u32 = 1;
pub(crate) const JOB_CUT: u32 = 2;
pub(crate) const JOB_CACHE: u32 = 4;

pub(crate) const CMD_READ: u32 = 1;
pub(crate) const CMD_DISARM: u32 = 2;
pub(crate) const CMD_ARM_CUT: u32 = 3;
pub(crate) const CMD_ARM_CUT_AT: u32 = 4;
pub(crate) const CMD_ARM_HOLD_UP: u32 = 5;
pub(crate) const CMD_RESET_MARKS: u32 = 6;
pub(crate) const CMD_POWER_CUT: u32 = 7;
pub(crate) const CMD_HONOUR: u32 = 8;
pub(crate) const CMD_ARM_STORE: u32 = 9;
pub(crate) const CMD_WINDOW: u32 = 10;
pub(crate) const CMD_TRACE: u32 = 11;

pub(crate) const HONOUR_ALL: u64 = 0;
pub(crate) const HONOUR_BLOCK: u64 = 1;
pub(crate) const HONOUR_NOTHING: u64 = 2;
pub(crate) const HONOUR_FIRST: u64 = 3;
pub(crate) const HONOUR_INVD: u64 = 4;

/// Why a command was refused: `enum rem_plugin_error`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum CommandError {
    BadCommand = 1,
    BadArgument = 2,
    JobOff = 3,
    Running = 4,
    NoIcount = 5,
}

/// What ended the process: `enum rem_plugin_cut`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Cut {
    Count = 1,
    HoldUp = 2,
    Supply = 3,
    Store = 4,
}

const TAKEN: u64 = 1;
const BEING_TAKEN: u64 = 2;

const MARK_PC: u64 = 1;
const MARK_OUT: u64 = 2;
const MARK_USER: u64 = 3;

/// `struct rem_plugin_snapshot`
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) taken: AtomicU64,
    pub(crate) cpu: AtomicU64,
    pub(crate) halted_ns: AtomicU64,
    pub(crate) cycle_ps: AtomicU64,
    pub(crate) count: [AtomicU64; CPUS_MAX],
    pub(crate) waited_ns: [AtomicU64; CPUS_MAX],
}

impl Snapshot {
    /// True for the one caller that is to fill in an empty one.
    pub(crate) fn claim(&self) -> bool {
        let claimed = self
            .taken
            .compare_exchange(0, BEING_TAKEN, Relaxed, Relaxed);
        claimed.is_ok()
    }

    /// Fills it in; `taken` comes last, so that a reader never sees half of one.
    pub(crate) fn fill(&self, cpu: u64, clocks: &Clocks) {
        self.cpu.store(cpu, Relaxed);
        self.halted_ns.store(clocks.halted_ns, Relaxed);
        self.cycle_ps.store(clocks.cycle_ps, Relaxed);
        for (to, from) in self.count.iter().zip(&clocks.count) {
            to.store(*from, Relaxed);
        }
        for (to, from) in self.waited_ns.iter().zip(&clocks.waited_ns) {
            to.store(*from, Relaxed);
        }
        self.taken.store(TAKEN, Release);
    }
}

/// `struct rem_plugin_mark`
#[repr(C)]
#[derive(Debug)]
pub(crate) struct MarkRecord {
    pub(crate) kind: AtomicU64,
    pub(crate) value: AtomicU64,
    pub(crate) cut_after: AtomicU64,
    reserved: AtomicU64,
    pub(crate) first: Snapshot,
}

impl MarkRecord {
    /// Tells the lab what this mark is.
    pub(crate) fn describe(&self, mark: Mark) {
        let (kind, value) = match mark {
            Mark::Pc(address) => (MARK_PC, address),
            Mark::Out { port, byte } => (MARK_OUT, u64::from(port) | u64::from(byte) << 16),
            Mark::User => (MARK_USER, 0),
        };
        self.kind.store(kind, Relaxed);
        self.value.store(value, Relaxed);
        self.cut_after.store(NONE, Relaxed);
    }
}

/// `struct rem_plugin_turn`
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Turn {
    address: AtomicU64,
    cpu: AtomicU64,
}

/// `struct rem_plugin_cache`
#[repr(C)]
#[derive(Debug)]
pub(crate) struct CacheRecord {
    pub(crate) taken: AtomicU64,
    pub(crate) stores: AtomicU64,
    pub(crate) first_level_misses: AtomicU64,
    pub(crate) memory_reads: AtomicU64,
    pub(crate) write_backs: AtomicU64,
    pub(crate) evictions: AtomicU64,
    pub(crate) swept: AtomicU64,
    pub(crate) unseen: AtomicU64,
    pub(crate) dirty_lines: AtomicU64,
    pub(crate) differ_lines: AtomicU64,
    pub(crate) lost_lines: AtomicU64,
    pub(crate) digest_due: AtomicU64,
    pub(crate) digest_media: AtomicU64,
    pub(crate) reverted_lines: AtomicU64,
    reserved: [AtomicU64; 2],
}

/// `struct rem_plugin_ctl`
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Ctl {
    pub(crate) magic: AtomicU64,
    pub(crate) version: AtomicU32,
    pub(crate) cpu_count: AtomicU32,
    pub(crate) jobs: AtomicU32,
    pub(crate) icount: AtomicU32,
    pub(crate) mark_count: AtomicU32,
    pub(crate) pid: AtomicU32,
    pub(crate) request: AtomicU32,
    pub(crate) command: AtomicU32,
    pub(crate) argument: [AtomicU64; 2],
    reserved: [AtomicU64; 3],
    pub(crate) done: AtomicU32,
    pub(crate) error: AtomicU32,
    pub(crate) cut: AtomicU32,
    reserved2: AtomicU32,
    reserved3: [AtomicU64; 4],
    pub(crate) now: Snapshot,
    pub(crate) at_cut: Snapshot,
    pub(crate) marks: [MarkRecord; MARKS_MAX],
    turn_count: AtomicU64,
    turns: [Turn; TURNS_MAX],
    pub(crate) cache: CacheRecord,
}

impl Ctl {
    pub(crate) fn forget_turns(&self) {
        self.turn_count.store(0, Relaxed);
    }

    /// Notes where a vCPU's turn was over. vCPUs run in turn, so one at a time.
    pub(crate) fn note_turn(&self, cpu: u64, address: u64) {
        let number = self.turn_count.load(Relaxed);
        let turn = usize::try_from(number)
            .ok()
            .and_then(|index| self.turns.get(index));
        if let Some(turn) = turn {
            turn.address.store(address, Relaxed);
            turn.cpu.store(cpu, Relaxed);
        }
        self.turn_count.store(number + 1, Release);
    }
}

const _: () = assert!(size_of::<Ctl>() <= CTL_BYTES);

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;
    use std::mem::offset_of;

    const HEADER: &str = include_str!("../../../format/rem_plugin_ctl.h");

    /// Every `offsetof` and `sizeof` that the header asserts.
    fn asserted() -> HashMap<String, usize> {
        let mut found = HashMap::new();
        for line in HEADER.lines() {
            let Some(rest) = line.strip_prefix("static_assert(") else {
                continue;
            };
            let (what, number) = rest.split_once(" == ").unwrap();
            let number = number.trim_end_matches(");").parse().unwrap();
            found.insert(what.replace("struct rem_plugin_", ""), number);
        }
        found
    }

    fn number(text: &str) -> u64 {
        match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).unwrap(),
            None => text.parse().unwrap(),
        }
    }

    /// Every `#define NAME number` and `NAME = number,` of the header.
    fn constants() -> HashMap<String, u64> {
        let mut found = HashMap::new();
        for line in HEADER.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                ["#define", name, value] => found.insert(name.to_owned(), number(value)),
                [name, "=", value] if value.ends_with(',') => {
                    found.insert(name.to_owned(), number(value.trim_end_matches(',')))
                }
                _ => None,
            };
        }
        found
    }

    #[test]
    fn layout_is_the_header_s() {
        let ours = [
            ("sizeof(snapshot)", size_of::<Snapshot>()),
            ("offsetof(snapshot, count)", offset_of!(Snapshot, count)),
            ("sizeof(cache)", size_of::<CacheRecord>()),
            (
                "offsetof(snapshot, waited_ns)",
                offset_of!(Snapshot, waited_ns),
            ),
            ("offsetof(ctl, cache)", offset_of!(Ctl, cache)),
            ("sizeof(mark)", size_of::<MarkRecord>()),
            ("offsetof(mark, first)", offset_of!(MarkRecord, first)),
            ("sizeof(turn)", size_of::<Turn>()),
            ("offsetof(ctl, turns)", offset_of!(Ctl, turns)),
            ("offsetof(ctl, request)", offset_of!(Ctl, request)),
            ("offsetof(ctl, argument)", offset_of!(Ctl, argument)),
            ("offsetof(ctl, done)", offset_of!(Ctl, done)),
            ("offsetof(ctl, cut)", offset_of!(Ctl, cut)),
            ("offsetof(ctl, now)", offset_of!(Ctl, now)),
            ("offsetof(ctl, at_cut)", offset_of!(Ctl, at_cut)),
            ("offsetof(ctl, marks)", offset_of!(Ctl, marks)),
            ("sizeof(ctl)", size_of::<Ctl>()),
        ];
        let ours: HashMap<String, usize> =
            ours.into_iter().map(|(k, v)| (k.to_owned(), v)).collect();
        assert_eq!(ours, asserted());
    }

    #[test]
    fn constants_are_the_header_s() {
        let ours: [(&str, u64); 41] = [
            ("MAGIC", MAGIC),
            ("VERSION", VERSION.into()),
            ("CTL_BYTES", CTL_BYTES as u64),
            ("CPUS_MAX", CPUS_MAX as u64),
            ("MARKS_MAX", MARKS_MAX as u64),
            ("TURNS_MAX", TURNS_MAX as u64),
            ("NONE", NONE),
            ("JOB_COUNT", JOB_COUNT.into()),
            ("JOB_CUT", JOB_CUT.into()),
            ("JOB_CACHE", JOB_CACHE.into()),
            ("READ", CMD_READ.into()),
            ("DISARM", CMD_DISARM.into()),
            ("ARM_CUT", CMD_ARM_CUT.into()),
            ("ARM_CUT_AT", CMD_ARM_CUT_AT.into()),
            ("ARM_HOLD_UP", CMD_ARM_HOLD_UP.into()),
            ("RESET_MARKS", CMD_RESET_MARKS.into()),
            ("POWER_CUT", CMD_POWER_CUT.into()),
            ("HONOUR", CMD_HONOUR.into()),
            ("ARM_STORE", CMD_ARM_STORE.into()),
            ("WINDOW", CMD_WINDOW.into()),
            ("TRACE", CMD_TRACE.into()),
            ("TRACE_RECORDS_MAX", TRACE_RECORDS_MAX),
            ("HONOUR_ALL", HONOUR_ALL),
            ("HONOUR_BLOCK", HONOUR_BLOCK),
            ("HONOUR_NOTHING", HONOUR_NOTHING),
            ("HONOUR_FIRST", HONOUR_FIRST),
            ("HONOUR_INVD", HONOUR_INVD),
            ("OK", 0),
            ("BAD_COMMAND", CommandError::BadCommand as u64),
            ("BAD_ARGUMENT", CommandError::BadArgument as u64),
            ("JOB_OFF", CommandError::JobOff as u64),
            ("RUNNING", CommandError::Running as u64),
            ("NO_ICOUNT", CommandError::NoIcount as u64),
            ("MARK_PC", MARK_PC),
            ("MARK_OUT", MARK_OUT),
            ("MARK_USER", MARK_USER),
            ("NOT_CUT", 0),
            ("CUT_COUNT", Cut::Count as u64),
            ("CUT_HOLD_UP", Cut::HoldUp as u64),
            ("CUT_SUPPLY", Cut::Supply as u64),
            ("CUT_STORE", Cut::Store as u64),
        ];
        let mut theirs = constants();
        for (name, value) in ours {
            let name = format!("REM_PLUGIN_{name}");
            assert_eq!(theirs.remove(&name), Some(value), "{name}");
        }
        assert_eq!(theirs.remove("REM_PLUGIN_MARK_UNUSED"), Some(0));
        assert!(theirs.is_empty(), "not known here: {theirs:?}");
    }
}
