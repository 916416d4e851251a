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
    reason = "the mechanism, in one line"
    sweep = ["mean_ratio, 8 misses"]                 # or rules_out

A mechanism is shown by a sweep, which are figures, too; `{figure}` in their names is the one that
deviates. `sweep` changes the mechanism: one of its figures must be nearer to the paper's value than
ours. `rules_out` changes everything else: none of its figures may be the paper's value.

What deviates without being accepted fails, and so do a value or a sweep that was not measured, and
a sweep that shows something else.

    [[unobtainable]]                                 # values of the paper that cannot be had
    points = ["mean_ratio, 112 threads"]
    reason = "why, in one line"
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lab.errors import InfraError

KEYS = {"paper", "tolerance_percent", "at_least", "at_most", "full"}
ACCEPTED_KEYS = {"figures", "reason", "sweep", "rules_out"}
UNOBTAINABLE_KEYS = {"points", "reason"}
NEAR_PERCENT = 25  # what counts as near to the paper's number, whatever its own tolerance is


@dataclass(frozen=True)
class Expected:
    """A value of the paper."""

    low: float = -math.inf
    high: float = math.inf
    text: str | None = None  # of a figure that is a word
    full: bool = False  # measured by the full tier only
    paper: float | None = None  # if it is one number, which *tolerance_percent* makes a range
    tolerance_percent: float = 0

    @staticmethod
    def of(given: Mapping[str, Any]) -> Expected:
        """From a table of paper.toml; ValueError says what is wrong with it."""
        if unknown := set(given) - KEYS:
            raise ValueError(f"unknown key {min(unknown)}")
        full, paper = bool(given.get("full", False)), given.get("paper")
        if isinstance(paper, str):
            return Expected(text=paper, full=full)
        if isinstance(paper, list):
            low, high = map(_number, paper)
        elif paper is not None:
            tolerance_percent = _number(given["tolerance_percent"])
            reach = abs(_number(paper)) * tolerance_percent / 100
            return Expected(paper - reach, paper + reach, None, full, paper, tolerance_percent)
        else:
            low = _number(given.get("at_least", -math.inf))
            high = _number(given.get("at_most", math.inf))
            if low == -math.inf and high == math.inf:
                raise ValueError("no value")
        return Expected(low, high, full=full)

    def holds(self, ours: Any) -> bool:
        return self.away(ours) == 0

    def away(self, ours: Any) -> float:
        """How far a figure is from what is expected; of a word, 0 or 1."""
        if self.text is not None:
            return float(ours != self.text)
        return float(max(self.low - ours, ours - self.high, 0))

    def deviation_percent(self, ours: Any) -> float | None:
        """From the paper's number; from the nearest end of a range or limit, 0 within it.

        None for a word, and where the paper has 0."""
        if self.text is not None:
            return None
        nearest = min(max(ours, self.low), self.high) if self.paper is None else self.paper
        if ours == nearest:
            return 0.0
        return float((ours - nearest) / abs(nearest) * 100) if nearest else None

    def is_near(self, ours: Any) -> bool:
        """Within NEAR_PERCENT of the paper's number; of a word, a range or a limit, as it holds."""
        if self.paper is None:
            return self.holds(ours)
        percent = self.deviation_percent(ours)
        return percent is not None and abs(percent) <= NEAR_PERCENT

    def __str__(self) -> str:
        if self.text is not None:
            return self.text
        if math.isinf(self.high):
            return f"at least {self.low:g}"
        return (
            f"at most {self.high:g}" if math.isinf(self.low) else f"{self.low:g} to {self.high:g}"
        )


def _number(given: Any) -> float:
    """A number of paper.toml, as it is written there; TypeError if it is something else."""
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise TypeError(f"{given!r} is no number")
    return given


