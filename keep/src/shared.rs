// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pages that the last checkpoint of this boot shares with programs.

use remanence_format::RemKeepEntry;
use remanence_vm::record::{Record, body};
use serde::{Deserialize, Serialize};

use crate::device::Device;
use crate::dump::give_back;
use crate::fault::{Fault, at};
use crate::frames::Frames;
use crate::save::Caller;
use crate::table;

const FILE: &str = "checkpoint.json";

#[derive(Debug, Default, Deserialize, Serialize)]
struct Note {
    sequence: u32,
    taken: Vec<u32>,
}

/// What a checkpoint has.
#[derive(Debug, Default)]
pub struct Held {
    /// Its table.
    pub entries: Vec<RemKeepEntry>,
    taken: Vec<u32>,
}

impl Held {
    /// Of the last checkpoint; nothing, if there is none.
    ///
    /// # Errors
    /// Those of the device.
    pub fn read(caller: &Caller, device: &Device) -> Result<Self, Fault> {
        let Some(note) = caller.state.read::<Note>(FILE)? else {
            return Ok(Self::default());
        };
        let layout = device.range()?.layout();
        let body = body(&*Record::on(device).read()?, note.sequence);
        let length = table::length(&body, layout).map_err(at("the last checkpoint"))?;
        let bytes = device.read_at(layout.table_offset(note.sequence), length as u64)?;
        Ok(Self {
            entries: table::check(&bytes, &body, layout).map_err(at("the last checkpoint"))?,
            taken: note.taken,
        })
    }

    /// Notes a checkpoint as the last one.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn write(caller: &Caller, sequence: u32, taken: Vec<u32>) -> Result<(), Fault> {
        caller.state.write(FILE, &Note { sequence, taken })
    }

    /// Gives up what the next checkpoint has not.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn release(&self, device: &Device, next: &[RemKeepEntry]) -> Result<(), Fault> {
        give_up(device, &self.entries, next)?;
        give_back(device, &self.taken)
    }
}

/// The processes of a table.
#[must_use]
pub fn pids(entries: &[RemKeepEntry]) -> Vec<u32> {
    let mut pids: Vec<u32> = entries.iter().map(|entry| entry.pid).collect();
    pids.dedup();
    pids
}

fn without(entries: &[RemKeepEntry], frames: impl Iterator<Item = u32>) -> Vec<RemKeepEntry> {
    let all = entries.iter().map(|entry| entry.frame);
    let end = all.max().map_or(0, |frame| frame.saturating_add(1));
    let known = Frames::none_of(end);
    for frame in frames {
        // It may be there twice, or not at all.
        let _ = known.insert(frame);
    }
    let others = entries.iter().filter(|entry| !known.has(entry.frame));
    others.copied().collect()
}

/// Shares the pages of a table, less copies, which are nobody else's.
///
/// # Errors
/// Those of the kernel.
pub fn share(device: &Device, entries: &[RemKeepEntry], taken: &[u32]) -> Result<(), Fault> {
    let own = without(entries, taken.iter().copied());
    device
        .share(&table::encode(&own))
        .map_err(at("sharing pages with a checkpoint"))
}

/// Gives up pages of one table that another one has not.
///
/// # Errors
/// Those of the kernel.
pub fn give_up(device: &Device, old: &[RemKeepEntry], new: &[RemKeepEntry]) -> Result<(), Fault> {
    let gone = without(old, new.iter().map(|entry| entry.frame));
    device
        .unshare(&table::encode(&gone))
        .map_err(at("giving up pages of a checkpoint"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_the_other_table_stay() {
        let entry = |pid, frame| RemKeepEntry {
            vaddr: 0,
            frame,
            pid,
        };
        let old = [entry(1, 5), entry(1, 9), entry(2, 7)];
        assert_eq!(without(&old, [9, 100].into_iter()), [old[0], old[2]]);
        assert_eq!(without(&[], [9].into_iter()), []);
        assert_eq!(pids(&old), [1, 2]);
    }
}
