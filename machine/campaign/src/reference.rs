// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What an image must be: the coherent view at the store of its commit word, and in which lines
//! media differs from it. Both change by a line at a time.
//!
//! Left out, by name, is what nobody relies on: the loader's part of the block, timelines and the
//! words ([`record::outside_image`]), and the dead part of the stacks of parked CPUs ([`stack`]).

use std::collections::{BTreeMap, BTreeSet};

use crate::run::Run;
use crate::{record, stack};
use remanence_crash_states::Line;

/// See the module.
#[derive(Debug, Clone)]
pub struct Reference {
    /// Of the image.
    pub sequence: u32,
    /// Its content in every line in which media is or has been another.
    wanted: BTreeMap<u64, Line>,
    /// How many of a line's first bytes are dead.
    dead_bytes: BTreeMap<u64, usize>,
    differs: BTreeSet<u64>,
}

impl Reference {
    /// The image that a run begins with: media as it is.
    #[must_use]
    pub fn of_media(sequence: u32) -> Self {
        Self {
            sequence,
            wanted: BTreeMap::new(),
            dead_bytes: BTreeMap::new(),
            differs: BTreeSet::new(),
        }
    }

    /// The image that is being committed.
    #[must_use]
    pub fn at_commit(run: &Run<'_>, sequence: u32) -> Self {
        let mut reference = Self::of_media(sequence);
        reference.dead_bytes = stack::dead_bytes(run, sequence);
        for (&offset, data) in &run.dirty {
            reference.wanted.insert(offset, *data);
            reference.compare(offset, &run.media.line(offset));
        }
        reference
    }

    /// Media changed in one line.
    pub fn changed(&mut self, offset: u64, old: &Line, new: &Line) {
        self.wanted.entry(offset).or_insert(*old);
        self.compare(offset, new);
    }

    /// Lines in which media is another than the image, and it matters.
    #[must_use]
    pub fn differs(&self) -> &BTreeSet<u64> {
        &self.differs
    }

    /// What the image has in a line in which media was ever another.
    #[must_use]
    pub fn wanted(&self, offset: u64) -> Option<&Line> {
        self.wanted.get(&offset)
    }

    fn compare(&mut self, offset: u64, media: &Line) {
        let same = record::outside_image(offset)
            || self.wanted.get(&offset).is_none_or(|wanted| {
                let from = self.dead_bytes.get(&offset).copied().unwrap_or(0);
                wanted[from..] == media[from..]
            });
        if same {
            self.differs.remove(&offset);
        } else {
            self.differs.insert(offset);
        }
    }
}
