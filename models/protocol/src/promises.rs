// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What must never happen (INVARIANTS.md), and what has happened so far, by which that is seen.
//! Nothing here calls the loader's rules.

use crate::config::Config;
use crate::decide::{Decision, Reason};
use crate::lines::{CPUS, Head, Value};
use crate::machine::content;

/// A broken promise; the number is the invariant's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Broken {
    /// An image is entered that is not the newest whose commit word was stored (1).
    NeverCommitted,
    /// An image is entered a second time (2).
    EnteredTwice,
    /// An image is entered that differs from what was committed (1, 3).
    Differs,
    /// The same, and no CPU has stored to it (1).
    Unseen,
    /// A durable image is refused that nobody has consumed (3).
    Refused,
    /// The machine reported that it has stopped, and its image is not entered (3).
    ReportedTooEarly,
    /// The record is damaged, though only power was lost (3).
    Damaged,
    /// The reason of a cold boot is not what happened (3).
    WrongReason,
    /// The machine would not come back, with power and no further failure (3).
    Stuck,
    /// A Stop begins that the supply does not last for (5).
    OverBudget,
    /// An image of another machine is entered, or the same machine is refused (6).
    OtherMachine,
    /// An image that is to be held is given up (6).
    GivenUp,
    /// Programs run with wrong clocks (7).
    ClocksWrong,
    /// Programs run with random numbers that another run may have (8).
    RandomnessRepeats,
    /// An image is consumed without charge for a Stop (9).
    EnteredWithoutCharge,
    /// A drop of power is forgotten (9).
    DropForgotten,
    /// A write that a disk had acknowledged is not there (4).
    FlushedLost,
    /// What a resumed kernel takes for written is not there (10).
    WrittenLost,
}

/// Number of kinds.
pub const KINDS: usize = 18;

impl Broken {
    /// All kinds.
    pub const ALL: [Self; KINDS] = [
        Self::NeverCommitted,
        Self::EnteredTwice,
        Self::Differs,
        Self::Unseen,
        Self::Refused,
        Self::ReportedTooEarly,
        Self::Damaged,
        Self::WrongReason,
        Self::Stuck,
        Self::OverBudget,
        Self::OtherMachine,
        Self::GivenUp,
        Self::ClocksWrong,
        Self::RandomnessRepeats,
        Self::EnteredWithoutCharge,
        Self::DropForgotten,
        Self::FlushedLost,
        Self::WrittenLost,
    ];

    /// Its name; where the campaign has the same verdict, the campaign's.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NeverCommitted => "never-committed",
            Self::EnteredTwice => "entered-twice",
            Self::Differs => "differs",
            Self::Unseen => "unseen",
            Self::Refused => "refused",
            Self::ReportedTooEarly => "reported-too-early",
            Self::Damaged => "damaged",
            Self::WrongReason => "wrong-reason",
            Self::Stuck => "stuck",
            Self::OverBudget => "over-budget",
            Self::OtherMachine => "other-machine",
            Self::GivenUp => "given-up",
            Self::ClocksWrong => "clocks-wrong",
            Self::RandomnessRepeats => "randomness-repeats",
            Self::EnteredWithoutCharge => "entered-without-charge",
            Self::DropForgotten => "drop-forgotten",
            Self::FlushedLost => "flushed-lost",
            Self::WrittenLost => "written-lost",
        }
    }
}

/// What a Stop has committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Image {
    /// The boot that it is of.
    pub id: u8,
    /// Its sequence.
    pub sequence: u8,
    /// Memory when the commit word was stored.
    pub memory: [Value; CPUS],
    /// The machine.
    pub machine: u8,
    /// The contexts are those of this Stop.
    pub complete: bool,
}

/// What has happened.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Ghost {
    /// The newest image whose commit word was stored.
    pub newest: Option<Image>,
    /// Its commit word is durable, and with an NVDIMM saved.
    pub durable: bool,
    /// The consumed word was stored with its sequence, or a greater one.
    pub consumed: bool,
    /// And that before its commit word was.
    pub born_consumed: bool,
    /// The greatest sequence in a consumed word that was stored.
    pub consumed_most: u8,
    /// It was entered.
    pub entered: bool,
    /// The machine reported that it has stopped.
    pub told: bool,
    /// Since the block was laid out an image has been durable.
    pub ever_durable: bool,
    /// The block has been laid out.
    pub formatted: bool,
    /// The contexts of the Stop that runs are saved.
    pub contexts: bool,
    /// A device has stored to memory in this Stop.
    pub device_stored: bool,
    /// And after the commit word was stored.
    pub unseen: bool,
    /// This Go is given up.
    pub gives_up: bool,
    /// The last one was, and no boot has reported that.
    pub lost: bool,
    /// The same, if the power was cut before the machine reset itself.
    pub maybe_lost: bool,
    /// Media has failed.
    pub disturbed: bool,
    /// The NVDIMM's energy did not suffice for the last save.
    pub energy_lost: bool,
    /// Another kernel has used the other range since the last cold boot or commit.
    pub used_elsewhere: bool,
    /// Somebody has decided against the image that is held.
    pub answered: bool,
    /// Clocks do not yet know about the time without power.
    pub clocks_wrong: bool,
    /// The random pool is the image's.
    pub pool_old: bool,
}

impl Ghost {
    /// The machine starts.
    pub fn begin_boot(&mut self) {
        self.answered = false;
        self.clocks_wrong = false;
        self.pool_old = false;
        self.contexts = false;
        self.device_stored = false;
        self.gives_up = false;
    }

