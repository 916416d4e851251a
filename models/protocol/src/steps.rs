// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The protocol as lists of steps. A planted bug changes a list.

use crate::lines::{CPUS, Head, Line, Rest, SLOTS, Value};

/// One step of loader or kernel, which no cut divides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Op {
    /// A CPU stores a content that is known when the list is made.
    Store(Line, Value),
    /// CLFLUSH and a fence.
    Flush(Line),
    /// WBINVD on a CPU.
    FlushAll(usize),
    /// The memory controller has had the time to write what it accepted.
    Drain,

    /// Loader: the NVDIMM's controller finishes a save and restores memory.
    Restore,
    /// The same, by a loader that does not wait for the end of a save. A planted bug has this step.
    RestoreHasty,
    /// Loader: describe the machine, decide.
    Look,
    /// Loader: if the machine differs, keep the image until somebody decides.
    Hold,
    /// Loader: do what was decided.
    GoOn,
    /// Loader: wait for power and charge.
    WaitCharge,
    /// Loader: store a consumed word.
    Consume(u8),
    /// Loader: does the consumed word hold what was stored?
    CheckConsumed(u8),
    /// Loader: does the commit word?
    CheckZero(usize),
    /// Loader: erase the NVDIMM's flash.
    Erase,
    /// Loader: jump into the image.
    Enter(Head),
    /// Loader: give the other range a new stamp.
    Stamp,
    /// Loader: put a kernel into memory.
    Load,
    /// Loader: mark the events that this boot reports.
    Report,
    /// Loader: jump into the kernel.
    StartKernel,

    /// Kernel: clear a commit word that is damaged.
    CheckCommit(usize),
    /// Kernel: lay the block out, if it is not valid.
    CheckBlock,
    /// Kernel: choose the next sequence and prepare its slot.
    Prepare,
    /// Kernel: from here on a Stop may begin.
    Arm,
    /// Kernel: has the power failed meanwhile?
    Level,

    /// Stop: begin none whose bound does not fit the hold-up.
    Budget,
    /// Stop: has the power come back meanwhile?
    Listen,
    /// Stop: no device stores to memory from here on.
    Devices,
    /// Stop: the contexts of all CPUs.
    Contexts,
    /// Stop: finish the header of the body in a slot.
    Finish(usize),
    /// Stop: store the commit word of a slot. Does its checksum cover all of the body?
    Commit(usize, bool),
    /// Stop: tell the NVDIMM to save.
    Save,
    /// Stop: report that the machine has stopped.
    Tell,
    /// Stop: wait for the end of power. Does power end the wait that came back before it, and in it?
    Wait(bool, bool),

    /// Go: the other CPUs.
    Cpus,
    /// Go: the clocks.
    Clocks,
    /// Go: new random numbers.
    Reseed,
    /// Go: programs run from here on.
    Gate,
    /// Go: why it is given up, for the next boot.
    GiveUp,
    /// The machine resets itself.
    Reset,
}

/// A part of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The loader, from power-on or reset to its decision.
    Loader,
    /// The loader enters this image.
    Resume(Head),
    /// The loader boots cold: the sequence to consume, the commit words to clear.
    Cold(u8, [bool; SLOTS]),
    /// The kernel after a cold boot.
    Kernel,
    /// The kernel lays the block out; the sequence that counts as consumed.
    Format(u8),
    /// The kernel prepares this sequence, with this rest of a body.
    Prepare(u8, Rest),
    /// What is checked before a Stop begins.
    Begin,
    /// A Stop with this sequence.
    Stop(u8),
    /// Go after a Stop that did not commit.
    Back,
    /// Go, of this sequence.
    Go(u8),
    /// What comes after either.
    AfterGo,
    /// A Go that is given up; the timeline's sequence.
    GiveUp(u8),
    /// Another kernel uses the other range while this one's is absent.
    Elsewhere,
}

/// The slot of a sequence.
#[must_use]
pub fn slot_of(sequence: u8) -> usize {
    usize::from(sequence) % SLOTS
}

/// The right steps of a part.
#[must_use]
pub fn steps(part: Part) -> Vec<Op> {
    match part {
        Part::Loader => vec![Op::Restore, Op::Look, Op::Hold, Op::GoOn],
        Part::Resume(head) => vec![
            Op::WaitCharge,
            Op::Consume(head.sequence),
            Op::Flush(Line::Consumed),
            Op::CheckConsumed(head.sequence),
            Op::Drain,
            Op::Erase,
            Op::Enter(head),
        ],
        Part::Cold(consume, clear) => cold(consume, clear),
        Part::Kernel => vec![
            Op::CheckCommit(0),
            Op::CheckCommit(1),
            Op::CheckBlock,
            Op::Prepare,
            Op::Arm,
            Op::Level,
        ],
        Part::Format(newest) => vec![
            Op::Store(Line::Header, Value::Zero),
            Op::Flush(Line::Header),
            Op::Store(Line::Commit(0), Value::Zero),
            Op::Flush(Line::Commit(0)),
            Op::Store(Line::Commit(1), Value::Zero),
            Op::Flush(Line::Commit(1)),
            Op::Store(Line::Consumed, Value::Consumed(newest)),
            Op::Flush(Line::Consumed),
            Op::Store(Line::Header, Value::Header),
            Op::Flush(Line::Header),
        ],
        Part::Prepare(sequence, rest) => {
            let slot = slot_of(sequence);
            vec![
                Op::Store(Line::Commit(slot), Value::Zero),
                Op::Flush(Line::Commit(slot)),
                Op::Store(Line::Head(slot), Value::Prepared),
                Op::Store(Line::Rest(slot), Value::Rest(rest)),
            ]
        }
        Part::Begin => vec![Op::Budget],
        Part::Stop(sequence) => stop(slot_of(sequence)),
        Part::Back => vec![Op::Cpus, Op::Gate],
        Part::Go(_) => vec![Op::Cpus, Op::Clocks, Op::Reseed, Op::Gate],
        Part::AfterGo => vec![Op::Prepare, Op::Arm, Op::Level],
        Part::GiveUp(sequence) => {
            let line = Line::Event(slot_of(sequence));
            vec![Op::GiveUp, Op::Flush(line), Op::Reset]
        }
        Part::Elsewhere => vec![Op::Stamp],
    }
}

fn cold(consume: u8, clear: [bool; SLOTS]) -> Vec<Op> {
    let mut ops = Vec::new();
    if consume > 0 {
        ops.extend([
            Op::Consume(consume),
            Op::Flush(Line::Consumed),
            Op::CheckConsumed(consume),
        ]);
    }
    for slot in (0..SLOTS).filter(|slot| clear[*slot]) {
        ops.extend([
            Op::Store(Line::Commit(slot), Value::Zero),
            Op::Flush(Line::Commit(slot)),
            Op::CheckZero(slot),
        ]);
    }
    ops.extend([
        Op::Drain,
        Op::Erase,
        Op::Stamp,
        Op::Load,
        Op::Report,
        Op::StartKernel,
    ]);
    ops
}

fn stop(slot: usize) -> Vec<Op> {
    let mut ops = vec![Op::Listen, Op::Devices, Op::Contexts];
    ops.extend((0..CPUS).rev().map(Op::FlushAll));
    ops.extend([
        Op::Finish(slot),
        Op::Flush(Line::Head(slot)),
        Op::Commit(slot, true),
        Op::Flush(Line::Commit(slot)),
        Op::Drain,
        Op::Save,
        Op::Tell,
        Op::Wait(true, true),
    ]);
    ops
}
