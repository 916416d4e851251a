# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The machine: QEMU, its power supply, its network and its guest, as one object.

    from lab.machine import Machine, MachineConfig

    with Machine.create(MachineConfig(name="m", kernel=..., loader=..., root=...)) as machine:
        machine.boot()
        machine.run_in_guest("redis-cli set key value")
        record = machine.cut()              # PWR_OK drops; Stop; SIGKILL of QEMU
        machine.resume()                    # a new QEMU on the same NVRAM and disk

The parts: config.py (what a machine is), qemu.py (command line and process), supply.py (power),
network.py (namespace and tap), guest.py (console and ssh), machine.py (all of it together),
supervisor.py (the process that owns a machine between two commands), control.py (its clients).
"""

from lab.machine.config import MachineConfig
from lab.machine.machine import Machine, MachineState
from lab.machine.supply import CutRecord

__all__ = ["CutRecord", "Machine", "MachineConfig", "MachineState"]
