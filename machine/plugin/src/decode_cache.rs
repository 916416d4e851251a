// SPDX-License-Identifier: GPL-2.0-or-later
//! Instructions that matter to caches and for which TCG has no callback: their kind and their
//! memory operand. Those of RISC-V are in `decode_riscv`, by the names that x86-64 has for the same.

use crate::decode_riscv;
use crate::isa::{Isa, isa};

/// What the model of caches does when an instruction runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Clflush,
    Clflushopt,
    Clwb,
    Wbinvd,
    Wbnoinvd,
    Invd,
    /// A store that bypasses the caches.
    NtStore,
    Sfence,
    Mfence,
    /// A locked instruction: a fence, and a store besides.
    Locked,
    /// May change the translation of an address.
    Translation,
}

/// A memory operand. Numbers are those of registers in instructions, as 0 = rax, 4 = rsp, 15 = r15.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Operand {
    pub(crate) base: Option<u8>,
    /// Register and how far it is shifted.
    pub(crate) index: Option<(u8, u8)>,
    pub(crate) displacement: i32,
    /// Relative to the next instruction.
    pub(crate) rip_relative: bool,
    /// The segment whose base is added.
    pub(crate) segment: Option<Segment>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Segment {
    Fs,
    Gs,
}

#[derive(Clone, Copy, Debug, Default)]
struct Prefixes {
    operand_size: bool,
    repeat: bool,
    locked: bool,
    segment: Option<Segment>,
    rex: u8,
}

/// Legacy prefixes and REX; the rest of the instruction.
fn prefixes(insn: &[u8]) -> (Prefixes, &[u8]) {
    let mut found = Prefixes::default();
    let mut rest = insn;
    while let [byte, tail @ ..] = rest {
        match byte {
            0x66 => found.operand_size = true,
            0xf2 | 0xf3 => found.repeat = true,
            0xf0 => found.locked = true,
            0x64 => found.segment = Some(Segment::Fs),
            0x65 => found.segment = Some(Segment::Gs),
            0x26 | 0x2e | 0x36 | 0x3e | 0x67 => {}
            0x40..=0x4f => {
                found.rex = *byte;
                return (found, tail);
            }
            _ => break,
        }
        rest = tail;
    }
    (found, rest)
}

/// The bytes after the opcode: mod, reg and rm of ModRM.
fn modrm(rest: &[u8]) -> Option<(u8, u8, u8)> {
    rest.first()
        .map(|byte| (byte >> 6, (byte >> 3) & 7, byte & 7))
}

/// The memory operand of ModRM, if it is not a register. Decoded as in 64-bit code; 32-bit code
/// differs only in an absolute address alone.
fn operand(prefixes: Prefixes, rest: &[u8]) -> Option<Operand> {
    let (mode, _, rm) = modrm(rest)?;
    let mut tail = &rest[1..];
    let mut found = Operand {
        segment: prefixes.segment,
        ..Operand::default()
    };
    if mode == 3 {
        return None;
    }
    let extend = |bit: u8| ((prefixes.rex >> bit) & 1) << 3;
    let mut wide = mode == 2;
    if rm == 4 {
        let (sib, after) = tail.split_first()?;
        tail = after;
        let index = (sib >> 3) & 7 | extend(1);
        found.index = (index != 4).then_some((index, sib >> 6));
        if sib & 7 == 5 && mode == 0 {
            wide = true;
        } else {
            found.base = Some(sib & 7 | extend(0));
        }
    } else if rm == 5 && mode == 0 {
        (found.rip_relative, wide) = (true, true);
    } else {
        found.base = Some(rm | extend(0));
    }
    if wide {
        let bytes = tail.get(..4)?.try_into().ok()?;
        found.displacement = i32::from_le_bytes(bytes);
    } else if mode == 1 {
        found.displacement = i8::from_le_bytes([*tail.first()?]).into();
    }
    Some(found)
}

/// 0F AE: fences without an operand, flushes with one.
fn group_15(prefixes: Prefixes, rest: &[u8]) -> Option<(Kind, Operand)> {
    let (mode, reg, _) = modrm(rest)?;
    let kind = match (mode == 3, reg, prefixes.operand_size, prefixes.repeat) {
        (true, 6, false, false) => Kind::Mfence,
        (true, 7, false, false) => Kind::Sfence,
        (false, 7, false, false) => Kind::Clflush,
        (false, 7, true, false) => Kind::Clflushopt,
        (false, 6, true, false) => Kind::Clwb,
        _ => return None,
    };
    Some((kind, operand(prefixes, rest).unwrap_or_default()))
}

