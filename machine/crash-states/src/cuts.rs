// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Images of memory that a cut may leave, shown one after the other in the same buffer.

use std::collections::HashSet;

use crate::line::{LINE_BYTES, Line, digest, line_of, range};
use crate::memory::{Domain, Drained, Memory};
use crate::open::{OpenLine, OpenLines};
use crate::pick::{Limits, Pick, picks, shrink};
use crate::rng::{Rng, mix};

/// An image that a cut may leave.
#[derive(Debug)]
pub struct Image<'a> {
    bytes: &'a mut [u8],
    touched: &'a mut Vec<u64>,
    changed: Option<&'a [u64]>,
    pick: &'a Pick,
}

impl Image<'_> {
    /// All of it.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.bytes
    }

    /// All of it, to be written to: each place that is written must be given to [`Image::touch`].
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.bytes
    }

    /// Lines that may have another content than in the look before, for one who keeps a copy; `None`
    /// in the first look. A line may be there twice.
    #[must_use]
    pub fn changed(&self) -> Option<&[u64]> {
        self.changed
    }

    /// These bytes are written to, and put back after the look.
    pub fn touch(&mut self, offset: usize, bytes: usize) {
        assert!(offset + bytes <= self.bytes.len(), "outside of the image");
        let lines = offset / LINE_BYTES..(offset + bytes).div_ceil(LINE_BYTES);
        self.touched.extend(lines.map(|line| line as u64));
    }

    /// Which content of each open line it has.
    #[must_use]
    pub fn pick(&self) -> &Pick {
        self.pick
    }
}

/// A failed call of `look`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure<E> {
    /// How many fences more than is certain the memory controller had written the lines of.
    pub written: usize,
    /// The smallest pick that was found to fail, of the lines that are open then.
    pub pick: Pick,
    /// Its failure.
    pub what: E,
}

/// Shows images. An image that was shown in the same context is not shown again.
#[derive(Clone, Debug)]
pub struct Cuts {
    /// What was stored, flushed and fenced so far.
    pub memory: Memory,
    buffer: Buffer,
    seen: HashSet<u64>,
    limits: Limits,
    rng: Rng,
    /// Images that were shown.
    pub images: u64,
    /// Moments at which only some of all images were.
    pub sampled: u64,
}

impl Cuts {
    /// Of a memory that is on media as a whole.
    #[must_use]
    pub fn new(media: Vec<u8>, limits: Limits, seed: u64) -> Self {
        Self::in_domain(Domain::Adr, media, limits, seed)
    }

    /// The same with another persistence domain.
    #[must_use]
    pub fn in_domain(domain: Domain, media: Vec<u8>, limits: Limits, seed: u64) -> Self {
        Self {
            buffer: Buffer::new(media.clone()),
            memory: Memory::in_domain(domain, media),
            seen: HashSet::new(),
            limits,
            rng: Rng(seed),
            images: 0,
            sampled: 0,
        }
    }

    /// Shows `look` each image that a cut now may leave, or some of them. `context` is what the look
    /// depends on besides the image.
    ///
    /// # Errors
    /// The first look that fails, with a pick that was made small.
    pub fn show<E>(
        &mut self,
        context: u64,
        look: &mut dyn FnMut(&mut Image<'_>) -> Result<(), E>,
    ) -> Result<(), Failure<E>> {
        for line in self.memory.take_settled() {
            self.buffer.settle(line, self.memory.media());
        }
        let waiting = self.memory.waiting();
        let mut whole = true;
        for written in 0..=waiting {
            let state = State::of(&self.memory, written);
            let (picks, all) = picks(state.open(), &self.limits, &mut self.rng);
            whole &= all;
            for pick in picks {
                let image = mix(context ^ mix(state.digest(&pick)));
                if !self.seen.insert(image) {
                    continue;
                }
                self.images += 1;
                if let Err(what) = self.buffer.show(&state, &pick, look) {
                    let (pick, what) = self.buffer.smallest(&state, (pick, what), look);
                    self.sampled += u64::from(!whole);
                    return Err(Failure {
                        written,
                        pick,
                        what,
                    });
                }
            }
        }
        self.sampled += u64::from(!whole);
        Ok(())
    }
}

/// The memory at a cut, if the controller has written a part of what it has accepted.
struct State<'m> {
    memory: &'m Memory,
    /// `None`: nothing waits in the controller.
    drained: Option<Drained>,
}

