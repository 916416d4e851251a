// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The memory controller's queue, where no persistence domain covers it: lines that it has accepted
//! and not yet written. It writes them in their order, but nobody knows how fast: a cut leaves any
//! number of them, from the first on. In other domains what is accepted is on media, and the queue
//! is empty.

use std::collections::VecDeque;

use remanence_crash_states::Line;

/// See the module.
#[derive(Debug, Default)]
pub struct Queue {
    lines: VecDeque<(u64, Line)>,
    accepted: u64,
}

impl Queue {
    /// A line is accepted: its offset in NVRAM, and its content.
    pub fn accept(&mut self, offset: u64, data: &Line) {
        self.lines.push_back((offset, *data));
        self.accepted += 1;
    }

    /// The oldest line has been written; false if it is another one.
    pub fn written(&mut self, offset: u64, data: &Line) -> bool {
        let is_oldest = self.lines.front() == Some(&(offset, *data));
        if is_oldest {
            self.lines.pop_front();
        }
        is_oldest
    }

    /// How many lines have been accepted so far.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.accepted
    }

    /// How many of them have been written for certain.
    #[must_use]
    pub fn on_media(&self) -> u64 {
        self.accepted - self.len() as u64
    }

    /// How many lines wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Whether none waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// The lines that wait, in their order, each with its number among all that were accepted.
    pub fn waiting(&self) -> impl Iterator<Item = (u64, u64, &Line)> {
        let numbers = self.on_media() + 1..;
        let lines = self.lines.iter();
        numbers
            .zip(lines)
            .map(|(number, (offset, data))| (number, *offset, data))
    }
}
