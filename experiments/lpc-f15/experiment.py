# SPDX-License-Identifier: Apache-2.0 OR MIT
"""LightPC, Figure 15: see README.md."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from statistics import mean
from typing import Any

from lab.experiment.run import Context, Report
from lab.guest_root.spec import RootSpec
from lab.setup.products import Root, need
from lab.testbed.machines import make_config
from lab.testbed.memory_machine import booted_on, served

PACKAGES = ("bzip2", "openssl")
RUN_LIMIT_S = 600.0
AT_ONCE = 2
# The paper's three platforms, and LightPC-B where all that the paper does not say of it is slow.
LEGACY, OURS, B, SLOW_B = "LegacyPC", "LightPC", "LightPC-B", "LightPC-B, one queue, rank layout"
MEMORIES = {
    LEGACY: "dram",
    OURS: "ocpmem",
    B: "ocpmem-b",
    SLOW_B: "ocpmem-b:order=module:layout=rank",
}
NOT_RUN = (
    "miniFE", "AMG", "SNAP", "mcf", "astar", "cactusADM", "dealII", "wrf", "KeyDB",
)  # fmt: skip
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
COUNTED = ("reads", "writes", "row_writes", "rebuilt_reads", "blocked_reads")


def _sized(text: str, is_ci: bool) -> str:
    for name, value in SIZES[is_ci].items():
        text = text.replace(f"@{name}@", str(value))
    return text


def _run_all(platform: str, it: Context) -> dict[str, Any]:
    """Each program twice on one machine, the second time measured, by the guest's clock."""
    config = make_config(f"f15-{list(MEMORIES).index(platform)}", 1)
    config = replace(config, root=need(Root(RootSpec(packages=PACKAGES))), network="auto")
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


def measure(it: Context) -> dict[str, Any]:
    need(Root(RootSpec(packages=PACKAGES)))
    with ThreadPoolExecutor(AT_ONCE) as pool:
        rows = pool.map(lambda platform: _run_all(platform, it), MEMORIES)
        return dict(zip(MEMORIES, rows, strict=True))


def _ratios(raw: dict[str, Any], platform: str, over: str) -> dict[str, float]:
    return {name: raw[platform][name]["ns"] / raw[over][name]["ns"] for name in PROGRAMS}


def judge(raw: dict[str, Any], paper: dict[str, Any], report: Report) -> None:
    over_legacy = _ratios(raw, OURS, LEGACY)
    report.add("lightpc_over_legacypc", round(mean(over_legacy.values()), 3), "")
    for platform in (B, SLOW_B):
        ratios = _ratios(raw, platform, OURS)
        report.add(f"{platform} over LightPC", round(mean(ratios.values()), 3), "")
        for name, ratio in ratios.items():
            report.add(f"{name}, {platform} over LightPC", round(ratio, 3), "")
    for name, ratio in over_legacy.items():
        row = raw[OURS][name]
        report.add(f"{name}_over_legacypc", round(ratio, 3), "")
        report.add(f"{name}_reads_per_write", round(row["reads"] / max(1, row["writes"]), 2), "")
        report.count(f"{name}_reads", row["reads"], "lines")
    report.count("programs_run", len(PROGRAMS), "programs")
    report.add("not_run", ", ".join(NOT_RUN), "")
    report.expect("no program is faster on LightPC than on DRAM by more than noise",
                  min(over_legacy.values()) > paper["noise"])  # fmt: skip
    report.expect("LightPC is slower than DRAM on average", mean(over_legacy.values()) > 1)
    report.expect(
        "LightPC-B is slower than LightPC on average",
        mean(_ratios(raw, B, OURS).values()) > 1,
    )


def draw(raw: dict[str, Any], paper: dict[str, Any], figure: Any) -> None:
    axes = figure.subplots(1, 1)
    names, width = list(PROGRAMS), 0.27
    for number, platform in enumerate((OURS, B, SLOW_B)):
        ratios = _ratios(raw, platform, LEGACY)
        places = [index + (number - 1) * width for index in range(len(names))]
        axes.bar(places, [ratios[name] for name in names], width, label=platform)
    axes.axhline(paper["lightpc_over_legacypc"], color="black", linestyle=":",
                 label="paper's mean of LightPC")  # fmt: skip
    axes.set_xticks(range(len(names)), names)
    axes.set(ylabel="execution time, LegacyPC = 1")
    axes.legend(frameon=False, fontsize=7)
