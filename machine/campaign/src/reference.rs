// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Expected content of an image: the coherent view at the store of its commit word, and the lines
//! in which media differs from it. Both change by one line at a time.
//!
//! Excluded, by name, is what nothing depends on: the loader's part of the block, timelines and the
//! words ([`record::outside_image`]), and the dead part of the stacks of parked CPUs ([`stack`]).

use std::collections::{BTreeMap, BTreeSet};

use crate::run::Run;
use crate::{record, stack};
use remanence_crash_states::Line;

/// The reference of one image; see the module.
#[derive(Debug, Clone)]
pub struct Reference {
    /// Sequence of the image.
    pub sequence: u32,
    /// Its content in every line in which media differs or has differed.
    wanted: BTreeMap<u64, Line>,
    /// Number of dead bytes at the beginning of a line.
    dead_bytes: BTreeMap<u64, usize>,
    differs: BTreeSet<u64>,
    unseen: BTreeSet<u64>,
}

impl Reference {
    /// The image that a run begins with: the current media.
    #[must_use]
    pub fn of_media(sequence: u32) -> Self {
        Self {
            sequence,
            wanted: BTreeMap::new(),
            dead_bytes: BTreeMap::new(),
            differs: BTreeSet::new(),
            unseen: BTreeSet::new(),
        }
    }

    /// The image that is being committed: the coherent view.
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

    /// Updates the reference after a change of one line of media.
    pub fn changed(&mut self, offset: u64, old: &Line, new: &Line) {
        self.wanted.entry(offset).or_insert(*old);
        self.compare(offset, new);
    }

    /// Lines in which media differs from the image, except in dead bytes.
    #[must_use]
    pub fn differs(&self) -> &BTreeSet<u64> {
        &self.differs
    }

    /// A line of the coherent view changed after the commit, and no store did that: a device, or a
    /// CPU behind the kernel's back, still writes to what a Stop has written back.
    pub fn changed_unseen(&mut self, offset: u64, old: &Line, new: &Line) {
        let from = self.dead_bytes.get(&offset).copied().unwrap_or(0);
        if !record::outside_image(offset) && old[from..] != new[from..] {
            self.unseen.insert(offset);
        }
    }

    /// Lines that changed so.
    #[must_use]
    pub fn unseen(&self) -> &BTreeSet<u64> {
        &self.unseen
    }

    /// The image's content of a line in which media differs or has differed.
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
