# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What the clients of a cluster see of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from lab.clients.leases import CLOCK_LIMIT_S
from lab.clients.process import ClientProcess
from lab.testbed.cluster import NODES, Cluster
from lab.testbed.histories import check_history
from lab.testbed.waiting import wait_until

ANSWER_LIMIT_S = 180.0
AGREE_LIMIT_S = 120.0
MOVE_POLL_S = 2.0


@dataclass(frozen=True)
class State:
    """Of all members together."""

    term: int  # of etcd
    copies: int  # whole ones, sent to members of either service


@dataclass(frozen=True)
class Verified:
    """What is there at the end."""

    acked: int
    lost: int
    same: bool
    operations: int
    waiting: int  # clients of etcd that have no answer to their last request
    impossible: tuple[str, ...]  # keys of etcd
    renewals: int  # of the lease, of either service, that had fewer
    early: tuple[str, ...]  # leases that ended before their time


@dataclass
class Watch:
    """Clients of both services; `watching` starts them."""

    replicas: ClientProcess
    registers: ClientProcess

    # Members.

    def _redis(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.replicas.ask("members", ANSWER_LIMIT_S)["members"]
        return found

    def _etcd(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.registers.ask("members", ANSWER_LIMIT_S)["members"]
        return found

    def _etcd_counters(self) -> list[dict[str, int]]:
        found: list[dict[str, int]] = self.registers.ask("counters", ANSWER_LIMIT_S)["members"]
        return found

    def is_agreed(self) -> bool:
        """Every member answers, there is one leader of each service, and all follow it."""
        redis, etcd = self._redis(), self._etcd()
        if not all(redis) or not all(etcd):
            return False
        roles = sorted(one["role"] for one in redis)
        links = {one["link"] for one in redis}
        leaders = {(one["leader"], one["term"]) for one in etcd}
        one_master = roles == ["master", *["slave"] * (NODES - 1)] and links == {"up"}
        return one_master and len(leaders) == 1 and "0" not in next(iter(leaders))

    def wait_agreed(self) -> None:
        agree(self.is_agreed, "members agree")

    def state(self) -> State:
        copies = sum(one.get("sync_full", 0) for one in self._redis())
        copies += sum(one["copies"] for one in self._etcd_counters())
        return State(max(one.get("term", 0) for one in self._etcd()), copies)

    def master(self) -> int:
        """The node of redis's master."""
        return next(i for i, one in enumerate(self._redis()) if one and one["role"] == "master")

    def leader(self) -> int:
        """The node of etcd's leader."""
        return next(i for i, one in enumerate(self._etcd()) if one and one["leader"] == one["id"])

    def a_follower(self) -> int:
        """A node that leads neither service."""
        return min(set(range(NODES)) - {self.master(), self.leader()})

    def lead_together(self) -> int:
        """The node of redis's master, after etcd's leader has moved there."""
        node = self.master()

        def leads() -> bool:
            if self.is_agreed() and self.leader() == node:
                return True
            self.registers.ask("move_leader", ANSWER_LIMIT_S, node=node)
            return False

        agree(leads, "etcd's leader moves")
        return node

    def move_master(self, node: int) -> None:
        """redis's master moves to a node, with all that was acknowledged."""
        self.replicas.ask("prefer", node=node)

        def leads() -> bool:
            if self.is_agreed() and self.master() == node:
                return True
            self.replicas.ask("ask_failover", ANSWER_LIMIT_S, node=node)
            return False

        wait_until(leads, "redis's master moves", AGREE_LIMIT_S, MOVE_POLL_S)
        self.replicas.ask("prefer", node=None)

    def etcd_id(self, node: int) -> str:
        """What etcd calls a member that answers."""
        return str(self._etcd()[node]["id"])

    def was_replaced(self, node: int, etcd_id: str) -> bool:
        """Whether another node leads each service, by what the others say."""
        redis, etcd = self._redis(), self._etcd()
        others = [one for one in range(NODES) if one != node]
        masters = [one for one in others if redis[one] and redis[one]["role"] == "master"]
        leaders = {etcd[one]["leader"] for one in others if etcd[one]}
        return len(masters) == 1 and bool(leaders - {"0", etcd_id})

    def wait_watchful(self) -> None:
        """Until no sentinel distrusts its clock: after a step of it they replace no master."""
        agree(lambda: not self.replicas.ask("tilted")["tilted"], "sentinels trust their clocks")

    def are_clocks_near(self) -> bool:
        """Whether all nodes' times of day are those of this host, about."""
        clocks = self.replicas.ask("clocks", ANSWER_LIMIT_S)["clocks"]
        return all(one is not None and abs(one) <= CLOCK_LIMIT_S for one in clocks)

    def received(self, node: int) -> dict[str, int]:
        """Bytes that a node got from the others, by service, since it started."""
        counted = {"redis": self._redis(), "etcd": self._etcd_counters()}
        return {
            service: int(members[node]["received_bytes"]) for service, members in counted.items()
        }

    def wait_caught_up(self, node: int) -> None:
        """Until it has all that the others have now."""
        others = [one for one in range(NODES) if one != node]
        redis, etcd = self._redis(), self._etcd()
        offset = max(redis[one]["master_repl_offset"] for one in others)
        index = max(etcd[one]["index"] for one in others)

        def has_all() -> bool:
            of_redis, of_etcd = self._redis()[node], self._etcd()[node]
            if not of_redis or not of_etcd or of_redis["link"] != "up":
                return False
            has_redis = bool(of_redis["master_repl_offset"] >= offset)
            return has_redis and bool(of_etcd["applied"] >= index)

        agree(has_all, f"node {node} catches up")

    # Clients.

    def fill(self, keys: int, value_bytes: int, registers: int, register_bytes: int) -> None:
        """More data, in both services."""
        words = {"keys": keys, "value_bytes": value_bytes}
        self.replicas.ask("fill", ANSWER_LIMIT_S, **words)
        words = {"keys": registers, "value_bytes": register_bytes}
        self.registers.ask("fill", ANSWER_LIMIT_S, **words)

    def acknowledged(self) -> tuple[int, int]:
        """Writes of redis that count, and answers of etcd."""
        return self.replicas.ask("status")["acked"], self.registers.ask("status")["answered"]

    def more(self, answers: int) -> None:
        """Until clients of each kind have so many more answers."""

        def done() -> tuple[int, ...]:
            status = self.replicas.ask("status")
            return status["acked"], status["answers"], self.registers.ask("status")["operations"]

        begin = done()
        agree(
            lambda: all(now >= then + answers for now, then in zip(done(), begin, strict=True)),
            f"{answers} more answers",
        )

    def verify(self) -> Verified:
        """Clients end, and all that they remember is checked."""
        redis = self.replicas.ask("verify", ANSWER_LIMIT_S)
        self.wait_agreed()
        digests = self.replicas.ask("digests", ANSWER_LIMIT_S)["digests"]
        with TemporaryDirectory(prefix="rem-history-") as folder:
            path = Path(folder) / "history.jsonl"
            etcd = self.registers.ask("end", ANSWER_LIMIT_S, path=str(path))
            found = check_history(path)
        return Verified(
            redis["acked"],
            redis["lost"],
            len(set(digests)) == 1 and digests[0] != "",
            found["operations"],
            etcd["waiting"],
            tuple(found["impossible"]),
            min(redis["renewals"], etcd["renewals"]),
            (*redis["early"], *etcd["early"]),
        )


@contextmanager
def watching(cluster: Cluster) -> Iterator[Watch]:
    """Clients run, and end with it; the members have agreed."""
    with cluster.clients("replicas") as replicas, cluster.clients("registers") as registers:
        watch = Watch(replicas, registers)
        watch.wait_agreed()
        yield watch


def wait_renewed(clients: ClientProcess, more: int) -> None:
    """Until a lease has been renewed so many times more."""
    enough = clients.ask("status")["renewals"] + more
    agree(lambda: clients.ask("status")["renewals"] >= enough, f"{more} renewals")


def agree(is_so: Callable[[], bool], what: str) -> None:
    """Wait for what members agree on by themselves."""
    wait_until(is_so, what, AGREE_LIMIT_S)
