# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Unmodified programs on machines with different memories, for experiments.

One in-order core whose guest time follows a memory controller (`rem run --memory`). Each program
runs twice on one machine; the second run is measured, by the guest's clock.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from lab.experiment.kept import kept
from lab.experiment.run import Context
from lab.guest_root.spec import RootSpec
from lab.setup.products import Kernel, Plugin, Root, need_all
from lab.testbed.machines import make_config
from lab.testbed.memory_machine import booted_on, served

PACKAGES = ("bzip2", "openssl")
RUN_LIMIT_S = 600.0
AT_ONCE = 2
# LightPC's three platforms, and LightPC-B where all that the paper does not say of it is slow.
LEGACY, OURS, B, SLOW_B = "LegacyPC", "LightPC", "LightPC-B", "LightPC-B, one queue, rank layout"
MEMORIES = {
    LEGACY: "dram",
    OURS: "ocpmem",
    B: "ocpmem-b",
    SLOW_B: "ocpmem-b:order=module:layout=rank",
}
DATA, TEXT, SOURCE, DATABASE = "/dev/shm/data", "/dev/shm/text", "/dev/shm/x.c", "/dev/shm/x.db"
PREPARE = f"""
head -c @DATA@ /dev/urandom >{DATA}
perl -e 'srand 1; print join(" ", map {{ int rand 5000 }} 1..8), "\\n" for 1..@LINES@' >{TEXT}
perl -e 'print "int f$_(int *a, int n) {{ int s = 0; for (int i = 0; i < n; i++) s += a[i] * i ^ (s >> $_ % 7); return s; }}\\n" for 1..@FUNCTIONS@' >{SOURCE}
redis-server --port 7777 --save "" --daemonize yes >/dev/null
memcached -u root -p 7778 -d
perl -e 'print "set k$_ 0 0 64\\r\\n", "x" x 64, "\\r\\nget k", int $_ / 2, "\\r\\n" for 1..@REQUESTS@; print "quit\\r\\n"' >/dev/shm/mc
until redis-cli -p 7777 ping >/dev/null 2>&1; do sleep 0.1; done
"""  # noqa: E501
KEY = f"-K {'00' * 32} -iv {'00' * 16}"
PROGRAMS = {
    "AES": f"openssl enc -aes-256-cbc {KEY} -in {DATA} -out /dev/null",
    "SHA512": f"openssl dgst -sha512 {DATA}",
    "perlbench": f"perl -ne 'for (split) {{ $n{{$_}}++; $s .= $1 if /(3\\d)/ }} "
    f"END {{ print scalar(keys %n), length $s }}' {TEXT}",
    "bzip2": f"bzip2 -9 -c {TEXT} >/dev/null",
    "gcc": f"gcc -O2 -c {SOURCE} -o /dev/shm/x.o",
    "Redis": "redis-benchmark -p 7777 -n @REQUESTS@ -c 4 -t set,get -r 10000 -q >/dev/null",
    "Memcached": "nc 127.0.0.1 7778 </dev/shm/mc >/dev/null",
    "SQLite": f"rm -f {DATABASE}; sqlite3 {DATABASE} 'pragma journal_mode=wal; "
    "create table t(a integer primary key, b text); with recursive c(i) as (select 1 union all "
    "select i + 1 from c where i < @REQUESTS@) insert into t select i, hex(randomblob(20)) from c; "
    'create index ti on t(b); select count(*) from t where b like "%A1%"\'',
}
SIZES = {
    True: {"DATA": 1 << 20, "LINES": 2000, "FUNCTIONS": 20, "REQUESTS": 500},
    False: {"DATA": 4 << 20, "LINES": 8000, "FUNCTIONS": 50, "REQUESTS": 2000},
}
ENERGY_PJ = ("background_pj", "refresh_pj", "activate_pj", "read_pj", "write_pj")
COUNTED = (
    "guest_ns", "reads", "writes", "row_writes", "rebuilt_reads", "blocked_reads", *ENERGY_PJ,
)  # fmt: skip


def _sized(text: str, is_ci: bool) -> str:
    for name, value in SIZES[is_ci].items():
        text = text.replace(f"@{name}@", str(value))
    return text


def _run_all(platform: str, root: Path, it: Context) -> dict[str, Any]:
    """Each program twice on one machine, the second time measured, by the guest's clock."""
    config = make_config(f"programs-{list(MEMORIES).index(platform)}", 1)
    config = replace(config, root=root, network="auto")
    rows: dict[str, Any] = {}
    with booted_on(MEMORIES[platform], config) as machine:
        machine.run_in_guest(_sized(PREPARE, it.is_ci), limit_s=RUN_LIMIT_S)
        for name, command in PROGRAMS.items():
            words = _sized(command, it.is_ci)
            machine.run_in_guest(words, limit_s=RUN_LIMIT_S)
            before = served(machine)
            timed = f"begin=$(date +%s%N); {words} >/dev/null; echo $(($(date +%s%N) - begin))"
            took_ns = int(machine.run_in_guest(timed, limit_s=RUN_LIMIT_S).stdout)
            after = served(machine)
            rows[name] = {"ns": took_ns, **{key: after[key] - before[key] for key in COUNTED}}
    return rows


def measured(it: Context) -> dict[str, Any]:
    """Rows by platform and program: `ns`, and what the controller served (COUNTED).

    Counters are read outside the guest, so their `guest_ns` is longer than `ns`.
    """
    root = Root(RootSpec(packages=PACKAGES))
    built = need_all([Kernel(), Plugin(), root])
    work = repr((MEMORIES, PREPARE, PROGRAMS, SIZES[it.is_ci], COUNTED, str(built[root])))
    keys = "-".join((
        built[Kernel()].key,
        built[Plugin()].parent.name,
        hashlib.sha256(work.encode()).hexdigest()[:16],
    ))  # fmt: skip
    folder = it.out.parent / "programs"
    files = {name: folder / f"{number}-{keys}.json" for number, name in enumerate(MEMORIES)}

    def measure(missing: list[str]) -> Iterator[tuple[str, Any]]:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            rows = pool.map(lambda name: _run_all(name, built[root], it), missing)
            yield from zip(missing, rows, strict=True)

    return kept(files, measure)


def ratios(raw: dict[str, Any], platform: str, over: str) -> dict[str, float]:
    """Times of each program on one platform over those on another."""
    return {name: raw[platform][name]["ns"] / raw[over][name]["ns"] for name in PROGRAMS}


def draw_bars(figure: Any, of: Callable[[str, str], float], label: str, paper_mean: float) -> None:
    """A bar for each program on each platform but LegacyPC, which is 1, and the paper's mean."""
    axes = figure.subplots(1, 1)
    names, width = list(PROGRAMS), 0.27
    for number, platform in enumerate((OURS, B, SLOW_B)):
        places = [index + (number - 1) * width for index in range(len(names))]
        axes.bar(places, [of(platform, name) for name in names], width, label=platform)
    axes.axhline(paper_mean, color="black", linestyle=":", label="paper's mean of LightPC")
    axes.set_xticks(range(len(names)), names)
    axes.set(ylabel=f"{label}, LegacyPC = 1")
    axes.legend(frameon=False, fontsize=7)
