// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is in the model's NVRAM: the record block, a page table, contexts, stacks, programs.

use std::mem::offset_of;

use remanence_format as format;
use remanence_format::{
    RemBlock, RemBody, RemDesc, RemDescEntry, RemEvent, RemWord, u32_of, usize_of,
};

/// Physical address of NVRAM.
pub const PHYS: u64 = 1 << 32;
/// Its size.
pub const NVRAM_BYTES: u64 = 4 << 20;
/// CPUs of the machine.
pub const CPUS: u64 = 2;
/// Behind the block: a page table of four levels.
const TABLES: u64 = 0x20_1000;
/// CPU contexts, in the kernel's form: stack pointer and page table are at the beginning.
pub const CONTEXTS: u64 = 0x20_8000;
/// Size of a context.
pub const CONTEXT_BYTES: u64 = 640;
/// Kernel stacks.
pub const STACKS: u64 = 0x21_0000;
/// Size of a stack.
pub const STACK_BYTES: u64 = 0x4000;
/// Memory of programs.
pub const MEMORY: u64 = 0x30_0000;
/// Its size.
pub const MEMORY_BYTES: u64 = 0x4_0000;
/// Virtual addresses of stacks, as a kernel maps them.
const STACKS_VIRT: u64 = 0xffff_c900_0000_0000;
/// Bytes of a stack below its top that are in use.
const STACK_USED_BYTES: u64 = 0x100;
const PAGE_BYTES: u64 = 0x1000;
const PTE_PRESENT_WRITE: u64 = 3;
const FORMAT_VERSION: u32 = u32_of(format::REM_VERSION);

fn crc(parts: &[&[u8]]) -> u32 {
    parts
        .iter()
        .fold(0, |crc, part| crc32c::crc32c_append(crc, part))
}

/// The word that says that an image has been entered.
#[must_use]
pub fn consumed_word(sequence: u32) -> RemWord {
    let kind = u32_of(format::REM_WORD_CONSUMED);
    RemWord {
        sequence,
        check: crc(&[&kind.to_le_bytes(), &sequence.to_le_bytes()]),
    }
}

/// The word that commits an image with this body.
#[must_use]
pub fn commit_word(sequence: u32, body: &[u8]) -> RemWord {
    let kind = u32_of(format::REM_WORD_COMMIT);
    let of_body = crc(&[body]).to_le_bytes();
    RemWord {
        sequence,
        check: crc(&[&kind.to_le_bytes(), &sequence.to_le_bytes(), &of_body]),
    }
}

/// Offset of something of which each slot has one.
fn in_slot(first: u64, stride: u64, sequence: u32) -> u64 {
    first + u64::from(sequence) % format::REM_SLOTS * stride
}

/// Where the commit word of an image is.
#[must_use]
pub fn commit_offset(sequence: u32) -> u64 {
    in_slot(
        format::REM_COMMIT_OFFSET,
        format::REM_COMMIT_STRIDE_BYTES,
        sequence,
    )
}

/// Where the body of an image is.
#[must_use]
pub fn body_offset(sequence: u32) -> u64 {
    in_slot(
        format::REM_BODY_OFFSET,
        format::REM_BODY_STRIDE_BYTES,
        sequence,
    )
}

/// Where an entry of an image's timeline is.
#[must_use]
pub fn event_offset(sequence: u32, entry: u64) -> u64 {
    let timeline = in_slot(
        format::REM_TIMELINE_OFFSET,
        format::REM_TIMELINE_STRIDE_BYTES,
        sequence,
    );
    timeline + entry * RemEvent::BYTES as u64
}

/// An entry of the timeline.
#[must_use]
pub fn event(sequence: u32, kind: u32, time_ns: u64) -> [u8; RemEvent::BYTES] {
    let mut event = RemEvent {
        sequence,
        kind: u16::try_from(kind).unwrap_or(0),
        tsc: time_ns,
        ..RemEvent::default()
    };
    event.crc = crc(&[&event.to_bytes()[..offset_of!(RemEvent, crc)]]);
    event.to_bytes()
}

