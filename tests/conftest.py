# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Fixtures of tests in several folders; programs of listed packages; tests that take turns; and
the last lines of a run: boots that were repeated, also in tests that passed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from lab.machine.lost_interrupt import BOOTED_AGAIN
from lab.run import HOST_PATH_ENV, end_threads_on_ctrl_c
from lab.setup.packages import ALL_TESTS
from lab.setup.tools import use as use_tools
from lab.turns import ALL_TURNS_ENV, TOO_LATE, head
from tests.support import setup_time
from tests.support.late import Begun
from tests.support.turns import take_turns


def pytest_configure() -> None:
    """`rem test` has set PATH for its tier; where pytest is called by hand, all tests' groups."""
    if HOST_PATH_ENV not in os.environ:
        use_tools(ALL_TESTS)
    setup_time.exclude()
    end_threads_on_ctrl_c()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if ALL_TURNS_ENV not in os.environ:
        take_turns(items, head())


_begun = Begun()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if not _begun.may_run(item.path):
        pytest.skip(TOO_LATE)


@pytest.fixture
def quiet(request: pytest.FixtureRequest) -> Iterator[None]:
    """The kernels of the test's machines logged no warning."""
    from lab.testbed.pm_guest import kernel_complaints

    used = [request.getfixturevalue(n) for n in ("machine", "aside") if n in request.fixturenames]
    yield
    for machine in used:
        assert not kernel_complaints(machine)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    again = {
        f"{report.nodeid}: {line}": None  # once, though later phases of a test repeat earlier ones
        for reports in terminalreporter.stats.values()
        for report in reports
        for title, text in getattr(report, "sections", ())
        for line in text.splitlines()
        if "stderr" in title and BOOTED_AGAIN in line
    }
    for line in again:
        terminalreporter.write_line(line)
