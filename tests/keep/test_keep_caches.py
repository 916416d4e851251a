# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Kept programs on volatile CPU caches, and planted bugs of the module (keep/mutants).

Goal: after a cut a program has all it stored, also what was only in caches. A flush that does
nothing loses it, a checkpoint that does not share its pages has later ones, pages of a saved
program that are not pinned are moved by the kernel, and all three are found.
Method: a machine whose caches lose their content (lab/machine/caches.py), and the witness, which
checks its own memory.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lab.errors import RemError
from lab.machine.cut_plan import UNANNOUNCED
from lab.setup.keep import KeepModule
from lab.setup.products import need
from lab.testbed.keep_guest import KeepGuest, keep_guest
from lab.testbed.waiting import wait_until

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]

CACHES = "wsp-c5528"
WITNESS_KIB = 256
LIMIT_S = 300.0
ANSWER_LIMIT_S = 300.0
ANSWERS = 10


def goes_on_after_a_cut(guest: KeepGuest) -> bool:
    """Whether the witness, saved and restored, still finds its memory right."""
    start_witness(guest)
    guest.serve()
    ask(guest)
    assert guest.cut().stopped
    return returns_right(guest)


def returns_right(guest: KeepGuest) -> bool:
    """Whether the witness is back after the next power-on, and finds its memory right."""
    if guest.power_on()["verdict"] != "resume":
        return False
    try:
        # It checks all of its memory between two answers.
        for _ in range(3):
            ask(guest)
    except RemError:
        return False
    return True


def start_witness(guest: KeepGuest) -> None:
    guest.machine.guest.put(Path(__file__).with_name("witness.py"), "/root/witness.py")
    guest.sh("sync; rm -f /root/witness.parent /root/witness.child")
    guest.run("witness", f"python3 /root/witness.py {WITNESS_KIB}")
    wait_until(lambda: guest.sh("test -e /root/witness.child", check=False).ok, "start", LIMIT_S)


def ask(guest: KeepGuest) -> int:
    """How often the child has found its memory right; HangError if it does not answer."""
    guest.sh("rm -f /root/witness.child; pkill -USR1 -o -f '[w]itness.py'", check=False)
    answered = "test -e /root/witness.child"
    wait_until(lambda: guest.sh(answered, check=False).ok, "an answer", ANSWER_LIMIT_S)
    return int(guest.sh("cat /root/witness.child").stdout.split()[0])


def test_program_has_all_that_was_in_caches() -> None:
    with keep_guest(f"t-keepc-{os.getpid()}", caches=CACHES) as guest:
        assert goes_on_after_a_cut(guest)


def test_flush_left_out_is_found() -> None:
    """Negative proof: the planted bug of keep/mutants."""
    module = need(KeepModule(mutants=True))
    with keep_guest(f"t-keepm-{os.getpid()}", caches=CACHES, module=module) as guest:
        guest.plant("flush-nothing")
        assert not goes_on_after_a_cut(guest)


def test_checkpoint_that_shares_nothing_is_found() -> None:
    """Negative proof: its pages are the program's own, and what it did later is in the image."""
    module = need(KeepModule(mutants=True))
    with keep_guest(f"t-keeps-{os.getpid()}", module=module) as guest:
        assert is_what_it_was(guest)
    with keep_guest(f"t-keeps-{os.getpid()}", module=module) as guest:
        guest.plant("share-exclusive")
        assert not is_what_it_was(guest)


def is_what_it_was(guest: KeepGuest) -> bool:
    """Whether the witness goes on from a checkpoint, with its memory right, after a crash."""
    start_witness(guest)
    guest.keep("checkpoint")
    later = [ask(guest) for _ in range(ANSWERS)][-1]
    guest.cut(UNANNOUNCED)
    if guest.power_on()["verdict"] != "resume":
        return False
    try:
        # It checks all of its memory between two answers.
        first = ask(guest)
        ask(guest)
    except RemError:
        return False
    return first < later


def test_pages_of_a_saved_program_stay_where_they_are() -> None:
    module = need(KeepModule(mutants=True))
    with keep_guest(f"t-keepp-{os.getpid()}", module=module) as guest:
        assert outlives_a_crowd(guest)


def test_pages_that_move_are_found() -> None:
    """Negative proof: the kernel makes room among them, and others get what they were."""
    module = need(KeepModule(mutants=True))
    with keep_guest(f"t-keepp-{os.getpid()}", module=module) as guest:
        guest.plant("pin-nothing")
        assert not outlives_a_crowd(guest)


def outlives_a_crowd(guest: KeepGuest) -> bool:
    """Whether the witness goes on, if between save and cut the kernel is made to move pages."""
    guest.machine.guest.put(Path(__file__).with_name("crowd.py"), "/root/crowd.py")
    guest.sh("setsid python3 /root/crowd.py holes >/run/crowd 2>&1 </dev/null &")
    wait_until(lambda: guest.sh("grep -q ready /run/crowd", check=False).ok, "a crowd", LIMIT_S)
    start_witness(guest)
    ask(guest)
    guest.sh("pkill -KILL -f '[c]rowd.py'")
    guest.keep("save")
    guest.sh("echo 1 >/proc/sys/vm/compact_memory; python3 /root/crowd.py fill")
    guest.cut(UNANNOUNCED)
    return returns_right(guest)
