# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Rows of PostgreSQL in a guest: psql adds one at a time, and each answer is a promise.

*words* are psql's own, such as the name of the database. All runs as the database's user.
"""

from __future__ import annotations

from lab.machine import Machine
from lab.testbed.fsync_guest import Acks
from lab.testbed.pm_guest import sh
from lab.verdict import BrokenError

AS_POSTGRES = "runuser -u postgres --"
TABLE = "create table t(n int primary key, text text)"
LONG_S = 600.0
PROGRAM = "/root/rows.py"
WRITER = """
import subprocess, sys
words = "runuser -u postgres -- stdbuf -oL psql -qAtX -v ON_ERROR_STOP=1".split() + sys.argv[1:]
psql = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/")
n = 0
while True:
    n += 1
    psql.stdin.write(f"insert into t values({n}, repeat('x', {n * 37 % 900})) returning n;\\n")
    psql.stdin.flush()
    assert int(psql.stdout.readline()) == n
    print("ack rows", n, flush=True)
"""


def long(machine: Machine, command: str) -> str:
    """What a command prints that may take minutes on a busy host."""
    return machine.run_in_guest(command, limit_s=LONG_S).stdout


def sql(machine: Machine, command: str, words: str) -> str:
    return long(machine, f'cd / && {AS_POSTGRES} psql -qAtX -c "{command}" {words}')


def install(machine: Machine) -> None:
    """The program that adds rows, on the guest's disk."""
    sh(machine, f"cat >{PROGRAM} <<'EOF'\n{WRITER}EOF\nsync")


def add(machine: Machine, words: str) -> Acks:
    """It adds rows to TABLE, which has none, until it is closed: `rows` in its acknowledgements."""
    return Acks(machine, f"python3 {PROGRAM} {words}")


def check(machine: Machine, words: str, acknowledged: int) -> None:
    """All that was acknowledged is there, in order; else BrokenError."""
    found = sql(machine, "select count(*), coalesce(max(n), 0) from t", words)
    count, last = map(int, found.split("|"))
    if not count == last >= acknowledged:
        raise BrokenError(
            "promises-broken", f"{acknowledged} rows acknowledged, {count} found, the last {last}"
        )
