// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory behind caches: what is on media for certain, and which lines are open.
//!
//! A line that was stored to may be written back after each of its stores, or not before a fence of
//! the thread that flushed it. Aligned words of 8 bytes are stored at once, more are not. A line
//! that was stored past the cache (streamed) arrives word by word, in any order, and is on media
//! after a fence of the thread that streamed it.
//!
//! That is so where the memory controller's queue outlives power. Where it does not ([`Domain::None`])
//! such a fence waits only until the controller has accepted the lines. It writes what it has
//! accepted in that order, at any speed. So a cut leaves what a number of fences waited for, from
//! the first on, and of all else nothing that was stored after the next of them.

use std::collections::VecDeque;

use crate::line::{LINE_BYTES, Line, WORD_BYTES, digest, line_of, range};
use crate::open::OpenLine;

/// What outlives power besides media.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Domain {
    /// Nothing: what a fence waited for is on media once the controller has written it.
    None,
    /// What the memory controller has accepted: what a fence waited for.
    #[default]
    Adr,
    /// The caches, too: every store.
    Eadr,
}

/// What one fence waited for, where the controller has yet to write it.
#[derive(Clone, Debug)]
struct Accepted {
    /// Number of the fence.
    fence: u64,
    /// Lines, each up to a step.
    lines: Vec<(u64, u64)>,
    /// The newest step at the fence.
    number: u64,
}

/// Lines when the controller has written some of what it has accepted.
#[derive(Clone, Debug)]
pub(crate) struct Drained {
    /// Lines of which media then has another content for certain.
    pub(crate) written: Vec<(u64, Line)>,
    /// Lines of which media may have another content still.
    pub(crate) open: Vec<(u64, OpenLine)>,
}

/// Makes everything before it durable that its thread has flushed or streamed.
#[derive(Clone, Copy, Debug)]
struct InFlight {
    thread: usize,
    line: u64,
    number: u64,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Memory {
    media: Vec<u8>,
    open: Vec<(u64, OpenLine)>,
    in_flight: Vec<InFlight>,
    domain: Domain,
    /// In the order of their fences.
    accepted: VecDeque<Accepted>,
    /// Fences so far, and how many of them waited for nothing that is not on media by now.
    fences: u64,
    fences_written: u64,
    /// Steps so far.
    number: u64,
    digest: u64,
    /// Lines that reached media since they were last taken.
    settled: Vec<u64>,
}

impl Memory {
    /// Memory that is on media as a whole; its size is in whole lines.
    #[must_use]
    pub fn new(media: Vec<u8>) -> Self {
        Self::in_domain(Domain::Adr, media)
    }

    /// The same with another persistence domain.
    #[must_use]
    pub fn in_domain(domain: Domain, media: Vec<u8>) -> Self {
        assert!(media.len() % LINE_BYTES == 0, "memory is in whole lines");
        Self {
            media,
            open: Vec::new(),
            in_flight: Vec::new(),
            domain,
            accepted: VecDeque::new(),
            fences: 0,
            fences_written: 0,
            number: 0,
            digest: 0,
            settled: Vec::new(),
        }
    }

    /// What is on media for certain.
    #[must_use]
    pub fn media(&self) -> &[u8] {
        &self.media
    }

    /// What outlives power besides media.
    #[must_use]
    pub fn domain(&self) -> Domain {
        self.domain
    }

    /// Lines of which media may have another content.
    #[must_use]
    pub fn open(&self) -> &[(u64, OpenLine)] {
        &self.open
    }

    /// Of what is on media for certain; 0 at the beginning.
    pub(crate) fn digest(&self) -> u64 {
        self.digest
    }

    /// Lines of which media has changed since the last call; a line may be there twice.
    pub(crate) fn take_settled(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.settled)
    }

    /// What CPUs see in a line.
    #[must_use]
    pub fn newest(&self, line: u64) -> Line {
        match self.place(line) {
            Ok(place) => self.open[place].1.newest(),
            Err(_) => line_of(&self.media, line),
        }
    }

    fn place(&self, line: u64) -> Result<usize, usize> {
        self.open.binary_search_by_key(&line, |(number, _)| *number)
    }

    fn open_line(&mut self, line: u64) -> &mut OpenLine {
        let place = self.place(line).unwrap_or_else(|place| {
            let durable = line_of(&self.media, line);
            self.open.insert(place, (line, OpenLine::new(durable)));
            place
        });
        &mut self.open[place].1
    }

