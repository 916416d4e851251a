# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Clients of a redis with replicas: writers that follow the master, readers that stay.

A writer has a key of its own, and writes numbers that grow. A write is acknowledged when a replica
has it, too (WAIT). Writers ask the sentinels where the master is.

A reader stays with one node and does not know of failovers. What a node answers while it says that
it is the master must not be older than what was acknowledged before the question: else the answer
is *stale*. (What a replica answers may be; it says so.)

    lost    acknowledged, and missing or older at the end
    stale   answers of a node that was no longer the master, and said it was

One more client keeps a lease (leases.py).
"""

from __future__ import annotations

import secrets
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from redis import Redis
from redis.exceptions import RedisError

from lab.clients.leases import RedisLease
from lab.clients.sentinels import ASK_LIMIT_S, REDIS, Sentinels, connect

WRITERS, READERS_OF_A_NODE = 3, 2
WAIT_MS = 1000
PAUSE_S = 0.02
AGAIN_S = 0.2
WRITER_LIMIT_S = 3.0
VERIFY_LIMIT_S = 60.0
FILL_BATCH = 100
INFO = ("role", "master_repl_offset", "sync_full")


@dataclass
class Answers:
    """What all clients together know."""

    acked: list[int] = field(default_factory=lambda: [0] * WRITERS)
    answers: int = 0
    acks: int = 0
    stale: int = 0
    first_stale: str | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def acknowledge(self, writer: int, number: int) -> None:
        with self.lock:
            self.acked[writer] = number
            self.acks += 1

    def read(self, node: str, writer: int, floor: int, found: int) -> None:
        with self.lock:
            self.answers += 1
            if found < floor:
                self.stale += 1
                self.first_stale = self.first_stale or (
                    f"{node} answered {found} for {key_of(writer)}, {floor} was acknowledged before"
                )


def key_of(writer: int) -> str:
    return f"rem:{writer}"


class Replicas:
    """All of them, in threads; `start`, then the operations.

    A write counts when *copies* replicas have it.
    """

    def __init__(self, nodes: list[str], copies: int = 1) -> None:
        self.nodes = nodes
        self.copies = copies
        self.sentinels = Sentinels(nodes)
        self.lease = RedisLease(lambda: connect(self.sentinels.master(), REDIS, ASK_LIMIT_S))
        self.known = Answers()
        self._runs = True
        self._threads: list[threading.Thread] = []

    async def start(self) -> dict[str, Any]:
        for writer in range(WRITERS):
            self._begin(self._write, writer)
        for node in self.nodes:
            for reader in range(READERS_OF_A_NODE):
                self._begin(self._read, node, reader)
        self.lease.start()
        return self.status()

    def _begin(self, what: Any, *arguments: Any) -> None:
        thread = threading.Thread(target=what, args=arguments, daemon=True)
        thread.start()
        self._threads.append(thread)

    # Writers.

    def _write(self, writer: int) -> None:
        number = 0
        while self._runs:
            try:
                with connect(self.sentinels.master(), REDIS, WRITER_LIMIT_S) as redis:
                    while self._runs:
                        number += 1
                        redis.set(key_of(writer), number)
                        if redis.execute_command("WAIT", self.copies, WAIT_MS) >= self.copies:
                            self.known.acknowledge(writer, number)
                        time.sleep(PAUSE_S)
            except (RedisError, OSError):
                time.sleep(AGAIN_S)

    # Readers.

    def _read(self, node: str, reader: int) -> None:
        turn = reader
        while self._runs:
            try:
                with connect(node, REDIS, None) as redis:
                    while self._runs:
                        turn += 1
                        self._read_one(redis, node, turn % WRITERS)
                        time.sleep(PAUSE_S)
            except (RedisError, OSError):
                time.sleep(AGAIN_S)

    def _read_one(self, redis: Redis, node: str, writer: int) -> None:
        floor = self.known.acked[writer]
        both = redis.pipeline(transaction=True)
        both.role()
        both.get(key_of(writer))
        role, value = both.execute()
        if role[0] == "master":
            self.known.read(node, writer, floor, int(value or 0))

    # Operations.

    def status(self) -> dict[str, Any]:
        known = self.known
        return {
            "acked": known.acks,
            "answers": known.answers,
            "stale": known.stale,
            "first_stale": known.first_stale,
        } | self.lease.status()

    def clocks(self) -> dict[str, Any]:
        """By how many seconds each node's time of day is ahead of this host's; None: silent."""
        found: list[float | None] = []
        for node in self.nodes:
            found.append(None)
            with suppress(RedisError), connect(node, REDIS, ASK_LIMIT_S) as redis:
                seconds, micros = redis.time()
                found[-1] = seconds + micros / 1e6 - time.time()
        return {"clocks": found}

    def tilted(self) -> dict[str, Any]:
        """How many sentinels distrust their clock."""
        return {"tilted": self.sentinels.tilted()}

    def prefer(self, node: int | None) -> None:
        """The node that a failover chooses; None: the one that has most."""
        self.sentinels.prefer(None if node is None else self.nodes[node])

    def ask_failover(self, node: int) -> dict[str, Any]:
        """To the node that is preferred."""
        return {"asked": self.sentinels.ask_failover(self.nodes[node])}

    def end_lease(self) -> dict[str, Any]:
        """It is not renewed any more."""
        self.lease.stop()
        return self.status()

    def members(self) -> dict[str, Any]:
        """Of each node: role, counters of copies, what it has applied; empty if it is silent."""
        found = []
        for node in self.nodes:
            one: dict[str, Any] = {}
            with suppress(RedisError), connect(node, REDIS, ASK_LIMIT_S) as redis:
                info = redis.info()
                one = {name: info[name] for name in INFO}
                one["link"] = info.get("master_link_status", "up")
                one["received_bytes"] = info["total_net_repl_input_bytes"]
            found.append(one)
        return {"members": found}

    def digests(self) -> dict[str, Any]:
        """Of each node's data; an empty text for one that is silent."""
        found = []
        for node in self.nodes:
            found.append("")
            with suppress(RedisError), connect(node, REDIS, None) as redis:
                found[-1] = str(redis.execute_command("DEBUG", "DIGEST"))
        return {"digests": found}

    def fill(self, keys: int, value_bytes: int) -> None:
        """So many keys more, on every node, whose values no copy can compress."""
        with connect(self.sentinels.master(), REDIS, None) as redis:
            # A master that computes for long is taken for one that is off.
            for first in range(0, keys, FILL_BATCH):
                numbers = range(first, min(first + FILL_BATCH, keys))
                redis.mset({f"fill:{n}": secrets.token_bytes(value_bytes) for n in numbers})
            redis.execute_command("WAIT", len(self.nodes) - 1, 0)

    def verify(self) -> dict[str, Any]:
        """Writers end; everything acknowledged is read from the master."""
        self._runs = False
        self.lease.stop()
        for thread in self._threads[:WRITERS]:
            thread.join(WRITER_LIMIT_S * 3)
        end_s = time.monotonic() + VERIFY_LIMIT_S
        while True:
            with (
                suppress(RedisError),
                connect(self.sentinels.master(), REDIS, ASK_LIMIT_S) as redis,
            ):
                values = [int(redis.get(key_of(writer)) or 0) for writer in range(WRITERS)]
                pairs = zip(self.known.acked, values, strict=True)
                return {**self.status(), "lost": sum(found < acked for acked, found in pairs)}
            if time.monotonic() > end_s:
                return {**self.status(), "lost": sum(map(bool, self.known.acked))}
            time.sleep(AGAIN_S)

    async def close(self) -> None:
        self._runs = False
        self.lease.stop()
