// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Histories out of recorded guests (`format/rem_recording.h`).
//!
//! Inside a window of a recording each store, flush and fence is known. Which lines the recorded
//! caches evicted does not count: any line may be evicted at any time. A store of the guest to one
//! watched word is a mark: by it the guest reports what has returned.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::{Display, Formatter, Result as Written};
use std::ops::Range;

use remanence_recording::{
    Cause, DOMAIN_EADR, DOMAIN_NONE, Event as Recorded, Events, Reader, RecordingError,
};

use crate::history::Event;
use crate::line::{LINE_BYTES, LINE_WORDS, Line, WORD_BYTES, index, line_of};
use crate::memory::Domain;

/// Why a recording cannot be judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordedError {
    /// Its header, or an event, is damaged.
    Recording(RecordingError),
    /// It ends inside a window.
    CutShort,
    /// The requested memory is not in it.
    OutsideNvram,
}

impl Display for RecordedError {
    fn fmt(&self, f: &mut Formatter<'_>) -> Written {
        match self {
            Self::Recording(error) => write!(f, "{error}"),
            Self::CutShort => write!(f, "the recording ends inside a window"),
            Self::OutsideNvram => write!(f, "the region is not in the recorded NVRAM"),
        }
    }
}

impl std::error::Error for RecordedError {}

impl From<RecordingError> for RecordedError {
    fn from(error: RecordingError) -> Self {
        Self::Recording(error)
    }
}

/// What happened to a region, by offset in it.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Happened {
    /// The line changed, and no store is known that did it.
    Line(usize, Line),
    Store(usize, Vec<u8>),
    /// A line that was stored to past the caches is on its way.
    PastCache(usize),
    Flush(usize),
    Fence,
    /// The memory controller has written all that it had accepted by the oldest fence of which it is
    /// not yet said.
    Written,
}

/// One window of a recording, as far as it is of one region.
#[derive(Debug, Clone)]
pub struct Window {
    /// The region's media when the window began.
    pub media: Vec<u8>,
    /// What CPUs saw then.
    pub view: Vec<u8>,
    /// What outlives power besides media.
    pub domain: Domain,
    happened: Vec<Happened>,
}

/// The windows of a recording, in their order.
#[derive(Debug)]
pub struct Windows<'a> {
    events: Events<'a>,
    media: Vec<u8>,
    region: Range<u64>,
    domain: Domain,
    queue: Queue,
    /// Fences whose lines have been written since that was last said.
    fences_written: usize,
    failed: bool,
}

/// What the memory controller has accepted and not yet written, where no domain covers it.
#[derive(Debug, Default)]
struct Queue {
    lines: VecDeque<(u64, Line)>,
    accepted: u64,
    /// For each fence, how many lines were accepted behind it.
    fences: VecDeque<u64>,
    /// The lines for which a fence waits are accepted right behind it.
    fence_open: bool,
}

impl Queue {
    /// Takes an event; for how many fences all is written now.
    fn follow(&mut self, event: &Recorded<'_>) -> usize {
        match event {
            Recorded::Accepted { line, data, .. } => {
                self.lines.push_back((*line, **data));
                self.accepted += 1;
                return 0;
            }
            Recorded::WriteBack { .. } => {
                self.lines.pop_front();
            }
            _ => self.close_fence(),
        }
        self.fence_open |= matches!(event, Recorded::Fence { .. });
        self.written()
    }

    fn close_fence(&mut self) {
        if std::mem::take(&mut self.fence_open) {
            self.fences.push_back(self.accepted);
        }
    }

    fn written(&mut self) -> usize {
        let written = self.accepted - self.lines.len() as u64;
        let done = self.fences.iter().take_while(|last| **last <= written);
        let done = done.count();
        self.fences.drain(..done);
        done
    }
}

impl<'a> Windows<'a> {
    /// `media` = the region when the recording began; `phys` = its physical address.
    ///
    /// # Errors
    /// A header that is damaged, or a region that is not in it.
    pub fn new(recording: &'a [u8], media: Vec<u8>, phys: u64) -> Result<Self, RecordedError> {
        let reader = Reader::new(recording)?;
        let nvram_end = reader.header().nvram_phys + reader.header().nvram_bytes;
        let end = phys.saturating_add(media.len() as u64);
        if phys < reader.header().nvram_phys || end > nvram_end {
            return Err(RecordedError::OutsideNvram);
        }
        let domain = match reader.header().domain {
            DOMAIN_NONE => Domain::None,
            DOMAIN_EADR => Domain::Eadr,
            _ => Domain::Adr,
        };
        Ok(Self {
            events: reader.events(),
            media,
            region: phys..end,
            domain,
            queue: Queue::default(),
            fences_written: 0,
            failed: false,
        })
    }

