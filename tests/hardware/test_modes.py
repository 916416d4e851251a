# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: a machine is stopped only in a state from which Go can return. A device of the platform or
of PnP whose driver is not known keeps it on stop=dpm, by name: one that is there at boot, and one
whose driver is bound later. A CPU in VMX operation keeps it unarmed, by name, also if that begins
when the machine is armed already. An image does not continue on a CPU whose time stamp counter is
another one after the cut, and the reason names that.

Method: a module of a few lines, whose driver the kernel cannot know. QEMU has neither VMX operation
nor packages that start at different times: a kernel with planted bugs reads them. Negative proofs:
planted bugs.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager

import pytest

from lab.machine.console import kernel_warnings
from lab.setup.kernel import MUTANTS
from lab.testbed.planted import NONE, plant
from lab.verdict import BrokenError
from tests.support.holder_module import GUEST_PATH, put_holder
from tests.support.proofs import must_be_found
from tests.support.resets import check_go_is_given_up
from tests.support.trials import Bed, booted_bed

SYSFS = "/sys/kernel/remanence"
REFUSED = "refused: VMX operation is in use"
REFUSED_LIMIT_S = 20.0
POLL_S = 0.2

pytestmark = [pytest.mark.full, pytest.mark.in_turn, pytest.mark.timeout(900)]


def shown(it: Bed, file: str) -> str:
    return it.machine.run_in_guest(f"cat {SYSFS}/{file}").stdout.strip()


def check_holder_is_named(it: Bed, name: str) -> None:
    """Inner check: a device holds state, and this is its name or its driver's."""
    if (mode := shown(it, "stop_mode")) != f"dpm: because of {name}":
        raise BrokenError("state-lost", f"what {name} holds is not kept: {mode}")


@pytest.fixture(scope="module")
def stopped() -> Iterator[Bed]:
    """Armed on the fast path, with the module on its disk; then stopped, its media copied."""
    with booted_bed("modes", mutants=True) as it:
        put_holder(it.machine, MUTANTS)
        it.machine.run_in_guest("sync")
        assert shown(it, "stop_mode") == "fast"
        assert shown(it, "status") == "armed"
        it.machine.guest.close()
        assert it.machine.cut().stopped
        it.save()
        yield it


@pytest.fixture
def it(stopped: Bed) -> Bed:
    """As it was armed, each time."""
    stopped.restore()
    stopped.resume()
    return stopped


@pytest.mark.parametrize(
    ("words", "name"), [("", "rem-holder"), ("pnp=1", "rem-holder-pnp")], ids=["platform", "pnp"]
)
def test_driver_bound_later_keeps_the_machine_on_the_portable_path(
    it: Bed, words: str, name: str
) -> None:
    """First with the bug, as what was noticed stays so."""
    plant(it.machine, "forget-platform")
    it.machine.run_in_guest(f"insmod {GUEST_PATH} {words}")
    with must_be_found("forget-platform", f"what {name} holds is not kept: fast"):
        check_holder_is_named(it, name)
    it.machine.run_in_guest("rmmod rem_holder")
    plant(it.machine, NONE)
    it.machine.run_in_guest(f"insmod {GUEST_PATH} {words}")
    check_holder_is_named(it, name)
    it.machine.guest.close()
    assert it.machine.cut().stopped
    it.resume()
    check_holder_is_named(it, name)
    assert it.kept()
    assert kernel_warnings(it.machine.console.text()) == []


def with_holder(mutant: str) -> AbstractContextManager[Bed]:
    return booted_bed("holder-at-boot", mutants=True, mutant=mutant)


def test_driver_bound_at_boot_keeps_the_machine_on_the_portable_path() -> None:
    with with_holder("boot-holder") as it:
        check_holder_is_named(it, "rem-boot-holder")


def test_driver_bound_at_boot_and_forgotten_is_found() -> None:
    with (
        with_holder("boot-holder+forget-platform") as it,
        must_be_found("forget-platform", "what rem-boot-holder holds is not kept: fast"),
    ):
        check_holder_is_named(it, "rem-boot-holder")


def check_is_not_stopped(it: Bed) -> None:
    """Inner check: a CPU has entered VMX operation since the machine was armed."""
    it.machine.guest.close()
    if it.machine.cut().stopped:
        raise BrokenError("state-lost", "there is an image of a CPU in VMX operation")


def test_cpu_in_vmx_operation_is_refused_by_name(it: Bed) -> None:
    """When a Stop begins, and from then on."""
    plant(it.machine, "cr4-vmx")
    it.machine.run_in_guest(f"echo now > {SYSFS}/stop")
    end_s = time.monotonic() + REFUSED_LIMIT_S
    while (status := shown(it, "status")) != REFUSED:
        assert time.monotonic() < end_s, status
        time.sleep(POLL_S)
    it.machine.run_in_guest("echo 1 > /root/after && sync /root/after")
    assert kernel_warnings(it.machine.console.text()) == []


def test_power_failure_in_vmx_operation_leaves_no_image(it: Bed) -> None:
    plant(it.machine, "cr4-vmx")
    check_is_not_stopped(it)


def test_cpu_in_vmx_operation_at_boot_is_refused_by_name() -> None:
    with booted_bed("vmx-at-boot", mutants=True, mutant="cr4-vmx") as it:
        assert shown(it, "status") == REFUSED
        check_is_not_stopped(it)


def test_stop_in_vmx_operation_is_found(it: Bed) -> None:
    plant(it.machine, "cr4-vmx+cr4-ignored")
    with must_be_found("cr4-ignored", "there is an image"):
        check_is_not_stopped(it)


def check_other_clock_is_a_cold_boot(it: Bed) -> None:
    """Inner check: the counter of CPU 1 is ahead of the boot CPU's after the cut."""
    it.machine.guest.close()
    assert it.machine.cut().stopped
    finding = "the image continues, and a clock goes backwards"
    check_go_is_given_up(it, "tsc", "clock-wrong", finding)


def test_other_time_stamp_counter_is_a_cold_boot_with_its_reason(it: Bed) -> None:
    plant(it.machine, "skew-tsc")
    check_other_clock_is_a_cold_boot(it)


def test_other_time_stamp_counter_that_is_not_noticed_is_found(it: Bed) -> None:
    plant(it.machine, "skew-tsc+forget-tsc")
    with must_be_found("forget-tsc"):
        check_other_clock_is_a_cold_boot(it)
