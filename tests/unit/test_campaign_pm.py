# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem campaign --pm`: what counts as a planted bug that was found, and what goes with --pm."""

from __future__ import annotations

import subprocess
import sys

import pytest

from lab.campaign.pm import Window, verdict
from lab.errors import Exit, InfraError
from lab.machine.guest import GuestResult
from lab.paths import repo_dir

SAID = "pm-work: line 191: a segment was not read: 20000"


def ended(returncode: int, stderr: str) -> GuestResult:
    return GuestResult("pm-work row 1", returncode, "", stderr)


def told(broken: int, first: str = "") -> dict[str, object]:
    return {"broken": broken, "first": first}


def test_only_what_the_program_itself_says_finds_a_bug() -> None:
    assert not verdict(ended(0, ""))
    assert verdict(ended(1, f"{SAID}\n")) == SAID
    for other in (
        ended(1, ""),
        ended(1, "sh: 1: /root/pm-work: Text file busy"),
        ended(127, "sh: 1: /root/pm-work: not found"),
        ended(255, "ssh: connection closed"),
        ended(139, SAID),
    ):
        with pytest.raises(InfraError, match="ended with exit"):
            verdict(other)


def test_what_was_said_must_be_in_the_recording_too() -> None:
    assert Window("ONE_COPY", told(191), SAID).broken == SAID
    assert Window("ONE_COPY", told(0, "it does not open")).broken == "it does not open"
    assert not Window("ONE_COPY", told(0)).broken
    for broken, said in ((0, SAID), (190, SAID), (191, "")):
        with pytest.raises(InfraError, match="the recording has line"):
            Window("ONE_COPY", told(broken), said)


@pytest.mark.parametrize(
    "words",
    [
        "--images 5",
        "--boots 0",
        "--whole 1",
        "--tier full",
        "--minutes 2",
        "--results r.db",
        "--page p.html",
        "--scheduler a:1",
        "--caches wsp-d510",
        "--disk-cache volatile",
        "--model",
        "--recording .",
        "--workload true",
    ],
)
def test_options_that_pm_has_no_use_for_are_refused(words: str) -> None:
    argv = [sys.executable, "-m", "lab", "campaign", "--pm", "--seed", "2", *words.split()]
    done = subprocess.run(
        argv, capture_output=True, text=True, cwd=repo_dir(), timeout=100, check=False
    )
    assert done.returncode == int(Exit.USAGE), done.stderr
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1
    assert f"--pm goes with --seed and --mutants only, not with {words.split()[0]}" in lines[0]
