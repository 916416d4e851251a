# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The promise that a power failure saves what is in CPU caches."""

from __future__ import annotations

from lab.machine import Machine

STOP_MODE = "/sys/kernel/remanence/stop_mode"


def end_promise(machine: Machine) -> None:
    """The machine stops by the portable path from now on, which has no bound."""
    machine.run_in_guest(f"echo dpm >{STOP_MODE}; grep dpm {STOP_MODE}")