    /// Takes events until one of a window's begin (`true`) or end.
    fn next_event(&mut self) -> Result<Option<Recorded<'a>>, RecordedError> {
        let event = self.events.next().transpose()?.map(|timed| timed.event);
        if let Some(Recorded::WriteBack { line, data, .. }) = event {
            if let Some(at) = self.offset(line) {
                self.media[at..at + LINE_BYTES].copy_from_slice(data);
            }
        }
        if let (Domain::None, Some(event)) = (self.domain, &event) {
            self.fences_written += self.queue.follow(event);
        }
        Ok(event)
    }

    /// The same inside a window: `None` at its end.
    fn next_inside(&mut self) -> Result<Option<Recorded<'a>>, RecordedError> {
        match self.next_event()? {
            None => Err(RecordedError::CutShort),
            Some(Recorded::Window { begins: false }) => Ok(None),
            event => Ok(event),
        }
    }

    fn offset(&self, address: u64) -> Option<usize> {
        let inside = self.region.contains(&address);
        inside.then(|| index(address - self.region.start))
    }

    fn window(&mut self) -> Result<Option<Window>, RecordedError> {
        loop {
            match self.next_event()? {
                None => return Ok(None),
                Some(Recorded::Window { begins: true }) => break,
                Some(_) => {}
            }
        }
        let media = self.media.clone();
        let waiting = self.waiting();
        let mut lines = BTreeMap::new();
        let mut event = self.next_inside()?;
        while let Some(Recorded::Line { line, data }) = event {
            lines.extend(self.offset(line).map(|at| (at, *data)));
            event = self.next_inside()?;
        }
        let mut view = media.clone();
        for (at, data) in &lines {
            view[*at..at + LINE_BYTES].copy_from_slice(data);
        }
        let mut happened = begun(&waiting, &lines, &media);
        while let Some(recorded) = event {
            let written = std::mem::take(&mut self.fences_written);
            happened.extend(std::iter::repeat_n(Happened::Written, written));
            happened.extend(self.happened(&recorded));
            event = self.next_inside()?;
        }
        Ok(Some(Window {
            media,
            view,
            domain: self.domain,
            happened,
        }))
    }

    /// A window begins: what the controller has accepted before counts as that of one fence.
    fn waiting(&mut self) -> Vec<(usize, Line)> {
        self.queue.fences = VecDeque::from([self.queue.accepted]);
        self.queue.fence_open = false;
        self.fences_written = 0;
        let lines = self.queue.lines.iter();
        lines
            .filter_map(|(line, data)| Some((self.offset(*line)?, *data)))
            .collect()
    }

    fn happened(&self, event: &Recorded<'_>) -> Option<Happened> {
        match event {
            Recorded::Line { line, data } | Recorded::Unseen { line, data } => {
                self.offset(*line).map(|at| Happened::Line(at, **data))
            }
            Recorded::Store { address, bytes, .. } => {
                let at = self.offset(*address)?;
                Some(Happened::Store(at, bytes.to_vec()))
            }
            Recorded::Accepted {
                line,
                cause: Cause::NT_STORE,
                ..
            } => self.offset(*line).map(Happened::PastCache),
            Recorded::WriteBack {
                line,
                cause: Cause::NT_STORE,
                ..
            } if self.domain != Domain::None => self.offset(*line).map(Happened::PastCache),
            Recorded::Flush { line, .. } => self.offset(*line).map(Happened::Flush),
            Recorded::Fence { .. } => Some(Happened::Fence),
            _ => None,
        }
    }
}

/// What a window begins with: the lines that wait in the controller, and what CPUs see in those that
/// differ from media.
fn begun(waiting: &[(usize, Line)], lines: &BTreeMap<usize, Line>, media: &[u8]) -> Vec<Happened> {
    let flushed = waiting
        .iter()
        .flat_map(|(at, data)| [Happened::Line(*at, *data), Happened::Flush(*at)]);
    // Of a line that is as on media again nothing is told.
    let again = waiting.iter().filter(|(at, _)| !lines.contains_key(at));
    let again = again.map(|(at, _)| Happened::Line(*at, line_of(media, (*at / LINE_BYTES) as u64)));
    let told = lines.iter().map(|(at, data)| Happened::Line(*at, *data));
    flushed
        .chain([Happened::Fence])
        .chain(again)
        .chain(told)
        .collect()
}

