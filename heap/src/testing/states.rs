// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The states that a cut can leave at each moment of a record.
//!
//! Of a line that was stored to, memory has any of the versions since the last one that was flushed
//! and awaited; of a line that was streamed and not awaited, any of its eight words may be new.
//! States only become more until a fence takes some away, or a mark changes what is expected of
//! them: it is enough to look right before each fence and mark, and at the end.
//!
//! Where caches survive (flush on fail), a cut leaves all stores before it, in their order.

use std::collections::{BTreeMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::pmem::{LINE_BYTES, LINE_WORDS};
use crate::testing::Event;

type Line = [u64; LINE_WORDS];

/// Lines of a moment that are looked at with all others old, and with all others new.
const ALONE_MAX: usize = 40;

/// How many states are looked at.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// At a moment with at most so many states all are looked at.
    pub all_max: u64,
    /// At others, so many are drawn (besides the extreme ones).
    pub drawn: u64,
    /// Chooses them.
    pub seed: u64,
}

/// A line whose content after a cut is open.
#[derive(Clone, Debug)]
enum Open {
    /// Versions by stores, each with a number; the first is durable.
    Stored(Vec<(u64, Line)>),
    /// (thread, before, after) of a streamed line.
    Streamed(usize, Line, Line),
}

/// What a look at a state is given.
#[derive(Debug)]
pub struct Visit<'a> {
    /// The memory as the cut left it.
    pub image: &'a [u8],
    /// The marks before the cut.
    pub marks: &'a [u64],
    /// Number of the event before which the cut came.
    pub event: usize,
}

/// Makes the states of a record.
#[derive(Debug)]
pub struct States {
    image: Vec<u8>,
    open: BTreeMap<u64, Open>,
    /// Flushes under way: (thread, line, number of the newest version then).
    flushes: Vec<(usize, u64, u64)>,
    version: u64,
    marks: Vec<u64>,
    seen: HashSet<u64>,
    limits: Limits,
    random: u64,
    durable_crc: u32,
    /// States that were looked at.
    pub states: u64,
    /// Moments at which only some were.
    pub sampled: u64,
}

impl States {
    /// Beginning with memory that is all durable.
    #[must_use]
    pub fn new(image: Vec<u8>, limits: Limits) -> Self {
        Self {
            image,
            open: BTreeMap::new(),
            flushes: Vec::new(),
            version: 0,
            marks: Vec::new(),
            seen: HashSet::new(),
            limits,
            random: limits.seed,
            durable_crc: 0,
            states: 0,
            sampled: 0,
        }
    }

    /// Follow a record and look at the states of each moment.
    ///
    /// # Errors
    /// The first that a look returns.
    pub fn follow(
        &mut self,
        events: &[Event],
        look: &mut dyn FnMut(&Visit) -> Result<(), String>,
    ) -> Result<(), String> {
        for (number, event) in events.iter().enumerate() {
            if matches!(event, Event::Fence(_) | Event::Mark(_)) {
                self.moment(number, look)?;
            }
            self.apply(event);
        }
        self.moment(events.len(), look)
    }

    /// The same where caches survive: a look after each store, and one at each mark.
    ///
    /// # Errors
    /// The first that a look returns.
    pub fn follow_surviving(
        &mut self,
        events: &[Event],
        look: &mut dyn FnMut(&Visit) -> Result<(), String>,
    ) -> Result<(), String> {
        self.survived(0, look)?;
        for (number, event) in events.iter().enumerate() {
            let (at, bytes) = match event {
                Event::Store(offset, value) => (*offset as usize, value.to_le_bytes().to_vec()),
                Event::StoreByte(offset, value) => (*offset as usize, vec![*value]),
                Event::Stream(_, line, content) => {
                    (*line as usize * LINE_BYTES, bytes_of(content).to_vec())
                }
                Event::Mark(what) => {
                    self.marks.push(*what);
                    self.survived(number + 1, look)?;
                    continue;
                }
                Event::Flush(..) | Event::Fence(_) => continue,
            };
            for (place, word) in bytes.chunks(LINE_BYTES / LINE_WORDS).enumerate() {
                let start = at + place * LINE_BYTES / LINE_WORDS;
                let memory = &mut self.image[start..start + word.len()];
                if memory != word {
                    memory.copy_from_slice(word);
                    self.survived(number + 1, look)?;
                }
            }
        }
        Ok(())
    }

