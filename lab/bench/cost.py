# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Time and energy of a machine whose guest time follows a memory controller.

Energy is that of memory and of LightPC's cores (models/parts/memory/lpc-core.toml), which work,
wait for memory, or are halted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass

from lab.errors import RemError
from lab.machine.machine import Machine
from lab.machine.plugin import PluginControl, Snapshot
from lab.parts import part_number

CORE = "lpc-core"
REQUEST_PJ = ("activate_pj", "read_pj", "write_pj")  # of a controller's counters


@dataclass(frozen=True)
class Cost:
    """Time, energy and instructions of a machine."""

    ns: int
    pj: int
    insns: int = 0
    halted_ns: int = 0  # of the time, in which all CPUs waited for an event
    stalled_ns: int = 0  # of the time, in which the CPU waited for memory

    def __add__(self, other: Cost) -> Cost:
        return Cost(*map(sum, zip(astuple(self), astuple(other), strict=True)))

    def __sub__(self, other: Cost) -> Cost:
        pairs = zip(astuple(self), astuple(other), strict=True)
        return Cost(*(mine - theirs for mine, theirs in pairs))


def cost_until(snapshot: Snapshot, counts: Mapping[str, int]) -> Cost:
    """Until *snapshot*, of a machine of one CPU; *counts* may be a little later.

    Reads and writes are those of *counts*; background and refresh are in proportion to time.
    """
    assert snapshot.halted_ns is not None
    ns = snapshot.clock_ns(0) + snapshot.halted_ns
    share = min(1.0, ns / max(1, counts["guest_ns"]))
    pj: float = sum(counts[name] for name in REQUEST_PJ)
    pj += share * (counts["background_pj"] + counts["refresh_pj"])
    waited_ns = snapshot.waited_ns[0]
    pj += part_number(CORE, "active_mw") * (snapshot.clock_ns(0) - waited_ns)  # mW ns = pJ
    pj += part_number(CORE, "stalled_mw") * waited_ns
    pj += part_number(CORE, "parked_mw") * snapshot.halted_ns
    return Cost(ns, int(pj), snapshot.total, snapshot.halted_ns, waited_ns)


def controller_counts(machine: Machine, control: PluginControl) -> dict[str, int]:
    """The controller's counters now, which need a VM that is stopped. RemError if it has none."""
    assert machine.qemu is not None
    qmp = machine.qemu.qmp
    was_running = qmp.execute("query-status")["status"] == "running"
    if was_running:
        qmp.execute("stop")
    control.read()
    counts = control.memory()
    if was_running:
        qmp.execute("cont")
    if counts is None:
        raise RemError("the plugin reports no memory controller")
    return counts


def cost_now(machine: Machine, control: PluginControl) -> Cost:
    counts = controller_counts(machine, control)
    return cost_until(control.read(), counts)
