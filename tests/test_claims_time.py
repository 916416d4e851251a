# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claims: after 3 s and after a simulated week without power, clocks and timers are right; and two
resumed runs of one image give different random numbers.

Method: rem-clock prints its clocks before and after; the supply's clock (RTC) is moved by the week.
For randomness the media of a stopped machine are copied and resumed twice; a program logs random
numbers all the time, each with the time offset that changes at Go. The negative proofs are in
test_negative_proofs.py.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.machine import Machine
from lab.testbed.cycle import cut_and_resume
from lab.testbed.guest_job import GuestJob
from tests.support.claims import GO_LIMIT_S, booted, warnings
from tests.support.randomness import check_no_number_comes_twice

NS = 1_000_000_000
WEEK_S = 7 * 86400
# REALTIME is restored from a clock of whole seconds; the host also needs time to start QEMU.
RTC_RESOLUTION_NS = 2 * NS
# The supply's clock is moved when QEMU's command line is made, so it may be late by so much.
START_NS = 5 * NS
ALARM_LIMIT_S = 60.0

pytestmark = [pytest.mark.full, pytest.mark.timeout(900)]


@pytest.fixture(
    scope="module",
    params=["fast", *(pytest.param(stop, marks=pytest.mark.soak) for stop in ("dpm", "sng"))],
)
def machine(request: pytest.FixtureRequest) -> Iterator[Machine]:
    with booted("time", 2, request.param) as machine:
        yield machine


def away_ns(clocks: dict[str, int]) -> int:
    """BOOTTIME minus MONOTONIC: the time without power."""
    return clocks["boottime_ns"] - clocks["monotonic_ns"]


def clocks_of(job: GuestJob) -> tuple[int, dict[str, int], int]:
    """The guest's clocks, between two readings of the host's."""
    begin_ns = time.time_ns()
    clocks = job.ask()
    return begin_ns, clocks, time.time_ns()


def wait_alarms(machine: Machine) -> list[str]:
    """The timers that have fired, once one has."""
    end_s = time.monotonic() + ALARM_LIMIT_S
    while time.monotonic() < end_s:
        fired = machine.run_in_guest("cat /run/alarms").stdout.split()
        if fired:
            return fired
        time.sleep(0.2)
    return []


def test_timers_fire_once_over_several_cuts(machine: Machine) -> None:
    job = GuestJob(machine, "rem-signals")
    time.sleep(1)
    for _ in range(3):
        cut_and_resume(machine)
        time.sleep(1)
    verdict = job.finish()
    assert verdict.startswith("OK rem-signals"), verdict
    assert warnings(machine) == []


@pytest.mark.parametrize(("off_s", "rtc_offset_s"), [(3.0, 0), (0.0, WEEK_S)])
def test_clocks_after_the_time_without_power(
    machine: Machine, off_s: float, rtc_offset_s: int
) -> None:
    """The week comes last, as this machine's clock cannot go back."""
    job = GuestJob(machine, "rem-clock")
    machine.run_in_guest(START_ALARM)
    time.sleep(1)
    before_first_ns, before, before_last_ns = clocks_of(job)
    assert machine.cut().stopped
    time.sleep(off_s)
    machine.resume(rtc_offset_s=rtc_offset_s)
    machine.wait_resumed(GO_LIMIT_S)
    after_first_ns, after, after_last_ns = clocks_of(job)
    assert job.finish().startswith("OK rem-clock"), job.lines()

    offset_ns = rtc_offset_s * NS
    passed_min_ns = after_first_ns - before_last_ns
    passed_max_ns = after_last_ns - before_first_ns
    running_ns = after["monotonic_ns"] - before["monotonic_ns"]
    away = away_ns(after) - away_ns(before)
    assert 0 <= running_ns <= passed_max_ns - off_s * NS
    slack_ns = RTC_RESOLUTION_NS + (START_NS if rtc_offset_s else 0)
    boot_ns = running_ns + away - offset_ns
    assert passed_min_ns - slack_ns <= boot_ns <= passed_max_ns + RTC_RESOLUTION_NS
    assert away >= off_s * NS + offset_ns - slack_ns
    real_ns = after["realtime_ns"] - before["realtime_ns"] - offset_ns
    assert passed_min_ns - slack_ns <= real_ns <= passed_max_ns + RTC_RESOLUTION_NS
    alarms = wait_alarms(machine)
    assert alarms == ["boottime"], "the alarm that fell due without power: once; the other: not yet"


# Two one-shot alarms: by BOOTTIME in 4 s, due without power or shortly after; by MONOTONIC in an
# hour, which must not fire early because a week has passed.
START_ALARM = r"""
cat > /run/alarms.py <<'PY'
import ctypes, os, struct, threading
libc = ctypes.CDLL(None, use_errno=True)
armed = threading.Semaphore(0)
def alarm(clock, seconds, word):
    fd = libc.timerfd_create(clock, 0)
    libc.timerfd_settime(fd, 0, struct.pack("qqqq", 0, 0, seconds, 0), None)
    armed.release()
    for _ in range(os.read(fd, 8)[0]):
        with open("/run/alarms", "a") as file:
            file.write(word + "\n")
for args in ((7, 4, "boottime"), (1, 3600, "monotonic")):
    threading.Thread(target=alarm, args=args).start()
    armed.acquire()
open("/run/alarms", "w").close()
PY
test ! -e /run/alarms.pid || kill $(cat /run/alarms.pid)
rm -f /run/alarms
setsid python3 /run/alarms.py >/run/alarms.log 2>&1 </dev/null &
echo $! >/run/alarms.pid
until [ -e /run/alarms ]; do sleep 0.1; done
"""


@pytest.mark.in_turn
def test_two_resumed_runs_give_different_random_numbers(tmp_path: Path) -> None:
    with booted("random", 2, "fast") as machine:
        check_no_number_comes_twice(machine, tmp_path)
