# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: what holds on volatile CPU caches holds under UEFI, too: a Stop loses nothing, because it
flushes.

Method: OVMF under icount with the plugin, which leaves firmware out. A machine is stopped and
resumed, resets itself, and is stopped without flushes.
"""

from __future__ import annotations

import pytest

from lab.machine import Machine
from lab.machine.caches import DEFAULT_PROFILE, is_lost
from lab.machine.cut_plan import CutPlan
from lab.machine.cut_points import attach_cut_points
from lab.testbed.machines import make_config, with_caches, with_uefi
from tests.support.claims import BOOT_LIMIT_S, machine_name

TEXT = "kept by a flush"
SLOW_LIMIT_S = 240.0

pytestmark = [pytest.mark.full, pytest.mark.in_turn, pytest.mark.timeout(1200)]


def test_stop_flushes_and_a_reset_boots_again() -> None:
    config = with_uefi(make_config(machine_name("uefi-caches"), 2, "fast"))
    with Machine.create(with_caches(config, DEFAULT_PROFILE), destroy_on_exit=True) as machine:
        attach_cut_points(machine)
        machine.boot()
        machine.wait_up(BOOT_LIMIT_S)
        machine.run_in_guest(f"echo {TEXT} > /dev/shm/text")
        machine.guest.close()
        assert machine.cut().stopped
        machine.resume()
        assert machine.wait_resumed(SLOW_LIMIT_S).resumed
        assert machine.run_in_guest("cat /dev/shm/text").stdout.strip() == TEXT
        check_reset(machine)
        # The negative proof: by both counts lines are lost, and the loader enters nothing.
        record = machine.cut(CutPlan(no_flush="all"))
        assert is_lost(record.caches)
        machine.resume()
        assert not machine.wait_boot_note(SLOW_LIMIT_S).resumed


def check_reset(machine: Machine) -> None:
    """The machine resets itself: firmware runs a second time in the same QEMU."""
    assert machine.console is not None
    printed = len(machine.console.text())
    machine.run_in_guest("(sleep 1; echo b > /proc/sysrq-trigger) >/dev/null 2>&1 &")
    machine.guest.close()
    machine.wait_ready(BOOT_LIMIT_S, since=printed)
    assert machine.resets == 1
    assert machine.console.text().count("BdsDxe: starting") == 2
    machine.guest.wait_ssh(SLOW_LIMIT_S)
    machine.guest.close()
