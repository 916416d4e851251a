# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Clients that keep a lease of etcd, and of redis.

Goal: an end before the time that the last renewal gave is found, and one in its time is none.
Method: a member of this test's own, and a clock that the test sets.
"""

from __future__ import annotations

from http.client import HTTPConnection
from typing import Any, cast

import pytest
from redis import Redis

from lab.clients import leases
from lab.clients.leases import CLOCK_LIMIT_S, TTL_S, EtcdLease, RedisLease


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
def lease(member: Member) -> EtcdLease:
    lease = EtcdLease(["a"])
    step(lease)
    step(lease)
    assert (lease.renewals, lease.early, lease.ended) == (1, [], 0)
    return lease


def step(lease: EtcdLease) -> None:
    lease.step(HTTPConnection("a"), "a")


def test_lease_that_ends_early_is_found(member: Member, lease: EtcdLease) -> None:
    member.now_s += TTL_S - 5
    member.ttl_s = 0
    step(lease)
    assert lease.early == ["a says that the lease has ended, 5.0 s early"]
    assert lease.ended == 0


def test_key_that_is_gone_early_is_found(member: Member, lease: EtcdLease) -> None:
    member.value = None
    step(lease)
    assert len(lease.early) == 1
    assert "lost the key" in lease.early[0]


def test_lease_that_nobody_renewed_may_end(member: Member, lease: EtcdLease) -> None:
    member.now_s += TTL_S + 1
    member.ttl_s = 0
    step(lease)
    assert (lease.early, lease.ended) == ([], 1)
    step(lease)
    member.ttl_s = TTL_S
    step(lease)
    assert lease.renewals == 2


class Master:
    """Answers as redis does; its key ends when the test says so."""

    def __init__(self) -> None:
        self.role_is = "master"
        self.value: str | None = None
        self.copies = 1

    def set(self, _key: str, value: str, ex: int) -> None:
        assert ex == TTL_S
        self.value = value

    def expire(self, _key: str, _ttl_s: int) -> bool:
        return self.value is not None

    def wait(self, _copies: int, _limit_ms: int) -> int:
        return self.copies

    def pipeline(self, transaction: bool) -> Master:
        assert transaction
        return self

    def role(self) -> None:
        pass

    def get(self, _key: str) -> None:
        pass

    def execute(self) -> list[Any]:
        return [[self.role_is], self.value]


@pytest.fixture
def master() -> Master:
    return Master()


@pytest.fixture
def key(member: Member, master: Master) -> RedisLease:
    lease = RedisLease(lambda: cast(Redis, master))
    for turn in range(2):
        lease.step(cast(Redis, master), turn)
    assert (lease.renewals, lease.early, lease.ended) == (1, [], 0)
    return lease


def test_key_of_redis_that_ends_early_is_found(
    member: Member, master: Master, key: RedisLease
) -> None:
    member.now_s += TTL_S - CLOCK_LIMIT_S - 1
    master.value = None
    key.step(cast(Redis, master), 2)
    assert key.early == ["redis has lost the key of the lease, 1.0 s early"]


def test_key_of_redis_may_end_by_what_clocks_differ(
    member: Member, master: Master, key: RedisLease
) -> None:
    member.now_s += TTL_S - CLOCK_LIMIT_S
    master.value = None
    key.step(cast(Redis, master), 2)
    assert (key.early, key.ended) == ([], 1)


def test_renewal_that_no_replica_has_does_not_count(
    member: Member, master: Master, key: RedisLease
) -> None:
    member.now_s += TTL_S
    master.copies = 0
    key.step(cast(Redis, master), 2)
    assert key.renewals == 1
    master.value = None
    key.step(cast(Redis, master), 3)
    assert (key.early, key.ended) == ([], 1)


def test_replica_does_not_know_whether_a_key_has_ended(master: Master, key: RedisLease) -> None:
    master.role_is, master.value = "slave", None
    key.step(cast(Redis, master), 2)
    assert (key.early, key.ended) == ([], 0)
