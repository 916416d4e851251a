# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: real programs find nothing wrong where DRAM caches NVRAM, over Stop and Go and after a
panic: PostgreSQL and SQLite by their own checks, fio by its checksums, stress-ng by its own.

Method: programs as Debian has them, as in tests/fsync/test_fsync_programs.py, where the negative
proofs of the checks are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from lab.machine import Machine
from lab.setup.products import Root, need
from lab.testbed import fsync_guest, sql_rows
from lab.testbed.fsync_guest import Acks
from lab.testbed.machines import make_config
from lab.testbed.mixed_checks import CACHE_BYTES, cut_and_resume
from lab.testbed.mixed_guest import mixed_config, state, wait_count
from lab.testbed.pm_guest import kernel_complaints, sh
from lab.testbed.sql_rows import AS_POSTGRES, long, sql
from tests.fsync.test_fsync_memory import DATABASE
from tests.fsync.test_fsync_programs import (
    AMCHECK,
    BASE,
    PACKAGES,
    ROWS,
    STRESS,
    STRESS_LIMIT_S,
    SUMS,
    fio,
    make_database,
    start_database,
    verify,
)
from tests.support.claims import BOOT_LIMIT_S, machine_name

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    config = replace(make_config(machine_name("mixed-programs")), root=need(Root.having(*PACKAGES)))
    config = mixed_config(config, CACHE_BYTES)
    with Machine.create(config, destroy_on_exit=True) as made:
        made.boot()
        made.wait_up(BOOT_LIMIT_S)
        wait_count(made, "promoted", 1)
        yield made


def test_postgresql_keeps_what_it_has_committed(machine: Machine) -> None:
    start_database(machine)
    make_database(machine)
    load = f"{AS_POSTGRES} pgbench -c 2 -T 3600 bench"
    sh(machine, f"cd / && setsid {load} >/dev/null 2>&1 </dev/null &")
    rows = sql_rows.add(machine, BASE)
    try:
        for _ in range(2):
            rows.wait(ROWS // 3)
            cut_and_resume(machine)
        rows.wait(ROWS // 3)
        fsync_guest.panic(machine)
    finally:
        rows.close()
    start_database(machine)
    sql_rows.check(machine, BASE, rows.acks["rows"])
    sums = sql(machine, SUMS, BASE).split()
    assert len(sums) == 4 and len(set(sums)) == 1, sums
    long(machine, f"cd / && {AS_POSTGRES} {AMCHECK} --heapallindexed bench")
    assert not kernel_complaints(machine)


@pytest.mark.parametrize("mode", ["wal", "delete"])
def test_sqlite_keeps_what_it_has_committed(machine: Machine, mode: str) -> None:
    sh(machine, f"cat >/root/database.py <<'EOF'\n{DATABASE}EOF\nsync")
    path = f"/root/{mode}.db"
    rows = Acks(machine, f"python3 /root/database.py {mode} {path}")
    try:
        rows.wait(ROWS // 2)
        cut_and_resume(machine)
        rows.wait(ROWS // 2)
        fsync_guest.panic(machine)
    finally:
        rows.close()
    found = sh(machine, f"sqlite3 {path} 'pragma integrity_check; select count(*), max(n) from t'")
    assert found.stdout.splitlines()[0] == "ok"
    count, last = map(int, found.stdout.splitlines()[1].split("|"))
    assert count == last >= rows.acks[mode]


def test_fio_verifies_what_it_has_written(machine: Machine) -> None:
    long(machine, fio(7, "--do_verify=1"))
    cut_and_resume(machine)
    long(machine, fio(8, "--do_verify=0"))
    cut_and_resume(machine)
    assert verify(machine)
    fsync_guest.panic(machine)
    assert verify(machine)


def test_stress_ng_finds_nothing_over_a_cut(machine: Machine) -> None:
    out = "/root/stress.out"
    begin = f"{STRESS} --temp-path /root/stress >{out} 2>&1; echo ended $? >>{out}"
    sh(machine, f"mkdir -p /root/stress && setsid sh -c '{begin}' >/dev/null 2>&1 </dev/null &")
    cut_and_resume(machine)
    machine.run_in_guest(f"until grep -q ^ended {out}; do sleep 1; done", limit_s=STRESS_LIMIT_S)
    assert "ended 0" in sh(machine, f"cat {out}").stdout
    assert state(machine) == "on"
    assert not kernel_complaints(machine)
