# SPDX-License-Identifier: Apache-2.0 OR MIT
"""memtest86+ as a guest of `rem-vm`: every byte of its memory is as it left it, after each cut.

Goal: no line of a guest's memory is lost, and the guest need not be Linux. Method: the program
writes patterns into all of its memory and reads them back; the host's power is cut while it does.
Negative proof: a part of its memory is replaced while the host is off, and it reports errors.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.testbed.vm_host import VmHost
from tests.support.vm_memtest import NAME, add_memtest, errors

pytestmark = [pytest.mark.full, pytest.mark.timeout(900)]

REPLACED_MIB = range(8, 40)  # a page of each: clear of the program's own code at both ends
PAGE_BYTES = 4096
CUTS, CUTS_IN_SOAK = 3, 25
RUN_S = 3.0
LIMIT_S = 120.0
FIND_S = 60.0


def wait_drawn(host: VmHost) -> None:
    """It runs: its clock has been drawn since the power came."""
    end_s = time.monotonic() + LIMIT_S
    while not errors(host):
        assert time.monotonic() < end_s, "memtest86+ draws nothing"
        time.sleep(0.2)


@pytest.fixture
def host() -> Iterator[VmHost]:
    with VmHost("test-vm-memtest", debian=False) as host:
        add_memtest(host)
        host.power_on()
        wait_drawn(host)
        yield host


def cut_and_go_on(host: VmHost) -> None:
    time.sleep(RUN_S)
    assert set(errors(host)) == {0}
    assert host.cut().stopped
    assert host.power_on()[NAME]["reason"] == "resume"
    wait_drawn(host)


@pytest.mark.parametrize("cuts", [CUTS, pytest.param(CUTS_IN_SOAK, marks=pytest.mark.soak)])
def test_memory_is_as_it_was_after_each_cut(host: VmHost, cuts: int) -> None:
    for _ in range(cuts):
        cut_and_go_on(host)
    time.sleep(RUN_S)
    assert set(errors(host)) == {0}


def replace_memory(host: VmHost) -> None:
    with Path(host.media / NAME / "ram").open("r+b") as ram:
        for mib in REPLACED_MIB:
            ram.seek(mib << 20)
            ram.write(b"\x5a" * PAGE_BYTES)


def finds_errors(host: VmHost) -> bool:
    end_s = time.monotonic() + FIND_S
    while not any(errors(host)) and time.monotonic() < end_s:
        time.sleep(0.5)
    return any(errors(host))


@pytest.mark.in_turn
def test_memory_that_was_replaced_is_found(host: VmHost) -> None:
    """A pattern that it was about to write all over hides the fault: then another cut follows."""
    for _ in range(CUTS):
        time.sleep(RUN_S)
        assert host.cut().stopped
        replace_memory(host)
        assert host.power_on()[NAME]["reason"] == "resume"
        wait_drawn(host)
        if finds_errors(host):
            return
    raise AssertionError("lost memory was not noticed")
