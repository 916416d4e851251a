// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether what a real machine did is a behaviour of the model.
//!
//! A recording (`format/rem_recording.h`) is reduced to its visible steps, [`Step`]: stores and flushes
//! of the words and of the bodies' headers, and where the phases begin. They have to follow each other
//! as the steps of the parts of the protocol do ([`crate::steps`]). A part may end at any of its steps,
//! since the power may, and a Stop may turn back before its commit. To write back all caches once more
//! is never wrong. What the loader has decided is visible by the boot note that it leaves.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::mem::offset_of;
use std::ops::RangeInclusive;

use remanence_format::{self as format, RemBody, RemBootNote, RemWord};
use remanence_recording::{Cause, Event, Phase, Reader, RecordingError};

use crate::config::Change;
use crate::lines::{Head, Line, Rest, SLOTS, Value};
use crate::steps::{Op, Part, steps};

/// Which commit words a cold boot clears.
const CLEARS: [[bool; SLOTS]; 4] = [[false, false], [true, false], [false, true], [true, true]];
/// No visible step depends on it.
const ANY_REST: Rest = Rest {
    machine: 0,
    stamp: 0,
};

/// A visible step. Sequences count from an even number below the recording's first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Step {
    /// The loader begins.
    Loader,
    /// Its note says that it boots a kernel cold.
    Cold,
    /// Its note says that it enters an image.
    Entered,
    /// A consumed word is stored.
    Consumed(u8),
    /// It is flushed.
    ConsumedFlushed,
    /// A commit word is stored in this slot; zero: none.
    Commit(usize, u8),
    /// It is flushed.
    CommitFlushed(usize),
    /// The header of a body has its sequence.
    Head(usize, u8),
    /// It is flushed.
    HeadFlushed(usize),
    /// All CPUs have written back their caches.
    CachesFlushed,
    /// The machine reports that it has stopped.
    Stopped,
}

/// Why a recording is not a behaviour of the model.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The recording is invalid.
    #[error("{0}")]
    Recording(#[from] RecordingError),
    /// A word is not stored as one.
    #[error("event {event}: a store of {bytes} bytes at NVRAM + {offset:#x} is no store of a word")]
    Torn {
        /// The event.
        event: usize,
        /// Of the store in NVRAM.
        offset: u64,
        /// Its size.
        bytes: usize,
    },
    /// A step that the model does not do there.
    #[error("event {event}: {found:?}, where the protocol has {expected}")]
    Refused {
        /// The event.
        event: usize,
        /// The step.
        found: Step,
        /// What may be there.
        expected: String,
    },
}

/// The visible steps of a recording, each with the number of its event.
///
/// # Errors
/// The recording is invalid, or a word is stored in parts.
pub fn visible(bytes: &[u8]) -> Result<Vec<(usize, Step)>, TraceError> {
    let reader = Reader::new(bytes)?;
    let header = reader.header();
    let mut seen = Seen {
        phys: header.nvram_phys,
        cpus: usize::try_from(header.cpu_count).unwrap_or(1),
        ..Seen::default()
    };
    for (number, timed) in reader.events().enumerate() {
        let timed = timed?;
        seen.event(number, timed.vcpu, &timed.event)?;
    }
    Ok(seen.steps)
}

#[derive(Debug, Default)]
struct Seen {
    phys: u64,
    cpus: usize,
    /// An even number below all sequences.
    base: Option<u32>,
    /// Lines that CPUs have flushed without a fence so far.
    weak: HashMap<u8, Vec<u64>>,
    /// CPUs that have written back their caches since the last word was stored.
    written_back: HashSet<u8>,
    steps: Vec<(usize, Step)>,
}

impl Seen {
    fn put(&mut self, number: usize, step: Step) {
        self.steps.push((number, step));
    }

