# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What the Stop and Go bench computes from samples; measuring itself needs a machine."""

from __future__ import annotations

import re
import struct
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest

from lab.bench import loads
from lab.bench.flushes import Flushes, flushes_of
from lab.bench.host_load import host_load
from lab.bench.stop_go import (
    GO_MAX_NS,
    ONE_WRITE_BACK_MAX,
    STOP_MAX_NS,
    Parts,
    Plan,
    Sample,
    add_figures,
    busy_functions,
    entry_address,
    required,
)
from lab.commands import bench
from lab.errors import RemError, UsageError
from lab.machine.symbols import symbol_address
from lab.paths import repo_dir
from lab.power import discharge as power
from lab.result import Result
from lab.run import spawn

PLAN = Plan(1, 1, ("idle",), ("fast",), Parts(Path("k"), Path("l"), Path("r"), Path("p")))


def sample(load: str, stop_ns: int, go_ns: int, first_io_ns: int | None = None) -> Sample:
    return Sample(
        load=load,
        sequence=1,
        stop_ns=stop_ns,
        stop_edge_ns=stop_ns // 10,
        stop_halted_ns=0,
        stop_counts=(stop_ns,),
        go_ns=go_ns,
        armed_ns=go_ns + 5,
        first_io_ns=first_io_ns,
        timeline=(),
        turns=(),
    )


def test_figures_are_maxima_and_medians_over_all_loads() -> None:
    result = Result("stop-go-4")
    samples = [
        sample("idle", 100, 50),
        sample("idle", 300, 70),
        sample("fsync", 200, 60, first_io_ns=900),
        sample("fsync", 250, 65, first_io_ns=800),
    ]
    add_figures(result, "dpm", samples)
    values = {name: figure.value for name, figure in result.figures.items()}
    assert values == {
        "dpm_stop_max_ns": 300,
        "dpm_stop_p50_ns": 200,
        "dpm_stop_edge_max_ns": 30,
        "dpm_go_max_ns": 70,
        "dpm_go_p50_ns": 60,
        "dpm_go_armed_max_ns": 75,
        "dpm_go_first_io_ns": 900,
        "dpm_stop_idle_max_ns": 300,
        "dpm_stop_fsync_max_ns": 250,
        "dpm_stops": 4,
    }
    assert {f.kind for n, f in result.figures.items() if n != "dpm_stops"} == {"modelled"}


def test_fast_figures_have_their_established_names() -> None:
    result = Result("stop-go-4")
    add_figures(result, "fast", [sample("net", 1, 2, 3)])
    wanted = {"stop_max_ns", "stop_p50_ns", "go_max_ns", "go_p50_ns", "go_first_io_ns"}
    assert wanted <= set(result.figures)


@pytest.mark.parametrize(("bits", "form"), [(1, "<I"), (2, "<Q")])
def test_entry_address_is_read_from_both_kinds_of_elf(tmp_path: Path, bits: int, form: str) -> None:
    elf = tmp_path / "loader.elf"
    head = b"\x7fELF" + bytes([bits]) + bytes(19) + struct.pack(form, 0x101234)
    elf.write_bytes(head.ljust(64, b"\xff"))
    assert entry_address(elf) == 0x101234


def test_file_that_is_no_elf_is_named(tmp_path: Path) -> None:
    (tmp_path / "loader.elf").write_bytes(bytes(64))
    with pytest.raises(RemError, match=r"loader\.elf is not an ELF file"):
        entry_address(tmp_path / "loader.elf")


def test_every_load_of_the_command_exists() -> None:
    assert set(bench.LOADS) == set(loads.KINDS)
    assert bench.checked_loads("all") == bench.LOADS
    assert bench.checked_loads("net,idle") == ("net", "idle")
    with pytest.raises(UsageError, match="--load disk"):
        bench.checked_loads("idle,disk")


def test_symbol_address_takes_functions_only(tmp_path: Path) -> None:
    system_map = tmp_path / "System.map"
    system_map.write_text(
        "ffffffff81000000 T _text\n"
        "ffffffff82000000 d virtblk_done\n"
        "ffffffff813e04d0 t virtblk_done\n"
        "ffffffff813e04e0 t virtblk_done_too\n"
    )
    assert symbol_address(system_map, "virtblk_done") == 0xFFFFFFFF813E04D0
    with pytest.raises(RemError, match="has no function virtnet_poll"):
        symbol_address(system_map, "virtnet_poll")
    with pytest.raises(RemError, match="cannot read"):
        symbol_address(tmp_path / "none", "_text")


def test_functions_of_turns_are_named_by_cpu(tmp_path: Path) -> None:
    system_map = tmp_path / "System.map"
    system_map.write_text("1000 T first\n1800 d data\n2000 t second\n")
    turns = ((1, 0x2000), (1, 0x1FFF), (1, 0x2FFF), (0, 0xFFF))
    assert busy_functions(system_map, turns) == {0: ["? 1"], 1: ["second 2", "first 1"]}


