# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Writers: connections that write all the time and remember every promise.

Request n of a client is a SET of key n mod RING or, every fourth, an INCR of the client's counter.
Up to `depth` requests are in flight, so that there is hardly an instant without one. Requests of
one connection are answered in order; the counter's replies prove that each was done exactly once.

    lost      acknowledged, and missing (or older than acknowledged)
    repeated  the counter is ahead of what was sent

`hold` stops sending (after the power failed, so that later writes do not cover lost ones);
`verify` reads everything back over the same connections; `resume` starts sending again.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from dataclasses import asdict, dataclass
from functools import partial

from lab.clients.protocol import Protocol, ProtocolError, Reply, make

# Keys of one client. In a demo no key is written twice, so every single write can be checked.
RING = 16384
COUNTER_EVERY = 4
PAYLOAD_REPEATS = 6  # of 16 digits: values of about 100 bytes
VERIFY_BATCH = 256
# Answers that are kept with their times; after a cut at most those that had come already.
ANSWERS = 1024


@dataclass(frozen=True)
class InFlight:
    number: int
    sent_ns: int


@dataclass(frozen=True)
class Answered:
    sent_ns: int
    answered_ns: int


@dataclass(frozen=True)
class Verdict:
    checked: int
    lost: int
    repeated: int
    first_loss: str | None


def value_of(number: int) -> bytes:
    return b"%016x" % number * PAYLOAD_REPEATS


class Writer(asyncio.Protocol):
    """One connection."""

    def __init__(self, index: int, protocol: Protocol, depth: int) -> None:
        self.index = index
        self.depth = depth
        self.sent = 0
        self.acked = 0
        self.increments_sent = 0
        self.increments_acked = 0
        self.in_flight: deque[InFlight] = deque()
        self._answered: deque[Answered] = deque(maxlen=ANSWERS)
        self.failure: str | None = None
        self.last_ack_ns = 0
        self.longest_gap_ns = 0
        self.latency_max_ns = 0
        self._protocol = protocol
        self._sending = False
        self._closing = False
        self._transport: asyncio.WriteTransport | None = None
        self._drained = asyncio.Event()
        self._readers: deque[asyncio.Future[Reply]] = deque()

    # Called by asyncio.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        try:
            for reply in self._protocol.feed(data):
                self._on_reply(reply)
        except ProtocolError as error:
            self._fail(str(error))
        self._fill()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._closing:
            self._fail(f"the connection ended: {exc or 'closed by the server'}")

    # Called by Writers.

    def _fail(self, why: str) -> None:
        """Keep the first failure and stop sending."""
        if self.failure is None:
            self.failure = f"{self._protocol.name} client {self.index}: {why}"
        self._sending = False
        self._drained.set()
        for reader in self._readers:
            if not reader.done():
                reader.set_exception(ConnectionError(self.failure))
        self._readers.clear()

    def _key(self, number: int) -> str:
        return f"rem:{self.index}:{number % RING}"

    @property
    def counter_key(self) -> str:
        return f"rem:counter:{self.index}"

    def _write(self, request: bytes) -> None:
        assert self._transport is not None
        self._transport.write(request)

    def _fill(self) -> None:
        while self._sending and len(self.in_flight) < self.depth:
            number = self.sent
            if _is_increment(number):
                request = self._protocol.increment(self.counter_key)
                self.increments_sent += 1
            else:
                request = self._protocol.set(self._key(number), value_of(number))
            self.in_flight.append(InFlight(number, time.monotonic_ns()))
            self.sent += 1
            self._write(request)
        if not self.in_flight:
            self._drained.set()

    def _on_reply(self, reply: Reply) -> None:
        if self._readers:
            self._readers.popleft().set_result(reply)
            return
        if not self.in_flight:
            raise ProtocolError(f"a reply without a request: {reply!r}")
        now_ns = time.monotonic_ns()
        request = self.in_flight.popleft()
        if _is_increment(request.number):
            expected: Reply = self.increments_acked + 1
            self.increments_acked += 1
        else:
            expected = True
        if type(reply) is not type(expected) or reply != expected:  # 1 is not True here
            raise ProtocolError(f"request {request.number}: {reply!r}, expected {expected!r}")
        self.acked += 1
        self._answered.append(Answered(request.sent_ns, now_ns))
        self.latency_max_ns = max(self.latency_max_ns, now_ns - request.sent_ns)
        if self.last_ack_ns:
            self.longest_gap_ns = max(self.longest_gap_ns, now_ns - self.last_ack_ns)
        self.last_ack_ns = now_ns

    async def _ask(self, request: bytes) -> Reply:
        if self.failure is not None:
            raise ConnectionError(self.failure)
        reader: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._readers.append(reader)
        self._write(request)
        return await reader

    async def begin(self) -> None:
        """Create the counter, then start sending."""
        if await self._ask(self._protocol.create_counter(self.counter_key)) is not True:
            raise ConnectionError(f"client {self.index} could not create its counter")
        self.resume()

    def resume(self) -> None:
        if self.failure is not None:
            return
        self._sending = True
        self._drained.clear()
        self._fill()

    def hold(self) -> None:
        self._sending = False
        self._fill()

    def in_flight_at(self, at_ns: int) -> int:
        """Requests sent by *at_ns* that had no answer then. On a busy host this process may read an
        answer late: until it is read, its request is in flight.
        """
        waiting = sum(request.sent_ns <= at_ns for request in self.in_flight)
        return waiting + sum(one.sent_ns <= at_ns < one.answered_ns for one in self._answered)

    async def drain(self, limit_s: float) -> bool:
        """After hold(): wait for the missing answers."""
        try:
            await asyncio.wait_for(self._drained.wait(), limit_s)
        except TimeoutError:
            return False
        return self.failure is None

    async def verify(self) -> Verdict:
        """After drain(): read back everything that was acknowledged."""
        lost, checked = [], 0
        numbers = [n for n in range(max(0, self.sent - RING), self.sent) if not _is_increment(n)]
        for begin in range(0, len(numbers), VERIFY_BATCH):
            batch = numbers[begin : begin + VERIFY_BATCH]
            asked = [self._ask(self._protocol.get(self._key(n))) for n in batch]
            values = await asyncio.gather(*asked)
            checked += len(batch)
            lost += [n for n, value in zip(batch, values, strict=True) if value != value_of(n)]
        text = await self._ask(self._protocol.get(self.counter_key))
        count = int(text) if isinstance(text, bytes) and text.strip().isdigit() else 0
        missing = max(0, self.increments_acked - count)
        first = f"{self._protocol.name} key {self._key(lost[0])}" if lost else None
        if missing and first is None:
            first = f"{self._protocol.name} key {self.counter_key}"
        return Verdict(
            checked=checked + self.increments_acked,
            lost=len(lost) + missing,
            repeated=max(0, count - self.increments_sent),
            first_loss=first,
        )

    def close(self) -> None:
        self._closing = True
        if self._transport is not None:
            self._transport.close()


