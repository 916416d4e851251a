// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A crash test: prepare a region, record a history, look at every state that a cut could leave.

use crate::error::Error;
use crate::heap::{Heap, Options, Session};
use crate::map::Mapping;
use crate::mutant::Mutant;
use crate::policy::Policy;
use crate::testing::{Event, Limits, Plain, Recorder, States, Threads, Visit};

/// What a trial found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Events of the history.
    pub events: usize,
    /// States that were looked at.
    pub states: u64,
    /// Moments at which only some were.
    pub sampled: u64,
    /// The first state that was wrong.
    pub failure: Option<String>,
}

/// A region for crash tests.
#[derive(Clone, Copy, Debug)]
pub struct Trial {
    /// Its size.
    pub bytes: u64,
    /// Its sessions.
    pub sessions: u32,
    /// Lines of its redo logs.
    pub redo_lines: u32,
    /// Lines of its undo logs.
    pub undo_lines: u32,
    /// The planted bug.
    pub mutant: Option<Mutant>,
    /// How many states are looked at.
    pub limits: Limits,
    /// Threads of the history.
    pub threads: Threads,
}

impl Default for Trial {
    fn default() -> Self {
        Self {
            bytes: 1 << 18,
            sessions: 1,
            redo_lines: 16,
            undo_lines: 16,
            mutant: None,
            limits: Limits {
                all_max: 600,
                drawn: 20,
                seed: 1,
            },
            threads: Threads::ONE,
        }
    }
}

/// Judges a recovered heap.
pub type Check<'a, P> = &'a dyn Fn(&Heap<P, Plain>, &Visit) -> Result<(), String>;

/// The heap of a history.
pub type Recorded<P> = Heap<P, Recorder>;

impl Trial {
    fn options(&self) -> Options {
        Options {
            sessions: self.sessions,
            redo_lines: self.redo_lines,
            undo_lines: self.undo_lines,
            ..Options::assume_all()
        }
    }

    /// Make a region and prepare it; the record is empty then, and all is durable.
    ///
    /// # Errors
    /// As [`Heap::format`].
    pub fn prepare<P: Policy>(
        &self,
        setup: impl FnOnce(&mut Session<P, Recorder>),
    ) -> Result<(Recorded<P>, Vec<u8>), Error> {
        let map = Mapping::anonymous(self.bytes)?;
        // Planted bugs begin with the history: what it begins with is right.
        let quiet = Recorder::new(map.base(), None, Threads::ONE);
        let heap: Recorded<P> = Heap::format(quiet, map, &self.options())?;
        setup(&mut heap.session()?);
        heap.checkpoint();
        let image = image_of(&heap);
        drop(heap);
        let (heap, _) = self.reopen(&image, Some(self.mutant))?;
        let _ = heap.pmem().take();
        let image = image_of(&heap);
        Ok((heap, image))
    }

    /// Open a copy of an image for a history that is recorded.
    ///
    /// # Errors
    /// As [`Heap::attach`].
    pub fn reopen<P: Policy>(
        &self,
        image: &[u8],
        mutant: Option<Option<Mutant>>,
    ) -> Result<(Recorded<P>, Vec<u8>), Error> {
        let map = copy(image)?;
        let recorder = Recorder::new(map.base(), mutant.unwrap_or(self.mutant), self.threads);
        Ok((
            Heap::attach(recorder, map, &self.options())?,
            image.to_vec(),
        ))
    }

    /// Look at all states of a record.
    pub fn judge<P: Policy>(&self, image: Vec<u8>, events: &[Event], check: Check<P>) -> Report {
        let image_bytes = image.len() as u64;
        let mut states = States::new(image, self.limits);
        let options = self.options();
        let plain = Plain {
            mutant: self.mutant,
        };
        let memory = match Mapping::anonymous(image_bytes) {
            Ok(memory) => memory,
            Err(error) => {
                return Report {
                    failure: Some(error.to_string()),
                    ..Report::default()
                };
            }
        };
        let mut look = |visit: &Visit| {
            // SAFETY: the heap is gone when the next state is looked at; the memory is as long as
            // every state.
            let map = unsafe {
                std::ptr::copy_nonoverlapping(
                    visit.image.as_ptr(),
                    memory.base(),
                    visit.image.len(),
                );
                memory.lend()
            };
            let heap = Heap::attach(plain, map, &options).map_err(|error| error.to_string())?;
            check(&heap, visit)
        };
        let failure = if P::KIND.is_flush_on_fail() {
            states.follow_surviving(events, &mut look).err()
        } else {
            states.follow(events, &mut look).err()
        };
        Report {
            events: events.len(),
            states: states.states,
            sampled: states.sampled,
            failure,
        }
    }

    /// A history of one thread.
    ///
    /// # Errors
    /// As [`Heap::format`].
    pub fn run<P: Policy>(
        &self,
        setup: impl FnOnce(&mut Session<P, Recorder>),
        history: impl FnOnce(&mut Session<P, Recorder>, &Recorder),
        check: Check<P>,
    ) -> Result<Report, Error> {
        let (heap, image) = self.prepare(setup)?;
        let recorder = heap.pmem().clone();
        history(&mut heap.session()?, &recorder);
        let events = recorder.take();
        Ok(self.judge(image, &events, check))
    }
}

/// The bytes of a heap's region.
#[must_use]
pub fn image_of<P: Policy>(heap: &Recorded<P>) -> Vec<u8> {
    let words = heap.layout().size_bytes / 8;
    (0..words)
        .flat_map(|word| heap.word(word * 8).to_le_bytes())
        .collect()
}

fn copy(image: &[u8]) -> Result<Mapping, Error> {
    let map = Mapping::anonymous(image.len() as u64)?;
    // SAFETY: the mapping is new and as long as the image.
    unsafe { std::ptr::copy_nonoverlapping(image.as_ptr(), map.base(), image.len()) };
    Ok(map)
}
