# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: on x86-64, too, a machine whose devices have wires and no messages is on the bounded path,
and a power failure under load loses nothing.

Method: a kernel that uses no MSI, and the load and checks of tests/test_claims_cuts.py. That an
interrupt which comes in a Stop is not missed, and the negative proofs, are in
tests/riscv/test_riscv_plic.py: the virtio driver is the same.
"""

from __future__ import annotations

import pytest

from tests.support.claims import booted
from tests.test_claims_cuts import CUTS_OF_FEW_CPUS, play

pytestmark = [pytest.mark.full, pytest.mark.timeout(900)]


@pytest.mark.in_turn
def test_cuts_lose_nothing_without_messages() -> None:
    with booted("wires", 2, "fast", cmdline_extra="pci=nomsi") as machine:
        interrupts = machine.run_in_guest("cat /proc/interrupts").stdout
        assert "PCI-MSI" not in interrupts
        assert machine.run_in_guest("cat /sys/kernel/remanence/stop_mode").stdout == "fast\n"
        play(machine, CUTS_OF_FEW_CPUS)
