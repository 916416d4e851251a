// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Planted bugs: each changes the steps of one part, on the machine on which it matters, and names the
//! promise that it must break. Where `rem campaign` plants the same bug in its model, in the kernel or in
//! the loader, it has the same name.

use crate::config::Change;
use crate::lines::{Covered, Line, Value};
use crate::machine::content;
use crate::promises::Broken;
use crate::steps::{Op, Part, slot_of};

/// A planted bug.
#[derive(Debug, Clone, Copy)]
pub struct Mutant {
    /// By which it is named.
    pub name: &'static str,
    /// The machine that has it.
    pub machine: &'static str,
    /// What it must break.
    pub breaks: Broken,
    /// Names under which `rem campaign` plants it.
    pub also: &'static [&'static str],
    /// The bug.
    pub change: Change,
}

const LATE: Op = Op::Store(Line::Memory(0), Value::Content(content::LATE));

fn drop_all(ops: &mut Vec<Op>, wrong: impl Fn(&Op) -> bool) {
    ops.retain(|op| !wrong(op));
}

fn put_before(ops: &mut Vec<Op>, new: &[Op], at: impl Fn(&Op) -> bool) {
    if let Some(place) = ops.iter().position(at) {
        ops.splice(place..place, new.iter().copied());
    }
}

const fn is_flush_of_commit(op: &Op) -> bool {
    matches!(op, Op::Flush(Line::Commit(_)))
}

const fn is_commit(op: &Op) -> bool {
    matches!(op, Op::Commit(..))
}

const fn is_consume(op: &Op) -> bool {
    matches!(
        op,
        Op::Consume(_) | Op::Flush(Line::Consumed) | Op::CheckConsumed(_)
    )
}

/// Names in kernel/mutants and loader/mutants of bugs that have another one here.
const fn also(name: &str) -> &'static [&'static str] {
    match name.as_bytes() {
        b"commit-before-flush" => &["commit-early"],
        b"commit-not-flushed" => &["skip-fence", "word-not-flushed"],
        b"report-before-written" => &["report-unwritten"],
        b"not-consumed" => &["skip-consume"],
        b"loader-writes-image" => &["write-image"],
        _ => &[],
    }
}

const fn planted(
    name: &'static str,
    machine: &'static str,
    breaks: Broken,
    change: Change,
) -> Mutant {
    Mutant {
        name,
        machine,
        breaks,
        also: also(name),
        change,
    }
}

/// A bug at the end of Stop.
macro_rules! in_stop {
    ($name:literal, $machine:literal, $breaks:ident, |$ops:ident, $sequence:ident| $body:expr) => {
        planted($name, $machine, Broken::$breaks, |part, $ops| {
            if let Part::Stop($sequence) = part {
                $body;
            }
        })
    };
}

/// A bug of the loader that enters an image.
macro_rules! in_resume {
    ($name:literal, $machine:literal, $breaks:ident, |$ops:ident, $sequence:ident| $body:expr) => {
        planted($name, $machine, Broken::$breaks, |part, $ops| {
            if let Part::Resume(head) = part {
                let $sequence = head.sequence;
                $body;
            }
        })
    };
}

/// A bug that leaves steps out, wherever they are.
macro_rules! without {
    ($name:literal, $machine:literal, $breaks:ident, $steps:pat) => {
        planted($name, $machine, Broken::$breaks, |_, ops| {
            drop_all(ops, |op| matches!(op, $steps))
        })
    };
}

fn consume_older(part: Part, ops: &mut Vec<Op>) {
    if !matches!(part, Part::Resume(_) | Part::Cold(..)) {
        return;
    }
    for op in ops {
        match op {
            Op::Consume(sequence) | Op::CheckConsumed(sequence) => *sequence -= 1,
            _ => {}
        }
    }
}

