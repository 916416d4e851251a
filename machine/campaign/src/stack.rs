// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which bytes of an image are dead: those of a parked CPU's stack below its saved stack pointer.
//!
//! The CPU that commits continues to call functions on that stack after everything was flushed. The
//! data that they leave is not used: the resumed kernel begins at the saved pointer and writes
//! before it reads. The context's page table, read from the coherent view, gives the stack's place
//! in NVRAM.

use std::collections::BTreeMap;

use remanence_format::RemBody;
use remanence_recording::LINE_BYTES;

use crate::record;
use crate::run::Run;

/// Kernel stacks: 16 KiB, aligned (THREAD_SIZE; with KASAN they are larger, and less is excluded).
const STACK_BYTES: u64 = 0x4000;
const PAGE_BYTES: u64 = 0x1000;
/// Offsets in the kernel's own `struct rem_context`, which the build script reads.
const CONTEXT_RSP: usize = parse(env!("REM_CTX_RSP"));
/// See `CONTEXT_RSP`.
const CONTEXT_CR3: usize = parse(env!("REM_CTX_CR3"));
const CONTEXT_BYTES_MIN: usize = CONTEXT_CR3 + 8;
const _: () = assert!(CONTEXT_RSP < CONTEXT_CR3);
const CPUS_MAX: u32 = 255;

const PTE_PRESENT: u64 = 1;
const PTE_LARGE: u64 = 1 << 7;
const PTE_ADDRESS: u64 = 0x000f_ffff_ffff_f000;

/// For each line that is at least partly dead, the number of dead bytes at its beginning.
#[must_use]
pub fn dead_bytes(run: &Run<'_>, sequence: u32) -> BTreeMap<u64, usize> {
    let mut dead = BTreeMap::new();
    let Some(body) = run.coherent_bytes(record::body_offset(sequence), RemBody::BYTES) else {
        return dead;
    };
    let Some(body) = body.first_chunk().map(RemBody::from_bytes) else {
        return dead;
    };
    let Some(first) = body.context_phys.checked_sub(run.header().nvram_phys) else {
        return dead;
    };
    for n in 0..body.cpu_count.min(CPUS_MAX) {
        let context = u64::from(n) * u64::from(body.context_bytes);
        let Some(raw) = first
            .checked_add(context)
            .and_then(|at| run.coherent_bytes(at, CONTEXT_BYTES_MIN))
        else {
            continue;
        };
        let (rsp, cr3) = (u64_at(&raw, CONTEXT_RSP), u64_at(&raw, CONTEXT_CR3));
        add_stack(run, rsp, cr3, &mut dead);
    }
    dead
}

fn add_stack(run: &Run<'_>, rsp: u64, cr3: u64, dead: &mut BTreeMap<u64, usize>) {
    let line_bytes = LINE_BYTES as u64;
    let mut at = rsp - rsp % STACK_BYTES;
    while at < rsp {
        let page = at - at % PAGE_BYTES;
        if let Some(offset) = translate(run, cr3, page) {
            for line in (at..rsp.min(page + PAGE_BYTES)).step_by(LINE_BYTES) {
                let bytes = (rsp - line).min(line_bytes);
                dead.insert(offset + (line - page), usize::try_from(bytes).unwrap_or(0));
            }
        }
        at = page + PAGE_BYTES;
    }
}

/// Offset in NVRAM of a virtual page, by four levels of page table.
fn translate(run: &Run<'_>, cr3: u64, page: u64) -> Option<u64> {
    let base = run.header().nvram_phys;
    let mut table = cr3 & PTE_ADDRESS;
    for shift in [39, 30, 21, 12] {
        let index = (page >> shift) & 0x1ff;
        let raw = run.coherent_bytes(table.checked_sub(base)? + index * 8, 8)?;
        let entry = u64_at(&raw, 0);
        if entry & PTE_PRESENT == 0 {
            return None;
        }
        let address = entry & PTE_ADDRESS;
        if shift == 12 || entry & PTE_LARGE != 0 {
            let within = page & ((1 << shift) - 1);
            let start = address & !((1u64 << shift) - 1);
            let offset = (start + within).checked_sub(base)?;
            return (offset < run.header().nvram_bytes).then_some(offset);
        }
        table = address;
    }
    None
}

/// Digits that the build script found.
const fn parse(digits: &str) -> usize {
    match usize::from_str_radix(digits, 10) {
        Ok(number) => number,
        Err(_) => panic!("not a number"),
    }
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}