    /// Bytes were stored; each part within aligned 8 bytes at once.
    pub fn store(&mut self, offset: usize, data: &[u8]) {
        let (mut at, mut rest) = (offset, data);
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(WORD_BYTES - at % WORD_BYTES));
            let line = (at / LINE_BYTES) as u64;
            let mut after = self.newest(line);
            after[at % LINE_BYTES..][..now.len()].copy_from_slice(now);
            self.change(line, after, false);
            at += now.len();
            rest = later;
        }
    }

    /// A whole line was stored past the cache.
    pub fn stream(&mut self, thread: usize, line: u64, content: Line) {
        self.change(line, content, true);
        self.flush(thread, line);
    }

    fn change(&mut self, line: u64, after: Line, torn: bool) {
        self.number += 1;
        let number = self.number;
        self.open_line(line).push(after, torn, number);
    }

    /// A thread asked for a line to be written back.
    pub fn flush(&mut self, thread: usize, line: u64) {
        if self.place(line).is_ok() {
            self.in_flight.push(InFlight {
                thread,
                line,
                number: self.number,
            });
        }
    }

    /// A thread waited for what it flushed and streamed.
    pub fn fence(&mut self, thread: usize) {
        let mut awaited = Vec::new();
        for flight in std::mem::take(&mut self.in_flight) {
            if flight.thread != thread {
                self.in_flight.push(flight);
                continue;
            }
            awaited.push((flight.line, flight.number));
        }
        self.fences += 1;
        self.accepted.push_back(Accepted {
            fence: self.fences,
            lines: awaited,
            number: self.number,
        });
        if self.domain != Domain::None {
            self.written(u64::MAX);
        }
    }

    /// The controller has written what the next `fences` fences waited for, in their order.
    pub fn written(&mut self, fences: u64) {
        self.fences_written = self.fences_written.saturating_add(fences).min(self.fences);
        while let Some(oldest) = self.accepted.pop_front() {
            if oldest.fence > self.fences_written {
                self.accepted.push_front(oldest);
                break;
            }
            for (line, number) in oldest.lines {
                if let Ok(place) = self.place(line) {
                    self.settle(place, number);
                }
            }
        }
        self.open.retain(|(_, line)| line.choices() > 1);
    }

    /// Fences of which it is not certain that the controller has written what they waited for.
    pub(crate) fn waiting(&self) -> usize {
        self.accepted.len()
    }

    /// The lines when it has written what the first `fences` of them waited for, and not all that
    /// the next one did.
    pub(crate) fn drained(&self, fences: usize) -> Drained {
        let mut open = self.open.clone();
        for (line, number) in self.accepted.iter().take(fences).flat_map(|it| &it.lines) {
            if let Ok(place) = self.place(*line) {
                open[place].1.settle(*number);
            }
        }
        if let Some(next) = self.accepted.get(fences) {
            for (_, line) in &mut open {
                line.forget_after(next.number);
            }
        }
        let written = open
            .iter()
            .map(|(line, content)| (*line, *content.durable()))
            .filter(|(line, content)| *content != line_of(&self.media, *line))
            .collect();
        open.retain(|(_, line)| line.choices() > 1);
        Drained { written, open }
    }

    /// Everything is on media.
    pub fn settle_all(&mut self) {
        for place in 0..self.open.len() {
            self.settle(place, u64::MAX);
        }
        self.open.clear();
        self.in_flight.clear();
        self.accepted.clear();
        self.fences_written = self.fences;
    }

    fn settle(&mut self, place: usize, number: u64) {
        let (line, open) = &mut self.open[place];
        let before = *open.durable();
        open.settle(number);
        let after = *open.durable();
        if before != after {
            let change = digest(*line, &after).wrapping_sub(digest(*line, &before));
            self.digest = self.digest.wrapping_add(change);
            self.media[range(*line)].copy_from_slice(&after);
            self.settled.push(*line);
        }
    }

    /// Whether a cut may leave this memory now.
    ///
    /// # Errors
    /// The number of the first line that cannot be so.
    pub fn allows(&self, image: &[u8]) -> Result<(), u64> {
        let mut refused = self.allowed(image, &[], &self.open);
        if !self.accepted.is_empty() {
            for fences in 0..=self.waiting() {
                let Drained { written, open } = self.drained(fences);
                refused = self.allowed(image, &written, &open);
                if refused.is_ok() {
                    break;
                }
            }
        }
        refused
    }

    fn allowed(
        &self,
        image: &[u8],
        written: &[(u64, Line)],
        open: &[(u64, OpenLine)],
    ) -> Result<(), u64> {
        for (number, found) in (0_u64..).zip(image.chunks_exact(LINE_BYTES)) {
            let mut content = [0; LINE_BYTES];
            content.copy_from_slice(found);
            let of = |line: &(u64, OpenLine)| line.0;
            let allowed = match open.binary_search_by_key(&number, of) {
                Ok(place) => open[place].1.allows(&content),
                Err(_) => match written.iter().find(|(line, _)| *line == number) {
                    Some((_, written)) => content == *written,
                    None => content == line_of(&self.media, number),
                },
            };
            if !allowed {
                return Err(number);
            }
        }
        Ok(())
    }
}