fn consume_after_entry(part: Part, ops: &mut Vec<Op>) {
    match part {
        Part::Resume(_) => drop_all(ops, is_consume),
        Part::Go(sequence) => {
            let consume = [Op::Consume(sequence), Op::Flush(Line::Consumed)];
            put_before(ops, &consume, |op| *op == Op::Gate);
        }
        _ => {}
    }
}

fn arm_keeps_commit(part: Part, ops: &mut Vec<Op>) {
    if let Part::Prepare(..) = part {
        drop_all(ops, |op| {
            matches!(op, Op::Store(Line::Commit(_), _)) || is_flush_of_commit(op)
        });
    }
}

fn arm_clears_both(part: Part, ops: &mut Vec<Op>) {
    if let Part::Prepare(sequence, _) = part {
        let other = Line::Commit(slot_of(sequence + 1));
        ops.splice(0..0, [Op::Store(other, Value::Zero), Op::Flush(other)]);
    }
}

fn commit_early(ops: &mut Vec<Op>) {
    let early: Vec<Op> = { ops.iter().copied() }
        .filter(|op| matches!(op, Op::Finish(_)) || is_commit(op))
        .collect();
    drop_all(ops, |op| early.contains(op));
    put_before(ops, &early, |op| matches!(op, Op::FlushAll(_)));
}

fn body_after_commit(ops: &mut Vec<Op>) {
    let late: Vec<Op> = { ops.iter().copied() }
        .filter(|op| matches!(op, Op::Finish(_) | Op::Flush(Line::Head(_))))
        .collect();
    drop_all(ops, |op| late.contains(op));
    put_before(ops, &late, |op| *op == Op::Drain);
}

fn commit_twice(ops: &mut Vec<Op>, sequence: u8) {
    let line = Line::Commit(slot_of(sequence));
    let word = Value::Commit(sequence + 2, Covered::Other, Covered::Other);
    let again = [Op::Store(line, word), Op::Flush(line)];
    put_before(ops, &again, |op| *op == Op::Drain);
}

fn old_sequence(ops: &mut [Op], sequence: u8) {
    let line = Line::Commit(slot_of(sequence));
    let word = Value::Commit(sequence - 1, Covered::Other, Covered::Other);
    for op in ops.iter_mut().filter(|op| is_commit(op)) {
        *op = Op::Store(line, word);
    }
}

fn report_early(ops: &mut Vec<Op>) {
    drop_all(ops, |op| *op == Op::Tell);
    put_before(ops, &[Op::Tell], is_commit);
}

fn hears(ops: &mut [Op], before: bool, during: bool) {
    for op in ops.iter_mut().filter(|op| matches!(op, Op::Wait(..))) {
        *op = Op::Wait(before, during);
    }
}

