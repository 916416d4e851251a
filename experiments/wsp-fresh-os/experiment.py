# SPDX-License-Identifier: Apache-2.0 OR MIT
"""WSP, section 6, process persistence, and the fresh system of section 7: see README.md."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from lab.experiment import faults
from lab.experiment.run import Context, Report

MODES = (faults.WHOLE, "vm", "keep")
COLD = faults.COLD  # nothing comes back
AT_ONCE = 2  # beds
PATH = re.compile(r"'/[^']*'")  # of the machine that runs this
WELL = "goes on"
WITH_FAULT = f"{WELL}, with the fault"
WRONG = f"{WELL}, answers lost"
WAITS = "waits until it is mended"
COLOURS = {WELL: "#009E73", WITH_FAULT: "#E69F00", WAITS: "#F0E442", WRONG: "#CC79A7"}
OTHER_COLOUR = "#BBBBBB"


def measure(it: Context) -> dict[str, Any]:
    names = faults.SHORT if it.is_ci else tuple(one.name for one in faults.FAULTS)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        beds = {mode: pool.submit(faults.trials, it, mode, names) for mode in MODES}
        return {"trials": {mode: found.result() for mode, found in beds.items()}}


def outcome(one: dict[str, Any]) -> str:
    """What became of the service, in words."""
    if not one["up"]:
        return WAITS if one["later"] else "not up"
    if not one["entered"]:
        return _with_fault("cold", one)
    if one["crashed"]:
        return "crashes"
    if not one["answers"]:
        return "hangs"
    return WRONG if one["lost"] else _with_fault(WELL, one)


def _with_fault(word: str, one: dict[str, Any]) -> str:
    return f"{word}, with the fault" if one["after"] else word


def base_outcome(one: dict[str, Any]) -> str:
    """Of a cold boot, whose service has nothing."""
    if not one["up"] or not one["answers"]:
        return "not up"
    return _with_fault("cold", one)


def table(raw: dict[str, Any]) -> dict[str, dict[str, str]]:
    """By fault and mode."""
    trials = raw["trials"]
    return {
        name: {mode: outcome(trials[mode][name]) for mode in MODES}
        | {COLD: base_outcome(trials["whole"][name][COLD])}
        for name in trials["whole"]
    }


def judge(raw: dict[str, Any], paper: dict[str, Any], report: Report) -> None:
    found = table(raw)
    for name, row in found.items():
        for mode, word in row.items():
            report.result.add(f"{name}, {mode}", word, "", "counted")
    by_name = {one.name: one for one in faults.FAULTS}
    for mode in MODES:
        for name, one in raw["trials"][mode].items():
            report.result.add(
                f"{name}, {mode}, reason", _without_paths(one["reason"]), "", "counted"
            )
            report.count(f"{name}, {mode}, lost", one["lost"] if one["entered"] else 0, "answers")
            _judge_fault(f"{name}, {mode}", by_name[name], one, report)
        words = [row[mode] for name, row in found.items() if name != faults.NOTHING.name]
        report.count(f"{mode}, goes on", words.count(WELL) + words.count(WITH_FAULT), "faults")
        report.count(f"{mode}, fault is gone", words.count(WELL), "faults")
        report.expect(f"{mode}: without a fault it goes on, and no answer is lost",
                      found[faults.NOTHING.name][mode] == WELL)  # fmt: skip
    report.count("faults", len(found) - 1, "faults")
    report.expect("a cold boot has a service again, and none of the data",
                  found[faults.NOTHING.name][COLD] == "cold")  # fmt: skip


def _without_paths(reason: str) -> str:
    return PATH.sub("a file", reason)


def _judge_fault(what: str, fault: faults.Fault, one: dict[str, Any], report: Report) -> None:
    """That the fault was there, and was not there before it was made."""
    report.expect(f"{what}: it is not there before", not one["before"])
    if fault.is_early and not fault.asking_harms:
        report.expect(f"{what}: it is there before the power fails", one["made"])
    if fault.spoils:
        report.expect(f"{what}: memory was changed while the power was off", one["hit"] > 0)


def draw(raw: dict[str, Any], paper: dict[str, Any], figure: Any) -> None:
    axes = figure.subplots()
    found = table(raw)
    columns = [*MODES, COLD]
    for y, row in enumerate(found.values()):
        for x, mode in enumerate(columns):
            colour = COLOURS.get(row[mode], OTHER_COLOUR)
            axes.bar(x, 0.9, width=0.96, bottom=y - 0.45, color=colour, alpha=0.6)
            axes.text(x, y, row[mode], ha="center", va="center", fontsize=8)
    axes.set(xlim=(-0.5, len(columns) - 0.5), ylim=(len(found) - 0.5, -0.5))
    axes.set_xticks(range(len(columns)), columns)
    axes.set_yticks(range(len(found)), list(found))
    axes.tick_params(length=0)
