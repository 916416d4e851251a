# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem-up-to-date`: when clients of a node that was away may come.

Goal: never before the node has heard from a majority, and in the end always. Method: servers on
this host's loopback that answer as members in each state would, from what they send to what they
have applied.
"""

from __future__ import annotations

import importlib.util
import json
import os
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.machinery import SourceFileLoader
from types import ModuleType
from typing import Any

import pytest

from lab.paths import repo_dir

NODE, OTHER, THIRD = "127.0.0.1", "127.0.0.2", "127.0.0.3"
SERVICE = "s"
# Others than those of a test that runs at the same time.
PORT = 20_000 + os.getpid() % 10_000
SENTINEL, ETCD = PORT + 10_000, PORT + 20_000


@pytest.fixture(scope="module")
def script() -> ModuleType:
    loader = SourceFileLoader("up_to_date", str(repo_dir() / "vm" / "fence" / "rem-up-to-date"))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def bulk(words: list[str]) -> bytes:
    parts = "".join(f"${len(word)}\r\n{word}\r\n" for word in words)
    return f"*{len(words)}\r\n{parts}".encode()


def sentinel(master: str, flags: str = "master") -> bytes:
    return bulk(["name", SERVICE, "ip", master, "flags", flags])


MASTER = bulk(["master", "100"])


def replica_of(master: str, link: str = "connected") -> bytes:
    return bulk(["slave", master, "6379", link, "100"])


FOLLOWS = replica_of(NODE)


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


@contextmanager
def redis(address: str, port: int, answer: bytes) -> Iterator[None]:
    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.rfile.readline()
            self.wfile.write(answer)

    with serving(Server((address, port), Handler)):
        yield


@contextmanager
def etcd(address: str, status: dict[str, Any]) -> Iterator[None]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            text = json.dumps(status).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_words: object) -> None:
            pass

    with serving(HTTPServer((address, ETCD), Handler)):
        yield


@contextmanager
def serving(server: socketserver.BaseServer) -> Iterator[None]:
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@dataclass
class Redis:
    """What the node's redis, each sentinel and the peers' redis answer; None: it is silent."""

    role: bytes | None
    own: bytes | None
    other: bytes | None
    third: bytes | None
    other_role: bytes | None = None
    third_role: bytes | None = None


@pytest.mark.parametrize(
    ("members", "opens"),
    [
        # Nobody was replaced.
        (Redis(MASTER, *[sentinel(NODE)] * 3, FOLLOWS, FOLLOWS), True),
        (Redis(MASTER, *[sentinel(NODE)] * 2, None, FOLLOWS), True),
        (Redis(MASTER, *[sentinel(NODE)] * 3, None, FOLLOWS), True),
        # It was, and of two sentinels that name it one is its own, the other one is late.
        (Redis(MASTER, *[sentinel(NODE)] * 2, sentinel(THIRD), FOLLOWS, MASTER), False),
        (Redis(MASTER, *[sentinel(NODE)] * 2, sentinel(THIRD), FOLLOWS), False),
        # Its replicas follow another one, or nobody does.
        (Redis(MASTER, *[sentinel(NODE)] * 2, None, replica_of(THIRD)), False),
        (Redis(MASTER, *[sentinel(NODE)] * 2, None, replica_of(NODE, "connect")), False),
        (Redis(MASTER, *[sentinel(NODE)] * 3, FOLLOWS, MASTER), False),
        (Redis(MASTER, *[sentinel(NODE)] * 3), False),
        # It was, and does not know.
        (Redis(MASTER, sentinel(NODE), sentinel(OTHER), sentinel(OTHER)), False),
        (Redis(MASTER, sentinel(OTHER), sentinel(OTHER), sentinel(OTHER)), False),
        (Redis(replica_of(OTHER, "connect"), *[sentinel(OTHER)] * 3), False),
        # It follows the new master.
        (Redis(replica_of(OTHER), *[sentinel(OTHER)] * 3), True),
        (Redis(replica_of(OTHER), sentinel(NODE), sentinel(OTHER), sentinel(OTHER)), True),
        # It follows one that is not the master now.
        (Redis(replica_of(THIRD), *[sentinel(OTHER)] * 3), False),
        # It may be replaced just now.
        (Redis(MASTER, *[sentinel(NODE)] * 2, sentinel(NODE, "master,o_down"), FOLLOWS), False),
        (
            Redis(
                MASTER,
                *[sentinel(NODE)] * 2,
                sentinel(NODE, "master,failover_in_progress"),
                FOLLOWS,
            ),
            False,
        ),
        # It hears nobody, or nobody of use.
        (Redis(MASTER, sentinel(NODE), None, None), False),
        (Redis(None, *[sentinel(NODE)] * 3), False),
        (Redis(MASTER, sentinel(NODE), b"-ERR no such master\r\n", None), False),
        (Redis(b"?", *[sentinel(NODE)] * 3), False),
    ],
)
def test_redis(script: ModuleType, members: Redis, opens: bool) -> None:
    servers = [(NODE, PORT, members.role), (NODE, SENTINEL, members.own)]
    servers += [(OTHER, SENTINEL, members.other), (THIRD, SENTINEL, members.third)]
    servers += [(OTHER, PORT, members.other_role), (THIRD, PORT, members.third_role)]
    with ExitStack() as stack:
        for address, port, answer in servers:
            if answer is not None:
                stack.enter_context(redis(address, port, answer))
        words = ["--redis", f"{SERVICE}:{PORT}:{SENTINEL}", "--settle", "0", NODE, OTHER, THIRD]
        assert script.main(words) == (0 if opens else 1)


@pytest.mark.parametrize(("settle", "opens"), [("0", True), ("60", False)])
def test_failover_that_others_have_begun_is_waited_for(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, settle: str, opens: bool
) -> None:
    """A replica follows it at first, and a peer that is silent then has been made the master."""
    roles = {NODE: ["master"], OTHER: ["slave", NODE, "6379", "connected"], THIRD: None}
    monkeypatch.setattr(script, "seen_master", lambda *_words: NODE)
    monkeypatch.setattr(script, "redis_role", lambda address, _port: roles[address])
    monkeypatch.setattr(time, "sleep", lambda _s: roles.update({THIRD: ["master"]}))
    words = ["--redis", f"{SERVICE}:{PORT}:{SENTINEL}", "--settle", settle, NODE, OTHER, THIRD]
    assert script.main(words) == (0 if opens else 1)


def test_one_that_leads_all_the_time_opens(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a peer is silent all the time. Method: a clock that sleeping moves on."""
    now_s = [0.0]
    roles = {NODE: ["master"], OTHER: ["slave", NODE, "6379", "connected"], THIRD: None}
    monkeypatch.setattr(script, "seen_master", lambda *_words: NODE)
    monkeypatch.setattr(script, "redis_role", lambda address, _port: roles[address])
    monkeypatch.setattr(time, "monotonic", lambda: now_s[0])
    monkeypatch.setattr(time, "sleep", lambda s: now_s.__setitem__(0, now_s[0] + s))
    words = ["--redis", f"{SERVICE}:{PORT}:{SENTINEL}", NODE, OTHER, THIRD]
    assert script.main(words) == 0
    assert now_s[0] == script.SETTLE_S


