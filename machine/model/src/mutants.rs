// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Planted bugs of the protocol. Each names the violations (`Broken` of `remanence-campaign`, in
//! kebab case) by which it must be found; another one does not count.

use std::io::Result;

use remanence_recording::DOMAIN_NONE;

use crate::image::{self, CONTEXTS, MEMORY};
use crate::machine::Machine;
use crate::protocol::{Protocol, Right, Stop, consume, flush_consumed};

/// A protocol with one wrong step.
pub struct Mutant {
    /// By which it is chosen.
    pub name: &'static str,
    /// The violations that find it.
    pub violates: &'static [&'static str],
    /// The protocol.
    pub protocol: &'static (dyn Protocol + Sync),
}

impl std::fmt::Debug for Mutant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// A bug whose end of Stop is this one.
struct Finish(fn(&mut Stop<'_>) -> Result<()>);

impl Protocol for Finish {
    fn finish(&self, stop: &mut Stop<'_>) -> Result<()> {
        self.0(stop)
    }
}

/// A bug whose loader ends like this.
struct Enter(fn(&mut Machine, u32) -> Result<()>);

impl Protocol for Enter {
    fn enter(&self, machine: &mut Machine, sequence: u32) -> Result<()> {
        self.0(machine, sequence)
    }
}

struct ArmKeepsCommit;

impl Protocol for ArmKeepsCommit {
    fn clear_commit(&self, _: &mut Machine, _: u32) -> Result<()> {
        Ok(())
    }
}

/// The reason of a cold boot is then that there was never an image.
struct ArmClearsBoth;

impl Protocol for ArmClearsBoth {
    fn clear_commit(&self, machine: &mut Machine, sequence: u32) -> Result<()> {
        for slot in [sequence, sequence + 1] {
            let commit = image::commit_offset(slot);
            machine.store(0, commit, &[0; 8])?;
            machine.flush(commit)?;
        }
        Ok(())
    }
}

/// An image whose sequence counts as consumed before it is committed.
struct ConsumeAhead;

impl Protocol for ConsumeAhead {
    fn finish(&self, stop: &mut Stop<'_>) -> Result<()> {
        consume(stop.machine, stop.sequence)?;
        flush_consumed(stop.machine)?;
        Right.finish(stop)
    }
}

struct ConsumeAfterEntry;

impl Protocol for ConsumeAfterEntry {
    fn enter(&self, _: &mut Machine, _: u32) -> Result<()> {
        Ok(())
    }

    fn resumed(&self, machine: &mut Machine, sequence: u32) -> Result<()> {
        consume(machine, sequence)?;
        flush_consumed(machine)
    }
}

/// A flush and a fence promise no more than that the controller has accepted the commit word.
struct ReportBeforeWritten;

impl Protocol for ReportBeforeWritten {
    fn domain(&self) -> u32 {
        DOMAIN_NONE
    }

    fn finish(&self, stop: &mut Stop<'_>) -> Result<()> {
        stop.store_body()?;
        stop.tell_body()?;
        stop.flush_all(None)?;
        stop.call_functions()?;
        stop.store_commit(stop.sequence)?;
        stop.flush_commit()
    }
}

/// The same of the consumed word, which the loader reads back from its cache.
struct EnterBeforeWritten;

impl Protocol for EnterBeforeWritten {
    fn domain(&self) -> u32 {
        DOMAIN_NONE
    }

    fn enter(&self, machine: &mut Machine, sequence: u32) -> Result<()> {
        consume(machine, sequence)?;
        flush_consumed(machine)
    }
}

fn skip_flush(stop: &mut Stop<'_>) -> Result<()> {
    stop.store_body()?;
    stop.tell_body()?;
    stop.call_functions()?;
    stop.store_commit(stop.sequence)?;
    stop.flush_commit()
}

fn flush_one_line_short(stop: &mut Stop<'_>) -> Result<()> {
    let left_out = CONTEXTS + 64;
    stop.machine.keep(left_out);
    stop.store_body()?;
    stop.tell_body()?;
    stop.flush_all(Some(left_out))?;
    stop.call_functions()?;
    stop.store_commit(stop.sequence)?;
    stop.flush_commit()
}

fn commit_before_flush(stop: &mut Stop<'_>) -> Result<()> {
    stop.store_body()?;
    stop.tell_body()?;
    stop.store_commit(stop.sequence)?;
    stop.flush_all(None)?;
    stop.call_functions()?;
    stop.flush_commit()
}

fn body_after_commit(stop: &mut Stop<'_>) -> Result<()> {
    stop.tell_body()?;
    stop.flush_all(None)?;
    stop.call_functions()?;
    stop.store_commit(stop.sequence)?;
    stop.flush_commit()?;
    stop.store_body()?;
    stop.flush_body()
}

fn store_after_flush(stop: &mut Stop<'_>) -> Result<()> {
    stop.store_body()?;
    stop.tell_body()?;
    stop.flush_all(None)?;
    stop.machine.keep(MEMORY + 64);
    stop.machine.store(0, MEMORY + 64, &[0xee; 8])?;
    stop.call_functions()?;
    stop.store_commit(stop.sequence)?;
    stop.flush_commit()
}

fn commit_not_flushed(stop: &mut Stop<'_>) -> Result<()> {
    stop.store_body()?;
    stop.tell_body()?;
    stop.flush_all(None)?;
    stop.call_functions()?;
    stop.store_commit(stop.sequence)
}

fn commit_twice(stop: &mut Stop<'_>) -> Result<()> {
    stop.store_body()?;
    stop.tell_body()?;
    stop.flush_all(None)?;
    stop.call_functions()?;
    stop.store_commit(stop.sequence)?;
    stop.flush_commit()?;
    // The same slot, so the same place.
    stop.store_commit(stop.sequence + 2)?;
    stop.flush_commit()
}

fn device_after_commit(stop: &mut Stop<'_>) -> Result<()> {
    Right.finish(stop)?;
    stop.machine.change_unseen(MEMORY + 0x3000)
}

fn consume_not_flushed(machine: &mut Machine, sequence: u32) -> Result<()> {
    consume(machine, sequence)
}

fn loader_writes_image(machine: &mut Machine, sequence: u32) -> Result<()> {
    machine.store(0, MEMORY + 0x2000, &[0xaa; 32])?;
    consume(machine, sequence)?;
    flush_consumed(machine)
}

const fn finish(
    name: &'static str,
    violates: &'static [&'static str],
    protocol: &'static Finish,
) -> Mutant {
    Mutant {
        name,
        violates,
        protocol,
    }
}

const fn enter(
    name: &'static str,
    violates: &'static [&'static str],
    protocol: &'static Enter,
) -> Mutant {
    Mutant {
        name,
        violates,
        protocol,
    }
}

