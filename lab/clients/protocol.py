# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The two wire protocols of the writers, without a library, which might reconnect or retry.

A Protocol makes requests and splits a stream of bytes into replies. It keeps an incomplete reply
until the rest comes; what cannot be a reply raises ProtocolError.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol as TypingProtocol

# A reply's first line is "+OK" or "VALUE key 0 100": anything longer is not one.
LINE_BYTES_MAX = 1024
VALUE_BYTES_MAX = 1 << 20


class ProtocolError(ValueError):
    """The other side sent something that no server of that kind sends."""


# True: stored. int: a counter's new value. bytes: a value. None: no such key.
Reply = bool | int | bytes | None


class Protocol(TypingProtocol):
    name: str
    port: int

    def set(self, key: str, value: bytes) -> bytes: ...

    def get(self, key: str) -> bytes: ...

    def create_counter(self, key: str) -> bytes: ...

    def increment(self, key: str) -> bytes: ...

    def feed(self, data: bytes) -> list[Reply]: ...


class _Buffered:
    """Keeps bytes until they are a whole reply."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[Reply]:
        self._buffer += data
        replies: list[Reply] = []
        at = 0
        while (parsed := self._parse(at)) is not None:
            reply, at = parsed
            replies.append(reply)
        del self._buffer[:at]
        return replies

    def _parse(self, at: int) -> tuple[Reply, int] | None:
        """The reply at *at* and where the next begins; None if it is incomplete."""
        raise NotImplementedError

    def _line(self, at: int) -> tuple[bytes, int] | None:
        end = self._buffer.find(b"\r\n", at)
        if end < 0:
            if len(self._buffer) - at > LINE_BYTES_MAX:
                raise ProtocolError(f"a line of over {LINE_BYTES_MAX} bytes")
            return None
        return bytes(self._buffer[at:end]), end + 2

    def _value(self, at: int, count: bytes, trailer: bytes) -> tuple[Reply, int] | None:
        """*count* bytes and then exactly *trailer*."""
        size = _number(count)
        if not 0 <= size <= VALUE_BYTES_MAX:
            raise ProtocolError(f"a value of {size} bytes")
        end = at + size + len(trailer)
        if len(self._buffer) < end:
            return None
        if self._buffer[at + size : end] != trailer:
            raise ProtocolError("a value does not end at its length")
        return bytes(self._buffer[at : at + size]), end


def _number(text: bytes) -> int:
    try:
        return int(text)
    except ValueError:
        raise ProtocolError(f"not a number: {text[:40]!r}") from None


class Redis(_Buffered):
    """RESP2, which redis uses with a client that sends no HELLO."""

    name = "redis"
    port = 6379

    @staticmethod
    def _command(*words: bytes) -> bytes:
        parts = b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)
        return b"*%d\r\n" % len(words) + parts

    def set(self, key: str, value: bytes) -> bytes:
        return self._command(b"SET", key.encode(), value)

    def get(self, key: str) -> bytes:
        return self._command(b"GET", key.encode())

    def create_counter(self, key: str) -> bytes:
        return self.set(key, b"0")

    def increment(self, key: str) -> bytes:
        return self._command(b"INCR", key.encode())

    def _parse(self, at: int) -> tuple[Reply, int] | None:
        found = self._line(at)
        if found is None:
            return None
        line, after = found
        if line == b"+OK":
            return True, after
        if line.startswith(b":"):
            return _number(line[1:]), after
        if line == b"$-1":
            return None, after
        if line.startswith(b"$"):
            return self._value(after, line[1:], b"\r\n")
        raise ProtocolError(f"redis sent {line[:80]!r}")


class Memcached(_Buffered):
    """memcached's text protocol."""

    name = "memcached"
    port = 11211

    def set(self, key: str, value: bytes) -> bytes:
        return b"set %s 0 0 %d\r\n%s\r\n" % (key.encode(), len(value), value)

    def get(self, key: str) -> bytes:
        return b"get %s\r\n" % key.encode()

    def create_counter(self, key: str) -> bytes:
        return self.set(key, b"0")

    def increment(self, key: str) -> bytes:
        return b"incr %s 1\r\n" % key.encode()

    def _parse(self, at: int) -> tuple[Reply, int] | None:
        found = self._line(at)
        if found is None:
            return None
        line, after = found
        if line == b"STORED":
            return True, after
        if line in {b"END", b"NOT_FOUND"}:
            return None, after
        if line.isdigit():
            return int(line), after
        words = line.split(b" ")
        if words[0] == b"VALUE" and len(words) == 4:
            return self._value(after, words[3], b"\r\nEND\r\n")
        raise ProtocolError(f"memcached sent {line[:80]!r}")


def make(name: str) -> Protocol:
    known: dict[str, Callable[[], Protocol]] = {"redis": Redis, "memcached": Memcached}
    return known[name]()