fn two_bytes(prefixes: Prefixes, opcode: u8, rest: &[u8]) -> Option<(Kind, Operand)> {
    let in_memory = modrm(rest).is_some_and(|(mode, _, _)| mode != 3);
    let kind = match opcode {
        0xae => return group_15(prefixes, rest),
        0x08 => Kind::Invd,
        0x09 if prefixes.repeat => Kind::Wbnoinvd,
        0x09 => Kind::Wbinvd,
        0xc3 if in_memory => Kind::NtStore,
        0xe7 | 0x2b if in_memory => Kind::NtStore,
        0xf7 if !in_memory => Kind::NtStore, // MASKMOVQ, MASKMOVDQU: to [rdi]
        0x22 | 0x30 | 0xaa => Kind::Translation, // MOV to CR, WRMSR, RSM
        0x01 if in_memory && modrm(rest)?.1 == 7 => Kind::Translation, // INVLPG
        0x38 if rest.first() == Some(&0x82) => Kind::Translation, // INVPCID
        _ => return None,
    };
    Some((kind, Operand::default()))
}

/// VEX: VMOVNTDQ, VMOVNTPS, VMOVNTPD.
fn is_vex_nt(rest: &[u8]) -> bool {
    let (map, opcode, modrm) = match rest {
        [0xc5, _, opcode, modrm, ..] => (1, *opcode, *modrm),
        [0xc4, second, _, opcode, modrm, ..] => (second & 0x1f, *opcode, *modrm),
        _ => return false,
    };
    map == 1 && matches!(opcode, 0xe7 | 0x2b) && modrm >> 6 != 3
}

/// The kind of `insn`; the operand is valid for flushes of a line only.
pub(crate) fn classify(insn: &[u8]) -> Option<(Kind, Operand)> {
    if isa() == Isa::Riscv64 {
        return decode_riscv::classify(insn);
    }
    let (prefixes, rest) = prefixes(insn);
    if prefixes.locked {
        return Some((Kind::Locked, Operand::default()));
    }
    match rest {
        [0x0f, opcode, rest @ ..] => two_bytes(prefixes, *opcode, rest),
        [0x86 | 0x87, modrm, ..] if modrm >> 6 != 3 => Some((Kind::Locked, Operand::default())),
        _ if is_vex_nt(rest) => Some((Kind::NtStore, Operand::default())),
        _ => None,
    }
}

