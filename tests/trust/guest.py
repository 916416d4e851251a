# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A guest with a TPM, its power failures, and its memory while the power is off."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lab.machine import Machine
from lab.machine.config import NVRAM_PHYS, StopModeName
from lab.testbed.waiting import wait_until
from tests.support.claims import BOOT_LIMIT_S, booted
from tests.trust.images import Nvram, key_page_in, number

TRUST = "cat /sys/kernel/remanence/trust"
STATUS = "cat /sys/kernel/remanence/status"
MARK = "/run/only-in-memory"
DURABLE = "/root/durable"


@contextmanager
def guest(
    purpose: str, cpus: int = 2, stop: StopModeName = "fast", **more: Any
) -> Iterator[Machine]:
    with booted(purpose, cpus, stop, **{"tpm": "crb", **more}) as machine:
        assert machine.run_in_guest(TRUST).stdout.startswith("on counter ")
        assert machine.run_in_guest(STATUS).stdout == "armed\n"
        machine.run_in_guest(f"echo here > {MARK}; echo safe > {DURABLE}; sync")
        yield machine


def lives(machine: Machine) -> None:
    assert machine.run_in_guest(f"cat {MARK}").stdout == "here\n"


def wait_for_more(read: Callable[[], list[int]], before: list[int], limit_s: float) -> list[int]:
    """Until each count has gone on; returns them."""
    now = before

    def have_gone_on() -> bool:
        nonlocal now
        now = read()
        return all(new > old for new, old in zip(now, before, strict=True))

    wait_until(have_gone_on, f"each of {before} has gone on", limit_s, poll_s=1.0)
    return now


def media(machine: Machine) -> Nvram:
    return Nvram(machine.files.nvram(machine.config), NVRAM_PHYS)


def stop(machine: Machine) -> int:
    """A power failure; returns the number of its image."""
    machine.guest.close()
    record = machine.cut()
    assert record.stopped
    return media(machine).newest()


def boots_cold(machine: Machine, reason: str) -> None:
    machine.resume()
    note = machine.wait_boot_note()
    assert note.reason == f"COLD_{reason}", note
    machine.wait_up(BOOT_LIMIT_S)
    assert machine.run_in_guest(f"cat {DURABLE}").stdout == "safe\n"
    assert machine.run_in_guest(f"test -e {MARK}", check=False).returncode == 1


def check_sum(machine: Machine, dram: Path) -> None:
    """Of a kernel that is armed and patches nothing now."""
    nvram = media(machine)
    page = key_page_in(dram, nvram.trust())
    sequence = int(machine.run_in_guest("cat /sys/kernel/remanence/sequence").stdout)
    assert number(page.text_sum) == nvram.text_sum(sequence, list(page.text_key))
