// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The memory controller's write queue: lines that it has accepted and not yet written. Where no
//! persistence domain covers it, only time empties it. First in, first out.

use crate::{Bytes, Cause, Line};
use std::collections::VecDeque;

#[derive(Clone, Debug)]
pub(crate) struct Queued {
    pub(crate) line: Line,
    pub(crate) bytes: Bytes,
    pub(crate) cause: Cause,
    /// When it is on media.
    done_ps: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Queue {
    lines: VecDeque<Queued>,
    lines_max: usize,
}

impl Queue {
    pub(crate) const fn new(lines_max: usize) -> Self {
        Self {
            lines: VecDeque::new(),
            lines_max,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// When the next line can be accepted; `None`: at once.
    pub(crate) fn room_at_ps(&self) -> Option<u64> {
        let oldest = self.lines.front()?;
        (self.lines.len() >= self.lines_max).then_some(oldest.done_ps)
    }

    /// Accepts a line at that time. Writing it takes `busy_ps`.
    pub(crate) fn accept(
        &mut self,
        line: Line,
        bytes: Bytes,
        cause: Cause,
        at_ps: u64,
        busy_ps: u64,
    ) {
        let begin_ps = self.lines.back().map_or(at_ps, |last| last.done_ps);
        self.lines.push_back(Queued {
            line,
            bytes,
            cause,
            done_ps: begin_ps.max(at_ps) + busy_ps,
        });
    }

    /// Takes the oldest line, if it has been written by then.
    pub(crate) fn take_written(&mut self, now_ps: u64) -> Option<Queued> {
        let oldest = self.lines.front()?;
        (oldest.done_ps <= now_ps).then(|| self.lines.pop_front())?
    }

    /// The content that media will have of a line.
    pub(crate) fn newest(&self, line: Line) -> Option<&Bytes> {
        let mut newest_first = self.lines.iter().rev();
        let found = newest_first.find(|queued| queued.line == line)?;
        Some(&found.bytes)
    }
}
