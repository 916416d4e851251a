# SPDX-License-Identifier: Apache-2.0 OR MIT
"""WSP, section 6, a rack after an outage: see README.md."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from lab.docs.records import read_record
from lab.errors import InfraError
from lab.experiment import waiting
from lab.experiment.rack import Missed, Outage, Placement, Rack, Way
from lab.experiment.run import Context, Paper, Report, folder
from lab.experiment.waiting import JUST_LONGER, NEVER, Lengths
from lab.paths import repo_dir

NAME = "wsp-rack"
LONGEST_S = 3 * 86_400
SHOWN_S = (60, 3600)  # outages whose times are figures
CASES: tuple[tuple[Placement, float], ...] = (
    ("across", 0),  # the share of the rack that fails; 0: one server
    ("across", 1),
    ("within", 0.5),
    ("within", 1),
)
WAYS: tuple[Way, ...] = ("memory", "disk", "peers")
ELSEWHERE = "elsewhere"
KEPT: dict[str, Way] = {"memory": "memory", "lost": "peers"}  # how those come back
# Times ours; our log is as long as memory.
SWEEPS = {"writes": (0.1, 3), "log": (0.1, 0.01), "uplink": (0.5, 2), "median outage": (0.1, 10)}
EVEN = 1.001  # as good as equal
NEAR = 1.1  # not much more
TWICE = 2.1  # an outage may end just before the wait does; its memory is then still to be restored


class Grid(NamedTuple):
    """How many points a decade of times has, and how finely outages' lengths are weighed."""

    decade: int
    step: float


FINE, COARSE = Grid(8, 0.05), Grid(2, 0.25)


def measure(it: Context) -> dict[str, Any]:
    paper = Paper.read(folder() / NAME / "paper.toml").values
    points, cold_per_byte, storm_ns = _measured()
    rack = _rack(paper, points, cold_per_byte)
    lengths = _lengths(paper)
    grid = COARSE if it.is_ci else FINE
    cases = {}
    for placement, share in CASES:
        failed = max(round(share * rack.servers), 1)
        name = f"{placement}, {failed} of {rack.servers}"
        cases[name] = Outage(failed, 0.0, "memory", placement)
    return {
        "points": points,
        "cold_per_byte": cold_per_byte,
        "storm_ns": storm_ns,
        "written": rack.written,
        "lengths": vars(lengths),
        "outages": {name: _outages(rack, case, grid.decade) for name, case in cases.items()},
        "waits": {name: _waits(rack, case, lengths, grid) for name, case in cases.items()},
        "swept": {name: _swept(rack, case, lengths, grid) for name, case in cases.items()},
        "taken back": {
            name: _taken_back(rack, case, lengths, grid) for name, case in cases.items()
        },
    }


def _measured() -> tuple[list[tuple[float, float]], float, float]:
    """What a member missed, as shares of a whole copy; what a cold start reads for each byte that
    it holds; and the time of one such start as wsp-storm has it: all from their records."""
    found = {}
    for name in ("wsp-catch-up", "wsp-storm"):
        record = read_record(repo_dir(), name)
        if record is None:
            raise InfraError(f"{name} was never measured: run `./rem docs --refresh {name}`")
        found[name] = {key: figure["value"] for key, figure in record.figures.items()}
    missed, storm = found.values()
    try:
        whole = missed["cold, redis_bytes"]
        lengths = (re.fullmatch(r"(\S+) s, redis_bytes", key) for key in missed)
        points = sorted((float(key[1]), missed[key[0]] / whole) for key in lengths if key)
        if len(points) < 2:
            raise KeyError("two outages")
        return points, storm["cold_per_byte"], storm["cold, 1 servers, ns"]
    except KeyError as error:
        raise InfraError(
            f"docs/figures/wsp-catch-up.json or wsp-storm.json has no {error}: refresh them"
        ) from error


def _rack(paper: dict[str, Any], points: list[tuple[float, float]], cold_per_byte: float) -> Rack:
    return Rack(
        servers=paper["servers"],
        memory_bytes=paper["memory_gb"] * 1e9,
        back_end=paper["back_end_gb_per_s"] * 1e9,
        link=paper["link_gb_per_s"] * 1e9,
        uplink=paper["uplink_gb_per_s"] * 1e9,
        restore_s=paper["restore_s"],
        cold_per_byte=cold_per_byte,
        missed=Missed(tuple(points)),
    )


