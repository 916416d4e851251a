# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Cuts at places in Stop and Go, to the instruction.

A machine with cut points has the plugin, which knows one function for each phase, and runs
without KASLR, so that System.map has the functions' addresses. `commit+300` is 300 instructions
after the function of `commit` is reached, on the CPU that reaches it first.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path

from lab.errors import UsageError
from lab.isa import IsaName
from lab.machine.config import MachineConfig
from lab.machine.machine import Machine
from lab.machine.places import GO_KERNEL_PHASES, GO_LOADER_PHASES, PHASES, STOP_PHASES, Place
from lab.machine.plugin import (
    ANSWER_LIMIT_S,
    ANSWER_POLL_S,
    STANDSTILL_LIMIT_S,
    STOPPED_OUT,
    PluginControl,
    PluginSpec,
    Snapshot,
    elapsed_ns,
)
from lab.machine.plugin_clock import attach
from lab.machine.supply import GuestClock
from lab.machine.symbols import loader_address, loader_begin, symbol_address

# vCPUs that take turns stay within so many instructions of each other (machine/README.md).
QUANTUM_ICOUNT = 2000


# Of a phase whose address is unknown: no instruction is there.
UNKNOWN_PC = 0

# What sends the message to the supply, where the wire is no port. A mark behind it comes too late
# for whom the message has woken.
STOPPED_FUNCTION = "rem_power_report_stopped"


def make_spec(
    library: Path,
    kernel: Path,
    loader: Path,
    icount: bool,
    isa: IsaName = "x86_64",
    firmware: bool = False,
) -> PluginSpec:
    """The plugin's configuration for cut points. System.map is beside the kernel.

    *firmware*: UEFI decides at which address the loader is, whose phases are then unknown.
    """
    system_map = kernel.parent / "System.map"
    kernel_phases = {**STOP_PHASES, **GO_KERNEL_PHASES}
    pcs = {phase: symbol_address(system_map, name) for phase, name in kernel_phases.items()}
    for phase, name in GO_LOADER_PHASES.items():
        pcs[phase] = UNKNOWN_PC if firmware else loader_address(loader, name)
    places = tuple(pcs[phase] for phase in PHASES)
    return PluginSpec(
        library,
        cut=True,
        quantum=QUANTUM_ICOUNT if icount else 0,
        pcs=places,
        stopped=stopped_address(system_map, isa),
        outs=stopped_outs(isa),
        begin=loader_begin(loader) if firmware and icount else b"",
    )


def begin_of(config: MachineConfig) -> bytes:
    """What a plugin that runs by icount looks for before it models anything."""
    if config.firmware_code is None or config.loader is None:
        return b""
    return loader_begin(config.loader)


def stopped_address(system_map: Path, isa: IsaName) -> int | None:
    """The mark of STOPPED where there are no ports."""
    return None if isa == "x86_64" else symbol_address(system_map, STOPPED_FUNCTION)


def stopped_outs(isa: IsaName) -> tuple[tuple[int, int], ...]:
    """The write to a port that is the mark of STOPPED, where there are ports."""
    return (STOPPED_OUT,) if isa == "x86_64" else ()


def attach_cut_points(machine: Machine) -> None:
    """Set the plugin's control and the guest's clock; the owner does this before power-on."""
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
    """Replaces the guest's clock in one announced cut: the hold-up ends at a place."""

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
    """The clock for Machine.cut(); None: the machine's own."""
    return None if place is None else PlaceClock(machine, place)


def resume_and_cut(machine: Machine, place: Place, limit_s: float, rtc_offset_s: int = 0) -> None:
    """Power returns, and fails again at a place in Go. HangError if that is never reached."""
    control = _control(machine)
    if machine.config.firmware_code is not None and place.phase in GO_LOADER_PHASES:
        raise UsageError(
            f"{place}: firmware decides where the loader is: choose a phase of the kernel,"
            f" {', '.join(GO_KERNEL_PHASES)}"
        )
    machine.resume(rtc_offset_s=rtc_offset_s, paused=True)
    assert machine.qemu is not None
    control.wait_ready()
    control.arm_cut_at(place.mark(), place.insns)
    machine.qemu.qmp.execute("cont")
    machine.wait_off(limit_s)
