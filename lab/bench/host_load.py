# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The load of the host while something is measured, and load that is made on purpose.

A figure that a busy host might change is printed beside the load average that the host had. The
measurement's own processes are part of it.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from lab.result import Result
from lab.run import end, spawn

SAMPLE_EVERY_S = 10.0
# It ends with its parent, whatever ends that.
SPIN = """
import os
parent = os.getppid()
while os.getppid() == parent:
    sum(range(100_000))
"""


@dataclass
class HostLoad:
    """Load averages of one minute, taken at regular times."""

    busy: int  # processes that were started to keep the host busy
    averages: list[float] = field(default_factory=list)

    def sample(self) -> None:
        self.averages.append(os.getloadavg()[0])

    def add_to(self, result: Result) -> None:
        """Add what was sampled so far; at least one sample has been taken."""
        mean = sum(self.averages) / len(self.averages)
        result.add("host_cpus", os.cpu_count() or 1, "", "counted")
        result.add("host_busy", self.busy, "processes", "counted")
        result.add("host_load_mean", round(mean, 1), "", "native")
        result.add("host_load_max", round(max(self.averages), 1), "", "native")


@contextmanager
def host_load(busy: int = 0, every_s: float = SAMPLE_EVERY_S) -> Iterator[HostLoad]:
    """Sample the load within, with so many processes that compute all the time beside it."""
    load = HostLoad(busy)
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(every_s):
            load.sample()

    with ExitStack() as stack:
        for _ in range(busy):
            stack.callback(end, spawn([sys.executable, "-c", SPIN]))
        thread = threading.Thread(target=watch, daemon=True)
        thread.start()
        try:
            yield load
        finally:
            ended.set()
            thread.join()
            load.sample()
