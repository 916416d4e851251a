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
        let pick = eviction.pick(self);
        let stores = pick.chosen().iter();
        stores
            .map(|(index, choice)| (self.offsets[*index], self.content(*index, *choice)))
            .collect()
    }

    fn open(&self, index: usize) -> OpenLine {
        let offset = self.offsets[index];
        OpenLine::torn(self.run.media.line(offset), self.run.coherent(offset))
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
