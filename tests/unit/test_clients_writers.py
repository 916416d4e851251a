# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The writers must detect every way in which a server can break its promises.

Method: servers of both protocols, small but real (TCP, all that is used of the protocol), that lose
a write, apply one twice, lose increments or end a connection, each on request.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from lab.clients.protocol import Memcached, ProtocolError, Redis, make
from lab.clients.writers import Writers, value_of

PROTOCOLS = ("redis", "memcached")
CLIENTS = 3


class FakeServer:
    """A store behind one of the protocols; `forget`, `frozen` and `drop` are its faults."""

    def __init__(self, protocol: str) -> None:
        self.protocol = protocol
        self.store: dict[bytes, bytes] = {}
        self.forget: set[bytes] = set()
        self.frozen = asyncio.Event()
        self.frozen.set()
        self.transports: list[asyncio.StreamWriter] = []

    async def start(self) -> int:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return int(server.sockets[0].getsockname()[1])

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.transports.append(writer)
        read = self._read_redis if self.protocol == "redis" else self._read_memcached
        try:
            while True:
                words = await read(reader)
                await self.frozen.wait()
                writer.write(self._answer(words))
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    @staticmethod
    async def _read_redis(reader: asyncio.StreamReader) -> list[bytes]:
        words = []
        for _ in range(int((await reader.readuntil(b"\r\n"))[1:])):
            size = int((await reader.readuntil(b"\r\n"))[1:])
            words.append((await reader.readexactly(size + 2))[:-2])
        return [words[0].lower(), *words[1:]]

    @staticmethod
    async def _read_memcached(reader: asyncio.StreamReader) -> list[bytes]:
        words = (await reader.readuntil(b"\r\n")).split()
        if words[0] == b"set":
            return [b"set", words[1], (await reader.readexactly(int(words[4]) + 2))[:-2]]
        return words

    def _answer(self, words: list[bytes]) -> bytes:
        redis = self.protocol == "redis"
        key = words[1]
        if words[0] == b"set":
            if key not in self.forget:
                self.store[key] = words[2]
            return b"+OK\r\n" if redis else b"STORED\r\n"
        if words[0] == b"incr":
            value = b"%d" % (int(self.store[key]) + 1)
            self.store[key] = value
            return (b":%s\r\n" if redis else b"%s\r\n") % value
        found = self.store.get(key)
        if found is None:
            return b"$-1\r\n" if redis else b"END\r\n"
        if redis:
            return b"$%d\r\n%s\r\n" % (len(found), found)
        return b"VALUE %s 0 %d\r\n%s\r\nEND\r\n" % (key, len(found), found)


def play(protocol: str, story: Callable[[FakeServer, Writers], Awaitable[None]]) -> None:
    async def run() -> None:
        server = FakeServer(protocol)
        load = Writers(protocol, "127.0.0.1", await server.start(), CLIENTS, depth=4)
        await load.start()
        await story(server, load)
        await load.close()

    asyncio.run(asyncio.wait_for(run(), 30))


async def some_writes(load: Writers, count: int = 400) -> None:
    while int(str(load.status()["acked_min"])) < count:
        await asyncio.sleep(0.005)


