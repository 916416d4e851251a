// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What happens to the machine: its power, its parts, and the next step of loader or kernel.

use crate::config::Config;
use crate::lines::{ALL, CPUS, Left, Line, Value};
use crate::machine::{Action, Flash, Place, State, content, plain};
use crate::promises::Broken;
use crate::steps::{Op, Part};

impl State {
    /// The state after an action.
    #[must_use]
    pub fn after(&self, config: &Config, action: &Action) -> Self {
        let mut next = self.clone();
        next.act(config, action);
        next.check_running();
        next
    }

    pub(crate) fn act(&mut self, config: &Config, action: &Action) {
        match action {
            Action::Step => {
                let op = self.ops.remove(0);
                self.step(config, op);
            }
            Action::Fail => self.fail(config),
            Action::Device => {
                let committed = self
                    .ghost
                    .newest
                    .is_some_and(|image| image.id == self.boots);
                self.ghost.device(committed);
                self.memory
                    .store(Line::Memory(0), Value::Content(content::DEVICE));
            }
            Action::Interrupt => {
                self.heard = true;
                self.begin_stop(config, false);
            }
            Action::Plan => self.begin_stop(config, true),
            Action::Drop => {
                self.power = false;
                // Elsewhere the interrupt is taken, and begins nothing.
                self.heard = self.place != Place::Running;
                if matches!(self.ops.first(), Some(Op::Wait(..))) {
                    self.was_ok = false;
                }
            }
            Action::Return => {
                self.left.returns = self.left.returns.saturating_sub(1);
                self.power = true;
                self.heard = true;
            }
            Action::Charge => self.charged = true,
            Action::Look => {
                self.look();
                if !self.holds(config) {
                    self.place = Place::Loader;
                }
            }
            Action::Answer => {
                self.ghost.answered = true;
                self.place = Place::Loader;
            }
            Action::Age => {
                self.left.ageings -= 1;
                self.fits = false;
            }
            Action::Reset(left) => self.reset(config, left),
            Action::Cut(left, enough) => self.cut(config, left, *enough),
            Action::PowerOn(cold_asked) => {
                self.left.asks -= u8::from(*cold_asked);
                self.cold_asked = *cold_asked;
                self.power = true;
                self.charged = false;
                self.start(config);
            }
            action => self.change_parts(config, action),
        }
    }

    /// What happens to the parts of the machine.
    fn change_parts(&mut self, config: &Config, action: &Action) {
        match action {
            Action::Exchange => {
                self.left.changes -= 1;
                self.machine ^= 1;
            }
            Action::Elsewhere => {
                self.left.changes -= 1;
                self.ghost.used_elsewhere = true;
                let other = Value::Content(content::OTHER);
                self.memory.set_media(Line::Memory(CPUS - 1), other);
                if config.steps(Part::Elsewhere).contains(&Op::Stamp) {
                    let stamp = self.next_stamp();
                    self.memory.set_media(Line::Stamp, stamp);
                }
            }
            Action::Damage(line, damage) => {
                self.left.damages -= 1;
                self.ghost.disturbed = true;
                self.memory.set_damage(*line, Some(*damage));
            }
            Action::Heal(line) => self.memory.set_damage(*line, None),
            _ => {}
        }
    }

    pub(crate) fn next_stamp(&self) -> Value {
        match self.memory.content(Line::Stamp) {
            Value::Stamp(stamp) => Value::Stamp(stamp + 1),
            _ => Value::Stamp(1),
        }
    }

    /// The first instruction after power-on or reset.
    pub(crate) fn start(&mut self, config: &Config) {
        self.boots += 1;
        self.place = Place::Loader;
        self.armed = None;
        self.devices = true;
        self.decision = None;
        self.ghost.begin_boot();
        self.ops = config.steps(Part::Loader);
    }

