// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A crash test: prepare a region, record a history, look at every state that a cut could leave.

use remanence_crash_states::{Event, History, Limits, Visit};

use crate::error::Error;
use crate::heap::{Heap, Options, Session};
use crate::map::Mapping;
use crate::policy::Policy;
use crate::testing::{Broken, Plain, Recorder, Replica, Threads};

/// What a trial found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Events of the history.
    pub events: usize,
    /// States that were looked at.
    pub states: u64,
    /// Moments at which only some states were looked at.
    pub sampled: u64,
    /// The first state that was wrong, made small.
    pub failure: Option<Broken>,
}

/// Lines of a moment that are looked at with all others old, and with all others new.
const ALONE_MAX: usize = 40;

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
    /// How many states are looked at.
    pub limits: Limits,
    /// Chooses them where they are not all looked at.
    pub seed: u64,
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
            limits: Self::limits(600, 20),
            seed: 1,
            threads: Threads::ONE,
        }
    }
}

/// Checks a recovered heap.
pub type Check<'a, P> = &'a dyn Fn(&Heap<P, Plain>, &Visit<'_, '_>) -> Result<(), Broken>;

/// The heap of a history.
pub type Recorded<P> = Heap<P, Recorder>;

impl Trial {
    /// At most so many states of a moment, all of them; else so many by chance and the extreme ones.
    #[must_use]
    pub const fn limits(all_max: u64, drawn: u64) -> Limits {
        Limits {
            all_max,
            drawn,
            alone_max: ALONE_MAX,
        }
    }

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
        let image = self.begin::<P>(setup)?;
        let (heap, _) = self.reopen(&image)?;
        let _ = heap.pmem().take();
        let image = image_of(&heap);
        Ok((heap, image))
    }

    /// What a region holds before the history.
    fn begin<P: Policy>(
        &self,
        setup: impl FnOnce(&mut Session<P, Recorder>),
    ) -> Result<Vec<u8>, Error> {
        let map = Mapping::anonymous(self.bytes)?;
        let alone = Recorder::new(map.base(), Threads::ONE);
        let heap: Recorded<P> = Heap::format(alone, map, &self.options())?;
        setup(&mut heap.session()?);
        heap.checkpoint();
        Ok(image_of(&heap))
    }

    /// Open a copy of an image for a history that is recorded.
    ///
    /// # Errors
    /// As [`Heap::attach`].
    pub fn reopen<P: Policy>(&self, image: &[u8]) -> Result<(Recorded<P>, Vec<u8>), Error> {
        let map = copy(image)?;
        let recorder = Recorder::new(map.base(), self.threads);
        Ok((
            Heap::attach(recorder, map, &self.options())?,
            image.to_vec(),
        ))
    }

    /// As [`Trial::prepare`], for a history that closes and opens the region.
    ///
    /// # Errors
    /// As [`Heap::format`].
    pub(super) fn lasting<P: Policy>(
        &self,
        setup: impl FnOnce(&mut Session<P, Recorder>),
    ) -> Result<(Lasting<P>, Vec<u8>), Error> {
        let (_, image) = self.prepare::<P>(setup)?;
        let memory = copy(&image)?;
        let mut region = Lasting {
            heap: None,
            recorder: Recorder::new(memory.base(), self.threads),
            options: self.options(),
            memory,
        };
        region.reopen()?;
        let _ = region.recorder.take();
        let image = image_of(region.heap());
        Ok((region, image))
    }

    /// Looks at the states of each moment of a record.
    pub fn judge<P: Policy>(&self, image: Vec<u8>, events: &[Event], check: Check<P>) -> Report {
        let mut replica = match Replica::new(image.len() as u64) {
            Ok(replica) => replica,
            Err(error) => {
                return Report {
                    failure: Some(Broken::does_not_open(error)),
                    ..Report::default()
                };
            }
        };
        let options = self.options();
        let mut history = History::new(image, self.limits, self.seed);
        let mut look = |visit: &mut Visit<'_, '_>| {
            replica.show(visit.image, |map| {
                let heap = Heap::attach(Plain, map, &options).map_err(Broken::does_not_open)?;
                check(&heap, visit)
            })
        };
        let followed = if P::KIND.is_flush_on_fail() {
            history.follow_surviving(events, &mut look)
        } else {
            history.follow(events, &mut look)
        };
        Report {
            events: events.len(),
            states: history.images(),
            sampled: history.sampled(),
            failure: followed.err().map(Broken::from),
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

/// A region that is recorded while it is closed and opened.
pub(super) struct Lasting<P: Policy> {
    /// Dropped before its memory.
    heap: Option<Recorded<P>>,
    recorder: Recorder,
    options: Options,
    memory: Mapping,
}

impl<P: Policy> Lasting<P> {
    /// Close it, if it is open, and open it. There must be no session.
    pub fn reopen(&mut self) -> Result<(), Error> {
        self.heap = None;
        // SAFETY: the heap that had the memory is gone, and the memory is dropped last.
        let memory = unsafe { self.memory.lend() };
        self.heap = Some(Heap::attach(self.recorder.clone(), memory, &self.options)?);
        Ok(())
    }

    pub fn heap(&self) -> &Recorded<P> {
        match &self.heap {
            Some(heap) => heap,
            None => unreachable!("it could not be opened, which its user was told"),
        }
    }

    pub fn recorder(&self) -> &Recorder {
        &self.recorder
    }
}

/// The bytes of a heap's region.
#[must_use]
pub fn image_of<P: Policy>(heap: &Recorded<P>) -> Vec<u8> {
    let bytes = heap.layout().size_bytes as usize;
    // SAFETY: the layout is that of the mapping, and nothing changes it now.
    unsafe { std::slice::from_raw_parts(heap.base(), bytes) }.to_vec()
}

fn copy(image: &[u8]) -> Result<Mapping, Error> {
    let map = Mapping::anonymous(image.len() as u64)?;
    // SAFETY: the mapping is new and as long as the image.
    unsafe { std::ptr::copy_nonoverlapping(image.as_ptr(), map.base(), image.len()) };
    Ok(map)
}
