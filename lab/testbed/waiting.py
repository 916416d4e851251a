# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Waiting for what has no event of its own."""

from __future__ import annotations

import time
from collections.abc import Callable

from lab.clients.process import ClientProcess
from lab.errors import HangError

POLL_S = 0.1
ACK_LIMIT_S = 60.0


def wait_until(
    is_so: Callable[[], bool], what: str, limit_s: float, poll_s: float = POLL_S
) -> None:
    """HangError, which names *what*, if it does not become so within the limit."""
    end_s = time.monotonic() + limit_s
    while not is_so():
        if time.monotonic() > end_s:
            raise HangError(f"{what}: not within {limit_s:g} s")
        time.sleep(poll_s)


def wait_acked(writers: ClientProcess, more: int) -> None:
    """Until so many more writes are acknowledged; HangError if they are not."""
    enough = writers.ask("status")["acked"] + more
    wait_until(
        lambda: bool(writers.ask("status")["acked"] >= enough),
        f"{more} writes are acknowledged",
        ACK_LIMIT_S,
    )
