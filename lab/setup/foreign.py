# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Programs of another instruction set on this host: the kernel starts them by QEMU's user mode.

What package installations do for it takes a systemd that runs: here it is done where it is missing.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from lab.errors import InfraError
from lab.isa import Isa
from lab.run import run

BINFMT = Path("/proc/sys/fs/binfmt_misc")
# Magic number and mask of an ELF file: 64 bits, little endian, executable or shared, of a machine.
MAGIC = b"\x7fELF\x02\x01\x01" + b"\0" * 9 + b"\x02\0%s\0"
MASK = b"\xff" * 7 + b"\0" + b"\xff" * 8 + b"\xfe\xff\xff\xff"
MACHINES = {"riscv64": b"\xf3"}
# O, C, F: by a file that is open, with its rights, opened now: it is found in every chroot.
FLAGS = "OCF"


def need_foreign(isa: Isa) -> None:
    """Make this kernel start programs of *isa*, or raise InfraError."""
    name = f"qemu-{isa.name}"
    if not (BINFMT / "register").exists():
        run(["mount", "-t", "binfmt_misc", "binfmt_misc", BINFMT], check=False)
    if _runs(name):  # another root on this kernel may have set it up
        return
    program = shutil.which(f"{name}-static")
    if program is None:
        raise InfraError(f"{name}-static is not installed: run `./rem setup`")
    entry = f":{name}:M::{_escaped(MAGIC % MACHINES[isa.name])}:{_escaped(MASK)}:{program}:{FLAGS}"
    try:
        (BINFMT / "register").write_text(entry, encoding="ascii")
    except OSError as error:
        raise InfraError(
            f"this kernel starts no programs of {isa.name} ({error.strerror}, {BINFMT}): install "
            "qemu-user-static where systemd runs, or run this as root with binfmt_misc"
        ) from error


def _runs(name: str) -> bool:
    entry = BINFMT / name
    return entry.exists() and entry.read_text(encoding="ascii").startswith("enabled")


def _escaped(data: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in data)
