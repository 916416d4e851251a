# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The planted bugs of a guest's kernel that was built with them."""

from __future__ import annotations

from lab.machine import Machine

MUTANT = "/sys/module/remanence/parameters/mutant"
NONE = "none"


def plant(machine: Machine, mutant: str) -> None:
    """Switch a planted bug of the running kernel on, or several that are joined by `+`, and all
    others off; or NONE."""
    machine.run_in_guest(f"printf {mutant} > {MUTANT}")
