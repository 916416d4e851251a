// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The dirty lines at one moment: lines whose content after a cut is undetermined.
//!
//! Where no domain covers the memory controller's queue some of them have left the caches, and the
//! controller writes what it has accepted in its order. So a content on media tells that all lines
//! are there that were accepted before it came into being.

use std::collections::BTreeMap;

use remanence_crash_states::{Eviction, LINE_BYTES, Line, OpenLine, OpenLines, WORD_BYTES};

use crate::run::{Run, Version};

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
        let (least, evicted) = match eviction {
            Eviction::Drained(lines, evicted) => (*lines, &**evicted),
            evicted => (0, evicted),
        };
        let picked = match evicted {
            Eviction::Older(..) => self.picked(evicted, &Versions(self)),
            _ => self.picked(evicted, self),
        };
        if self.run.queue.is_empty() {
            return picked;
        }
        self.behind_the_queue(least, &picked)
    }

    fn picked(&self, eviction: &Eviction, open: &impl OpenLines) -> Vec<(u64, Line)> {
        let pick = eviction.pick(open);
        let stores = pick.chosen().iter();
        stores
            .map(|(index, choice)| (self.offsets[*index], open.content(*index, *choice)))
            .collect()
    }

    /// What is on media besides, where these contents are: at `least` so many lines of the queue,
    /// and all that were accepted before one of the contents came into being.
    fn behind_the_queue(&self, least: u64, picked: &[(u64, Line)]) -> Vec<(u64, Line)> {
        let (run, queue) = (self.run, &self.run.queue);
        let after = |(offset, data): &(u64, Line)| self.version(*offset, data).after;
        let least = queue.on_media().saturating_add(least);
        let drained = picked.iter().map(after).fold(least, u64::max);
        let waiting = queue.waiting();
        let mut written: BTreeMap<u64, (u64, Line)> = waiting
            .take_while(|(number, ..)| *number <= drained)
            .map(|(number, offset, data)| (offset, (number, *data)))
            .collect();
        for (offset, data) in picked {
            let picked = self.version(*offset, data);
            let content = match written.get(offset) {
                None => *data,
                Some((number, data)) => self.newer(*offset, *number, data, &picked),
            };
            written.insert(*offset, (0, content));
        }
        let stores = written
            .into_iter()
            .map(|(offset, (_, data))| (offset, data));
        stores
            .filter(|(offset, data)| run.media.line(*offset) != *data)
            .collect()
    }

    /// When a content of a line came into being; one with old and new words with the newest.
    fn version(&self, offset: u64, data: &Line) -> Version {
        let newest = self.run.newest(offset);
        let older = self.run.versions(offset).iter();
        let mut older = older.filter(|version| newest.data != *data && version.data == *data);
        let found = older.next().map_or(newest.after, |version| version.after);
        Version {
            after: found,
            data: *data,
        }
    }

    /// What media has of a line if the controller has written `written`, which it accepted as
    /// number `number`, and the line was evicted with the picked content.
    fn newer(&self, offset: u64, number: u64, written: &Line, picked: &Version) -> Line {
        let newest = self.run.newest(offset).data;
        let mut versions = self.run.versions(offset).iter();
        if picked.data == newest || picked.after >= number {
            picked.data
        } else if versions.any(|version| version.data == picked.data) {
            *written
        } else {
            arrived(&self.run.media.line(offset), &picked.data, written)
        }
    }

    fn open(&self, index: usize) -> OpenLine {
        let offset = self.offsets[index];
        OpenLine::torn(self.run.media.line(offset), self.run.coherent(offset))
    }
}

/// The words of a torn line that differ from media have arrived, behind what the controller wrote.
fn arrived(media: &Line, torn: &Line, written: &Line) -> Line {
    let mut line = *written;
    let words = line.chunks_mut(WORD_BYTES);
    for ((to, torn), media) in words
        .zip(torn.chunks(WORD_BYTES))
        .zip(media.chunks(WORD_BYTES))
    {
        if torn != media {
            to.copy_from_slice(torn);
        }
    }
    line
}

/// The same lines, each with the contents that it has had since media was the same: a cache may have
/// evicted it then, and others later.
struct Versions<'d, 'r>(&'d DirtyLines<'r>);

impl Versions<'_, '_> {
    fn open(&self, index: usize) -> OpenLine {
        let run = self.0.run;
        let offset = self.0.offsets[index];
        let newest = std::iter::once(run.coherent(offset));
        let older = run.versions(offset).iter().map(|version| version.data);
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
