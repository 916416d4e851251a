# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: what real programs have been told is durable is there after a panic, a loss of power, a
Stop that fails, an image that is refused and a watchdog's reset, though fsync ended in memory:
PostgreSQL and SQLite by their own checks, fio by its checksums, also by io_uring; and stress-ng
finds no more than where each fsync waits for the disk.

Method: programs as Debian has them. The negative proofs: the same with the registry wiped while the
power is off, so that only what the disk has is found.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest

from lab.machine import Machine
from lab.machine.cut_plan import UNANNOUNCED
from lab.setup.kernel import FILESYSTEMS
from lab.setup.products import Kernel, Root, need
from lab.testbed import fsync_guest, sql_rows
from lab.testbed.fsync_checks import replay
from lab.testbed.fsync_guest import (
    CRASHES,
    Acks,
    counts,
    install,
    machine_of,
    state,
    wait_up,
    witness,
)
from lab.testbed.machines import make_config
from lab.testbed.pm_guest import kernel_complaints, sh
from lab.testbed.sql_rows import AS_POSTGRES, LONG_S, long, sql
from lab.verdict import BrokenError
from tests.fsync.test_fsync_memory import DATABASE
from tests.support.claims import machine_name

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]

PACKAGES = ("fio", "postgresql", "stress-ng")
NVRAM_BYTES = 1 << 30
ROWS = 150
STRESS_LIMIT_S = 2400.0
AMCHECK = "/usr/lib/postgresql/*/bin/pg_amcheck"
BASE = "bench"
# What each transaction of pgbench adds to all of them; without -n it begins with an empty history.
SUMS = (
    "select sum(abalance) from pgbench_accounts union all "
    "select sum(bbalance) from pgbench_branches union all "
    "select sum(tbalance) from pgbench_tellers union all "
    "select coalesce(sum(delta), 0) from pgbench_history"
)
FIO = (
    "fio --name=v --filename=/root/fio --size=4M --bs=4k --rw=randwrite"
    " --verify=pattern --verify_fatal=1 --fsync=4 --end_fsync=1"
)
ENGINES = ("psync", "io_uring")
# All of its class, one after the other, but for a file system that no kernel here has. Of what else
# a machine has not they say so themselves, and that they are skipped.
STRESS = (
    "stress-ng --class filesystem --exclude binderfs --sequential 1 --timeout 2 --verify"
    " --metrics-brief"
)
STRESS_FAILED = re.compile(r"(?:fail|error): +\[\d+\] (?:stress-ng-)?([\w-]+):")


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    config = make_config(machine_name("fsync-programs"))
    root = need(Root.having(*PACKAGES))
    kernel = need(Kernel(FILESYSTEMS)).bz_image  # which has io_uring
    config = replace(config, root=root, kernel=kernel, nvram_bytes=NVRAM_BYTES)
    with machine_of(config) as made:
        made.boot()
        wait_up(made)
        install(made)
        yield made


def start_database(machine: Machine) -> None:
    long(machine, "service postgresql start")
    ready = f"{AS_POSTGRES} pg_isready -q"
    long(machine, f"for i in $(seq 100); do {ready} && exit 0; sleep 1; done; exit 1")


def make_database(machine: Machine) -> None:
    sql(machine, f"create database {BASE}", "postgres")
    sql(machine, f"create extension amcheck; {sql_rows.TABLE}", BASE)
    long(machine, f"cd / && {AS_POSTGRES} pgbench -i -q -s 1 {BASE}")
    sql_rows.install(machine)


@pytest.fixture(scope="module")
def database(machine: Machine) -> Machine:
    start_database(machine)
    make_database(machine)
    return machine


def lose_registry(machine: Machine) -> None:
    machine.cut(UNANNOUNCED)
    machine.guest.close()
    fsync_guest.boot_without_registry(machine)


