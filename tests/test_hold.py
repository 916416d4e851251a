# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim (invariant 6): with the policy `hold` a difference of the machine costs nothing until
somebody has decided. A disk that is slow is waited for; without an answer the image is there after
another loss of power; the answer is `cold` and Enter.

Method: one stopped machine; its disk has almost no sectors at power-on, and later all. Negative
proof: a loader that does not hold.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.machine.status import status_from_files, status_lines
from lab.verdict import BrokenError
from tests.support.proofs import must_be_found
from tests.support.trials import GO_LIMIT_S, Bed, bed

HOLD_S = 2
SYSFS = "/sys/kernel/remanence"
QUESTION = "GO: the image of this machine is kept: type cold and Enter"

pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def it() -> Iterator[Bed]:
    words = f"nokaslr remanence.hold={HOLD_S}"
    with bed("hold", mutants=True, cmdline_extra=words) as it:
        yield it


def last_boot_line(it: Bed) -> str:
    lines = status_lines(status_from_files(it.machine.files))
    return next(line for line in lines if line.startswith("last boot"))


def check_held(it: Bed, mutant: str | None = None) -> None:
    """Inner check: power returns and the disk is not ready; the loader decides nothing."""
    it.restore()
    it.power_on(disk_late=True, mutant=mutant)
    note = it.machine.wait_boot_note(GO_LIMIT_S, held=True)
    if not note.is_held:
        raise BrokenError("given-up", f"image {note.sequence} is gone: {note.reason}")
    assert note.held == "COLD_DISK_DIFFERS"
    assert "disk differs; image has disk " in last_boot_line(it)


def test_differing_machine_is_held_for_its_disk_or_an_answer(it: Bed) -> None:
    check_held(it)
    assert "holds image " in last_boot_line(it)
    it.machine.console.expect(QUESTION, GO_LIMIT_S)
    it.off()  # no answer
    it.power_on(disk_late=True)
    it.machine.console.expect(QUESTION, GO_LIMIT_S)
    it.machine.disk_is_ready()
    note = it.machine.wait_resumed(GO_LIMIT_S)
    assert note.held == "COLD_DISK_DIFFERS"
    assert it.kept()
    it.machine.run_in_guest("echo 1 > /root/after && sync /root/after")
    shown = it.machine.run_in_guest(f"cat {SYSFS}/last_boot {SYSFS}/hold").stdout.splitlines()
    assert shown == [f"resume 1 sequence {note.sequence} held disk-differs", f"{HOLD_S},keep"]
    assert "held before: disk differs" in last_boot_line(it)


def test_answer_boots_cold_with_the_reason(it: Bed) -> None:
    check_held(it)
    it.machine.console.expect(QUESTION, GO_LIMIT_S)
    it.machine.console.send(b"cold\r")
    note = it.machine.wait_boot_note(GO_LIMIT_S)
    it.off()
    assert (note.reason, note.held) == ("COLD_DISK_DIFFERS", "COLD_DISK_DIFFERS")
    assert it.boot_decision().reason == "COLD_ALREADY_CONSUMED"


def test_policy_is_chosen_at_run_time(it: Bed) -> None:
    it.restore()
    it.resume()
    for wrong in (",", "0", "3601", "2,", "2,maybe", "soon", "-1", "2,cold,keep"):
        it.machine.run_in_guest(f"! printf '{wrong}' > {SYSFS}/hold")
    for text, shown in (("9", "9,keep"), ("3600,cold", "3600,cold"), ("off", "off")):
        it.machine.run_in_guest(f"echo {text} > {SYSFS}/hold")
        assert it.machine.run_in_guest(f"cat {SYSFS}/hold").stdout.strip() == shown
    it.machine.guest.close()
    assert it.machine.cut().stopped
    it.power_on(disk_late=True)
    note = it.machine.wait_boot_note(GO_LIMIT_S, held=True)
    it.off()
    assert (note.reason, note.held) == ("COLD_DISK_DIFFERS", None)


def test_image_that_is_not_held_is_found(it: Bed) -> None:
    with must_be_found("forget-hold"):
        check_held(it, mutant="forget-hold")
