# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: a cut at any instruction of Stop ends in a resume or in a cold boot with its reason; what
fsync had made durable is there; nothing hangs (invariants 1, 3 and 4).

Method: a resumed guest appends numbers to a file with fsync; PWR_OK drops; the plugin kills QEMU a
number of instructions after a function of Stop is reached. Before the commit the record must not be
enterable, after it it must be. A boot that does not decide or does not come up within its limit of
guest time is a HangError.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from lab.machine.console import kernel_warnings
from lab.machine.cut_plan import CutPlan
from tests.support.trials import Bed, Writer, bed, tier

ACKED_BEFORE = 3


@dataclass(frozen=True)
class Place:
    """A number of instructions after *symbol* is reached, on the CPU that reaches it first."""

    symbol: str
    insns: int

    def __str__(self) -> str:
        return f"{self.symbol}+{self.insns}"


# In the order of Stop; the last number of each is shortly before the next function.
INSNS = {
    "rem_stop_begin": (0, 20, 80, 200, 400, 800, 1600),
    "rem_park_cpu": (0, 10, 40, 100, 300, 1000),
    "rem_park_halt": (0, 5, 20, 60, 150),
    "rem_devices_stop": (0, 50, 200, 500, 1000, 2000, 3500),
    "rem_interrupts_save": (0, 100, 300, 600, 1000, 1800),
    "rem_record_commit": (0, 5, 20, 60, 150, 300, 600, 900, 1300, 1800, 2400, 3000, 3600, 4200),
    "rem_power_report_stopped": (0, 1, 3, 8, 15),
}
SYMBOLS = tuple(INSNS)
COMMIT, AFTER_COMMIT = "rem_record_commit", "rem_power_report_stopped"
PLACES = [Place(symbol, n) for symbol, numbers in INSNS.items() for n in numbers]
FULL_PLACES = 4
# Of the Stops by Linux's device suspend; in sng the CPUs park as in the fast one.
PORTABLE_PLACES = [
    *(Place("rem_stop_dpm", n) for n in (0, 1000, 30000, 200000, 1000000)),
    *(Place(COMMIT, n) for n in (0, 300, 3000)),
    Place(AFTER_COMMIT, 0),
]
PARK_PLACES = [Place("rem_park_cpu", n) for n in (0, 100)] + [Place("rem_park_halt", 0)]
PORTABLE = [
    *(("dpm", place) for place in PORTABLE_PLACES),
    *(("sng", place) for place in [*PORTABLE_PLACES, *PARK_PLACES]),
]


def test_there_are_50_places() -> None:
    assert len(PLACES) == 50


@pytest.fixture(scope="module")
def it() -> Iterator[Bed]:
    with bed("cut-stop", SYMBOLS) as it:
        yield it


@pytest.fixture(scope="module", params=["dpm", "sng"])
def portable(request: pytest.FixtureRequest) -> Iterator[Bed]:
    symbols = ("rem_stop_dpm", COMMIT, AFTER_COMMIT)
    if request.param == "sng":
        symbols += ("rem_park_cpu", "rem_park_halt")
    with bed(f"cut-{request.param}", symbols, stop_mode=request.param) as it:
        yield it


def committed(it: Bed) -> bool:
    """Whether the record could be entered now."""
    record = it.record()
    newest = max((slot.commit.sequence or 0) for slot in record.slots)
    return newest > (record.consumed.sequence or 0)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("place", "to_guest"), tier(PLACES, FULL_PLACES))
def test_cut_in_stop_resumes_or_cold_boots_with_a_reason(
    it: Bed, place: Place, to_guest: bool
) -> None:
    def cut() -> None:
        it.cut_at(place.symbol, place.insns)
        it.machine.supply.set_power_ok(False)
        it.wait_end()
        assert it.was_cut(), f"the Stop ended before {place}: nothing was cut"
        if place.symbol == AFTER_COMMIT:
            assert committed(it), "sent STOPPED before the commit"
        elif place.symbol != COMMIT:
            assert not committed(it), "could be entered before its commit"

    play(it, cut, to_guest)


@pytest.mark.full
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "hold_up_us", [0, *(pytest.param(us, marks=pytest.mark.in_turn) for us in (500, 2000, 4000))]
)
def test_hold_up_too_short_resumes_or_cold_boots_with_a_reason(it: Bed, hold_up_us: int) -> None:
    """The cut as a supply makes it: PWR_OK drops, and the power fails at the end of the hold-up."""

    def cut() -> None:
        record = it.machine.cut(CutPlan(hold_up_ns=hold_up_us * 1000))
        assert committed(it) or not record.stopped, "sent STOPPED before the commit"
        assert hold_up_us > 0 or not record.stopped, "the Stop had ended: nothing was cut"

    play(it, cut, to_guest=True)


@pytest.mark.soak
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("portable", "place"), PORTABLE, ids=str, indirect=["portable"])
def test_cut_in_a_portable_stop_does_so_too(portable: Bed, place: Place) -> None:
    def cut() -> None:
        portable.cut_at(place.symbol, place.insns)
        portable.machine.supply.set_power_ok(False)
        portable.wait_end()
        assert portable.was_cut(), f"the Stop ended before {place}: nothing was cut"
        if place.symbol == AFTER_COMMIT:
            assert committed(portable), "sent STOPPED before the commit"
        elif place.symbol != COMMIT:
            assert not committed(portable), "could be entered before its commit"

    play(portable, cut, to_guest=True)


def play(it: Bed, cut: Callable[[], None], to_guest: bool) -> None:
    """Resume, write, *cut*; then the next boot does what the record requires, without loss."""
    it.restore()
    before = it.resume()
    writer = Writer(it.machine)
    try:
        writer.wait(ACKED_BEFORE)
        cut()
        enterable = committed(it)
        if enterable:
            assert it.resume().sequence == before.sequence + 1
            writer.wait(ACKED_BEFORE)  # the same process continues, over the same connection
    finally:
        writer.close()
    if not enterable:
        assert it.cold_boot(to_guest).reason == "COLD_ALREADY_CONSUMED"
    if enterable or to_guest:
        writer.check(it.machine)
        assert it.kept()
        assert it.last_boot() == ("resume" if enterable else "already-consumed")
    assert kernel_warnings(it.machine.console.text()) == []
