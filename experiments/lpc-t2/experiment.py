# SPDX-License-Identifier: Apache-2.0 OR MIT
"""LightPC, Table II: see README.md."""

from __future__ import annotations

from statistics import mean
from typing import Any

from lab.experiment.programs import (
    CACHES,
    FETCHES,
    NO_FETCHES,
    NOTHING,
    OURS,
    measured,
    per_write,
    written,
)
from lab.experiment.run import Context, Report
from lab.experiment.workloads import PROGRAMS


def measure(it: Context) -> dict[str, Any]:
    return measured(it, (OURS, *CACHES, *FETCHES))


def _percent(part: float, whole: float) -> float:
    return 100 * part / max(1, whole)


def shares(row: dict[str, int]) -> dict[str, float]:
    """What is compared with the paper, in percent."""
    load_misses = row["first_level_misses"] - row["store_misses"]
    return {
        "load_hits": 100 - _percent(load_misses, row["cpu_loads"]),
        "store_hits": 100 - _percent(row["store_misses"], row["cpu_stores"]),
        "read_share": _percent(row["reads"], row["reads"] + written(row)),
    }


def _missed(row: dict[str, int]) -> float:
    return row["first_level_misses"] / (row["cpu_loads"] + row["cpu_stores"])


def theirs(given: list[float]) -> dict[str, float]:
    """The same of the paper's row, which has reads per write."""
    ratio, load_hits, store_hits = given
    return {
        "load_hits": load_hits,
        "store_hits": store_hits,
        "read_share": 100 * ratio / (1 + ratio),
    }


def points_off(row: dict[str, int], given: list[float]) -> dict[str, float]:
    paper = theirs(given)
    return {key: ours - paper[key] for key, ours in shares(row).items()}


def largest(row: dict[str, int], given: list[float]) -> float:
    return round(max(map(abs, points_off(row, given).values())), 1)


def _add_row(name: str, row: dict[str, int], given: list[float], report: Report) -> None:
    paper = theirs(given)
    for key, ours in shares(row).items():
        report.add(f"{name}_{key}_percent", round(ours, 1), "%")
        report.add(f"{name}_paper_{key}_percent", round(paper[key], 1), "%")
    report.count(f"{name}_reads", row["reads"], "lines")
    report.count(f"{name}_writes", written(row), "lines")
    fetched = _percent(row["fetch_misses"], row["reads"])
    report.add(f"{name}_fetched_percent", round(fetched, 1), "%")
    report.count(f"{name}_row_buffer_hits", row["row_writes"], "")
    report.add(f"{name}_reads_per_write", round(per_write(row), 2), "")
    report.add(f"{name}_paper_reads_per_write", given[0], "")
    report.add(f"{name}_peak_mib", round(row["peak_kib"] / 1024, 1), "MiB")
    off = points_off(row, given)
    report.add(f"{name}_points_off", largest(row, given), "points")
    report.add(f"{name}_most_off", max(off, key=lambda key: abs(off[key])), "")


def judge(raw: dict[str, Any], paper: dict[str, Any], report: Report) -> None:
    rows = raw[OURS]
    for name, program in PROGRAMS.items():
        report.add(f"{name}_run_as", program.what, "")
        _add_row(name, rows[name], paper[name], report)
        for other in (*CACHES, NO_FETCHES):
            off = largest(raw[other][name], paper[name])
            report.add(f"{name}_points_off, {other}", off, "points")
    deviating = [
        name for name in PROGRAMS if largest(rows[name], paper[name]) > paper["points_max"]
    ]
    report.count("programs_off", len(deviating), "programs")
    report.add("off", ", ".join(deviating) or "none", "")
    without = [
        name
        for name in PROGRAMS
        if largest(raw[NO_FETCHES][name], paper[name]) > paper["points_max"]
    ]
    report.count("programs_off, no fetches", len(without), "programs")
    report.add(
        "nothing_of_least_percent",
        round(_percent(rows[NOTHING]["reads"], min(rows[name]["reads"] for name in PROGRAMS)), 1),
        "%",
    )
    run = [rows[name] for name in PROGRAMS]
    hits = sum(row["row_writes"] for row in run)
    report.add("row_buffer_hit_share", round(hits / sum(row["writes"] for row in run), 4), "")
    ratios = {name: per_write(rows[name]) for name in PROGRAMS}
    report.add("mean_reads_per_write", round(mean(ratios.values()), 2), "")
    # One program makes the paper's mean.
    others = [paper["mcf"][0], *(ratio for name, ratio in ratios.items() if name != "mcf")]
    report.add("mean_reads_per_write, with the paper's mcf", round(mean(others), 2), "")
    report.add("most_reads_per_write", max(ratios, key=lambda name: ratios[name]), "")
    report.expect("every program reads more than it writes", min(ratios.values()) > 1)
    smaller, larger = CACHES
    report.expect(
        "a smaller cache misses more, and a larger one less, with every program",
        all(
            _missed(raw[smaller][name]) > _missed(rows[name]) > _missed(raw[larger][name])
            for name in PROGRAMS
        ),
    )


def draw(raw: dict[str, Any], paper: dict[str, Any], figure: Any) -> None:
    titles = {"load_hits": "loads that hit, %", "store_hits": "stores that hit, %",
              "read_share": "reads of all requests, %"}  # fmt: skip
    for axes, (key, title) in zip(figure.subplots(1, 3), titles.items(), strict=True):
        for name in PROGRAMS:
            at, ours = theirs(paper[name])[key], shares(raw[OURS][name])[key]
            swept = [shares(raw[cache][name])[key] for cache in CACHES]
            axes.plot([at, at], [min(*swept, ours), max(*swept, ours)], color="grey", linewidth=1)
            axes.plot(at, ours, "o", color="#0072B2", markersize=3)
            axes.annotate(name, (at, ours), fontsize=5)
        axes.plot([50, 100], [50, 100], "k:")
        axes.set(title=title, xlabel="paper", ylabel="here; lines: caches of 4 and 64 KiB")
