# SPDX-License-Identifier: Apache-2.0 OR MIT
"""QMP for callers that are not async: qemu.qmp on an event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from qemu.qmp import EventListener, QMPClient, QMPError


class Qmp:
    """A connection to one QEMU. It ends when that QEMU does."""

    def __init__(self, name: str) -> None:
        self._client = QMPClient(name)
        self._client.logger.disabled = True  # a killed QEMU is no error here
        self._listener = EventListener()
        self._client.register_listener(self._listener)
        self.events: Counter[str] = Counter()
        self._calls: dict[str, Callable[[], None]] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="rem-qmp", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        self._loop.close()

    def _do(self, work: Coroutine[Any, Any, Any], limit_s: float) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(limit_s)

    async def _count_events(self) -> None:
        async for event in self._listener:
            name = str(event["event"])
            self.events[name] += 1
            if name in self._calls:
                self._calls[name]()

    def on(self, event: str, call: Callable[[], None]) -> None:
        """Call it at each such event, in the thread of QMP: it must not wait."""
        self._calls[event] = call

    def connect(self, end: socket.socket, limit_s: float) -> None:
        """Raises OSError or TimeoutError if QEMU does not answer or ends at once."""

        async def work() -> None:
            await asyncio.wait_for(self._client.connect(end), limit_s)
            self._counter = asyncio.ensure_future(self._count_events())

        try:
            self._do(work(), limit_s + 1)
        except (QMPError, EOFError) as err:
            raise ConnectionError(str(err)) from err

    def execute(self, command: str, limit_s: float = 10.0, **arguments: Any) -> Any:
        """Raises ConnectionError if QEMU has ended or is silent, QMPError if it refuses."""
        try:
            return self._do(self._client.execute(command, arguments or None), limit_s)
        except TimeoutError as err:
            raise ConnectionError(f"QMP {command}: no answer within {limit_s:g} s") from err
        except (EOFError, OSError, asyncio.CancelledError) as err:
            raise ConnectionError(f"QMP {command}: {err}") from err

    def monitor(self, command: str) -> str:
        """A command of QEMU's human monitor, for what QMP does not have."""
        return str(self.execute("human-monitor-command", 10.0, **{"command-line": command}))

    def close(self) -> None:
        """May be called twice, and after QEMU has ended."""
        if not self._thread.is_alive():
            return

        async def work() -> None:
            with suppress(QMPError, OSError, EOFError):
                await self._client.disconnect()
            if hasattr(self, "_counter"):
                self._counter.cancel()
                with suppress(asyncio.CancelledError):
                    await self._counter

        try:
            self._do(work(), 5.0)
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(5.0)
