# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The client that keeps a lease of etcd.

Goal: an end before the time that the last renewal gave is found, and one in its time is none.
Method: a member of this test's own, and a clock that the test sets.
"""

from __future__ import annotations

from http.client import HTTPConnection
from typing import Any

import pytest

from lab.clients import leases
from lab.clients.leases import TTL_S, Lease


class Member:
    """Answers as etcd does; `ttl_s` 0: it knows no such lease."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.ttl_s = TTL_S
        self.value: int | None = 1

    def ask(self, _connection: Any, path: str, _body: dict[str, Any]) -> dict[str, Any]:
        if path.endswith("/grant"):
            return {"ID": "7"}
        if path.endswith("/keepalive"):
            return {"result": {"ID": "7", "TTL": str(self.ttl_s)} if self.ttl_s else {"ID": "7"}}
        return {}

    def read(self, _connection: Any, _key: str) -> int | None:
        return self.value


@pytest.fixture
def member(monkeypatch: pytest.MonkeyPatch) -> Member:
    found = Member()
    monkeypatch.setattr(leases, "ask", found.ask)
    monkeypatch.setattr(leases, "read_value", found.read)
    monkeypatch.setattr(leases.time, "monotonic", lambda: found.now_s)
    return found


@pytest.fixture
def lease(member: Member) -> Lease:
    lease = Lease(["a"])
    step(lease)
    step(lease)
    assert (lease.renewals, lease.early, lease.ended) == (1, [], 0)
    return lease


def step(lease: Lease) -> None:
    lease._step(HTTPConnection("a"), "a")


def test_lease_that_ends_early_is_found(member: Member, lease: Lease) -> None:
    member.now_s += TTL_S - 5
    member.ttl_s = 0
    step(lease)
    assert lease.early == ["a says that the lease has ended, 5.0 s early"]
    assert lease.ended == 0


def test_key_that_is_gone_early_is_found(member: Member, lease: Lease) -> None:
    member.value = None
    step(lease)
    assert len(lease.early) == 1
    assert "lost the key" in lease.early[0]


def test_lease_that_nobody_renewed_may_end(member: Member, lease: Lease) -> None:
    member.now_s += TTL_S + 1
    member.ttl_s = 0
    step(lease)
    assert (lease.early, lease.ended) == ([], 1)
    step(lease)
    member.ttl_s = TTL_S
    step(lease)
    assert lease.renewals == 2
