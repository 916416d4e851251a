# SPDX-License-Identifier: Apache-2.0 OR MIT
"""memtest86+ as a guest of `rem-vm`, and what it has drawn."""

from __future__ import annotations

import re
import time

from lab.setup.memtest import Memtest
from lab.setup.products import need
from lab.testbed.vm_host import BARE, VmGuest, VmHost

NAME = "memtest"
RAM_BYTES = 48 << 20


def add_memtest(host: VmHost) -> None:
    console = host.files.directory / "memtest.log"
    words = [*BARE, "-serial", f"file:{console}"]
    words += ["-kernel", str(need(Memtest())), "-append", "console=ttyS0,115200"]
    host.add(VmGuest(NAME, tuple(words), RAM_BYTES))


def screen(host: VmHost) -> str:
    """What it has drawn since the power came."""
    path = host.files.directory / "memtest.log"
    return path.read_text(encoding="latin-1") if path.exists() else ""


def errors(host: VmHost) -> list[int]:
    return [int(count) for count in re.findall(r"Errors:\s*(\d+)", screen(host))]


def draws(host: VmHost, limit_s: float) -> bool:
    """Whether it runs: its clock is drawn once more."""
    before = len(screen(host))
    end_s = time.monotonic() + limit_s
    while len(screen(host)) == before:
        if time.monotonic() > end_s:
            return False
        time.sleep(0.1)
    return True
