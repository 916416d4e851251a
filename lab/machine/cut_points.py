# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Places in Stop and Go at which the power can be taken away, to the instruction.

A machine with cut points has the plugin, which is told of one function for each phase, and runs
without KASLR, so that functions are where System.map says. `commit+300` is 300 instructions after
that of `commit` is reached, on the CPU that reaches it first.
"""

from __future__ import annotations

import re
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from lab.errors import UsageError
from lab.machine.machine import Machine
from lab.machine.plugin import (
    ANSWER_LIMIT_S,
    ANSWER_POLL_S,
    STANDSTILL_LIMIT_S,
    STOPPED_OUT,
    PluginControl,
    PluginSpec,
    Snapshot,
    attach,
    elapsed_ns,
)
from lab.machine.supply import GuestClock
from lab.machine.symbols import loader_address, symbol_address

# In the order of time; those of Stop are the kernel's.
STOP_PHASES = {
    "stop": "rem_stop_begin",  # in the interrupt of PWR_OK
    "park": "rem_park_cpu",
    "devices": "rem_devices_stop",
    "commit": "rem_record_commit",
}
GO_LOADER_PHASES = {"consume": "consume", "enter": "image_enter"}
GO_KERNEL_PHASES = {"go": "rem_go_begin"}
GO_PHASES = {**GO_LOADER_PHASES, **GO_KERNEL_PHASES}
PHASES = (*STOP_PHASES, *GO_PHASES)

# vCPUs that take turns keep within so many instructions of each other (machine/README.md).
QUANTUM_ICOUNT = 2000


@dataclass(frozen=True)
class Place:
    """So many instructions after a phase begins."""

    phase: str
    insns: int

    @staticmethod
    def parse(text: str, phases: dict[str, str], option: str) -> Place:
        """*option* and *phases* are what the command at hand calls it and can cut in."""
        match = re.fullmatch(r"([a-z]+)(?:\+(\d{1,12}))?", text)
        if not match or match[1] not in phases:
            names = ", ".join(phases)
            raise UsageError(f"{option} {text}: give PHASE or PHASE+INSTRUCTIONS, one of {names}")
        return Place(match[1], int(match[2] or 0))

    def __str__(self) -> str:
        return f"{self.phase}+{self.insns}"

    def mark(self) -> int:
        """Of the plugin."""
        return PHASES.index(self.phase)


def make_spec(library: Path, kernel: Path, loader: Path, icount: bool) -> PluginSpec:
    """What the plugin of a machine with cut points is told. System.map is beside the kernel."""
    system_map = kernel.parent / "System.map"
    kernel_phases = {**STOP_PHASES, **GO_KERNEL_PHASES}
    pcs = {phase: symbol_address(system_map, name) for phase, name in kernel_phases.items()}
    pcs |= {phase: loader_address(loader, name) for phase, name in GO_LOADER_PHASES.items()}
    return PluginSpec(
        library,
        cut=True,
        quantum=QUANTUM_ICOUNT if icount else 0,
        pcs=tuple(pcs[phase] for phase in PHASES),
        outs=(STOPPED_OUT,),
    )


def attach_cut_points(machine: Machine) -> None:
    """For who owns a machine, before it is powered on: the plugin's control, the guest's clock."""
    if not machine.config.cut_points:
        return
    host_paced = machine.clock
    # Only the numbers of marks count here: the addresses are in the machine's configuration.
    attach(machine, PluginSpec(Path(), pcs=(0,) * len(PHASES), outs=(STOPPED_OUT,)))
    if not machine.config.icount:
        machine.clock = host_paced


def _control(machine: Machine) -> PluginControl:
    if machine.plugin is None:
        raise UsageError(
            f"machine {machine.config.name!r} has no cut points: `rem run --cut-points` makes them"
        )
    return machine.plugin


class PlaceClock:
    """Stands in for the guest's clock in one announced cut: the energy lasts up to a place."""

    def __init__(self, machine: Machine, place: Place) -> None:
        self._machine = machine
        self._place = place
        self._control = _control(machine)
        self._edge: Snapshot | None = None

    def begin(self, limit_ns: int) -> None:
        del limit_ns  # the place counts
        machine, control = self._machine, self._control
        assert machine.qemu is not None, "the machine is off"
        machine.qemu.qmp.execute("stop")
        control.wait_ready()
        control.reset_marks()
        self._edge = control.read()
        control.arm_cut_at(self._place.mark(), self._place.insns)

    def wait(self, event: threading.Event, limit_ns: int) -> int:
        machine, control, edge = self._machine, self._control, self._edge
        assert machine.qemu is not None and machine.supply.wire is not None, "the machine is off"
        assert edge is not None, "begin() comes first"
        icount = machine.config.icount
        begin_ns = time.monotonic_ns()
        end_s = time.monotonic() + ANSWER_LIMIT_S
        while not machine.supply.wire.delivered() and time.monotonic() < end_s:
            time.sleep(ANSWER_POLL_S)
        machine.qemu.qmp.execute("cont")
        event.wait(STANDSTILL_LIMIT_S if icount else limit_ns / 1e9)
        if not icount:
            return time.monotonic_ns() - begin_ns
        end = control.first(len(PHASES)) or control.at_cut()  # the mark of STOPPED is the last
        return limit_ns + 1 if end is None else elapsed_ns(edge, end)


def clock_for(machine: Machine, place: Place | None) -> GuestClock | None:
    """What Machine.cut() is to wait by; None: as always."""
    return None if place is None else PlaceClock(machine, place)


def resume_and_cut(machine: Machine, place: Place, limit_s: float, rtc_offset_s: int = 0) -> None:
    """Power returns, and goes again at a place in Go. HangError if that is never reached."""
    control = _control(machine)
    machine.resume(rtc_offset_s=rtc_offset_s, paused=True)
    assert machine.qemu is not None
    control.wait_ready()
    control.arm_cut_at(place.mark(), place.insns)
    machine.qemu.qmp.execute("cont")
    machine.wait_off(limit_s)
