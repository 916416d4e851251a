# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Figures, the papers' values and deviations as people read them."""

from __future__ import annotations

import math
import re

from lab.experiment.expected import Expected
from lab.result import Figure

DIGITS = 4
GAP = "\N{NO-BREAK SPACE}"
# Larger units, from the largest on: a value is shown in the first that makes it at least 1.
_LARGER = {
    "ns": ((1e9, "s"), (1e6, "ms"), (1e3, "µs")),
    "us": ((1e6, "s"), (1e3, "ms"), (1, "µs")),
    "pJ": ((1e12, "J"), (1e9, "mJ"), (1e6, "µJ"), (1e3, "nJ")),
    "uJ": ((1e6, "J"), (1e3, "mJ"), (1, "µJ")),
    "mW": ((1e3, "W"),),
    "cycles": ((1e9, "G cycles"), (1e6, "M cycles")),
}
_SUFFIXES = {"percent": "%", "uj": "uJ", "pj": "pJ", "mw": "mW", "ns": "ns", "cycles": "cycles"}
_NO_UNIT = ("", "1", "ratio")


def number(value: float) -> str:
    """With as many digits as are worth reading; an integer has all of them."""
    if isinstance(value, int):
        return f"{value:,}"
    if not math.isfinite(value) or value == 0:
        return f"{value:g}"
    decimals = max(DIGITS - 1 - math.floor(math.log10(abs(value))), 0)
    if decimals > DIGITS + 4:
        return f"{value:.2e}"
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def quantity(value: float | int | str | bool, unit: str) -> str:
    """`2903552`, `ns` is "2.904 ms"."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    for size, larger in _LARGER.get(unit, ()):
        if abs(value) >= size:
            return f"{number(value / size)}{GAP}{larger}"
    if unit in _NO_UNIT:
        return number(value)
    return f"{number(value)}{'×' if unit == 'x' else '%' if unit == '%' else GAP + unit}"


def unit_of(name: str, ours: Figure | None) -> str:
    """Of a paper's value: that of our figure; if there is none, the one in its name."""
    if ours is not None:
        return ours.unit
    last = re.split(r"\W", name)[0].rpartition("_")[2]
    return _SUFFIXES.get(last, "")


def paper_value(expected: Expected, unit: str) -> str:
    """The paper's value, in the unit of our figure."""
    if expected.text is not None:
        return expected.text
    if expected.paper is not None:
        return quantity(expected.paper, unit)
    if math.isinf(expected.high):
        return f"at least {quantity(expected.low, unit)}"
    if math.isinf(expected.low):
        return f"at most {quantity(expected.high, unit)}"
    return f"{quantity(expected.low, unit)} to {quantity(expected.high, unit)}"


def tolerance(expected: Expected) -> str:
    if expected.text is not None:
        return "the same word"
    if expected.paper is not None:
        return f"±{number(expected.tolerance_percent)}%"
    is_limit = math.isinf(expected.low) or math.isinf(expected.high)
    return "limit" if is_limit else "range"


def deviation(expected: Expected, ours: Figure | None) -> str:
    """In percent of the paper's value; beyond the nearest end of a range or limit."""
    if ours is None:
        return ""
    if expected.text is not None:
        return "same" if expected.holds(ours.value) else "other"
    percent = expected.deviation_percent(ours.value)
    if percent is None:
        return "paper has 0"
    if percent == 0 and expected.paper is None:
        return "inside"
    decimals = 1 if abs(percent) < 100 else 0
    return f"{percent:+,.{decimals}f}%".replace("-", "\N{MINUS SIGN}")