@pytest.mark.parametrize("way", CRASHES)
def test_postgresql_keeps_what_it_has_committed(database: Machine, way: str) -> None:
    machine = database
    assert state(machine) == "memory"
    sql(machine, "truncate t", BASE)
    sh(
        machine,
        f"cd / && setsid {AS_POSTGRES} pgbench -n -c 2 -T 3600 bench >/dev/null 2>&1 </dev/null &",
    )
    before = counts(machine)
    rows = sql_rows.add(machine, BASE)
    try:
        rows.wait(ROWS)
        assert counts(machine)["in_memory"] - before["in_memory"] > ROWS // 2
        CRASHES[way](machine)
    finally:
        rows.close()
    replay(machine)
    start_database(machine)
    sql_rows.check(machine, BASE, rows.acks["rows"])
    sums = sql(machine, SUMS, BASE).split()
    assert len(sums) == 4 and len(set(sums)) == 1, sums
    assert int(sql(machine, "select count(*) from pgbench_history", BASE))
    long(machine, f"cd / && {AS_POSTGRES} {AMCHECK} --heapallindexed bench")
    assert not kernel_complaints(machine)


def test_rows_are_lost_with_the_registry(database: Machine) -> None:
    machine = database
    sql(machine, "truncate t", BASE)
    sql(machine, "checkpoint", BASE)
    sh(machine, "sync")
    rows = sql_rows.add(machine, BASE)
    try:
        rows.wait(ROWS)
        lose_registry(machine)
    finally:
        rows.close()
    start_database(machine)
    with pytest.raises(BrokenError) as broken:
        sql_rows.check(machine, BASE, rows.acks["rows"])
    assert broken.value.verdict == "promises-broken"


@pytest.mark.parametrize("way", CRASHES)
def test_sqlite_keeps_what_it_has_committed(machine: Machine, way: str) -> None:
    assert state(machine) == "memory"
    path = f"/root/{way}.db"
    sh(machine, f"cat >/root/database.py <<'EOF'\n{DATABASE}EOF\nsync")
    rows = Acks(machine, f"python3 /root/database.py wal {path}")
    try:
        rows.wait(ROWS)
        CRASHES[way](machine)
    finally:
        rows.close()
    replay(machine)
    found = sh(machine, f"sqlite3 {path} 'pragma integrity_check; select count(*), max(n) from t'")
    assert found.stdout.splitlines()[0] == "ok"
    count, last = map(int, found.stdout.splitlines()[1].split("|"))
    assert count == last >= rows.acks["wal"] >= ROWS


def fio(number: int, words: str, engine: str = ENGINES[0]) -> str:
    """In random order, each block of the file has this number and its own offset."""
    return f"{FIO} --ioengine={engine} --verify_pattern=0x{number:02x}%o {words}"


def verify(machine: Machine) -> bool:
    return machine.run_in_guest(fio(8, "--verify_only"), limit_s=LONG_S, check=False).ok


@pytest.mark.parametrize("way", ("panic", "failed-stop", "refused"))
@pytest.mark.parametrize("engine", ENGINES)
def test_fio_verifies_what_it_has_written(machine: Machine, engine: str, way: str) -> None:
    long(machine, fio(7, "--do_verify=1", engine))
    before = counts(machine)
    long(machine, fio(8, "--do_verify=0", engine))
    assert counts(machine)["in_memory"] > before["in_memory"]
    CRASHES[way](machine)
    replay(machine)
    assert verify(machine)


def test_fio_finds_what_is_lost_with_the_registry(machine: Machine) -> None:
    long(machine, fio(7, "--do_verify=1") + "; sync")
    long(machine, fio(8, "--do_verify=0"))
    lose_registry(machine)
    assert not verify(machine)


def stress(machine: Machine) -> set[str]:
    """The stressors that have found something."""
    words = f"rm -rf /root/stress; mkdir -p /root/stress && {STRESS} --temp-path /root/stress 2>&1"
    done = machine.run_in_guest(words, limit_s=STRESS_LIMIT_S, check=False)
    assert "passed: " in done.stdout or "successful run completed" in done.stdout, done.stdout
    return set(STRESS_FAILED.findall(done.stdout))


def test_stress_ng_finds_no_more_than_on_the_disk(machine: Machine) -> None:
    sh(machine, f"echo disk >{fsync_guest.SYSFS}/state")
    on_disk = stress(machine)
    sh(machine, f"echo memory >{fsync_guest.SYSFS}/state")
    assert state(machine) == "memory"
    # Its own files have lost their names before it syncs them: none of its ends in memory.
    with witness(machine, "/root/beside") as seen:
        before = counts(machine)
        assert stress(machine) <= on_disk
        assert counts(machine)["in_memory"] > before["in_memory"]
        fsync_guest.panic(machine)
    replay(machine)
    assert seen.check() == []
    assert state(machine) == "memory"
    assert not kernel_complaints(machine)
