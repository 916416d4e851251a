# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A debugger names the functions of a program whose text is in NVRAM.

Goal: gdb, attached, gives a backtrace with names. Method: an ABC is no ELF to gdb, so it is told
the ELF, which `off2f restore` gives back, and for a position-independent program by how much its
addresses are higher: where XYZ is mapped, less the text's address in `off2f info`. Negative proof:
with another address the function that waits is not named.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator

import pytest

from lab.demo.off2f_machine import convert, guest_with_store
from lab.demo.pm_machine import sh
from lab.machine import Machine

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]

PAGE_BYTES = 4096
WAITS = "__attribute__((noinline)) int waits(void) { return pause(); }"
SOURCE = f"#include <unistd.h>\n{WAITS}\nint main(void) {{ return waits() + 1; }}\n"
KINDS = {"pie": "-fPIE -pie", "fixed": "-fno-pie -no-pie", "static": "-fno-pie -static"}


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    with guest_with_store(f"t-offy-{os.getpid()}") as made:
        sh(made, f"echo {shlex.quote(SOURCE)} >/root/waits.c")
        yield made


def started(machine: Machine, kind: str) -> int:
    """Its process, which waits already; the ELF that is restored is all that is left of it."""
    elf, abc = f"/root/waits-{kind}", f"/root/o/waits-{kind}"
    sh(machine, f"gcc -O1 -o {elf} {KINDS[kind]} /root/waits.c")
    convert(machine, elf, abc)
    sh(machine, f"rm {elf} && off2f restore {abc} {elf}")
    said = sh(machine, f"{abc} >/dev/null 2>&1 & echo $!").stdout
    pid = int(said)
    sh(machine, f"until grep -q '^34 ' /proc/{pid}/syscall; do sleep 0.1; done")  # pause
    return pid


def moved_by(machine: Machine, pid: int, abc: str) -> int:
    info = json.loads(sh(machine, f"off2f info {abc} --json").stdout)
    maps = sh(machine, f"grep {info['xyz']} /proc/{pid}/maps").stdout
    return int(maps.split("-")[0], 16) - int(info["texts"][0]["vaddr"])


def backtrace(machine: Machine, kind: str, pid: int, moved: int) -> str:
    words = f"-ex 'symbol-file /root/waits-{kind} -o {moved:#x}' -p {pid} -ex bt"
    return sh(machine, f"gdb -batch -nx {words} 2>&1").stdout


@pytest.mark.parametrize("kind", list(KINDS))
def test_a_debugger_names_the_functions(machine: Machine, kind: str) -> None:
    pid = started(machine, kind)
    moved = moved_by(machine, pid, f"/root/o/waits-{kind}")
    assert (moved != 0) == (kind == "pie")
    said = backtrace(machine, kind, pid, moved)
    assert " in waits ()" in said, said
    assert " in main ()" in said, said
    assert " in waits ()" not in backtrace(machine, kind, pid, moved + 64 * PAGE_BYTES)
    sh(machine, f"kill {pid}")
