# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: with a kernel that has tracepoints, what comes to DRAM and what leaves it can be watched:
each move with its page, its frame, and the reason.

Method: the kernel of kernel/config/tracing.config; events are read through tracefs while a program
works, and are compared with the counts.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from lab.machine import Machine
from lab.machine.qemu import NVRAM_PHYS
from lab.setup.kernel import TRACING
from lab.setup.products import Kernel, need
from lab.testbed.mixed_checks import CACHE_BYTES, FITS, TOO_MANY, empty, fill, goes_on, working
from lab.testbed.mixed_guest import (
    PAGE_BYTES,
    PROGRAMS,
    choose_rule,
    counts,
    mixed_guest,
    wait_count,
)
from lab.testbed.mixed_map_checks import mapping
from lab.testbed.pm_guest import sh
from tests.support.claims import machine_name, warnings

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]

TRACE = "/sys/kernel/tracing"
EVENTS = {
    "dram_promote",
    "dram_demote",
    "dram_level",
    "dram_clean",
    "dram_new",
    "dram_copy",
    "dram_map",
    "dram_end",
}
LINE = re.compile(r" (\w+): pfn=0x([0-9a-f]+) frame=0x([0-9a-f]+) reason=(\w+)$")


class Event(NamedTuple):
    """One line of the trace."""

    name: str
    pfn: int
    frame: int
    reason: str


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    kernel = need(Kernel(TRACING)).bz_image
    name = machine_name("mixed-trace")
    with mixed_guest(name, CACHE_BYTES, kernel=kernel, programs=PROGRAMS) as made:
        sh(made, f"mkdir -p {TRACE}; mount -t tracefs none {TRACE} 2>/dev/null; ls {TRACE}/events")
        yield made


def begin(machine: Machine) -> None:
    sh(
        machine,
        f"echo 0 >{TRACE}/tracing_on; echo >{TRACE}/trace; echo 8192 >{TRACE}/buffer_size_kb;"
        f" echo 1 >{TRACE}/events/rem_dram/enable; echo 1 >{TRACE}/tracing_on",
    )


def end(machine: Machine) -> list[Event]:
    sh(machine, f"echo 0 >{TRACE}/tracing_on; echo 0 >{TRACE}/events/rem_dram/enable")
    text = sh(machine, f"cat {TRACE}/trace").stdout
    found = [LINE.search(line) for line in text.splitlines() if "pfn=" in line]
    assert all(found), text[-2000:]
    return [Event(line[1], int(line[2], 16), int(line[3], 16), line[4]) for line in found if line]


def test_each_event_can_be_switched(machine: Machine) -> None:
    names = sh(machine, f"cd {TRACE}/events/rem_dram && ls -d */").stdout.split()
    assert {name.rstrip("/") for name in names} == EVENTS


def test_anonymous_pages_are_traced_as_they_are_counted(machine: Machine) -> None:
    begin(machine)
    before = counts(machine)
    with working(machine, "traced", children=0) as one:
        empty(machine)
        fill(machine)
        wait_count(machine, "promoted", before["promoted"] + FITS // 8)
        goes_on(one, 4)
        sh(machine, f"echo 0 >{TRACE}/tracing_on")
        events = end(machine)
    kinds = Counter(event.name for event in events)
    assert kinds["dram_promote"] >= FITS // 8
    # The pages of the program, of which each began there, and went home once.
    assert kinds["dram_new"] >= FITS // 2 and kinds["dram_demote"] >= FITS // 8
    assert kinds["dram_clean"] >= FITS // 8
    assert {event.reason for event in events if event.name == "dram_new"} == {"fault"}
    assert {event.reason for event in events if event.name == "dram_promote"} == {"scan"}
    first = NVRAM_PHYS // PAGE_BYTES
    assert all(event.pfn >= first > event.frame for event in events)
    places = {event.pfn: event.frame for event in events if event.name == "dram_promote"}
    homes = [event for event in events if event.name == "dram_clean" and event.pfn in places]
    assert homes, "no page was cleaned that had come"


def test_reasons_are_those_of_the_rule(machine: Machine) -> None:
    """Under a rule that marks pages they come as they are used, and leave for room."""
    choose_rule(machine, "numa")
    begin(machine)
    before = counts(machine)
    with working(machine, "traced-numa", hot=TOO_MANY, pages=2 * TOO_MANY):
        for count in ("promoted", "demoted"):
            wait_count(machine, count, before[count] + FITS // 8)
        events = end(machine)
    choose_rule(machine, "heat")
    assert "use" in {event.reason for event in events if event.name == "dram_promote"}
    assert {event.reason for event in events if event.name == "dram_demote"} == {"room"}


def test_copies_of_files_are_traced(machine: Machine) -> None:
    begin(machine)
    with mapping(machine, "traced-files") as one:
        goes_on(one, 24)
        events = end(machine)
    kinds = Counter(event.name for event in events)
    assert kinds["dram_copy"] and kinds["dram_map"] and kinds["dram_end"]
    ends = {event.reason for event in events if event.name == "dram_end"}
    assert ends & {"writes", "changes"}, ends
    assert not warnings(machine)