/// All of them.
pub static MUTANTS: [Mutant; 17] = [
    finish("skip-flush", &["differs"], &Finish(skip_flush)),
    finish(
        "flush-one-line-short",
        &["differs"],
        &Finish(flush_one_line_short),
    ),
    finish(
        "commit-before-flush",
        &["differs"],
        &Finish(commit_before_flush),
    ),
    finish(
        "body-after-commit",
        &["damaged"],
        &Finish(body_after_commit),
    ),
    finish(
        "store-after-flush",
        &["differs"],
        &Finish(store_after_flush),
    ),
    finish(
        "commit-not-flushed",
        &["reported-too-early"],
        &Finish(commit_not_flushed),
    ),
    Mutant {
        name: "arm-keeps-commit",
        violates: &["damaged"],
        protocol: &ArmKeepsCommit,
    },
    Mutant {
        name: "arm-clears-both",
        violates: &["wrong-reason"],
        protocol: &ArmClearsBoth,
    },
    Mutant {
        name: "consume-ahead",
        violates: &["wrong-reason"],
        protocol: &ConsumeAhead,
    },
    enter("not-consumed", &["entered-twice"], &Enter(|_, _| Ok(()))),
    enter(
        "consume-not-flushed",
        &["entered-twice"],
        &Enter(consume_not_flushed),
    ),
    Mutant {
        name: "consume-after-entry",
        violates: &["entered-twice"],
        protocol: &ConsumeAfterEntry,
    },
    enter(
        "loader-writes-image",
        &["differs"],
        &Enter(loader_writes_image),
    ),
    finish(
        "device-after-commit",
        &["unseen"],
        &Finish(device_after_commit),
    ),
    finish("commit-twice", &["damaged"], &Finish(commit_twice)),
    Mutant {
        name: "report-before-written",
        violates: &["reported-too-early"],
        protocol: &ReportBeforeWritten,
    },
    Mutant {
        name: "enter-before-written",
        violates: &["entered-twice"],
        protocol: &EnterBeforeWritten,
    },
];

/// The bug of this name.
#[must_use]
pub fn named(name: &str) -> Option<&'static Mutant> {
    MUTANTS.iter().find(|mutant| mutant.name == name)
}