impl Iterator for Windows<'_> {
    type Item = Result<Window, RecordedError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let window = self.window().transpose()?;
        self.failed = window.is_err();
        Some(window)
    }
}

/// What the guest reported in a window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reports {
    /// The watched line at each mark, in their order.
    pub at_marks: Vec<Line>,
    /// The watched line at the window's end.
    pub end: Line,
}

impl Window {
    /// The line of the watched word at each mark of [`Window::history`], and at the end.
    #[must_use]
    pub fn reports(&self, watched: usize) -> Reports {
        let mut follow = Follow::new(&self.media, 0..0, watched);
        let mut at_marks = Vec::new();
        for one in &self.happened {
            follow.one(one);
            if !follow.events.is_empty() {
                follow.events.clear();
                at_marks.push(follow.watched_line());
            }
        }
        let end = follow.watched_line();
        Reports { at_marks, end }
    }

    /// The history of a part of the region, with offsets in that part. `watched` is the offset in
    /// the region of the word by which the guest reports; its line is no part of the history.
    #[must_use]
    pub fn history(&self, part: Range<usize>, watched: usize) -> Vec<Event> {
        let mut follow = Follow::new(&self.media, part, watched);
        follow.all(&self.happened);
        follow.events
    }
}

struct Follow {
    part: Range<usize>,
    watched: usize,
    /// The region as CPUs see it.
    view: Vec<u8>,
    events: Vec<Event>,
    /// Since the last fence.
    changed: bool,
    /// Of each fence whose lines are not written yet, whether it is an event.
    fences: VecDeque<bool>,
}

impl Follow {
    fn new(media: &[u8], part: Range<usize>, watched: usize) -> Self {
        Self {
            part,
            watched,
            view: media.to_vec(),
            events: Vec::new(),
            changed: false,
            fences: VecDeque::new(),
        }
    }

    /// Stores past the caches are recorded as on their way when their line is full, or right behind
    /// the fence that waited for them.
    fn all(&mut self, happened: &[Happened]) {
        let mut rest = happened.iter().peekable();
        while let Some(one) = rest.next() {
            if matches!(one, Happened::Fence) {
                while let Some(Happened::PastCache(at)) = rest.peek() {
                    self.past_cache(*at);
                    rest.next();
                }
            }
            self.one(one);
        }
    }

    fn one(&mut self, happened: &Happened) {
        match happened {
            Happened::Line(at, data) => {
                for (word, new) in data.chunks(WORD_BYTES).enumerate() {
                    let at = at + word * WORD_BYTES;
                    if self.view[at..at + WORD_BYTES] != *new {
                        self.store(at, new);
                    }
                }
            }
            Happened::Store(at, data) => {
                let before = self.watched_word();
                self.store(*at, data);
                let now = self.watched_word();
                if now != before {
                    self.events.push(Event::Mark(now));
                }
            }
            Happened::PastCache(at) => self.past_cache(*at),
            Happened::Flush(at) => {
                if let Some(line) = self.line(*at) {
                    self.events.push(Event::Flush(0, line));
                    self.changed = true;
                }
            }
            Happened::Fence => {
                let changed = std::mem::take(&mut self.changed);
                if changed {
                    self.events.push(Event::Fence(0));
                }
                self.fences.push_back(changed);
            }
            Happened::Written => {
                if self.fences.pop_front() == Some(true) {
                    self.events.push(Event::Written(1));
                }
            }
        }
    }

    fn watched_line(&self) -> Line {
        line_of(&self.view, (self.watched / LINE_BYTES) as u64)
    }

    fn watched_word(&self) -> u64 {
        word_of(&self.view[self.watched..][..WORD_BYTES])
    }

    /// Number in the part of the line at an offset of the region.
    fn line(&self, at: usize) -> Option<u64> {
        let reports = at / LINE_BYTES == self.watched / LINE_BYTES;
        (self.part.contains(&at) && !reports).then(|| ((at - self.part.start) / LINE_BYTES) as u64)
    }

    fn store(&mut self, at: usize, data: &[u8]) {
        self.view[at..at + data.len()].copy_from_slice(data);
        if self.line(at).is_some() {
            self.changed = true;
            let offset = (at - self.part.start) as u64;
            self.events.extend(Event::bytes(offset, data));
        }
    }

