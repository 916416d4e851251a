// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A disk whose write cache stays on, and the log above it (`kernel/stop/disk_log.c`), as a model of
//! its own: one sector, whose writes are numbered.
//!
//! It shows invariant 10 (what a resumed kernel takes for written is there) and 4 (what a flush had
//! covered is there, also without the log). One write and one flush are in flight at most: the order
//! of overlapping writes that are in flight together is undefined, with a log as without one.

use stateright::{Model, Property};

use crate::promises::Broken;

/// A planted bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    /// After Go the log is not written again.
    ForgetLog,
    /// The completion of a request that a former life sent counts.
    OldLifeCounts,
    /// A flush covers the write that is in flight when it is sent.
    FlushCoversInFlight,
    /// The log is written again from its newest end.
    ReplayBackwards,
    /// What is written again counts as durable before a flush.
    ReplayNotFlushed,
    /// A flush ends without having reached the disk.
    FlushSkipped,
}

/// Bugs by name, each with the promise that it must break.
pub const BUGS: [(&str, Bug, Broken); 6] = [
    ("forget-log", Bug::ForgetLog, Broken::WrittenLost),
    ("old-life-counts", Bug::OldLifeCounts, Broken::WrittenLost),
    (
        "flush-covers-in-flight",
        Bug::FlushCoversInFlight,
        Broken::WrittenLost,
    ),
    (
        "replay-backwards",
        Bug::ReplayBackwards,
        Broken::WrittenLost,
    ),
    (
        "replay-not-flushed",
        Bug::ReplayNotFlushed,
        Broken::WrittenLost,
    ),
    ("flush-skipped", Bug::FlushSkipped, Broken::FlushedLost),
];

/// The model: how many writes, and how many times the power is cut and an image resumed.
#[derive(Debug, Clone, Copy)]
pub struct Logged {
    /// Writes.
    pub writes: u8,
    /// Lives of the machine.
    pub lives: u8,
    /// The planted bug.
    pub bug: Option<Bug>,
}

/// A request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Bio {
    /// Writes this content.
    Write(u8),
    /// A flush; what had been written when it was asked for.
    Flush(u8),
}

/// A request that the disk has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sent {
    bio: Bio,
    life: u8,
    /// A write's place in the log; what a flush covers of it.
    at: u8,
}

/// The disk and the memory above it, which is in NVRAM.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct State {
    /// The content of the medium.
    platter: u8,
    /// Contents in the volatile cache since the last flush: a cut leaves any of them, or none.
    cached: Vec<u8>,
    life: u8,
    /// The life in which log and disk were in step.
    log_life: u8,
    /// Contents in the log, in the order of sending.
    log: Vec<u8>,
    /// The place of the first of them.
    head: u8,
    write: Option<Sent>,
    flush: Option<Sent>,
    held: Vec<Bio>,
    /// Contents that are written again, of the log.
    replayed: Option<u8>,
    /// Writes that programs have begun.
    begun: u8,
    /// The newest write that has completed.
    written: u8,
    /// The newest write that a completed flush covers.
    flushed: u8,
}

/// What happens next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// A program writes.
    Write,
    /// A program asks for a flush.
    Flush,
    /// The disk completes the write that it has.
    WriteDone,
    /// And the flush.
    FlushDone,
    /// The log sends a request that it held.
    Release,
    /// The log writes its next content again, or flushes after the last.
    Replay,
    /// The power is cut after a Stop, and the image is resumed; the medium has this content.
    Resume(u8),
}

impl State {
    fn read(&self) -> u8 {
        self.cached.last().copied().unwrap_or(self.platter)
    }

    fn tail(&self) -> u8 {
        self.head + u8::try_from(self.log.len()).unwrap_or(u8::MAX)
    }

    fn in_step(&self, bug: Option<Bug>) -> bool {
        self.life == self.log_life || bug == Some(Bug::ForgetLog)
    }

    fn idle(&self) -> bool {
        self.write.is_none() && self.flush.is_none()
    }

    fn drop_before(&mut self, mark: u8) {
        while self.head < mark && !self.log.is_empty() {
            self.log.remove(0);
            self.head += 1;
        }
    }

    /// Sends a request, or holds it.
    fn map(&mut self, bio: Bio, bug: Option<Bug>) {
        if !self.in_step(bug) || !self.held.is_empty() {
            self.held.push(bio);
        } else {
            self.send(bio, bug);
        }
    }

