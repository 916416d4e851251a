# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What the checks of `rem demo vm` must notice: faults planted on the host's media while it is off.

Each is what a host would leave that skipped a step: the commit word is not there, the image is
entered a second time, a part of the guest's memory was never written back.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path

from lab import format as fmt
from lab.testbed.vm_host import DEBIAN, VmHost, Writers
from lab.testbed.waiting import wait_acked

WRITES = 500
LOST_FROM_BYTES, LOST_BYTES = 64 << 20, 128 << 20
READ_LIMIT_S = 20.0


def record(host: VmHost) -> Path:
    return host.media / DEBIAN / "record"


def skip_commit(host: VmHost, _writers: Writers) -> None:
    """No slot has a commit word."""
    with record(host).open("r+b") as file:
        for slot in (0, 1):
            slot_bytes = slot * fmt.CONST["REM_VM_SLOT_BYTES"]
            file.seek(fmt.CONST["REM_VM_COMMIT_OFFSET"] + slot_bytes)
            file.write(bytes(fmt.size_of("rem_word")))


def lose_memory(host: VmHost, _writers: Writers) -> None:
    """What was in caches did not reach the guest's memory."""
    with (host.media / DEBIAN / "ram").open("r+b") as ram:
        ram.seek(LOST_FROM_BYTES)
        ram.write(bytes(LOST_BYTES))


def enter_again(host: VmHost, writers: Writers) -> None:
    """The record is what it was before the image was consumed, and the guest has run since."""
    old = host.media / "record.old"
    shutil.copy(record(host), old)
    host.power_on()
    writers.ask("verify", READ_LIMIT_S * 2, limit_s=READ_LIMIT_S)
    writers.ask("resume")
    wait_acked(writers, WRITES)
    host.cut(announced=False)
    writers.ask("hold", at_ns=time.monotonic_ns())
    shutil.copy(old, record(host))


def is_noticed(host: VmHost, writers: Writers) -> bool:
    """Whether a check of the demonstration fails at the next power-on."""
    if not host.power_on()[DEBIAN]["resumed"]:
        return True
    found = writers.ask("verify", READ_LIMIT_S * 2, limit_s=READ_LIMIT_S)
    return not found["drained"] or bool(found["lost"]) or bool(found["failures"])
