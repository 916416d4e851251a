// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The machine: its state, and what may happen next.

use crate::config::{Budget, Config};
use crate::decide::{Decision, Found};
use crate::lines::{ALL, CPUS, Damage, LINES, Left, Line, Memory, SLOTS, Value};
use crate::promises::{Broken, Ghost};
use crate::steps::Op;

/// Contents of memory. After a cut only one question is left: is it what was committed?
pub mod content {
    /// Anything else.
    pub const OTHER: u8 = 0;
    /// What the newest image was committed with.
    pub const COMMITTED: u8 = 1;
    /// A kernel that has been loaded.
    pub const LOADED: u8 = 2;
    /// With the contexts of a Stop.
    pub const CONTEXTS: u8 = 3;
    /// A device has stored to it.
    pub const DEVICE: u8 = 4;
    /// Something has been stored late.
    pub const LATE: u8 = 5;
}

/// Where the machine is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Place {
    /// Without power.
    Off,
    /// In the loader.
    Loader,
    /// In the loader, which keeps an image.
    Held,
    /// A kernel that was booted cold, before it is armed.
    Kernel,
    /// Programs run.
    Running,
    /// Stop.
    Stop,
    /// Go.
    Go,
    /// The loader has given up, and says why: memory does not hold what is stored.
    Dead,
}

/// The flash of the NVDIMM.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Flash {
    /// There is none.
    None,
    /// Erased.
    Empty,
    /// Being saved to.
    Busy(Box<[Value; LINES]>),
    /// A complete save.
    Image(Box<[Value; LINES]>),
    /// A save that was not completed.
    Partial,
    /// What memory was restored from.
    Restored(Box<[Value; LINES]>),
}

/// The state of everything.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct State {
    /// NVRAM and its caches.
    pub memory: Memory,
    /// The NVDIMM.
    pub flash: Flash,
    /// Where the machine is.
    pub place: Place,
    /// What is left to do of the part that runs.
    pub ops: Vec<Op>,
    /// Power-ons and resets so far.
    pub boots: u8,
    /// PWR_OK.
    pub power: bool,
    /// The supply has the charge for the rest of Go and a Stop.
    pub charged: bool,
    /// The bound of a Stop fits the hold-up.
    pub fits: bool,
    /// The interrupt of the last drop has been taken.
    pub heard: bool,
    /// The sequence of the next image, if a Stop may begin.
    pub armed: Option<u8>,
    /// The sequence of the Stop or Go that runs.
    pub sequence: u8,
    /// Somebody asked for the Stop that runs.
    pub planned: bool,
    /// PWR_OK as a Stop has seen it last.
    pub was_ok: bool,
    /// Devices may store to memory.
    pub devices: bool,
    /// A cold boot is requested at this boot.
    pub cold_asked: bool,
    /// The machine.
    pub machine: u8,
    /// The loader's last decision.
    pub decision: Option<Decision>,
    /// What may still go wrong.
    pub left: Budget,
    /// What has happened, for the promises. No step of loader or kernel reads it.
    pub ghost: Ghost,
    /// A promise that is broken.
    pub broken: Option<Broken>,
}

/// What happens next.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Action {
    /// Loader or kernel does its next step.
    Step,
    /// The Stop or Go that runs does not succeed.
    Fail,
    /// A device stores to memory.
    Device,
    /// The kernel takes the interrupt of a drop.
    Interrupt,
    /// Somebody asks for a Stop.
    Plan,
    /// PWR_OK drops.
    Drop,
    /// PWR_OK is back.
    Return,
    /// The supply has charge.
    Charge,
    /// The loader, which keeps an image, looks again.
    Look,
    /// Somebody decides against the image that is kept.
    Answer,
    /// The supply no longer lasts for a Stop, and the kernel knows.
    Age,
    /// The machine resets itself; media is left like this.
    Reset(Left),
    /// The power is gone; media is left like this. Was the energy of the NVDIMM enough?
    Cut(Left, bool),
    /// Power-on; is a cold boot requested?
    PowerOn(bool),
    /// The machine becomes another one, or the one that it was.
    Exchange,
    /// Another kernel uses the other range of NVRAM.
    Elsewhere,
    /// A line of media fails.
    Damage(Line, Damage),
    /// It reads right again.
    Heal(Line),
}

impl State {
    /// A machine that has never been switched on.
    #[must_use]
    pub fn first(config: &Config) -> Self {
        Self {
            memory: Memory::blank(config.domain),
            flash: if config.nvdimm {
                Flash::Empty
            } else {
                Flash::None
            },
            place: Place::Off,
            ops: Vec::new(),
            boots: 0,
            power: false,
            charged: false,
            fits: true,
            heard: false,
            armed: None,
            sequence: 0,
            planned: false,
            was_ok: false,
            devices: false,
            cold_asked: false,
            machine: 0,
            decision: None,
            left: config.budget,
            ghost: Ghost::default(),
            broken: None,
        }
    }

    pub(crate) fn found(&self) -> Found {
        let stamp = match self.memory.read(Line::Stamp) {
            Some(Value::Stamp(stamp)) => Some(stamp),
            _ => Some(0),
        };
        Found {
            machine: self.machine,
            stamp,
            cold_asked: self.cold_asked,
        }
    }