/// The body of an image; `realtime_ns` is known when it is finished.
#[must_use]
pub fn body(sequence: u32, realtime_ns: u64) -> Vec<u8> {
    let entries = &description()[RemDesc::BYTES..];
    let mut body = RemBody {
        magic: format::REM_BODY_MAGIC,
        version: FORMAT_VERSION,
        body_bytes: u32_of((RemBody::BYTES + entries.len()) as u64),
        sequence,
        stop_reason: format::REM_STOP_POWER,
        stop_mode: format::REM_MODE_FAST,
        region_phys: PHYS,
        region_bytes: NVRAM_BYTES,
        entry_phys: PHYS + MEMORY,
        entry_cr3: PHYS + TABLES,
        context_phys: PHYS + CONTEXTS,
        context_bytes: u32_of(CONTEXT_BYTES),
        cpu_count: u32_of(CPUS),
        realtime_ns,
        policy: format::REM_POLICY_COLD,
        desc_offset: u32_of(RemBody::BYTES as u64),
        desc_count: u32_of((entries.len() / RemDescEntry::BYTES) as u64),
        ..RemBody::default()
    };
    let checked = usize_of(format::REM_BODY_HEADER_CRC_BYTES);
    body.header_crc = crc(&[&body.to_bytes()[..checked]]);
    [&body.to_bytes()[..], entries].concat()
}

/// The machine's description, with three entries.
#[must_use]
pub fn description() -> Vec<u8> {
    let entry = |kind: u32, value: [u64; 5]| RemDescEntry {
        kind: u16::try_from(kind).unwrap_or(0),
        value,
        ..RemDescEntry::default()
    };
    let entries = [
        entry(format::REM_DESC_KERNEL, [11, 12, 13, 0, 0]),
        entry(format::REM_DESC_CPU_COUNT, [CPUS, 0, 0, 0, 0]),
        entry(
            format::REM_DESC_MEMORY,
            [PHYS, NVRAM_BYTES, format::REM_MEMORY_NVRAM, 0, 0],
        ),
    ];
    let bytes = entries.map(|entry| entry.to_bytes()).concat();
    let head = RemDesc {
        magic: format::REM_DESC_MAGIC,
        count: u32_of(entries.len() as u64),
        crc: crc(&[&bytes]),
    };
    [&head.to_bytes()[..], &bytes].concat()
}

/// Media of a machine that has run for a while: block, page table, contexts, one image consumed.
#[must_use]
pub fn first_media() -> Vec<u8> {
    let mut media = vec![0; usize_of(NVRAM_BYTES)];
    let mut put = |at: u64, bytes: &[u8]| {
        let at = usize_of(at);
        media[at..at + bytes.len()].copy_from_slice(bytes);
    };
    let mut block = RemBlock {
        magic: format::REM_BLOCK_MAGIC,
        version: FORMAT_VERSION,
        block_bytes: u32_of(format::REM_BLOCK_BYTES),
        region_bytes: NVRAM_BYTES,
        ..RemBlock::default()
    };
    block.crc = crc(&[&block.to_bytes()[..offset_of!(RemBlock, crc)]]);
    put(0, &block.to_bytes());
    put(format::REM_CONSUMED_OFFSET, &consumed_word(1).to_bytes());
    put(format::REM_DESC_OFFSET, &description());
    let index = |shift: u32| ((STACKS_VIRT >> shift) & 0x1ff) * 8;
    for (table, shift) in (TABLES..).step_by(usize_of(PAGE_BYTES)).zip([39, 30, 21]) {
        let next = (PHYS + table + PAGE_BYTES) | PTE_PRESENT_WRITE;
        put(table + index(shift), &next.to_le_bytes());
    }
    for page in 0..CPUS * STACK_BYTES / PAGE_BYTES {
        let entry = (PHYS + STACKS + page * PAGE_BYTES) | PTE_PRESENT_WRITE;
        let last_table = TABLES + 3 * PAGE_BYTES;
        put(last_table + index(12) + page * 8, &entry.to_le_bytes());
    }
    for cpu in 0..CPUS {
        let context = CONTEXTS + cpu * CONTEXT_BYTES;
        let rsp = STACKS_VIRT + (cpu + 1) * STACK_BYTES - STACK_USED_BYTES;
        put(context, &rsp.to_le_bytes());
        put(context + 16, &(PHYS + TABLES).to_le_bytes());
    }
    media
}
