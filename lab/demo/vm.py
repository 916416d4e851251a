# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem demo vm`: an unmodified guest goes on after its host has lost its power."""

from __future__ import annotations

import time
from collections.abc import Callable

from lab.demo import vm_planted
from lab.demo.promises import Promises
from lab.result import Result
from lab.testbed.vm_host import DEBIAN, VmHost, Writers
from lab.testbed.waiting import wait_acked

CUTS = 3
WRITES = 2000  # acknowledged between two cuts, at least
CLIENTS, DEPTH = 4, 4
OFF_S = 1.0
LIMIT_S = 60.0
READ_LIMIT_S = 60.0
SERVE = (
    "redis-server --save '' --appendonly no --protected-mode no --daemonize yes --bind 0.0.0.0 "
    "--dir /run >/dev/null; until redis-cli ping >/dev/null 2>&1; do sleep 0.1; done"
)
PLANTED: dict[str, Callable[[VmHost, Writers], None]] = {
    "the commit word was never written": vm_planted.skip_commit,
    "a part of the guest's memory was never written back": vm_planted.lose_memory,
    "an image is entered twice": vm_planted.enter_again,
}
BOOT_ID = "cat /proc/sys/kernel/random/boot_id"


def play(name: str, print_line: Callable[[str], None]) -> Result:
    """Run all of it on a host that is destroyed afterwards."""
    promises = Promises(print_line, Result("demo-vm"))
    resumed, lost = 0, 0
    with VmHost(name) as host:
        print_line("A host powers on; its guest is a Debian that knows nothing of this.")
        boot_id, writers = _begin(host)
        guest = host.status()[DEBIAN]
        print_line(
            f"  its save takes {guest['save_us'] / 1000:.1f} ms, and the hold-up is "
            f"{host.hold_up_us / 1000:.0f} ms: persistent"
        )
        with writers:
            for cut in range(1, CUTS + 1):
                found, missing = _cut(host, writers, promises, cut)
                resumed += found
                lost += missing
            same = host.run_in_guest(BOOT_ID).stdout == boot_id
            promises.check(same, "the guest's kernel has run through all cuts")
            failures = writers.ask("status")["failures"]
            promises.check(not failures, "no client has lost its connection")
        _once(host, promises)
        missed = _planted(host, promises)
    promises.end()
    result = promises.result
    result.add("cuts", CUTS, "cuts", "counted")
    result.add("resumed", int(resumed == CUTS), "1", "counted")
    result.add("lost_answers", lost, "answers", "counted")
    result.add("planted_missed", missed, "bugs", "counted")
    return result


def _planted(host: VmHost, promises: Promises) -> int:
    """How many faults on media the checks do not notice."""
    promises.print_line("The same checks, with a fault planted while the host is off:")
    missed = 0
    for what, plant in PLANTED.items():
        host.kill()
        host.guest.close()
        _, writers = _begin(host)
        with writers:
            wait_acked(writers, vm_planted.WRITES)
            host.guest.close()
            host.cut()
            writers.ask("hold", at_ns=time.monotonic_ns())
            plant(host, writers)
            noticed = vm_planted.is_noticed(host, writers)
        missed += not noticed
        promises.check(noticed, f"it is noticed: {what}")
    return missed


def _begin(host: VmHost) -> tuple[str, Writers]:
    """A host that is on, its guest's boot, and clients of the server in it."""
    host.power_on()
    host.wait_up()
    host.run_in_guest(SERVE)
    return host.run_in_guest(BOOT_ID).stdout, host.writers("redis", CLIENTS, DEPTH)


def _cut(host: VmHost, writers: Writers, promises: Promises, number: int) -> tuple[bool, int]:
    """Whether the guest resumed, and how many acknowledged writes were lost."""
    wait_acked(writers, WRITES)
    cut = host.cut()
    writers.ask("hold", at_ns=time.monotonic_ns())
    took = "not within the hold-up" if cut.stopped_after_ns is None else (
        f"in {cut.stopped_after_ns / 1e6:.1f} ms"
    )  # fmt: skip
    promises.print_line(f"Cut {number}: PWR_OK drops; saved {took}; every process is killed.")
    time.sleep(OFF_S)
    guest = host.power_on()[DEBIAN]
    took = f"{guest['boot_us'] / 1000:.0f} ms after power-on" if guest["runs"] else "not started"
    promises.check(
        cut.stopped and guest["resumed"], f"the guest resumes: {guest['reason']}, {took}"
    )
    if not guest["resumed"]:
        return False, writers.ask("status")["acked"]
    found = writers.ask("verify", READ_LIMIT_S + LIMIT_S, limit_s=READ_LIMIT_S)
    lost = int(found.get("lost", found["acked"]))
    promises.check(
        found["drained"] and lost == 0,
        f"each of {found['acked']} acknowledged writes is there",
    )
    writers.ask("resume")
    return True, lost


def _once(host: VmHost, promises: Promises) -> None:
    """What was entered is not entered again."""
    promises.print_line("The power goes without a warning: nothing is saved.")
    host.guest.close()
    host.cut(announced=False)
    guest = host.power_on()[DEBIAN]
    promises.check(
        not guest["resumed"] and guest["reason"] == "already-consumed",
        f"the guest boots cold, and no old image is entered: {guest['reason']}",
    )
