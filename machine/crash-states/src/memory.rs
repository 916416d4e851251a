// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory behind caches: what is on media for certain, and which lines are open.
//!
//! A line that was stored to may be written back after each of its stores, or not before a fence of
//! the thread that flushed it. Aligned words of 8 bytes are stored at once, more are not. A line
//! that was stored past the cache (streamed) arrives word by word, in any order, and is on media
//! after a fence of the thread that streamed it.

use crate::line::{LINE_BYTES, Line, WORD_BYTES, digest, line_of, range};
use crate::open::OpenLine;

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
        assert!(media.len() % LINE_BYTES == 0, "memory is in whole lines");
        Self {
            media,
            open: Vec::new(),
            in_flight: Vec::new(),
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
        for flight in std::mem::take(&mut self.in_flight) {
            if flight.thread != thread {
                self.in_flight.push(flight);
                continue;
            }
            if let Ok(place) = self.place(flight.line) {
                self.settle(place, flight.number);
            }
        }
        self.open.retain(|(_, line)| line.choices() > 1);
    }

    /// Everything is on media.
    pub fn settle_all(&mut self) {
        for place in 0..self.open.len() {
            self.settle(place, u64::MAX);
        }
        self.open.clear();
        self.in_flight.clear();
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
        for (number, found) in (0_u64..).zip(image.chunks_exact(LINE_BYTES)) {
            let mut content = [0; LINE_BYTES];
            content.copy_from_slice(found);
            let allowed = match self.place(number) {
                Ok(place) => self.open[place].1.allows(&content),
                Err(_) => content == line_of(&self.media, number),
            };
            if !allowed {
                return Err(number);
            }
        }
        Ok(())
    }
}
