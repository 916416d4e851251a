# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A TCP port of the host's 127.0.0.1 that leads into the guest, kept open while power is off."""

from __future__ import annotations

import asyncio
import socket
import threading
from contextlib import suppress

from lab.errors import InfraError
from lab.machine.config import Forward
from lab.machine.network import Network

CHUNK_BYTES = 1 << 16


class Forwarder:
    """Listens until closed. Guest sides of connections are made in the machine's namespace."""

    def __init__(self, network: Network, forward: Forward) -> None:
        self._network = network
        self._forward = forward
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", forward.host_port))
            listener.listen()
        except OSError as err:
            listener.close()
            raise InfraError(
                f"port {forward.host_port} of 127.0.0.1 cannot be forwarded: {err.strerror}: "
                f"give another --forward HOST:{forward.guest_port}"
            ) from err
        self._listener = listener
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="rem-forward", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.create_task(self._serve())
        self._loop.run_forever()

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._handle, sock=self._listener)
        async with server:
            await server.serve_forever()

    async def _handle(self, near: asyncio.StreamReader, near_out: asyncio.StreamWriter) -> None:
        try:
            sock = await self._loop.run_in_executor(None, self._network.make_socket)
            sock.setblocking(False)
            await self._loop.sock_connect(sock, self._network.address(self._forward.guest_port))
            far, far_out = await asyncio.open_connection(sock=sock)
        except OSError:
            near_out.close()  # as a client sees a server that is not running
            return
        await asyncio.gather(_pump(near, far_out), _pump(far, near_out))

    def close(self) -> None:
        async def end() -> None:
            tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(end(), self._loop).result(5.0)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5.0)
        self._loop.close()
        self._listener.close()


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    """One direction, to its end; a connection that breaks ends both."""
    with suppress(ConnectionError):
        while data := await source.read(CHUNK_BYTES):
            sink.write(data)
            await sink.drain()
        if sink.can_write_eof():
            sink.write_eof()
            return
    sink.close()