    pub(crate) fn cut(&mut self, config: &Config, left: &Left, enough: bool) {
        self.memory.cut(left);
        self.flash = match std::mem::replace(&mut self.flash, Flash::None) {
            Flash::Busy(saved) | Flash::Image(saved) | Flash::Restored(saved) if enough => {
                Flash::Image(saved)
            }
            Flash::Busy(_) => {
                self.left.short_saves -= 1;
                self.ghost.energy_lost = true;
                Flash::Partial
            }
            other => other,
        };
        if config.nvdimm {
            for line in ALL {
                self.memory.set_media(line, Value::Zero);
            }
            self.ghost.blank();
        }
        self.switch_off();
        self.forget_contents();
    }

    /// What is not in NVRAM is gone.
    pub(crate) fn switch_off(&mut self) {
        self.place = Place::Off;
        self.ops.clear();
        self.power = false;
        self.charged = false;
        self.heard = false;
        self.armed = None;
        self.sequence = 0;
        self.planned = false;
        self.was_ok = false;
        self.devices = false;
        self.cold_asked = false;
        self.decision = None;
        self.ghost.begin_boot();
    }

    /// After a cut contents of memory are the committed ones, or others.
    pub(crate) fn forget_contents(&mut self) {
        let committed = self.ghost.committed();
        self.ghost.forget_contents();
        // Contents that the cut has chosen are plain.
        let plain = |line: Line, value: Value| match value {
            Value::Content(content::OTHER | content::COMMITTED) => value,
            value => plain(committed, line, value),
        };
        for line in (0..CPUS).map(Line::Memory) {
            let value = plain(line, self.memory.content(line));
            self.memory.set_media(line, value);
        }
        for (slot, dead) in self.dead_slots().into_iter().enumerate() {
            if dead {
                self.memory.set_media(Line::Head(slot), Value::Zero);
                self.memory.set_media(Line::Rest(slot), Value::Zero);
            }
        }
        if let Flash::Busy(saved) | Flash::Image(saved) | Flash::Restored(saved) = &mut self.flash {
            for line in (0..CPUS).map(Line::Memory) {
                saved[line.index()] = plain(line, saved[line.index()]);
            }
        }
    }

    /// What was in the caches may be lost, as in a cut; the power stays as it is.
    pub(crate) fn reset(&mut self, config: &Config, left: &Left) {
        self.ghost.reset();
        self.memory.cut(left);
        self.planned = false;
        self.cold_asked = false;
        self.charged = false;
        self.forget_contents();
        if self.boots < config.boots {
            self.start(config);
        } else {
            self.switch_off();
        }
    }

    pub(crate) fn step(&mut self, config: &Config, op: Op) {
        match op {
            Op::Store(line, value) => self.memory.store(line, value),
            Op::Flush(line) => self.flush(line),
            Op::FlushAll(cpu) => self.memory.flush_all(cpu),
            Op::Drain => {
                self.memory.drain();
                self.note_durable(config);
            }
            Op::Restore
            | Op::RestoreHasty
            | Op::Look
            | Op::Hold
            | Op::GoOn
            | Op::WaitCharge
            | Op::Consume(_)
            | Op::CheckConsumed(_)
            | Op::CheckZero(_)
            | Op::Erase
            | Op::Enter(_)
            | Op::Stamp
            | Op::Load
            | Op::Report
            | Op::StartKernel => self.step_loader(config, op),
            Op::CheckCommit(_) | Op::CheckBlock | Op::Prepare | Op::Arm | Op::Level => {
                self.step_arm(config, op);
            }
            _ => self.step_stop_and_go(config, op),
        }
    }

    pub(crate) fn flush(&mut self, line: Line) {
        self.memory.flush(line);
        if let Line::Event(slot) = line {
            self.ghost
                .event_durable(self.memory.content(Line::Event(slot)));
        }
    }

    pub(crate) fn check_running(&mut self) {
        let deaf = self.place == Place::Running
            && !self.power
            && self.heard
            && self.armed.is_some()
            && self.fits;
        if deaf {
            self.breaks(Broken::DropForgotten);
        }
    }
}
