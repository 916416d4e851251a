# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: code of ours has no data race: no two CPUs access the same memory at the same time, one
of them writing, unless both accesses are marked as meant so.

Method: the kernel of kernel/config/races.config (KCSAN, strict: barriers count, too) is cut several
times under load, with fsyncs that end in memory beside it, and with DRAM as a cache; no report
names a function of ours. The kernel's own races are counted and printed, but are no failure. The
negative proof: a counter that all CPUs change without a lock is reported. CPUs run at the same time
here, each as a thread of the host: with counted instructions they would take turns, and nothing
would race.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pytest

from lab.campaign.record import Patience
from lab.machine import Machine
from lab.setup.products import Kernel, need
from lab.testbed.machines import make_config
from lab.testbed.no_stop import consoles
from lab.testbed.planted import plant
from lab.verdict import DETECTORS
from tests.support.claims import cut_with, machine_name
from tests.support.proofs import planted

CUTS = 5
BOOT_LIMIT_S = 1200.0
REPORT_LIMIT_S = 600.0
LOAD = "while :; do cp /usr/bin/python3* /tmp/; sync; rm /tmp/python3*; done"
FSYNCS = (
    "i=0; while :; do i=$((i+1)); dd if=/dev/zero of=/root/race.$((i%7)) bs=5000 count=9"
    " conv=fsync,notrunc 2>/dev/null; done"
)
TITLE = re.compile(r"BUG: KCSAN: (?:data-race|assert: race) in (\S+)(?: / (\S+))?")
OURS = re.compile(r"rem_|pm_|off2f_")

pytestmark = [pytest.mark.soak, pytest.mark.timeout(7200)]


@pytest.fixture(scope="module")
def racing() -> Iterator[Machine]:
    kernel = need(Kernel("races")).bz_image
    config = make_config(machine_name("races"), 2, "fast", kernel)
    config = replace(config, memtype="mixed", cmdline_extra="remanence.persist=4M")
    with Machine.create(config, destroy_on_exit=True) as machine:
        machine.boot()
        machine.wait_up(BOOT_LIMIT_S)
        yield machine


def cut_and_resume(machine: Machine) -> None:
    cut_with(machine, Patience(), BOOT_LIMIT_S)


def races(text: str) -> Counter[tuple[str, str]]:
    """The pairs of functions that KCSAN reports on a console."""
    return Counter((one, other or "") for one, other in TITLE.findall(text))


def ours(text: str) -> list[tuple[str, str]]:
    return [pair for pair in races(text) if any(map(OURS.match, pair))]


def test_no_race_is_ours(racing: Machine) -> None:
    for load in (LOAD, FSYNCS):
        racing.run_in_guest(
            f"setsid sh -c '{load}' > /dev/null 2>&1 < /dev/null & echo $! >> /run/load"
        )
    for _ in range(CUTS):
        cut_and_resume(racing)
    racing.run_in_guest("for s in $(cat /run/load); do pkill -KILL -s $s; done")
    text = consoles(racing)
    for pair, times in races(text).most_common():
        print(f"{times} x {' / '.join(pair)}")
    assert races(text), "KCSAN reports nothing at all of a whole kernel: is it on?"
    assert ours(text) == []


def test_planted_race_is_reported(racing: Machine) -> None:
    (verdict,) = planted()["watch-race"].verdicts
    assert not re.search(DETECTORS[verdict], consoles(racing))
    plant(racing, "watch-race")
    cut_and_resume(racing)
    assert racing.console is not None
    racing.console.expect(DETECTORS[verdict], REPORT_LIMIT_S)
    assert ours(consoles(racing)), "a test that reads the console would not see it"