    fn survived(
        &mut self,
        event: usize,
        look: &mut dyn FnMut(&Visit) -> Result<(), String>,
    ) -> Result<(), String> {
        self.states += 1;
        look(&Visit {
            image: &self.image,
            marks: &self.marks,
            event,
        })
        .map_err(|what| format!("cut before event {event}, all caches survive: {what}"))
    }

    /// Of each line the newest content: what all threads see.
    fn newest(&self, line: u64) -> Line {
        match self.open.get(&line) {
            Some(Open::Stored(versions)) => versions[versions.len() - 1].1,
            Some(Open::Streamed(_, _, after)) => *after,
            None => self.durable(line),
        }
    }

    fn durable(&self, line: u64) -> Line {
        let start = line as usize * LINE_BYTES;
        std::array::from_fn(|word| {
            let at = start + word * 8;
            u64::from_le_bytes(self.image[at..at + 8].try_into().unwrap_or([0; 8]))
        })
    }

    /// Whether a cut may leave this memory now.
    ///
    /// # Errors
    /// The first line that it may not leave so.
    pub fn allows(&self, image: &[u8]) -> Result<(), String> {
        for (number, found) in image.chunks_exact(LINE_BYTES).enumerate() {
            let line = number as u64;
            let place = number * LINE_BYTES;
            let allowed = match self.open.get(&line) {
                None => found == &self.image[place..place + LINE_BYTES],
                Some(Open::Stored(versions)) => versions
                    .iter()
                    .any(|(_, version)| found == bytes_of(version)),
                Some(Open::Streamed(_, before, after)) => {
                    let words = bytes_of(before).into_iter().zip(bytes_of(after));
                    let mut pairs = found.iter().zip(words);
                    pairs.all(|(byte, (before, after))| *byte == before || *byte == after)
                }
            };
            if !allowed {
                return Err(format!("line {line}: {found:02x?} can not be there"));
            }
        }
        Ok(())
    }

    /// Follow one event, without a look.
    pub fn apply(&mut self, event: &Event) {
        match event {
            Event::Store(offset, value) => self.store(*offset, |word| *word = *value),
            Event::StoreByte(offset, value) => {
                let shift = offset % 8 * 8;
                let value = u64::from(*value);
                self.store(*offset, |word| {
                    *word = *word & !(0xff << shift) | value << shift
                });
            }
            Event::Stream(thread, line, after) => {
                let before = match self.open.remove(line) {
                    None => self.durable(*line),
                    Some(_) => panic!("line {line} is streamed before it was awaited"),
                };
                self.open
                    .insert(*line, Open::Streamed(*thread, before, *after));
            }
            Event::Flush(thread, line) => self.flushes.push((*thread, *line, self.version)),
            Event::Fence(thread) => self.fence(*thread),
            Event::Mark(what) => self.marks.push(*what),
        }
    }

    fn store(&mut self, offset: u64, change: impl FnOnce(&mut u64)) {
        let line = offset / LINE_BYTES as u64;
        let mut new = self.newest(line);
        change(&mut new[(offset % LINE_BYTES as u64 / 8) as usize]);
        let durable = (self.version, self.durable(line));
        self.version += 1;
        let new = (self.version, new);
        match self
            .open
            .entry(line)
            .or_insert_with(|| Open::Stored(vec![durable]))
        {
            Open::Stored(versions) => versions.push(new),
            Open::Streamed(..) => panic!("line {line} is stored to before its stream was awaited"),
        }
    }

    fn fence(&mut self, thread: usize) {
        for (by, line, then) in std::mem::take(&mut self.flushes) {
            if by != thread {
                self.flushes.push((by, line, then));
                continue;
            }
            if let Some(Open::Stored(versions)) = self.open.get_mut(&line) {
                if let Some(place) = versions.iter().rposition(|(number, _)| *number <= then) {
                    versions.drain(..place);
                }
            }
        }
        let mut closed = Vec::new();
        for (line, open) in &self.open {
            match open {
                Open::Stored(versions) if versions.len() == 1 => {
                    closed.push((*line, versions[0].1))
                }
                Open::Stored(versions) => write(&mut self.image, *line, &versions[0].1),
                Open::Streamed(by, _, after) if *by == thread => closed.push((*line, *after)),
                _ => {}
            }
        }
        for (line, content) in closed {
            self.open.remove(&line);
            write(&mut self.image, line, &content);
        }
    }

