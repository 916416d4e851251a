# SPDX-License-Identifier: Apache-2.0 OR MIT
"""In the guest: redis with its data in memory, and a copy in FOLDER or not. One line of JSON.

in_guest.py FOLDER KEYS BYTES UPDATES HOW    HOW: memory, log (each update is durable) or snapshot

Bytes of the server's memory, of its files, and of the files' pages that the kernel keeps in memory
besides; times in ns of UPDATES updates, and from a kill until all keys are served again.
"""

import ctypes
import json
import mmap
import os
import subprocess
import sys
import time

SOCKET = "/tmp/wsp-block.sock"
FILL = "for i = 0, {keys} - 1 do redis.call('set', string.format('key:%012d', i), ARGV[1]) end"
WORDS = {
    "memory": ["--appendonly", "no"],
    "log": ["--appendonly", "yes", "--appendfsync", "always", "--auto-aof-rewrite-percentage", "0"],
    "snapshot": ["--appendonly", "no", "--rdbcompression", "no"],
}


def cli(*words: str) -> str:
    command = ["redis-cli", "-s", SOCKET, *words]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def start(folder: str, how: str) -> subprocess.Popen[bytes]:
    """A server that has read what is in its folder."""
    words = ["--port", "0", "--unixsocket", SOCKET, "--dir", folder, "--save", "", *WORDS[how]]
    server = subprocess.Popen(["redis-server", *words], stdout=subprocess.DEVNULL)
    while not cli("dbsize").isdigit():
        time.sleep(0.01)
    return server


def resident_bytes(pid: int) -> int:
    with open(f"/proc/{pid}/status") as file:
        kib = next(line.split()[1] for line in file if line.startswith("VmRSS:"))
    return int(kib) * 1024


def files(folder: str) -> list[str]:
    return [os.path.join(at, name) for at, _, names in os.walk(folder) for name in names]


def cached_bytes(path: str) -> int:
    """Of a file's pages, those in the page cache."""
    size = os.path.getsize(path)
    if size == 0:
        return 0
    with open(path, "rb") as file, mmap.mmap(file.fileno(), size, access=mmap.ACCESS_COPY) as at:
        pages = (ctypes.c_ubyte * -(-size // mmap.PAGESIZE))()
        view = ctypes.c_char.from_buffer(at)
        failed = ctypes.CDLL(None, use_errno=True).mincore(
            ctypes.byref(view), ctypes.c_size_t(size), pages
        )
        del view
        if failed:
            sys.exit(f"mincore of {path}: {os.strerror(ctypes.get_errno())}")
    return sum(page & 1 for page in pages) * mmap.PAGESIZE


def main(folder: str, keys: int, value_bytes: int, updates: int, how: str) -> None:
    server = start(folder, how)
    cli("eval", FILL.format(keys=keys), "0", "v" * value_bytes)
    words = ["-s", SOCKET, "-c", "1", "-n", str(updates), "-r", str(keys), "-t", "set", "-q"]
    begin_ns = time.monotonic_ns()
    subprocess.run(
        ["redis-benchmark", *words, "-d", str(value_bytes)], stdout=subprocess.DEVNULL, check=True
    )
    if how == "snapshot":
        cli("save")
    updates_ns = time.monotonic_ns() - begin_ns
    found = {
        "memory_bytes": resident_bytes(server.pid),
        "files_bytes": sum(map(os.path.getsize, files(folder))),
        "cached_bytes": sum(map(cached_bytes, files(folder))),
        "updates_ns": updates_ns,
    }
    server.kill()
    server.wait()
    begin_ns = time.monotonic_ns()
    server = start(folder, how)
    found["back_ns"] = time.monotonic_ns() - begin_ns
    found["keys"] = int(cli("dbsize"))
    server.kill()
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:5]), sys.argv[5])
