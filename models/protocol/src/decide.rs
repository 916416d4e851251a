// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the loader decides, by its rules (ARCHITECTURE.md, "The record"), written from them and not
//! from `loader/core/record.c`: `tests/loader.rs` compares both on every media that the model leaves.

use crate::lines::{Covered, Damage, Head, Line, Memory, Rest, SLOTS, Value};

/// Why the machine is booted as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// The image is entered.
    Resume,
    /// There is no block.
    NoBlock,
    /// The consumed word is damaged.
    ConsumedInvalid,
    /// There is no committed image.
    NotCommitted,
    /// The newest has been entered, or given up.
    AlreadyConsumed,
    /// A commit word is damaged, or does not match its slot.
    CommitDamaged,
    /// A body is.
    BodyDamaged,
    /// A CPU did not come back in the last Go.
    CpuLost,
    /// The machine is another one.
    MachineDiffers,
    /// A range of NVRAM has been used by another kernel.
    MemoryDiffers,
    /// Somebody wants a cold boot.
    Asked,
    /// The NVDIMM has no image.
    NvdimmEmpty,
    /// The NVDIMM's save was not completed.
    NvdimmPartial,
}

impl Reason {
    /// Whether it says that the machine is not the one that was stopped.
    #[must_use]
    pub const fn differs(self) -> bool {
        matches!(self, Self::MachineDiffers | Self::MemoryDiffers)
    }

    /// Whether it says that the record is damaged.
    #[must_use]
    pub const fn damaged(self) -> bool {
        matches!(
            self,
            Self::NoBlock | Self::ConsumedInvalid | Self::CommitDamaged | Self::BodyDamaged
        )
    }
}

/// What the loader finds around the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Found {
    /// The machine.
    pub machine: u8,
    /// The stamp of the other range; `None` if that is absent.
    pub stamp: Option<u8>,
    /// A cold boot is requested.
    pub cold_asked: bool,
}

/// The decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Decision {
    /// Why.
    pub reason: Reason,
    /// Of the image that was checked, 0 = none.
    pub sequence: u8,
    /// The image that would be entered.
    pub image: Option<Head>,
    /// Before a cold boot this sequence has to be consumed, 0 = none.
    pub consume: u8,
    /// And these commit words have to be zero.
    pub clear: [bool; SLOTS],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slot {
    Empty,
    Committed(u8, Head, Rest),
    /// The reason; its word's sequence if that can be read; the sequence by which it could be
    /// entered if what is damaged read right.
    Damaged(Reason, u8, u8),
}

impl Slot {
    fn sequence(self) -> u8 {
        match self {
            Self::Empty => 0,
            Self::Committed(sequence, ..) | Self::Damaged(_, sequence, _) => sequence,
        }
    }
}

/// The sequence that a word shows, also if its checksum is wrong.
fn sequence_of(memory: &Memory, line: Line) -> u8 {
    match (memory.damage(line), memory.content(line)) {
        (Some(Damage::Whole), _) => 0,
        (_, Value::Commit(sequence, ..) | Value::Consumed(sequence)) => sequence,
        _ => 0,
    }
}

/// What a checksum sees of a line.
fn covered(memory: &Memory, line: Line) -> Covered {
    memory.read(line).map_or(Covered::Other, Covered::from)
}

/// What a commit word covers, with this body.
#[must_use]
pub fn body(memory: &Memory, slot: usize) -> (Covered, Covered) {
    (
        covered(memory, Line::Head(slot)),
        covered(memory, Line::Rest(slot)),
    )
}

