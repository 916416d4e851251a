# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: the limit of a test's time stands still while a product is made, and counts on after it.
Method: a short alarm, and a product that takes longer.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.setup.need import Site


class Overdue(Exception):
    """The alarm."""


@pytest.fixture
def alarm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """An alarm of 0.2 s in place of the test's limit."""
    monkeypatch.setenv("REM_CACHE", str(tmp_path))

    def overdue(_signal: int, _frame: object) -> None:
        raise Overdue

    before = signal.signal(signal.SIGALRM, overdue)
    left_s = signal.setitimer(signal.ITIMER_REAL, 0.2)[0]
    yield
    signal.signal(signal.SIGALRM, before)
    signal.setitimer(signal.ITIMER_REAL, left_s)


@pytest.mark.usefixtures("alarm")
def test_making_a_product_is_not_counted() -> None:
    site = Site(())

    def make(folder: Path) -> None:
        time.sleep(0.4)
        site.product("inner", "key", lambda _inner: time.sleep(0.1))

    assert site.product("outer", "key", make).is_dir()
    with pytest.raises(Overdue):
        time.sleep(5)


@pytest.mark.usefixtures("alarm")
def test_error_of_a_product_leaves_the_limit() -> None:
    site = Site(())

    def make(folder: Path) -> None:
        raise ValueError

    with pytest.raises(ValueError):
        site.product("outer", "key", make)
    with pytest.raises(Overdue):
        time.sleep(5)
