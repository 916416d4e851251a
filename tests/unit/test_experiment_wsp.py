# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Experiments of WSP's save routine, modules and devices: a mechanism that is missing is red.

Goal and method are those of test_experiment_verdicts.py.
"""

from __future__ import annotations

import importlib.util
import os
from copy import deepcopy
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from lab.experiment.run import folder
from tests.unit import test_experiment_verdicts as verdicts
from tests.unit.test_experiment_verdicts import MS, counted, verdict

# wsp-flush: one write-back, and the lines of the save routine.

SAVE_PATH = [
    ["stop/power.c", "rem_pwr_interrupt", 40],
    ["stop/fast.c", "rem_park_halt", 80],
    ["stop/record.c", "rem_record_commit", 30],
    ["stop/record.c", "rem_word_store", 10],
]


def flush(
    together: float = 1.0,
    stop: float = 1.0,
    in_turn: float = 2.0,
    more: tuple[list[Any], ...] = (),
    stop_ns: int = 2_950_000,
) -> dict[str, Any]:
    """Times of what all CPUs take, over one write-back; functions besides SAVE_PATH."""
    cpus = {"wsp-c5528": 4, "wsp-4180": 6, "wsp-x5650": 6, "wsp-d510": 2, "lightpc": 8}
    one_ns = 2_900_000

    def stops(over_one: float) -> list[dict[str, Any]]:
        flushes = {"taken_ns": round(one_ns * over_one), "longest_ns": one_ns, "lines": 9,
                   "line_ns": 0.0}  # fmt: skip
        return [{"load": "idle", "stop_ns": stop_ns, "flushes": flushes}]

    return {
        "flushes": {
            profile: {
                str(count): {
                    "lines": 9,
                    "write_ns": 700_000,
                    "together_ns": round(one_ns * together),
                    "first_ns": one_ns,
                    "other_ns": one_ns,
                }
                for count in (1, most)
            }
            for profile, most in cpus.items()
        },
        "windows_ns": {"wsp-intel-750w": 10 * MS, "wsp-amd-525w": 22 * MS},
        "path": [*SAVE_PATH, *more],
        "stops": {count: stops(stop) for count in ("1", "2", "4")},
        "in_turn": stops(in_turn),
    }


def test_flush_as_in_the_paper_passes() -> None:
    result = verdict("wsp-flush", flush())
    assert result.ok
    assert counted(result) == (0, 0)
    assert result.figures["wsp_c5528_in_turn"].value == 4
    assert result.figures["wsp_c5528_in_turn_percent_of_window"].value == 116


def test_flush_that_is_no_one_write_back_is_red() -> None:
    assert not verdict("wsp-flush", flush(together=1.2)).ok
    assert counted(verdict("wsp-flush", flush(together=1.05))) == (0, 2)  # the testbeds' 3 ms
    assert not verdict("wsp-flush", flush(stop=1.2)).ok
    assert counted(verdict("wsp-flush", flush(stop_ns=3_100_000))) == (0, 1)


def test_flush_of_a_planted_bug_that_nobody_sees_is_red() -> None:
    assert not verdict("wsp-flush", flush(in_turn=1.0)).ok


def test_save_routine_may_be_longer_if_what_the_papers_does_is_so_too() -> None:
    ours = ["resume/pci.c", "rem_devices_stop", 100]
    assert counted(verdict("wsp-flush", flush(more=(["stop/fast.c", "rem_more", 100],)))) == (1, 0)
    assert counted(verdict("wsp-flush", flush(more=(ours,)))) == (0, 1)


def test_save_path_of_unknown_functions_or_without_its_end_is_red() -> None:
    assert not verdict("wsp-flush", flush(more=(["stop/new.c", "rem_new", 1],))).ok
    raw = flush()
    raw["path"] = raw["path"][:2]
    assert not verdict("wsp-flush", raw).ok


# wsp-nvdimm: many modules, and two kinds of memory.


def nvdimm() -> dict[str, Any]:
    """Modules that share nothing, memories that take longer the more of them is slow."""
    counts, save_ns, save_pj = (1, 2, 4, 8, 16, 32, 64, 128), 8_500 * MS, 390 * 10**12
    scms, placements = ("Optane", "OC-PMEM"), ("interleaved", "ranges", "written most")
    placements += ("known beforehand",)

    def groups(way: str) -> dict[str, Any]:
        times = {count: count if way == "in turn" else 1 for count in counts}
        return {
            str(count): {
                "last_ns": times[count] * save_ns,
                "saved": min(count, 18) if way == "in turn" else count,
                "energy_pj": count * save_pj,
            }
            for count in counts
        }

    def stops() -> list[dict[str, Any]]:
        return [
            {
                "modules": modules,
                "lines": 1200,
                "scm_lines": 100 * modules,
                "walk_ns": 3 * MS,
                "flush_ns": 3 * MS + modules,
                "stop_ns": 5 * MS + modules,
                "stop_pj": 10**12,
                "capacitance_uf": 30_000,
                "save_pj": (12 - modules) * save_pj,
            }
            for modules in (0, 3, 6, 9, 12)
        ]

    def shares(placement: str) -> dict[str, Any]:
        even = {"12": 1.0, "9": 0.75, "6": 0.5, "3": 0.25, "0": 0.0}
        hot = {"12": 1.0, "9": 0.99, "6": 0.98, "3": 0.97, "0": 0.0}
        found = even if placement == "interleaved" else hot
        return {modules: {"writes": share, "reads": share} for modules, share in found.items()}

    return {
        "sizes": {
            str(gib): {"save_ns": save_ns, "save_pj": gib * 49 * 10**12, "full_pj": gib * 10**14}
            for gib in (1, 2, 4, 8, 16)
        },
        "groups": {way: groups(way) for way in ("together", "in turn")},
        "assumed": {"channel_save_mw x 2": {"together": 128, "in turn": 1}},
        "images": {"of all": 3, "of all but one": 2},
        "mixed": {scm: stops() for scm in scms},
        "swept": {scm: {"lines in order": 5 * MS} for scm in scms},
        "placed": {
            program: {"pages": 9, **{placement: shares(placement) for placement in placements}}
            for program in ("redis", "hash table")
        },
        "placed_stops": {scm: {"interleaved": stops(), "written most": stops()} for scm in scms},
    }


def test_nvdimms_as_in_the_paper_pass() -> None:
    result = verdict("wsp-nvdimm", nvdimm())
    assert result.ok
    assert counted(result) == (0, 0)
    assert result.figures["in turn, modules lost"].value == 110
    assert result.figures["OC-PMEM, modules held by 10 ms"].value == 12


def test_nvdimms_that_wait_for_each_other_are_red() -> None:
    raw = nvdimm()
    raw["groups"]["together"] = raw["groups"]["in turn"]
    assert counted(verdict("wsp-nvdimm", raw)) == (0, 2)  # their time, and modules that are lost
    raw = nvdimm()
    raw["groups"]["together"]["4"]["last_ns"] += 1
    assert not verdict("wsp-nvdimm", raw).ok
    raw = nvdimm()
    raw["groups"]["in turn"] = raw["groups"]["together"]
    assert not verdict("wsp-nvdimm", raw).ok


@pytest.mark.parametrize(
    ("place", "wrong"),
    [
        (("assumed", "channel_save_mw x 2", "together"), 127),
        (("images", "of all"), 2),
        (("images", "of all but one"), 3),
        (("mixed", "OC-PMEM", 4, "stop_ns"), 4 * MS),  # shorter with more of it
        (("mixed", "OC-PMEM", 4, "save_pj"), 1),
        (("mixed", "Optane", 0, "stop_ns"), 11 * MS),  # of NVDIMM-N alone
        (("placed", "redis", "written most", "6", "writes"), 0.5),
        (("placed", "redis", "ranges", "12", "writes"), 0.9),
        (("placed", "hash table", "interleaved", "9", "writes"), 0.4),
    ],
)
def test_nvdimm_statement_that_does_not_hold_is_red(place: tuple[Any, ...], wrong: Any) -> None:
    raw = nvdimm()
    at: Any = raw
    for key in place[:-1]:
        at = at[key]
    at[place[-1]] = wrong
    assert not verdict("wsp-nvdimm", raw).ok


@pytest.mark.parametrize(("key", "wrong"), [("save_ns", 10_001 * MS), ("full_pj", 7 * 10**14)])
def test_nvdimm_that_is_slow_or_has_a_small_capacitor_is_red(key: str, wrong: int) -> None:
    raw = nvdimm()
    raw["sizes"]["8"][key] = wrong
    assert counted(verdict("wsp-nvdimm", raw)) == (0, 1)


# wsp-dev: ways of devices, and calls that a failure interrupts.


def dev() -> dict[str, Any]:
    calls = {"calls": 100, "interrupted": 8, "failed": 0, "wrong": 0}
    devices = [
        ["pci", "0x060400", "pcieport"],
        ["pci", "0x010802", "nvme"],
        ["pci", "0x020000", "virtio-pci"],
        ["virtio", "none", "virtio_net"],
        ["pnp", "none", "rtc_cmos"],
    ]

    def machine(mode: str) -> dict[str, Any]:
        found = {"devices": devices, "mode": mode, "resumed": True, "calls": dict(calls)}
        return deepcopy(found)

    return {
        "tree": {
            "kept": [["pnp", "rtc_cmos"]],
            "virtio": ["NET"],
            "hooked": {"hooks/a.h": ["drivers/a.c"], "hooks/b.h": ["net/b.c", "net/c.c"]},
            "driver_functions": {"stop": [], "go": ["rem_reseat"]},
            "suspends": {"fast": [], "dpm": ["dpm_suspend_start"]},
            "shadowed": {"PM1": 5},
            "config_words": 16,
        },
        "machines": {
            "virtio": machine("fast"),
            "nvme, e1000e": machine("fast"),
            "e1000": machine("fast"),
            "rtl8139": machine("dpm: because of 0000:00:02.0"),
        },
        "stops": {"fast": 40_000, "dpm": 60 * MS},
    }


def test_dev_as_the_paper_proposes_passes() -> None:
    result = verdict("wsp-dev", dev())
    assert result.ok
    assert counted(result) == (0, 0)
    assert result.figures["names, recovered by its driver"].value == "nvme (pci)"
    assert result.figures["drivers, rings re-seated"].value == 2
    assert result.figures["hooked_driver_files"].value == 1


def test_dev_driver_on_the_save_path_is_red() -> None:
    raw = dev()
    raw["tree"]["driver_functions"]["stop"] = ["rem_reseat"]
    assert counted(verdict("wsp-dev", raw)) == (0, 1)
    raw = dev()
    raw["stops"]["dpm"] = 9 * MS
    assert counted(verdict("wsp-dev", raw)) == (0, 1)


@pytest.mark.parametrize(
    ("place", "wrong"),
    [
        (("tree", "suspends", "fast"), ["dpm_suspend_start"]),
        (("tree", "suspends", "dpm"), []),
        (("tree", "driver_functions", "go"), []),
        (("tree", "kept"), []),  # a machine has a driver that the bounded path does not know
        (("machines", "virtio", "mode"), "dpm: because of 0000:00:02.0"),
        (("machines", "rtl8139", "mode"), "fast"),
        (("machines", "virtio", "resumed"), False),
        (("machines", "e1000", "calls", "interrupted"), 0),
        (("machines", "nvme, e1000e", "calls", "failed"), 1),
        (("machines", "virtio", "calls", "wrong"), 1),
        (("stops", "fast"), 11 * MS),
    ],
)
def test_dev_statement_that_does_not_hold_is_red(place: tuple[str, ...], wrong: Any) -> None:
    raw = dev()
    at = raw
    for key in place[:-1]:
        at = at[key]
    at[place[-1]] = wrong
    assert not verdict("wsp-dev", raw).ok


# The writers of wsp-dev, on a file.


@pytest.fixture
def in_guest() -> ModuleType:
    spec = importlib.util.spec_from_file_location("in_guest", folder() / "wsp-dev" / "in_guest.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run_writer(module: ModuleType, tmp_path: Path, calls: int) -> Any:
    """One thread makes so many calls."""
    file = tmp_path / "blocks"
    file.write_bytes(bytes(module.THREADS * module.PLACES * module.BLOCK_BYTES))
    fd = os.open(file, os.O_RDWR)
    writer = module.Writer(fd, 1, "")
    writer.is_over = lambda: writer.calls == calls
    writer.start()
    writer.join()
    os.close(fd)
    return writer


def counts(writer: Any) -> tuple[int, int, int, int]:
    return writer.calls, writer.interrupted, writer.failed, writer.wrong


def test_writer_without_a_failure_counts_calls_alone(in_guest: ModuleType, tmp_path: Path) -> None:
    assert counts(run_writer(in_guest, tmp_path, 20)) == (20, 0, 0, 0)


def test_call_during_which_the_machine_was_off_is_interrupted(
    in_guest: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offs = iter([0, 0, 0, 3 * 10**9, *[3 * 10**9] * 100])
    monkeypatch.setattr(in_guest, "off_ns", lambda: next(offs))
    assert counts(run_writer(in_guest, tmp_path, 5)) == (5, 1, 0, 0)


def test_call_that_fails_or_writes_something_else_is_counted(
    in_guest: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = os.pwritev, 0

    def pwritev(fd: int, blocks: list[Any], place: int) -> int:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise OSError(5, "Input/output error")
        if calls == 3:  # acknowledged, and not written
            return int(in_guest.BLOCK_BYTES)
        return real(fd, blocks, place)

    monkeypatch.setattr(in_guest.os, "pwritev", pwritev)
    assert counts(run_writer(in_guest, tmp_path, 6)) == (6, 0, 1, 1)


@pytest.mark.parametrize(
    ("name", "raw"), [("wsp-dev", dev()), ("wsp-flush", flush()), ("wsp-nvdimm", nvdimm())]
)
def test_each_expected_value_is_measured(name: str, raw: Any) -> None:
    verdicts.test_each_expected_value_is_a_figure_and_missing_it_is_red(name, raw)
