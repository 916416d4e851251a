# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: the checks of this test suite find what they are for. They fail if the commit is skipped,
the record is not consumed, the context of a CPU is not saved, or a disk is not restarted; if a
clock is wrong after Go, random numbers repeat, or a change of power is missed.

Method: a kernel and a loader with planted bugs (kernel/mutants, loader/mutants), one of which is
chosen. Inner checks, as in the other tests. Without a bug they must pass on the same kernel and
loader, within the same limits; with a bug they must fail by the verdict that its patch names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lab import format as fmt
from lab.machine.console import kernel_warnings
from lab.testbed.planted import plant
from lab.verdict import BrokenError, after_go, cold_verdict
from tests.support.proofs import must_be_found
from tests.support.randomness import check_no_number_comes_twice
from tests.support.resets import check_go_is_given_up, next_decision
from tests.support.trials import BOOT_LIMIT_S, GO_LIMIT_S, Bed, booted_bed, parts, symbols
from tests.support.wire import (
    check_break_is_no_drop,
    check_drop_in_go_ends_in_a_stop,
    check_loader_waits_for_charge,
    check_power_that_returns_in_a_stop,
    check_returning_power_ends_a_stop,
)

# Far more than Go takes; a machine that hangs costs the test as much.
HANG_LIMIT_S = 20.0
DISK_LIMIT_S = 10.0
WEEK_S = 7 * 86400
CHECK_S = 120.0  # a check of clocks takes less, on a busy host too
CONSUMED_AT = int(fmt.CONST["REM_CONSUMED_OFFSET"])
WORD_BYTES = 8

pytestmark = [pytest.mark.full, pytest.mark.timeout(900)]


def check_survives_a_cut(it: Bed) -> None:
    """Inner check: programs do not notice a cut, and CPUs and disk work after it."""
    it.machine.guest.close()
    record = it.machine.cut()
    assert record.stopped, "no Stop within the hold-up"
    it.resume(HANG_LIMIT_S)
    with after_go():
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


def check_closes_what_it_overwrites(it: Bed, mutant: str | None = None) -> None:
    """Inner check: an image that a cold boot has overwritten is never entered, although the word
    because of which it was refused reads right again."""
    it.machine.guest.close()
    assert it.machine.cut().stopped
    block = it.read_block()
    word = bytes(block[CONSUMED_AT : CONSUMED_AT + WORD_BYTES])
    block[CONSUMED_AT + WORD_BYTES - 1] ^= 1
    it.write_block(block)
    assert it.boot_decision(mutant=mutant).reason == "COLD_CONSUMED_INVALID"
    block = it.read_block()
    block[CONSUMED_AT : CONSUMED_AT + WORD_BYTES] = word
    it.write_block(block)
    # Not by the note: an image that has been overwritten may execute anything, and overwrite it.
    it.power_on(mutant=mutant)
    assert it.machine.console is not None
    decided = it.machine.console.expect(r"GO: (cold|resume sequence) (\d+)", GO_LIMIT_S)
    it.off()
    if decided[1] != "cold":
        raise BrokenError("differs", f"image {decided[2]} was entered after a cold boot")


def check_stop_is_within_its_bound(it: Bed) -> None:
    """Inner check: the kernel accounts each step of a Stop."""
    it.machine.guest.close()
    assert it.machine.cut().stopped
    it.resume(HANG_LIMIT_S)
    shown = it.machine.run_in_guest("cat /sys/kernel/remanence/budget").stdout
    figures = {name: int(value) for name, value in map(str.split, shown.splitlines())}
    if figures["exceeded"]:
        raise BrokenError("over-budget", f"a Stop took {figures['last_ns']} ns")


@pytest.fixture(scope="module")
def healthy() -> Iterator[Bed]:
    """Both are built with planted bugs, and none is chosen."""
    with booted_bed("healthy", mutants=True) as it:
        yield it


def test_checks_pass_without_a_bug(healthy: Bed) -> None:
    check_survives_a_cut(healthy)
    check_enters_an_image_once(healthy)
    healthy.cold_boot()
    check_closes_what_it_overwrites(healthy)


