# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A test's limit of time is for hangs of what it tests. A kernel that it is the first to need may
take longer to build, so the limit stands still meanwhile.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lab.setup.need import Site

_lock = threading.Lock()
_making = 0  # products, by threads
_left_s = 0.0


def exclude() -> None:
    """From now on, the limit does not count the time in which a product is made or waited for."""
    made = Site.product

    def product(site: Site, *words: Any) -> Path:
        with _standing_still():
            return made(site, *words)

    Site.product = product  # type: ignore[method-assign]


@contextmanager
def _standing_still() -> Iterator[None]:
    global _making, _left_s
    with _lock:
        if _making == 0:
            _left_s = signal.setitimer(signal.ITIMER_REAL, 0)[0]  # pytest-timeout's alarm
        _making += 1
    try:
        yield
    finally:
        with _lock:
            _making -= 1
            if _making == 0 and _left_s > 0:
                signal.setitimer(signal.ITIMER_REAL, _left_s)
