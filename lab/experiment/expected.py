# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The paper's values beside our figures: each holds within its tolerance, or is a deviation.

paper.toml has them by the names of our figures, in their units:

    [expected]
    mean_ratio = { paper = 9.0, tolerance_percent = 25 }
    stop_ns = { paper = [8_600_000, 10_500_000] }    # a range
    lifetime = { at_least = 0.95 }                   # or at_most
    least = { paper = "mcf" }
    large_ns = { at_most = 16_000_000, full = true } # not measured by --tier ci

    [[accepted]]                                     # deviations that are no failure
    figures = ["mean_ratio"]
    reason = "one line"

What deviates without being accepted fails, and so does a value that was not measured.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lab.errors import InfraError

KEYS = {"paper", "tolerance_percent", "at_least", "at_most", "full"}


@dataclass(frozen=True)
class Expected:
    """A value of the paper."""

    low: float = -math.inf
    high: float = math.inf
    text: str | None = None  # of a figure that is a word
    full: bool = False  # measured by the full tier only

    @staticmethod
    def of(given: Mapping[str, Any]) -> Expected:
        """From a table of paper.toml; ValueError says what is wrong with it."""
        if unknown := set(given) - KEYS:
            raise ValueError(f"unknown key {min(unknown)}")
        full, paper = bool(given.get("full", False)), given.get("paper")
        if isinstance(paper, str):
            return Expected(text=paper, full=full)
        if isinstance(paper, list):
            low, high = paper
        elif paper is not None:
            reach = abs(paper) * given["tolerance_percent"] / 100
            low, high = paper - reach, paper + reach
        else:
            low, high = given.get("at_least", -math.inf), given.get("at_most", math.inf)
            if low == -math.inf and high == math.inf:
                raise ValueError("no value")
        return Expected(low, high, full=full)

    def holds(self, ours: Any) -> bool:
        if self.text is not None:
            return bool(ours == self.text)
        return bool(self.low <= ours <= self.high)

    def __str__(self) -> str:
        if self.text is not None:
            return self.text
        if math.isinf(self.high):
            return f"at least {self.low:g}"
        return (
            f"at most {self.high:g}" if math.isinf(self.low) else f"{self.low:g} to {self.high:g}"
        )


@dataclass(frozen=True)
class Compared:
    """What came of the comparison."""

    held: int = 0
    accepted: dict[str, str] = field(default_factory=dict)  # figure, and the line about it
    failed: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Values:
    """All expected values of one paper.toml."""

    expected: dict[str, Expected]
    accepted: dict[str, str]  # figure, and why it may deviate

    @staticmethod
    def of(expected: Mapping[str, Any], accepted: list[Mapping[str, Any]]) -> Values:
        made = {}
        for name, given in expected.items():
            try:
                made[name] = Expected.of(given)
            except (ValueError, KeyError, TypeError) as error:
                raise InfraError(f"[expected] {name}: {error}") from error
        reasons: dict[str, str] = {}
        for entry in accepted:
            for name in entry["figures"]:
                if name not in made or name in reasons or not entry["reason"].strip():
                    raise InfraError(f"[[accepted]] {name}: want one [expected] value and a reason")
                reasons[name] = entry["reason"]
        return Values(made, reasons)

    def compare(self, figures: Mapping[str, Any], is_full: bool) -> Compared:
        """Compare figures by name."""
        held, accepted, failed = 0, {}, {}
        for name, expected in self.expected.items():
            if expected.full and not is_full:
                continue
            if name not in figures:
                failed[name] = f"{name} was not measured; the paper's is {expected}"
            elif expected.holds(figures[name]):
                held += 1
            elif name in self.accepted:
                accepted[name] = f"{name} is {figures[name]}, not {expected}: {self.accepted[name]}"
            else:
                failed[name] = f"{name} is {figures[name]}, not {expected}"
        return Compared(held, accepted, failed)
