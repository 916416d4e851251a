# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Tests of the claims: a machine that has booted, and cuts that must succeed.

Everything here is real: set-up's kernel, loader and root in a QEMU of its own. With
REM_TEST_CACHES=PROFILE the machine has volatile caches from its first resume on, with
REM_TEST_ARCH=riscv64 it is one of RISC-V.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from lab.isa import IsaName
from lab.machine import Machine
from lab.machine.config import StopModeName
from lab.machine.console import kernel_warnings
from lab.machine.supply import GuestClock
from lab.setup.kernel import mutants_of
from lab.testbed import cycle
from lab.testbed.machines import make_config, parts_of
from lab.testbed.no_stop import consoles

BOOT_LIMIT_S = 240.0
CACHES = os.environ.get("REM_TEST_CACHES")
ARCH = cast(IsaName, os.environ.get("REM_TEST_ARCH", "x86_64"))
MUTANTS = mutants_of(parts_of(ARCH).kernel.variant)  # the kernel with planted bugs
# A machine with modelled caches is some twenty times slower; no limit here is a measurement.
SLOWER = cycle.SLOWER if CACHES else 1
GO_LIMIT_S = cycle.GO_LIMIT_S * SLOWER
ANSWER_LIMIT_S = 60.0 * SLOWER  # of a program; rem-mem fills half of the memory first


def machine_name(purpose: str) -> str:
    """A name of its own for each test process, so that several may run in parallel."""
    return f"t-{purpose}-{os.getpid()}"


@contextmanager
def booted(
    purpose: str,
    cpus: int,
    stop: StopModeName,
    kernel: Path | None = None,
    **options: Any,
) -> Iterator[Machine]:
    """A machine with a guest that answers; always destroyed at the end. *kernel* is another
    bzImage, and *options* are fields of the configuration."""
    if given := os.environ.get("REM_TEST_KERNEL"):
        kernel = kernel or Path(given)
    config = make_config(machine_name(purpose), cpus, stop, kernel, isa=ARCH)
    config = replace(config, **options)
    with Machine.create(config, destroy_on_exit=True) as machine:
        machine.boot()
        machine.wait_up(BOOT_LIMIT_S)
        if CACHES:
            cycle.stop_for_caches(machine, CACHES)
            machine.resume()
            machine.wait_resumed(GO_LIMIT_S)
        yield machine


def cut_with(machine: Machine, clock: GuestClock, go_limit_s: float) -> None:
    """The same on a kernel that is so slow that only *clock* knows when its Stop is late."""
    machine.guest.close()
    assert machine.cut(clock=clock).stopped, consoles(machine)[-1000:]
    machine.resume()
    machine.wait_resumed(go_limit_s)


def warnings(machine: Machine) -> list[str]:
    return kernel_warnings(consoles(machine))