impl<'m> State<'m> {
    fn of(memory: &'m Memory, written: usize) -> Self {
        let waits = memory.waiting() > 0;
        Self {
            memory,
            drained: waits.then(|| memory.drained(written)),
        }
    }

    fn open(&self) -> &[(u64, OpenLine)] {
        match &self.drained {
            Some(drained) => &drained.open,
            None => self.memory.open(),
        }
    }

    fn written(&self) -> &[(u64, Line)] {
        self.drained
            .as_ref()
            .map_or(&[], |drained| &drained.written)
    }

    fn digest(&self, pick: &Pick) -> u64 {
        let open = self.open();
        let written = self.written().iter().map(|(line, content)| {
            let old = line_of(self.memory.media(), *line);
            digest(*line, content).wrapping_sub(digest(*line, &old))
        });
        let change = |(index, choice): &(usize, u64)| {
            let line = open.line(*index);
            let old = digest(line, &open.content(*index, 0));
            digest(line, &open.content(*index, *choice)).wrapping_sub(old)
        };
        let picked = pick.chosen().iter().map(change);
        written
            .chain(picked)
            .fold(self.memory.digest(), u64::wrapping_add)
    }
}

/// The one buffer in which images are shown.
#[derive(Clone, Debug)]
struct Buffer {
    image: Vec<u8>,
    touched: Vec<u64>,
    /// Since the last look; `None` before the first.
    changed: Option<Vec<u64>>,
}

impl Buffer {
    fn new(image: Vec<u8>) -> Self {
        Self {
            image,
            touched: Vec::new(),
            changed: None,
        }
    }

    /// Media has another content of a line from here on.
    fn settle(&mut self, line: u64, media: &[u8]) {
        self.image[range(line)].copy_from_slice(&media[range(line)]);
        self.changed.iter_mut().for_each(|lines| lines.push(line));
    }

    fn show<E>(
        &mut self,
        state: &State<'_>,
        pick: &Pick,
        look: &mut dyn FnMut(&mut Image<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        for (line, content) in state.written() {
            self.image[range(*line)].copy_from_slice(content);
            self.touched.push(*line);
        }
        let open = state.open();
        for (index, choice) in pick.chosen() {
            let line = open.line(*index);
            self.image[range(line)].copy_from_slice(&open.content(*index, *choice));
            self.touched.push(line);
        }
        if let Some(changed) = &mut self.changed {
            changed.extend(&self.touched);
        }
        let done = look(&mut Image {
            bytes: &mut self.image,
            touched: &mut self.touched,
            changed: self.changed.as_deref(),
            pick,
        });
        self.put_back(state.memory.media());
        done
    }

    /// Undoes what the pick and the look wrote.
    fn put_back(&mut self, media: &[u8]) {
        let changed = self.changed.get_or_insert_default();
        changed.clear();
        for line in self.touched.drain(..) {
            self.image[range(line)].copy_from_slice(&line_of(media, line));
            changed.push(line);
        }
    }

    fn smallest<E>(
        &mut self,
        state: &State<'_>,
        found: (Pick, E),
        look: &mut dyn FnMut(&mut Image<'_>) -> Result<(), E>,
    ) -> (Pick, E) {
        let mut smallest = found;
        let pick = smallest.0.clone();
        shrink(&pick, |tried| match self.show(state, tried, look) {
            Ok(()) => false,
            Err(what) => {
                smallest = (tried.clone(), what);
                true
            }
        });
        smallest
    }
}