async def held(load: Writers) -> dict[str, Any]:
    load.hold(time.monotonic_ns())
    return dict(await load.verify(5.0))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_honest_server_loses_nothing(protocol: str) -> None:
    async def story(server: FakeServer, load: Writers) -> None:
        await some_writes(load)
        result = await held(load)
        assert result["drained"] and not result["failures"]
        assert (result["lost"], result["repeated"]) == (0, 0)
        assert result["checked"] == result["acked"] == result["sent"] >= 400 * CLIENTS
        load.resume()
        await some_writes(load, 800)
        assert not load.status()["failures"]

    play(protocol, story)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_lost_write_is_counted_and_named(protocol: str) -> None:
    async def story(server: FakeServer, load: Writers) -> None:
        server.forget = {b"rem:1:101", b"rem:2:202"}
        await some_writes(load)
        result = await held(load)
        assert result["lost"] == 2
        assert "rem:1:101" in result["first_loss"]

    play(protocol, story)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_old_value_is_a_lost_write(protocol: str) -> None:
    async def story(server: FakeServer, load: Writers) -> None:
        await some_writes(load)
        load.hold(time.monotonic_ns())
        await asyncio.sleep(0.1)
        server.store[b"rem:0:20"] = value_of(19)
        assert (await load.verify(5.0))["lost"] == 1

    play(protocol, story)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_counters_that_are_behind_or_ahead_are_found(protocol: str) -> None:
    async def story(server: FakeServer, load: Writers) -> None:
        await some_writes(load)
        load.hold(time.monotonic_ns())
        await asyncio.sleep(0.1)
        for key, by in ((b"rem:counter:0", -3), (b"rem:counter:1", 2)):
            server.store[key] = b"%d" % (int(server.store[key]) + by)
        result = await load.verify(5.0)
        assert (result["lost"], result["repeated"]) == (3, 2)

    play(protocol, story)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_increment_done_twice_fails_at_once(protocol: str) -> None:
    async def story(server: FakeServer, load: Writers) -> None:
        await some_writes(load)
        server.store[b"rem:counter:1"] = b"%d" % (int(server.store[b"rem:counter:1"]) + 1)
        await asyncio.sleep(0.2)
        failures = load.status()["failures"]
        assert isinstance(failures, list) and len(failures) == 1
        assert "client 1" in failures[0] and "expected" in failures[0]

    play(protocol, story)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_connection_that_ends_is_a_failure_without_reconnect(protocol: str) -> None:
    async def story(server: FakeServer, load: Writers) -> None:
        await some_writes(load)
        server.transports[0].close()
        await asyncio.sleep(0.2)
        result = await held(load)
        assert not result["drained"] and len(result["failures"]) == 1
        assert "connection ended" in result["failures"][0]
        assert len(server.transports) == CLIENTS

    play(protocol, story)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_requests_are_in_flight_while_the_machine_is_off(protocol: str) -> None:
    async def story(server: FakeServer, load: Writers) -> None:
        await some_writes(load)
        server.frozen.clear()
        await asyncio.sleep(0.1)
        result = load.hold(time.monotonic_ns())
        assert result["clients_in_flight_at_cut"] == CLIENTS
        assert load.hold(time.monotonic_ns() - 10**10)["in_flight_at_cut"] == 0
        assert (await load.verify(0.1))["drained"] is False
        server.frozen.set()
        done = await load.verify(5.0)
        assert done["drained"] and done["lost"] == 0
        assert int(str(done["longest_gap_ns"])) >= 10**8

    play(protocol, story)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_replies_may_come_in_any_pieces(protocol: str) -> None:
    if protocol == "redis":
        stream = b"+OK\r\n:17\r\n$5\r\nab\r\nc\r\n$-1\r\n"
    else:
        stream = b"STORED\r\n17\r\nVALUE k 0 5\r\nab\r\nc\r\nEND\r\nEND\r\n"
    expected = [True, 17, b"ab\r\nc", None]
    for size in range(1, len(stream) + 1):
        parser = make(protocol)
        pieces = [stream[i : i + size] for i in range(0, len(stream), size)]
        assert [reply for piece in pieces for reply in parser.feed(piece)] == expected


@pytest.mark.parametrize(
    "stream",
    [b"-ERR no\r\n", b"$x\r\n", b"$-2\r\n", b"$1\r\nabcd\r\n", b"x" * 2000, b"$99999999\r\n"],
)
def test_nonsense_from_redis_is_an_error(stream: bytes) -> None:
    with pytest.raises(ProtocolError):
        Redis().feed(stream)


@pytest.mark.parametrize(
    "stream", [b"ERROR\r\n", b"SERVER_ERROR out of memory\r\n", b"VALUE k 0 1\r\nabcdefgh\r\n"]
)
def test_nonsense_from_memcached_is_an_error(stream: bytes) -> None:
    with pytest.raises(ProtocolError):
        Memcached().feed(stream)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_request_in_flight_at_the_cut_counts_when_answered_late(protocol: str) -> None:
    async def story(server: FakeServer, load: Writers) -> None:
        await some_writes(load)
        server.frozen.clear()
        await asyncio.sleep(0.1)
        cut_ns = time.monotonic_ns()
        acked = int(str(load.status()["acked"]))
        server.frozen.set()
        while int(str(load.status()["acked"])) < acked + 5 * CLIENTS:
            await asyncio.sleep(0.001)
        assert load.hold(cut_ns)["clients_in_flight_at_cut"] == CLIENTS
        assert (await load.verify(5.0))["drained"]
        # A client without a further request is not in flight.
        assert load.hold(time.monotonic_ns())["clients_in_flight_at_cut"] == 0

    play(protocol, story)
