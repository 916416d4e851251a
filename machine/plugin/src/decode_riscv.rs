// SPDX-License-Identifier: GPL-2.0-or-later
//! The same for RISC-V: Zicbom's instructions of a line, those of a whole cache that `XTheadCmo` adds
//! (T-Head's extension specification), fences, and changes of the page table.

use crate::decode_cache::{Kind, Operand};

const MISC_MEM: u32 = 0x0f;
const SYSTEM: u32 = 0x73;
/// Of a fence that only tells the hart to wait (Zihintpause).
const PAUSE: u32 = 0x0100_000f;
const WFI: u32 = 0x1050_0073;
const CSR_SATP: u32 = 0x180;
const CBO_CLEAN: u32 = 1;
const CBO_FLUSH: u32 = 2;
/// th.dcache.* are of a hart's first level and th.l2cache.* of the rest: the model writes back a
/// hart's part of all levels at once, by the latter.
const L2CACHE_CALL: u32 = 0x0150_000b;
const L2CACHE_IALL: u32 = 0x0160_000b;
const L2CACHE_CIALL: u32 = 0x0170_000b;

/// A 32-bit instruction; shorter ones do nothing here.
fn word(insn: &[u8]) -> Option<u32> {
    let bytes: [u8; 4] = insn.get(..4)?.try_into().ok()?;
    let word = u32::from_le_bytes(bytes);
    (word & 3 == 3).then_some(word)
}

/// Whether `insn` may halt its hart: WFI.
pub(crate) fn is_halt(insn: &[u8]) -> bool {
    word(insn) == Some(WFI)
}

/// Whether it is PAUSE.
pub(crate) fn is_pause(insn: &[u8]) -> bool {
    word(insn) == Some(PAUSE)
}

/// CBO.CLEAN and CBO.FLUSH, by the register that has the address.
fn line(word: u32) -> Option<(Kind, Operand)> {
    let kind = match word >> 20 {
        CBO_CLEAN => Kind::Clwb,
        CBO_FLUSH => Kind::Clflushopt,
        _ => return None,
    };
    let base = u8::try_from((word >> 15) & 31).ok();
    Some((
        kind,
        Operand {
            base,
            ..Operand::default()
        },
    ))
}

/// The kind of `insn`; the operand is valid for flushes of a line only.
pub(crate) fn classify(insn: &[u8]) -> Option<(Kind, Operand)> {
    let word = word(insn)?;
    let plain = |kind| Some((kind, Operand::default()));
    match word {
        PAUSE => return None,
        L2CACHE_CALL => return plain(Kind::Wbnoinvd),
        L2CACHE_IALL => return plain(Kind::Invd),
        L2CACHE_CIALL => return plain(Kind::Wbinvd),
        _ => {}
    }
    match (word & 0x7f, (word >> 12) & 7) {
        (MISC_MEM, 2) => line(word),
        // FENCE orders what the predecessor set has; without writes in it no flush is waited for.
        (MISC_MEM, 0) if (word >> 24) & 1 == 1 => plain(Kind::Mfence),
        (SYSTEM, 0) if word >> 25 == 9 => plain(Kind::Translation), // SFENCE.VMA
        (SYSTEM, 1..=3 | 5..=7) if word >> 20 == CSR_SATP => plain(Kind::Translation),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(word: u32) -> Option<Kind> {
        classify(&word.to_le_bytes()).map(|(kind, _)| kind)
    }

    /// Words as an assembler emits them.
    #[test]
    fn flushes_and_fences_are_distinct() {
        assert_eq!(kind(0x0025_a00f), Some(Kind::Clflushopt)); // cbo.flush (a1)
        assert_eq!(kind(0x0015_a00f), Some(Kind::Clwb)); // cbo.clean (a1)
        assert_eq!(kind(0x0005_a00f), None); // cbo.inval (a1)
        assert_eq!(kind(0x0045_a00f), None); // cbo.zero (a1)
        assert_eq!(kind(0x0330_000f), Some(Kind::Mfence)); // fence rw, rw
        assert_eq!(kind(0x0ff0_000f), Some(Kind::Mfence)); // fence
        assert_eq!(kind(0x0230_000f), None); // fence r, rw
        assert_eq!(kind(0x0000_100f), None); // fence.i
        assert_eq!(kind(PAUSE), None);
        assert_eq!(kind(0x0170_000b), Some(Kind::Wbinvd)); // th.l2cache.ciall
        assert_eq!(kind(0x0030_000b), None); // th.dcache.ciall
        let (_, operand) = classify(&0x0025_a00f_u32.to_le_bytes()).unwrap();
        assert_eq!(operand.base, Some(11));
        assert_eq!(
            operand.address(0, |number| u64::from(number) << 8, |_| 0),
            11 << 8
        );
    }

    #[test]
    fn changes_of_translations_are_recognised() {
        assert_eq!(kind(0x1200_0073), Some(Kind::Translation)); // sfence.vma
        assert_eq!(kind(0x12b5_0073), Some(Kind::Translation)); // sfence.vma a0, a1
        assert_eq!(kind(0x1805_1073), Some(Kind::Translation)); // csrw satp, a0
        assert_eq!(kind(0x1400_2573), None); // csrr a0, sscratch
        assert_eq!(kind(0x0000_0073), None); // ecall
    }

    #[test]
    fn halts_and_pauses_are_recognised() {
        assert!(is_halt(&WFI.to_le_bytes()) && !is_halt(&PAUSE.to_le_bytes()));
        assert!(is_pause(&PAUSE.to_le_bytes()) && !is_pause(&0x0330_000f_u32.to_le_bytes()));
        assert!(!is_halt(&[0x01, 0x00]) && classify(&[0x82, 0x80]).is_none());
        assert_eq!(classify(&[]), None);
    }
}
