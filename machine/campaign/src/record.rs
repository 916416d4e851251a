// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rules on the record block (`format/rem_image.h`): which words and events are valid, and which of
//! its bytes are a part of the image.

use std::mem::offset_of;

use remanence_format::{
    REM_BLOCK_BYTES, REM_BODY_OFFSET, REM_BODY_STRIDE_BYTES, REM_COMMIT_OFFSET,
    REM_COMMIT_STRIDE_BYTES, REM_DESC_BYTES, REM_DESC_OFFSET, REM_NOTE_OFFSET, REM_SLOTS,
    REM_TIMELINE_OFFSET, REM_TIMELINE_STRIDE_BYTES, REM_WORD_CONSUMED, REM_WORK_BYTES,
    REM_WORK_OFFSET, RemEvent, RemWord, u32_of, usize_of,
};

use remanence_crash_states::Line;

/// Bytes of the record block.
pub const BLOCK_BYTES: usize = usize_of(REM_BLOCK_BYTES);

/// Offset of the commit word of the slot of an image.
#[must_use]
pub fn commit_offset(sequence: u32) -> u64 {
    REM_COMMIT_OFFSET + u64::from(sequence) % REM_SLOTS * REM_COMMIT_STRIDE_BYTES
}

/// Offset of the body of the slot of an image.
#[must_use]
pub fn body_offset(sequence: u32) -> u64 {
    REM_BODY_OFFSET + u64::from(sequence) % REM_SLOTS * REM_BODY_STRIDE_BYTES
}

/// Offset of the timeline of the slot of an image.
#[must_use]
pub fn timeline_offset(sequence: u32) -> u64 {
    REM_TIMELINE_OFFSET + u64::from(sequence) % REM_SLOTS * REM_TIMELINE_STRIDE_BYTES
}

/// The first word of a line.
#[must_use]
pub fn word_of(line: &Line) -> RemWord {
    line.first_chunk()
        .map(RemWord::from_bytes)
        .unwrap_or_default()
}

/// Sequence of a valid consumed word, or 0.
#[must_use]
pub fn consumed_sequence(line: &Line) -> u32 {
    let word = word_of(line);
    let mut seed = u32_of(REM_WORD_CONSUMED).to_le_bytes().to_vec();
    seed.extend(word.sequence.to_le_bytes());
    if word.sequence != 0 && crc32c::crc32c(&seed) == word.check {
        word.sequence
    } else {
        0
    }
}

/// Type of a valid event: `enum rem_event_type`.
#[must_use]
pub fn event_type(bytes: &[u8; RemEvent::BYTES]) -> Option<u32> {
    let event = RemEvent::from_bytes(bytes);
    let checks = crc32c::crc32c(&bytes[..offset_of!(RemEvent, crc)]) == event.crc;
    (checks && event.sequence != 0).then_some(u32::from(event.kind))
}

/// Whether the bytes at this offset of NVRAM are the loader's, the timeline's or one of the words:
/// they change after the commit, and the image stays the same.
#[must_use]
pub fn outside_image(offset: u64) -> bool {
    let within = |from: u64, bytes: u64| (from..from + bytes).contains(&offset);
    within(0, REM_NOTE_OFFSET)
        || within(
            REM_NOTE_OFFSET,
            REM_DESC_OFFSET + REM_DESC_BYTES - REM_NOTE_OFFSET,
        )
        || within(REM_TIMELINE_OFFSET, REM_SLOTS * REM_TIMELINE_STRIDE_BYTES)
        || within(REM_WORK_OFFSET, REM_WORK_BYTES)
}

/// Whether the loader's decision can depend on the bytes at this offset.
#[must_use]
pub fn decisive(offset: u64) -> bool {
    offset < REM_NOTE_OFFSET || (REM_BODY_OFFSET..REM_TIMELINE_OFFSET).contains(&offset)
}
