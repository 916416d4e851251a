# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What must hold of copies of the kernel's text in DRAM: each check raises BrokenError. As in
mixed_checks.py.

The kernel with planted bugs has a loop that changes static calls (kernel/mutants/switch.patch) and
counts those that have then gone where they did not lead.
"""

from __future__ import annotations

from lab.machine import Machine
from lab.testbed.mixed_checks import cut_and_resume, goes_on, witnessed, working
from lab.testbed.mixed_guest import wait_count
from lab.testbed.pm_guest import sh
from lab.testbed.waiting import wait_until
from lab.verdict import BrokenError

LEAST = 100  # pages of text that any program lets the kernel use
PATCHING = "/sys/module/remanence/parameters/patching"
PATCHES = 20
PATCH_LIMIT_S = 240.0


def patched(machine: Machine) -> int:
    """How often each CPU has changed text, and each call has then gone where it leads."""
    one, two, wrong, number = sh(machine, f"cat {PATCHING}").stdout.split()
    if (wrong, number) != ("wrong", "0"):
        raise BrokenError("promises-broken", f"{number} calls went to the old place")
    return min(int(one), int(two))


def text_survives(machine: Machine) -> None:
    with working(machine, "text") as one:
        for _ in range(2):
            wait_count(machine, "text_used", LEAST)
            cut_and_resume(machine)
            goes_on(one)


def text_follows_patches(machine: Machine) -> None:
    with working(machine, "patched") as one:
        wait_count(machine, "text_used", LEAST)
        with witnessed():
            sh(machine, f"echo 1 >{PATCHING}")
        for cut in (False, True):
            if cut:
                cut_and_resume(machine)
            goal = patched(machine) + PATCHES
            with witnessed():
                wait_until(lambda goal=goal: patched(machine) >= goal, "patches", PATCH_LIMIT_S)  # type: ignore[misc]
            goes_on(one)
        sh(machine, f"echo 0 >{PATCHING}")
