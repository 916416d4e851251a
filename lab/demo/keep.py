# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem demo keep`: single programs go on under a fresh system, with their memory where it was."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from lab.demo import keep_planted
from lab.demo.promises import Promises
from lab.machine.cut_plan import UNANNOUNCED
from lab.result import Result
from lab.testbed.keep_guest import KeepGuest, Writers, keep_guest
from lab.testbed.waiting import wait_acked

CUTS = 2
WRITES = 2000  # acknowledged between two cuts, at least
CLIENTS, DEPTH = 4, 4
OFF_S = 1.0
READ_LIMIT_S = 60.0
BOOT_ID = "cat /proc/sys/kernel/random/boot_id"
PLANTED: dict[str, Callable[[KeepGuest, Writers], None]] = {
    "the commit word was never written": keep_planted.skip_commit,
    "a page was never written back": keep_planted.lose_page,
    "an image is entered twice": keep_planted.enter_again,
}


def play(name: str, print_line: Callable[[str], None]) -> Result:
    """Run all of it on a machine that is destroyed afterwards."""
    promises = Promises(print_line, Result("demo-keep"))
    resumed, lost = 0, 0
    with keep_guest(name) as guest:
        print_line("Debian runs, with a range of NVRAM for programs that are kept.")
        guest.start_redis()
        guest.serve()
        with guest.writers("redis", CLIENTS, DEPTH) as writers:
            for cut in range(1, CUTS + 1):
                found, missing = _again(guest, writers, promises, f"Cut {cut}", _cut)
                resumed, lost = resumed + found, lost + missing
            found, missing = _again(guest, writers, promises, "A change of the kernel", _kexec)
            resumed, lost = resumed + found, lost + missing
            failures = writers.ask("status")["failures"]
            promises.check(not failures, "no client has lost its connection")
        _once(guest, promises)
        missed = _planted(guest, promises)
    promises.end()
    result = promises.result
    result.add("returns", CUTS + 1, "returns", "counted")
    result.add("resumed", int(resumed == CUTS + 1), "1", "counted")
    result.add("lost_answers", lost, "answers", "counted")
    result.add("planted_missed", missed, "bugs", "counted")
    return result


def _cut(guest: KeepGuest, writers: Writers, promises: Promises, what: str) -> dict[str, Any]:
    cut = guest.cut()
    writers.ask("hold", at_ns=time.monotonic_ns())
    took = "not within the hold-up" if cut.stopped_after_ns is None else (
        f"in {cut.stopped_after_ns / 1e6:.0f} ms"
    )  # fmt: skip
    promises.print_line(f"{what}: PWR_OK drops; saved {took}; the power goes.")
    time.sleep(OFF_S)
    status = guest.power_on()
    guest.serve()
    return status


def _kexec(guest: KeepGuest, writers: Writers, promises: Promises, what: str) -> dict[str, Any]:
    promises.print_line(f"{what}: programs are saved, and another kernel starts.")
    status = guest.kexec()
    writers.ask("hold", at_ns=time.monotonic_ns())
    guest.serve()
    return status


def _again(
    guest: KeepGuest,
    writers: Writers,
    promises: Promises,
    what: str,
    leave: Callable[[KeepGuest, Writers, Promises, str], dict[str, Any]],
) -> tuple[bool, int]:
    """Whether the program is back on a fresh system, and how many answers were lost."""
    wait_acked(writers, WRITES)
    boot_id, pid = guest.sh(BOOT_ID).stdout, guest.sh("pidof redis-server").stdout
    status = leave(guest, writers, promises, what)
    is_fresh = guest.sh(BOOT_ID).stdout != boot_id
    is_back = bool(pid) and guest.sh("pidof redis-server", check=False).stdout == pid
    promises.check(
        is_fresh and is_back,
        f"the system is a new one, and the program is back: {_described(status)}",
    )
    if not is_back:
        return False, int(writers.ask("status")["acked"])
    found = writers.ask("verify", READ_LIMIT_S * 2, limit_s=READ_LIMIT_S)
    missing = int(found.get("lost", found["acked"]))
    promises.check(
        found["drained"] and missing == 0,
        f"each of {found['acked']} acknowledged writes is there",
    )
    writers.ask("resume")
    return is_fresh, missing


def _described(status: dict[str, Any]) -> str:
    parts = [
        f"{one['placed']} pages stay where they were, {one['copied']} are copied, "
        f"CRIU takes {one['criu_us'] / 1000:.0f} ms"
        for one in status["programs"]
    ]
    return "; ".join(parts) or str(status["verdict"])


def _once(guest: KeepGuest, promises: Promises) -> None:
    promises.print_line("The power goes without a warning: nothing is saved.")
    guest.cut(UNANNOUNCED)
    status = guest.power_on()
    promises.check(
        status["verdict"] == "already-consumed" and not guest.has_redis(),
        f"no old image is entered: {status['verdict']}",
    )


def _planted(guest: KeepGuest, promises: Promises) -> int:
    """How many faults on media the checks do not notice."""
    promises.print_line("The same checks, with a fault planted while the power is off:")
    missed = 0
    for what, plant in PLANTED.items():
        guest.start_redis()
        guest.serve()
        with guest.writers("redis", CLIENTS, DEPTH) as writers:
            wait_acked(writers, keep_planted.WRITES)
            guest.cut()
            writers.ask("hold", at_ns=time.monotonic_ns())
            plant(guest, writers)
            noticed = keep_planted.is_noticed(guest, writers)
        guest.sh("pkill redis-server || true")
        missed += not noticed
        promises.check(noticed, f"it is noticed: {what}")
    return missed
