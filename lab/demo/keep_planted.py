# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What the checks of `rem demo keep` must notice: faults planted on NVRAM while the power is off.

Each is what a save would leave that skipped a step: the commit word is not there, the image is
entered a second time, pages of the program were never written back.
"""

from __future__ import annotations

import time

from lab import format as fmt
from lab.machine.cut_plan import UNANNOUNCED
from lab.testbed.keep_guest import KeepGuest, Writers
from lab.testbed.keep_image import newest_table, read_record, write
from lab.testbed.waiting import wait_acked

WRITES = 500
READ_LIMIT_S = 20.0
LOST_PAGES = 512


def skip_commit(guest: KeepGuest, _writers: Writers) -> None:
    """No slot has a commit word."""
    for slot in (0, 1):
        offset = fmt.CONST["REM_VM_COMMIT_OFFSET"] + slot * fmt.CONST["REM_VM_SLOT_BYTES"]
        write(guest, offset, bytes(fmt.size_of("rem_word")))


def lose_page(guest: KeepGuest, _writers: Writers) -> None:
    """What was in caches did not reach some of the program's pages."""
    for entry in newest_table(guest)[-LOST_PAGES:]:
        page_bytes = fmt.CONST["REM_KEEP_PAGE_BYTES"]
        write(guest, entry.frame * page_bytes, bytes(page_bytes))


def enter_again(guest: KeepGuest, writers: Writers) -> None:
    """The record is what it was before the image was consumed, and the program has run since."""
    old = read_record(guest)
    guest.power_on()
    writers.ask("verify", READ_LIMIT_S * 2, limit_s=READ_LIMIT_S)
    writers.ask("resume")
    wait_acked(writers, WRITES)
    guest.cut(UNANNOUNCED)
    writers.ask("hold", at_ns=time.monotonic_ns())
    write(guest, 0, old)


def is_noticed(guest: KeepGuest, writers: Writers) -> bool:
    """Whether a check of the demonstration fails at the next power-on."""
    guest.power_on()
    if not guest.has_redis():
        return True
    found = writers.ask("verify", READ_LIMIT_S * 2, limit_s=READ_LIMIT_S)
    return not found["drained"] or bool(found["lost"]) or bool(found["failures"])
