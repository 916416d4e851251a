# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Clients of etcd that keep their whole history, for a check of linearizability.

Each client stays with one member, by one connection, without a time limit: a request that was on
its way when the member lost its power is answered when it is back. Values are never repeated.

A line of the history is `{"client", "key", "write" | "read", "call_ns", "return_ns"}`. A write
whose end is not known has no `return_ns`: it may happen at any time, or never. A read without an
answer is left out.
"""

from __future__ import annotations

import http.client
import json
import random
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from lab.clients.etcd import FAILURES, Refused, ask, connect, counters, read_value, write_value
from lab.clients.leases import EtcdLease

CLIENTS_OF_A_MEMBER = 2
KEYS = 4
PAUSE_S = 0.05
AGAIN_S = 0.5
END_LIMIT_S = 60.0
COUNTERS = {
    "copies": "etcd_network_snapshot_receive_success",
    "received_bytes": "etcd_network_peer_received_bytes_total",
}
VALUES_OF_A_CLIENT = 1_000_000


class History:
    """Lines of all clients."""

    def __init__(self) -> None:
        self._lines: list[dict[str, Any]] = []
        self._begun: dict[int, dict[str, Any]] = {}  # writes without an answer, by client
        self.answered = 0
        self._lock = threading.Lock()

    def begin(self, write: dict[str, Any]) -> None:
        with self._lock:
            self._begun[write["client"]] = write

    def add(self, line: dict[str, Any]) -> None:
        """An operation whose end is known, or a write that has ended without an answer."""
        with self._lock:
            self._begun.pop(line["client"], None)
            self.answered += "return_ns" in line
            self._lines.append(line)

    def save(self, path: Path) -> int:
        """Write it, with what has begun and not ended; the number of lines."""
        with self._lock:
            self._lines += self._begun.values()
            self._begun.clear()
            text = "".join(json.dumps(line) + "\n" for line in self._lines)
            path.write_text(text, encoding="utf-8")
            return len(self._lines)

    def __len__(self) -> int:
        return len(self._lines)


class Registers:
    """All clients, in threads; `start`, then the operations."""

    def __init__(self, nodes: list[str]) -> None:
        self.nodes = nodes
        self.history = History()
        self.lease = EtcdLease(nodes)
        self._runs = True
        self._threads: list[threading.Thread] = []

    async def start(self) -> dict[str, Any]:
        for index in range(len(self.nodes) * CLIENTS_OF_A_MEMBER):
            arguments = (index, self.nodes[index % len(self.nodes)])
            thread = threading.Thread(target=self._run, args=arguments, daemon=True)
            thread.start()
            self._threads.append(thread)
        self.lease.start()
        return self.status()

    def _run(self, client: int, node: str) -> None:
        chance = random.Random(client)
        number = client * VALUES_OF_A_CLIENT
        while self._runs:
            with suppress(*FAILURES), connect(node, limit_s=None) as connection:
                while self._runs:
                    number += 1
                    key = f"rem{chance.randrange(KEYS)}"
                    with suppress(Refused):
                        self._one(connection, client, key, number, chance.random() < 0.5)
                    time.sleep(PAUSE_S)
            time.sleep(AGAIN_S)

    def _one(
        self,
        connection: http.client.HTTPConnection,
        client: int,
        key: str,
        number: int,
        writes: bool,
    ) -> None:
        line: dict[str, Any] = {"client": client, "key": key, "call_ns": time.monotonic_ns()}
        if not writes:
            found = read_value(connection, key)
            self.history.add({**line, "read": found, "return_ns": time.monotonic_ns()})
            return
        line["write"] = number
        self.history.begin(line)
        try:
            write_value(connection, key, str(number))
        except BaseException:
            self.history.add(line)
            raise
        self.history.add({**line, "return_ns": time.monotonic_ns()})

    # Operations.

    def status(self) -> dict[str, Any]:
        counts = {"operations": len(self.history), "answered": self.history.answered}
        return counts | self.lease.status()

    def members(self) -> dict[str, Any]:
        """Of each: leader, term, what it has applied; empty if it is silent."""
        found = []
        for node in self.nodes:
            one: dict[str, Any] = {}
            with suppress(*FAILURES), connect(node) as connection:
                answer = ask(connection, "/v3/maintenance/status", {})
                one = {
                    "id": answer["header"]["member_id"],
                    "leader": answer.get("leader", "0"),
                    "term": int(answer["raftTerm"]),
                    "index": int(answer["raftIndex"]),
                    "applied": int(answer.get("raftAppliedIndex", answer["raftIndex"])),
                }
            found.append(one)
        return {"members": found}

    def counters(self) -> dict[str, Any]:
        """Of each member: whole copies and bytes that it has received; zeros if it is silent."""
        found = []
        for node in self.nodes:
            found.append(dict.fromkeys(COUNTERS, 0))
            with suppress(*FAILURES):
                found[-1] = counters(node, COUNTERS)
        return {"members": found}

    def move_leader(self, node: int) -> None:
        """Ask the leader, if there is one, to hand over to a member."""
        members = self.members()["members"]
        for index, one in enumerate(members):
            if one and one["leader"] == one["id"]:
                with suppress(*FAILURES), connect(self.nodes[index]) as connection:
                    path = "/v3/maintenance/transfer-leadership"
                    ask(connection, path, {"targetID": members[node]["id"]})

    def fill(self, keys: int, value_bytes: int) -> None:
        """So many large keys more."""
        with connect(self.nodes[0], limit_s=None) as connection:
            for key in range(keys):
                write_value(connection, f"fill{key}", "v" * value_bytes)

    def end(self, path: str) -> dict[str, Any]:
        """Clients end; each key is read once more by each member, and the history is written."""
        self._runs = False
        self.lease.stop()
        end_s = time.monotonic() + END_LIMIT_S
        for thread in self._threads:
            thread.join(max(0.0, end_s - time.monotonic()))
        waiting = sum(thread.is_alive() for thread in self._threads)
        for index, node in enumerate(self.nodes):
            with connect(node, END_LIMIT_S) as connection:
                for key in range(KEYS):
                    with suppress(Refused):
                        client = len(self._threads) + index
                        self._one(connection, client, f"rem{key}", 0, writes=False)
        operations = self.history.save(Path(path))
        return {**self.status(), "operations": operations, "waiting": waiting}

    async def close(self) -> None:
        self._runs = False
        self.lease.stop()
