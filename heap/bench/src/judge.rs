// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Judges a recorded guest in which `work.rs` was at work: in each window of the recording, before
//! each fence behind a change of the heap, and where a transaction has returned, images that a cut
//! may leave there (`nvheap::testing::States`) are recovered and looked at. Each must hold all
//! transactions that had returned, and at most one more, with no object too many.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use nvheap::layout::{Layout, MAGIC, PAGE_BYTES};
use nvheap::testing::{Event, Limits, Plain, States, Visit};
use nvheap::{Heap, LINE_BYTES, LINE_WORDS, Mapping, Options, Policy, with_policy};
use remanence_recording::{Cause, Event as Recorded, Reader};

use crate::work::{SAID_MAGIC, look};

const WORD: usize = LINE_BYTES / LINE_WORDS;
const PAGE: usize = PAGE_BYTES as usize;

/// What a window tells, by offset in the region.
enum Happened {
    Line(usize, Vec<u8>),
    Store(usize, Vec<u8>),
    PastCache(usize),
    Flush(usize),
    Fence,
}

struct Verdict {
    policy: String,
    operations: u64,
    images: u64,
    sampled: u64,
    broken: String,
}

/// Judge each window; a line of JSON for each.
pub fn judge(folder: &Path, phys: u64, bytes: u64, limit: u64) -> Result<(), String> {
    let recording = std::fs::read(folder.join("recording.bin")).map_err(text)?;
    let reader = Reader::new(&recording).map_err(text)?;
    let mut media = vec![0; bytes as usize];
    File::open(folder.join("base.media"))
        .and_then(|base| base.read_exact_at(&mut media, phys - reader.header().nvram_phys))
        .map_err(text)?;
    let mut window: Option<(Vec<u8>, Vec<Happened>)> = None;
    let mut windows = 0;
    let within = |address: u64| (phys..phys + bytes).contains(&address);
    for event in reader.events() {
        let event = event.map_err(text)?.event;
        if let Recorded::Window { begins } = event {
            if begins {
                window = Some((media.clone(), Vec::new()));
            } else if let Some((before, happened)) = window.take() {
                tell(&judge_window(before, &happened, limit)?);
                windows += 1;
            }
        }
        if let Some((_, happened)) = &mut window {
            happened.extend(told(&event, phys).filter(|_| address_of(&event).is_none_or(within)));
        }
        if let Recorded::WriteBack { line, data, .. } = event {
            if within(line) {
                let at = (line - phys) as usize;
                media[at..at + LINE_BYTES].copy_from_slice(data);
            }
        }
    }
    if window.is_some() || windows == 0 {
        return Err("the recording has no window, or ends in one".to_owned());
    }
    Ok(())
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn address_of(event: &Recorded) -> Option<u64> {
    match event {
        Recorded::Store { address, .. } => Some(*address),
        Recorded::WriteBack { line, .. }
        | Recorded::Flush { line, .. }
        | Recorded::Unseen { line, .. }
        | Recorded::Line { line, .. } => Some(*line),
        _ => None,
    }
}

/// What counts of an event. Evictions do not: any line may have been evicted at any time.
fn told(event: &Recorded, phys: u64) -> Option<Happened> {
    let at = |address: u64| address.wrapping_sub(phys) as usize;
    match event {
        Recorded::Line { line, data } | Recorded::Unseen { line, data } => {
            Some(Happened::Line(at(*line), data.to_vec()))
        }
        Recorded::Store { address, bytes, .. } => {
            Some(Happened::Store(at(*address), bytes.to_vec()))
        }
        Recorded::WriteBack { line, cause, .. } if *cause == Cause::NT_STORE => {
            Some(Happened::PastCache(at(*line)))
        }
        Recorded::Flush { line, .. } => Some(Happened::Flush(at(*line))),
        Recorded::Fence { .. } => Some(Happened::Fence),
        _ => None,
    }
}

/// The page that begins so; where several do, something is wrong with the guest.
fn page_of(memory: &[u8], word: usize, magic: u64) -> Result<usize, String> {
    let found: Vec<usize> = (0..memory.len())
        .step_by(PAGE)
        .filter(|page| memory[page + word * WORD..][..WORD] == magic.to_le_bytes())
        .collect();
    match found[..] {
        [page] => Ok(page),
        _ => Err(format!("{} pages have the mark {magic:#x}", found.len())),
    }
}

fn judge_window(media: Vec<u8>, happened: &[Happened], limit: u64) -> Result<Verdict, String> {
    let mut view = media.clone();
    for one in happened {
        match one {
            Happened::Line(at, data) => view[*at..at + LINE_BYTES].copy_from_slice(data),
            _ => break,
        }
    }
    let (heap, said) = (page_of(&view, 0, MAGIC)?, page_of(&view, 1, SAID_MAGIC)?);
    let layout = Layout::decode(&view[heap..heap + PAGE]).map_err(text)?;
    let end = heap + layout.size_bytes as usize;
    let mut follow = Follow {
        heap,
        end,
        said,
        view: media.clone(),
        events: Vec::new(),
        changed: false,
        told: false,
    };
    follow.all(happened);
    let (before, now) = (media[heap..end].to_vec(), &view[heap..end]);
    with_policy!(layout.policy, P => look_at::<P>(before, now, &follow.events, limit))
}

/// Makes events of a heap.
struct Follow {
    heap: usize,
    end: usize,
    said: usize,
    /// The region as programs see it.
    view: Vec<u8>,
    events: Vec<Event>,
    /// Since the last fence.
    changed: bool,
    /// A store was told: what came before is what the window begins with.
    told: bool,
}

impl Follow {
    /// Stores that bypass the caches are told to be on their way when their line is full, or right
    /// behind the fence that waited for them.
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
                for (word, new) in data.chunks(WORD).enumerate() {
                    let at = at + word * WORD;
                    if self.view[at..at + WORD] != *new {
                        self.store(at, new);
                    }
                }
            }
            Happened::Store(at, data) => {
                self.told = true;
                self.store(*at, data);
            }
            Happened::PastCache(at) => self.past_cache(*at),
            Happened::Flush(at) if (self.heap..self.end).contains(at) => {
                self.events.push(Event::Flush(0, self.line(*at)));
                self.changed = true;
            }
            Happened::Flush(_) => {}
            Happened::Fence => {
                if std::mem::take(&mut self.changed) {
                    self.events.push(Event::Fence(0));
                }
            }
        }
    }

    fn line(&self, at: usize) -> u64 {
        ((at - self.heap) / LINE_BYTES) as u64
    }

    fn store(&mut self, at: usize, data: &[u8]) {
        self.view[at..at + data.len()].copy_from_slice(data);
        if at == self.said && data.len() == WORD && self.told {
            self.events.push(Event::Mark(word_of(data)));
        }
        if !(self.heap..self.end).contains(&at) {
            return;
        }
        self.changed = true;
        let offset = at - self.heap;
        if offset % WORD == 0 && data.len() % WORD == 0 {
            for (place, word) in data.chunks(WORD).enumerate() {
                let at = (offset + place * WORD) as u64;
                self.events.push(Event::Store(at, word_of(word)));
            }
        } else {
            for (place, byte) in data.iter().enumerate() {
                self.events
                    .push(Event::StoreByte((offset + place) as u64, *byte));
            }
        }
    }

    /// A line that went past the cache: its stores were told before, in a row.
    fn past_cache(&mut self, at: usize) {
        if !(self.heap..self.end).contains(&at) {
            return;
        }
        self.changed = true;
        let line = self.line(at);
        if let Some(first) = self.stores_of(line) {
            let content: [u8; LINE_BYTES] = std::array::from_fn(|byte| self.view[at + byte]);
            let words = std::array::from_fn(|word| word_of(&content[word * WORD..][..WORD]));
            self.events.drain(first + 1..first + LINE_WORDS);
            self.events[first] = Event::Stream(0, line, words);
        } else {
            self.events.push(Event::Flush(0, line));
        }
    }

    /// Where, since the last fence, all words of a line were stored to in a row.
    fn stores_of(&self, line: u64) -> Option<usize> {
        let fence = |event: &Event| matches!(event, Event::Fence(_));
        let begin = self.events.iter().rposition(fence).unwrap_or(0);
        let all = |events: &[Event]| {
            events.iter().enumerate().all(|(word, event)| {
                let wanted = line * LINE_BYTES as u64 + (word * WORD) as u64;
                matches!(event, Event::Store(offset, _) if *offset == wanted)
            })
        };
        let place = self.events[begin..].windows(LINE_WORDS).rposition(all)?;
        Some(begin + place)
    }
}

