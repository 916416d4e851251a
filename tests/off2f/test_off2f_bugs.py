# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Planted bugs of the module (off2f/mutants) are found, each by the verdict that its patch names.

Goal: the check that no lock is out of order can fail. Method: the debug kernel and the module with
all planted bugs. The check passes with none of them on, and fails by lockdep's report with the lock
inversion of an earlier version. The bugs of the tool are found on the host (off2f/mutants/tests).
"""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from lab.machine import Machine
from lab.setup.off2f import Off2fModule, series
from lab.setup.products import need
from lab.testbed.off2f_guest import PARAMETERS, convert, watched_guest_with_store
from lab.testbed.pm_guest import sh
from lab.verdict import BrokenError
from tests.off2f.test_off2f_debug import check_locks
from tests.off2f.test_off2f_guest import TRY

PROMISE = "kernel-rules"
CHECKS: dict[str, Callable[[Machine], None]] = {"ask-bmap-in-fault": check_locks}


def load_planted(machine: Machine) -> None:
    """Instead of the module without bugs."""
    module = need(Off2fModule(variant="debug", mutants=True)).module
    machine.guest.put(module, "/root/planted.ko")
    sh(machine, f"echo 0 >{PARAMETERS}/keep; rmmod binfmt_off2f && insmod /root/planted.ko")


def test_each_bug_of_the_module_has_a_check() -> None:
    of_the_module = [
        patch.name
        for patch in series().mutants
        if any(broken.promise == PROMISE for broken in patch.violates)
    ]
    assert of_the_module == list(CHECKS)


# Lockdep speaks once: another bug takes another machine.
@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", CHECKS)
def test_bug_is_found(name: str) -> None:
    with watched_guest_with_store(f"t-offb-{os.getpid()}") as machine:
        convert(machine, "/root/off2f-try", TRY)
        load_planted(machine)
        CHECKS[name](machine)
        sh(machine, f"echo {name} >{PARAMETERS}/mutant")
        with pytest.raises(BrokenError) as broken:
            CHECKS[name](machine)
        assert broken.value.verdict in series()[name].verdicts