def _lengths(paper: dict[str, Any]) -> Lengths:
    names = ("share_below", "below_s", "mean_s", "over_s")
    return Lengths.fitted(*(paper[name] for name in names))


def _times(from_s: float, decade: int) -> list[float]:
    count = math.floor(math.log10(LONGEST_S / from_s) * decade)
    return [from_s * 10 ** (at / decade) for at in range(count + 1)]


def _outages(rack: Rack, case: Outage, decade: int) -> list[dict[str, Any]]:
    """Times and bytes by outage and way; elsewhere, a copy begins at once."""
    ways: dict[str, Callable[[float], Outage]] = {
        way: lambda off_s, way=way: replace(case, off_s=off_s, way=way)  # type: ignore[misc]
        for way in WAYS
    }
    ways[ELSEWHERE] = lambda off_s: replace(case, off_s=off_s, wait_s=0.0)
    rows = []
    for off_s in sorted({*SHOWN_S, *_times(1.0, decade)}):
        row: dict[str, Any] = {"off_s": off_s}
        for way, outage in ways.items():
            found = waiting.outcome(rack, outage(off_s))
            row[way] = {
                "last_s": found.last_s,
                "median_s": found.median_s,
                "back_end_bytes": found.back_end_bytes,
                "peer_bytes": found.peer_bytes,
                "stalled_s": max(found.stalled_s),
            }
        rows.append(row)
    return rows


def _waits(
    rack: Rack, case: Outage, lengths: Lengths, grid: Grid, kept: tuple[str, ...] = tuple(KEPT)
) -> dict[str, Any]:
    """By waiting time, with the memory of servers that come back, and without it."""
    copy_s = waiting.copy_s(rack, case)
    waits = [0.0, *sorted({copy_s, *_times(10.0, grid.decade)}), NEVER]
    some = [wait_s for wait_s in waits if 0 < wait_s < NEVER]
    worst_s = [*some, *(wait_s * JUST_LONGER for wait_s in some)]
    rows = []
    for wait_s in waits:
        row: dict[str, Any] = {"wait_s": None if wait_s == NEVER else wait_s}
        for name in kept:
            one = replace(case, way=KEPT[name])
            found = waiting.mean(rack, one, wait_s, lengths.weighed(grid.step))
            row[name] = {
                "worst": waiting.worst_ratio(rack, one, wait_s, worst_s),
                "mean_s": found.missing_s,
                "moved_bytes": found.moved_bytes,
            }
        rows.append(row)
    return {"copy_s": copy_s, "share_below": lengths.share_below(copy_s), "rows": rows}


def _swept(rack: Rack, case: Outage, lengths: Lengths, grid: Grid) -> dict[str, Any]:
    """To wait for as long as a copy takes, where what it depends on is something else."""
    found = {}
    for what, factors in SWEEPS.items():
        for factor in factors:
            other, others = rack, lengths
            if what == "writes":
                other = replace(rack, missed=replace(rack.missed, load=factor))
            elif what == "log":
                other = replace(rack, missed=replace(rack.missed, log=factor))
            elif what == "uplink":
                other = replace(rack, uplink=rack.uplink * factor)
            else:
                others = replace(lengths, median_s=lengths.median_s * factor)
            waits = _waits(other, case, others, grid, ("memory",))
            found[f"{what} x {factor:g}"] = {
                "copy_s": waits["copy_s"],
                "worst": _at_copy(waits)["memory"]["worst"],
                "over_least": _at_copy(waits)["memory"]["mean_s"] / _least(waits, "memory"),
            }
    return found


def _taken_back(rack: Rack, case: Outage, lengths: Lengths, grid: Grid) -> dict[str, Any]:
    """Where a server that comes back during the copy may be the first that is ready."""
    found = {}
    for name, wait_s in (("at once", 0.0), ("as a copy", waiting.copy_s(rack, case))):
        one = replace(case, takes_back=True)
        mean = waiting.mean(rack, one, wait_s, lengths.weighed(2 * grid.step))
        found[name] = {"mean_s": mean.missing_s, "moved_bytes": mean.moved_bytes}
    return found


