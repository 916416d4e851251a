// SPDX-License-Identifier: GPL-2.0-or-later
//! Minimal decoding: TCG has no callback for port writes of x86, nor for what halts a CPU.

use crate::decode_riscv;
use crate::isa::{Isa, isa};

/// Longest x86 instruction.
pub(crate) const INSN_BYTES_MAX: usize = 15;

/// First address that no program may use; the kernel's are above.
pub(crate) const USER_END: u64 = 1 << 47;

const OUT_DX_AL: u8 = 0xee;

/// Whether `insn` is `OUT DX, AL`, behind any prefixes.
pub(crate) fn is_out_dx_al(insn: &[u8]) -> bool {
    let is_prefix = |byte: &&u8| {
        matches!(
            byte,
            0x26 | 0x2e | 0x36 | 0x3e | 0x40..=0x4f | 0x64..=0x67 | 0xf0 | 0xf2 | 0xf3
        )
    };
    isa() == Isa::X86_64 && insn.iter().find(|byte| !is_prefix(byte)) == Some(&OUT_DX_AL)
}

/// Whether `insn` may halt its vCPU: `HLT` or `MWAIT` of x86, WFI.
pub(crate) fn is_halt(insn: &[u8]) -> bool {
    if isa() == Isa::Riscv64 {
        return decode_riscv::is_halt(insn);
    }
    matches!(insn, [0xf4, ..] | [0x0f, 0x01, 0xc9, ..])
}

/// Whether it is PAUSE.
pub(crate) fn is_pause(insn: &[u8]) -> bool {
    if isa() == Isa::Riscv64 {
        return decode_riscv::is_pause(insn);
    }
    matches!(insn, [0xf3, 0x90, ..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn out_is_found_after_prefixes_only() {
        assert!(is_out_dx_al(&[0xee]));
        assert!(is_out_dx_al(&[0x66, 0xee]));
        assert!(is_out_dx_al(&[0x66, 0x48, 0xee]));
        assert!(!is_out_dx_al(&[0xef]));
        assert!(!is_out_dx_al(&[0xe6, 0xee]));
        assert!(!is_out_dx_al(&[0xb0, 0xee]));
        assert!(!is_out_dx_al(&[0x66]));
        assert!(!is_out_dx_al(&[]));
    }

    #[test]
    fn halts_are_hlt_and_mwait() {
        assert!(is_halt(&[0xf4]));
        assert!(is_halt(&[0x0f, 0x01, 0xc9]));
        assert!(!is_halt(&[0x0f, 0x01, 0xc8])); // MONITOR
        assert!(!is_halt(&[0xf3, 0x90])); // PAUSE
        assert!(!is_halt(&[]));
        assert!(is_pause(&[0xf3, 0x90]) && !is_pause(&[0x90]) && !is_pause(&[0xf3, 0xc3]));
    }
}
