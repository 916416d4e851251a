// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A guest's life on media that a cut leaves in any state that its writes and syncs allow.
//!
//! Media are the record, a line of device state for each slot, and a line of the guest's memory.
//! The guest changes its memory while it runs, and the host's caches hold that until a flush. What
//! each image must have is known by its sequence. Events are marked: what is expected of a cut
//! changes with each.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;

use remanence_crash_states::{Event, History, LINE_BYTES, Limits};
use remanence_format::{REM_VM_BYTES, RemVmBody, usize_of};
use remanence_vm::image::{Source, enter, give_up, save};
use remanence_vm::record::{Bytes, Media, Record, Verdict, body, judge};

const RECORD: usize = usize_of(REM_VM_BYTES);
const STATE: usize = RECORD;
const MEMORY: usize = STATE + 2 * LINE_BYTES;
const ALL: usize = MEMORY + LINE_BYTES;

/// What a cut broke: its verdict, and how.
#[derive(Debug)]
pub struct Broken {
    pub verdict: &'static str,
    pub how: String,
}

fn broken(verdict: &'static str, how: &str) -> Result<(), Broken> {
    let how = how.to_owned();
    Err(Broken { verdict, how })
}

/// Everything that happened to media, in its order.
#[derive(Debug, Default)]
struct Tape {
    bytes: Vec<u8>,
    events: Vec<Event>,
    dirty: Vec<u64>,
}

impl Tape {
    fn store(&mut self, offset: usize, data: &[u8]) {
        self.bytes[offset..offset + data.len()].copy_from_slice(data);
        self.events.extend(Event::bytes(offset as u64, data));
        let lines = offset / LINE_BYTES..=(offset + data.len() - 1) / LINE_BYTES;
        self.dirty.extend(lines.map(|line| line as u64));
    }

    fn sync(&mut self) {
        let dirty = std::mem::take(&mut self.dirty);
        self.events
            .extend(dirty.into_iter().map(|line| Event::Flush(0, line)));
        self.events.push(Event::Fence(0));
    }
}

/// The record's part of it.
struct OnTape<'a>(&'a RefCell<Tape>);

impl Media for OnTape<'_> {
    fn read(&self) -> io::Result<Box<Bytes>> {
        let tape = self.0.borrow();
        let part = tape.bytes[..RECORD].to_vec().into_boxed_slice();
        part.try_into().map_err(|_| io::Error::other("length"))
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut tape = self.0.borrow_mut();
        tape.store(usize_of(offset), bytes);
        // Only the record's own lines: the guest's memory stays where it is.
        let memory = (MEMORY / LINE_BYTES) as u64;
        let (own, other) = std::mem::take(&mut tape.dirty)
            .into_iter()
            .partition::<Vec<u64>, _>(|line| *line < memory);
        tape.dirty = own;
        tape.sync();
        tape.dirty = other;
        Ok(())
    }
}

struct Guest<'a>(&'a RefCell<Tape>);

fn token(tape: &Tape, at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&tape.bytes[at..at + 8]);
    u64::from_le_bytes(bytes)
}

impl Guest<'_> {
    /// It runs, and stores to each word of its memory.
    fn run(&self, value: u64) {
        let mut tape = self.0.borrow_mut();
        for word in 0..LINE_BYTES / 8 {
            tape.store(MEMORY + word * 8, &value.to_le_bytes());
        }
    }
}

impl Source for Guest<'_> {
    type Error = io::Error;

    fn write_state(&mut self, sequence: u32) -> io::Result<()> {
        let mut tape = self.0.borrow_mut();
        let memory = std::mem::take(&mut tape.dirty);
        let value = token(&tape, MEMORY);
        let place = STATE + (sequence % 2) as usize * LINE_BYTES;
        for word in 0..LINE_BYTES / 8 {
            tape.store(place + word * 8, &value.to_le_bytes());
        }
        tape.sync();
        tape.dirty = memory;
        Ok(())
    }

    fn flush_memory(&mut self) -> io::Result<()> {
        self.0.borrow_mut().sync();
        Ok(())
    }

    fn body(&mut self, sequence: u32) -> io::Result<RemVmBody> {
        Ok(RemVmBody {
            sequence,
            saved_s: token(&self.0.borrow(), MEMORY),
            ..RemVmBody::default()
        })
    }
}