/// All of them.
pub static MUTANTS: &[Mutant] = &[
    without!("skip-flush", "plain", Differs, Op::FlushAll(_)),
    without!("flush-one-line-short", "plain", Differs, Op::FlushAll(0)),
    without!("skip-other-flush", "plain", Differs, Op::FlushAll(1)),
    without!("skip-context", "plain", Differs, Op::Contexts),
    in_stop!("commit-before-flush", "plain", Differs, |ops, _s| {
        commit_early(ops)
    }),
    in_stop!("body-after-commit", "plain", Damaged, |ops, _s| {
        body_after_commit(ops)
    }),
    in_stop!("store-after-flush", "plain", Differs, |ops, _s| {
        put_before(ops, &[LATE], |op| matches!(op, Op::Finish(_)))
    }),
    in_stop!(
        "commit-not-flushed",
        "plain",
        ReportedTooEarly,
        |ops, _s| { drop_all(ops, is_flush_of_commit) }
    ),
    in_stop!(
        "skip-commit",
        "plain",
        ReportedTooEarly,
        |ops, _s| drop_all(ops, |op| is_commit(op) || is_flush_of_commit(op))
    ),
    in_stop!("reported-early", "plain", ReportedTooEarly, |ops, _s| {
        report_early(ops)
    }),
    in_stop!("old-sequence", "plain", Damaged, |ops, sequence| {
        old_sequence(ops, sequence)
    }),
    in_stop!("commit-twice", "plain", Damaged, |ops, sequence| {
        commit_twice(ops, sequence)
    }),
    in_stop!("consume-ahead", "plain", WrongReason, |ops, sequence| {
        put_before(
            ops,
            &[Op::Consume(sequence), Op::Flush(Line::Consumed)],
            is_commit,
        )
    }),
    in_stop!(
        "report-before-written",
        "volatile-queue",
        ReportedTooEarly,
        |ops, _s| { drop_all(ops, |op| *op == Op::Drain) }
    ),
    in_stop!("deaf-before-commit", "flaps", Stuck, |ops, _s| {
        hears(ops, false, true)
    }),
    in_stop!("deaf-after-commit", "flaps", Stuck, |ops, _s| {
        hears(ops, false, false)
    }),
    in_stop!("crc-narrow", "plain", Damaged, |ops, _s| {
        for op in ops.iter_mut() {
            if let Op::Commit(slot, _) = *op {
                *op = Op::Commit(slot, false);
            }
        }
    }),
    without!("device-after-commit", "plain", Unseen, Op::Devices),
    without!("skip-save", "nvdimm", ReportedTooEarly, Op::Save),
    without!("skip-erase", "nvdimm", EnteredTwice, Op::Erase),
    planted(
        "skip-save-wait",
        "nvdimm",
        Broken::ReportedTooEarly,
        |part, ops| {
            if part == Part::Loader {
                for op in ops.iter_mut().filter(|op| **op == Op::Restore) {
                    *op = Op::RestoreHasty;
                }
            }
        },
    ),
    planted(
        "arm-keeps-commit",
        "plain",
        Broken::Damaged,
        arm_keeps_commit,
    ),
    planted(
        "arm-clears-both",
        "plain",
        Broken::WrongReason,
        arm_clears_both,
    ),
    in_resume!("not-consumed", "plain", EnteredTwice, |ops, _s| drop_all(
        ops, is_consume
    )),
    in_resume!("consume-not-flushed", "plain", EnteredTwice, |ops, _s| {
        drop_all(ops, |op| *op == Op::Flush(Line::Consumed))
    }),
    in_resume!("loader-writes-image", "plain", Differs, |ops, _s| {
        put_before(ops, &[LATE], is_consume)
    }),
    in_resume!(
        "enter-before-written",
        "volatile-queue",
        EnteredTwice,
        |ops, _s| { drop_all(ops, |op| *op == Op::Drain) }
    ),
    planted(
        "consume-after-entry",
        "plain",
        Broken::EnteredTwice,
        consume_after_entry,
    ),
    planted(
        "consume-older",
        "plain",
        Broken::EnteredTwice,
        consume_older,
    ),
    planted("leave-open", "plain", Broken::Differs, |part, ops| {
        if let Part::Cold(..) = part {
            drop_all(ops, is_consume);
        }
    }),
    without!("forget-hold", "hold", GivenUp, Op::Hold),
    without!("skip-wait", "plain", EnteredWithoutCharge, Op::WaitCharge),
    without!("forget-drop", "plain", DropForgotten, Op::Level),
    without!("forget-events", "flaps", WrongReason, Op::GiveUp),
    without!("ignore-budget", "flaps", OverBudget, Op::Budget),
    without!("monotonic-counts", "plain", ClocksWrong, Op::Clocks),
    without!("replay-random", "plain", RandomnessRepeats, Op::Reseed),
    planted("keep-stamp", "changes", Broken::Differs, |part, ops| {
        if part == Part::Elsewhere {
            ops.clear();
        }
    }),
];

/// The bug of this name.
#[must_use]
pub fn named(name: &str) -> Option<&'static Mutant> {
    MUTANTS.iter().find(|mutant| mutant.name == name)
}
