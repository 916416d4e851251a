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
from lab.testbed import sql_rows
from lab.testbed.fsx import EXT4, FOLDER, ext4_config, make, mount, unmount
from lab.testbed.pm_guest import kernel_complaints, sh
from lab.testbed.sql_rows import AS_POSTGRES, long, sql
from tests.support.claims import machine_name

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]

NVRAM_BYTES = 1 << 30
ROWS = 150
PLACE = f"{FOLDER}/base"
BASE = "-h /tmp postgres"  # for psql
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


def with_database(name: str, **changes: Any) -> MachineConfig:
    root = need(Root.having("postgresql"))
    return ext4_config(name, root=root, nvram_bytes=NVRAM_BYTES, **changes)


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    with redo.redo_guest(machine_name("direct-log"), made=with_database) as made:
        sh(made, f"cat >/root/flags.py <<'EOF'\n{FLAGS}EOF")
        sql_rows.install(made)
        yield made


def database(machine: Machine, words: str) -> None:
    """Run a program of the database with these words, as its user."""
    long(machine, f"cd / && {AS_POSTGRES} {BIN}/{words}")


def start(machine: Machine) -> None:
    database(machine, f"pg_ctl -D {PLACE} -w -s -l {PLACE}/log start")


def make_database(machine: Machine) -> None:
    sh(machine, f"install -d -o postgres {PLACE}")
    database(machine, f"initdb -D {PLACE} >/dev/null")
    sh(machine, f"cat >>{PLACE}/postgresql.conf <<'EOF'\n{SETTINGS}EOF")
    start(machine)
    sql(machine, sql_rows.TABLE, BASE)
    sql(machine, "checkpoint", BASE)


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
    rows = sql_rows.add(machine, BASE)
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
    sql_rows.check(machine, BASE, acknowledged)
    sql(machine, "create extension if not exists amcheck", BASE)
    sql(machine, "select bt_index_check('t_pkey', true)", BASE)


def end(machine: Machine, *, with_ring: bool) -> None:
    database(machine, f"pg_ctl -D {PLACE} -s -m fast stop")
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
    database(machine, f"pg_ctl -D {PLACE} -s -m immediate stop || true")
    redo.check_disk(machine, EXT4)
