# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The names of verdicts: how a check reports which rule is broken.

A planted bug names the verdict by which a check must find it (lab/setup/patch_series.py). A check
that fails in another way has found something, but not that bug.

    images      variants of `Broken` in machine/campaign/src/verdict.rs
    machines    of boots and of tests: MACHINE below, and `cold-REASON` for an unexpected cold boot
    detectors   of the debug kernel: DETECTORS
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from lab.errors import HangError, RemError

MACHINE = {
    "does-not-continue": "a program, a CPU or a device does not continue after Go",
    "crashed": "the kernel crashes after the loader has entered the image",
    "kernel-warns": "the kernel prints a warning",
    "promises-broken": "something is lost that was reported to be durable",
    "torn": "a page on the disk has parts of several writes",
    "entered-twice": "an image is entered that was entered before",
    "stop-refused": "a Stop is refused",
    "other-decision": "the loader decides otherwise than the engine",
}
DETECTORS = {
    "lockdep": r"WARNING: possible circular locking dependency",
    "kasan": r"BUG: KASAN: slab-out-of-bounds in rem_mutant_detect",
    "ubsan": r"UBSAN: shift-out-of-bounds",
    "atomic-sleep": r"BUG: sleeping function called from invalid context",
    "kmemleak": r"rem_thread",  # in the list of leaks, not on the console
}
COLD = re.compile(r"\bCOLD_([A-Z_]+)\b")
CRASHED = re.compile(r"\bcrashed\b")
UNNAMED = "unnamed"  # a failure that no check has given a name


@dataclass(frozen=True)
class Broken:
    """A broken rule: its verdict, and a line for people."""

    verdict: str
    text: str

    def __str__(self) -> str:
        return self.text


class BrokenError(RemError):
    """A check fails with a verdict."""

    def __init__(self, verdict: str, message: str) -> None:
        super().__init__(message)
        self.verdict = verdict


def verdict_of(error: Exception) -> str:
    """The verdict of a failed check."""
    if isinstance(error, BrokenError):
        return error.verdict
    text = str(error)
    if match := COLD.search(text):
        return f"cold-{match[1].lower().replace('_', '-')}"
    if isinstance(error, HangError):
        return "does-not-continue"
    return "crashed" if isinstance(error, RemError) and CRASHED.search(text) else UNNAMED


def broken_of(error: RemError) -> Broken:
    """A failed check as a value."""
    return Broken(verdict_of(error), error.message)
