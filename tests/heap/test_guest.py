# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The heap's benchmark binary, which also runs the crash tests, in a machine whose power fails.

Without Stop and over volatile caches: its region is a file with direct access (DAX) in persistent
memory, and every transaction that returned is there. With Stop and Go: the same data in plain
memory of an unaware program, and the program continues.
"""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from lab.machine import Machine
from lab.run import end, spawn
from lab.setup.heap import HeapProgram
from lab.setup.products import need
from lab.testbed.cycle import cut_and_resume
from lab.testbed.guest_job import identify, pid_of
from lab.testbed.pm_guest import cut, guest_with_region, load, sh
from tests.support.claims import booted

PROFILE = "wsp-c5528"
PROGRAM = "/root/nvheap-bench"
POLICIES = ("FoC+RL", "FoC+UL", "FoC+STM")
UNFLUSHED = "FoF"
NUMBERS = 100  # that each program counts before the power fails
ENDLESS = 1_000_000_000
COUNT_LIMIT_S = 600.0
MOUNT = "pmadmin ramdisk add dax && mkdir -p /mnt/dax && mount -o dax=always /dev/pmrd0 /mnt/dax"

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]


class Counter:
    """The program that runs in the guest, and the last number it printed."""

    def __init__(self, machine: Machine, policy: str) -> None:
        command = f"{PROGRAM} keep --folder /mnt/dax/{policy} --policy {policy}"
        argv = machine.guest.command_line(f"{command} --operations {ENDLESS}")
        self.child = spawn(argv, cwd=machine.files.directory, stdout=subprocess.PIPE)
        self.printed = -1
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self) -> None:
        assert self.child.stdout is not None
        for line in self.child.stdout:
            if line.endswith("\n"):
                self.printed = int(line)

    def wait(self, number: int) -> None:
        end_s = time.monotonic() + COUNT_LIMIT_S
        while self.printed < number:
            assert self.child.poll() is None, "the program in the guest ended"
            assert time.monotonic() < end_s, f"{self.printed} of {number} numbers"
            time.sleep(0.05)

    def close(self) -> int:
        """End it after the power failure; return the last number that arrived."""
        end(self.child)
        self.thread.join()
        return self.printed


@contextmanager
def counting(machine: Machine, number: int) -> Iterator[dict[str, int]]:
    """Run until the programs of all policies print *number*; fill in their last after the block."""
    counters = {policy: Counter(machine, policy) for policy in (*POLICIES, UNFLUSHED)}
    printed: dict[str, int] = {}
    try:
        for counter in counters.values():
            counter.wait(number)
        yield printed
    finally:
        printed.update({policy: counter.close() for policy, counter in counters.items()})


def put_program(machine: Machine) -> None:
    machine.guest.put(need(HeapProgram()), PROGRAM)
    sh(machine, "sync")


def numbers_in(machine: Machine, policy: str) -> int | None:
    """Return how many numbers a region has, or None if it is damaged."""
    done = sh(machine, f"{PROGRAM} look --folder /mnt/dax/{policy}", check=False)
    return int(done.stdout.split()[1]) if done.ok else None


def test_returned_transactions_survive_a_cut_without_stop() -> None:
    with guest_with_region(f"t-heap-{os.getpid()}", cpus=1, caches=PROFILE) as machine:
        put_program(machine)
        load(machine, "format=1")
        sh(machine, "pmadmin create dax 96M && pmadmin ramdisk add dax")
        sh(machine, "mkfs.ext4 -q -b 4096 /dev/pmrd0 && mkdir -p /mnt/dax")
        sh(machine, "mount -o dax=always /dev/pmrd0 /mnt/dax")
        for policy in (*POLICIES, UNFLUSHED):
            keep = f"{PROGRAM} keep --folder /mnt/dax/{policy} --policy {policy} --operations 1"
            sh(machine, keep)
        sh(machine, "sync")
        with counting(machine, NUMBERS) as printed:
            cut(machine)
        load(machine)
        sh(machine, MOUNT)
        for policy in POLICIES:
            found = numbers_in(machine, policy)
            assert found is not None, f"{policy}: the region is damaged"
            assert found > printed[policy], (
                f"{policy}: {printed[policy]} was acknowledged, {found} are there"
            )
        # Plain memory names the reason: its process died with it.
        keep = f"{PROGRAM} keep --folder /mnt/dax/{UNFLUSHED} --policy {UNFLUSHED} --operations 1"
        refused = sh(machine, keep, check=False)
        assert not refused.ok
        assert "that was not closed" in refused.stderr
        # The negative proof: the same without flushes, which a Stop would make up for.
        found = numbers_in(machine, UNFLUSHED)
        assert found is None or found <= printed[UNFLUSHED], (
            "nothing was lost: are caches volatile?"
        )


def test_plain_memory_survives_a_cut_with_stop_and_go() -> None:
    """The same data in a program without the heap: it continues and finds all of them."""
    with booted("heap-plain", 2, "fast") as machine:
        put_program(machine)
        sh(machine, "mkdir -p /run/plain")
        keep = f"{PROGRAM} keep --folder /run/plain --policy none --operations {ENDLESS}"
        # The reading shell slows the program down.
        loop = f"{keep} 2>&1 | while read line; do echo $line >/run/plain/last; done"
        command = f"setsid sh -c '{loop}' >/dev/null 2>&1 </dev/null & echo $!"
        shell = sh(machine, command).stdout.strip()
        printed = wait_for_number(machine, NUMBERS)
        process = identify(machine, [pid_of(machine, "nvheap-bench")])
        assert cut_and_resume(machine).resumed
        assert wait_for_number(machine, printed + NUMBERS) > printed
        assert identify(machine, [pid_of(machine, "nvheap-bench")]) == process
        sh(machine, "touch /run/plain/stop")
        sh(machine, f"tail --pid={shell} -f /dev/null")
        verdict = sh(machine, "cat /run/plain/last").stdout.split()
        assert verdict[0] == "whole", verdict
        assert int(verdict[1]) > printed


def wait_for_number(machine: Machine, number: int) -> int:
    end_s = time.monotonic() + COUNT_LIMIT_S
    while True:
        text = sh(machine, "cat /run/plain/last", check=False).stdout.strip()
        if text.isdigit() and int(text) >= number:
            return int(text)
        assert time.monotonic() < end_s, f"{text!r} of {number}"
        time.sleep(0.1)
