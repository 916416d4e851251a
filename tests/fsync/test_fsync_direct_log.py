# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: a database that writes its log past the page cache keeps what it has committed: where the
disk's flushes end in memory, the log's writes do, and are written again; on a disk alone each
waits for the disk, as the log is in no page of memory.

Method: PostgreSQL, whose log is opened with O_DIRECT and O_DSYNC (`wal_sync_method = open_datasync`
without replication), on a disk that loses its cache with the power. The negative proof is the
registry, wiped while the power is off.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from lab.errors import RemError
from lab.machine import Machine, MachineConfig
from lab.machine.cut_plan import UNANNOUNCED
from lab.setup.products import Root, need
from lab.testbed import fsync_guest as guest
from lab.testbed import redo_guest as redo
from lab.testbed.fsx import EXT4, FOLDER, ext4_config, make, mount, unmount
from lab.testbed.pm_guest import kernel_complaints, sh
from lab.verdict import BrokenError
from tests.support.claims import machine_name

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]

NVRAM_BYTES = 1 << 30
ROWS = 150
LONG_S = 600.0
PLACE = f"{FOLDER}/base"
AS_POSTGRES = "cd / && runuser -u postgres --"
BIN = "/usr/lib/postgresql/*/bin"
SETTINGS = (
    "unix_socket_directories = '/tmp'\nlisten_addresses = ''\n"
    "wal_level = minimal\nmax_wal_senders = 0\nwal_sync_method = open_datasync\n"
)
O_DIRECT_O_DSYNC = 0o50000
# What the processes of the database have open of its log, by their flags.
FLAGS = """
import glob, os
for link in glob.glob("/proc/[0-9]*/fd/*"):
    try:
        is_log = "/pg_wal/0" in os.readlink(link)
        text = open(link.replace("/fd/", "/fdinfo/")).read()
    except OSError:
        continue
    if is_log:
        print(text.split("flags:")[1].split()[0])
"""
ROW_WRITER = """
import subprocess
words = "runuser -u postgres -- stdbuf -oL psql -h /tmp -qAtX -v ON_ERROR_STOP=1 postgres".split()
psql = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/")
n = 0
while True:
    n += 1
    psql.stdin.write(f"insert into t values({n}, repeat('x', {n * 37 % 900})) returning n;\\n")
    psql.stdin.flush()
    assert int(psql.stdout.readline()) == n
    print("ack rows", n, flush=True)
"""


def with_database(name: str, **changes: Any) -> MachineConfig:
    root = need(Root.having("postgresql"))
    return ext4_config(name, root=root, nvram_bytes=NVRAM_BYTES, **changes)


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    with redo.redo_guest(machine_name("direct-log"), made=with_database) as made:
        for name, text in (("rows", ROW_WRITER), ("flags", FLAGS)):
            sh(made, f"cat >/root/{name}.py <<'EOF'\n{text}EOF")
        sh(made, "sync")
        yield made


def long(machine: Machine, command: str) -> str:
    return machine.run_in_guest(command, limit_s=LONG_S).stdout


def sql(machine: Machine, command: str) -> str:
    return long(machine, f'{AS_POSTGRES} psql -h /tmp -qAtX -c "{command}" postgres')


def start(machine: Machine) -> None:
    long(machine, f"{AS_POSTGRES} {BIN}/pg_ctl -D {PLACE} -w -s -l {PLACE}/log start")


def make_database(machine: Machine) -> None:
    long(
        machine,
        f"install -d -o postgres {PLACE} && {AS_POSTGRES} {BIN}/initdb -D {PLACE} >/dev/null\n"
        f"cat >>{PLACE}/postgresql.conf <<'EOF'\n{SETTINGS}EOF",
    )
    start(machine)
    sql(machine, "create table t(n int primary key, text text)")
    sql(machine, "checkpoint")


def begin(machine: Machine, *, with_ring: bool) -> None:
    """A new database, on a log whose ring is in memory, or on the disk itself."""
    if with_ring:
        redo.begin(machine, EXT4)
    else:
        make(machine, EXT4, redo.DISK)
    make_database(machine)
    long(machine, f"sync -f {FOLDER}")


def found_again(machine: Machine, *, with_ring: bool) -> None:
    if with_ring:
        redo.found_again(machine, EXT4)
    else:
        mount(machine, EXT4, redo.DISK)
        guest.replay(machine)


def write_until(machine: Machine, way: str) -> int:
    """The rows that were acknowledged before the crash, each by a write of the log."""
    rows = guest.Acks(machine, "python3 /root/rows.py")
    try:
        rows.wait(ROWS)
        flags = {int(one, 8) for one in sh(machine, "python3 /root/flags.py").stdout.split()}
        assert any(one & O_DIRECT_O_DSYNC == O_DIRECT_O_DSYNC for one in flags), flags
        if way == "no-registry":
            machine.cut(UNANNOUNCED)
            machine.guest.close()
            guest.boot_without_registry(machine, redo.REGISTRY_MIB << 20)
        else:
            guest.CRASHES[way](machine)
    finally:
        rows.close()
    return rows.acks["rows"]


def check_rows(machine: Machine, acknowledged: int) -> None:
    count, last = map(int, sql(machine, "select count(*), coalesce(max(n), 0) from t").split("|"))
    if not count == last >= acknowledged:
        raise BrokenError("promises-broken", f"{acknowledged} rows acknowledged, {count} found")
    sql(machine, "create extension if not exists amcheck")
    sql(machine, "select bt_index_check('t_pkey', true)")


def end(machine: Machine, *, with_ring: bool) -> None:
    long(machine, f"{AS_POSTGRES} {BIN}/pg_ctl -D {PLACE} -s -m fast stop")
    if with_ring:
        redo.check_disk(machine, EXT4)
    else:
        unmount(machine)
        sh(machine, f"{EXT4.check} {redo.DISK}")


@pytest.mark.parametrize("way", guest.CRASHES)
@pytest.mark.parametrize("with_ring", (True, False), ids=("ring", "disk"))
def test_log_past_the_page_cache_keeps_its_rows(
    machine: Machine, way: str, with_ring: bool
) -> None:
    begin(machine, with_ring=with_ring)
    before = redo.ring(machine) if with_ring else None
    acknowledged = write_until(machine, way)
    found_again(machine, with_ring=with_ring)
    start(machine)
    check_rows(machine, acknowledged)
    assert before is None or redo.redone(machine)[0] > 0
    assert not kernel_complaints(machine)
    end(machine, with_ring=with_ring)


def test_on_a_disk_alone_its_writes_wait_for_the_disk(machine: Machine) -> None:
    """Without what is in memory the rows are there: nothing of the log was."""
    begin(machine, with_ring=False)
    acknowledged = write_until(machine, "no-registry")
    mount(machine, EXT4, redo.DISK)
    start(machine)
    check_rows(machine, acknowledged)
    end(machine, with_ring=False)


def test_rows_are_lost_with_the_ring(machine: Machine) -> None:
    begin(machine, with_ring=True)
    acknowledged = write_until(machine, "no-registry")
    redo.found_again(machine, EXT4)
    with pytest.raises(RemError):  # its files may be lost, too
        start(machine)
        check_rows(machine, acknowledged)
    long(machine, f"{AS_POSTGRES} {BIN}/pg_ctl -D {PLACE} -s -m immediate stop || true")
    redo.check_disk(machine, EXT4)
