# SPDX-License-Identifier: Apache-2.0 OR MIT
"""persist=fof over the end of the promise that a power failure saves the caches.

Goal: everybody who built on the promise is woken, what was acknowledged under it is written back
once, and from then on each store is flushed, by whatever was open from before: files, mappings,
blocks, a file system with DAX. Method: a machine with volatile caches, whose Stop is promised. It
is told to stop by the portable path, which has no bound; then the power fails without a Stop. What
was stored and never synced after that must not all be there, or the caches would not be volatile.
Negative proofs: planted bugs of pm/core/fof.c (soak).

And nothing is left in the caches by a module that goes, or by a kernel that halts: then the promise
ends unheard, or no Stop is possible, and the power fails. Negative proof: a planted bug of
pm/kernel/promise.c, without which everything is written back (soak).
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from lab.machine import Machine
from lab.machine.qemu import NVRAM_PHYS
from lab.run import end, spawn
from lab.testbed.machines import make_config
from lab.testbed.pm_guest import cut, halt, install, load, sh, status, unload, wait_up
from lab.testbed.promise import end_promise
from lab.verdict import BrokenError

pytestmark = [pytest.mark.full, pytest.mark.timeout(900)]

PROFILE = "wsp-c5528"
REGION_BYTES = 64 << 20
LINES = 1024
COUNT = """
import pm
def lines(data, word):
    return sum(data[at : at + 8] == word for at in range(0, len(data), 64))
raw = {name: open("/dev/pm/" + name, "rb").read(131072) for name in ("mapped", "loose", "written")}
blocks = pm.Blocks("blocks").read([0, 1])
print(lines(raw["mapped"][:65536], b"durable!"), lines(raw["written"][:65536], b"earlier!"),
      lines(raw["written"][65536:], b"durable!"), lines(blocks[0], b"earlier!") * 16,
      lines(blocks[1], b"durable!") * 16,
      lines(open("/mnt/pm/file", "rb").read(), b"durable!"),
      lines(raw["loose"][:65536], b"earlier!") + lines(raw["loose"][:65536], b"durable!"),
      lines(raw["loose"][:65536], b"durable!"))
"""


@contextmanager
def promised(purpose: str, mutants: bool) -> Iterator[Machine]:
    config = make_config(f"t-{purpose}-{os.getpid()}", cpus=1, caches=PROFILE)
    address = NVRAM_PHYS + config.nvram_bytes - (128 << 20)
    words = f"pm={REGION_BYTES >> 20}M@{address:#x} remanence.hold_up_us=1000000"
    with Machine.create(replace(config, cmdline_extra=words), destroy_on_exit=True) as machine:
        machine.boot()
        wait_up(machine)
        install(machine, mutants=mutants)
        yield machine


def prepare(machine: Machine, mutant: str) -> None:
    load(machine, "format=1", source="")
    assert status(machine)["fof"], "a Stop is armed and fits the hold-up"
    for name in ("mapped", "loose", "written"):
        sh(machine, f"pmadmin create {name} 128K --persist fof")
    sh(machine, "pmadmin create blocks 1M --block 4096 --persist fof")
    sh(machine, "pmadmin create dax 16M --persist fof && pmadmin ramdisk add dax")
    sh(machine, "mkfs.ext4 -q -b 4096 /dev/pmrd0 && mkdir -p /mnt/pm")
    sh(machine, "mount -o dax=always /dev/pmrd0 /mnt/pm && sync")
    if mutant:
        sh(machine, f"echo {mutant} >/sys/module/pmcore/parameters/mutant")


def work_over_the_end(machine: Machine) -> None:
    argv = machine.guest.command_line("cd /root && python3 pm-promise.py")
    child = spawn(argv, cwd=machine.files.directory, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stdout.readline() == "earlier\n"
        end_promise(machine)
        child.stdin.write("\n")
        child.stdin.flush()
        assert child.stdout.readline() == "durable\n"
        cut(machine)
    finally:
        end(child)


def check(machine: Machine) -> None:
    load(machine, source="")
    assert not status(machine)["damaged"]
    sh(machine, "pmadmin ramdisk add dax && mkdir -p /mnt/pm")
    look = f"mount -o dax=always /dev/pmrd0 /mnt/pm && cd /root && python3 -c '{COUNT}'"
    found = sh(machine, look, check=False)
    if not found.ok:
        raise BrokenError("promises-broken", found.stderr)
    *kept, loose, late = map(int, found.stdout.split())
    if kept != [LINES] * len(kept) or loose != LINES:
        raise BrokenError("promises-broken", f"of {LINES} lines each: {kept}, {loose}")
    assert late < LINES, "nothing was lost: the caches are not volatile"


def test_segments_are_written_back_and_flush_when_the_promise_ends() -> None:
    with promised("pmp", mutants=False) as machine:
        prepare(machine, "")
        work_over_the_end(machine)
        check(machine)


@pytest.mark.soak
@pytest.mark.parametrize("name", ["fof-forever", "fof-not-settled"])
def test_bug_is_found(name: str) -> None:
    with promised(f"pmp-{name}", mutants=True) as machine:
        prepare(machine, name)
        work_over_the_end(machine)
        with pytest.raises(BrokenError) as broken:
            check(machine)
        assert broken.value.verdict == "promises-broken"


STORE = """
import os
file = os.open("/dev/pm/written", os.O_RDWR)
os.write(file, b"%s".ljust(64, b".") * %d)
os.fsync(file)
"""


def leave(machine: Machine, way: str, word: str, mutant: str = "") -> None:
    """Acknowledge stores by the promise, leave the module or the kernel, and cut the power."""
    assert status(machine)["fof"], "a Stop is armed and fits the hold-up"
    if mutant:
        sh(machine, f"echo {mutant} >/sys/module/pmcore/parameters/mutant")
    sh(machine, f"python3 -c '{STORE % (word, LINES)}'")
    if way == "halt":
        halt(machine)
    else:
        unload(machine)
        end_promise(machine)
    cut(machine)
    load(machine, source="")
    found = int(sh(machine, f"grep -ao '{word}' /dev/pm/written | wc -l").stdout)
    if found != LINES:
        raise BrokenError("promises-broken", f"{way}: {found} of {LINES} lines")


def make_written(machine: Machine) -> None:
    load(machine, "format=1", source="")
    sh(machine, "pmadmin create written 128K --persist fof")


@pytest.mark.in_turn
def test_nothing_is_left_in_the_caches() -> None:
    with promised("pmq", mutants=False) as machine:
        make_written(machine)
        leave(machine, "unload", "earlier!")
        leave(machine, "halt", "durable!")


@pytest.mark.soak
@pytest.mark.parametrize("way", ["unload", "halt"])
def test_what_is_left_in_the_caches_is_found(way: str) -> None:
    with promised(f"pmq-{way}", mutants=True) as machine:
        make_written(machine)
        with pytest.raises(BrokenError) as broken:
            leave(machine, way, "earlier!", "fof-left-behind")
        assert broken.value.verdict == "promises-broken"