def _is_increment(number: int) -> bool:
    return number % COUNTER_EVERY == COUNTER_EVERY - 1


def _same(writer: Writer) -> Writer:
    return writer


class Writers:
    """All connections to one server."""

    def __init__(self, protocol: str, host: str, port: int | None, clients: int, depth: int):
        self._where = (host, port or make(protocol).port)
        self.writers = [Writer(index, make(protocol), depth) for index in range(clients)]

    async def start(self) -> dict[str, object]:
        loop = asyncio.get_running_loop()
        for writer in self.writers:
            await loop.create_connection(partial(_same, writer), *self._where)
        await asyncio.gather(*(writer.begin() for writer in self.writers))
        return self.status()

    def status(self) -> dict[str, object]:
        failures = [writer.failure for writer in self.writers if writer.failure]
        return {
            "clients": len(self.writers),
            "sent": sum(writer.sent for writer in self.writers),
            "acked": sum(writer.acked for writer in self.writers),
            "acked_min": min(writer.acked for writer in self.writers),
            "in_flight": sum(len(writer.in_flight) for writer in self.writers),
            "longest_gap_ns": max(writer.longest_gap_ns for writer in self.writers),
            "latency_max_ns": max(writer.latency_max_ns for writer in self.writers),
            "failures": failures,
        }

    def hold(self, at_ns: int) -> dict[str, object]:
        """The machine has no power: stop sending, and count what was in flight at *at_ns* of the
        host's monotonic clock.
        """
        counts = [writer.in_flight_at(at_ns) for writer in self.writers]
        for writer in self.writers:
            writer.hold()
        return {
            **self.status(),
            "in_flight_at_cut": sum(counts),
            "clients_in_flight_at_cut": sum(count > 0 for count in counts),
        }

    async def verify(self, limit_s: float) -> dict[str, object]:
        """Wait for the missing answers, then read everything back."""
        drained = await asyncio.gather(*(writer.drain(limit_s) for writer in self.writers))
        status = self.status()
        if not all(drained):
            waiting = sum(not done for done in drained)
            return {**status, "drained": False, "waiting_clients": waiting}
        try:
            verdicts = await asyncio.gather(*(writer.verify() for writer in self.writers))
        except ConnectionError:
            return {**self.status(), "drained": False, "waiting_clients": 0}
        losses = [verdict.first_loss for verdict in verdicts if verdict.first_loss]
        total = Verdict(
            checked=sum(verdict.checked for verdict in verdicts),
            lost=sum(verdict.lost for verdict in verdicts),
            repeated=sum(verdict.repeated for verdict in verdicts),
            first_loss=losses[0] if losses else None,
        )
        return {**status, "drained": True, **asdict(total)}

    def resume(self) -> dict[str, object]:
        for writer in self.writers:
            writer.resume()
        return self.status()

    async def close(self) -> None:
        for writer in self.writers:
            writer.close()
