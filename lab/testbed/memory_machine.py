# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A machine whose guest time follows a memory controller, and what that controller served."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from lab.errors import InfraError
from lab.machine import MachineConfig
from lab.machine.cut_points import attach_cut_points
from lab.machine.machine import Machine
from lab.machine.memories import MEMORY_PROFILE
from lab.testbed.machines import with_caches

BOOT_LIMIT_S = 240.0


@contextmanager
def booted_on(memory: str | None, config: MachineConfig) -> Iterator[Machine]:
    """A guest that answers, with the caches of such a memory; None: with those caches alone.

    The machine is destroyed at the end.
    """
    config = replace(with_caches(config, MEMORY_PROFILE), memory=memory)
    with Machine.create(config, destroy_on_exit=True) as machine:
        attach_cut_points(machine)
        machine.boot()
        machine.wait_up(BOOT_LIMIT_S)
        yield machine


def served(machine: Machine) -> dict[str, int]:
    """What the controller has served so far (struct rem_plugin_memory by field).

    The VM is stopped meanwhile; InfraError if the machine has no controller.
    """
    assert machine.qemu is not None and machine.plugin is not None, "the machine is off"
    machine.qemu.qmp.execute("stop")
    machine.plugin.read()
    counters = machine.plugin.memory()
    machine.qemu.qmp.execute("cont")
    if counters is None:
        raise InfraError("the plugin reports no memory controller")
    return counters