    pub(crate) fn breaks(&mut self, broken: Broken) {
        self.broken.get_or_insert(broken);
    }

    /// What may happen next.
    #[must_use]
    pub fn actions(&self, config: &Config) -> Vec<Action> {
        if self.broken.is_some() {
            return Vec::new();
        }
        if self.place == Place::Off {
            return self.actions_off(config);
        }
        let mut actions = Vec::new();
        let next = self.ops.first();
        if self.can_step() {
            if matches!(next, Some(Op::Reset | Op::Wait(..))) {
                actions.extend(self.lefts().into_iter().map(Action::Reset));
            } else {
                actions.push(Action::Step);
            }
        }
        if self.place == Place::Running && self.left.ageings > 0 {
            actions.push(Action::Age);
        }
        if next == Some(&Op::Devices) && self.left.failures > 0 {
            actions.push(Action::Fail);
        }
        if next == Some(&Op::Cpus) && self.left.losses > 0 {
            actions.push(Action::Fail);
        }
        if self.place == Place::Stop && self.devices && !self.ghost.device_stored {
            actions.push(Action::Device);
        }
        match self.place {
            Place::Running if !self.power && !self.heard => actions.push(Action::Interrupt),
            Place::Running if self.power && self.armed.is_some() => actions.push(Action::Plan),
            Place::Held => actions.extend([Action::Look, Action::Answer]),
            _ => {}
        }
        if self.place == Place::Held && self.left.changes > 0 {
            actions.push(Action::Exchange);
        }
        if self.power {
            actions.push(Action::Drop);
        } else if self.left.returns > 0 || next == Some(&Op::WaitCharge) {
            actions.push(Action::Return);
        }
        if next == Some(&Op::WaitCharge) && self.power && !self.charged {
            actions.push(Action::Charge);
        }
        actions.extend(self.cuts().into_iter().map(|left| Action::Cut(left, true)));
        if matches!(self.flash, Flash::Busy(_)) && self.left.short_saves > 0 {
            actions.push(Action::Cut(Left::new(), false));
        }
        actions
    }

    /// What media may be after a cut here: of an NVDIMM's memory nothing is left.
    pub(crate) fn cuts(&self) -> Vec<Left> {
        match self.flash {
            Flash::None => self.lefts(),
            _ => vec![Left::new()],
        }
    }

    /// Media after a cut or reset, of contents of memory only whether they are the committed ones.
    pub(crate) fn lefts(&self) -> Vec<Left> {
        let committed = self.ghost.committed();
        let dead = self.dead_slots();
        let cuts = self.memory.cuts(|line, value| match line {
            Line::Head(slot) | Line::Rest(slot) if dead[slot] => Value::Zero,
            _ => plain(committed, line, value),
        });
        cuts.into_iter().collect()
    }

    /// Slots whose body nobody will read before it is written again.
    pub(crate) fn dead_slots(&self) -> [bool; SLOTS] {
        std::array::from_fn(|slot| {
            let commit = Line::Commit(slot);
            self.left.damages == 0
                && self.memory.damage(commit).is_none()
                && self.memory.is_durable(commit, Value::Zero)
        })
    }

    pub(crate) fn actions_off(&self, config: &Config) -> Vec<Action> {
        let mut actions = Vec::new();
        if self.boots < config.boots {
            actions.push(Action::PowerOn(false));
            if self.left.asks > 0 {
                actions.push(Action::PowerOn(true));
            }
        }
        if self.left.changes > 0 {
            actions.push(Action::Exchange);
            if config.range {
                actions.push(Action::Elsewhere);
            }
        }
        for line in ALL {
            if self.memory.damage(line).is_some() {
                actions.push(Action::Heal(line));
            } else if self.left.damages > 0 {
                actions.extend(
                    damages_of(line)
                        .iter()
                        .map(|kind| Action::Damage(line, *kind)),
                );
            }
        }
        actions
    }

    pub(crate) fn can_step(&self) -> bool {
        match self.ops.first() {
            None => false,
            Some(Op::WaitCharge) => self.power && self.charged,
            Some(Op::Wait(before, during)) => {
                let heard = if self.was_ok {
                    *before && !self.planned
                } else {
                    *during
                };
                self.power && heard
            }
            Some(_) => self.place != Place::Held,
        }
    }
}

/// A content of memory is the committed one or another.
pub(crate) fn plain(committed: Option<[Value; CPUS]>, line: Line, value: Value) -> Value {
    match (line, value, committed) {
        (Line::Memory(cpu), Value::Content(_), Some(memory)) if memory[cpu] == value => {
            Value::Content(content::COMMITTED)
        }
        (_, Value::Content(_), _) => Value::Content(content::OTHER),
        (_, value, _) => value,
    }
}

/// How a line of media may fail.
fn damages_of(line: Line) -> &'static [Damage] {
    match line {
        Line::Consumed | Line::Commit(_) => &[Damage::Whole, Damage::Check, Damage::Stuck],
        Line::Header | Line::Head(_) | Line::Rest(_) => &[Damage::Whole],
        Line::Event(_) | Line::Memory(_) | Line::Stamp => &[],
    }
}
