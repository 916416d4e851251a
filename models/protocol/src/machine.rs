// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The machine: who runs, what the power does, what outlives it.

use crate::decide::{self, Decision, Found, Reason, decide};
use crate::lines::{ALL, CPUS, Covered, Damage, Domain, Head, LINES, Left, Line, Memory, Rest, SLOTS, Value};
use crate::promises::{Broken, Ghost, Image};
use crate::steps::{Op, Part, slot_of, steps};

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

/// A planted bug: it changes the steps of a part.
pub type Change = fn(Part, &mut Vec<Op>);

/// What is checked: the machine, and what may go wrong beside the power.
#[derive(Debug, Clone)]
pub struct Config {
    /// By which it is named.
    pub name: &'static str,
    /// Power-ons and resets.
    pub boots: u8,
    /// The persistence domain.
    pub domain: Domain,
    /// NVRAM is an NVDIMM-N, whose DRAM is blank without power.
    pub nvdimm: bool,
    /// The memory of the last CPU is in a range of NVRAM of its own.
    pub range: bool,
    /// Images are held where the machine differs.
    pub hold: bool,
    /// Lines of media that fail.
    pub damages: u8,
    /// Changes of the machine, or uses of the other range elsewhere.
    pub changes: u8,
    /// Stops that do not commit.
    pub failures: u8,
    /// CPUs that do not come back.
    pub losses: u8,
    /// Saves of the NVDIMM for which its energy does not suffice.
    pub energy_losses: u8,
    /// Power that returns before it has gone.
    pub returns: u8,
    /// Cold boots that somebody asks for.
    pub asks: u8,
    /// Supplies that no longer last for a Stop.
    pub ageings: u8,
    /// The planted bug.
    pub change: Option<Change>,
}

impl Config {
    /// A machine whose power may fail at any step, and on which nothing else goes wrong.
    #[must_use]
    pub const fn plain(name: &'static str, boots: u8) -> Self {
        Self {
            name,
            boots,
            domain: Domain::Queue,
            nvdimm: false,
            range: false,
            hold: false,
            damages: 0,
            changes: 0,
            failures: 0,
            losses: 0,
            energy_losses: 0,
            returns: 0,
            asks: 0,
            ageings: 0,
            change: None,
        }
    }

    fn steps(&self, part: Part) -> Vec<Op> {
        let mut ops = steps(part);
        if let Some(change) = self.change {
            change(part, &mut ops);
        }
        ops
    }
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
    /// What has happened, for the promises. No step reads it.
    pub ghost: Ghost,
    /// A promise that is broken.
    pub broken: Option<Broken>,
}