    /// A line that went past the cache. Its stores come before, in a row if the line is full.
    fn past_cache(&mut self, at: usize) {
        let Some(line) = self.line(at) else { return };
        self.changed = true;
        match self.stores_of(line) {
            Some(first) => {
                let content = std::array::from_fn(|byte| self.view[at + byte]);
                self.events.drain(first + 1..first + LINE_WORDS);
                self.events[first] = Event::Stream(0, line, content);
            }
            None => self.events.push(Event::Flush(0, line)),
        }
    }

    /// Where, since the last fence, all words of a line were stored to in a row.
    fn stores_of(&self, line: u64) -> Option<usize> {
        let fence = |event: &Event| matches!(event, Event::Fence(_));
        let begin = self.events.iter().rposition(fence).unwrap_or(0);
        let all = |events: &[Event]| {
            (0_u64..).zip(events).all(|(word, event)| {
                let wanted = line * LINE_BYTES as u64 + word * WORD_BYTES as u64;
                matches!(event, Event::Store(offset, 8, _) if *offset == wanted)
            })
        };
        let place = self.events[begin..].windows(LINE_WORDS).rposition(all)?;
        Some(begin + place)
    }
}

fn word_of(bytes: &[u8]) -> u64 {
    bytes
        .first_chunk()
        .map_or(0, |raw| u64::from_le_bytes(*raw))
}

#[cfg(test)]
mod tests {
    use super::*;
    use remanence_recording::{Fence, Header, Writer};

