# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: an unannounced cut at any instruction of Go ends in a resume if the image was not consumed
yet, and otherwise in a cold boot with that reason; durable data is there; nothing hangs, and no
image is entered twice (invariants 2, 3 and 4).

Method: the plugin kills QEMU a number of instructions after the loader or the resumed kernel
reaches a function. Then the consumed word in NVRAM determines what the next boot must do.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from lab.machine.console import kernel_warnings
from tests.support.claims import ARCH
from tests.support.trials import Bed, bed, tier


@dataclass(frozen=True)
class Place:
    """A number of instructions after *symbol* is reached, on the CPU that reaches it first."""

    symbol: str
    insns: int

    def __str__(self) -> str:
        return f"{self.symbol}+{self.insns}"


ENTRY = "loader_direct" if ARCH == "x86_64" else "loader_main"
# In the order of Go. On x86-64 the loader takes about 130,000 instructions until it consumes.
INSNS = {
    ENTRY: (0, 10, 300, 3000, 20000, 45000, 70000, 90000, 105000, 115000, 125000),
    "power_wait": (0, 40, 200),
    "consume": (0, 4, 8, 12, 16, 20, 30, 60),
    "image_enter": (0, 3, 10, 20, 40, 80, 200, 500),
    "rem_go_begin": (0, 100, 1000, 4000, 12000, 25000),
    "rem_devices_go": (0, 500, 2000, 5000, 12000, 30000, 80000),
    "rem_go_finish": (0, 200, 1000, 5000, 20000, 60000, 200000),
}
SYMBOLS = tuple(INSNS)
PLACES = [Place(symbol, n) for symbol, numbers in INSNS.items() for n in numbers]
FULL_PLACES = 4
BEFORE = {ENTRY, "power_wait"}
AFTER = {"image_enter", "rem_go_begin", "rem_devices_go", "rem_go_finish"}


def test_there_are_50_places_in_go() -> None:
    assert len(PLACES) == 50


@pytest.fixture(scope="module")
def it() -> Iterator[Bed]:
    with bed("cut-go", SYMBOLS) as it:
        yield it


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("place", "to_guest"), tier(PLACES, FULL_PLACES))
def test_cut_in_go_resumes_or_cold_boots_with_a_reason(
    it: Bed, place: Place, to_guest: bool
) -> None:
    it.restore()
    image = it.record().newest
    assert image is not None and image.state == "ready"
    it.power_on_paused()
    it.cut_at(place.symbol, place.insns)
    it.wait_end()
    assert it.was_cut(), "the machine went off by itself"
    consumed = it.record().consumed.sequence == image.commit.sequence
    assert consumed or place.symbol not in AFTER, "entered, and not consumed"
    assert not consumed or place.symbol not in BEFORE, "consumed before the power was checked"
    if consumed:
        note = it.cold_boot(to_guest)
        assert note.reason == "COLD_ALREADY_CONSUMED"
    else:
        note = it.resume()
    assert note.sequence == image.commit.sequence
    if to_guest or not consumed:
        assert it.kept()
        assert it.last_boot() == ("already-consumed" if consumed else "resume")
    assert kernel_warnings(it.machine.console.text()) == []
