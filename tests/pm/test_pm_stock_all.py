# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What holds in a guest with our kernel holds under Debian's: the same tests, all of them.

Goal and method: test_pm_guest.py; only the machine is another.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from lab.machine import Machine
from lab.testbed.pm_guest import guest_with_stock
from tests.pm.conftest import ASIDE
from tests.pm.test_pm_guest import *  # noqa: F403

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    with guest_with_stock(f"t-pmka-{os.getpid()}") as made:
        yield made


@pytest.fixture(scope="module")
def aside() -> Iterator[Machine]:
    """Instead of conftest's, which has our kernel."""
    with guest_with_stock(f"t-pmkb-{os.getpid()}", more=ASIDE) as made:
        yield made
