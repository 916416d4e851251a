# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A planted bug is found by a check that has named what is broken, and by nothing else: neither by
a tool that hangs, nor by words in a message, nor by an assertion of a test.
"""

from __future__ import annotations

import pytest

from lab.errors import HangError, InfraError, RemError
from lab.verdict import UNNAMED, BrokenError, StuckError, after_go, cold_verdict, verdict_of
from tests.support import proofs

NAME = "skip-device"  # must be found by `does-not-continue`


@pytest.mark.parametrize(
    "error",
    [
        HangError("copying media: did not end within 60 s"),
        RemError("the campaign's engine crashed"),
        RemError("machine 'm' cold booted: COLD_NOT_COMMITTED"),
        InfraError("machine 'm' is failed after Go: QEMU ended with -6"),
        AssertionError("assert 'COLD_BODY_CRC' == 'COLD_NO_BLOCK'"),
    ],
)
def test_other_failure_has_no_verdict(error: Exception) -> None:
    assert verdict_of(error) == UNNAMED


@pytest.mark.parametrize(
    ("error", "verdict"),
    [
        (BrokenError("torn", "TORN: page 7"), "torn"),
        (StuckError("no ssh"), "does-not-continue"),
        (BrokenError(cold_verdict("COLD_NOT_COMMITTED"), "cold"), "cold-not-committed"),
    ],
)
def test_check_that_fails_has_its_verdict(error: Exception, verdict: str) -> None:
    assert verdict_of(error) == verdict


def test_hang_after_go_is_broken_and_other_errors_are_themselves() -> None:
    with pytest.raises(StuckError, match="no ssh"), after_go():
        raise HangError("no ssh")
    with pytest.raises(InfraError), after_go():
        raise InfraError("no ssh on this host")


def test_bug_is_found_by_its_verdict_only() -> None:
    with proofs.must_be_found(NAME):
        raise StuckError("no ssh")
    for error in (HangError("no ssh"), BrokenError("torn", "TORN"), AssertionError("no Stop")):
        with pytest.raises(pytest.fail.Exception, match="not by does-not-continue"):
            _found_by(error)
    with pytest.raises(pytest.fail.Exception, match=f"{NAME} is missed"):
        _found_by(None)


def test_bug_is_found_by_what_it_breaks_only() -> None:
    _found_by(StuckError("no ssh on CPU 1"), r"on CPU \d")
    with pytest.raises(pytest.fail.Exception, match="found by something else than on CPU"):
        _found_by(StuckError("no ssh"), r"on CPU \d")


def _found_by(error: Exception | None, what: str = "") -> None:
    with proofs.must_be_found(NAME, what):
        if error is not None:
            raise error
