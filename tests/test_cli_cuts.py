# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: the commands work. `rem ssh` waits for a guest that boots; `rem cut` gives a machine under
icount its hold-up in guest time; `rem cut --at` and `rem resume --cut-at` cut the power at an
instruction of Stop and of Go; exit codes show whether an image was entered.

Method: one machine under icount and the commands themselves, each a process of its own. A program
keeps the guest busy: while it is idle its clock waits for the host's, and a busy host could use up
the hold-up before QEMU runs again.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.errors import Exit
from tests.support.command_line import Cli, running_machine

BEFORE_COMMIT = "commit+300"
BEFORE_CONSUMPTION = "consume+4"

BUSY = "sh -c 'while :; do :; done' </dev/null >/dev/null 2>&1 &"

pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def rem(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cli]:
    words = ("--icount", "--cpus", "1", "--nvram", "512M")
    with running_machine(tmp_path_factory.mktemp("state"), "cli", *words) as cli:
        yield cli


def test_cuts_by_commands_resume_or_give_the_reason(rem: Cli) -> None:
    # Right after `rem run`: the guest is still booting.
    assert rem.well("ssh", "echo kept > /dev/shm/kept && cat /dev/shm/kept").stdout == "kept\n"

    rem.well("ssh", BUSY)
    cut = rem.well("cut", "--hold-up", "10ms")
    assert "stopped after" in cut.stderr
    assert "of 10 ms hold-up" in cut.stderr
    # Cut before the image is consumed, so the next boot enters it.
    again = rem.well("resume", "--cut-at", BEFORE_CONSUMPTION)
    assert f"power cut at {BEFORE_CONSUMPTION} of Go" in again.stderr
    resumed = rem.well("resume")
    assert "resumed image 2" in resumed.stderr
    assert rem.well("ssh", "cat /dev/shm/kept").stdout == "kept\n"

    cut = rem.well("cut", "--at", BEFORE_COMMIT)
    assert f"at {BEFORE_COMMIT} of Stop" in cut.stderr
    assert f"at {BEFORE_COMMIT} of Stop" in rem.well("status").stdout
    cold = rem("resume")
    assert cold.returncode == Exit.BROKEN
    assert "cold boot: already consumed" in cold.stderr


def test_wrong_places_are_one_line(rem: Cli) -> None:
    wrong = (
        ("cut", "--at", "consume+1"),  # of Go
        ("resume", "--cut-at", "commit+1"),  # of Stop
        ("cut", "--at", "commit+1", "--hold-up", "1ms"),
    )
    for words in wrong:
        done = rem(*words)
        assert done.returncode == Exit.USAGE, words
        assert len(done.stderr.splitlines()) == 1
