# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: with copies of mapped pages in DRAM programs find in their mappings what the files have:
while they change, are cut, or their pages move, and over Stop and Go.

Method: a program that knows what each page of its files has to hold, from the number of the round
alone (lab/testbed/mapped_pages.c). Negative proofs: test_mixed_planted.py.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.machine import Machine
from lab.testbed.mixed_checks import CACHE_BYTES, Check, cut_and_resume, rule_holds
from lab.testbed.mixed_guest import (
    BIN,
    PAGE_BYTES,
    PROGRAMS,
    counts,
    mixed_guest,
    wait_count,
)
from lab.testbed.mixed_map_checks import MAP_CHECKS, PAGES, mapping
from lab.testbed.pm_guest import kernel_complaints, sh
from tests.support.claims import machine_name

pytestmark = [pytest.mark.full, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    with mixed_guest(machine_name("mixed-mapped"), CACHE_BYTES, programs=PROGRAMS) as made:
        yield made


@pytest.mark.in_turn
@pytest.mark.parametrize("check", MAP_CHECKS, ids=[check.__name__ for check in MAP_CHECKS])
def test_rule_of_mappings_holds(machine: Machine, check: Check) -> None:
    rule_holds(machine, check)


@pytest.mark.in_turn
def test_text_of_programs_comes_to_dram(machine: Machine) -> None:
    """Programs that live for a moment run from copies that others have made hot."""
    before = counts(machine)
    loop = "while :; do gcc -O1 -c -x c /dev/null -o /tmp/empty.o || exit 1; done"
    sh(machine, f"setsid sh -c '{loop}' >/dev/null 2>&1 </dev/null & echo $! >/run/loop")
    try:
        wait_count(machine, "file_mapped", before["file_mapped"] + 2000)
    finally:
        sh(machine, "kill $(cat /run/loop)")
    assert not kernel_complaints(machine)


@pytest.mark.in_turn
def test_what_the_kernel_tells_of_a_mapping_is_as_before(machine: Machine) -> None:
    """Its resident set has the pages, and they are given back as they were taken."""
    with mapping(machine, "mapped-told") as one:
        pid = f"$(pgrep -o -f '^{BIN}/{one.program} ')"
        text = sh(machine, f"awk '/^RssFile:/ {{print $2}}' /proc/{pid}/status").stdout
        # Two mappings of all of the file, and most of a third one.
        assert int(text) * 1024 >= 2 * PAGES * PAGE_BYTES
    assert "Bad page" not in sh(machine, "dmesg").stdout
    assert "BUG: " not in sh(machine, "dmesg").stdout


# Hard faults of a process that reads each page of a file by a mapping of its own.
HARD_FAULTS = f"""
import mmap, resource
with open("/root/lazy", "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as pages:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_majflt
    sum(pages[at] for at in range(0, len(pages), {PAGE_BYTES}))
    print(resource.getrusage(resource.RUSAGE_SELF).ru_majflt - before)
"""


def hard_faults(machine: Machine) -> int:
    return int(sh(machine, f"python3 - <<'EOF'\n{HARD_FAULTS}EOF").stdout)


@pytest.mark.in_turn
def test_files_in_nvram_are_mapped_without_hard_faults_after_a_power_failure(
    machine: Machine,
) -> None:
    """The page cache outlives the power. A machine that has lost it reads its disk again."""
    sh(machine, "head -c 8M /dev/urandom >/root/lazy && sync")
    assert hard_faults(machine) == 0
    cut_and_resume(machine)
    assert hard_faults(machine) == 0
    sh(machine, "echo 3 >/proc/sys/vm/drop_caches")
    assert hard_faults(machine) > 0
