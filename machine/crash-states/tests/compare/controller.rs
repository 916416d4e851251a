// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The oracle where the memory controller's queue is lost with the power: not rules about contents,
//! but a machine that does by chance whatever caches and controller may do, followed into every state
//! that it can be in. A cache may evict a line that was stored to at any moment; the controller takes
//! lines into its queue and writes the oldest at any moment; a fence waits until what its thread
//! flushed is in the queue. Exponential, so histories are short.
//!
//! A streamed line must not be streamed again before a fence.

use std::collections::HashSet;

use remanence_crash_states::{Event, LINE_BYTES, Line, WORD_BYTES};

#[derive(Clone, PartialEq, Eq, Hash)]
enum Queued {
    Line(usize, Line),
    /// A fence has waited for all before it.
    Fence,
}

/// What chance decides.
#[derive(Clone, PartialEq, Eq, Hash)]
struct State {
    media: Vec<Line>,
    queue: Vec<Queued>,
    /// Of each line the number of the newest change that has left the caches, and the content that
    /// left last.
    left: Vec<(u64, Line)>,
}

struct Flush {
    thread: usize,
    line: usize,
    change: u64,
    content: Line,
}

pub struct Controller {
    states: HashSet<State>,
    /// What CPUs see, and the number of the newest change of each line.
    seen: Vec<(u64, Line)>,
    /// Lines whose words leave the caches one by one: those of a stream, until its fence.
    streams: Vec<usize>,
    flushes: Vec<Flush>,
    changes: u64,
    fences: usize,
    written: usize,
}

impl Controller {
    pub fn new(lines: usize) -> Self {
        let zeros = [0; LINE_BYTES];
        let state = State {
            media: vec![zeros; lines],
            queue: Vec::new(),
            left: vec![(0, zeros); lines],
        };
        Self {
            states: HashSet::from([state]),
            seen: vec![(0, zeros); lines],
            streams: Vec::new(),
            flushes: Vec::new(),
            changes: 0,
            fences: 0,
            written: 0,
        }
    }

    /// Whether a line may be stored to or streamed.
    pub fn awaits(&self, line: u64) -> bool {
        self.streams.contains(&(line as usize))
    }

    pub fn apply(&mut self, event: &Event) {
        match event {
            Event::Store(offset, count, data) => {
                let (line, at) = (*offset as usize / LINE_BYTES, *offset as usize % LINE_BYTES);
                let mut content = self.seen[line].1;
                content[at..at + usize::from(*count)].copy_from_slice(&data[..usize::from(*count)]);
                self.change(line, content);
            }
            Event::Stream(thread, line, content) => {
                assert!(!self.awaits(*line), "line {line} is not awaited");
                self.change(*line as usize, *content);
                self.streams.push(*line as usize);
                self.flush(*thread, *line as usize);
            }
            Event::Flush(thread, line) => self.flush(*thread, *line as usize),
            Event::Fence(thread) => self.fence(*thread),
            Event::Written(fences) => {
                self.written = self.fences.min(self.written + *fences as usize);
                let waiting = self.fences - self.written;
                self.states.retain(|state| {
                    let fences = state.queue.iter().filter(|it| **it == Queued::Fence);
                    fences.count() <= waiting
                });
            }
            Event::Mark(_) => {}
        }
        self.let_happen();
    }

    fn change(&mut self, line: usize, content: Line) {
        self.changes += 1;
        self.seen[line] = (self.changes, content);
    }

    fn flush(&mut self, thread: usize, line: usize) {
        let (change, content) = self.seen[line];
        self.flushes.push(Flush {
            thread,
            line,
            change,
            content,
        });
    }

    fn fence(&mut self, thread: usize) {
        let all = std::mem::take(&mut self.flushes);
        let (own, others) = all.into_iter().partition(|flush| flush.thread == thread);
        self.flushes = others;
        let own: Vec<Flush> = own;
        self.fences += 1;
        let fenced = self.states.drain().map(|mut state| {
            for flush in &own {
                if state.left[flush.line].0 < flush.change {
                    state.left[flush.line] = (flush.change, flush.content);
                    let line = Queued::Line(flush.line, flush.content);
                    state.queue.push(line);
                }
            }
            state.queue.push(Queued::Fence);
            state
        });
        self.states = fenced.collect();
        let waits = |line: &usize| self.flushes.iter().any(|flush| flush.line == *line);
        self.streams.retain(waits);
    }

    /// Everything that may happen now, in any order.
    fn let_happen(&mut self) {
        let mut new: Vec<State> = self.states.iter().cloned().collect();
        while let Some(state) = new.pop() {
            for next in self.steps(&state) {
                if self.states.insert(next.clone()) {
                    new.push(next);
                }
            }
        }
    }

    fn steps(&self, state: &State) -> Vec<State> {
        let mut steps = Vec::new();
        if let Some(oldest) = state.queue.first() {
            let mut next = state.clone();
            if let Queued::Line(line, content) = oldest {
                next.media[*line] = *content;
            }
            next.queue.remove(0);
            steps.push(next);
        }
        for (line, (change, content)) in self.seen.iter().enumerate() {
            let (left, last) = state.left[line];
            if left == *change {
                continue;
            }
            for (whole, content) in self.evicted(line, &last, content) {
                let mut next = state.clone();
                next.left[line] = (if whole { *change } else { left }, content);
                next.queue.push(Queued::Line(line, content));
                steps.push(next);
            }
        }
        steps
    }

    /// What may leave the caches of a line at once, and whether nothing of it remains there.
    fn evicted(&self, line: usize, last: &Line, content: &Line) -> Vec<(bool, Line)> {
        if !self.streams.contains(&line) {
            return vec![(true, *content)];
        }
        let words = (0..LINE_BYTES).step_by(WORD_BYTES);
        let words = words.filter(|at| last[*at..at + 8] != content[*at..at + 8]);
        let words: Vec<usize> = words.collect();
        let part = |chosen: u32| {
            let mut some = *last;
            for (bit, at) in words.iter().enumerate() {
                if (chosen >> bit) & 1 == 1 {
                    some[*at..at + 8].copy_from_slice(&content[*at..at + 8]);
                }
            }
            (some == *content, some)
        };
        // Nothing differs: it leaves as it was.
        let first = u32::from(!words.is_empty());
        (first..1 << words.len()).map(part).collect()
    }

    /// Every image that a cut now may leave.
    pub fn images(&self) -> HashSet<Vec<u8>> {
        let images = self.states.iter().map(|state| state.media.concat());
        images.collect()
    }
}
