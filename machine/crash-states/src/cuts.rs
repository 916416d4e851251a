// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Images of memory that a cut may leave, shown one after the other in the same buffer.

use std::collections::HashSet;

use crate::line::{LINE_BYTES, digest, line_of, range};
use crate::memory::Memory;
use crate::open::OpenLines;
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
    /// The smallest pick that was found to fail.
    pub pick: Pick,
    /// Its failure.
    pub what: E,
}

/// Shows images. An image that was shown in the same context is not shown again.
#[derive(Clone, Debug)]
pub struct Cuts {
    /// What was stored, flushed and fenced so far.
    pub memory: Memory,
    image: Vec<u8>,
    touched: Vec<u64>,
    /// Since the last look; `None` before the first.
    changed: Option<Vec<u64>>,
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
        Self {
            image: media.clone(),
            memory: Memory::new(media),
            touched: Vec::new(),
            changed: None,
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
            self.image[range(line)].copy_from_slice(&self.memory.media()[range(line)]);
            self.changed.iter_mut().for_each(|lines| lines.push(line));
        }
        let (picks, whole) = picks(self.memory.open(), &self.limits, &mut self.rng);
        self.sampled += u64::from(!whole);
        for pick in picks {
            let image = mix(context ^ mix(self.digest(&pick)));
            if !self.seen.insert(image) {
                continue;
            }
            self.images += 1;
            if let Err(what) = self.show_one(&pick, look) {
                return Err(self.smallest(Failure { pick, what }, look));
            }
        }
        Ok(())
    }

    fn digest(&self, pick: &Pick) -> u64 {
        let open = self.memory.open();
        let change = |(index, choice): &(usize, u64)| {
            let line = open.line(*index);
            let old = digest(line, &open.content(*index, 0));
            digest(line, &open.content(*index, *choice)).wrapping_sub(old)
        };
        pick.chosen()
            .iter()
            .map(change)
            .fold(self.memory.digest(), u64::wrapping_add)
    }

    fn show_one<E>(
        &mut self,
        pick: &Pick,
        look: &mut dyn FnMut(&mut Image<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let open = self.memory.open();
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
        self.put_back();
        done
    }

    /// Undoes what the pick and the look wrote.
    fn put_back(&mut self) {
        let changed = self.changed.get_or_insert_default();
        changed.clear();
        for line in self.touched.drain(..) {
            self.image[range(line)].copy_from_slice(&line_of(self.memory.media(), line));
            changed.push(line);
        }
    }

    fn smallest<E>(
        &mut self,
        found: Failure<E>,
        look: &mut dyn FnMut(&mut Image<'_>) -> Result<(), E>,
    ) -> Failure<E> {
        let mut smallest = found;
        let pick = smallest.pick.clone();
        shrink(&pick, |tried| match self.show_one(tried, look) {
            Ok(()) => false,
            Err(what) => {
                let pick = tried.clone();
                smallest = Failure { pick, what };
                true
            }
        });
        smallest
    }
}