    fn send(&mut self, bio: Bio, bug: Option<Bug>) {
        let life = self.life;
        match bio {
            Bio::Write(content) => {
                let at = self.tail();
                self.log.push(content);
                self.write = Some(Sent { bio, life, at });
            }
            Bio::Flush(_) => {
                let oldest = self.write.filter(|_| bug != Some(Bug::FlushCoversInFlight));
                let at = oldest.map_or_else(|| self.tail(), |write| write.at);
                self.flush = Some(Sent { bio, life, at });
            }
        }
    }

    fn counts(&self, sent: Sent, bug: Option<Bug>) -> bool {
        sent.life == self.life || bug == Some(Bug::OldLifeCounts) || bug == Some(Bug::ForgetLog)
    }

    fn flush_disk(&mut self) {
        self.platter = self.read();
        self.cached.clear();
    }

    fn write_done(&mut self, bug: Option<Bug>) {
        let Some(sent) = self.write.take() else {
            return;
        };
        if let Bio::Write(content) = sent.bio {
            self.cached.push(content);
            if self.counts(sent, bug) {
                self.written = self.written.max(content);
            } else {
                self.held.push(sent.bio);
            }
        }
    }

    fn flush_done(&mut self, bug: Option<Bug>) {
        let Some(sent) = self.flush.take() else {
            return;
        };
        if bug != Some(Bug::FlushSkipped) {
            self.flush_disk();
        }
        if !self.counts(sent, bug) {
            self.held.push(sent.bio);
        } else if let Bio::Flush(covers) = sent.bio {
            self.flushed = self.flushed.max(covers);
            self.drop_before(sent.at);
        }
    }

    fn replay(&mut self, bug: Option<Bug>) {
        let next = usize::from(self.replayed.unwrap_or(0));
        let count = self.log.len();
        let place = if bug == Some(Bug::ReplayBackwards) {
            count.wrapping_sub(next + 1)
        } else {
            next
        };
        if let Some(content) = self.log.get(place).copied() {
            self.cached.push(content);
            self.replayed = Some(u8::try_from(next + 1).unwrap_or(u8::MAX));
            return;
        }
        if bug != Some(Bug::ReplayNotFlushed) {
            self.flush_disk();
        }
        self.drop_before(self.tail());
        self.replayed = None;
        self.log_life = self.life;
    }
}

impl Model for Logged {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            platter: 0,
            cached: Vec::new(),
            life: 0,
            log_life: 0,
            log: Vec::new(),
            head: 0,
            write: None,
            flush: None,
            held: Vec::new(),
            replayed: None,
            begun: 0,
            written: 0,
            flushed: 0,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let waits = |wanted: fn(&Bio) -> bool| state.held.iter().any(wanted);
        let writes = state.write.is_some() || waits(|bio| matches!(bio, Bio::Write(_)));
        let flushes = state.flush.is_some() || waits(|bio| matches!(bio, Bio::Flush(_)));
        if state.begun < self.writes && !writes {
            actions.push(Action::Write);
        }
        if !flushes {
            actions.push(Action::Flush);
        }
        if state.write.is_some() {
            actions.push(Action::WriteDone);
        }
        if state.flush.is_some() {
            actions.push(Action::FlushDone);
        }
        if state.in_step(self.bug) && !state.held.is_empty() {
            actions.push(Action::Release);
        }
        if !state.in_step(self.bug) && state.idle() {
            actions.push(Action::Replay);
        }
        if state.life + 1 < self.lives {
            let left = state.cached.iter().chain([&state.platter]);
            actions.extend(left.map(|content| Action::Resume(*content)));
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Write => {
                state.begun += 1;
                let content = state.begun;
                state.map(Bio::Write(content), self.bug);
            }
            Action::Flush => {
                let covers = state.written;
                state.map(Bio::Flush(covers), self.bug);
            }
            Action::WriteDone => state.write_done(self.bug),
            Action::FlushDone => state.flush_done(self.bug),
            Action::Release => {
                let bio = state.held.remove(0);
                state.send(bio, self.bug);
            }
            Action::Replay => state.replay(self.bug),
            Action::Resume(content) => {
                state.platter = content;
                state.cached.clear();
                state.life += 1;
                state.replayed = None;
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            // A read gets what has been written, or what is being written.
            Property::always(Broken::WrittenLost.name(), |model: &Self, state: &State| {
                !state.in_step(model.bug) || state.read() >= state.written
            }),
            // Whatever a cut leaves is not older than what was flushed.
            Property::always(Broken::FlushedLost.name(), |_, state: &State| {
                let left = state.cached.iter().chain([&state.platter]);
                left.copied().all(|content| content >= state.flushed)
            }),
        ]
    }
}
