// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The steps of the loader.

use crate::config::Config;
use crate::decide::{Reason, decide};
use crate::lines::{ALL, CPUS, Head, Line, SLOTS, Value};
use crate::machine::{Flash, Place, State, content};
use crate::promises::Broken;
use crate::steps::{Op, Part, slot_of};

impl State {
    pub(crate) fn step_loader(&mut self, config: &Config, op: Op) {
        match op {
            Op::Restore => self.restore(),
            Op::RestoreHasty if !matches!(self.flash, Flash::Busy(_)) => self.restore(),
            Op::Look => self.look(),
            Op::Hold if self.holds(config) => self.place = Place::Held,
            Op::GoOn => self.go_on(config),
            Op::Consume(sequence) => self.consume(config, sequence),
            Op::CheckConsumed(sequence) => self.check_consumed(config, sequence),
            Op::CheckZero(slot) if !self.is_zero(slot) => {
                self.place = Place::Dead;
                self.ops.clear();
            }
            Op::Erase if config.nvdimm => self.flash = Flash::Empty,
            Op::Enter(head) => self.enter(config, head),
            Op::Stamp if config.range => {
                let stamp = self.next_stamp();
                self.memory.store(Line::Stamp, stamp);
                self.memory.flush(Line::Stamp);
            }
            Op::Load => {
                for cpu in 0..CPUS {
                    self.memory
                        .store(Line::Memory(cpu), Value::Content(content::LOADED));
                }
            }
            Op::Report => self.report(),
            Op::StartKernel => {
                self.place = Place::Kernel;
                self.ops = config.steps(Part::Kernel);
            }
            _ => {}
        }
    }

    /// Whether the image is to be kept until somebody decides.
    pub(crate) fn holds(&self, config: &Config) -> bool {
        let differs = self
            .decision
            .is_some_and(|decision| decision.reason.differs());
        config.hold && differs
    }

    pub(crate) fn look(&mut self) {
        let mut decision = decide(&self.memory, &self.found());
        if let (Some(reason), false) = (self.flash_reason(), self.cold_asked) {
            decision.reason = reason;
        }
        self.decision = Some(decision);
    }

    /// The loader does what it has decided.
    pub(crate) fn go_on(&mut self, config: &Config) {
        let Some(decision) = self.decision else {
            return;
        };
        match (decision.reason, decision.image) {
            (Reason::Resume, Some(head)) => self.ops = config.steps(Part::Resume(head)),
            _ => self.go_cold(config),
        }
    }

    pub(crate) fn go_cold(&mut self, config: &Config) {
        let Some(decision) = self.decision else {
            return;
        };
        self.place = Place::Loader;
        let broken = self
            .ghost
            .judge_cold(&decision, self.machine, self.cold_asked, config);
        if let Some(broken) = broken {
            self.breaks(broken);
        }
        self.ops = config.steps(Part::Cold(decision.consume, decision.clear));
    }

    fn is_zero(&self, slot: usize) -> bool {
        self.memory.read(Line::Commit(slot)) == Some(Value::Zero)
    }

    pub(crate) fn restore(&mut self) {
        self.flash = match std::mem::replace(&mut self.flash, Flash::None) {
            Flash::Busy(saved) | Flash::Image(saved) => {
                for line in ALL {
                    self.memory.store(line, saved[line.index()]);
                    self.memory.flush(line);
                }
                Flash::Restored(saved)
            }
            other => other,
        };
    }

    /// Why memory cannot have the content that a Stop left.
    pub(crate) fn flash_reason(&self) -> Option<Reason> {
        match self.flash {
            Flash::None | Flash::Restored(_) => None,
            Flash::Empty => Some(Reason::NvdimmEmpty),
            Flash::Partial | Flash::Busy(_) | Flash::Image(_) => Some(Reason::NvdimmPartial),
        }
    }

    pub(crate) fn consume(&mut self, config: &Config, sequence: u8) {
        let resumes = matches!(self.decision, Some(decision) if decision.reason == Reason::Resume);
        if resumes && !self.charged {
            self.breaks(Broken::EnteredWithoutCharge);
        }
        let differs = matches!(self.decision, Some(decision) if decision.reason.differs());
        if config.hold && differs && !self.ghost.answered {
            self.breaks(Broken::GivenUp);
        }
        self.memory.store(Line::Consumed, Value::Consumed(sequence));
        self.ghost.consume_stored(sequence);
    }

    /// A word that does not hold what was stored in it closes nothing.
    pub(crate) fn check_consumed(&mut self, config: &Config, sequence: u8) {
        if self.memory.read(Line::Consumed) == Some(Value::Consumed(sequence)) {
            return;
        }
        let Some(decision) = &mut self.decision else {
            return;
        };
        if decision.reason == Reason::Resume {
            decision.reason = Reason::ConsumedInvalid;
            return self.go_cold(config);
        }
        self.ops = config.steps(Part::Cold(0, [true; SLOTS]));
    }

    pub(crate) fn enter(&mut self, config: &Config, head: Head) {
        let memory: [Value; CPUS] =
            std::array::from_fn(|cpu| self.memory.content(Line::Memory(cpu)));
        if let Some(broken) = self.ghost.judge_entry(head, memory, self.machine) {
            self.breaks(broken);
        }
        let slot = slot_of(head.sequence);
        let body = [Line::Head(slot), Line::Rest(slot)];
        if body.iter().any(|line| self.memory.damage(*line).is_some()) {
            self.breaks(Broken::Differs);
        }
        self.ghost.enter();
        self.place = Place::Go;
        self.sequence = head.sequence;
        self.devices = true;
        self.ghost.resumed(false);
        self.ops = config.steps(Part::Go(head.sequence));
    }

    pub(crate) fn report(&mut self) {
        for slot in 0..SLOTS {
            let line = Line::Event(slot);
            if let Value::Event(sequence, false) = self.memory.content(line) {
                self.memory.store(line, Value::Event(sequence, true));
                self.flush(line);
            }
        }
    }
}
