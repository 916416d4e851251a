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
def booted_on(
    memory: str | None,
    config: MachineConfig,
    caches: str = MEMORY_PROFILE,
    limit_s: float = BOOT_LIMIT_S,
) -> Iterator[Machine]:
    """A guest that answers within *limit_s*, with the caches of such a memory; None: with those
    caches alone.

    The machine is destroyed at the end.
    """
    config = replace(with_caches(config, caches), memory=memory)
    with Machine.create(config, destroy_on_exit=True) as machine:
        attach_cut_points(machine)
        machine.boot()
        machine.wait_up(limit_s)
        yield machine


def served(machine: Machine) -> dict[str, int]:
    """What the controller has served so far (struct rem_plugin_memory by field).

    The VM is stopped meanwhile; InfraError if the machine has no controller.
    """
    return served_and_cached(machine)[0]


def served_and_cached(machine: Machine) -> tuple[dict[str, int], dict[str, int]]:
    """The same, and what the caches have done (struct rem_plugin_cache), at the same moment."""
    assert machine.qemu is not None and machine.plugin is not None, "the machine is off"
    machine.qemu.qmp.execute("stop")
    machine.plugin.read()
    memory, caches = machine.plugin.memory(), machine.plugin.caches()
    machine.qemu.qmp.execute("cont")
    if memory is None or caches is None:
        raise InfraError("the plugin reports no memory controller")
    return memory, caches
