# SPDX-License-Identifier: Apache-2.0 OR MIT
"""gdb and perf name the functions of a program whose text is in NVRAM, as with an ELF.

Goal: with the ELF that `off2f restore` writes, gdb finds the program's addresses by itself, in a
process and in a core dump, stops at a function by its name and prints a backtrace; perf, without
options, names functions from the XYZ, or from a separate file with symbols. Negative proof: with
another ELF gdb names nothing, nor does perf where neither the text nor a file beside it has names.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.machine import Machine
from lab.run import run
from lab.testbed.off2f_guest import convert, guest_with_store
from lab.testbed.pm_guest import sh

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]

SOURCE = """
#include <signal.h>
#include <unistd.h>
#ifdef OTHER
__asm__(".globl other\\nother: .skip 70000");
#endif
static volatile unsigned sum;
__attribute__((noinline)) void works(void) { for (unsigned n = 0; n < 30000000; n++) sum += n; }
__attribute__((noinline)) int waits(void) { return pause(); }
static void heard(int number) { (void)number; }
int main(int count, char **words)
{
    if (count > 1) { works(); return words[1][0] == 0; }
    signal(SIGUSR1, heard);
    for (;;) { waits(); works(); }
}
"""
KINDS = {
    "pie": "-fPIE -pie",
    "fixed": "-fno-pie -no-pie",
    "static": "-fno-pie -static",
    "static-pie": "-fPIE -static-pie",
}
PERF = "/root/perf"
PERF_RUNS = f"HOME=/root {PERF}/ld-linux-x86-64.so.2 --library-path {PERF} {PERF}/perf"


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    with guest_with_store(f"t-offy-{os.getpid()}") as made:
        sh(made, f"echo {shlex.quote(SOURCE)} >/root/waits.c")
        sh(made, "ulimit -c unlimited; echo /root/core >/proc/sys/kernel/core_pattern")
        for kind, words in KINDS.items():
            sh(made, f"gcc -O1 -o /root/waits-{kind} {words} /root/waits.c")
            sh(made, f"gcc -O1 -DOTHER -o /root/other-{kind} {words} /root/waits.c")
            convert(made, f"/root/waits-{kind}", f"/root/o/waits-{kind}")
        yield made


def started(machine: Machine, kind: str) -> int:
    """Start the program; return its process once it waits."""
    words = f"/root/o/waits-{kind} >/dev/null 2>&1 & echo $!"
    pid = int(sh(machine, f"ulimit -c unlimited; {words}").stdout)
    sh(machine, f"until grep -q '^34 ' /proc/{pid}/syscall; do sleep 0.1; done")  # pause
    return pid


def gdb(machine: Machine, orders: list[str], elf: str, what: int | str) -> str:
    words = " ".join(f"-ex {shlex.quote(order)}" for order in orders)
    return sh(machine, f"gdb -batch -nx {words} {elf} {what} 2>&1").stdout


def names_all(output: str, kind: str) -> bool:
    """Check for the stack of a process that waits, from the library to main()."""
    library = r" from \S+libc\.so\.6" if kind in ("pie", "fixed") else ""
    wanted = (rf" in pause \(\){library}\n", r" in waits \(\)\n", r" in main \(\)\n")
    return all(re.search(frame, output) for frame in wanted)


@pytest.mark.parametrize("kind", list(KINDS))
def test_gdb_finds_the_program_by_itself(machine: Machine, kind: str) -> None:
    pid = started(machine, kind)
    elf = f"/root/again-{kind}"
    sh(machine, f"off2f restore /proc/{pid}/exe {elf} && cmp {elf} /root/waits-{kind}")
    output = gdb(machine, ["bt"], elf, pid)
    assert names_all(output, kind), output
    output = gdb(machine, ["bt"], f"/root/other-{kind}", pid)
    assert " in waits ()" not in output, output
    # Run to the next function: a breakpoint in a page that is already mapped.
    output = gdb(machine, ["break works", "signal SIGUSR1", "bt", "delete"], elf, pid)
    assert re.search(
        r"Breakpoint 1, 0x\w+ in works \(\)\n#0 .* in works \(\)\n#1 .* in main ", output
    )
    # It continues, and its core dump gives the same.
    sh(machine, f"until grep -q '^34 ' /proc/{pid}/syscall; do sleep 0.1; done")
    sh(machine, f"rm -f /root/core; kill -SEGV {pid}; while kill -0 {pid} 2>/dev/null; do :; done")
    output = gdb(machine, ["bt"], elf, "/root/core")
    assert "terminated with signal SIGSEGV" in output
    assert names_all(output, kind), output
    output = gdb(machine, ["bt"], f"/root/other-{kind}", "/root/core")
    assert " in waits ()" not in output, output


@pytest.fixture(scope="module")
def perf(machine: Machine) -> str:
    """Put the host's perf and its libraries into the guest, which has none."""
    program = shutil.which("perf")
    if program is None:
        pytest.fail("no perf on this host: apt-get install linux-perf")
    libraries = re.findall(r"(/\S+) \(", run(["ldd", program]).stdout)
    sh(machine, f"mkdir -p {PERF}")
    for path in (program, *libraries):
        machine.guest.put(Path(path).resolve(), f"{PERF}/{Path(path).name}")
    return PERF_RUNS


def sampled(machine: Machine, perf: str, program: str) -> dict[str, str]:
    """Return the names that perf gives to samples in an XYZ, and their shares."""
    data = "/root/perf.data"
    sh(machine, f"{perf} record -N -e cpu-clock -o {data} {program} once >/dev/null 2>&1")
    words = f"report -i {data} --stdio -F overhead,dso,sym"
    rows = sh(machine, f"{perf} {words} 2>/dev/null").stdout.splitlines()
    found = [row.split() for row in rows if ".xyz " in row]
    return {words[-1]: words[0] for words in found}


@pytest.mark.parametrize("kind", list(KINDS))
def test_perf_names_the_functions(machine: Machine, perf: str, kind: str) -> None:
    assert "works" in sampled(machine, perf, f"/root/o/waits-{kind}")


@pytest.mark.parametrize("kind", list(KINDS))
def test_perf_finds_the_names_of_a_stripped_program_by_its_build_id(
    machine: Machine, perf: str, kind: str
) -> None:
    elf, abc, debug = (f"/root/{name}-{kind}" for name in ("stripped", "o/stripped", "debug"))
    sh(machine, f"strip -o {elf} /root/waits-{kind}")
    convert(machine, elf, abc)
    found = sampled(machine, perf, abc)
    assert found, "perf samples the text"
    assert "works" not in found, found
    sh(machine, f"objcopy --only-keep-debug /root/waits-{kind} {debug}")
    output = sh(machine, f"readelf -n {elf}").stdout
    build_id = re.findall(r"Build ID: (\w+)", output)[0]
    folder = f"/usr/lib/debug/.build-id/{build_id[:2]}"
    sh(machine, f"mkdir -p {folder} && cp {debug} {folder}/{build_id[2:]}.debug")
    assert "works" in sampled(machine, perf, abc)
    sh(machine, f"rm {folder}/{build_id[2:]}.debug")


def test_elf_on_a_dax_file_system_changes_other_bytes(machine: Machine) -> None:
    """The negative proof of test_debugger_changes_no_other_byte(): without the module.

    In this file, because the kernel prints a warning.
    """
    sh(machine, "cp /usr/bin/sleep /nvm/elf.xyz")
    output = sh(machine, "python3 /root/off2f-exec.py poke /nvm/elf.xyz 1000").stdout
    assert output == "other bytes have changed, too\n"
