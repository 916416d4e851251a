# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A reader of one web page, by one connection of HTTP/1.1 that is never opened again.

Acknowledged are answers that were whole and had the content of the first.
"""

from __future__ import annotations

import asyncio
import hashlib
from contextlib import suppress
from typing import Any

PAUSE_S = 0.05
PAGE_BYTES_MAX = 1 << 20
PORT = 80


class PageError(Exception):
    """The server's answer is not what it was."""


class Pages:
    """The reader. *host*: an address of IPv4 or IPv6."""

    def __init__(self, host: str, path: str) -> None:
        self.host = host
        self.path = path
        self.acked = 0
        self.failure: str | None = None
        self._digest: bytes | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> dict[str, Any]:
        reader, writer = await asyncio.open_connection(self.host, PORT)
        self._task = asyncio.create_task(self._run(reader, writer))
        return {}

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    def status(self) -> dict[str, Any]:
        return {"acked": self.acked, "failures": [self.failure] if self.failure else []}

    async def _run(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        name = f"[{self.host}]" if ":" in self.host else self.host
        request = f"GET {self.path} HTTP/1.1\r\nHost: {name}\r\n\r\n".encode()
        try:
            while True:
                writer.write(request)
                self._check(await self._answer(reader))
                self.acked += 1
                await asyncio.sleep(PAUSE_S)
        except (PageError, OSError, ValueError, asyncio.IncompleteReadError) as error:
            self.failure = f"the reader of pages, after {self.acked} answers: {error}"
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader) -> bytes:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        status = head[0].split(" ")
        if len(status) < 2 or status[1] != "200":
            raise PageError(f"the server answers {head[0]!r}")
        fields = dict(line.lower().split(":", 1) for line in head[1:] if ":" in line)
        count = int(fields["content-length"]) if "content-length" in fields else -1
        if not 0 <= count <= PAGE_BYTES_MAX:
            raise PageError(f"a page of {count} bytes")
        return await reader.readexactly(count)

    def _check(self, page: bytes) -> None:
        digest = hashlib.sha256(page).digest()
        if self._digest is None:
            self._digest = digest
        elif digest != self._digest:
            raise PageError("the page has another content than at first")
