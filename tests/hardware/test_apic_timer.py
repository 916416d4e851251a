# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: the frequency of the local APIC timer that the command line gives is the one that the
kernel would measure, and is taken instead of measuring it. One that no timer can have is refused.

Method: what the kernel logs with apic=verbose, under icount, where the measurement does not depend
on the host. Negative proof: a boot without the word measures.
"""

from __future__ import annotations

import re

import pytest

from tests.support.claims import booted
from tests.support.cmdline import leave_out

WORD = "lapic_timer_khz"
GIVEN = "lapic timer already calibrated 1000000"  # of the bus in each tick, of 1 ms
MEASURED = re.compile(r"calibration result: (\d+)")
TOLERANCE = 0.001
REFUSED = ("999", "4294968", "fast")

pytestmark = [pytest.mark.full, pytest.mark.in_turn]


def log_of_boot(words: str) -> str:
    with booted("apic", 1, "fast", icount=True, cmdline_extra=f"apic=verbose {words}") as machine:
        return machine.run_in_guest("dmesg").stdout


def test_given_frequency_is_taken() -> None:
    log = log_of_boot("")
    assert GIVEN in log
    assert not MEASURED.search(log)


def test_measured_frequency_is_the_given_one(monkeypatch: pytest.MonkeyPatch) -> None:
    leave_out(monkeypatch, WORD)
    log = log_of_boot("")
    assert GIVEN not in log
    measured = MEASURED.search(log)
    assert measured
    assert int(measured[1]) == pytest.approx(1_000_000, rel=TOLERANCE)


def test_frequency_that_no_timer_has_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    leave_out(monkeypatch, WORD)
    log = log_of_boot(" ".join(f"{WORD}={value}" for value in REFUSED))
    assert log.count(f"Malformed early option '{WORD}'") == len(REFUSED)
    assert MEASURED.search(log)