def test_record_not_consumed_is_found(healthy: Bed) -> None:
    if healthy.machine.state != "running":
        healthy.cold_boot()
    with must_be_found("skip-consume"):
        check_enters_an_image_once(healthy, mutant="skip-consume")


def test_image_left_open_is_found(healthy: Bed) -> None:
    if healthy.machine.state != "running":
        healthy.power_on(cold=True)  # the test before has left an image that could be entered
        healthy.machine.wait_up(BOOT_LIMIT_S)
    with must_be_found("leave-open"):
        check_closes_what_it_overwrites(healthy, mutant="leave-open")


def check_power_that_returns_while_cpus_gather(it: Bed) -> None:
    check_power_that_returns_in_a_stop(it, symbols(parts(mutants=True))["rem_park_cpu"])


@pytest.mark.in_turn
@pytest.mark.parametrize(
    ("name", "check"),
    [
        ("hear-break", check_break_is_no_drop),
        ("deaf-after-commit", check_returning_power_ends_a_stop),
        ("deaf-before-commit", check_power_that_returns_while_cpus_gather),
    ],
)
def test_bug_of_the_power_wire_is_found(name: str, check: Callable[[Bed], None]) -> None:
    with booted_bed(name, mutants=True) as it:
        check(it)
        plant(it.machine, name)
        with must_be_found(name):
            check(it)


def check_clocks_of_a_week(it: Bed, weeks: int) -> None:
    """Inner check: the supply's clock is *weeks* ahead, one more than at the last power-on."""
    before = clocks(it)
    it.machine.guest.close()
    assert it.machine.cut().stopped
    it.power_on(rtc_offset_s=weeks * WEEK_S)
    it.machine.wait_resumed(HANG_LIMIT_S)
    after = clocks(it)
    passed_s = {name: after[name] - before[name] for name in after}
    ran_s = passed_s.pop("MONOTONIC")
    if not 0 <= ran_s < CHECK_S or any(abs(s - WEEK_S) > CHECK_S for s in passed_s.values()):
        raise BrokenError("clock-wrong", f"MONOTONIC has passed {ran_s} s, others {passed_s}")


def clocks(it: Bed) -> dict[str, float]:
    names = ("MONOTONIC", "BOOTTIME", "REALTIME")
    words = ", ".join(f"time.clock_gettime(time.CLOCK_{name})" for name in names)
    shown = it.machine.run_in_guest(f"python3 -c 'import time; print({words})'").stdout
    return dict(zip(names, map(float, shown.split()), strict=True))


@pytest.mark.in_turn
def test_wrong_clock_is_found() -> None:
    with booted_bed("clocks", mutants=True) as it:
        check_clocks_of_a_week(it, 1)
        for weeks, name in ((2, "forget-time-off"), (3, "monotonic-counts")):
            plant(it.machine, name)
            with must_be_found(name):
                check_clocks_of_a_week(it, weeks)


@pytest.mark.in_turn
def test_random_numbers_that_repeat_are_found(tmp_path: Path) -> None:
    with booted_bed("random", mutants=True) as it:
        check_no_number_comes_twice(it.machine, tmp_path)
        it.resume()
        plant(it.machine, "replay-random")
        with must_be_found("replay-random"):
            check_no_number_comes_twice(it.machine, tmp_path)


@pytest.mark.in_turn
def test_drop_that_go_forgets_is_found() -> None:
    at = symbols(parts(mutants=True))["rem_go_begin"]
    with booted_bed("drop", mutants=True) as it:
        it.machine.guest.close()
        assert it.machine.cut().stopped
        check_drop_in_go_ends_in_a_stop(it, at, HANG_LIMIT_S)
        it.resume()
        plant(it.machine, "forget-drop")
        it.machine.guest.close()
        assert it.machine.cut().stopped
        with must_be_found("forget-drop"):
            check_drop_in_go_ends_in_a_stop(it, at, HANG_LIMIT_S)


