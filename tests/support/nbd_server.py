# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A disk behind a socket that a test can make hang, with a cache that a cut of its power loses.

It speaks as much of NBD (the protocol document of the project NetworkBlockDevice) as QEMU asks for:
one export, simple replies, and reads, writes and flushes. What it was asked is remembered.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import Self, TypeVar

BLOCK_BYTES = 4096
MAGIC, OPTION_MAGIC, REPLY_MAGIC = b"NBDMAGIC", b"IHAVEOPT", 0x3E889045565A9
REQUEST_MAGIC, ANSWER_MAGIC = 0x25609513, 0x67446698
OPTION_ABORT, OPTION_INFO, OPTION_GO = 2, 6, 7
REPLY_ACK, REPLY_INFO, REPLY_UNSUPPORTED = 1, 3, 0x80000001
READ, WRITE, DISCONNECT, FLUSH = range(4)
FUA = 1
HANDSHAKE_FLAGS = 3  # fixed newstyle, no zeroes
EXPORT_FLAGS = 1 | 4 | 8  # there are flags; flush; FUA
LIMIT_S = 30.0

T = TypeVar("T")


class Mode(Enum):
    """What happens to a request."""

    ANSWER = auto()
    HANG = auto()  # it is neither done nor answered
    HANG_WHEN_DONE = auto()  # it is done and not answered
    PRETEND = auto()  # a fault: a write is answered and not done


@dataclass(frozen=True)
class Request:
    kind: int
    flags: int
    offset: int
    bytes: int
    data: bytes


class NbdServer:
    """Use as a context; it serves in a thread. Tests read its attributes while it hangs, or when
    nobody is connected."""

    def __init__(self, path: Path, size_bytes: int) -> None:
        self.path = path
        self.media = bytearray(size_bytes)
        self.cache: dict[int, bytes] = {}  # writes without FUA, by offset
        self.mode = Mode.ANSWER
        self.seen: list[Request] = []
        self.unanswered: list[Request] = []
        self._waiting: list[tuple[asyncio.StreamWriter, int, Request]] = []
        self._writers: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        serve = asyncio.start_unix_server(self._client, self.path)
        asyncio.run_coroutine_threadsafe(serve, self._loop).result(LIMIT_S)
        return self

    def __exit__(self, *_: object) -> None:
        self._do(self._close)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(LIMIT_S)

    def cut(self) -> list[Request]:
        """Its power goes, and comes back: what it had not answered, for the last time."""
        return self._do(self._cut)

    def close_connections(self) -> None:
        """As a server does that is started again."""
        self._do(self._close)

    def answer_all(self) -> None:
        """It hangs no more, and does what it was asked meanwhile, as far as somebody waits."""
        self._do(self._answer_all)

    def do_late(self, requests: list[Request]) -> None:
        """A fault: requests of a connection that has ended are done now."""
        self._do(lambda: [self._execute(one) for one in requests])

    def _do(self, work: Callable[[], T]) -> T:
        async def run() -> T:
            return work()

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(LIMIT_S)

    def _cut(self) -> list[Request]:
        self._close()
        self.cache.clear()
        self.mode = Mode.ANSWER
        lost, self.unanswered = self.unanswered, []
        self._waiting = []
        return lost

    def _close(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    def _answer_all(self) -> None:
        self.mode = Mode.ANSWER
        waiting, self._waiting = self._waiting, []
        self.unanswered = []
        for writer, handle, request in waiting:
            self._answer(writer, handle, request)

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            if await self._negotiate(reader, writer):
                await self._serve(reader, writer)
        self._writers.discard(writer)
        writer.close()

    async def _negotiate(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        writer.write(MAGIC + OPTION_MAGIC + struct.pack(">H", HANDSHAKE_FLAGS))
        await reader.readexactly(4)
        while True:
            _, option, size = struct.unpack(">8sII", await reader.readexactly(16))
            await reader.readexactly(size)

            def reply(kind: int, data: bytes = b"", option: int = option) -> None:
                writer.write(struct.pack(">QIII", REPLY_MAGIC, option, kind, len(data)) + data)

            if option in (OPTION_INFO, OPTION_GO):
                reply(REPLY_INFO, struct.pack(">HQH", 0, len(self.media), EXPORT_FLAGS))
                reply(REPLY_ACK)
                if option == OPTION_GO:
                    return True
            elif option == OPTION_ABORT:
                reply(REPLY_ACK)
                return False
            else:
                reply(REPLY_UNSUPPORTED)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = struct.unpack(">IHHQQI", await reader.readexactly(28))
            magic, flags, kind, handle, offset, size = head
            assert magic == REQUEST_MAGIC
            if kind == DISCONNECT:
                return
            data = await reader.readexactly(size) if kind == WRITE else b""
            request = Request(kind, flags, offset, size, data)
            self.seen.append(request)
            if self.mode in (Mode.HANG, Mode.HANG_WHEN_DONE):
                self.unanswered.append(request)
                if self.mode is Mode.HANG_WHEN_DONE:
                    self._execute(request)
                self._waiting.append((writer, handle, request))
            else:
                self._answer(writer, handle, request)
                await writer.drain()

    def _answer(self, writer: asyncio.StreamWriter, handle: int, request: Request) -> None:
        if not (self.mode is Mode.PRETEND and request.kind == WRITE):
            self._execute(request)
        content = self._read(request) if request.kind == READ else b""
        writer.write(struct.pack(">IIQ", ANSWER_MAGIC, 0, handle) + content)

    def _execute(self, request: Request) -> None:
        if request.kind == WRITE:
            for at in range(0, request.bytes, BLOCK_BYTES):
                self.cache[request.offset + at] = request.data[at : at + BLOCK_BYTES]
            if request.flags & FUA:
                self._flush()
        elif request.kind == FLUSH:
            self._flush()

    def _flush(self) -> None:
        for offset, data in self.cache.items():
            self.media[offset : offset + len(data)] = data
        self.cache.clear()

    def _read(self, request: Request) -> bytes:
        content = bytearray(self.media)
        for offset, data in self.cache.items():
            content[offset : offset + len(data)] = data
        return bytes(content[request.offset : request.offset + request.bytes])


class QemuNbd:
    """The same of QEMU's own server: it hangs when it is stopped by a signal."""

    def __init__(self, path: Path, image: Path) -> None:
        self.path = path
        self._image = image
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.cut()

    def start(self) -> None:
        words = ["qemu-nbd", "--persistent", "--format", "raw", "--socket", str(self.path)]
        self._process = subprocess.Popen([*words, str(self._image)])
        end_s = time.monotonic() + LIMIT_S
        while not self._listens():
            assert time.monotonic() < end_s
            time.sleep(0.02)

    def _listens(self) -> bool:
        with socket.socket(socket.AF_UNIX) as probe:
            return probe.connect_ex(str(self.path)) == 0

    def hang(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def cut(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    @property
    def media(self) -> bytes:
        return self._image.read_bytes()
