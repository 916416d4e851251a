# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The far ends of rem-tcp and rem-fsync: the peers of the guest's programs on the host.

The TCP peer sends numbered frames without waiting for the guest's, also while the machine has no
power, until the kernel's buffer is full. The ack receiver keeps the number of the newest record
that the guest's disk acknowledged: that record must be found later, whatever happens.

Frames are as guest/programs/rem-tcp.c has them: u32 payload bytes, u32 CRC-32, u64 number, payload,
little-endian; one without payload is the last and counts those before it.
"""

from __future__ import annotations

import asyncio
import random
import struct
import zlib
from collections.abc import Coroutine

HEADER = struct.Struct("<IIQ")
ACK = struct.Struct("<Q")
PAYLOAD_BYTES_MAX = 1400
# 16 frames each 4 ms: a few Mbit/s, which an emulated machine can handle beside its other work.
BURST_FRAMES = 16
PAUSE_S = 0.004
# Payloads repeat after this many frames: the number in the header does not.
PAYLOADS = 64


class PeerError(Exception):
    """The guest sent something invalid."""


class FramePeer:
    """Serves one rem-tcp at a time."""

    def __init__(self, seed: int = 1) -> None:
        rng = random.Random(seed)
        self._payloads = [rng.randbytes(rng.randint(1, PAYLOAD_BYTES_MAX)) for _ in range(PAYLOADS)]
        self.connections = 0
        self.finished = 0
        self.sent = 0
        self.received = 0
        self.failure: str | None = None

    def frame(self, number: int) -> bytes:
        payload = self._payloads[number % PAYLOADS]
        return HEADER.pack(len(payload), zlib.crc32(payload), number) + payload

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.sent = self.received = 0
        sender = asyncio.create_task(self._send(writer))
        try:
            await self._receive(reader)
            sender.cancel()
            await asyncio.wait([sender])
            writer.write(HEADER.pack(0, 0, self.sent))
            await writer.drain()
            self.finished += 1
        except (PeerError, OSError, asyncio.IncompleteReadError) as error:
            self.failure = self.failure or f"rem-tcp's peer: {error}"
        finally:
            sender.cancel()
            writer.close()

    async def _send(self, writer: asyncio.StreamWriter) -> None:
        while True:
            for _ in range(BURST_FRAMES):
                writer.write(self.frame(self.sent))
                self.sent += 1
            await writer.drain()
            await asyncio.sleep(PAUSE_S)

    async def _receive(self, reader: asyncio.StreamReader) -> None:
        """Return after the guest's last frame."""
        while True:
            size, crc, number = HEADER.unpack(await reader.readexactly(HEADER.size))
            if number != self.received:
                raise PeerError(f"frame {number}, expected {self.received}")
            if size == 0:
                return
            if size > PAYLOAD_BYTES_MAX:
                raise PeerError(f"frame {number} of {size} bytes")
            if zlib.crc32(await reader.readexactly(size)) != crc:
                raise PeerError(f"frame {number} is damaged")
            self.received += 1


class AckReceiver:
    """Serves one rem-fsync at a time: consecutive numbers from 1."""

    def __init__(self) -> None:
        self.acked = 0
        self.connections = 0
        self.failure: str | None = None

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.acked = 0
        try:
            while True:
                (number,) = ACK.unpack(await reader.readexactly(ACK.size))
                if number != self.acked + 1:
                    raise PeerError(f"record {number} acknowledged after {self.acked}")
                self.acked = number
        except asyncio.IncompleteReadError as error:
            if error.partial:
                self.failure = self.failure or "rem-fsync's connection ended inside a number"
        except (PeerError, OSError) as error:
            self.failure = self.failure or f"rem-fsync's acknowledgements: {error}"
        finally:
            writer.close()


class Peers:
    """Both, on two ports of one address; port 0 takes a free one."""

    def __init__(self, host: str, frame_port: int, ack_port: int) -> None:
        self._host = host
        self._ports = (frame_port, ack_port)
        self.frames = FramePeer()
        self.acks = AckReceiver()
        self._servers: list[asyncio.Server] = []
        self._handlers: set[asyncio.Task[None]] = set()

    async def start(self) -> dict[str, object]:
        for serve, port in zip((self._serve_frames, self._serve_acks), self._ports, strict=True):
            self._servers.append(await asyncio.start_server(serve, self._host, port))
        return self.status()

    def status(self) -> dict[str, object]:
        failures = [f for f in (self.frames.failure, self.acks.failure) if f]
        return {
            "ports": [server.sockets[0].getsockname()[1] for server in self._servers],
            "frames_sent": self.frames.sent,
            "frames_received": self.frames.received,
            "frame_connections": self.frames.connections,
            "frame_connections_finished": self.frames.finished,
            "acked_records": self.acks.acked,
            "ack_connections": self.acks.connections,
            "failures": failures,
        }

    async def close(self) -> None:
        """Also end the connections: a handler must not be cancelled with the loop."""
        for server in self._servers:
            server.close()
        for task in self._handlers:
            task.cancel()
        await asyncio.gather(*self._handlers, return_exceptions=True)

    async def _serve_frames(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        await self._handle(self.frames.serve(reader, writer))

    async def _serve_acks(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._handle(self.acks.serve(reader, writer))

    async def _handle(self, serve: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(serve)
        self._handlers.add(task)
        await asyncio.wait([task])
        self._handlers.discard(task)
