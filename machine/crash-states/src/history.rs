// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A history of stores, flushes and fences, and the images that a cut at each moment of it leaves.
//!
//! Images only become more until a fence takes some away, or a mark changes what is expected of
//! them: it is enough to look right before each fence and mark, and at the end. Where the memory
//! controller's queue is lost ([`Domain::None`]) it is what the controller has written that takes
//! images away.
//!
//! Where caches survive (flush on fail), a cut leaves all stores before it, in their order.

use std::fmt::{Display, Formatter, Result as Written};

use crate::cuts::{Cuts, Failure, Image};
use crate::line::{LINE_BYTES, Line, WORD_BYTES, index};
use crate::memory::Domain;
use crate::pick::{Limits, Pick};

/// One operation, in the order in which memory saw them. Threads are numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Up to 8 bytes within aligned 8, stored at once: offset, how many, bytes.
    Store(u64, u8, [u8; WORD_BYTES]),
    /// A line was stored past the cache: thread, number of the line, content.
    Stream(usize, u64, Line),
    /// A line is to be written back: thread, number of the line.
    Flush(usize, u64),
    /// A thread waits for what it flushed and streamed.
    Fence(usize),
    /// The controller has written what the next so many fences waited for. Where its queue outlives
    /// power the fence says all.
    Written(u64),
    /// What is expected of images from here on: a transaction has returned, for example.
    Mark(u64),
}

impl Event {
    /// A store of an aligned word.
    #[must_use]
    pub fn word(offset: u64, value: u64) -> Self {
        Self::Store(offset, 8, value.to_le_bytes())
    }

    /// A store of a byte.
    #[must_use]
    pub fn byte(offset: u64, value: u8) -> Self {
        Self::Store(offset, 1, u64::from(value).to_le_bytes())
    }

    /// Stores of any bytes, each within aligned 8.
    pub fn bytes(offset: u64, data: &[u8]) -> impl Iterator<Item = Self> + '_ {
        let head = index(offset.next_multiple_of(8) - offset).min(data.len());
        let (head, rest) = data.split_at(head);
        let parts = std::iter::once(head).chain(rest.chunks(WORD_BYTES));
        let mut at = offset;
        parts.filter(|part| !part.is_empty()).map(move |part| {
            let mut bytes = [0; WORD_BYTES];
            bytes[..part.len()].copy_from_slice(part);
            let count = u8::try_from(part.len()).unwrap_or(0);
            let event = Self::Store(at, count, bytes);
            at += u64::from(count);
            event
        })
    }
}

/// What `look` is given of an image.
#[derive(Debug)]
pub struct Visit<'v, 'i> {
    /// The memory as the cut left it.
    pub image: &'v mut Image<'i>,
    /// The marks before the cut.
    pub marks: &'v [u64],
    /// Number of the event before which the cut came.
    pub event: usize,
    /// Whether media is for certain what it was at the last mark: no fence has come since.
    pub at_mark: bool,
}

/// An image that `look` refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused<E> {
    /// Number of the event before which the cut came.
    pub event: usize,
    /// How many fences more than is certain the controller had written the lines of.
    pub written: usize,
    /// Which content of each open line it has; `None` where all caches survive.
    pub pick: Option<Pick>,
    /// Why.
    pub what: E,
}

impl<E: Display> Display for Refused<E> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Written {
        let (event, written, what) = (self.event, self.written, &self.what);
        match &self.pick {
            Some(pick) if written > 0 => {
                write!(
                    f,
                    "cut before event {event}, {written} fences written, lines {pick}: {what}"
                )
            }
            Some(pick) => write!(f, "cut before event {event}, lines {pick}: {what}"),
            None => write!(f, "cut before event {event}, all caches survive: {what}"),
        }
    }
}

/// Follows a history.
#[derive(Debug)]
pub struct History {
    cuts: Cuts,
    marks: Vec<u64>,
    at_mark: bool,
    moments: u64,
}

/// The check of one image.
pub type Look<'a, E> = &'a mut dyn FnMut(&mut Visit<'_, '_>) -> Result<(), E>;

impl History {
    /// Of a memory that is on media as a whole.
    #[must_use]
    pub fn new(media: Vec<u8>, limits: Limits, seed: u64) -> Self {
        Self::in_domain(Domain::Adr, media, limits, seed)
    }

    /// The same with another persistence domain.
    #[must_use]
    pub fn in_domain(domain: Domain, media: Vec<u8>, limits: Limits, seed: u64) -> Self {
        Self {
            cuts: Cuts::in_domain(domain, media, limits, seed),
            marks: Vec::new(),
            at_mark: false,
            moments: 0,
        }
    }