fn slot(memory: &Memory, number: usize, consumed: u8) -> Slot {
    let line = Line::Commit(number);
    let word = memory.read(line);
    if word == Some(Value::Zero) {
        return Slot::Empty;
    }
    let sequence = sequence_of(memory, line);
    let fits = |sequence: u8| usize::from(sequence) % SLOTS == number;
    let head = match memory.read(Line::Head(number)) {
        Some(Value::Head(head)) => Some(head),
        _ => None,
    };
    // Its header says most reliably which image it is, then its word.
    let closes = match head {
        Some(head) if fits(head.sequence) => head.sequence,
        _ if sequence > consumed && fits(sequence) => sequence,
        _ => 0,
    };
    let damaged = |reason| Slot::Damaged(reason, sequence, closes);
    // The header is read before the checksum of the word, which covers it, is compared.
    if sequence == 0 || !fits(sequence) {
        return damaged(Reason::CommitDamaged);
    }
    let Some(head) = head else {
        return damaged(Reason::BodyDamaged);
    };
    if head.sequence != sequence {
        return damaged(Reason::CommitDamaged);
    }
    let Some(Value::Commit(_, of_head, of_rest)) = word else {
        return damaged(Reason::BodyDamaged);
    };
    if (of_head, of_rest) != body(memory, number) {
        return damaged(Reason::BodyDamaged);
    }
    match memory.content(Line::Rest(number)) {
        Value::Rest(rest) => Slot::Committed(sequence, head, rest),
        _ => damaged(Reason::BodyDamaged),
    }
}

/// The last sequence that was consumed; 0 = the word is damaged.
#[must_use]
pub fn consumed(memory: &Memory) -> u8 {
    match memory.read(Line::Consumed) {
        Some(Value::Consumed(sequence)) => sequence,
        _ => 0,
    }
}

/// Why a Go was given up, if no boot has reported it.
fn given_up(memory: &Memory) -> bool {
    let consumed = sequence_of(memory, Line::Consumed);
    [consumed, consumed + 1].into_iter().any(|sequence| {
        let slot = usize::from(sequence) % SLOTS;
        memory.read(Line::Event(slot)) == Some(Value::Event(sequence, false))
    })
}

/// Decides.
#[must_use]
pub fn decide(memory: &Memory, found: &Found) -> Decision {
    let consumed = consumed(memory);
    let slots: [Slot; SLOTS] = std::array::from_fn(|number| slot(memory, number, consumed));
    let newest = usize::from(slots[1].sequence() > slots[0].sequence());
    let damaged = [newest, 1 - newest]
        .into_iter()
        .find_map(|number| match slots[number] {
            Slot::Damaged(reason, sequence, _) => Some((reason, sequence)),
            _ => None,
        });
    let mut decision = Decision {
        reason: Reason::Resume,
        sequence: damaged.map_or_else(|| slots[newest].sequence(), |(_, sequence)| sequence),
        image: None,
        consume: 0,
        clear: [false; SLOTS],
    };
    decision.reason = match (memory.read(Line::Header), damaged, slots[newest]) {
        (header, ..) if header != Some(Value::Header) => Reason::NoBlock,
        _ if consumed == 0 => Reason::ConsumedInvalid,
        (_, Some((reason, _)), _) => reason,
        (_, None, Slot::Committed(sequence, head, rest)) if sequence > consumed => {
            decision.image = Some(head);
            differs(rest, found)
        }
        (_, None, Slot::Committed(..)) => Reason::AlreadyConsumed,
        _ => Reason::NotCommitted,
    };
    let ended = matches!(
        decision.reason,
        Reason::NotCommitted | Reason::AlreadyConsumed
    );
    if matches!(
        decision.reason,
        Reason::NoBlock | Reason::ConsumedInvalid | Reason::NotCommitted
    ) {
        decision.sequence = 0;
    }
    if found.cold_asked {
        decision.reason = Reason::Asked;
    } else if ended && given_up(memory) {
        decision.reason = Reason::CpuLost;
    }
    for (number, slot) in slots.into_iter().enumerate() {
        let closes = match slot {
            Slot::Empty => 0,
            Slot::Committed(sequence, ..) => sequence,
            Slot::Damaged(_, _, closes) => closes,
        };
        if closes > consumed {
            decision.consume = decision.consume.max(closes);
        }
        decision.clear[number] = match slot {
            Slot::Empty => false,
            Slot::Committed(..) => consumed == 0,
            Slot::Damaged(..) => true,
        };
    }
    decision
}

fn differs(rest: Rest, found: &Found) -> Reason {
    if rest.machine != found.machine {
        Reason::MachineDiffers
    } else if found.stamp != Some(rest.stamp) {
        Reason::MemoryDiffers
    } else {
        Reason::Resume
    }
}
