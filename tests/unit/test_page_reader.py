# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The reader of a web page counts whole answers of the same content, and names all else."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from lab.clients import pages
from lab.clients.pages import Pages

Answers = Callable[[int], bytes]
HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"


async def served(answers: Answers, then: Callable[[Pages], Awaitable[None]]) -> int:
    """Run *then* with a reader of a server with these answers; return the connections made."""
    made = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal made
        made += 1
        number = 0
        while await reader.readline():
            while (await reader.readline()).strip():
                pass
            number += 1
            writer.write(answers(number))
            if not answers(number):
                writer.close()
                return

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        pages.PORT = server.sockets[0].getsockname()[1]
        load = Pages("127.0.0.1", "/")
        await load.start()
        await then(load)
        await load.close()
    return made


async def until_failed(load: Pages) -> None:
    while not load.status()["failures"]:
        await asyncio.sleep(0.01)


async def until_three(load: Pages) -> None:
    while load.acked < 3:
        await asyncio.sleep(0.01)
    assert not load.status()["failures"]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "PAUSE_S", 0.0)
    monkeypatch.setattr(pages, "PORT", pages.PORT)


def test_answers_are_counted_on_one_connection() -> None:
    assert asyncio.run(served(lambda _: HEAD + b"12345", until_three)) == 1


@pytest.mark.parametrize(
    ("third", "named"),
    [
        (HEAD + b"12346", "another content"),
        (b"HTTP/1.1 404 Not Found\r\n\r\n", "404"),
        (b"HTTP/1.1 200 OK\r\n\r\n", "of -1 bytes"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n", "of 99999999 bytes"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", "invalid literal"),
        (b"", "incomplete|bytes read"),
    ],
)
def test_what_is_no_such_answer_ends_it(third: bytes, named: str) -> None:
    found = []

    async def then(load: Pages) -> None:
        await until_failed(load)
        found.append(load)

    made = asyncio.run(served(lambda n: HEAD + b"12345" if n < 3 else third, then))
    (load,) = found
    assert made == 1
    assert load.acked == 2
    assert any(word in str(load.failure) for word in named.split("|")), load.failure