fn word_of(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().unwrap_or([0; WORD]))
}

fn options() -> Options {
    Options::assume_all()
}

fn look_at<P: Policy>(
    before: Vec<u8>,
    now: &[u8],
    events: &[Event],
    limit: u64,
) -> Result<Verdict, String> {
    let memory = Mapping::anonymous(now.len() as u64).map_err(text)?;
    let open = |image: &[u8]| {
        // SAFETY: the heap of the state before is gone; the memory is as long as every state.
        let map = unsafe {
            std::ptr::copy_nonoverlapping(image.as_ptr(), memory.base(), image.len());
            memory.lend()
        };
        let heap = Heap::<P, Plain>::attach(Plain { mutant: None }, map, &options());
        heap.map_err(text).and_then(|heap| look(&heap))
    };
    let (start, objects) = open(now)?;
    let check = |visit: &Visit| {
        let said = visit.marks.last().copied().unwrap_or(start);
        let (count, found) = open(visit.image)?;
        if !(said..=said + 1).contains(&count) {
            return Err(format!("{said} transactions returned, {count} are there"));
        }
        if found != objects {
            return Err(format!("{found} objects instead of {objects}"));
        }
        Ok(())
    };
    let limits = Limits {
        all_max: limit,
        drawn: limit / 8,
        seed: 1,
    };
    let mut states = States::new(before, limits);
    let broken = states.follow(events, &mut |visit| check(visit)).err();
    let marks = events
        .iter()
        .filter(|event| matches!(event, Event::Mark(_)))
        .count();
    Ok(Verdict {
        policy: P::KIND.to_string(),
        operations: marks as u64,
        images: states.states,
        sampled: states.sampled,
        broken: broken.unwrap_or_default(),
    })
}

fn tell(verdict: &Verdict) {
    let fields: BTreeMap<&str, String> = BTreeMap::from([
        ("policy", quoted(&verdict.policy)),
        ("operations", verdict.operations.to_string()),
        ("images", verdict.images.to_string()),
        ("sampled", verdict.sampled.to_string()),
        ("broken", quoted(&verdict.broken)),
    ]);
    let fields: Vec<String> = fields
        .iter()
        .map(|(name, value)| format!("\"{name}\":{value}"))
        .collect();
    println!("{{{}}}", fields.join(","));
}

/// As JSON has it: what is said here is ASCII.
fn quoted(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{text}\"")
}
