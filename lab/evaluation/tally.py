# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What came of each experiment, counted in points of the papers, and of all together.

Each point is held, accepted, failed or not measured. A point that has no [expected] value is
missing: listed, if somebody says why (lab/evaluation/points.py), or not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from lab.evaluation.collect import Evaluation, Value, Verdict, is_full
from lab.evaluation.points import Listing, Missing
from lab.result import Result

# Of several values of one point, the first of these that one of them has.
WORST: tuple[Verdict, ...] = ("deviates", "unmeasured", "accepted", "within")
COLUMNS = ("points", "held", "within 25 %", "accepted", "failed", "missing", "minutes")


@dataclass(frozen=True)
class Tally:
    """Of one experiment. *minutes*: None if nothing was measured now; *note* is one line."""

    name: str
    points: dict[str, Verdict]
    near: int = 0  # within 25 % of the paper's number
    moved: int = 0  # accepted deviations whose sweep moves them by their gap
    short: tuple[str, ...] = ()  # those whose sweep moves them by less
    unlisted: int = 0
    minutes: float | None = None
    note: str = ""
    ok: bool = True

    def count(self, verdict: Verdict) -> int:
        return sum(one == verdict for one in self.points.values())

    @property
    def missing(self) -> int:
        """Points that have no figure."""
        return self.count("unmeasured") + self.unlisted

    def cells(self) -> Iterator[str]:
        """Of COLUMNS."""
        yield str(len(self.points))
        yield str(self.count("within"))
        yield str(self.near)
        yield str(self.count("accepted"))
        yield str(self.count("deviates"))
        yield str(self.missing)
        yield "" if self.minutes is None else f"{self.minutes:.1f}"


def tally_of(
    name: str,
    values: Sequence[Value],
    listing: Listing,
    missing: Sequence[Missing],
    minutes: float | None = None,
) -> Tally:
    """Count one experiment's values. *missing*: of all experiments."""
    points: dict[str, list[Value]] = {}
    for value in values:
        points.setdefault(listing.point_of(name, value.name), []).append(value)
    verdicts = {
        point: min((value.verdict for value in parts), key=WORST.index)
        for point, parts in points.items()
    }
    swept = [value for value in values if value.falls_short is not None]
    return Tally(
        name,
        verdicts,
        near=sum(all(value.is_near for value in parts) for parts in points.values()),
        moved=sum(value.falls_short is False for value in swept),
        short=tuple(value.name for value in swept if value.falls_short),
        unlisted=sum(one.experiment == name and not one.reason for one in missing),
        minutes=minutes,
        ok="deviates" not in verdicts.values(),
    )


@dataclass(frozen=True)
class Summary:
    """All experiments."""

    tallies: tuple[Tally, ...]
    missing: tuple[Missing, ...]

    @property
    def unlisted(self) -> list[Missing]:
        return [one for one in self.missing if not one.reason]

    @property
    def listed(self) -> list[Missing]:
        return [one for one in self.missing if one.reason]

    @property
    def ok(self) -> bool:
        return not self.unlisted and all(tally.ok for tally in self.tallies)

    def counts(self) -> dict[str, int]:
        """By the names of figures."""
        verdicts = [one for tally in self.tallies for one in tally.points.values()]
        accepted, failed = verdicts.count("accepted"), verdicts.count("deviates")
        return {
            "experiments": len(self.tallies),
            "experiments_failed": sum(not tally.ok for tally in self.tallies),
            "points": len(verdicts),
            "points_held": verdicts.count("within"),
            "points_not_measured": verdicts.count("unmeasured"),
            "rows_within_25_percent": sum(tally.near for tally in self.tallies),
            "deviations": accepted + failed,
            "deviations_accepted": accepted,
            "deviations_not_accepted": failed,
            "missing_unlisted": len(self.unlisted),
            "missing_listed": len(self.listed),
            "sweep_moves_by_gap": sum(tally.moved for tally in self.tallies),
            "sweeps_short": sum(len(tally.short) for tally in self.tallies),
        }

    @property
    def deviations_percent(self) -> float:
        """Of the points that were measured."""
        counts = self.counts()
        measured = counts["points"] - counts["points_not_measured"]
        return round(counts["deviations"] / measured * 100, 1) if measured else 0.0

    def result(self, name: str) -> Result:
        result = Result(name, ok=self.ok)
        for key, value in self.counts().items():
            result.add(key, value, "", "counted")
        result.add("deviations_percent", self.deviations_percent, "%", "counted")
        return result

    def lines(self) -> Iterator[str]:
        """The table, and below it what is missing and which sweeps fall short."""
        width = max((len(tally.name) for tally in self.tallies), default=0)
        yield "  ".join((" " * width, *COLUMNS))
        for tally in self.tallies:
            cells = zip(COLUMNS, tally.cells(), strict=True)
            line = "  ".join((tally.name.ljust(width), *(c.rjust(len(n)) for n, c in cells)))
            notes = [tally.note] if tally.note else []
            notes = notes if tally.ok else ["FAILED", *notes]
            yield f"{line}  {': '.join(notes)}".rstrip()
        for one in self.unlisted:
            yield f"missing, and nobody says why: {one}"
        for one in self.listed:
            yield f"cannot be had: {one}"
        for tally in self.tallies:
            for figure in tally.short:
                yield f"sweep moves it by less than its gap: {tally.name}, {figure}"


def summary_of(evaluation: Evaluation) -> Summary:
    """Of what the records have."""
    tallies: list[Tally] = []
    for entry in evaluation.entries:
        kept = entry.kept
        note: str = "no record" if kept.record is None else kept.age
        if kept.record is not None and not is_full(kept.record.command):
            note += ", tier ci"
        tally = tally_of(entry.name, entry.values, evaluation.listing, evaluation.missing)
        tallies.append(replace(tally, note=note))
    return Summary(tuple(tallies), evaluation.missing)
