# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: on a processor whose row is out of order, a program's loads overlap as far as its fill
buffers go, and never further; in order, or with one buffer, each waits for its line.

Method: rem-latency's chain through memory. The model takes its loads to be independent, so the
chain shows both bounds: in order its loads take what the controller takes, out of order at least
that over the number of buffers. Negative proof: with 48 buffers they take less than 12 allow.
"""

from __future__ import annotations

import pytest

from lab.experiment.xeon import IN_ORDER, XEON, Place, booted
from lab.media.engine import idle_read_ps
from lab.testbed.guest_job import PROGRAM_DIR, numbers_in
from lab.verdict import BrokenError
from tests.support.claims import machine_name

BYTES = 96 << 20  # more than twice the last level
LOADS = 200_000
BUFFERS = 12  # the row's
TOLERANCE = 0.1

pytestmark = [pytest.mark.full, pytest.mark.timeout(900)]


def load_ps(caches: str) -> float:
    """What a load of the chain takes on DRAM."""
    with booted(Place("dram", 1, caches), machine_name("window")) as machine:
        words = f"{PROGRAM_DIR}/rem-latency --bytes {BYTES} --threads 1 --loads {LOADS}"
        return float(numbers_in(machine.run_in_guest(words, limit_s=300).stdout)["load_ps"])


def check_buffers(took_ps: float) -> None:
    """Inner check: no more lines under way than there are buffers."""
    least_ps = idle_read_ps("dram") / BUFFERS
    if took_ps < least_ps * (1 - TOLERANCE):
        raise BrokenError("too-many-misses", f"{took_ps} ps a load, {BUFFERS} buffers: {least_ps}")


@pytest.mark.in_turn
def test_loads_lie_between_in_order_and_the_limit_of_buffers() -> None:
    one_after_another_ps = idle_read_ps("dram")
    assert load_ps(IN_ORDER) == pytest.approx(one_after_another_ps, rel=TOLERANCE)
    assert load_ps(f"{XEON}:fill_buffers=1") == pytest.approx(one_after_another_ps, rel=TOLERANCE)
    took_ps = load_ps(XEON)
    check_buffers(took_ps)
    assert took_ps < one_after_another_ps / 4


@pytest.mark.in_turn
def test_more_buffers_than_the_rows_are_found() -> None:
    with pytest.raises(BrokenError) as found:
        check_buffers(load_ps(f"{XEON}:fill_buffers=48"))
    assert found.value.verdict == "too-many-misses"
