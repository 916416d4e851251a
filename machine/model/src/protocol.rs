// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The protocol: arming, Stop and Go. Its critical parts are named steps, which a planted bug
//! replaces.

use std::io::Result;

use remanence_format as format;
use remanence_recording::{DOMAIN_ADR, DOMAIN_NONE, Event, NO_VCPU, Phase};

use crate::image::{self, CONTEXT_BYTES, CONTEXTS, CPUS, STACK_BYTES, STACKS};
use crate::machine::Machine;

/// A Stop when its image is complete but for body and commit.
#[derive(Debug)]
pub struct Stop<'m> {
    /// The machine.
    pub machine: &'m mut Machine,
    /// Sequence of the image.
    pub sequence: u32,
    /// The finished body.
    pub body: Vec<u8>,
}

/// The steps that a planted bug replaces. The defaults are right.
#[allow(clippy::missing_errors_doc, reason = "all of them are the file's")]
pub trait Protocol {
    /// The persistence domain of its machine.
    fn domain(&self) -> u32 {
        DOMAIN_ADR
    }

    /// Arming: no image is committed in the slot of the next one.
    fn clear_commit(&self, machine: &mut Machine, sequence: u32) -> Result<()> {
        let commit = image::commit_offset(sequence);
        machine.store(0, commit, &[0; 8])?;
        machine.flush(commit)
    }

    /// The end of Stop: what makes the image durable, and the commit last.
    fn finish(&self, stop: &mut Stop<'_>) -> Result<()> {
        stop.store_body()?;
        stop.tell_body()?;
        stop.flush_all(None)?;
        stop.call_functions()?;
        stop.store_commit(stop.sequence)?;
        stop.flush_commit()?;
        stop.machine.wait_written()
    }

    /// The loader: its own part of the block, and the consumed word before the jump.
    fn enter(&self, machine: &mut Machine, sequence: u32) -> Result<()> {
        consume(machine, sequence)?;
        flush_consumed(machine)?;
        machine.wait_written()
    }

    /// Something that the resumed kernel does while programs run.
    fn resumed(&self, machine: &mut Machine, sequence: u32) -> Result<()> {
        let _ = (machine, sequence);
        Ok(())
    }
}

/// The protocol without a bug.
#[derive(Debug, Clone, Copy)]
pub struct Right;

impl Protocol for Right {}

/// The same on a machine without a persistence domain.
#[derive(Debug, Clone, Copy)]
pub struct RightUncovered;

impl Protocol for RightUncovered {
    fn domain(&self) -> u32 {
        DOMAIN_NONE
    }
}

#[allow(clippy::missing_errors_doc, reason = "all of them are the file's")]
impl Stop<'_> {
    /// Stores the finished body.
    pub fn store_body(&mut self) -> Result<()> {
        let at = image::body_offset(self.sequence);
        self.machine.store(0, at, &self.body)
    }

    /// Flushes the first line of the body.
    pub fn flush_body(&mut self) -> Result<()> {
        self.machine.flush(image::body_offset(self.sequence))
    }

    /// The timeline's entry behind the body.
    pub fn tell_body(&mut self) -> Result<()> {
        event(self.machine, self.sequence, 2, format::REM_EVENT_STOP_BODY)
    }

    /// A device writes a last byte, then all caches are flushed.
    pub fn flush_all(&mut self, but: Option<u64>) -> Result<()> {
        self.machine.change_unseen(CONTEXTS + 100)?;
        self.machine.flush_all(but)
    }

    /// Functions that are called on the way leave something below the saved stack pointer.
    pub fn call_functions(&mut self) -> Result<()> {
        let stack_top = STACKS + STACK_BYTES;
        self.machine.store(0, stack_top - 0x140, &[0xdd; 40])
    }

    /// Stores the commit word of an image with this body.
    pub fn store_commit(&mut self, sequence: u32) -> Result<()> {
        let word = image::commit_word(sequence, &self.body);
        let at = image::commit_offset(sequence);
        self.machine.store(0, at, &word.to_bytes())
    }

    /// Flushes the commit word.
    pub fn flush_commit(&mut self) -> Result<()> {
        self.machine.flush(image::commit_offset(self.sequence))
    }
}

