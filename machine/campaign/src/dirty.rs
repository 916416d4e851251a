// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The dirty lines at one moment: lines whose content after a cut is undetermined.

use remanence_crash_states::{Eviction, LINE_BYTES, Line, OpenLine, OpenLines};

use crate::run::Run;

/// Lines in which the coherent view and media differ. After a cut each of their words is from
/// either.
#[derive(Debug)]
pub struct DirtyLines<'r> {
    run: &'r Run<'r>,
    offsets: Vec<u64>,
}

impl<'r> DirtyLines<'r> {
    /// The dirty lines at this moment of a run.
    #[must_use]
    pub fn of(run: &'r Run<'r>) -> Self {
        Self {
            run,
            offsets: run.dirty.keys().copied().collect(),
        }
    }

    /// The stores of an eviction to media: offset and content of each line.
    #[must_use]
    pub fn stores(&self, eviction: &Eviction) -> Vec<(u64, Line)> {
        if let Eviction::Older(..) = eviction {
            return self.picked(eviction, &Versions(self));
        }
        self.picked(eviction, self)
    }

    fn picked(&self, eviction: &Eviction, open: &impl OpenLines) -> Vec<(u64, Line)> {
        let pick = eviction.pick(open);
        let stores = pick.chosen().iter();
        stores
            .map(|(index, choice)| (self.offsets[*index], open.content(*index, *choice)))
            .collect()
    }

    fn open(&self, index: usize) -> OpenLine {
        let offset = self.offsets[index];
        OpenLine::torn(self.run.media.line(offset), self.run.coherent(offset))
    }
}

/// The same lines, each with the contents that it has had since media was the same: a cache may have
/// evicted it then, and others later.
struct Versions<'d, 'r>(&'d DirtyLines<'r>);

impl Versions<'_, '_> {
    fn open(&self, index: usize) -> OpenLine {
        let run = self.0.run;
        let offset = self.0.offsets[index];
        let newest = std::iter::once(run.coherent(offset));
        let older = run.versions(offset).iter().copied();
        OpenLine::changed(run.media.line(offset), older.chain(newest))
    }
}

impl OpenLines for Versions<'_, '_> {
    fn count(&self) -> usize {
        self.0.count()
    }

    fn line(&self, index: usize) -> u64 {
        self.0.line(index)
    }

    fn choices(&self, index: usize) -> u64 {
        self.open(index).choices()
    }

    fn content(&self, index: usize, choice: u64) -> Line {
        self.open(index).content(choice)
    }
}

impl OpenLines for DirtyLines<'_> {
    fn count(&self) -> usize {
        self.offsets.len()
    }

    fn line(&self, index: usize) -> u64 {
        self.offsets[index] / LINE_BYTES as u64
    }

    fn choices(&self, index: usize) -> u64 {
        self.open(index).choices()
    }

    fn content(&self, index: usize, choice: u64) -> Line {
        self.open(index).content(choice)
    }
}
