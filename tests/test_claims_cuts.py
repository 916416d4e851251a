# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: 25 cuts in a row on 1, 2 and 4 CPUs under load: nothing lost, nothing repeated.

Method: the load of `rem demo` (redis and memcached clients that never reconnect, a file written
with fsync, a TCP peer that keeps sending, computation) runs through all cuts. After each cut all
clients must get the missing answers; everything is read back after every fifth.
"""

from __future__ import annotations

import time

import pytest

from lab.machine import Machine
from lab.machine.config import StopModeName
from lab.testbed.cycle import cut_and_resume
from lab.testbed.no_stop import consoles
from lab.testbed.workload import Size, Workload
from tests.support.claims import ANSWER_LIMIT_S, SLOWER, booted, warnings

CUTS = 25
CUTS_OF_FEW_CPUS = 5  # in CI; a soak makes 25 there, too
READ_BACK_EVERY = 5
READ_LIMIT_S = 120.0 * SLOWER
LOAD_S = 0.5  # of load between two cuts, at least
PROGRESS_LIMIT_S = 60.0 * SLOWER

pytestmark = [pytest.mark.full, pytest.mark.timeout(1800 * SLOWER)]


def progress(work: Workload) -> dict[str, int]:
    status = work.status()
    return {
        "redis": status["redis"]["acked_min"],
        "memcached": status["memcached"]["acked_min"],
        "records": status["peer"]["acked_records"],
        "frames": status["peer"]["frames_received"],
    }


def wait_progress(work: Workload) -> None:
    """Wait until each client, the disk and the peer have made progress."""
    before, end_s = progress(work), time.monotonic() + PROGRESS_LIMIT_S
    time.sleep(LOAD_S)
    while True:
        failures = work.failures()
        assert not failures, failures
        now = progress(work)
        stuck = [name for name in before if now[name] <= before[name]]
        if not stuck:
            return
        assert time.monotonic() < end_s, f"no progress after the cut: {', '.join(stuck)}"
        time.sleep(0.2)


def read_back(work: Workload) -> None:
    for name, load in work.writers().items():
        load.ask("hold", at_ns=time.monotonic_ns())
        result = load.ask("verify", ANSWER_LIMIT_S + READ_LIMIT_S, limit_s=ANSWER_LIMIT_S)
        assert not result["failures"], result["failures"]
        assert result["drained"], f"{name}: {result.get('waiting_clients')} clients got no answer"
        assert (result["lost"], result["repeated"]) == (0, 0), (name, result["first_loss"])
        load.ask("resume")


def finish(machine: Machine, work: Workload) -> None:
    """Check the programs' verdicts, the records on the disk, the peer's count."""
    verdicts = {name: job.finish(ANSWER_LIMIT_S) for name, job in work.jobs.items()}
    assert all(line.startswith("OK ") for line in verdicts.values()), verdicts
    peer = work.loads["peer"].ask("status")
    assert not peer["failures"]
    assert (peer["frame_connections"], peer["frame_connections_finished"]) == (1, 1)
    checked = machine.run_in_guest(
        f"/opt/rem/bin/rem-fsync --check 1 --path /root/rem-fsync.data "
        f"--slots {work.size.records} --acked {peer['acked_records']}",
        check=False,
    )
    assert checked.stdout.startswith("OK "), checked.stdout


@pytest.mark.parametrize("cpus", [*(pytest.param(n, marks=pytest.mark.in_turn) for n in (1, 2)), 4])
def test_5_cuts_in_a_row_lose_nothing(cpus: int) -> None:
    boot_and_play(cpus, "fast", CUTS_OF_FEW_CPUS)


@pytest.mark.parametrize(
    "cpus",
    [
        *(pytest.param(n, marks=pytest.mark.soak) for n in (1, 2)),
        pytest.param(4, marks=pytest.mark.in_turn),
    ],
)
def test_25_cuts_in_a_row_lose_nothing(cpus: int) -> None:
    boot_and_play(cpus, "fast", CUTS)


@pytest.mark.in_turn
@pytest.mark.parametrize("stop", ["dpm", "sng"])
def test_portable_paths_lose_nothing_either(stop: StopModeName) -> None:
    boot_and_play(2, stop, READ_BACK_EVERY)


@pytest.mark.soak
@pytest.mark.parametrize("stop", ["dpm", "sng"])
def test_25_cuts_in_a_row_by_the_portable_paths(stop: StopModeName) -> None:
    """Each cut freezes drivers under load, which shows races with a driver's freeze."""
    boot_and_play(2, stop, CUTS)


def boot_and_play(cpus: int, stop: StopModeName, cuts: int) -> None:
    with booted("cuts", cpus, stop) as machine:
        assert machine.run_in_guest("cat /sys/kernel/remanence/stop_mode").stdout == f"{stop}\n"
        play(machine, cuts)


def play(machine: Machine, cuts: int) -> None:
    """Cuts under load, and the check of what programs wrote. Ends all programs."""
    # Without it QEMU may misroute a CPU's writes at boot (machine/README.md).
    if machine.config.x2apic:
        assert "x2apic enabled" in consoles(machine)
    with Workload(machine, Size(clients=2, depth=2, records=1024)) as work:
        work.start()
        work.wait_acked(200, 120.0 * SLOWER)
        before = work.processes()
        first = int(machine.run_in_guest("cat /sys/kernel/remanence/sequence").stdout)
        assert None not in before.values()
        for n in range(1, cuts + 1):
            note = cut_and_resume(machine)
            assert note.sequence == first + n - 1, "a Stop was not the next one"
            wait_progress(work)
            if n % READ_BACK_EVERY == 0:
                read_back(work)
        assert work.processes() == before
        finish(machine, work)
        assert warnings(machine) == []
