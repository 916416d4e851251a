# SPDX-License-Identifier: Apache-2.0 OR MIT
"""In the guest: rows kept by a database, each durable before the next. One line of JSON.

pm-rows.py sqlite FOLDER DEVICE ROWS HOW   HOW: no (no journal), log (WAL) or wal (durable)
pm-rows.py redis FOLDER DEVICE ROWS HOW    HOW: no, or always (appendfsync)

`writes` and `flushes` are what the device DEVICE below /sys/block was asked for meanwhile; `-` is
none.
"""

import json
import sqlite3
import subprocess
import sys
import time

ROW_BYTES = 100
SOCKET = "/tmp/pm-rows.sock"


def asked(device: str) -> tuple[int, int]:
    if device == "-":
        return 0, 0
    with open(f"/sys/block/{device}/stat") as file:
        words = file.read().split()
    return int(words[4]), int(words[15])


def sqlite(folder: str, rows: int, how: str) -> dict[str, int]:
    database = sqlite3.connect(f"{folder}/rows.db", isolation_level=None)
    database.execute(f"pragma journal_mode={'off' if how == 'no' else 'wal'}")
    database.execute(f"pragma synchronous={'full' if how == 'wal' else 'off'}")
    database.execute("create table t (n integer primary key, v text)")
    wall_ns = time.monotonic_ns()
    for n in range(rows):
        database.execute("insert into t values (?, ?)", (n, "v" * ROW_BYTES))
    took = {"wall_ns": time.monotonic_ns() - wall_ns}
    if database.execute("select count(*) from t").fetchone() != (rows,):
        sys.exit("rows are missing")
    return took


def cli(*words: str) -> str:
    return subprocess.run(
        ["redis-cli", "-s", SOCKET, *words], capture_output=True, text=True, check=True
    ).stdout


def redis(folder: str, rows: int, how: str) -> dict[str, int]:
    words = ["--port", "0", "--unixsocket", SOCKET, "--dir", folder, "--save", ""]
    words += ["--appendonly", "no"] if how == "no" else ["--appendonly", "yes"]
    words += ["--appendfsync", "always"] if how == "always" else []
    server = subprocess.Popen(["redis-server", *words], stdout=subprocess.DEVNULL)
    ping = ["redis-cli", "-s", SOCKET, "ping"]
    while subprocess.run(ping, capture_output=True, check=False).stdout != b"PONG\n":
        time.sleep(0.05)
    load = ["redis-benchmark", "-s", SOCKET, "-c", "1", "-n", str(rows), "-r", str(rows)]
    load += ["-d", str(ROW_BYTES), "-q", "-t", "set"]
    wall_ns = time.monotonic_ns()
    subprocess.run(load, stdout=subprocess.DEVNULL, check=True)
    took = {"wall_ns": time.monotonic_ns() - wall_ns}
    if f"set:calls={rows}," not in cli("info", "commandstats"):
        sys.exit("rows are missing")
    cli("shutdown", "nosave")
    server.wait()
    return took


def main(what: str, folder: str, device: str, rows: int, how: str) -> None:
    before = asked(device)
    took = (sqlite if what == "sqlite" else redis)(folder, rows, how)
    after = asked(device)
    took |= {"writes": after[0] - before[0], "flushes": after[1] - before[1]}
    print(json.dumps(took))


if __name__ == "__main__":
    what, folder, device, rows, how = sys.argv[1:6]
    main(what, folder, device, int(rows), how)