@dataclass(frozen=True)
class Accepted:
    """Why a figure may deviate, and the figures that show it."""

    reason: str
    sweep: tuple[str, ...] = ()  # the mechanism is changed
    rules_out: tuple[str, ...] = ()  # everything else is

    @staticmethod
    def of(name: str, given: Mapping[str, Any]) -> Accepted:
        """From a table of paper.toml, for one of its figures."""
        if unknown := set(given) - ACCEPTED_KEYS:
            raise ValueError(f"unknown key {min(unknown)}")
        sweep, rules_out = (
            tuple(one.replace("{figure}", name) for one in given.get(key, []))
            for key in ("sweep", "rules_out")
        )
        if not given["reason"].strip() or bool(sweep) == bool(rules_out):
            raise ValueError("want a reason, and either sweep or rules_out")
        if name in (*sweep, *rules_out):
            raise ValueError("a figure does not show why it deviates itself")
        return Accepted(given["reason"], sweep, rules_out)

    def doubt(self, expected: Expected, ours: Any, figures: Mapping[str, Any]) -> str:
        """Why the figures do not show the reason; empty if they do."""
        shown = self.sweep or self.rules_out
        if missing := [name for name in shown if name not in figures]:
            return f"the sweep of its reason was not measured: {missing[0]}"
        away = {name: expected.away(figures[name]) for name in shown}
        if self.rules_out:
            reached = [name for name in shown if away[name] == 0]
            return f"{reached[0]} reaches it without the reason" if reached else ""
        if min(away.values()) < expected.away(ours):
            return ""
        return f"the sweep of its reason comes no nearer: {', '.join(shown)}"

    def falls_short(self, expected: Expected, ours: Any, figures: Mapping[str, Any]) -> bool:
        """Whether the sweep moves the figure by less than its gap to what is expected."""
        if not self.sweep:
            return False
        shown = [figures[name] for name in self.sweep]
        if expected.text is not None:
            return expected.text not in shown
        # Beyond the gap is far enough: the mechanism may do more than the paper's machine shows.
        if ours < expected.low:
            return bool(max(shown) < expected.low)
        return bool(min(shown) > expected.high)


@dataclass(frozen=True)
class Compared:
    """What came of the comparison: each expected value is in one of these."""

    held: tuple[str, ...] = ()
    accepted: dict[str, str] = field(default_factory=dict)  # figure, and the line about it
    failed: dict[str, str] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()  # measured by the full tier only


@dataclass(frozen=True)
class Values:
    """All expected values of one paper.toml."""

    expected: dict[str, Expected]
    accepted: dict[str, Accepted]  # by figure
    unobtainable: dict[str, str] = field(default_factory=dict)  # why a point cannot be had

    @staticmethod
    def of(
        expected: Mapping[str, Any],
        accepted: list[Mapping[str, Any]],
        unobtainable: list[Mapping[str, Any]] | None = None,
    ) -> Values:
        made = {}
        for name, given in expected.items():
            try:
                made[name] = Expected.of(given)
            except (ValueError, KeyError, TypeError) as error:
                raise InfraError(f"[expected] {name}: {error}") from error
        reasons: dict[str, Accepted] = {}
        for entry in accepted:
            if not isinstance(entry.get("figures"), list):
                raise InfraError("[[accepted]]: want figures, a list of names")
            for name in entry["figures"]:
                if name not in made or name in reasons:
                    raise InfraError(f"[[accepted]] {name}: want one [expected] value")
                try:
                    reasons[name] = Accepted.of(name, entry)
                except (ValueError, KeyError, TypeError, AttributeError) as error:
                    raise InfraError(f"[[accepted]] {name}: {error}") from error
        return Values(made, reasons, reasons_of(unobtainable or [], made))

    def compare(self, figures: Mapping[str, Any], is_full: bool) -> Compared:
        """Compare figures by name."""
        held, accepted, failed, left_out = [], {}, {}, []
        for name, expected in self.expected.items():
            if expected.full and not is_full:
                left_out.append(name)
            elif name not in figures:
                failed[name] = f"{name} was not measured; the paper's is {expected}"
            elif expected.holds(figures[name]):
                held.append(name)
            else:
                line = f"{figures[name]}, not {expected}"
                allowed = self.accepted.get(name)
                doubt = allowed.doubt(expected, figures[name], figures) if allowed else ""
                if allowed and not doubt:
                    accepted[name] = f"{line}: {allowed.reason}"
                else:
                    failed[name] = f"{name} is {line}" + (f"; {doubt}" if doubt else "")
        return Compared(tuple(held), accepted, failed, tuple(left_out))


def reasons_of(
    unobtainable: list[Mapping[str, Any]], expected: Mapping[str, Expected]
) -> dict[str, str]:
    """Why points cannot be had, by their names. None of them is expected, or listed twice."""
    reasons: dict[str, str] = {}
    for entry in unobtainable:
        reason, points = entry.get("reason"), entry.get("points")
        if set(entry) != UNOBTAINABLE_KEYS or not isinstance(points, list):
            raise InfraError("[[unobtainable]]: want points, a list of names, and a reason")
        if not isinstance(reason, str) or not reason.strip():
            raise InfraError(f"[[unobtainable]] {points}: want a reason")
        for name in points:
            if name in expected or name in reasons:
                raise InfraError(f"[[unobtainable]] {name}: it is [expected], or listed twice")
            reasons[name] = reason
    return reasons
