// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory of another socket: behind a link that takes a time, and that has a bandwidth in each
//! direction.
//!
//! Requests of reads and answers to writes are short and take no bandwidth; each line takes its
//! time on the links, which share the lines evenly. A line that finds them busy waits.

use crate::error::MediaError;
use crate::memory::{Counts, Memory};
use crate::parts::Part;
use crate::stats::{Energy, Figure, count};
use crate::units::{LINE_BYTES, LineAddr, Ps};
use serde::{Deserialize, Serialize};

/// The numbers of a part of kind `link`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkPart {
    /// There and back, more than to the own socket's memory.
    hop: Ps,
    /// One line on all links together.
    line: Ps,
}

impl LinkPart {
    /// From its table.
    ///
    /// # Errors
    /// When it is no such part.
    #[expect(clippy::cast_precision_loss, reason = "64 and a few links")]
    pub fn from_part(part: &Part) -> Result<Self, MediaError> {
        let mut from = part.reader("link")?;
        let hop = from.ns("hop_ns")?;
        let links = from.count("links")?;
        let bytes_per_ns = from.number("link_bytes_per_ns")?;
        from.finish()?;
        if bytes_per_ns <= 0.0 || links > 64 {
            let why = format!("part {}: a link without bandwidth, or 65 links", part.name);
            return Err(MediaError::Geometry(why));
        }
        Ok(Self {
            hop,
            line: Ps::from_ns(LINE_BYTES as f64 / (bytes_per_ns * links as f64)),
        })
    }
}

/// A memory behind a link.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Far<M> {
    memory: M,
    link: LinkPart,
    /// Until when each direction is busy: towards the memory, and back.
    busy: [Ps; 2],
    /// When the memory was last asked.
    last: Ps,
    /// When the answer to the last write is back.
    accepted: Ps,
    counts: Counts,
    waited_lines: u64,
}

impl<M: Memory> Far<M> {
    /// With nothing on the link.
    pub fn new(memory: M, link: LinkPart) -> Self {
        Self {
            memory,
            link,
            busy: [Ps::ZERO; 2],
            last: Ps::ZERO,
            accepted: Ps::ZERO,
            counts: Counts::default(),
            waited_lines: 0,
        }
    }

    fn way_out(&self) -> Ps {
        Ps(self.link.hop.0 / 2)
    }

    fn way_back(&self) -> Ps {
        self.link.hop - self.way_out()
    }

    /// A line takes its time in one direction; when it begins to.
    fn carry(&mut self, direction: usize, at: Ps) -> Ps {
        let begin = self.busy[direction].max(at);
        self.waited_lines += u64::from(begin > at);
        self.busy[direction] = begin + self.link.line;
        begin
    }

    fn ask(&mut self, at: Ps) -> Ps {
        self.last = self.last.max(at);
        self.last
    }

    fn count(&mut self) {
        self.counts = Counts {
            read: self.counts.read,
            write: self.counts.write,
            ..*self.memory.counts()
        };
    }
}

impl<M: Memory + Serialize> Memory for Far<M> {
    fn lines(&self) -> u64 {
        self.memory.lines()
    }

    fn read(&mut self, at: Ps, line: LineAddr) -> Ps {
        let asked = self.ask(at + self.way_out());
        let begin = self.carry(1, asked);
        let ready = self.memory.read(asked, line);
        let done = ready.max(begin) + self.link.line + self.way_back();
        self.counts.read.add(done - at);
        self.count();
        done
    }

    fn write(&mut self, at: Ps, line: LineAddr) -> Ps {
        let sent = self.carry(0, at) + self.link.line;
        let asked = self.ask(sent + self.way_out());
        let done = self.memory.write(asked, line) + self.way_back();
        self.counts.write.add(done - at);
        self.count();
        self.accepted = self.accepted.max(done);
        done
    }

    /// A flush port is at the other end; without one the answers to writes have come over the link.
    fn persist(&mut self, at: Ps) -> Ps {
        if !self.memory.has_flush_port() {
            return at.max(self.accepted);
        }
        let asked = self.ask(at + self.way_out());
        self.memory.persist(asked) + self.way_back()
    }

    fn has_flush_port(&self) -> bool {
        self.memory.has_flush_port()
    }

    fn flush(&mut self, at: Ps) -> Ps {
        let asked = self.ask(at + self.way_out());
        self.memory.flush(asked) + self.way_back()
    }

    fn reset(&mut self, at: Ps) -> Ps {
        let asked = self.ask(at + self.way_out());
        self.memory.reset(asked) + self.way_back()
    }

    fn counts(&self) -> &Counts {
        &self.counts
    }

    /// The memory's; what a link takes is not published.
    fn energy(&self, until: Ps) -> Energy {
        self.memory.energy(until)
    }

    fn checkpoint(&self) -> Vec<u8> {
        crate::memory::save(self)
    }

    fn own_figures(&self) -> Vec<Figure> {
        let mut figures = self.memory.own_figures();
        figures.push(count(
            "link_waits",
            self.waited_lines,
            "Lines that found the link busy.",
        ));
        figures
    }
}
