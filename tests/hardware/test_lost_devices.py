# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: a machine begins no Stop that would lose a device. Generic power management takes a driver
that has no callback to set its device up again for one that needs none: a virtio GPU is dead after
such a Stop. So a machine with one is refused, and names driver and device; without its driver the
machine is armed again.

Method: Linux 6.12's virtio_gpu has no such callback. Negative proof: a planted bug, with which the
machine says that it is armed.
"""

from __future__ import annotations

import pytest

from lab.machine.console import kernel_warnings
from lab.testbed.planted import plant
from lab.testbed.waiting import wait_until
from lab.verdict import BrokenError
from tests.support.proofs import must_be_found
from tests.support.trials import Bed, booted_bed

KERNEL = "devices-mutants"
GPU = ("virtio-gpu-pci,disable-legacy=on,iommu_platform=on,addr=7",)
WHERE = "0000:00:07.0"
SYSFS = "/sys/kernel/remanence"
DRIVER = "/sys/bus/virtio/drivers/virtio_gpu"
LISTED_LIMIT_S = 30.0
GO_LIMIT_S = 60.0

pytestmark = [pytest.mark.full, pytest.mark.in_turn, pytest.mark.timeout(900)]


def show(it: Bed, name: str) -> str:
    return it.machine.run_in_guest(f"cat {SYSFS}/{name}").stdout.strip()


def wait_shown(it: Bed, name: str, wanted: str) -> None:
    wait_until(lambda: show(it, name) == wanted, f"{name} is {wanted}", LISTED_LIMIT_S)


def check_gpu_is_not_lost(it: Bed) -> None:
    """Inner check: with the driver bound."""
    wait_shown(it, "stop_mode", f"dpm: because of {WHERE}")
    shown = show(it, "status")
    if shown != f"refused: stop=dpm would lose virtio_gpu of {WHERE}":
        raise BrokenError("state-lost", f"a Stop would lose the GPU: {shown}")


def test_device_that_a_stop_would_lose_is_refused_by_name() -> None:
    with booted_bed("gpu", variant=KERNEL, devices=GPU) as it:
        check_gpu_is_not_lost(it)
        sequence = show(it, "sequence")
        refused = it.machine.run_in_guest(f"echo now >{SYSFS}/stop", check=False)
        assert not refused.ok and "busy" in refused.stderr
        assert show(it, "sequence") == sequence
        it.machine.run_in_guest(f"cd {DRIVER} && echo virtio* >unbind", limit_s=LISTED_LIMIT_S)
        wait_shown(it, "status", "armed")
        wait_shown(it, "stop_mode", "fast")
        assert it.machine.cut().stopped
        it.resume(GO_LIMIT_S)
        assert it.kept()
        # A driver that is bound later is seen, too.
        name = it.machine.run_in_guest(f"basename /sys/bus/pci/devices/{WHERE}/virtio*").stdout
        it.machine.run_in_guest(f"echo {name.strip()} >{DRIVER}/bind", limit_s=LISTED_LIMIT_S)
        wait_until(lambda: "virtio_gpu" in show(it, "status"), "it is refused", LISTED_LIMIT_S)
        assert kernel_warnings(it.machine.console.text()) == []


def test_device_that_a_stop_would_lose_and_that_is_not_seen_is_found() -> None:
    name = "lose-device"
    with booted_bed(name, variant=KERNEL, devices=GPU, mutant=name) as it:
        with must_be_found(name, "a Stop would lose the GPU: armed"):
            check_gpu_is_not_lost(it)
        # The same kernel without the bug, from the next change of a driver on.
        plant(it.machine, "none")
        it.machine.run_in_guest(f"cd {DRIVER} && echo virtio* >unbind", limit_s=LISTED_LIMIT_S)
        device = f"basename /sys/bus/pci/devices/{WHERE}/virtio*"
        it.machine.run_in_guest(f"echo $({device}) >{DRIVER}/bind", limit_s=LISTED_LIMIT_S)
        wait_until(lambda: "refused" in show(it, "status"), "it is refused", LISTED_LIMIT_S)
        check_gpu_is_not_lost(it)