    const PHYS: u64 = 1 << 32;
    const FENCE: Recorded<'_> = Recorded::Fence {
        pc: 0,
        fence: Fence::SFENCE,
    };

    fn header() -> Header {
        Header {
            nvram_phys: PHYS,
            nvram_bytes: 4096,
            ..Header::default()
        }
    }

    fn recording(events: &[Recorded<'_>]) -> Vec<u8> {
        recording_of(&header(), events)
    }

    fn recording_of(header: &Header, events: &[Recorded<'_>]) -> Vec<u8> {
        let mut writer = Writer::new(Vec::new(), header).unwrap();
        for event in events {
            writer.put(0, 0, event).unwrap();
        }
        writer.finish().unwrap()
    }

    fn store(address: u64, bytes: &[u8]) -> Recorded<'_> {
        Recorded::Store {
            address: PHYS + address,
            bytes,
            pc: 0,
        }
    }

    fn write_back(address: u64, data: &[u8; 64], cause: Cause) -> Recorded<'_> {
        let line = PHYS + address;
        Recorded::WriteBack { line, data, cause }
    }

    fn window_of(events: &[Recorded<'_>]) -> Window {
        let begin = [Recorded::Window { begins: true }];
        let end = [Recorded::Window { begins: false }];
        let bytes = recording(&[&begin[..], events, &end[..]].concat());
        let mut windows = Windows::new(&bytes, vec![0; 4096], PHYS).unwrap();
        let window = windows.next().unwrap().unwrap();
        assert!(windows.next().is_none());
        window
    }

    #[test]
    fn stores_flushes_and_fences_are_those_of_the_part() {
        let flush = |at| Recorded::Flush {
            line: PHYS + at,
            pc: 0,
            cause: Cause::CLWB,
        };
        let evicted = [1; 64];
        let window = window_of(&[
            store(0x40, &[1; 8]),   // not of the part
            store(0x104, &[2; 12]), // crosses a word
            flush(0x40),
            flush(0x100),
            write_back(0x100, &evicted, Cause::EVICTION),
            FENCE,
            FENCE, // nothing happened since
        ]);
        let expected = [
            Event::Store(4, 4, [2, 2, 2, 2, 0, 0, 0, 0]),
            Event::Store(8, 8, [2; 8]),
            Event::Flush(0, 0),
            Event::Fence(0),
        ];
        assert_eq!(window.history(0x100..0x200, 0x800), expected);
    }

    #[test]
    fn fences_of_a_machine_without_a_domain_are_written_later() {
        let content = |byte: u8| [byte; 64];
        let accepted = |address: u64, data| Recorded::Accepted {
            line: PHYS + address,
            data,
            cause: Cause::CLWB,
        };
        let flush = Recorded::Flush {
            line: PHYS,
            pc: 0,
            cause: Cause::CLWB,
        };
        let (old, new) = (content(1), content(2));
        let mut header = header();
        header.domain = DOMAIN_NONE;
        let bytes = recording_of(
            &header,
            &[
                accepted(0x40, &old), // waits when the window begins
                Recorded::Window { begins: true },
                Recorded::Line {
                    line: PHYS + 0x40,
                    data: &old,
                },
                store(0, &[2; 8]),
                flush,
                FENCE,
                accepted(0, &new),
                write_back(0x40, &old, Cause::CLWB),
                store(8, &[3; 8]),
                write_back(0, &new, Cause::CLWB),
                Recorded::Window { begins: false },
            ],
        );
        let mut windows = Windows::new(&bytes, vec![0; 4096], PHYS).unwrap();
        let window = windows.next().unwrap().unwrap();
        assert_eq!(window.domain, Domain::None);
        assert_eq!((window.media[0x40], window.view[0x40]), (0, 1));
        let events = window.history(0..4096, 0x800);
        let tail = [
            Event::Flush(0, 1),
            Event::Fence(0),
            Event::word(0, 0x0202_0202_0202_0202),
            Event::Flush(0, 0),
            Event::Fence(0),
            Event::Written(1),
            Event::word(8, 0x0303_0303_0303_0303),
            Event::Written(1),
        ];
        assert!(events.ends_with(&tail), "{events:?}");
        assert_eq!(
            events.len(),
            8 + tail.len(),
            "the words of the line that waits"
        );
    }

    #[test]
    fn watched_word_makes_marks_and_is_no_store() {
        let window = window_of(&[
            store(0x108, &[9; 8]), // the same line
            store(0x100, &[5, 0, 0, 0]),
            store(0x100, &[5]), // the same value
            store(0x100, &6_u64.to_le_bytes()),
        ]);
        assert_eq!(
            window.history(0..4096, 0x100),
            [Event::Mark(5), Event::Mark(6)]
        );
        let reports = window.reports(0x100);
        let words = |line: &Line| (line[0], line[8]);
        let marks: Vec<_> = reports.at_marks.iter().map(words).collect();
        assert_eq!(marks, [(5, 9), (6, 9)]);
        assert_eq!(words(&reports.end), (6, 9));
    }

    #[test]
    fn full_lines_past_the_cache_are_streams_and_count_before_their_fence() {
        let words: Vec<[u8; 8]> = (1..=8).map(|value| [value; 8]).collect();
        let mut events: Vec<_> = (0..).zip(&words).map(|(n, it)| store(n * 8, it)).collect();
        let data = [0; 64];
        events.push(store(0x80, &words[0]));
        events.extend([
            FENCE,
            write_back(0, &data, Cause::NT_STORE),
            write_back(0x80, &data, Cause::NT_STORE), // a part of a line
        ]);
        let content = std::array::from_fn(|byte| words[byte / 8][0]);
        let expected = [
            Event::Stream(0, 0, content),
            Event::word(0x80, 0x0101_0101_0101_0101),
            Event::Flush(0, 2),
            Event::Fence(0),
        ];
        assert_eq!(window_of(&events).history(0..4096, 0x800), expected);
    }

    #[test]
    fn windows_begin_with_media_and_dirty_lines() {
        let (media, dirty) = ([3; 64], [4; 64]);
        let bytes = recording(&[
            store(0, &[1]), // outside of windows: not a part of anything
            write_back(0x40, &media, Cause::EVICTION),
            Recorded::Window { begins: true },
            Recorded::Line {
                line: PHYS + 0x80,
                data: &dirty,
            },
            Recorded::Window { begins: false },
        ]);
        let window = Windows::new(&bytes, vec![0; 4096], PHYS).unwrap().next();
        let window = window.unwrap().unwrap();
        assert_eq!((window.media[0x40], window.media[0x80]), (3, 0));
        assert_eq!((window.view[0x40], window.view[0x80]), (3, 4));
        assert_eq!(window.history(0..4096, 0x800).len(), 8);
    }

    #[test]
    fn recording_that_ends_in_a_window_is_refused() {
        let bytes = recording(&[Recorded::Window { begins: true }, FENCE]);
        let mut windows = Windows::new(&bytes, vec![0; 4096], PHYS).unwrap();
        assert_eq!(
            windows.next().unwrap().unwrap_err(),
            RecordedError::CutShort
        );
        assert!(windows.next().is_none());
        let outside = Windows::new(&bytes, vec![0; 4096], PHYS + 64);
        assert_eq!(outside.unwrap_err(), RecordedError::OutsideNvram);
    }
}
