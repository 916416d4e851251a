# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: a program that was bound starts without a read of the disk, also after a reset, and is the
same program: its owner, mode, attributes and output. Installing and removing go on to work.

Negative proof: the same start of the same program when it is not bound.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from lab.machine import Machine
from lab.testbed.off2f_guest import STORE, forget, guest_with_store, measure, mount
from lab.testbed.pm_guest import kernel_complaints, reset, sh

# Each in a folder of its own, whose name is forgotten with it.
ELF = "/root/static"  # what it reads is its own
PROGRAM, OTHER = "/root/one/program", "/root/two/program"
SET_ATTRIBUTE = 'python3 -c \'import os, sys; os.setxattr(sys.argv[1], "user.a", b"b")\''
GET_ATTRIBUTE = "python3 -c 'import os, sys; print(os.getxattr(sys.argv[1], \"user.a\"))'"
ID = "stat -c '%u %g %a'"

pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    with guest_with_store(f"t-offb-{os.getpid()}") as machine:
        sh(machine, f"python3 /root/off2f-nops.py 65536 {ELF}")
        for program in (PROGRAM, OTHER):
            sh(machine, f"mkdir -p $(dirname {program}) && cp {ELF} {program}")
        sh(machine, f"chown 1:2 {PROGRAM}; chmod 4755 {PROGRAM}; {SET_ATTRIBUTE} {PROGRAM}")
        sh(machine, f"off2f install {PROGRAM} {OTHER} --store {STORE}; sync")
        yield machine
        assert not kernel_complaints(machine)


def off2f(machine: Machine, words: str) -> str:
    return sh(machine, f"off2f {words} --store {STORE}").stdout.strip()


def reads_of_a_cold_start(machine: Machine, program: str) -> int:
    forget(machine)
    measure(machine, "/bin/true")  # off2f-run's own pages are cached again
    return measure(machine, program)["disk_reads"]


def test_bound_program_starts_without_the_disk(machine: Machine) -> None:
    shown = f"{ID} {PROGRAM}; {GET_ATTRIBUTE} {PROGRAM}; {PROGRAM}"
    before = sh(machine, shown).stdout
    assert reads_of_a_cold_start(machine, PROGRAM) > 0, "the negative proof"
    assert off2f(machine, f"bind {PROGRAM}") == "1 programs start without the disk"
    assert reads_of_a_cold_start(machine, PROGRAM) == 0
    assert reads_of_a_cold_start(machine, OTHER) > 0, "this one was not asked for"
    assert sh(machine, shown).stdout == before
    assert off2f(machine, "bind") == "2 programs start without the disk"
    assert reads_of_a_cold_start(machine, OTHER) == 0
    assert off2f(machine, "unbind") == "2 programs start from the disk again"
    assert reads_of_a_cold_start(machine, PROGRAM) > 0


def test_program_that_was_replaced_is_bound_as_it_is_now(machine: Machine) -> None:
    off2f(machine, "bind")
    sh(machine, f"cp {ELF} /root/new && chmod 711 /root/new && ! mv /root/new {PROGRAM}")
    off2f(machine, f"install /root/new --to {PROGRAM}")
    assert sh(machine, f"{ID} {PROGRAM}").stdout.split()[-1] == "711"
    assert off2f(machine, "bind") == "2 programs start without the disk"
    assert sh(machine, f"{ID} {PROGRAM}").stdout.split()[-1] == "711"
    off2f(machine, "unbind")
    sh(machine, f"cp /bin/true {PROGRAM}.elf && mv {PROGRAM}.elf {PROGRAM}")
    assert off2f(machine, "bind") == "1 programs start without the disk", "an ELF now"
    off2f(machine, f"install {PROGRAM}")
    assert off2f(machine, "bind") == "2 programs start without the disk"
    assert "not in" in sh(machine, f"off2f bind /bin/true --store {STORE} 2>&1; true").stdout


def test_bound_again_after_a_reset(machine: Machine) -> None:
    off2f(machine, "bind")
    sh(machine, "sync")
    reset(machine, "b")
    mount(machine)
    assert off2f(machine, "bind") == "2 programs start without the disk"
    assert reads_of_a_cold_start(machine, OTHER) == 0
    sh(machine, OTHER)


def test_removed_program_leaves_no_copy(machine: Machine) -> None:
    off2f(machine, "bind")
    off2f(machine, f"remove {OTHER} --restore")
    sh(machine, f"cmp {OTHER} {ELF}")
    assert sh(machine, f"ls {STORE}/abc | wc -l").stdout.strip() == "1"
    off2f(machine, "unbind")
    sh(machine, f"rm {PROGRAM}")
    assert off2f(machine, "clean") == "2 texts, 2 users, 0 unfinished files, 1 copies"