def _row(waits: dict[str, Any], wait_s: float | None) -> Any:
    return next(row for row in waits["rows"] if row["wait_s"] == wait_s)


def _at_copy(waits: dict[str, Any]) -> Any:
    return _row(waits, waits["copy_s"])


def _best(waits: dict[str, Any], name: str, of: str) -> tuple[float, float]:
    """The least cost of a wait that ends, and that wait."""
    rows = [row for row in waits["rows"] if row["wait_s"] is not None]
    return min((float(row[name][of]), float(row["wait_s"])) for row in rows)


def _least(waits: dict[str, Any], name: str) -> float:
    return _best(waits, name, "mean_s")[0]


def judge(raw: dict[str, Any], paper: dict[str, Any], report: Report) -> None:
    report.add("written_mb_per_s", round(raw["written"] / 1e6, 1), "MB/s")
    report.add("outages_median_s", round(raw["lengths"]["median_s"]), "s")
    report.add("outages_spread", round(raw["lengths"]["spread"], 2), "")
    for case, rows in raw["outages"].items():
        _judge_outages(case, rows, report)
    for case, waits in raw["waits"].items():
        _judge_waits(case, waits, report)
    for case, sweeps in raw["swept"].items():
        for name, one in sweeps.items():
            for key in ("worst", "over_least"):
                report.add(f"{case}, {name}, {key}", round(one[key], 2), "ratio")
        report.expect(
            f"{case}: and so it does where what is assumed differs",
            all(one["worst"] <= TWICE for one in sweeps.values()),
        )
    for case, both in raw["taken back"].items():
        for name, one in both.items():
            report.add(f"{case}, taken back, {name}, mean_ns", round(one["mean_s"] * 1e9), "ns")
            report.add(f"{case}, taken back, {name}, gb", round(one["moved_bytes"] / 1e9), "GB")
    whole = [rows for case, rows in raw["outages"].items() if case.startswith("within")][-1]
    ours_s = whole[0]["disk"]["last_s"] - whole[0]["off_s"]
    sum_s = paper["servers"] * raw["storm_ns"] / 1e9
    report.expect(
        f"the rack reads from the back end for as long as wsp-storm's sum ({ours_s:.0f} s)",
        math.isclose(ours_s, sum_s, rel_tol=EVEN - 1),
    )


def _judge_outages(case: str, rows: list[dict[str, Any]], report: Report) -> None:
    for row in rows:
        if row["off_s"] not in SHOWN_S:
            continue
        for way in (*WAYS, ELSEWHERE):
            at, one = f"{case}, {row['off_s']} s, {way}", row[way]
            for name in ("last", "median", "stalled"):
                report.add(f"{at}, {name}_ns", round(one[f"{name}_s"] * 1e9), "ns")
            report.add(f"{at}, back_end_gb", round(one["back_end_bytes"] / 1e9), "GB")
            report.add(f"{at}, peer_gb", round(one["peer_bytes"] / 1e9), "GB")
        back_s = row["disk"]["last_s"] - row["off_s"]
        report.add(f"{case}, {row['off_s']} s, disk, back_ns", round(back_s * 1e9), "ns")
    report.expect(
        f"{case}: with its memory the rack is whole sooner than from disk, after each outage",
        all(row["memory"]["last_s"] < row["disk"]["last_s"] for row in rows),
    )
    report.expect(
        f"{case}: with its memory it gets no more than a whole copy",
        all(_moved(row, "memory") <= _moved(row, "peers") * EVEN for row in rows),
    )
    if case.startswith("across"):
        report.expect(
            f"{case}: no shard is without a majority",
            all(row[way]["stalled_s"] == 0 for row in rows for way in (*WAYS, ELSEWHERE)),
        )


def _moved(row: dict[str, Any], way: str) -> float:
    return float(row[way]["back_end_bytes"] + row[way]["peer_bytes"])


