# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`python -m lab.clients KIND OPTIONS`: one kind of client, driven by JSON lines.

    -> {"op": "status"}
    <- {"ok": true, "result": {...}}   or   {"ok": false, "message": "..."}

The first line of output is the answer to the start. The process ends with its stdin, so it never
survives the command that started it.
"""

from __future__ import annotations

import argparse
import asyncio
import inspect
import json
import sys
from typing import Any

from lab.clients.pages import Pages
from lab.clients.peer import Peers
from lab.clients.registers import Registers
from lab.clients.replicas import Replicas
from lab.clients.writers import Writers

OPERATIONS = {
    Writers: ("status", "hold", "verify", "resume"),
    Peers: ("status",),
    Pages: ("status",),
    Replicas: (
        *("status", "members", "digests", "clocks", "tilted", "prefer", "ask_failover"),
        *("fill", "end_lease", "verify"),
    ),
    Registers: ("status", "members", "counters", "move_leader", "fill", "end"),
}
OF_NODES = ("replicas", "registers")
Load = Writers | Peers | Pages | Replicas | Registers


def parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m lab.clients")
    kinds = parser.add_subparsers(dest="kind", required=True)
    writers = kinds.add_parser("writers")
    writers.add_argument("--protocol", choices=("redis", "memcached"), required=True)
    writers.add_argument("--host", required=True)
    writers.add_argument("--port", type=int)
    writers.add_argument("--clients", type=int, default=4)
    writers.add_argument("--depth", type=int, default=4)
    peer = kinds.add_parser("peer")
    peer.add_argument("--host", required=True)
    peer.add_argument("--frame-port", type=int, default=0)
    peer.add_argument("--ack-port", type=int, default=0)
    pages = kinds.add_parser("pages")
    pages.add_argument("--host", required=True)
    pages.add_argument("--path", default="/")
    for kind in OF_NODES:
        kinds.add_parser(kind).add_argument("--nodes", type=lambda text: text.split(","))
    kinds.choices["replicas"].add_argument("--copies", type=int, default=1)
    return parser.parse_args(argv)


def make_load(options: argparse.Namespace) -> Load:
    if options.kind == "replicas":
        return Replicas(options.nodes, options.copies)
    if options.kind == "registers":
        return Registers(options.nodes)
    if options.kind == "pages":
        return Pages(options.host, options.path)
    if options.kind == "peer":
        return Peers(options.host, options.frame_port, options.ack_port)
    return Writers(options.protocol, options.host, options.port, options.clients, options.depth)


def answer(ok: bool, **rest: Any) -> None:
    print(json.dumps({"ok": ok, **rest}), flush=True)


async def handle(load: Load, line: str) -> None:
    try:
        arguments = json.loads(line)
        op = arguments.pop("op")
        if op not in OPERATIONS[type(load)]:
            raise ValueError(f"no operation {op!r}")
        result = getattr(load, op)(**arguments)
        answer(True, result=await result if inspect.isawaitable(result) else result)
    except Exception as error:  # noqa: BLE001 - the driver reports it
        answer(False, message=f"{type(error).__name__}: {error}")


async def serve(options: argparse.Namespace) -> int:
    load = make_load(options)
    try:
        answer(True, result=await load.start())
    except OSError as error:
        answer(False, message=str(error))
        return 1
    lines = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while line := await lines.readline():
        await handle(load, line.decode())
    await load.close()
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(serve(parse(sys.argv[1:]))))
