# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Programs of the guest's /usr/bin print the same as OFF2F and as ELF.

Goal: 200 of them, each byte of output and the exit status. Method: all of /usr/bin in turn, until
200 have been compared; one whose output as ELF differs from run to run, or that waits for input,
cannot be compared. A program that is not converted has a reason.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest

from lab.machine import Machine
from lab.testbed.off2f_guest import STORE, guest_with_store
from lab.testbed.pm_guest import kernel_complaints, sh

pytestmark = [pytest.mark.soak, pytest.mark.timeout(7200)]

PROGRAMS = 200
PART = 5  # the limit of one command covers the longest of them
# They would end the guest's own services, or change something without output.
NOT_TRIED = {"redis-server", "memcached"}


def elfs(machine: Machine) -> list[str]:
    """Return the programs, spread by name: neighbours are often of one package."""
    words = "for f in *; do [ -L $f ] || { head -c 4 $f | grep -q ELF && echo $f; }; done; true"
    listed = [n for n in sh(machine, f"cd /usr/bin; {words}").stdout.split() if n not in NOT_TRIED]
    return [name for first in range(3) for name in listed[first::3]]


def compared(machine: Machine) -> Counter[str]:
    found: Counter[str] = Counter()
    names = elfs(machine)
    for start in range(0, len(names), PART):
        paths = " ".join(f"/usr/bin/{name}" for name in names[start : start + PART])
        output = sh(machine, f"cd /tmp; python3 /root/off2f-exec.py same {STORE} {paths}").stdout
        for line in output.splitlines():
            print(line)
            verdict, name, why = line.split(maxsplit=2)
            assert verdict in {"same", "unsteady", "refused"}, line
            assert verdict != "refused" or "is not converted: " in why, line
            found[verdict] += 1
        if found["same"] >= PROGRAMS:
            break
    return found


def test_two_hundred_programs_print_the_same() -> None:
    with guest_with_store(f"t-offp-{os.getpid()}") as machine:
        wrong = f"python3 /root/off2f-exec.py same {STORE} /usr/bin/sort=/usr/bin/ls"
        assert sh(machine, wrong).stdout.split()[0] == "DIFFERS"
        found = compared(machine)
        print(dict(found))
        assert found["same"] >= PROGRAMS, found
        assert not kernel_complaints(machine)
        texts = sh(machine, f"ls {STORE}/text").stdout
        assert not texts, "removed programs left texts behind"
