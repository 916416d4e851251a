# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The guest's clock of a machine under icount: the plugin counts it and ends the hold-up by it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from lab.machine.parts import MachineParts
from lab.machine.plugin import (
    ANSWER_LIMIT_S,
    ANSWER_POLL_S,
    STANDSTILL_LIMIT_S,
    PluginControl,
    PluginSpec,
    Snapshot,
    ctl_path,
    elapsed_ns,
)
from lab.machine.qmp import Qmp


class PluginClock:
    """The guest clock of a machine under icount (supply.GuestClock).

    The plugin cuts the power at the end of the hold-up. The edge is exact: begin() stops the VM,
    and wait() continues it when QEMU has taken the status byte.
    """

    def __init__(
        self,
        control: PluginControl,
        stopped_mark: int,
        qmp: Callable[[], Qmp],
        delivered: Callable[[], bool],
    ) -> None:
        self._control = control
        self._stopped_mark = stopped_mark
        self._qmp = qmp
        self._delivered = delivered
        self._edge: Snapshot | None = None
        self.last: tuple[Snapshot, Snapshot] | None = None  # edge and end of the last wait

    def begin(self, limit_ns: int) -> None:
        control = self._control
        self._qmp().execute("stop")
        control.wait_ready()
        control.reset_marks()
        self._edge = control.read()
        control.arm_hold_up(limit_ns)

    def wait(self, event: threading.Event, limit_ns: int) -> int:
        control, edge = self._control, self._edge
        assert edge is not None, "begin() comes first"
        end_s = time.monotonic() + ANSWER_LIMIT_S
        while not self._delivered() and time.monotonic() < end_s:
            time.sleep(ANSWER_POLL_S)
        self._qmp().execute("cont")
        event.wait(STANDSTILL_LIMIT_S)
        end = control.first(self._stopped_mark) or control.at_cut()
        if end is None:
            # Guest time stands still, but the energy runs out.
            self.last = None
            return limit_ns + 1
        self.last = (edge, end)
        return elapsed_ns(edge, end)


def attach(machine: MachineParts, spec: PluginSpec) -> PluginControl:
    """Give a machine under icount its guest clock; the plugin's last mark is that of STOPPED."""
    control = PluginControl(ctl_path(machine.config.name))

    def qmp() -> Qmp:
        assert machine.qemu is not None, "the machine is off"
        return machine.qemu.qmp

    def delivered() -> bool:
        assert machine.supply.wire is not None, "the machine is off"
        return machine.supply.wire.delivered()

    machine.clock = PluginClock(control, spec.stopped_mark(), qmp, delivered)
    machine.plugin = control
    return control