/// Marks: what was the last thing that the guest was promised.
const RUNS: u64 = 1 << 32; // | the sequence that it was entered from, or 0
const SAVED: u64 = 2 << 32; // | sequence

/// Lives of a guest with cuts anywhere; the first image that breaks a promise.
pub fn check() -> Result<(), Broken> {
    let tape = RefCell::new(Tape {
        bytes: vec![0; ALL],
        ..Tape::default()
    });
    let record = Record::on(OnTape(&tape));
    let mut guest = Guest(&tape);
    let fault = |error: io::Error| Broken {
        verdict: "error",
        how: error.to_string(),
    };
    let mark = |what: u64| tape.borrow_mut().events.push(Event::Mark(what));
    let mut saved: HashMap<u32, u64> = HashMap::new();
    let mut next = record.close_all().map_err(fault)?;
    mark(RUNS);
    for life in 0..5u64 {
        let value = 100 + life;
        guest.run(value);
        saved.insert(next, value);
        save(&record, &mut guest, next).map_err(fault)?;
        mark(SAVED | u64::from(next));
        match life {
            // The power went, and is back.
            0 | 1 => {
                enter(&record, next).map_err(fault)?;
                mark(RUNS | u64::from(next));
                next += 1;
            }
            // It boots cold: the disk is another one, for example.
            2 => {
                next = record.close_all().map_err(fault)?;
                mark(RUNS | u64::from(next - 1));
            }
            // It comes back before it went, and the guest goes on.
            3 => {
                give_up(&record, next).map_err(fault)?;
                mark(RUNS | u64::from(next));
                guest.run(value + 100);
                next += 1;
            }
            _ => {}
        }
    }
    let events = std::mem::take(&mut tape.borrow_mut().events);
    let limits = Limits {
        all_max: 4096,
        drawn: 256,
        alone_max: 256,
    };
    let mut history = History::new(vec![0; ALL], limits, 1);
    let shown = history.follow(&events, &mut |visit| {
        look(visit.image.bytes(), visit.marks, &saved)
    });
    shown.map_err(|refused| Broken {
        verdict: refused.what.verdict,
        how: format!("cut before event {}: {}", refused.event, refused.what.how),
    })
}

fn look(image: &[u8], marks: &[u64], saved: &HashMap<u32, u64>) -> Result<(), Broken> {
    let Some(Ok(record)) = image.get(..RECORD).map(<&Bytes>::try_from) else {
        return broken("error", "an image of another size");
    };
    let last = marks.last().copied().unwrap_or(0);
    let entered = marks
        .iter()
        .filter(|mark| **mark & !0xffff_ffff == RUNS)
        .map(|mark| *mark & 0xffff_ffff)
        .max()
        .unwrap_or(0);
    let Verdict::Enter(sequence) = judge(record) else {
        // Nothing is lost but where a save was reported and nothing has happened since.
        return if last & !0xffff_ffff == SAVED && !consumed_after(record, last) {
            broken("lost", "a save that was reported is not entered")
        } else {
            Ok(())
        };
    };
    if u64::from(sequence) <= entered {
        return broken("twice", "an image is entered that was entered before");
    }
    let Some(&value) = saved.get(&sequence) else {
        return broken("unknown", "an image is entered that nobody saved");
    };
    let whole = |at: usize| {
        (0..LINE_BYTES / 8).all(|word| {
            let at = at + word * 8;
            image[at..at + 8] == value.to_le_bytes()
        })
    };
    let body = body(record, sequence);
    if body.saved_s != value || !whole(STATE + (sequence % 2) as usize * LINE_BYTES) {
        return broken("state", "device state is not that of the image");
    }
    if !whole(MEMORY) {
        return broken("memory", "the guest's memory is not that of the image");
    }
    Ok(())
}

/// Whether the entry that follows a save has reached media: its mark comes only after it.
fn consumed_after(record: &Bytes, last: u64) -> bool {
    let sequence = last & 0xffff_ffff;
    judge(record) == Verdict::Consumed && sequence != 0
}
