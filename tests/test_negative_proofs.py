# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: the checks of this test suite find what they are for. They fail if the commit is skipped,
the record is not consumed, the context of a CPU is not saved, or a disk is not restarted.

Method: a kernel and a loader with planted bugs (kernel/mutants, loader/mutants), one of which is
chosen at boot. Two inner checks, as in the other tests. Without a bug they must pass on the same
kernel and loader; with a bug they must fail by the verdict that its patch names.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.machine.console import kernel_warnings
from lab.verdict import BrokenError
from tests.support.proofs import must_be_found
from tests.support.trials import Bed, booted_bed

# Far more than Go takes; a machine that hangs costs the test as much.
HANG_LIMIT_S = 20.0
DISK_LIMIT_S = 10.0

pytestmark = [pytest.mark.full, pytest.mark.timeout(900)]


def check_survives_a_cut(it: Bed) -> None:
    """Inner check: programs do not notice a cut, and CPUs and disk work after it."""
    it.machine.guest.close()
    record = it.machine.cut()
    assert record.stopped, "no Stop within the hold-up"
    it.resume(HANG_LIMIT_S)
    it.machine.run_in_guest("echo 1 > /root/after && sync /root/after", limit_s=DISK_LIMIT_S)
    for cpu in range(it.machine.config.cpus):
        it.machine.run_in_guest(f"taskset -c {cpu} true", limit_s=DISK_LIMIT_S)
    if not it.kept():
        raise BrokenError("promises-broken", "a file is lost that was durable")
    if warned := kernel_warnings(it.machine.console.text()):
        raise BrokenError("kernel-warns", warned[0])


def check_enters_an_image_once(it: Bed, mutant: str | None = None) -> None:
    """Inner check: after Go and a cut without a Stop, the image is not entered again."""
    it.machine.guest.close()
    assert it.machine.cut().stopped
    assert it.boot_decision(mutant=mutant).resumed
    again = it.boot_decision(mutant=mutant)
    if again.resumed:
        raise BrokenError("entered-twice", f"image {again.sequence} was entered twice")
    assert again.reason == "COLD_ALREADY_CONSUMED"


@pytest.fixture(scope="module")
def healthy() -> Iterator[Bed]:
    """Both are built with planted bugs, and none is chosen."""
    with booted_bed("healthy", mutants=True) as it:
        yield it


def test_checks_pass_without_a_bug(healthy: Bed) -> None:
    check_survives_a_cut(healthy)
    check_enters_an_image_once(healthy)


def test_record_not_consumed_is_found(healthy: Bed) -> None:
    if healthy.machine.state != "running":
        healthy.cold_boot()
    with must_be_found("skip-consume"):
        check_enters_an_image_once(healthy, mutant="skip-consume")


@pytest.mark.parametrize("name", ["skip-commit", "skip-context", "skip-device"])
def test_bug_of_a_stop_is_found(name: str) -> None:
    with booted_bed(name, mutants=True, mutant=name) as it, must_be_found(name):
        check_survives_a_cut(it)


def test_refused_stop_leaves_the_machine_running() -> None:
    """Refused after the park: the steps of Go bring CPUs, devices and clocks back."""
    with booted_bed("refuse-commit", mutants=True, mutant="refuse-commit") as it:
        it.machine.run_in_guest("echo now > /sys/kernel/remanence/stop")
        shown = it.machine.run_in_guest(
            "while grep -qx 0 /sys/kernel/remanence/last_error; do sleep 0.1; done;"
            "cat /sys/kernel/remanence/last_error /sys/kernel/remanence/status",
            limit_s=DISK_LIMIT_S,
        )
        assert shown.stdout.split() == ["-125", "armed"]
        it.machine.run_in_guest("echo 1 > /root/after && sync /root/after", limit_s=DISK_LIMIT_S)
        for cpu in range(it.machine.config.cpus):
            it.machine.run_in_guest(f"taskset -c {cpu} true", limit_s=DISK_LIMIT_S)
        assert it.kept()
