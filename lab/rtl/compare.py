# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Compares what the PSM in RTL and its model answered to the same requests, from their logs.

Content must be the same: each line that was read, each cell of the devices at the end, the writes
of each cell, the registers. Times are those of the model, request by request, but for one
difference by design: the RTL answers one read and one write of a channel in a cycle, where the
model lets any number of answers meet. What that explains is computed here, from the model's times
alone: the sorted answers of a channel are due at max(due, one cycle after the answer before).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lab.errors import RemError

READ, WRITE, FLUSH, RESET = range(4)
Table = dict[str, npt.NDArray[np.uint64]]
REGISTERS = ("start", "gap", "epoch", "pointer", "journal_next")


@dataclass
class Comparison:
    """What was unequal; each list has one line for each kind of difference."""

    requests: int = 0
    content_unequal: int = 0
    cycles_unexplained: int = 0
    lane_cycles: int = 0
    queue_cycles: int = 0
    found: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not self.found

    def differs(self, verdict: str, count: int, what: str) -> None:
        """Note a difference under the name of its check."""
        if count:
            self.found.append(f"{verdict}: {what}")


def read_table(path: Path) -> Table:
    """The columns of a log, whose first line names them."""
    with path.open(encoding="ascii") as file:
        names = file.readline().split()
        rows = np.loadtxt(file, dtype=np.uint64, ndmin=2)
    if rows.size and rows.shape[1] != len(names):
        raise RemError(f"{path}: {rows.shape[1]} columns, and {len(names)} names")
    rows = rows.reshape(-1, len(names))
    return {name: rows[:, at] for at, name in enumerate(names)}


def lane_times(due: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """When answers that are due at these cycles leave a lane of one a cycle, sorted."""
    steps = np.arange(len(due))
    times: npt.NDArray[np.int64] = np.maximum.accumulate(np.sort(due) - steps) + steps
    return times


def compare_answers(rtl: Table, model: Table, result: Comparison, timed: bool = True) -> None:
    """Compare request by request; *timed*: the times, too."""
    same = len(rtl["index"]) == len(model["index"]) and bool(
        np.array_equal(rtl["index"], model["index"])
    )
    if not same:
        raise RemError("the two logs are not of the same requests in the same order")
    result.requests += len(rtl["index"])
    kind = rtl["kind"]
    lines = (rtl["value"] != model["value"]) & (kind == READ)
    checks = (rtl["contained"] != model["contained"]) & (kind == READ)
    for verdict, wrong in (("line-read", lines & ~checks), ("machine-check", checks)):
        count = int(wrong.sum())
        result.content_unequal += count
        if count:
            first = int(rtl["index"][np.flatnonzero(wrong)[0]])
            result.differs(verdict, count, f"{count} reads, the first is request {first}")
    if not timed:
        return
    done, due = rtl["done"].astype(np.int64), model["done"].astype(np.int64)
    result.queue_cycles += int((rtl["at"].astype(np.int64) - rtl["issue"].astype(np.int64)).sum())
    for number, verdict in ((READ, "read-time"), (WRITE, "write-time")):
        unexplained = 0
        for channel in np.unique(rtl["channel"]):
            mine = (kind == number) & (rtl["channel"] == channel)
            expected = lane_times(due[mine])
            early = np.maximum(due[mine] - done[mine], 0).sum()
            unexplained += int(np.abs(np.sort(done[mine]) - expected).sum() + early)
            result.lane_cycles += int((expected - np.sort(due[mine])).sum())
        result.cycles_unexplained += unexplained
        result.differs(verdict, unexplained, f"{unexplained} cycles that nothing explains")
    for number, verdict in ((FLUSH, "flush-time"), (RESET, "reset-time")):
        mine = kind == number
        unexplained = int(np.abs(done[mine] - due[mine]).sum())
        result.cycles_unexplained += unexplained
        result.differs(verdict, unexplained, f"{unexplained} cycles that nothing explains")


def compare_media(rtl: Table, model: Table, journal: int, result: Comparison) -> None:
    """Compare cells, and how often each was written.

    The journal's first record is stored by the model without a programming; the RTL programs it.
    """
    cells = sum((rtl[name] != model[name]).sum() for name in rtl if name[:5] in {"check", "data_"})
    cells += sum((rtl[name] != model[name]).sum() for name in rtl if name[:4] == "age_")
    result.content_unequal += int(cells)
    result.differs("media", int(cells), f"{int(cells)} columns of lines on media")
    wear = 0
    for number in range(3):
        expected = model[f"programs_{number}"].copy()
        expected[journal] += np.uint64(1)
        wear += int((rtl[f"programs_{number}"] != expected).sum())
    result.content_unequal += wear
    result.differs("wear", wear, f"{wear} pieces have other counts of writes")


def compare_registers(
    rtl: dict[str, Any], model: dict[str, Any], result: Comparison, timed: bool = True
) -> None:
    """Compare the leveler's registers at the end, and what the bench itself saw."""
    for name in REGISTERS:
        wrong = int(rtl[name] != model[name])
        result.content_unequal += wrong
        result.differs("registers", wrong, f"{name} is {rtl[name]}, the model's {model[name]}")
    if rtl["machine_checks"] != rtl["contained"]:
        count = abs(rtl["machine_checks"] - rtl["contained"])
        result.content_unequal += count
        what = f"{rtl['machine_checks']} counted, {rtl['contained']} lines were contained"
        result.differs("machine-check", count, what)
    for name, verdict in (
        ("lost", "lost-request"),
        ("twice", "answered-twice"),
        ("stray", "answered-twice"),
        ("device_errors", "device-protocol"),
        ("busy_after_flush", "volatile-after-flush"),
        ("late", "read-time"),
    ):
        if name == "late" and not timed:
            continue
        what = f"{rtl[name]} ({name}) {rtl['device_first'] if verdict == 'device-protocol' else ''}"
        result.differs(verdict, rtl[name], what.rstrip())


def lines_in_order(rtl: Table, lines: npt.NDArray[np.uint64], result: Comparison) -> None:
    """Requests of one line must reach the channels in the order in which the host gave them."""
    asked = (rtl["kind"] <= WRITE) & (rtl["index"] < len(lines))
    index = rtl["index"][asked].astype(np.int64)
    line = lines[index]
    order = np.argsort(line, kind="stable")
    back = (np.diff(index[order]) < 0) & (np.diff(line[order]) == 0)
    count = int(back.sum())
    result.content_unequal += count
    result.differs("line-order", count, f"{count} requests overtook one of the same line")
