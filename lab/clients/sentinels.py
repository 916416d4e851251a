# SPDX-License-Identifier: Apache-2.0 OR MIT
"""redis' sentinels, as a client asks them: where the master is, and a failover on request."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

REDIS, SENTINEL = 6379, 26379
SERVICE = "rem"
ASK_LIMIT_S = 2.0
FIRST, USUAL = 1, 100  # replica-priority; the lowest is preferred
PAUSE_MS = 3000  # writes wait while a failover begins


def connect(host: str, port: int, limit_s: float | None) -> Redis:
    """Nothing is tried twice: what happened to a request is known."""
    return Redis(
        host,
        port,
        socket_timeout=limit_s,
        socket_connect_timeout=limit_s or ASK_LIMIT_S,
        retry=Retry(NoBackoff(), 0),
        decode_responses=True,
        protocol=2,
    )


class Sentinels:
    """One on each node."""

    def __init__(self, nodes: list[str]) -> None:
        self.nodes = nodes

    def master(self) -> str:
        """Where they see it, in the clients' network; RedisError if none knows."""
        for node in self.nodes:
            with suppress(RedisError), connect(node, SENTINEL, ASK_LIMIT_S) as sentinel:
                found = sentinel.execute_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE)
                return self._as_seen_by_clients(found[0])
        raise RedisError("no sentinel answers")

    def _as_seen_by_clients(self, address: str) -> str:
        last = address.rpartition(".")[2]
        return next(node for node in self.nodes if node.rpartition(".")[2] == last)

    def tilted(self) -> int:
        """How many distrust their clock, and replace no master."""
        count = 0
        for node in self.nodes:
            with suppress(RedisError), connect(node, SENTINEL, ASK_LIMIT_S) as sentinel:
                count += int(sentinel.info("sentinel")["sentinel_tilt"])
        return count

    def prefer(self, wanted: str | None) -> None:
        """The node that a failover chooses; None: the one that has most."""
        for node in self.nodes:
            with suppress(RedisError), connect(node, REDIS, ASK_LIMIT_S) as redis:
                redis.config_set("replica-priority", FIRST if node == wanted else USUAL)

    def ask_failover(self, wanted: str) -> bool:
        """To a node; writes wait until it has them all. False if it is too early for that."""
        for node in self.nodes:
            with suppress(RedisError), connect(node, SENTINEL, ASK_LIMIT_S) as sentinel:
                # Sentinels ask for priorities now and then.
                first = [one for one, priority in self._replicas(sentinel) if priority == FIRST]
                if first == [wanted] and not sentinel.info("sentinel")["sentinel_tilt"]:
                    with connect(self.master(), REDIS, ASK_LIMIT_S) as redis:
                        redis.execute_command("CLIENT", "PAUSE", PAUSE_MS, "WRITE")
                    sentinel.execute_command("SENTINEL", "FAILOVER", SERVICE)
                    return True
        return False

    def _replicas(self, sentinel: Redis) -> Iterator[tuple[str, int]]:
        """Each with its priority."""
        words = ("SENTINEL", "REPLICAS", SERVICE)
        found: list[Any] = sentinel.execute_command(*words)  # type: ignore[no-untyped-call]
        for one in found:
            if not isinstance(one, dict):
                one = dict(zip(one[::2], one[1::2], strict=True))
            yield self._as_seen_by_clients(one["ip"]), int(one["slave-priority"])
