# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Instruction sets: what differs between the machines of each, once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

IsaName = Literal["x86_64", "riscv64"]
ISA_NAMES: tuple[str, ...] = get_args(IsaName)
MIB_BYTES = 1 << 20


@dataclass(frozen=True)
class Isa:
    """An instruction set.

    *nvram_phys*: where NVRAM begins; *block_bytes*: how far behind that the record block is at
    least, because firmware has the beginning.
    """

    name: IsaName
    debian: str  # the name of Debian's architecture
    qemu: str
    tools: str  # prefix of the compiler's programs
    nvram_phys: int
    block_bytes: int
    kernel_arch: str  # as the kernel's Makefile has it
    kernel_image: str  # in the kernel's tree
    library: str  # Debian's name of the folders of libraries
    interpreter: str  # what starts a program with libraries


X86_64 = Isa(
    name="x86_64",
    debian="amd64",
    qemu="qemu-system-x86_64",
    tools="",
    nvram_phys=1 << 32,  # the place of q35's memory devices, as long as DRAM ends below 4 GiB
    block_bytes=0,
    kernel_arch="x86",
    kernel_image="arch/x86/boot/bzImage",
    library="x86_64-linux-gnu",
    interpreter="lib64/ld-linux-x86-64.so.2",
)
RISCV64 = Isa(
    name="riscv64",
    debian="riscv64",
    qemu="qemu-system-riscv64",
    tools="riscv64-linux-gnu-",
    nvram_phys=1 << 31,
    # OpenSBI has the first 2 MiB, the loader the next.
    block_bytes=4 * MIB_BYTES,
    kernel_arch="riscv",
    kernel_image="arch/riscv/boot/Image",
    library="riscv64-linux-gnu",
    interpreter="lib/ld-linux-riscv64-lp64d.so.1",
)
ISAS: dict[str, Isa] = {isa.name: isa for isa in (X86_64, RISCV64)}
