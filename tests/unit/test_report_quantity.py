# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Figures on the page of `rem report` are shortened, but never to another value or unit."""

from __future__ import annotations

from typing import Any

import pytest

from lab.docs.marks import values_only
from lab.evaluation.quantity import paper_value, quantity, tolerance, unit_of
from lab.experiment.expected import Expected
from lab.result import Figure


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (2_903_552, "ns", "2.904 ms"),
        (999, "ns", "999 ns"),
        (1_500_000_000, "ns", "1.5 s"),
        (162_861.75, "ns", "162.9 µs"),
        (19_700_000, "uJ", "19.7 J"),
        (350, "uJ", "350 µJ"),
        (20_000, "mW", "20 W"),
        (19_000_000, "cycles", "19 M cycles"),
        (1_071_644_672, "bytes", "1,071,644,672 bytes"),
        (2.4531542254718586, "x", "2.453×"),
        (19.5034868, "%", "19.5%"),
        (0.000123456, "", "0.0001235"),
        (0.0, "", "0"),
        (1e-12, "", "1.00e-12"),
        (float("inf"), "", "inf"),
        (-1234.5678, "", "-1,235"),
        (7, "1", "7"),
        (0.881, "ratio", "0.881"),
        (0.97, "of ideal", "0.97 of ideal"),
        (True, "", "yes"),
        ("80000 ns a read", "", "80000 ns a read"),
    ],
)
def test_quantity(value: Any, unit: str, shown: str) -> None:
    assert quantity(value, unit).replace("\xa0", " ") == shown


@pytest.mark.parametrize(
    ("given", "value", "reach"),
    [
        ({"paper": 2_800_000, "tolerance_percent": 25}, "2.8 ms", "±25%"),
        ({"paper": [8_600_000, 10_500_000]}, "8.6 ms to 10.5 ms", "range"),
        ({"at_most": 16_000_000}, "at most 16 ms", "limit"),
        ({"at_least": 33_000_000}, "at least 33 ms", "limit"),
        ({"paper": "wrf"}, "wrf", "the same word"),
    ],
)
def test_paper_value(given: dict[str, Any], value: str, reach: str) -> None:
    expected = Expected.of(given)
    assert paper_value(expected, "ns").replace("\xa0", " ") == value
    assert tolerance(expected) == reach


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("stop_ns", "ns"),
        ("save_uj, 8 misses", "uJ"),
        ("load_hits_percent", "%"),
        ("mean_ratio", ""),
    ],
)
def test_unit_of_a_value_that_was_not_measured_is_in_its_name(name: str, unit: str) -> None:
    assert unit_of(name, None) == unit
    assert unit_of(name, Figure(1, "pJ", "modelled")) == "pJ"


def test_marks_are_removed_and_figures_stay() -> None:
    text = '<!--fig a.b ms.2-->2.96\xa0ms<!--/fig-->, <!--fig a."c, d"-->1<!--/fig-->.\n'
    assert values_only(text) == "2.96\xa0ms, 1.\n"