@pytest.mark.in_turn
def test_image_entered_without_charge_is_found(healthy: Bed) -> None:
    if healthy.machine.state != "running":
        healthy.power_on(cold=True)
        healthy.machine.wait_up(BOOT_LIMIT_S)
    healthy.machine.guest.close()
    assert healthy.machine.cut().stopped
    check_loader_waits_for_charge(healthy, fmt.Charge.NONE)
    healthy.off()
    with must_be_found("skip-wait"):
        check_loader_waits_for_charge(healthy, fmt.Charge.NONE, mutant="skip-wait")
    healthy.off()


@pytest.mark.in_turn
@pytest.mark.parametrize("name", ["skip-commit", "skip-context", "skip-device"])
def test_bug_of_a_stop_is_found(name: str) -> None:
    with booted_bed(name, mutants=True, mutant=name) as it, must_be_found(name):
        check_survives_a_cut(it)


@pytest.mark.in_turn
def test_flush_that_takes_too_long_is_found() -> None:
    """On one CPU, whose write-back is the last step but the commit. The bound has 50 ms for a host
    that is busy; the flush takes 200 ms."""
    words = "nokaslr remanence.hold_up_us=1000000 remanence.preempt_off_us=50000"
    with booted_bed("slow-flush", mutants=True, cpus=1, cmdline_extra=words) as it:
        check_stop_is_within_its_bound(it)
        plant(it.machine, "slow-flush")
        with must_be_found("slow-flush"):
            check_stop_is_within_its_bound(it)


@pytest.mark.in_turn
def test_cpu_that_missed_its_start_is_started_again() -> None:
    with booted_bed("late-sipi", mutants=True, mutant="late-sipi") as it:
        check_survives_a_cut(it)


def check_only_this_boot_names_it(it: Bed, then: str) -> None:
    """Inner check: the machine was reset in Go because of a CPU that did not start; it boots cold
    with that reason, and the boot after that with the one that is true *then*.
    """
    assert it.machine.console is not None
    it.machine.console.expect("remanence: armed, last boot: cpu-lost", BOOT_LIMIT_S)
    assert it.machine.resets
    lost = [event for slot in it.record().slots for event in slot.timeline]
    assert "GO_CPU_LOST" in {event.type for event in lost}, "for rem inspect"
    it.off()
    assert it.boot_decision().reason == then


@pytest.mark.in_turn
def test_cpu_that_never_starts_is_a_cold_boot_with_its_reason() -> None:
    """Go resets the machine; the loader finds why in the timeline of the image."""
    with booted_bed("no-sipi", mutants=True, mutant="no-sipi") as it:
        it.machine.guest.close()
        assert it.machine.cut().stopped
        finding = "the image continues without its second CPU"
        note = check_go_is_given_up(it, "cpu-lost", "state-lost", finding)
        with must_be_found("no-sipi"):
            raise BrokenError(cold_verdict(note.reason), f"Go has ended in {note.reason}")
        check_only_this_boot_names_it(it, "COLD_ALREADY_CONSUMED")


@pytest.mark.in_turn
def test_cpu_that_does_not_come_back_from_a_refused_stop_is_named() -> None:
    """The machine's first Stop cannot commit; so there is no image, and the loader finds the reason
    in the timeline of that Stop. Planted in the running kernel: the next one is healthy."""
    with booted_bed("refuse-lose", mutants=True) as it:
        first = it.record().note
        plant(it.machine, "refuse-commit+no-sipi")
        it.machine.run_in_guest(
            "(sleep 1; echo now > /sys/kernel/remanence/stop) > /dev/null 2>&1 &"
        )
        it.machine.guest.close()
        note = next_decision(it, first)
        assert note is not None, "the refused Stop waits for a CPU that does not start"
        with must_be_found("no-sipi"):
            raise BrokenError(cold_verdict(note.reason), f"the Stop has ended in {note.reason}")
        check_only_this_boot_names_it(it, "COLD_NOT_COMMITTED")


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
