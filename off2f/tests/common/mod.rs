// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Small ELF programs, made of nothing.

/// One PT_LOAD: rights, where in the file, how much.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    pub flags: u32,
    pub offset: u64,
    pub bytes: u64,
}

pub const R: u32 = 4;
pub const RW: u32 = 6;
pub const RX: u32 = 5;

/// A program whose bytes differ; segment `n` is mapped at its offset plus `n` pages.
pub fn elf(kind: u16, loads: &[Load], size: usize) -> Vec<u8> {
    let mut state = 0x1234_5678_9abc_def1_u64;
    let mut bytes: Vec<u8> = (0..size)
        .map(|_| random(&mut state).to_le_bytes()[0])
        .collect();
    let mut header = Vec::new();
    header.extend(b"\x7fELF\x02\x01\x01");
    header.resize(16, 0);
    header.extend(kind.to_le_bytes());
    header.extend(62_u16.to_le_bytes());
    header.extend(1_u32.to_le_bytes());
    header.extend(0x1000_u64.to_le_bytes());
    header.extend(64_u64.to_le_bytes());
    header.extend(0_u64.to_le_bytes());
    header.extend(0_u32.to_le_bytes());
    header.extend(64_u16.to_le_bytes());
    header.extend(56_u16.to_le_bytes());
    header.extend(u16::try_from(loads.len()).unwrap().to_le_bytes());
    header.resize(64, 0);
    for (load, n) in loads.iter().zip(0_u64..) {
        header.extend(1_u32.to_le_bytes());
        header.extend(load.flags.to_le_bytes());
        let vaddr = 0x40_0000 + load.offset + n * 4096;
        for word in [load.offset, vaddr, vaddr, load.bytes, load.bytes, 4096] {
            header.extend(word.to_le_bytes());
        }
    }
    bytes[..header.len()].copy_from_slice(&header);
    bytes
}

/// As ld makes them: headers, text and data in pages of their own.
pub fn usual() -> Vec<u8> {
    let loads = [
        Load {
            flags: R,
            offset: 0,
            bytes: 0x800,
        },
        Load {
            flags: RX,
            offset: 0x1000,
            bytes: 0x2345,
        },
        Load {
            flags: R,
            offset: 0x4000,
            bytes: 0x123,
        },
        Load {
            flags: RW,
            offset: 0x4f00,
            bytes: 0x456,
        },
    ];
    elf(3, &loads, 0x5678)
}

/// One segment with headers and text, as older linkers make it.
pub fn old_style() -> Vec<u8> {
    let loads = [
        Load {
            flags: RX,
            offset: 0,
            bytes: 0x3456,
        },
        Load {
            flags: RW,
            offset: 0x3500,
            bytes: 0x200,
        },
    ];
    elf(2, &loads, 0x4000)
}

/// xorshift64
pub fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// With a symbol table behind it: two functions of the text of `usual()` and `old_style()`, a label,
/// and a variable.
pub fn with_symbols(mut elf: Vec<u8>) -> Vec<u8> {
    const FIRST_TEXT: usize = 64 + 56;
    let old = elf[64 + 4] & 1 != 0; // the first segment is executable
    let vaddr_at = if old { 64 } else { FIRST_TEXT } + 16;
    let text = u64::from_le_bytes(elf[vaddr_at..vaddr_at + 8].try_into().unwrap());
    let names = b"\0first\0second\0label\0a_variable\0";
    elf.resize(elf.len().next_multiple_of(8), 0);
    let symtab = elf.len();
    let entry = |name: u32, info: u8, value: u64| {
        let mut entry = Vec::new();
        entry.extend(name.to_le_bytes());
        entry.extend([info, 0, 1, 0]);
        entry.extend(value.to_le_bytes());
        entry.extend(16_u64.to_le_bytes());
        entry
    };
    elf.extend([0; 24]);
    elf.extend(entry(1, 0x02, text));
    elf.extend(entry(7, 0x12, text + 0x1010));
    elf.extend(entry(14, 0x10, text + 0x20f0));
    elf.extend(entry(20, 0x11, text + 0x20));
    let strtab = elf.len();
    elf.extend(names);
    elf.resize(elf.len().next_multiple_of(8), 0);
    let shoff = elf.len();
    elf.extend([0; 64]);
    let mut section = |kind: u32, at: usize, bytes: usize, link: u32, entry: u64| {
        let word = |n: usize| u64::try_from(n).unwrap().to_le_bytes();
        elf.extend([0; 4]);
        elf.extend(kind.to_le_bytes());
        elf.extend([0; 16]);
        elf.extend(word(at));
        elf.extend(word(bytes));
        elf.extend(link.to_le_bytes());
        elf.extend([0; 12]);
        elf.extend(entry.to_le_bytes());
    };
    section(2, symtab, strtab - symtab, 2, 24);
    section(3, strtab, names.len(), 0, 0);
    elf[40..48].copy_from_slice(&u64::try_from(shoff).unwrap().to_le_bytes());
    elf[58..64].copy_from_slice(&[64, 0, 3, 0, 2, 0]);
    elf
}