impl Operand {
    /// The address, from the contents of registers.
    pub(crate) fn address(
        &self,
        next_insn: u64,
        register: impl Fn(u8) -> u64,
        segment: impl Fn(Segment) -> u64,
    ) -> u64 {
        let begin = if self.rip_relative { next_insn } else { 0 };
        let mut address = begin.wrapping_add_signed(self.displacement.into());
        if let Some(base) = self.base {
            address = address.wrapping_add(register(base));
        }
        if let Some((index, shift)) = self.index {
            address = address.wrapping_add(register(index) << shift);
        }
        self.segment
            .map_or(address, |which| address.wrapping_add(segment(which)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(insn: &[u8]) -> Option<Kind> {
        classify(insn).map(|(kind, _)| kind)
    }

    /// Bytes as an assembler emits them.
    #[test]
    fn flushes_fences_and_bypassing_stores_are_distinct() {
        assert_eq!(kind(&[0x0f, 0xae, 0x38]), Some(Kind::Clflush));
        assert_eq!(kind(&[0x3e, 0x0f, 0xae, 0x38]), Some(Kind::Clflush));
        assert_eq!(kind(&[0x66, 0x0f, 0xae, 0x38]), Some(Kind::Clflushopt));
        assert_eq!(kind(&[0x66, 0x0f, 0xae, 0x30]), Some(Kind::Clwb));
        assert_eq!(kind(&[0x0f, 0xae, 0xf8]), Some(Kind::Sfence));
        assert_eq!(kind(&[0x0f, 0xae, 0xf0]), Some(Kind::Mfence));
        assert_eq!(kind(&[0x0f, 0x09]), Some(Kind::Wbinvd));
        assert_eq!(kind(&[0xf3, 0x0f, 0x09]), Some(Kind::Wbnoinvd));
        assert_eq!(kind(&[0x0f, 0x08]), Some(Kind::Invd));
        assert_eq!(kind(&[0x48, 0x0f, 0xc3, 0x07]), Some(Kind::NtStore)); // movnti
        assert_eq!(kind(&[0x66, 0x0f, 0xe7, 0x07]), Some(Kind::NtStore)); // movntdq
        assert_eq!(kind(&[0x0f, 0x2b, 0x07]), Some(Kind::NtStore)); // movntps
        assert_eq!(kind(&[0xc5, 0xfd, 0xe7, 0x07]), Some(Kind::NtStore)); // vmovntdq
        assert_eq!(kind(&[0xc4, 0xc1, 0x7d, 0xe7, 0x07]), Some(Kind::NtStore)); // vmovntdq [r15]
        assert_eq!(kind(&[0xf0, 0x48, 0x0f, 0xb1, 0x17]), Some(Kind::Locked));
        assert_eq!(kind(&[0x48, 0x87, 0x07]), Some(Kind::Locked)); // xchg
    }

    #[test]
    fn changes_of_translations_are_recognised() {
        for insn in [
            &[0x0f, 0x22, 0xd8][..],         // mov cr3, rax
            &[0x41, 0x0f, 0x22, 0xd9],       // mov cr3, r9
            &[0x0f, 0x01, 0x38],             // invlpg
            &[0x66, 0x0f, 0x38, 0x82, 0x00], // invpcid
            &[0x0f, 0x30],                   // wrmsr
        ] {
            assert_eq!(kind(insn), Some(Kind::Translation), "{insn:x?}");
        }
    }

    #[test]
    fn ordinary_instructions_are_not_classified() {
        for insn in [
            &[0x90][..],
            &[0x48, 0x89, 0x07],             // mov
            &[0x48, 0x87, 0xc3],             // xchg of registers
            &[0x0f, 0xae, 0xe8],             // lfence
            &[0x0f, 0xae, 0x07],             // fxsave
            &[0x0f, 0xae, 0x27],             // xsave
            &[0x66, 0x0f, 0xae, 0xf0],       // tpause, umwait
            &[0xf3, 0x0f, 0xae, 0xd0],       // wrfsbase
            &[0x0f, 0x01, 0xf8],             // swapgs
            &[0x0f, 0x20, 0xd8],             // mov rax, cr3
            &[0xc5, 0xfd, 0x7f, 0x07],       // vmovdqa
            &[0x66, 0x0f, 0x38, 0x00, 0xc1], // pshufb
            &[],
            &[0x66],
            &[0x0f],
            &[0x0f, 0xae],
        ] {
            assert_eq!(kind(insn), None, "{insn:x?}");
        }
    }

    fn address(insn: &[u8]) -> u64 {
        let (_, operand) = classify(insn).unwrap();
        let register = |number| 0x1_0000 * (u64::from(number) + 1);
        let segment = |which| {
            if which == Segment::Gs {
                1 << 40
            } else {
                1 << 41
            }
        };
        operand.address(0x10, register, segment)
    }

    #[test]
    fn addresses_are_computed_as_the_processor_does() {
        assert_eq!(address(&[0x0f, 0xae, 0x38]), 0x1_0000); // [rax]
        assert_eq!(address(&[0x41, 0x0f, 0xae, 0x3f]), 0x10_0000); // [r15]
        assert_eq!(address(&[0x0f, 0xae, 0x7f, 0xc0]), 0x8_0000 - 64); // [rdi-64]
        assert_eq!(address(&[0x0f, 0xae, 0xbe, 0, 1, 0, 0]), 0x7_0100); // [rsi+256]
        assert_eq!(address(&[0x0f, 0xae, 0x3d, 8, 0, 0, 0]), 0x18); // [rip+8]
        assert_eq!(address(&[0x0f, 0xae, 0x3c, 0x24]), 0x5_0000); // [rsp]
        assert_eq!(address(&[0x0f, 0xae, 0x3c, 0x88]), 0x1_0000 + 0x2_0000 * 4); // [rax+rcx*4]
        assert_eq!(address(&[0x0f, 0xae, 0x3c, 0x25, 0, 2, 0, 0]), 0x200); // [512]
        assert_eq!(
            address(&[0x42, 0x0f, 0xae, 0x3c, 0x20]),
            0x1_0000 + 0xd_0000
        ); // [rax+r12]
        assert_eq!(address(&[0x65, 0x0f, 0xae, 0x38]), 0x1_0000 + (1 << 40)); // gs:[rax]
    }
}