    /// A commit word is stored.
    pub fn commit(&mut self, image: Image) {
        let complete = self.contexts;
        self.newest = Some(Image { complete, ..image });
        self.durable = false;
        self.born_consumed = self.consumed_most >= image.sequence;
        self.consumed = self.born_consumed;
        self.entered = false;
        self.told = false;
        self.unseen = false;
        self.energy_lost = false;
        self.used_elsewhere = false;
    }

    /// The newest image can be entered from now on, whatever happens to the power.
    pub fn image_durable(&mut self) {
        if self.newest.is_some() {
            self.durable = true;
            self.ever_durable = true;
        }
    }

    /// A device stores to memory.
    pub fn device(&mut self, committed: bool) {
        self.device_stored = true;
        self.unseen |= committed;
    }

    /// A consumed word is stored.
    pub fn consume_stored(&mut self, sequence: u8) {
        let newest = self.newest.map_or(0, |image| image.sequence);
        self.consumed |= newest > 0 && sequence >= newest;
        self.consumed_most = self.consumed_most.max(sequence);
    }

    /// The machine reports that it has stopped; returns whether it has committed anything.
    pub fn tell(&mut self, boot: u8) -> bool {
        self.told = true;
        self.newest.is_some_and(|image| image.id == boot)
    }

    /// The block is laid out again: numbers may start again.
    pub fn format(&mut self) {
        self.newest = None;
        self.consumed_most = 0;
        self.durable = false;
        self.told = false;
        self.ever_durable = false;
        self.formatted = false;
        self.lost = false;
        self.maybe_lost = false;
    }

    /// Memory of an NVDIMM is blank.
    pub fn blank(&mut self) {
        self.formatted = false;
        self.lost = false;
        self.maybe_lost = false;
    }

    /// A CPU does not come back.
    pub fn give_up(&mut self) {
        self.gives_up = true;
        self.maybe_lost = true;
    }

    /// The machine resets itself.
    pub fn reset(&mut self) {
        self.lost |= self.gives_up;
    }

    /// An event about a lost CPU is durable, one that a boot has reported.
    pub fn event_durable(&mut self, event: Value) {
        if let Value::Event(_, true) = event {
            self.lost = false;
            self.maybe_lost = false;
        }
    }

    /// An image was entered.
    pub fn enter(&mut self) {
        self.entered = true;
        self.told = false;
    }

    /// A Go begins; after a Stop that did not commit the machine has been running all the time.
    pub fn resumed(&mut self, back: bool) {
        self.clocks_wrong = !back;
        self.pool_old = !back;
    }

    /// What contents of memory are compared with; none, if no image may be entered any more.
    #[must_use]
    pub fn committed(&self) -> Option<[Value; CPUS]> {
        let image = self.newest.filter(|_| !self.entered)?;
        Some(image.memory)
    }

    /// After a cut contents of memory are the committed ones or others.
    pub fn forget_contents(&mut self) {
        let plain = if self.entered {
            content::OTHER
        } else {
            content::COMMITTED
        };
        if let Some(image) = &mut self.newest {
            image.memory = [Value::Content(plain); CPUS];
        }
    }

    /// Which promise an entry breaks.
    #[must_use]
    pub fn judge_entry(&self, head: Head, memory: [Value; CPUS], machine: u8) -> Option<Broken> {
        let Some(image) = self.newest.filter(|image| image.id == head.image) else {
            return Some(Broken::NeverCommitted);
        };
        if self.entered {
            return Some(Broken::EnteredTwice);
        }
        if image.machine != machine {
            return Some(Broken::OtherMachine);
        }
        if memory != image.memory || !image.complete {
            return Some(match self.unseen {
                true => Broken::Unseen,
                false => Broken::Differs,
            });
        }
        None
    }

    /// Which promise a cold boot breaks.
    #[must_use]
    pub fn judge_cold(
        &self,
        decision: &Decision,
        machine: u8,
        cold_asked: bool,
        config: &Config,
    ) -> Option<Broken> {
        let same = self
            .newest
            .is_some_and(|image| image.machine == machine && !self.used_elsewhere);
        let waits = self.durable && !self.consumed && same && !self.energy_lost;
        match decision.reason {
            Reason::Asked => (!cold_asked).then_some(Broken::WrongReason),
            _ if self.disturbed || self.answered => None,
            reason if reason.differs() => same.then_some(Broken::OtherMachine),
            _ if self.told && waits => Some(Broken::ReportedTooEarly),
            _ if waits => Some(Broken::Refused),
            // It reported, and nothing was ever durable.
            _ if self.told && !self.consumed && same && !self.energy_lost => {
                Some(Broken::ReportedTooEarly)
            }
            reason => self.reason_wrong(reason, decision, config),
        }
    }

    fn reason_wrong(&self, reason: Reason, decision: &Decision, config: &Config) -> Option<Broken> {
        let newest = self.newest.map_or(0, |image| image.sequence);
        let wrong = match reason {
            Reason::NvdimmEmpty | Reason::NvdimmPartial => !config.nvdimm,
            Reason::NoBlock | Reason::ConsumedInvalid if !self.formatted => false,
            reason if reason.damaged() => return Some(Broken::Damaged),
            Reason::CpuLost => !self.maybe_lost,
            _ if self.lost => true,
            Reason::NotCommitted => self.ever_durable,
            // An image that is called consumed, and nobody has consumed it.
            Reason::AlreadyConsumed => {
                decision.sequence == newest && (!self.consumed || self.born_consumed)
            }
            _ => true,
        };
        wrong.then_some(Broken::WrongReason)
    }
}
