// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The numbers of `format/rem_image.h` that the campaign needs; a test reads the header and compares.

/// Bytes of the record block.
pub const BLOCK_BYTES: usize = 0x20_0000;
/// Of the block: the consumed word.
pub const CONSUMED_OFFSET: u64 = 0x1000;
/// Of the block: the first commit word.
pub const COMMIT_OFFSET: u64 = 0x2000;
/// From a slot's commit word to the next one's.
pub const COMMIT_STRIDE_BYTES: u64 = 0x1000;
/// Of the block: the loader's note.
pub const NOTE_OFFSET: u64 = 0x4000;
/// Of the block: the machine description of this boot.
pub const DESC_OFFSET: u64 = 0x5000;
/// Its size.
pub const DESC_BYTES: u64 = 0xb000;
/// Of the block: the first body.
pub const BODY_OFFSET: u64 = 0x1_0000;
/// From a slot's body to the next one's.
pub const BODY_STRIDE_BYTES: u64 = 0x1_0000;
/// Of the block: the first timeline.
pub const TIMELINE_OFFSET: u64 = 0x3_0000;
/// From a slot's timeline to the next one's.
pub const TIMELINE_STRIDE_BYTES: u64 = 0x8000;
/// Of the block: the loader's work area.
pub const WORK_OFFSET: u64 = 0x10_0000;
/// How many slots.
pub const SLOTS: u64 = 2;

/// Seed word of a consumed word's check.
pub const WORD_CONSUMED: u32 = 0x534e_4f43;

/// The one reason that is no cold boot.
pub const BOOT_RESUME: u32 = 1;
/// See the header, as for the next ones.
pub const COLD_NO_BLOCK: u32 = 16;
/// A block of another layout.
pub const COLD_BLOCK_VERSION: u32 = 17;
/// The consumed word does not check.
pub const COLD_CONSUMED_INVALID: u32 = 18;
/// No slot holds a committed image.
pub const COLD_NOT_COMMITTED: u32 = 19;
/// The newest committed image has been entered before.
pub const COLD_ALREADY_CONSUMED: u32 = 20;

/// Events of the timeline that begin a place.
pub const EVENT_STOP_BEGIN: u16 = 1;
/// Devices stopped.
pub const EVENT_STOP_DEVICES: u16 = 3;
/// Body complete.
pub const EVENT_STOP_BODY: u16 = 7;
/// Given up.
pub const EVENT_STOP_FAILED: u16 = 8;
/// First C code of the resumed kernel.
pub const EVENT_GO_BEGIN: u16 = 64;
/// Clocks and interrupt controllers run.
pub const EVENT_GO_SYSCORE: u16 = 66;
/// Programs run.
pub const EVENT_GO_DONE: u16 = 71;
/// Size of one event.
pub const EVENT_BYTES: usize = 32;

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Sequence of a consumed word that checks, or 0.
#[must_use]
pub fn consumed_sequence(word: &[u8]) -> u32 {
    let sequence = u32_at(word, 0);
    let mut seed = WORD_CONSUMED.to_le_bytes().to_vec();
    seed.extend(sequence.to_le_bytes());
    if sequence != 0 && crc32c::crc32c(&seed) == u32_at(word, 4) {
        sequence
    } else {
        0
    }
}

/// Type of an event that checks.
#[must_use]
pub fn event_type(event: &[u8; EVENT_BYTES]) -> Option<u16> {
    let checks = crc32c::crc32c(&event[..28]) == u32_at(event, 28) && u32_at(event, 0) != 0;
    checks.then(|| u16::from_le_bytes([event[4], event[5]]))
}

/// Whether what is at this offset of NVRAM is the loader's, the timeline's or one of the words: it
/// changes after the commit without the image being another.
#[must_use]
pub fn outside_image(offset: u64) -> bool {
    let within = |from: u64, bytes: u64| (from..from + bytes).contains(&offset);
    within(0, NOTE_OFFSET)
        || within(NOTE_OFFSET, DESC_OFFSET + DESC_BYTES - NOTE_OFFSET)
        || within(TIMELINE_OFFSET, SLOTS * TIMELINE_STRIDE_BYTES)
        || within(WORK_OFFSET, BLOCK_BYTES as u64 - WORK_OFFSET)
}

/// Whether the loader's decision can depend on what is at this offset.
#[must_use]
pub fn decisive(offset: u64) -> bool {
    offset < NOTE_OFFSET || (BODY_OFFSET..TIMELINE_OFFSET).contains(&offset)
}
