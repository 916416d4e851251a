// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The journal of wear levelling: one line on media for each record.
//!
//! ```text
//! offset bytes
//!      0     4  seed of the randomizer and the keys, lower half
//!      4     4  CRC-32C of the rest
//!      8     8  sequence, from 0
//!     16     8  epoch: reseedings that are complete
//!     24     8  epoch: pointer
//!     32     1  kind: 1 a gap has moved, 2 an exchange
//!     33     1  phase of an exchange: 0, 1, 2
//!     34     2  zero
//!     36    12  region, start, gap: of the move; zero for an exchange
//!     48    12  region, start, gap: of another region, in turn
//!     60     4  seed, upper half
//! ```
//!
//! The journal is a ring, which begins with a record of its own (a region that has not
//! moved), so that the seed is on media before any line is. Since each record carries another region in turn,
//! every region is in the last records, however long it has been still. This is
//! the model's own media: nothing else reads it.

use crate::psm::{Psm, Record};
use crate::startgap::{Epoch, Leveler, Region};
use crate::units::PhysLine;
use crate::xcc::Line;

/// What a record says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Counts records.
    pub sequence: u64,
    /// Of the randomizer and the keys.
    pub seed: u64,
    /// Of the whole memory: after a move, or before an exchange that is not done.
    pub epoch: Epoch,
    /// Of an exchange.
    pub phase: Option<u8>,
    /// The region that moved.
    pub moved: Option<(u32, Region)>,
    /// Another one.
    pub other: (u32, Region),
}

/// The number of the record that was just written to `slot`.
pub(crate) fn sequence_of(psm: &Psm, slot: PhysLine) -> u64 {
    // Several records may have been written since: count back to the slot.
    let (first, lines) = psm.journal();
    let newest = psm.journal_next() - 1;
    let behind = (newest % lines + lines - (slot.0 - first.0)) % lines;
    newest - behind
}

/// A record as a line. The leveler is as it is when all records of the request
/// are committed.
pub(crate) fn encode(sequence: u64, record: Record, leveler: &Leveler) -> Line {
    let mut line = [0; 64];
    let seed = leveler.config().seed.to_le_bytes();
    line[..4].copy_from_slice(&seed[..4]);
    line[60..].copy_from_slice(&seed[4..]);
    line[8..16].copy_from_slice(&sequence.to_le_bytes());
    let put = |line: &mut Line, at: usize, index: u32, region: Region| {
        for (n, word) in [index, region.start, region.gap].into_iter().enumerate() {
            line[at + 4 * n..at + 4 * n + 4].copy_from_slice(&word.to_le_bytes());
        }
    };
    let epoch = match record {
        Record::Move {
            region,
            after,
            epoch,
        } => {
            line[32] = 1;
            put(&mut line, 36, region, after);
            epoch
        }
        Record::Swap {
            phase,
            before,
            after,
            ..
        } => {
            line[32] = 2;
            line[33] = phase;
            if phase == 2 { after } else { before }
        }
    };
    line[16..24].copy_from_slice(&epoch.number.to_le_bytes());
    line[24..32].copy_from_slice(&epoch.pointer.to_le_bytes());
    let regions = u64::from(leveler.config().regions);
    let other = u32::try_from(sequence % regions).expect("below a u32");
    put(&mut line, 48, other, leveler.region(other));
    let crc = check(&line);
    line[4..8].copy_from_slice(&crc.to_le_bytes());
    line
}

/// Of all but the check itself. A line of zeros has another.
fn check(line: &Line) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&line[..4]), &line[8..])
}

/// A line as a record, if it is one.
#[must_use]
pub fn parse(line: &Line) -> Option<Entry> {
    let word = |at: usize| u32::from_le_bytes(line[at..at + 4].try_into().expect("4 bytes"));
    let long = |at: usize| u64::from_le_bytes(line[at..at + 8].try_into().expect("8 bytes"));
    if word(4) != check(line) {
        return None;
    }
    let region = |at: usize| {
        (
            word(at),
            Region {
                start: word(at + 4),
                gap: word(at + 8),
                writes: 0,
            },
        )
    };
    Some(Entry {
        sequence: long(8),
        seed: u64::from(word(0)) | (u64::from(word(60)) << 32),
        epoch: Epoch {
            number: long(16),
            pointer: long(24),
        },
        phase: (line[32] == 2).then_some(line[33]),
        moved: (line[32] == 1).then(|| region(36)),
        other: region(48),
    })
}
