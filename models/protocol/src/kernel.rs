// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The steps of the kernel: arming, Stop and Go.

use crate::config::Config;
use crate::decide;
use crate::lines::{CPUS, Covered, Head, Line, Rest, SLOTS, Value};
use crate::machine::{Flash, Place, State, content};
use crate::promises::{Broken, Image};
use crate::steps::{Op, Part, slot_of};

impl State {
    pub(crate) fn begin_stop(&mut self, config: &Config, planned: bool) {
        let Some(sequence) = self.armed else {
            return;
        };
        if !self.fits {
            if config.steps(Part::Begin).contains(&Op::Budget) {
                return;
            }
            self.breaks(Broken::OverBudget);
        }
        self.armed = None;
        self.planned = planned;
        self.sequence = sequence;
        self.place = Place::Stop;
        self.ghost.device_stored = false;
        self.ghost.contexts = false;
        self.ops = config.steps(Part::Stop(sequence));
    }

    /// The Stop that runs does not commit, or a CPU does not come back.
    pub(crate) fn fail(&mut self, config: &Config) {
        if self.place == Place::Stop {
            self.left.failures -= 1;
            return self.come_back(config);
        }
        self.left.losses -= 1;
        self.ghost.give_up();
        self.ops = config.steps(Part::GiveUp(self.sequence));
    }

    pub(crate) fn come_back(&mut self, config: &Config) {
        self.place = Place::Go;
        self.ghost.resumed(true);
        self.ops = config.steps(Part::Back);
    }

    pub(crate) fn note_durable(&mut self, config: &Config) {
        let commit = Line::Commit(slot_of(self.sequence));
        let durable = self.memory.is_durable(commit, self.memory.content(commit));
        if self.place == Place::Stop && durable && !config.nvdimm {
            self.ghost.image_durable();
        }
        if self.memory.is_durable(Line::Header, Value::Header) {
            self.ghost.formatted = true;
        }
    }

    pub(crate) fn step_arm(&mut self, config: &Config, op: Op) {
        match op {
            Op::CheckCommit(slot) => {
                let (head, rest) = decide::body(&self.memory, slot);
                let right = match self.memory.read(Line::Commit(slot)) {
                    Some(Value::Commit(sequence, of_head, of_rest)) => {
                        slot_of(sequence) == slot && (of_head, of_rest) == (head, rest)
                    }
                    _ => false,
                };
                if !right {
                    self.memory.store(Line::Commit(slot), Value::Zero);
                    self.memory.flush(Line::Commit(slot));
                }
            }
            Op::CheckBlock => self.check_block(config),
            Op::Prepare => {
                let sequence = 1 + self.newest_sequence();
                let found = self.found();
                let rest = Rest {
                    machine: found.machine,
                    stamp: found.stamp.unwrap_or(0),
                };
                self.sequence = sequence;
                let mut ops = config.steps(Part::Prepare(sequence, rest));
                ops.append(&mut self.ops);
                self.ops = ops;
            }
            Op::Arm => {
                self.armed = Some(self.sequence);
                self.note_durable(config);
                if self.ops.is_empty() {
                    self.run();
                }
            }
            Op::Level => {
                self.run();
                if !self.power {
                    self.heard = true;
                    self.begin_stop(config, false);
                }
            }
            _ => {}
        }
    }

    pub(crate) fn run(&mut self) {
        self.place = Place::Running;
        self.ops.clear();
    }

    pub(crate) fn newest_sequence(&self) -> u8 {
        let commits = (0..SLOTS).map(|slot| match self.memory.content(Line::Commit(slot)) {
            Value::Commit(sequence, ..) => sequence,
            _ => 0,
        });
        commits.fold(decide::consumed(&self.memory), u8::max)
    }

    pub(crate) fn check_block(&mut self, config: &Config) {
        let valid = self.memory.read(Line::Header) == Some(Value::Header)
            && decide::consumed(&self.memory) > 0;
        if valid {
            return;
        }
        self.ghost.format();
        let newest = self.newest_sequence().max(1);
        let mut ops = config.steps(Part::Format(newest));
        ops.append(&mut self.ops);
        self.ops = ops;
    }

    pub(crate) fn step_stop_and_go(&mut self, config: &Config, op: Op) {
        match op {
            Op::Listen if self.power && !self.planned => self.come_back(config),
            Op::Devices => self.devices = false,
            Op::Contexts => {
                self.ghost.contexts = true;
                for cpu in 0..CPUS {
                    self.memory
                        .store(Line::Memory(cpu), Value::Content(content::CONTEXTS));
                }
            }
            Op::Finish(slot) => {
                let head = Head {
                    sequence: self.sequence,
                    image: self.boots,
                };
                self.memory.store(Line::Head(slot), Value::Head(head));
            }
            Op::Commit(slot, covers) => self.commit(slot, covers),
            Op::Save if config.nvdimm => {
                self.flash = Flash::Busy(Box::new(self.memory.media()));
                self.ghost.image_durable();
            }
            Op::Tell => {
                self.was_ok = self.power;
                if !self.ghost.tell(self.boots) {
                    self.breaks(Broken::ReportedTooEarly);
                }
            }
            Op::Clocks => self.ghost.clocks_wrong = false,
            Op::Reseed => self.ghost.pool_old = false,
            Op::Gate => {
                if self.ghost.clocks_wrong {
                    self.breaks(Broken::ClocksWrong);
                }
                if self.ghost.pool_old {
                    self.breaks(Broken::RandomnessRepeats);
                }
                self.devices = true;
                self.ops = config.steps(Part::AfterGo);
            }
            Op::GiveUp => {
                let line = Line::Event(slot_of(self.sequence));
                self.memory.store(line, Value::Event(self.sequence, false));
            }
            _ => {}
        }
    }

    pub(crate) fn commit(&mut self, slot: usize, covers_rest: bool) {
        let (head, rest) = match (decide::body(&self.memory, slot), covers_rest) {
            (body, true) => body,
            ((head, _), false) => (head, Covered::Other),
        };
        let word = Value::Commit(self.sequence, head, rest);
        self.memory.store(Line::Commit(slot), word);
        let image = Image {
            id: self.boots,
            sequence: self.sequence,
            memory: std::array::from_fn(|cpu| self.memory.content(Line::Memory(cpu))),
            machine: self.machine,
            complete: false,
        };
        self.ghost.commit(image);
    }
}
