# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What the modules around Machine need of it, so that machine.py can import them."""

from __future__ import annotations

from typing import Protocol

from lab.machine.config import MachineConfig
from lab.machine.console import Console
from lab.machine.files import MachineFiles
from lab.machine.plugin import PluginControl
from lab.machine.qemu import QemuProcess
from lab.machine.supply import GuestClock, PowerSupply


class MachineParts(Protocol):
    """A machine: its configuration and files, and the parts that it has while the power is on."""

    config: MachineConfig
    files: MachineFiles
    supply: PowerSupply
    clock: GuestClock
    plugin: PluginControl | None
    qemu: QemuProcess | None
    console: Console | None

    def boot_again(self) -> None: ...
