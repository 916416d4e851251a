#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""redis with an append-only file and a sync for each write. `redis.py` sets keys and prints each
acknowledged one; `redis.py check` starts a server on that file and reads all of them.
"""

import hashlib
import socket
import subprocess
import sys
import time

PORT = 7001
SERVER = ["redis-server", "--port", str(PORT), "--dir", ".", "--save", "", "--appendonly", "yes"]
SERVER += ["--appendfsync", "always", "--bind", "127.0.0.1"]


def value(number: int) -> str:
    return hashlib.sha256(b"%d" % number).hexdigest()


class Client:
    """Sends and receives lines; waits for a server that is still reading its file."""

    def __init__(self) -> None:
        while True:
            try:
                self.wire = socket.create_connection(("127.0.0.1", PORT))
                self.lines = self.wire.makefile("rb")
                if self.ask("PING") == "+PONG":
                    return
            except OSError:
                pass
            time.sleep(0.1)

    def ask(self, command: str) -> str:
        self.wire.sendall(command.encode() + b"\r\n")
        line = self.lines.readline().decode().strip()
        return (
            self.lines.readline().decode().strip()
            if line.startswith("$") and line != "$-1"
            else line
        )


def work() -> None:
    client, number = Client(), 0
    while True:
        if client.ask(f"SET key-{number} {value(number)}") != "+OK":
            sys.exit("redis refused a write")
        print(number, flush=True)
        number += 1


def check() -> None:
    client = Client()
    for line in sys.stdin:
        found = client.ask(f"GET key-{int(line)}")
        if found != value(int(line)):
            sys.exit(f"key-{int(line)} was acknowledged and is {found}")


with open("server.out", "ab") as out:
    server = subprocess.Popen(SERVER, stdout=out, stderr=out)
if sys.argv[1:] == ["check"]:
    try:
        check()
    finally:
        server.kill()
else:
    work()
