// SPDX-License-Identifier: GPL-2.0-or-later
//! The instruction set of the guest: which decoder, which names of registers.

use std::sync::OnceLock;

/// Registers that instructions can name, of the instruction set that has more.
pub(crate) const GENERAL_MAX: usize = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Isa {
    X86_64,
    Riscv64,
}

static ISA: OnceLock<Isa> = OnceLock::new();

/// That of this QEMU; before it is known, that of the first machine that there was.
pub(crate) fn isa() -> Isa {
    ISA.get().copied().unwrap_or(Isa::X86_64)
}

/// Names of general registers in the order of their numbers in instructions, as QEMU lists them.
const X86_64_GENERAL: [&[u8]; 16] = [
    b"rax", b"rcx", b"rdx", b"rbx", b"rsp", b"rbp", b"rsi", b"rdi", b"r8", b"r9", b"r10", b"r11",
    b"r12", b"r13", b"r14", b"r15",
];
const RISCV64_GENERAL: [&[u8]; 32] = [
    b"zero", b"ra", b"sp", b"gp", b"tp", b"t0", b"t1", b"t2", b"fp", b"s1", b"a0", b"a1", b"a2",
    b"a3", b"a4", b"a5", b"a6", b"a7", b"s2", b"s3", b"s4", b"s5", b"s6", b"s7", b"s8", b"s9",
    b"s10", b"s11", b"t3", b"t4", b"t5", b"t6",
];

impl Isa {
    /// By the name of QEMU's target, once.
    pub(crate) fn choose(target: &[u8]) -> Result<(), String> {
        let isa = match target {
            b"x86_64" => Self::X86_64,
            b"riscv64" => Self::Riscv64,
            other => {
                let name = String::from_utf8_lossy(other);
                return Err(format!(
                    "qemu-system-{name}: only x86_64 and riscv64 are known"
                ));
            }
        };
        ISA.get_or_init(|| isa);
        Ok(())
    }

    /// The number of a general register.
    pub(crate) fn general(self, name: &[u8]) -> Option<usize> {
        let names: &[&[u8]] = match self {
            Self::X86_64 => &X86_64_GENERAL,
            Self::Riscv64 => &RISCV64_GENERAL,
        };
        names.iter().position(|known| *known == name)
    }

    /// The register that tells a user program from a kernel.
    pub(crate) const fn privilege(self) -> &'static [u8] {
        match self {
            Self::X86_64 => b"cs",
            Self::Riscv64 => b"priv",
        }
    }

    /// Whether QEMU lets a vCPU go on after a hint that it spins. One that waits for another would
    /// execute a whole turn for each instruction of the other that ends its turn, as each access to a
    /// device does; so `quantum=` ends the turn there, as QEMU does for PAUSE of x86.
    pub(crate) const fn pause_goes_on(self) -> bool {
        matches!(self, Self::Riscv64)
    }

    /// Whether that register has the value of a user program.
    pub(crate) const fn is_user(self, privilege: u64) -> bool {
        match self {
            Self::X86_64 => privilege & 3 == 3,
            Self::Riscv64 => privilege & 3 == 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_are_found_by_their_numbers() {
        assert_eq!(Isa::X86_64.general(b"rdx"), Some(2));
        assert_eq!(Isa::Riscv64.general(b"fp"), Some(8));
        assert_eq!(Isa::Riscv64.general(b"t6"), Some(31));
        assert_eq!(Isa::Riscv64.general(b"rax"), None);
    }

    #[test]
    fn user_is_ring_three_or_the_lowest_mode() {
        for (isa, privilege, user) in [
            (Isa::X86_64, 0x33, true),
            (Isa::X86_64, 0x23, true),
            (Isa::X86_64, 0x10, false),
            (Isa::X86_64, 0xf000, false),
            (Isa::Riscv64, 0, true),
            (Isa::Riscv64, 1, false),
            (Isa::Riscv64, 3, false),
        ] {
            assert_eq!(isa.is_user(privilege), user, "{isa:?} {privilege:#x}");
        }
    }

    #[test]
    fn other_targets_are_refused() {
        let refused = Isa::choose(b"aarch64").unwrap_err();
        assert!(refused.contains("aarch64"), "{refused}");
    }
}
