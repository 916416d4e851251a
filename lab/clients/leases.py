# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A client of etcd that keeps a lease: it must not end before its time.

A leader that was away finds leases that nobody has renewed with it, and would end them; the others
have renewed them meanwhile. (etcd#15247 describes how such an end can reach the new leader.)

    early   answers that a lease has ended, or its key is gone, before the time that the last
            renewal gave it
"""

from __future__ import annotations

import http.client
import threading
import time
from contextlib import suppress
from typing import Any

from lab.clients.etcd import FAILURES, ask, connect, encode, read_value

TTL_S = 15
RENEW_S = 1.0
KEY = "rem-lease"


class Lease:
    """One lease, renewed by a thread through any member that answers."""

    def __init__(self, nodes: list[str]) -> None:
        self.nodes = nodes
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
            node = self.nodes[turn % len(self.nodes)]
            # Whatever fails, the next member is asked.
            with suppress(*FAILURES), connect(node) as connection:
                self._step(connection, node)
            turn += 1
            time.sleep(RENEW_S)

    def _step(self, connection: http.client.HTTPConnection, node: str) -> None:
        if self._id is None:
            self._grant(connection)
            return
        asked_s = time.monotonic()
        answer = ask(connection, "/v3/lease/keepalive", {"ID": self._id})
        if int(answer.get("result", {}).get("TTL", 0)) <= 0:
            self._has_ended(f"{node} says that the lease has ended")
            return
        self.renewals += 1
        self._until_s = asked_s + TTL_S
        if read_value(connection, KEY) is None:
            self._has_ended(f"{node} has lost the key of the lease")

    def _grant(self, connection: http.client.HTTPConnection) -> None:
        asked_s = time.monotonic()
        granted = ask(connection, "/v3/lease/grant", {"TTL": str(TTL_S)})["ID"]
        words = {"key": encode(KEY), "value": encode("1"), "lease": granted}
        ask(connection, "/v3/kv/put", words)
        self._id, self._until_s = granted, asked_s + TTL_S

    def _has_ended(self, what: str) -> None:
        left_s = self._until_s - time.monotonic()
        if left_s > 0:
            self.early.append(f"{what}, {left_s:.1f} s early")
        else:
            self.ended += 1
        self._id = None
