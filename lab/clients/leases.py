# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Clients that keep a lease, of etcd or of redis: it must not end before its time.

A leader that was away finds leases that nobody has renewed with it, and would end them; the others
have renewed them meanwhile. (etcd#15247 describes how such an end can reach the new leader.)

etcd counts by a clock that stands still while its machine is off. redis has the time of day at
which a key ends: where a node's is behind, what it gives the others has passed for them already.

    early   answers that a lease has ended, or its key is gone, before the time that the last
            renewal gave it
"""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from redis import Redis
from redis.exceptions import RedisError

from lab.clients.etcd import FAILURES, ask, connect, encode, read_value

TTL_S = 15
RENEW_S = 1.0
# Nodes whose times of day differ by no more than that count as equal (rem-up-to-date --clock).
CLOCK_LIMIT_S = 2
COPIES_WAIT_MS = 1000
KEY = "rem-lease"


class Lease:
    """One lease, renewed by a thread; a kind of service says how."""

    slack_s = 0.0  # it may end so much early

    def __init__(self) -> None:
        self.renewals = 0
        self.ended = 0  # in its time
        self.early: list[str] = []
        self._id: str | None = None
        self._until_s = 0.0
        self._runs = True

    def start(self) -> None:
        threading.Thread(target=self._run, daemon=True).start()

    def stop(self) -> None:
        self._runs = False

    def status(self) -> dict[str, Any]:
        return {"renewals": self.renewals, "leases_ended": self.ended, "early": self.early}

    def _run(self) -> None:
        turn = 0
        while self._runs:
            self._renew_at(turn)
            turn += 1
            time.sleep(RENEW_S)

    def _renew_at(self, turn: int) -> None:
        """Ask one of the members, another one at each turn; whatever fails is tried again."""
        raise NotImplementedError

    def _has_renewed(self, asked_s: float) -> None:
        self.renewals += 1
        self._until_s = asked_s + TTL_S

    def _has_ended(self, what: str) -> None:
        left_s = self._until_s - self.slack_s - time.monotonic()
        if left_s > 0:
            self.early.append(f"{what}, {left_s:.1f} s early")
        else:
            self.ended += 1
        self._id = None


class EtcdLease(Lease):
    """By any member that answers."""

    def __init__(self, nodes: list[str]) -> None:
        super().__init__()
        self.nodes = nodes

    def _renew_at(self, turn: int) -> None:
        node = self.nodes[turn % len(self.nodes)]
        with suppress(*FAILURES), connect(node) as connection:
            self.step(connection, node)

    def step(self, connection: http.client.HTTPConnection, node: str) -> None:
        if self._id is None:
            self._grant(connection)
            return
        asked_s = time.monotonic()
        answer = ask(connection, "/v3/lease/keepalive", {"ID": self._id})
        if int(answer.get("result", {}).get("TTL", 0)) <= 0:
            self._has_ended(f"{node} says that the lease has ended")
            return
        self._has_renewed(asked_s)
        if read_value(connection, KEY) is None:
            self._has_ended(f"{node} has lost the key of the lease")

    def _grant(self, connection: http.client.HTTPConnection) -> None:
        asked_s = time.monotonic()
        granted = ask(connection, "/v3/lease/grant", {"TTL": str(TTL_S)})["ID"]
        words = {"key": encode(KEY), "value": encode("1"), "lease": granted}
        ask(connection, "/v3/kv/put", words)
        self._id, self._until_s = granted, asked_s + TTL_S


class RedisLease(Lease):
    """A key with an end, by the master; a renewal counts when a replica has it, too."""

    slack_s = CLOCK_LIMIT_S

    def __init__(self, connect_master: Callable[[], Redis]) -> None:
        super().__init__()
        self.connect_master = connect_master

    def _renew_at(self, turn: int) -> None:
        with suppress(RedisError, OSError), self.connect_master() as redis:
            self.step(redis, turn)

    def step(self, redis: Redis, turn: int) -> None:
        asked_s = time.monotonic()
        if self._id is None:
            redis.set(KEY, str(turn), ex=TTL_S)
            if self._has_copy(redis):
                self._id, self._until_s = str(turn), asked_s + TTL_S
            return
        both = redis.pipeline(transaction=True)
        both.role()
        both.get(KEY)
        role, found = both.execute()
        if role[0] != "master":
            return  # it says that it does not know
        if found != self._id:
            self._has_ended("redis has lost the key of the lease")
        elif redis.expire(KEY, TTL_S) and self._has_copy(redis):
            self._has_renewed(asked_s)

    @staticmethod
    def _has_copy(redis: Redis) -> bool:
        return bool(redis.wait(1, COPIES_WAIT_MS))