fn event(machine: &mut Machine, sequence: u32, entry: u64, kind: u32) -> Result<()> {
    let bytes = image::event(sequence, kind, machine.time_ns);
    machine.store(0, image::event_offset(sequence, entry), &bytes)
}

/// Stores the consumed word.
///
/// # Errors
/// The file's, here and below.
pub fn consume(machine: &mut Machine, sequence: u32) -> Result<()> {
    let word = image::consumed_word(sequence);
    machine.store(0, format::REM_CONSUMED_OFFSET, &word.to_bytes())
}

/// Flushes it.
///
/// # Errors
/// See [`consume`].
pub fn flush_consumed(machine: &mut Machine) -> Result<()> {
    machine.flush(format::REM_CONSUMED_OFFSET)
}

/// Arms the machine for its next image.
///
/// # Errors
/// See [`consume`].
pub fn arm(protocol: &dyn Protocol, machine: &mut Machine, sequence: u32) -> Result<()> {
    protocol.clear_commit(machine, sequence)?;
    let body = image::body(sequence, 0);
    for (at, part) in (image::body_offset(sequence)..)
        .step_by(64)
        .zip(body.chunks(64))
    {
        machine.store(0, at, part)?;
    }
    Ok(())
}

/// From the power interrupt to the cut.
///
/// # Errors
/// See [`consume`].
pub fn stop(protocol: &dyn Protocol, machine: &mut Machine, sequence: u32) -> Result<()> {
    machine.put(NO_VCPU, &Event::Power { ok: false })?;
    event(machine, sequence, 0, format::REM_EVENT_STOP_BEGIN)?;
    machine.run_programs(200)?;
    event(machine, sequence, 1, format::REM_EVENT_STOP_DEVICES)?;
    for cpu in 0..CPUS {
        for word in 5..40 {
            let value = machine.rng.next().to_le_bytes();
            machine.store(0, CONTEXTS + cpu * CONTEXT_BYTES + word * 8, &value)?;
        }
    }
    let body = image::body(sequence, machine.time_ns);
    let mut stop = Stop {
        machine,
        sequence,
        body,
    };
    protocol.finish(&mut stop)?;
    machine.put(0, &Event::Phase(Phase::STOPPED))?;
    let cause = format::REM_PLUGIN_CUT_HOLD_UP;
    machine.put(NO_VCPU, &Event::Cut { cause })
}

/// From power-on until programs run and the machine is armed again.
///
/// # Errors
/// See [`consume`].
pub fn go(protocol: &dyn Protocol, machine: &mut Machine, sequence: u32) -> Result<()> {
    machine.put(0, &Event::Phase(Phase::LOADER))?;
    for n in 0..120 {
        let value = machine.rng.next().to_le_bytes();
        machine.store(0, format::REM_WORK_OFFSET + n * 40, &value)?;
    }
    let description = image::description();
    for (at, part) in (format::REM_DESC_OFFSET..)
        .step_by(16)
        .zip(description.chunks(16))
    {
        machine.store(0, at, part)?;
    }
    let note = [0x5a; format::RemBootNote::BYTES];
    machine.store(0, format::REM_NOTE_OFFSET, &note)?;
    protocol.enter(machine, sequence)?;
    machine.put(0, &Event::Phase(Phase::GO))?;
    event(
        machine,
        sequence,
        format::REM_EVENTS_GO,
        format::REM_EVENT_GO_BEGIN,
    )?;
    machine.run_programs(100)?;
    protocol.resumed(machine, sequence)?;
    let next = format::REM_EVENTS_GO + 1;
    event(machine, sequence, next, format::REM_EVENT_GO_SYSCORE)?;
    machine.run_programs(150)?;
    event(machine, sequence, next + 1, format::REM_EVENT_GO_DONE)?;
    arm(protocol, machine, sequence + 1)?;
    machine.run_programs(300)?;
    let cause = format::REM_PLUGIN_CUT_COUNT;
    machine.put(NO_VCPU, &Event::Cut { cause })
}