/// What may still go wrong; see [`Config`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Budget {
    damages: u8,
    changes: u8,
    failures: u8,
    losses: u8,
    energy_losses: u8,
    returns: u8,
    asks: u8,
    ageings: u8,
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
            left: Budget {
                damages: config.damages,
                changes: config.changes,
                failures: config.failures,
                losses: config.losses,
                energy_losses: config.energy_losses,
                returns: config.returns,
                asks: config.asks,
                ageings: config.ageings,
            },
            ghost: Ghost::default(),
            broken: None,
        }
    }

    fn found(&self) -> Found {
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

    fn breaks(&mut self, broken: Broken) {
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
        if matches!(self.flash, Flash::Busy(_)) && self.left.energy_losses > 0 {
            actions.push(Action::Cut(Left::new(), false));
        }
        actions
    }

    /// What media may be after a cut here: of an NVDIMM's memory nothing is left.
    fn cuts(&self) -> Vec<Left> {
        match self.flash {
            Flash::None => self.lefts(),
            _ => vec![Left::new()],
        }
    }

    /// Media after a cut or reset, of contents of memory only whether they are the committed ones.
    fn lefts(&self) -> Vec<Left> {
        let committed = self.ghost.committed();
        let dead = self.dead_slots();
        let cuts = self.memory.cuts(|line, value| match line {
            Line::Head(slot) | Line::Rest(slot) if dead[slot] => Value::Zero,
            _ => plain(committed, line, value),
        });
        cuts.into_iter().collect()
    }

    /// Slots whose body nobody will read before it is written again.
    fn dead_slots(&self) -> [bool; SLOTS] {
        std::array::from_fn(|slot| {
            let commit = Line::Commit(slot);
            self.left.damages == 0
                && self.memory.damage(commit).is_none()
                && self.memory.is_durable(commit, Value::Zero)
        })
    }

    fn actions_off(&self, config: &Config) -> Vec<Action> {
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
                actions.extend(damages_of(line).iter().map(|kind| Action::Damage(line, *kind)));
            }
        }
        actions
    }

    fn can_step(&self) -> bool {
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

    /// The state after an action.
    #[must_use]
    pub fn after(&self, config: &Config, action: &Action) -> Self {
        let mut next = self.clone();
        next.act(config, action);
        next.check_running();
        next
    }

    fn act(&mut self, config: &Config, action: &Action) {
        match action {
            Action::Step => {
                let op = self.ops.remove(0);
                self.step(config, op);
            }
            Action::Fail => self.fail(config),
            Action::Device => {
                let committed = self.ghost.newest.is_some_and(|image| image.id == self.boots);
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
        }
    }

    fn next_stamp(&self) -> Value {
        match self.memory.content(Line::Stamp) {
            Value::Stamp(stamp) => Value::Stamp(stamp + 1),
            _ => Value::Stamp(1),
        }
    }

    /// The first instruction after power-on or reset.
    fn start(&mut self, config: &Config) {
        self.boots += 1;
        self.place = Place::Loader;
        self.armed = None;
        self.devices = true;
        self.decision = None;
        self.ghost.begin_boot();
        self.ops = config.steps(Part::Loader);
    }

    fn cut(&mut self, config: &Config, left: &Left, enough: bool) {
        self.memory.cut(left);
        self.flash = match std::mem::replace(&mut self.flash, Flash::None) {
            Flash::Busy(saved) | Flash::Image(saved) | Flash::Restored(saved) if enough => {
                Flash::Image(saved)
            }
            Flash::Busy(_) => {
                self.left.energy_losses -= 1;
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
    fn switch_off(&mut self) {
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
    fn forget_contents(&mut self) {
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

    fn begin_stop(&mut self, config: &Config, planned: bool) {
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
    fn fail(&mut self, config: &Config) {
        if self.place == Place::Stop {
            self.left.failures -= 1;
            return self.come_back(config);
        }
        self.left.losses -= 1;
        self.ghost.give_up();
        self.ops = config.steps(Part::GiveUp(self.sequence));
    }

    fn come_back(&mut self, config: &Config) {
        self.place = Place::Go;
        self.ghost.resumed(true);
        self.ops = config.steps(Part::Back);
    }

    /// Whether the image is to be kept until somebody decides.
    fn holds(&self, config: &Config) -> bool {
        let differs = self.decision.is_some_and(|decision| decision.reason.differs());
        config.hold && differs
    }

    fn look(&mut self) {
        let mut decision = decide(&self.memory, &self.found());
        if let (Some(reason), false) = (self.flash_reason(), self.cold_asked) {
            decision.reason = reason;
        }
        self.decision = Some(decision);
    }

    /// The loader does what it has decided.
    fn go_on(&mut self, config: &Config) {
        let Some(decision) = self.decision else {
            return;
        };
        match (decision.reason, decision.image) {
            (Reason::Resume, Some(head)) => self.ops = config.steps(Part::Resume(head)),
            _ => self.go_cold(config),
        }
    }

    fn go_cold(&mut self, config: &Config) {
        let Some(decision) = self.decision else {
            return;
        };
        self.place = Place::Loader;
        let broken = self.ghost.judge_cold(&decision, self.machine, self.cold_asked, config);
        if let Some(broken) = broken {
            self.breaks(broken);
        }
        self.ops = config.steps(Part::Cold(decision.consume, decision.clear));
    }

    fn step(&mut self, config: &Config, op: Op) {
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

    fn flush(&mut self, line: Line) {
        self.memory.flush(line);
        if let Line::Event(slot) = line {
            self.ghost
                .event_durable(self.memory.content(Line::Event(slot)));
        }
    }

    fn note_durable(&mut self, config: &Config) {
        let commit = Line::Commit(slot_of(self.sequence));
        let durable = self.memory.is_durable(commit, self.memory.content(commit));
        if self.place == Place::Stop && durable && !config.nvdimm {
            self.ghost.image_durable();
        }
        if self.memory.is_durable(Line::Header, Value::Header) {
            self.ghost.formatted = true;
        }
    }

    fn step_loader(&mut self, config: &Config, op: Op) {
        match op {
            Op::Restore => self.restore(),
            Op::RestoreHasty => {
                if !matches!(self.flash, Flash::Busy(_)) {
                    self.restore();
                }
            }
            Op::Look => self.look(),
            Op::Hold => {
                if self.holds(config) {
                    self.place = Place::Held;
                }
            }
            Op::GoOn => self.go_on(config),
            Op::Consume(sequence) => self.consume(config, sequence),
            Op::CheckConsumed(sequence) => self.check_consumed(config, sequence),
            Op::CheckZero(slot) => {
                if self.memory.read(Line::Commit(slot)) != Some(Value::Zero) {
                    self.place = Place::Dead;
                    self.ops.clear();
                }
            }
            Op::Erase => {
                if config.nvdimm {
                    self.flash = Flash::Empty;
                }
            }
            Op::Enter(head) => self.enter(config, head),
            Op::Stamp => {
                if !config.range {
                    return;
                }
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

    fn restore(&mut self) {
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
    fn flash_reason(&self) -> Option<Reason> {
        match self.flash {
            Flash::None | Flash::Restored(_) => None,
            Flash::Empty => Some(Reason::NvdimmEmpty),
            Flash::Partial | Flash::Busy(_) | Flash::Image(_) => Some(Reason::NvdimmPartial),
        }
    }

    fn consume(&mut self, config: &Config, sequence: u8) {
        let resumes = matches!(self.decision, Some(decision) if decision.reason == Reason::Resume);
        if resumes && !self.charged {
            self.breaks(Broken::EnteredWithoutCharge);
        }
        let differs = matches!(self.decision, Some(decision) if decision.reason.differs());
        if config.hold && differs && !self.ghost.answered {
            self.breaks(Broken::GivenUp);
        }
        self.memory
            .store(Line::Consumed, Value::Consumed(sequence));
        self.ghost.consume_stored(sequence);
    }

    /// A word that does not hold what was stored in it closes nothing.
    fn check_consumed(&mut self, config: &Config, sequence: u8) {
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
        let rest: Vec<Op> = config.steps(Part::Cold(0, [true; SLOTS]));
        self.ops = rest;
    }

    fn enter(&mut self, config: &Config, head: Head) {
        let memory: [Value; CPUS] = std::array::from_fn(|cpu| self.memory.content(Line::Memory(cpu)));
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

    fn report(&mut self) {
        for slot in 0..SLOTS {
            let line = Line::Event(slot);
            if let Value::Event(sequence, false) = self.memory.content(line) {
                self.memory.store(line, Value::Event(sequence, true));
                self.flush(line);
            }
        }
    }

    fn step_arm(&mut self, config: &Config, op: Op) {
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

    fn run(&mut self) {
        self.place = Place::Running;
        self.ops.clear();
    }

    fn newest_sequence(&self) -> u8 {
        let commits = (0..SLOTS).map(|slot| match self.memory.content(Line::Commit(slot)) {
            Value::Commit(sequence, ..) => sequence,
            _ => 0,
        });
        commits.fold(decide::consumed(&self.memory), u8::max)
    }

    fn check_block(&mut self, config: &Config) {
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

    fn step_stop_and_go(&mut self, config: &Config, op: Op) {
        match op {
            Op::Listen => {
                if self.power && !self.planned {
                    self.come_back(config);
                }
            }
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
            Op::Save => {
                if config.nvdimm {
                    self.flash = Flash::Busy(Box::new(self.memory.media()));
                    self.ghost.image_durable();
                }
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

    fn commit(&mut self, slot: usize, covers_rest: bool) {
        let (head, rest) = match (decide::body(&self.memory, slot), covers_rest) {
            (body, true) => body,
            ((head, _), false) => (head, Covered::Nothing),
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

    /// What was in the caches may be lost, as in a cut; the power stays as it is.
    fn reset(&mut self, config: &Config, left: &Left) {
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

    fn check_running(&mut self) {
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

/// A content of memory is the committed one or another.
fn plain(committed: Option<[Value; CPUS]>, line: Line, value: Value) -> Value {
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
