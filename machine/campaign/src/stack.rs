// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which bytes of an image are dead: those of a parked CPU's stack below its saved stack pointer.
//!
//! The CPU that commits continues to call functions on that stack after everything was flushed. The
//! data that they leave is not used: the resumed kernel begins at the saved pointer and writes
//! before it reads. The context's page table, read from the coherent view, gives the stack's place
//! in NVRAM.

use std::collections::BTreeMap;

use remanence_format::{REM_DESC_ISA, RemBody};
use remanence_recording::LINE_BYTES;

use crate::run::Run;
use crate::{description, record};

/// Kernel stacks: 16 KiB, aligned (THREAD_SIZE; with KASAN they are larger, and less is excluded).
const STACK_BYTES: u64 = 0x4000;
const PAGE_BYTES: u64 = 0x1000;
const CPUS_MAX: u32 = 255;

/// What the dead part of a stack is found by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Isa {
    X86_64,
    Riscv64,
}

/// Where a kernel's own `struct rem_context` has what is read here. The build script reads the
/// offsets from the kernel's headers.
#[derive(Debug, Clone, Copy)]
struct Context {
    stack: usize,
    table: usize,
}

const X86_64: Context = Context {
    stack: parse(env!("REM_CTX_RSP")),
    table: parse(env!("REM_CTX_CR3")),
};
const RISCV64: Context = Context {
    stack: parse(env!("REM_CTX_SP")),
    table: parse(env!("REM_CTX_SATP")),
};
const _: () = assert!(X86_64.stack < X86_64.table && RISCV64.stack < RISCV64.table);

/// A page table: its root, and the lowest bit of an address that an index at each level has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Table {
    isa: Isa,
    root: u64,
    shifts: &'static [u32],
}

/// What an entry of a page table says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Entry {
    Absent,
    Table(u64),
    Page(u64),
}

impl Isa {
    /// By the machine's description.
    fn of(run: &Run<'_>) -> Self {
        if description::has(run, REM_DESC_ISA) {
            Self::Riscv64
        } else {
            Self::X86_64
        }
    }

    const fn context(self) -> Context {
        match self {
            Self::X86_64 => X86_64,
            Self::Riscv64 => RISCV64,
        }
    }

    /// The page table that a register names; `None`: it translates nothing.
    fn table(self, register: u64) -> Option<Table> {
        const LEVELS: [u32; 5] = [48, 39, 30, 21, 12];
        let (root, levels) = match self {
            Self::X86_64 => (register & 0x000f_ffff_ffff_f000, 4),
            // satp: mode, identifier of the address space, page number of the root.
            Self::Riscv64 => match register >> 60 {
                mode @ 8..=10 => ((register & ((1 << 44) - 1)) << 12, mode - 5),
                _ => return None,
            },
        };
        let shifts = &LEVELS[LEVELS.len() - usize::try_from(levels).unwrap_or(0)..];
        Some(Table {
            isa: self,
            root,
            shifts,
        })
    }

    /// An entry at the level whose pages are `1 << shift` bytes.
    const fn entry(self, entry: u64, shift: u32) -> Entry {
        const PRESENT: u64 = 1;
        if entry & PRESENT == 0 {
            return Entry::Absent;
        }
        let (address, leaf) = match self {
            Self::X86_64 => (entry & 0x000f_ffff_ffff_f000, entry & (1 << 7) != 0),
            // Bits 1 to 3: it may be read, written, executed; without any it is a table.
            Self::Riscv64 => ((entry >> 10 & ((1 << 44) - 1)) << 12, entry & 0b1110 != 0),
        };
        if leaf || shift == 12 {
            Entry::Page(address & !((1 << shift) - 1))
        } else {
            Entry::Table(address)
        }
    }
}

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
    let isa = Isa::of(run);
    let Context { stack, table } = isa.context();
    for n in 0..body.cpu_count.min(CPUS_MAX) {
        let context = u64::from(n) * u64::from(body.context_bytes);
        let Some(raw) = first
            .checked_add(context)
            .and_then(|at| run.coherent_bytes(at, table + 8))
        else {
            continue;
        };
        if let Some(table) = isa.table(u64_at(&raw, table)) {
            add_stack(run, u64_at(&raw, stack), table, &mut dead);
        }
    }
    dead
}

fn add_stack(run: &Run<'_>, pointer: u64, table: Table, dead: &mut BTreeMap<u64, usize>) {
    let line_bytes = LINE_BYTES as u64;
    let mut at = pointer - pointer % STACK_BYTES;
    while at < pointer {
        let page = at - at % PAGE_BYTES;
        if let Some(offset) = translate(run, table, page) {
            for line in (at..pointer.min(page + PAGE_BYTES)).step_by(LINE_BYTES) {
                let bytes = (pointer - line).min(line_bytes);
                dead.insert(offset + (line - page), usize::try_from(bytes).unwrap_or(0));
            }
        }
        at = page + PAGE_BYTES;
    }
}

/// Offset in NVRAM of a virtual page.
fn translate(run: &Run<'_>, table: Table, page: u64) -> Option<u64> {
    let base = run.header().nvram_phys;
    let mut at = table.root;
    for &shift in table.shifts {
        let index = (page >> shift) & 0x1ff;
        let raw = run.coherent_bytes(at.checked_sub(base)? + index * 8, 8)?;
        match table.isa.entry(u64_at(&raw, 0), shift) {
            Entry::Absent => return None,
            Entry::Table(next) => at = next,
            Entry::Page(start) => {
                let offset = (start + (page & ((1 << shift) - 1))).checked_sub(base)?;
                return (offset < run.header().nvram_bytes).then_some(offset);
            }
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_is_the_one_that_the_register_names() {
        let table = |isa: Isa, register| isa.table(register).map(|t| (t.root, t.shifts.len()));
        assert_eq!(table(Isa::X86_64, 0x1_2345_6003), Some((0x1_2345_6000, 4)));
        for (mode, levels) in [(8, 3), (9, 4), (10, 5)] {
            let satp = mode << 60 | 7 << 44 | 0x8_1234;
            assert_eq!(table(Isa::Riscv64, satp), Some((0x8123_4000, levels)));
        }
        assert_eq!(table(Isa::Riscv64, 0x8_1234), None, "no translation");
    }

    #[test]
    fn entry_is_a_page_or_a_table() {
        let x86 = |entry, shift| Isa::X86_64.entry(entry, shift);
        assert_eq!(x86(0x1234_5066, 21), Entry::Absent);
        assert_eq!(x86(0x1234_5067, 21), Entry::Table(0x1234_5000));
        assert_eq!(x86(0x1234_50e7, 21), Entry::Page(0x1220_0000));
        assert_eq!(x86(0x1234_5067, 12), Entry::Page(0x1234_5000));
        let riscv = |entry, shift| Isa::Riscv64.entry(entry, shift);
        assert_eq!(riscv(0x8_1234 << 10, 21), Entry::Absent);
        assert_eq!(riscv(0x8_1234 << 10 | 0x01, 21), Entry::Table(0x8123_4000));
        assert_eq!(riscv(0x8_1234 << 10 | 0xe7, 21), Entry::Page(0x8120_0000));
        assert_eq!(riscv(0x8_1234 << 10 | 0xe7, 12), Entry::Page(0x8123_4000));
    }
}