def status(leader: str, term: int, index: int, applied: int | None = None) -> dict[str, Any]:
    """As the gateway prints it: 64-bit numbers are texts, and zeros are left out."""
    found = {"leader": leader, "raftTerm": str(term), "raftIndex": str(index)}
    found["raftAppliedIndex"] = str(index if applied is None else applied)
    return found


@pytest.mark.parametrize(
    ("own", "other", "third", "opens"),
    [
        (status("1", 4, 90), status("1", 4, 90), status("1", 4, 90), True),
        (status("1", 4, 90), status("1", 4, 90), None, True),
        # It still leads, in a term that is over.
        (status("1", 4, 90), status("2", 5, 99), status("2", 5, 99), False),
        # It knows the leader, and has not applied what was committed.
        (status("2", 5, 99, 90), status("2", 5, 99), status("2", 5, 99), False),
        (status("2", 5, 99), status("2", 5, 99), status("2", 5, 99), True),
        # Nobody leads; nobody answers.
        (status("0", 5, 99), status("0", 5, 99), status("0", 5, 99), False),
        (status("1", 4, 90), None, None, False),
        (None, status("1", 4, 90), status("1", 4, 90), False),
        ({}, status("1", 4, 90), status("1", 4, 90), False),
    ],
)
def test_etcd(
    script: ModuleType,
    own: dict[str, Any] | None,
    other: dict[str, Any] | None,
    third: dict[str, Any] | None,
    opens: bool,
) -> None:
    with ExitStack() as stack:
        for address, answer in ((NODE, own), (OTHER, other), (THIRD, third)):
            if answer is not None:
                stack.enter_context(etcd(address, answer))
        words = ["--etcd", str(ETCD), NODE, OTHER, THIRD]
        assert script.main(words) == (0 if opens else 1)


@pytest.mark.parametrize(
    ("ahead_s", "opens"),
    [
        ((0, 0, 0), True),
        ((1, 0, -1), True),
        # It was away, and nobody has set its clock.
        ((-20, 0, 0), False),
        # Others were.
        ((0, 0, -20), True),
        ((-20, -20, 0), True),
        # Somebody is silent.
        ((0, None, 0), True),
        ((-20, None, 0), False),
        ((0, None, None), False),
        ((None, 0, 0), False),
    ],
)
def test_clock(script: ModuleType, ahead_s: tuple[int | None, ...], opens: bool) -> None:
    with ExitStack() as stack:
        for address, ahead in zip((NODE, OTHER, THIRD), ahead_s, strict=True):
            if ahead is not None:
                answer = bulk([str(int(time.time()) + ahead), "0"])
                stack.enter_context(redis(address, PORT, answer))
        assert script.clock_is_right(NODE, [OTHER, THIRD], PORT, 2.0) == opens


def test_clock_needs_redis(script: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        script.main(["--clock", "2", "--etcd", "3", NODE, OTHER])
    assert "give --redis" in capsys.readouterr().err


def test_all_have_to_agree(script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    def always(answer: bool) -> Callable[..., bool]:
        return lambda *_words: answer

    words = ["--redis", "s:1:2", "--clock", "2", "--etcd", "3", NODE, OTHER]
    checks = ("redis_is_up_to_date", "clock_is_right", "etcd_is_up_to_date")
    for wrong in (None, *checks):
        for one in checks:
            monkeypatch.setattr(script, one, always(one != wrong))
        assert script.main(words) == (0 if wrong is None else 1)