def of_cpu(cpu: int, begin_ns: int, end_ns: int) -> list[power.Sample]:
    return [power.Sample(begin_ns, cpu, "begin", 9), power.Sample(end_ns, cpu, "end", 0)]


def test_time_of_the_tpm_is_beside_that_of_go() -> None:
    result = Result("stop-go-server-4")
    one = replace(sample("idle", 1, 50), tpm_boot_ns=7)
    add_figures(result, "fast", [one, sample("idle", 1, 60)])
    assert (result.figures["tpm_ns"].value, result.figures["tpm_ns"].kind) == (7, "native")
    assert result.figures["go_max_ns"].value == 60
    add_figures(result := Result("stop-go-4"), "fast", [sample("idle", 1, 60)])
    assert "tpm_ns" not in result.figures


def test_write_back_in_turn_misses_its_requirement() -> None:
    together = flushes_of(of_cpu(0, 1000, 3000) + of_cpu(1, 1100, 3150), 2)
    assert together == Flushes(taken_ns=2150, longest_ns=2050, lines=9)
    in_turn = flushes_of(of_cpu(1, 1000, 3000) + of_cpu(0, 3000, 5000), 2)
    good = replace(sample("idle", 302_000, 1), flushes=together)
    assert required(PLAN, [good]) == []
    assert "2.00 of one CPU's" in required(PLAN, [good, replace(good, flushes=in_turn)])[0]
    result = Result("stop-go-2")
    add_figures(result, "fast", [good, replace(good, flushes=in_turn)])
    assert result.figures["flush_vs_one_write_back"].value == 2.0
    assert result.figures["stop_without_flush_max_ns"].value == 302_000 - 2150


def test_controller_that_all_share_bounds_the_write_back() -> None:
    flushes = of_cpu(0, 0, 100) + of_cpu(1, 0, 100) + of_cpu(2, 0, 240)
    assert flushes_of(flushes, 3).vs_one == 1.0
    behind = flushes_of(of_cpu(0, 0, 120) + of_cpu(1, 120, 240), 2, line_ns=26.5)
    assert behind.vs_one == 240 / (9 * 26.5)


def test_slow_stop_misses_its_requirement() -> None:
    assert required(PLAN, [sample("net", 300_000, 1)]) == []
    assert "300,001 ns" in required(PLAN, [sample("net", 300_001, 1)])[0]
    assert required(PLAN, [sample("net", 1, 3_000_000)]) == []
    assert "a Go took 3,000,001 ns" in required(PLAN, [sample("net", 1, 3_000_001)])[0]
    wide = replace(PLAN, stop_max_ns=1_000_000, go_max_ns=100_000_000)
    assert required(wide, [sample("idle", 1_000_000, 100_000_000)]) == []
    assert len(required(wide, [sample("idle", 1_000_001, 100_000_001)])) == 2


def test_each_documented_requirement_is_judged() -> None:
    """What measurements.md requires of the fast path."""
    text = (repo_dir() / "docs" / "reference" / "measurements.md").read_text(encoding="utf-8")
    section = " ".join(text.partition("\n## Stop and Go\n")[2].partition("\n### ")[0].split())
    longest_us, go_ms, write_backs = re.findall(r"at most ([\d.]+) (?:us|ms|of what)", section)
    assert float(longest_us) * 1000 == STOP_MAX_NS
    assert float(go_ms) * 1_000_000 == GO_MAX_NS
    assert float(write_backs) == ONE_WRITE_BACK_MAX


def test_write_back_that_did_not_end_is_an_error() -> None:
    with pytest.raises(RemError, match="1 CPUs began"):
        flushes_of(of_cpu(0, 1000, 3000), 2)


def test_load_of_the_host_is_beside_the_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.getloadavg", lambda: (4.25, 2.0, 1.0))
    result = Result("stop-go-4")
    with host_load(every_s=0.001) as load:
        while not load.averages:
            time.sleep(0.001)
        monkeypatch.setattr("os.getloadavg", lambda: (6.0, 2.0, 1.0))
    load.add_to(result)
    values = {name: figure.value for name, figure in result.figures.items()}
    assert values["host_load_max"] == 6.0
    assert 4.2 <= float(values["host_load_mean"]) < 6.0
    assert values["host_busy"] == 0


def test_busy_processes_compute_meanwhile_and_then_end(monkeypatch: pytest.MonkeyPatch) -> None:
    started = []

    def spawn_noted(argv: list[str]) -> subprocess.Popen[str]:
        started.append(spawn(argv))
        return started[-1]

    def cpu_ticks(pid: int) -> int:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(") ")[2].split()
        return int(fields[11])

    monkeypatch.setattr("lab.bench.host_load.spawn", spawn_noted)
    with host_load(busy=2) as load:
        assert len(started) == 2
        while not all(cpu_ticks(child.pid) for child in started):
            time.sleep(0.01)
            assert [child.poll() for child in started] == [None, None]
    assert None not in [child.returncode for child in started]
    assert load.busy == 2
    assert len(load.averages) == 1
