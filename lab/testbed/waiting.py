# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Waiting for what has no event of its own."""

from __future__ import annotations

import time
from collections.abc import Callable

from lab.errors import HangError

POLL_S = 0.1


def wait_until(
    is_so: Callable[[], bool], what: str, limit_s: float, poll_s: float = POLL_S
) -> None:
    """HangError, which names *what*, if it does not become so within the limit."""
    end_s = time.monotonic() + limit_s
    while not is_so():
        if time.monotonic() > end_s:
            raise HangError(f"{what}: not within {limit_s:g} s")
        time.sleep(poll_s)
