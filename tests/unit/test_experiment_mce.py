# SPDX-License-Identifier: Apache-2.0 OR MIT
"""lpc-mce: rates by hand, and what would be red.

Goal: the formula is the binomial distribution, and neither a machine that loses more than a page
nor a decoder that disagrees with the formula passes. Method: small numbers that can be added up;
raw results made up, first as they should be, then with one of them wrong.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from lab.experiment.run import Experiment
from tests.support.verdicts import counted, verdict

NAME = "lpc-mce"
LINES = 1_000_000


def module() -> Any:
    return Experiment.load(NAME).module


def raw() -> dict[str, Any]:
    simulated = [
        {"raw_ber": rate, "second_code": second, "lines": LINES, "silent": 0,
         "contained": round(LINES * module().lost(rate, second))}
        for rate in (1e-3, 3e-3)
        for second in (False, True)
    ]  # fmt: skip
    well = {"victim": -7, "corrupted_kib": 4}
    machine = {
        "load": dict(well),
        "scrub": dict(well),
        "go": {"resumed": True, "corrupted_kib": 8, "state": "armed"},
        "reset": {"cold": True, "corrupted_kib": 0, "state": "armed"},
    }
    return {"simulated": simulated, "machine": machine}


def test_more_than_some_of_a_few_bits_is_what_is_left_of_one() -> None:
    few = sum(math.comb(8, k) * 0.1**k * 0.9 ** (8 - k) for k in range(3))
    assert module().more_than(2, 8, 0.1) == pytest.approx(1 - few)
    assert module().more_than(0, 1, 1e-6) == pytest.approx(1e-6)


def test_a_line_is_lost_with_two_pieces_or_with_three_of_four() -> None:
    wrong = module().more_than(0, module().PIECE_BITS, 1e-3)
    assert module().lost(1e-3, False) == pytest.approx(3 * wrong**2 * (1 - wrong) + wrong**3)
    assert module().lost(1e-3, True) == pytest.approx(4 * wrong**3 * (1 - wrong) + wrong**4)
    assert module().lost(1e-3, False, 4) < module().lost(1e-3, False) / 1e6


def test_rate_of_a_code_gives_its_uber() -> None:
    rate = module().rate_of_bits(8, 1e-19)
    bits = module().LINE_BITS + 8 * module().BCH_BITS
    assert module().more_than(8, bits, rate) / module().LINE_BITS == pytest.approx(1e-19, rel=1e-3)


def test_results_as_they_should_be_pass_with_the_accepted_deviation() -> None:
    result = verdict(NAME, raw())
    assert result.ok
    assert counted(result) == (1, 0)


def no_signal(found: dict[str, Any]) -> None:
    found["machine"]["load"]["victim"] = 0


def two_pages(found: dict[str, Any]) -> None:
    found["machine"]["scrub"]["corrupted_kib"] = 8


def page_in_use_again(found: dict[str, Any]) -> None:
    found["machine"]["go"]["corrupted_kib"] = 0


def no_reset(found: dict[str, Any]) -> None:
    found["machine"]["reset"]["cold"] = False


def silent(found: dict[str, Any]) -> None:
    found["simulated"][0]["silent"] = 1


def lenient_decoder(found: dict[str, Any]) -> None:
    found["simulated"][1]["contained"] = 0


@pytest.mark.parametrize(
    "wrong", [no_signal, two_pages, page_in_use_again, no_reset, silent, lenient_decoder]
)
def test_what_is_wrong_is_red(wrong: Callable[[dict[str, Any]], None]) -> None:
    found = raw()
    wrong(found)
    assert not verdict(NAME, found).ok
