# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The names of verdicts: how a check reports which rule is broken.

A planted bug names the verdict by which a check must find it (lab/setup/patch_series.py). A check
that fails in another way has found something, but not that bug: a tool that hangs, a QEMU that ends
by itself or an assertion of a test has no verdict, whatever its text is.

    images      variants of `Broken` in machine/campaign/src/verdict.rs
    machines    of boots and of tests: MACHINE below, and `cold-REASON` for an unexpected cold boot
    detectors   of the kernels that detect bugs: DETECTORS
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from lab.errors import HangError, RemError

MACHINE = {
    "does-not-continue": "a program, a CPU or a device does not continue after Go",
    "crashed": "the kernel crashes after the loader has entered the image",
    "kernel-warns": "the kernel prints a warning",
    "promises-broken": "something is lost that was reported to be durable",
    "undone": "what was written later is replaced by something older",
    "torn": "a page on the disk has parts of several writes",
    "entered-twice": "an image is entered that was entered before",
    "given-up": "an image that was to be held is gone",
    "stop-refused": "a Stop is refused",
    "stop-hangs": "a Stop does not end",
    "stop-missed": "a drop of PWR_OK begins no Stop",
    "entered-without-charge": "an image is consumed without the charge for another Stop",
    "clock-wrong": "a clock counts the time without power wrongly",
    "random-repeats": "two machines that resume one image draw the same random numbers",
    "config-differs": "a PCI function is not configured as before the cut",
    "state-lost": "a register, or what a device holds, is not as before the cut",
    "open-disk": "a disk's volatile write cache is on, and no log has what it may lose",
    "stop-order": "a Stop takes a bridge off the bus before a device behind it",
    "threads-together": "threads of a core load microcode at the same time in Go",
    "writes-on": "a device of firmware's still writes to memory when an image is entered",
    "overwritten": "firmware writes to memory that an image may be in",
    "forged-entered": "an image is entered that no Stop of this machine has left",
    "key-given": "the TPM gives the key of images to somebody else than the loader",
    "key-on-media": "the key of images is in memory that survives the power",
    "unsigned-entered": "under Secure Boot a kernel is entered that nobody has checked",
    "not-entered": "the loader decides, and enters nothing",
    "over-budget": "a Stop takes longer than its bound",
    "wrong-result": "a program computes something else than is right",
    "other-decision": "the loader decides otherwise than the engine",
}
DETECTORS = {
    "lockdep": r"WARNING: possible circular locking dependency",
    "kasan": r"BUG: KASAN: slab-out-of-bounds in rem_mutant_detect",
    "ubsan": r"UBSAN: shift-out-of-bounds",
    "atomic-sleep": r"BUG: sleeping function called from invalid context",
    "kcsan": r"BUG: KCSAN: data-race in rem_mutant_race",
    "kmemleak": r"rem_thread",  # in the list of leaks, not on the console
}
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


class StuckError(HangError):
    """What ran before the cut does not run after Go."""

    verdict = "does-not-continue"


@contextmanager
def after_go() -> Iterator[None]:
    """Within, the machine has gone through Go, and a hang of the guest is its fault."""
    try:
        yield
    except StuckError:
        raise
    except HangError as error:
        raise StuckError(error.message) from error


def cold_verdict(reason: str) -> str:
    """The verdict of an unexpected cold boot; *reason* as boot notes have it."""
    return f"cold-{reason.removeprefix('COLD_').lower().replace('_', '-')}"


def verdict_of(error: Exception) -> str:
    """The verdict of a failed check."""
    return error.verdict if isinstance(error, BrokenError | StuckError) else UNNAMED


def broken_of(error: RemError) -> Broken:
    """A failed check as a value."""
    return Broken(verdict_of(error), error.message)