    fn moment(
        &mut self,
        event: usize,
        look: &mut dyn FnMut(&Visit) -> Result<(), String>,
    ) -> Result<(), String> {
        let choices: Vec<(u64, u64)> = self
            .open
            .iter()
            .map(|(line, open)| match open {
                Open::Stored(versions) => (*line, versions.len() as u64),
                Open::Streamed(..) => (*line, 1 << LINE_WORDS),
            })
            .collect();
        self.durable_crc = crc32c::crc32c(&self.image);
        let count = choices
            .iter()
            .try_fold(1_u64, |all, (_, count)| all.checked_mul(*count));
        match count {
            Some(count) if count <= self.limits.all_max => {
                for number in 0..count {
                    let mut rest = number;
                    let pick: Vec<u64> = choices
                        .iter()
                        .map(|(_, count)| {
                            let chosen = rest % count;
                            rest /= count;
                            chosen
                        })
                        .collect();
                    self.state(event, &choices, &pick, look)?;
                }
            }
            _ => {
                self.sampled += 1;
                for pick in self.draw(&choices) {
                    self.state(event, &choices, &pick, look)?;
                }
            }
        }
        Ok(())
    }

    /// All old, all new, each line alone new, each alone old; and some by chance.
    fn draw(&mut self, choices: &[(u64, u64)]) -> Vec<Vec<u64>> {
        let new: Vec<u64> = choices.iter().map(|(_, count)| count - 1).collect();
        let old = vec![0; choices.len()];
        let mut picks = vec![old.clone(), new.clone()];
        let every = choices.len().div_ceil(ALONE_MAX).max(1);
        for place in (0..choices.len()).step_by(every) {
            for (from, to) in [(&old, &new), (&new, &old)] {
                let mut pick = from.clone();
                pick[place] = to[place];
                picks.push(pick);
            }
        }
        for _ in 0..self.limits.drawn {
            picks.push(
                choices
                    .iter()
                    .map(|(_, count)| self.next_random() % count)
                    .collect(),
            );
        }
        picks
    }

    fn next_random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let word = (self.random ^ self.random >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word ^ word >> 29
    }

    fn state(
        &mut self,
        event: usize,
        choices: &[(u64, u64)],
        pick: &[u64],
        look: &mut dyn FnMut(&Visit) -> Result<(), String>,
    ) -> Result<(), String> {
        let mut lines = Vec::with_capacity(choices.len());
        for ((line, _), chosen) in choices.iter().zip(pick) {
            let content = match &self.open[line] {
                Open::Stored(versions) => versions[*chosen as usize].1,
                Open::Streamed(_, before, after) => std::array::from_fn(|word| {
                    if chosen >> word & 1 == 1 {
                        after[word]
                    } else {
                        before[word]
                    }
                }),
            };
            lines.push((*line, content));
        }
        // The same memory with the same expectation need not be looked at twice.
        let mut hasher = DefaultHasher::new();
        (&lines, self.marks.len(), self.durable_crc).hash(&mut hasher);
        if !self.seen.insert(hasher.finish()) {
            return Ok(());
        }
        let durable: Vec<(u64, Line)> = lines
            .iter()
            .map(|(line, _)| (*line, self.durable(*line)))
            .collect();
        for (line, content) in &lines {
            write(&mut self.image, *line, content);
        }
        self.states += 1;
        let done = look(&Visit {
            image: &self.image,
            marks: &self.marks,
            event,
        });
        for (line, content) in &durable {
            write(&mut self.image, *line, content);
        }
        done.map_err(|what| format!("cut before event {event}, choice {pick:?}: {what}"))
    }
}

fn bytes_of(line: &Line) -> [u8; LINE_BYTES] {
    let mut bytes = [0; LINE_BYTES];
    for (to, word) in bytes.chunks_exact_mut(8).zip(line) {
        to.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

fn write(image: &mut [u8], line: u64, content: &Line) {
    let start = line as usize * LINE_BYTES;
    image[start..start + LINE_BYTES].copy_from_slice(&bytes_of(content));
}
