# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A cluster, its clients and what is promised of them, for each part of `rem demo cluster`."""

from __future__ import annotations

from dataclasses import dataclass

from lab.demo.promises import Promises
from lab.testbed.cluster import Cluster
from lab.testbed.cluster_watch import State, Watch, agree

SETTLE_S = 1.0  # answers that were on their way when the power went
MORE = 60  # answers of each kind of client between two cuts, at least


@dataclass(frozen=True)
class Scene:
    """What each part needs, and what several parts check."""

    cluster: Cluster
    watch: Watch
    promises: Promises

    def print_line(self, line: str) -> None:
        self.promises.print_line(line)

    def power_on(self, nodes: list[int]) -> bool:
        """Whether all of these resumed."""
        guests = self.cluster.power_on(nodes)
        back = all(guest["resumed"] for guest in guests)
        took = ", ".join(f"{guest['boot_us'] / 1000:.0f}" for guest in guests if guest["runs"])
        self.promises.check(back, f"resumed {took} ms after power-on")
        return back

    def wait_open(self) -> None:
        """Until all clients are let in, and members agree."""
        agree(lambda: not self.cluster.fenced(), "the fences open")
        self.watch.wait_agreed()

    def check_elections(self, before: State, most: int) -> State:
        """That there were no more since then; the state now."""
        after = self.watch.state()
        count = after.term - before.term
        self.promises.check(
            count <= most, f"{count} elections, no storm" if most else "no election"
        )
        return after

    def check_no_stale(self) -> None:
        status = self.watch.replicas.ask("status")
        self.promises.check(
            not status["stale"], f"no stale answer: {status['first_stale'] or 'none'}"
        )

    def go_on(self) -> None:
        """Until clients of each kind have answers again."""
        self.watch.more(MORE)
