# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: the checks of this test suite see what they are for. With the commit skipped, the record
not consumed, one CPU's context not saved, or the disk not restarted, they are red.

Method: a kernel and a loader with planted bugs, one of which is chosen at boot. Two inner checks,
as the other tests make them; without a bug they must pass on the same kernel and loader, with one
they must fail, each in its own way.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.errors import HangError, RemError
from lab.machine.console import kernel_warnings
from tests.support.trials import Bed, booted_bed

# Far more than Go takes; a machine that hangs costs the test as much.
HANG_LIMIT_S = 20.0
DISK_LIMIT_S = 10.0

pytestmark = [pytest.mark.full, pytest.mark.timeout(900)]


def check_lives_through_a_cut(it: Bed) -> None:
    """Inner check: a cut is not noticed, and CPUs and disk work after it."""
    it.machine.guest.close()
    record = it.machine.cut()
    assert record.stopped, "no Stop within the hold-up"
    it.resume(HANG_LIMIT_S)
    it.machine.run_in_guest("echo 1 > /root/after && sync /root/after", limit_s=DISK_LIMIT_S)
    for cpu in range(it.machine.config.cpus):
        it.machine.run_in_guest(f"taskset -c {cpu} true", limit_s=DISK_LIMIT_S)
    assert it.kept()
    assert kernel_warnings(it.machine.console.text()) == []


def check_enters_an_image_once(it: Bed, mutant: str | None = None) -> None:
    """Inner check: after Go and a cut that nothing announced, the image is not entered again."""
    it.machine.guest.close()
    assert it.machine.cut().stopped
    assert it.boot_decision(mutant=mutant).resumed
    again = it.boot_decision(mutant=mutant)
    assert again.reason == "COLD_ALREADY_CONSUMED", f"the image was entered twice: {again.reason}"


@pytest.fixture(scope="module")
def healthy() -> Iterator[Bed]:
    """Both are built with planted bugs, and none is chosen."""
    with booted_bed("healthy", mutants=True) as it:
        yield it


def test_without_a_bug_the_checks_are_green(healthy: Bed) -> None:
    check_lives_through_a_cut(healthy)
    check_enters_an_image_once(healthy)


def test_a_record_not_consumed_is_red(healthy: Bed) -> None:
    if healthy.machine.state != "running":
        healthy.cold_boot()
    with pytest.raises(AssertionError, match="the image was entered twice"):
        check_enters_an_image_once(healthy, mutant="skip-consume")


def test_a_skipped_commit_is_red() -> None:
    """The machine says that it stopped, and the loader finds nothing to enter."""
    with (
        booted_bed("skip-commit", mutants=True, mutant="skip-commit") as it,
        pytest.raises(RemError, match="cold booted: COLD_NOT_COMMITTED"),
    ):
        check_lives_through_a_cut(it)


def test_a_cpu_context_not_saved_is_red() -> None:
    """The image is entered, and the second CPU never gets back to where it was."""
    with booted_bed("skip-context", mutants=True, mutant="skip-context") as it:
        with pytest.raises((RemError, AssertionError)) as red:
            check_lives_through_a_cut(it)
        note = it.machine.boot_note()
        assert note is not None
        assert note.resumed, "red, but not because of the CPU"
        assert "Stop within" not in str(red.value)


def test_a_disk_not_restarted_is_red() -> None:
    """The image is entered, and what waits for a device waits for ever."""
    with booted_bed("skip-device", mutants=True, mutant="skip-device") as it:
        with pytest.raises(HangError):
            check_lives_through_a_cut(it)
        note = it.machine.boot_note()
        assert note is not None
        assert note.resumed, "red, but not because of the disk"


def test_a_refused_stop_leaves_the_machine_running() -> None:
    """Refused after the park: CPUs, devices and clocks come back by the steps of Go."""
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