    /// Moments at which images were looked at.
    #[must_use]
    pub fn moments(&self) -> u64 {
        self.moments
    }

    /// Images that were looked at.
    #[must_use]
    pub fn images(&self) -> u64 {
        self.cuts.images
    }

    /// Moments at which only some of all images were.
    #[must_use]
    pub fn sampled(&self) -> u64 {
        self.cuts.sampled
    }

    /// Whether a cut may leave this memory now.
    ///
    /// # Errors
    /// The number of the first line that cannot be so.
    pub fn allows(&self, image: &[u8]) -> Result<(), u64> {
        self.cuts.memory.allows(image)
    }

    /// Follows events and looks at the images of each moment.
    ///
    /// # Errors
    /// The first image that `look` refuses.
    pub fn follow<E>(&mut self, events: &[Event], look: Look<'_, E>) -> Result<(), Refused<E>> {
        if self.cuts.memory.domain() == Domain::Eadr {
            return self.follow_surviving(events, look);
        }
        for (number, event) in events.iter().enumerate() {
            if matches!(event, Event::Fence(_) | Event::Written(_) | Event::Mark(_)) {
                self.moment(number, look)?;
            }
            self.apply(event);
        }
        self.moment(events.len(), look)
    }

    fn moment<E>(&mut self, event: usize, look: Look<'_, E>) -> Result<(), Refused<E>> {
        self.moments += 1;
        let (marks, at_mark) = (&self.marks, self.at_mark);
        let mut visit = |image: &mut Image<'_>| {
            look(&mut Visit {
                image,
                marks,
                event,
                at_mark,
            })
        };
        let context = ((marks.len() as u64) << 1) | u64::from(at_mark);
        let shown = self.cuts.show(context, &mut visit);
        shown.map_err(|failure| {
            let Failure {
                written,
                pick,
                what,
            } = failure;
            Refused {
                event,
                written,
                pick: Some(pick),
                what,
            }
        })
    }

    /// Follows one event, without a call of `look`.
    pub fn apply(&mut self, event: &Event) {
        let memory = &mut self.cuts.memory;
        match event {
            Event::Store(offset, count, data) => {
                memory.store(index(*offset), &data[..usize::from(*count)]);
            }
            Event::Stream(thread, line, content) => memory.stream(*thread, *line, *content),
            Event::Flush(thread, line) => memory.flush(*thread, *line),
            Event::Fence(thread) => {
                memory.fence(*thread);
                self.at_mark = false;
            }
            Event::Written(fences) => {
                memory.written(*fences);
                self.at_mark = false;
            }
            Event::Mark(what) => {
                self.marks.push(*what);
                self.at_mark = true;
            }
        }
    }

    /// The same where caches survive: `look` after each store that changes memory and each mark.
    ///
    /// # Errors
    /// The first image that `look` refuses.
    pub fn follow_surviving<E>(
        &mut self,
        events: &[Event],
        look: Look<'_, E>,
    ) -> Result<(), Refused<E>> {
        self.survived(0, look)?;
        for (number, event) in (1..).zip(events) {
            match event {
                Event::Store(offset, count, data) => {
                    let data = &data[..usize::from(*count)];
                    self.store_surviving(number, *offset, data, look)?;
                }
                Event::Stream(_, line, content) => {
                    let start = line * LINE_BYTES as u64;
                    for (word, data) in (0..).zip(content.chunks(WORD_BYTES)) {
                        self.store_surviving(number, start + word * 8, data, look)?;
                    }
                }
                Event::Mark(what) => {
                    self.marks.push(*what);
                    self.survived(number, look)?;
                }
                Event::Flush(..) | Event::Fence(_) | Event::Written(_) => {}
            }
        }
        Ok(())
    }

    fn store_surviving<E>(
        &mut self,
        event: usize,
        offset: u64,
        data: &[u8],
        look: Look<'_, E>,
    ) -> Result<(), Refused<E>> {
        let memory = &mut self.cuts.memory;
        memory.store(index(offset), data);
        if memory.open().is_empty() {
            return Ok(());
        }
        memory.settle_all();
        self.survived(event, look)
    }

    fn survived<E>(&mut self, event: usize, look: Look<'_, E>) -> Result<(), Refused<E>> {
        self.moment(event, look).map_err(|refused| Refused {
            pick: None,
            ..refused
        })
    }
}
