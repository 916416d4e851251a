# SPDX-License-Identifier: Apache-2.0 OR MIT
"""wsp-fresh-os: what a trial has found becomes one word, and a fault that was not there is red.

Goal: the table has nothing that was not measured. Method: trials are made up, first as the paper
has them, then with one of them wrong.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from lab.experiment import faults
from lab.experiment.run import Experiment
from tests.support.verdicts import counted, verdict

NAME = "wsp-fresh-os"
WELL = {
    "before": False, "made": False, "saved": True, "hit": 0, "entered": True, "reason": "resume",
    "up": True, "after": False, "later": False, "acked": 9, "answers": True, "lost": 0,
    "crashed": False,
}  # fmt: skip
COLD = {"up": True, "after": False, "answers": True}


def trial(fault: faults.Fault, mode: str) -> dict[str, Any]:
    """What the paper says of it."""
    one = deepcopy(WELL)
    one["made"] = fault.is_early and not fault.asking_harms
    one["hit"] = int(fault.spoils)
    if fault.name in ("list damaged", "driver's defect", "lock held for ever"):
        one["after"] = mode != "keep"
    if fault.name == "program's memory lost":
        one["lost"] = 4
    if fault.name == "program hangs":
        one["answers"] = False
    return one


def raw(names: tuple[str, ...] | None = None) -> dict[str, Any]:
    of = [one for one in faults.FAULTS if names is None or one.name in names]
    trials = {mode: {one.name: trial(one, mode) for one in of} for mode in ("whole", "vm", "keep")}
    for one in trials["whole"].values():
        one["cold"] = dict(COLD)
    return {"trials": trials}


def word(changed: dict[str, Any]) -> str:
    outcome = Experiment.load(NAME).module.outcome
    return str(outcome(WELL | changed))


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, "goes on"),
        ({"after": True}, "goes on, with the fault"),
        ({"lost": 1}, "goes on, answers lost"),
        ({"lost": 1, "after": True}, "goes on, answers lost"),
        ({"answers": False}, "hangs"),
        ({"answers": False, "crashed": True}, "crashes"),
        ({"entered": False, "answers": False}, "cold"),
        ({"entered": False, "answers": False, "after": True}, "cold, with the fault"),
        ({"entered": False, "answers": False, "up": False}, "not up"),
        (
            {"entered": False, "answers": False, "up": False, "later": True},
            "waits until it is mended",
        ),
    ],
)
def test_word_of_a_trial(changed: dict[str, Any], expected: str) -> None:
    assert word(changed) == expected


def test_trials_as_in_the_paper_pass() -> None:
    result = verdict(NAME, raw())
    assert result.ok
    assert counted(result) == (0, 0)
    assert verdict(NAME, raw(faults.SHORT), "ci").ok


def test_mode_that_does_not_go_on_without_a_fault_is_red() -> None:
    for mode in ("whole", "vm", "keep"):
        made = raw()
        made["trials"][mode]["none"]["lost"] = 1
        assert not verdict(NAME, made).ok


def test_base_that_does_not_serve_without_a_fault_is_red() -> None:
    made = raw()
    made["trials"]["whole"]["none"]["cold"]["answers"] = False
    assert not verdict(NAME, made).ok


@pytest.mark.parametrize(
    ("fault", "changed"),
    [
        ("lock held for ever", {"made": False}),  # nothing was injected
        ("lock held for ever", {"before": True}),  # what is asked always fails
        ("kernel's memory lost", {"hit": 0}),
        ("program's memory lost", {"hit": 0}),
    ],
)
def test_fault_that_was_not_there_is_red(fault: str, changed: dict[str, Any]) -> None:
    made = raw()
    made["trials"]["vm"][fault] |= changed
    assert not verdict(NAME, made).ok


def test_fault_that_whole_images_do_not_carry_along_is_counted() -> None:
    made = raw()
    made["trials"]["whole"]["list damaged"]["after"] = False
    assert counted(verdict(NAME, made)) == (0, 1)


def test_fault_that_a_fresh_system_has_is_counted() -> None:
    made = raw()
    made["trials"]["keep"]["driver's defect"]["after"] = True
    assert counted(verdict(NAME, made)) == (0, 1)


def test_faults_are_counted_by_what_becomes_of_them() -> None:
    made = raw()
    made["trials"]["vm"]["device gone"] |= {"entered": False, "up": False, "later": True}
    figures = verdict(NAME, made).figures
    all_ = len(faults.FAULTS) - 1
    assert figures["faults"].value == all_
    lost = 2  # of the program itself
    for mode, goes_on, gone in (("keep", 0, 0), ("whole", 0, 3), ("vm", 1, 4)):
        assert figures[f"{mode}, goes on"].value == all_ - lost - goes_on
        assert figures[f"{mode}, fault is gone"].value == all_ - lost - gone
