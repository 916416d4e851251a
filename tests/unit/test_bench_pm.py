# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Requirements of `rem bench pm`: a figure at its limit passes, one beyond it is named."""

from __future__ import annotations

import pytest

from lab.bench.pm import missed
from lab.result import Result

AT_LIMIT = {
    "ramd_read_vs_brd": (1.05, 1.06),
    "ramd_write_vs_btt": (1.5, 1.49),
    "transaction_vs_copy_and_crc": (2.0, 2.01),
    "mapped_vs_plain": (1.02, 1.03),
    "create_destroy_ratio": (1.05, 1.06),
}


def measured(beyond: str = "") -> Result:
    result = Result("bench-pm")
    for name, (good, bad) in AT_LIMIT.items():
        result.add(name, bad if name == beyond else good, "ratio", "modelled")
    return result


def test_figures_at_their_limits_will_do() -> None:
    assert missed(measured()) == []


@pytest.mark.parametrize("name", AT_LIMIT)
def test_figure_beyond_its_limit_is_named(name: str) -> None:
    assert missed(measured(name)) == [f"{name} is {AT_LIMIT[name][1]}"]
