# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What tests of persistent memory share."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from lab.machine import Machine
from lab.testbed.pm_guest import guest_with_region

ASIDE = "reserve_mem=32M:2M:pm"  # what `reserved=pm` finds


@pytest.fixture(scope="module")
def aside() -> Iterator[Machine]:
    """A machine in its first boot, with memory that the kernel has put aside.

    In a later boot that memory may hold what the kernel of an earlier one left there, which
    pmcore takes for a damaged region and does not format.
    """
    with guest_with_region(f"t-pma-{os.getpid()}", more=ASIDE) as made:
        yield made