def _judge_waits(case: str, waits: dict[str, Any], report: Report) -> None:
    report.add(f"{case}, copy_ns", round(waits["copy_s"] * 1e9), "ns")
    report.add(f"{case}, outages shorter than a copy", round(waits["share_below"], 3), "share")
    named = {"at once": _row(waits, 0.0), "as a copy": _at_copy(waits), "never": _row(waits, None)}
    for name in ("memory", "lost"):
        for wait, row in named.items():
            at, one = f"{case}, {name}, {wait}", row[name]
            report.add(f"{at}, worst", round(one["worst"], 2), "ratio")
            report.add(f"{at}, mean_ns", round(one["mean_s"] * 1e9), "ns")
            report.add(f"{at}, gb", round(one["moved_bytes"] / 1e9), "GB")
        for of, unit in (("worst", "ratio"), ("mean_s", "s")):
            least, wait_s = _best(waits, name, of)
            report.add(f"{case}, {name}, least {of}", round(least, 2), unit)
            report.add(f"{case}, {name}, best wait by {of}, ns", round(wait_s * 1e9), "ns")
    copied, at_once = named["as a copy"], named["at once"]
    over_least = copied["memory"]["mean_s"] / _least(waits, "memory")
    report.add(f"{case}, as ours, over_least", round(over_least, 2), "ratio")
    report.expect(
        f"{case}: to wait for as long as a copy takes costs at most about twice the best",
        copied["memory"]["worst"] <= TWICE,
    )
    report.expect(
        f"{case}: and no other wait costs much less",
        copied["memory"]["worst"] <= NEAR * _best(waits, "memory", "worst")[0],
    )
    report.expect(
        f"{case}: and moves less than to copy at once",
        copied["memory"]["moved_bytes"] < at_once["memory"]["moved_bytes"],
    )
    report.expect(
        f"{case}: without memory nothing is gained by waiting",
        at_once["lost"]["mean_s"] <= _least(waits, "lost") * EVEN
        and at_once["lost"]["worst"] <= EVEN,
    )


def draw(raw: dict[str, Any], paper: dict[str, Any], figure: Any) -> None:
    times, moved, waits = figure.subplots(1, 3)
    case = next(name for name in list(raw["outages"])[1:])
    rows = raw["outages"][case]
    off_s = [row["off_s"] for row in rows]
    for way in (*WAYS, ELSEWHERE):
        label = "elsewhere, at once" if way == ELSEWHERE else way
        style = "--" if way == ELSEWHERE else "-"
        times.plot(off_s, [row[way]["last_s"] for row in rows], style, label=label)
        moved.plot(off_s, [_moved(row, way) / 1e12 for row in rows], style, label=label)
    times.set(xscale="log", yscale="log", xlabel="outage, s",
              ylabel=f"until the last is healthy, s ({case})")  # fmt: skip
    moved.set(xscale="log", yscale="log", xlabel="outage, s", ylabel="TB moved")
    for colour, name in (("C0", next(iter(raw["waits"]))), ("C3", case)):
        found = raw["waits"][name]
        some = [row for row in found["rows"] if row["wait_s"]]
        at_s = [row["wait_s"] for row in some]
        for key, of, style in (("memory", "worst", "-"), ("memory", "mean_s", "--"),
                               ("lost", "mean_s", ":")):  # fmt: skip
            least = 1.0 if of == "worst" else _least(found, key)
            what = "worst outage" if of == "worst" else "mean outage"
            lost = ", memory lost" if key == "lost" else ""
            waits.plot(at_s, [row[key][of] / least for row in some], style, color=colour,
                       label=f"{name.split(', ')[1]}: {what}{lost}")  # fmt: skip
        waits.axvline(found["copy_s"], color=colour, linewidth=0.6)
    waits.axvline(paper["usual_wait_s"], color="black", linestyle=":", linewidth=0.8,
                  label="Ceph's default")  # fmt: skip
    waits.set(xscale="log", yscale="log", ylim=(0.9, 30), xlabel="wait, then copy, s",
              ylabel="without a replica, times the least")  # fmt: skip
    times.legend(frameon=False, fontsize=7)
    lines = waits.get_legend_handles_labels()
    figure.legend(*lines, frameon=False, fontsize=7, ncols=4, loc="outside lower right")
