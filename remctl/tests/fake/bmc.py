# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A BMC's Redfish service by TLS on the loopback: `bmc.py FOLDER [PORT]` prints its port, and ends
with its standard input.

FOLDER/v1/PATH/index.json is what /redfish/v1/PATH has, `user` who may ask (NAME:PASSWORD), cert.pem
and key.pem the service's own. `mode` is how it behaves: endless, slow, or else as it should.
"""

from __future__ import annotations

import base64
import ssl
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

FOLDER = Path(sys.argv[1])
PREFIX = "/redfish/"
PIECE = b"x" * 65536


def text_of(name: str) -> str:
    file = FOLDER / name
    return file.read_text() if file.exists() else ""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        mode = text_of("mode")
        if mode == "endless":
            self.send_response(200)
            self.end_headers()
            while True:
                self.wfile.write(PIECE)
        if mode == "slow":
            self.send_response(200)
            self.end_headers()
            while True:
                self.wfile.write(b" ")
                time.sleep(0.5)
        wanted = "Basic " + base64.b64encode(text_of("user").encode()).decode()
        if self.headers.get("Authorization") != wanted:
            self.answer(401, b"{}")
            return
        file = FOLDER / self.path.removeprefix(PREFIX).strip("/") / "index.json"
        if self.path.startswith(PREFIX) and file.exists():
            self.answer(200, file.read_bytes())
        else:
            self.answer(404, b"{}")

    def answer(self, code: int, body: bytes) -> None:
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """A client that goes away is what tests want."""


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """The same."""


def main() -> None:
    server = Server(("127.0.0.1", int(sys.argv[2]) if sys.argv[2:] else 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(FOLDER / "cert.pem", FOLDER / "key.pem")
    server.socket = context.wrap_socket(
        server.socket, server_side=True, do_handshake_on_connect=False
    )
    print(server.server_address[1], flush=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()


main()
