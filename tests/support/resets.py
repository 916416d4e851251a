# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Inner checks on a machine that resets itself because it must not continue, for tests on the
product and for their negative proofs.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from lab.record.boot_note import BootNote
from lab.verdict import BrokenError
from tests.support.trials import BOOT_LIMIT_S, GO_LIMIT_S, Bed

# Go tries for 10 s of the guest's time to start a CPU.
RESET_LIMIT_S = 120.0
POLL_S = 0.1


def go_has_ended(it: Bed, sequence: int) -> bool:
    """Whether programs run again that the image stopped."""
    slots = [slot for slot in it.record().slots if slot.timeline_sequence == sequence]
    return any(event.type == "GO_DONE" for slot in slots for event in slot.timeline)


def next_decision(
    it: Bed, before: BootNote | None, goes_on: Callable[[], bool] = lambda: False
) -> BootNote | None:
    """The decision of the loader after the machine has reset itself, or None if the machine goes
    on, or does nothing."""
    end_s = time.monotonic() + RESET_LIMIT_S
    while (note := it.record().note) is None or note == before:
        if goes_on() or time.monotonic() > end_s:
            return None
        time.sleep(POLL_S)
    return note


def check_go_is_given_up(it: Bed, reason: str, verdict: str, finding: str) -> BootNote:
    """A stopped machine: the loader enters its image, Go resets the machine, and the cold boot that
    follows names the reason. If the image continues instead, that is the finding.
    """
    it.power_on()
    entered = it.machine.wait_boot_note(GO_LIMIT_S)
    assert entered.resumed
    note = next_decision(it, entered, lambda: go_has_ended(it, entered.sequence))
    if note is None:
        it.machine.wait_resumed(GO_LIMIT_S)  # a Go that hangs is another finding
        raise BrokenError(verdict, finding)
    assert note.reason == f"COLD_{reason.upper().replace('-', '_')}"
    assert it.machine.console is not None
    it.machine.console.expect(f"remanence: armed, last boot: {reason}", BOOT_LIMIT_S)
    return note
