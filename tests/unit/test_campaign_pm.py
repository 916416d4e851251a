# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem campaign --pm`: when a planted bug counts as found, and which options go with --pm."""

from __future__ import annotations

import subprocess
import sys

import pytest

from lab.campaign.pm import Window, mutants, verdict, verdicts
from lab.errors import Exit, InfraError
from lab.machine.guest import GuestResult
from lab.paths import repo_dir

MESSAGE = "pm-work: line 191: a segment was not read: 20000"


def ended(returncode: int, stderr: str) -> GuestResult:
    return GuestResult("pm-work row 1", returncode, "", stderr)


def judged(broken: int, verdict: str = "") -> dict[str, object]:
    return {"broken": broken, "verdict": verdict, "first": "details" if verdict else ""}


def test_only_a_message_of_the_program_finds_a_bug() -> None:
    assert not verdict(ended(0, ""))
    assert verdict(ended(1, f"{MESSAGE}\n")) == MESSAGE
    for other in (
        ended(1, ""),
        ended(1, "sh: 1: /root/pm-work: Text file busy"),
        ended(127, "sh: 1: /root/pm-work: not found"),
        ended(255, "ssh: connection closed"),
        ended(139, MESSAGE),
    ):
        with pytest.raises(InfraError, match="ended with exit"):
            verdict(other)


def test_message_must_be_in_the_recording() -> None:
    assert Window("one-copy", judged(191), MESSAGE).broken == f"in-the-guest: {MESSAGE}"
    assert Window("one-copy", judged(0, "damaged")).broken == "damaged: details"
    assert not Window("one-copy", judged(0)).broken
    for broken, message in ((0, MESSAGE), (190, MESSAGE), (191, "")):
        with pytest.raises(InfraError, match="the recording has line"):
            Window("one-copy", judged(broken), message)


def test_planted_bug_is_found_by_its_own_verdict_only() -> None:
    for name, patch in mutants().items():
        for verdict_of_it in verdicts(patch) - {"in-the-guest"}:
            assert not Window(name, judged(0, verdict_of_it)).missed
        assert Window(name, judged(0, "another")).missed
        assert Window(name, judged(0)).missed
    assert not Window("", judged(0)).missed


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
def test_options_that_pm_does_not_use_are_refused(words: str) -> None:
    argv = [sys.executable, "-m", "lab", "campaign", "--pm", "--seed", "2", *words.split()]
    done = subprocess.run(
        argv, capture_output=True, text=True, cwd=repo_dir(), timeout=100, check=False
    )
    assert done.returncode == int(Exit.USAGE), done.stderr
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1
    assert f"--pm goes with --seed and --mutants only, not with {words.split()[0]}" in lines[0]