    fn event(&mut self, number: usize, vcpu: u8, event: &Event<'_>) -> Result<(), TraceError> {
        match event {
            Event::Phase(Phase::LOADER) => {
                self.written_back.clear();
                self.put(number, Step::Loader);
            }
            Event::Phase(Phase::STOPPED) => self.put(number, Step::Stopped),
            Event::Store { address, bytes, .. } => {
                self.store(number, address.wrapping_sub(self.phys), bytes)?;
            }
            Event::Flush { line, cause, .. } => {
                let line = line.wrapping_sub(self.phys);
                match *cause {
                    Cause::CLFLUSH => self.flushed(number, line),
                    _ => self.weak.entry(vcpu).or_default().push(line),
                }
            }
            Event::Fence { .. } => {
                for line in self.weak.remove(&vcpu).unwrap_or_default() {
                    self.flushed(number, line);
                }
            }
            Event::CacheAll { cause, .. } if *cause != Cause::INVD => {
                self.written_back.insert(vcpu);
                if self.written_back.len() == self.cpus {
                    self.written_back.clear();
                    self.put(number, Step::CachesFlushed);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn sequence(&mut self, sequence: u32) -> u8 {
        if sequence == 0 {
            return 0;
        }
        let base = *self
            .base
            .get_or_insert_with(|| sequence.saturating_sub(2) & !1);
        u8::try_from(sequence.wrapping_sub(base)).unwrap_or(u8::MAX)
    }

    fn flushed(&mut self, number: usize, line: u64) {
        let step = match place(line) {
            Some(Line::Consumed) => Step::ConsumedFlushed,
            Some(Line::Commit(slot)) => Step::CommitFlushed(slot),
            Some(Line::Head(slot)) => Step::HeadFlushed(slot),
            _ => return,
        };
        self.put(number, step);
    }

    fn store(&mut self, number: usize, offset: u64, bytes: &[u8]) -> Result<(), TraceError> {
        let line = offset - offset % 64;
        if line == format::REM_NOTE_OFFSET {
            self.store_note(number, offset - line, bytes);
            return Ok(());
        }
        let Some(place) = place(line) else {
            return Ok(());
        };
        if let Line::Head(slot) = place {
            self.store_head(number, slot, offset - line, bytes);
            return Ok(());
        }
        // Behind the word of its line there is nothing.
        let word: Option<&[u8; RemWord::BYTES]> = bytes.try_into().ok();
        let Some(word) = word.filter(|_| offset == line) else {
            return Err(TraceError::Torn {
                event: number,
                offset,
                bytes: bytes.len(),
            });
        };
        let sequence = self.sequence(RemWord::from_bytes(word).sequence);
        self.put(
            number,
            match place {
                Line::Commit(slot) => Step::Commit(slot, sequence),
                _ => Step::Consumed(sequence),
            },
        );
        Ok(())
    }

    fn store_note(&mut self, number: usize, at: u64, bytes: &[u8]) {
        match field(offset_of!(RemBootNote, reason), at, bytes) {
            // It is on its way to a decision.
            None | Some(0 | format::REM_BOOT_HOLD) => {}
            Some(format::REM_BOOT_RESUME) => self.put(number, Step::Entered),
            Some(_) => self.put(number, Step::Cold),
        }
    }

    fn store_head(&mut self, number: usize, slot: usize, at: u64, bytes: &[u8]) {
        let sequence = field(offset_of!(RemBody, sequence), at, bytes).unwrap_or(0);
        if sequence > 0 {
            let sequence = self.sequence(sequence);
            self.put(number, Step::Head(slot, sequence));
        }
    }
}

/// What a store of some bytes at `at` puts into a field of 4 bytes.
fn field(offset: usize, at: u64, bytes: &[u8]) -> Option<u32> {
    let skip = offset.checked_sub(usize::try_from(at).ok()?)?;
    let stored = bytes.get(skip..skip + 4)?;
    stored.try_into().ok().map(u32::from_le_bytes)
}

/// The line of the model that is at this offset of the block.
fn place(line: u64) -> Option<Line> {
    if line == format::REM_CONSUMED_OFFSET {
        return Some(Line::Consumed);
    }
    (0..SLOTS).find_map(|slot| {
        let number = slot as u64;
        let commit = format::REM_COMMIT_OFFSET + number * format::REM_COMMIT_STRIDE_BYTES;
        let body = format::REM_BODY_OFFSET + number * format::REM_BODY_STRIDE_BYTES;
        match line {
            _ if line == commit => Some(Line::Commit(slot)),
            _ if line == body => Some(Line::Head(slot)),
            _ => None,
        }
    })
}

/// The visible steps of a part.
#[must_use]
pub fn of_part(part: Part, change: Option<Change>) -> Vec<Step> {
    let mut ops = steps(part);
    if let Some(change) = change {
        change(part, &mut ops);
    }
    let mut shown: Vec<Step> = Vec::new();
    for op in ops {
        let step = match op {
            Op::Store(Line::Commit(slot), Value::Commit(sequence, ..)) => {
                Step::Commit(slot, sequence)
            }
            Op::Store(Line::Commit(slot), _) => Step::Commit(slot, 0),
            Op::Store(Line::Consumed, Value::Consumed(sequence)) | Op::Consume(sequence) => {
                Step::Consumed(sequence)
            }
            Op::Flush(Line::Consumed) => Step::ConsumedFlushed,
            Op::Flush(Line::Commit(slot)) => Step::CommitFlushed(slot),
            Op::Flush(Line::Head(slot)) => Step::HeadFlushed(slot),
            // The last of the CPUs.
            Op::FlushAll(0) => Step::CachesFlushed,
            Op::Finish(slot) => Step::Head(slot, sequence_of(part)),
            Op::Commit(slot, _) => Step::Commit(slot, sequence_of(part)),
            Op::Tell => Step::Stopped,
            Op::Enter(_) => Step::Entered,
            Op::StartKernel => Step::Cold,
            _ => continue,
        };
        shown.push(step);
    }
    shown
}

fn sequence_of(part: Part) -> u8 {
    match part {
        Part::Stop(sequence) | Part::Prepare(sequence, _) | Part::Cold(sequence, _) => sequence,
        Part::Resume(head) => head.sequence,
        _ => 0,
    }
}

/// Where a machine may be between two visible steps.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Thread {
    node: Node,
    /// What is left of the part that runs.
    rest: Vec<Step>,
    /// The greatest sequence so far, 0 = unknown.
    newest: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Node {
    Loader,
    Kernel,
    /// In Go, or after a Stop that turned back: the next image is prepared.
    Back,
    /// A Stop may begin.
    Running,
    /// A Stop that has not stored its commit word.
    Stop,
    /// One that has.
    Committed,
}

/// Whether the steps are a behaviour of the model.
///
/// # Errors
/// The first step that is none.
pub fn follow(steps: &[(usize, Step)]) -> Result<(), TraceError> {
    let mut threads =
        BTreeSet::from(
            [Node::Loader, Node::Running, Node::Back].map(|node| Thread {
                node,
                rest: Vec::new(),
                newest: 0,
            }),
        );
    for &(event, found) in steps {
        let next: BTreeSet<Thread> = threads
            .iter()
            .flat_map(|thread| thread.after(found))
            .collect();
        if next.is_empty() {
            let expected: BTreeSet<String> = threads.iter().flat_map(Thread::expected).collect();
            let expected: Vec<String> = expected.into_iter().collect();
            return Err(TraceError::Refused {
                event,
                found,
                expected: expected.join(", or "),
            });
        }
        threads = next;
    }
    Ok(())
}

impl Thread {
    /// Sequences that the next image may have: where none is known, the recording's first, which
    /// counts as 2 or 3.
    fn next_sequences(&self) -> RangeInclusive<u8> {
        match self.newest {
            0 => 2..=3,
            newest => newest.saturating_add(1)..=newest.saturating_add(1),
        }
    }

    /// Parts that may begin here with this step.
    fn parts(&self, found: Step) -> Vec<(Part, Node)> {
        let cold = |consume: u8| CLEARS.map(|clear| (Part::Cold(consume, clear), Node::Kernel));
        match (self.node, found) {
            (Node::Loader, Step::Consumed(sequence)) => {
                let resumes = self.newest == 0 || sequence == self.newest;
                let resume = (Part::Resume(Head { sequence, image: 0 }), Node::Back);
                { cold(sequence).into_iter() }
                    .chain(resumes.then_some(resume))
                    .collect()
            }
            (Node::Loader, Step::Commit(_, 0) | Step::Cold) => cold(0).to_vec(),
            (Node::Kernel | Node::Back, Step::Commit(..)) => { self.next_sequences() }
                .map(|sequence| (Part::Prepare(sequence, ANY_REST), Node::Running))
                .collect(),
            (Node::Running, Step::CachesFlushed) => match self.newest {
                // Which image this is its header says.
                0 => vec![(Part::Stop(2), Node::Stop), (Part::Stop(3), Node::Stop)],
                armed => vec![(Part::Stop(armed), Node::Stop)],
            },
            _ => Vec::new(),
        }
    }

    /// Where the machine may be after this step.
    fn after(&self, found: Step) -> Vec<Self> {
        if found == Step::Loader {
            // The power was cut, or the machine has reset itself.
            return vec![Self {
                node: Node::Loader,
                rest: Vec::new(),
                newest: self.newest,
            }];
        }
        let mut next = Vec::new();
        if found == Step::CachesFlushed {
            next.push(self.clone());
        }
        if let Some((first, rest)) = self.rest.split_first() {
            if *first == found {
                next.push(self.with(found, rest.to_vec()));
            }
            if self.node == Node::Stop {
                next.extend(self.turned_back().after(found));
            }
            return next;
        }
        if self.node == Node::Running {
            next.extend(self.turned_back().after(found));
        }
        for (part, node) in self.parts(found) {
            let shown = of_part(part, None);
            if shown.first() == Some(&found) {
                let newest = self.newest.max(sequence_of(part));
                next.push(Self {
                    node,
                    rest: shown[1..].to_vec(),
                    newest,
                });
            }
        }
        if self.node == Node::Kernel {
            next.extend(self.kernel(found));
        }
        next
    }

    /// A Stop may turn back before its commit; the next one has the same sequence.
    fn turned_back(&self) -> Self {
        Self {
            node: Node::Back,
            rest: Vec::new(),
            newest: self.newest.saturating_sub(1),
        }
    }

    /// A kernel after a cold boot clears words that are damaged, and may lay the block out.
    fn kernel(&self, found: Step) -> Option<Self> {
        let (rest, newest) = match found {
            Step::Commit(slot, 0) => (Step::CommitFlushed(slot), self.newest),
            Step::Consumed(sequence) => (Step::ConsumedFlushed, sequence),
            _ => return None,
        };
        Some(Self {
            node: Node::Kernel,
            rest: vec![rest],
            newest,
        })
    }

    fn with(&self, found: Step, rest: Vec<Step>) -> Self {
        let node = match (self.node, found) {
            (Node::Stop, Step::Commit(..)) => Node::Committed,
            (node, _) => node,
        };
        let newest = self.newest;
        Self { node, rest, newest }
    }

    fn expected(&self) -> Vec<String> {
        match self.rest.first() {
            Some(step) => vec![format!("{step:?}")],
            None => vec![format!("what comes next in {:?}", self.node)],
        }
    }
}
