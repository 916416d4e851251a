# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What holds in a guest with our kernel holds under Debian's: the same tests, all of them.

Goal and method: test_pm_guest.py; only the machine is another.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from lab.demo.pm_machine import install_stock, stock_machine, wait_up
from lab.machine import Machine
from tests.pm.test_pm_guest import *  # noqa: F403

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    with stock_machine(f"t-pma-{os.getpid()}", more="reserve_mem=32M:2M:pm") as made:
        made.boot()
        wait_up(made)
        install_stock(made)
        yield made
