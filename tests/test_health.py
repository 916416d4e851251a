# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim (invariant 5): while user space reports that something of the supply is bad, the machine
promises nothing, and says why; Stops are begun nevertheless, and after Go what was bad is bad.

Method: conditions are written to /sys/kernel/remanence/health of a running machine, without the
programs that do so on a server. Negative proof: a kernel with a planted bug, which does not hear
them.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.machine import MachineState
from lab.machine.console import kernel_warnings
from lab.record.block import decode, read_block
from lab.testbed.no_stop import consoles
from lab.testbed.planted import NONE, plant
from lab.testbed.waiting import wait_until
from lab.verdict import BrokenError
from tests.support.proofs import must_be_found
from tests.support.trials import Bed, booted_bed

pytestmark = [pytest.mark.full, pytest.mark.timeout(900)]

SYSFS = "/sys/kernel/remanence"
LIMIT_S = 60.0
# No Stop takes longer than its bound, though this machine's time is the host's.
WORDS = (
    "nokaslr remanence.hold_up_us=3000000 remanence.preempt_off_us=2000000 remanence.persist=32M"
)
BAD = "unhealthy: psu: one of two has no input"
# Prints what status is when a change wakes it.
WAIT = (
    f'import os, select; f = os.open("{SYSFS}/status", os.O_RDONLY); os.read(f, 99);'
    ' print("waits", flush=True);'
    " p = select.poll(); p.register(f, select.POLLPRI); p.poll();"
    " print(os.pread(f, 99, 0).decode().strip())"
)


def sh(it: Bed, command: str) -> str:
    return it.machine.run_in_guest(command).stdout.strip()


def report(it: Bed, line: str) -> None:
    sh(it, f"echo '{line}' >{SYSFS}/health")


def refused(it: Bed, command: str) -> str:
    done = it.machine.run_in_guest(command, check=False)
    assert not done.ok
    return done.stderr


def wait_shown(it: Bed, file: str, text: str) -> None:
    wait_until(lambda: sh(it, f"cat {SYSFS}/{file}") == text, f"{file} is {text}", LIMIT_S)


def check_no_promise(it: Bed) -> None:
    """Inner check: with this status nothing is promised to programs or to fsync."""
    assert sh(it, f"cat {SYSFS}/status") == BAD
    if sh(it, f"cat {SYSFS}/flush_on_fail") != "0":
        raise BrokenError("promises-broken", "caches are promised although a supply is bad")


@pytest.fixture(scope="module")
def it() -> Iterator[Bed]:
    with booted_bed("health", cmdline_extra=WORDS) as made:
        wait_shown(made, "persist/state", "memory")
        yield made


def test_what_is_bad_ends_all_promises_until_it_is_taken_back(it: Bed) -> None:
    assert sh(it, f"cat {SYSFS}/status {SYSFS}/flush_on_fail {SYSFS}/health") == "armed\n1"
    sh(it, f"python3 -c '{WAIT}' >/root/woken 2>&1 & until grep waits /root/woken; do :; done")
    report(it, "psu 300 bad one of two has no input")
    sh(it, f"until grep '^{BAD}$' /root/woken; do sleep 0.1; done")
    wait_shown(it, "flush_on_fail", "0")
    check_no_promise(it)
    wait_shown(it, "persist/state", "waiting")
    report(it, "battery 0 bad worn")
    assert sh(it, f"cat {SYSFS}/status") == f"{BAD}, and 1 more"
    words = [line.split(" ", 4) for line in sh(it, f"cat {SYSFS}/health").splitlines()]
    assert [(w[0], w[1], *w[3:]) for w in words] == [
        ("psu", "bad", "300", "one of two has no input"),
        ("battery", "bad", "0", "worn"),
    ]
    report(it, "psu 300 ok")
    assert sh(it, f"cat {SYSFS}/status") == "unhealthy: battery: worn"
    report(it, "battery 0 ok")
    wait_shown(it, "flush_on_fail", "1")
    wait_shown(it, "persist/state", "memory")
    assert sh(it, f"cat {SYSFS}/status") == "armed"
    report(it, "psu 0 ok")
    assert sh(it, f"cat {SYSFS}/health") == ""
    assert f"remanence: no promise: {BAD.partition(': ')[2]}" in consoles(it.machine)


def test_a_reporter_that_is_silent_ends_them_too(it: Bed) -> None:
    report(it, "psu 2 ok")
    assert sh(it, f"cat {SYSFS}/status") == "armed"
    wait_shown(it, "status", "unhealthy: psu: nobody has reported it in time")
    wait_shown(it, "flush_on_fail", "0")
    report(it, "psu 0 ok")
    wait_shown(it, "flush_on_fail", "1")
    assert sh(it, f"cat {SYSFS}/status") == "armed"


def test_a_report_needs_the_right_and_the_form(it: Bed) -> None:
    for line in ("psu", "psu 300", "psu 300 bad", "p/u 300 ok", "psu 86401 ok"):
        assert "Invalid argument" in refused(it, f"echo '{line}' >{SYSFS}/health")
    command = f"setpriv --bounding-set=-sys_boot bash -c 'echo psu 0 bad it is >{SYSFS}/health'"
    assert "not permitted" in refused(it, command)
    assert sh(it, f"cat {SYSFS}/status {SYSFS}/health") == "armed"


@pytest.mark.parametrize("planned", [True, False], ids=["planned", "power failure"])
def test_a_stop_is_begun_nevertheless_and_what_was_bad_is_bad(it: Bed, planned: bool) -> None:
    """A planned Stop needs no hold-up; at a power failure an image may still get finished."""
    report(it, "psu 300 bad one of two has no input")
    report(it, "battery 3000 ok")
    if planned:
        sh(it, f"(sleep 1; echo now >{SYSFS}/stop) >/dev/null 2>&1 &")
        it.machine.guest.close()
        assert it.machine.wait_off(LIMIT_S) is MachineState.STOPPED
    else:
        it.machine.guest.close()
        assert it.machine.cut().stopped
    slot = decode(read_block(it.nvram)).newest
    assert slot is not None and slot.body is not None
    assert slot.body.stop_reason == ("PLANNED" if planned else "POWER")
    it.resume()
    check_no_promise(it)
    wait_shown(it, "persist/state", "waiting")
    assert [line.split()[:2] for line in sh(it, f"cat {SYSFS}/health").splitlines()] == [
        ["psu", "bad"],
        ["battery", "ok"],  # the time without power is not of its period
    ]
    report(it, "psu 0 ok")
    report(it, "battery 0 ok")
    wait_shown(it, "flush_on_fail", "1")
    assert sh(it, f"cat {SYSFS}/status") == "armed"
    assert kernel_warnings(consoles(it.machine)) == []


@pytest.mark.in_turn
def test_kernel_that_does_not_hear_it_is_found() -> None:
    """The negative proof."""
    with booted_bed("health-unheard", mutants=True, cmdline_extra=WORDS) as it:
        plant(it.machine, "health-unheard")
        report(it, "psu 300 bad one of two has no input")
        with must_be_found("health-unheard"):
            check_no_promise(it)
        plant(it.machine, NONE)
        report(it, "psu 300 bad one of two has no input.")  # a change, so that it is looked at
        wait_shown(it, "flush_on_fail", "0")
