# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Experiments on machines and on this host: a value of the paper that is missed is red.

Goal: the verdict counts every value that the paper gives, and a deviation is accepted only where
the sweep of its reason shows it. Method: raw results are made up, first as the paper has them, then
with one of them wrong.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from tests.support.verdicts import assert_missing_is_red, counted, verdict

MS = 1_000_000


# lpc-f8: parts of a Stop, and supplies.


def f8(dpm_ns: int, process: int, device: int, halted_ns: int) -> dict[str, Any]:
    def way(whole_ns: int) -> dict[str, Any]:
        return {
            "stops_ns": [["idle", whole_ns]],
            "timeline": [
                [0, "STOP_BEGIN", 0],
                [process * 10, "STOP_FREEZE", 0],
                [(process + device) * 10, "STOP_DEVICES", 0],
                [990, "STOP_CPU_SAVED", 1],
                [1000, "STOP_BODY", 0],
            ],
            "parts": [
                {
                    "process": whole_ns * process / 100,
                    "device": whole_ns * device / 100,
                    "offline": whole_ns * (100 - process - device) / 100,
                    "halted": halted_ns,
                }
            ],
            "halted_ns": halted_ns,
            "whole_ns": whole_ns,
            "energy_pj": 1,
            "supplies": {"atx-22": {"fits": True, "margin_ns": 1}},
        }

    windows = {"atx-22": 22 * MS, "server-55": 55 * MS}
    return {"flush_ns": 1, "windows_ns": windows, "ways": {"fast": way(MS), "dpm": way(dpm_ns)}}


def test_f8_as_in_the_paper_passes() -> None:
    result = verdict("lpc-f8", f8(9 * MS, 12, 38, 0))
    assert result.ok
    assert counted(result) == (0, 0)


def test_f8_longer_stop_is_accepted_only_if_it_waits() -> None:
    assert counted(verdict("lpc-f8", f8(80 * MS, 12, 38, 72 * MS))) == (1, 0)
    assert counted(verdict("lpc-f8", f8(80 * MS, 12, 38, 0))) == (0, 1)


def test_f8_parts_are_of_the_median_stop_with_its_flush() -> None:
    raw = f8(9 * MS, 12, 38, 0)
    usual = raw["ways"]["dpm"]["parts"][0]
    raw["ways"]["dpm"]["parts"] = [usual, {**usual, "process": 90 * MS}, usual]
    assert counted(verdict("lpc-f8", raw)) == (0, 0)
    raw["flush_ns"] = 20 * MS
    assert not verdict("lpc-f8", raw).ok


def test_f8_long_device_part_is_accepted_only_if_it_waits() -> None:
    assert counted(verdict("lpc-f8", f8(9 * MS, 10, 50, 3 * MS))) == (1, 0)
    assert counted(verdict("lpc-f8", f8(9 * MS, 10, 50, 0))) == (0, 1)


def test_f8_supply_with_another_window_is_red() -> None:
    raw = f8(9 * MS, 12, 38, 0)
    raw["windows_ns"]["server-55"] = 16 * MS
    assert not verdict("lpc-f8", raw).ok


# lpc-sng: LightPC's own Stop on its own instruction set.


def sng(stop_ns: int, halted_ns: int, process: int = 12, device: int = 38) -> dict[str, Any]:
    def sample(stop_ns: int, halted_ns: int) -> dict[str, Any]:
        ends = [[process * 10, "STOP_FREEZE", 0], [(process + device) * 10, "STOP_DEVICES", 0]]
        return {
            "load": "idle",
            "stop_ns": stop_ns,
            "stop_halted_ns": halted_ns,
            "go_ns": 3 * MS,
            "timeline": [[0, "STOP_BEGIN", 0], *ends, [1000, "STOP_BODY", 0]],
        }

    return {"sng": [sample(MS, 0), sample(stop_ns, halted_ns)], "fast": [sample(MS // 10, 0)]}


def test_sng_as_in_the_paper_passes() -> None:
    result = verdict("lpc-sng", sng(9 * MS, 0))
    assert result.ok
    assert counted(result) == (0, 0)


def test_sng_longer_stop_is_accepted_only_if_it_waits() -> None:
    assert counted(verdict("lpc-sng", sng(15 * MS, 10 * MS))) == (1, 0)
    assert counted(verdict("lpc-sng", sng(15 * MS, 0))) == (0, 1)


def test_sng_beyond_the_hold_up_or_with_other_parts_is_red() -> None:
    assert not verdict("lpc-sng", sng(17 * MS, 10 * MS)).ok
    assert not verdict("lpc-sng", sng(9 * MS, 0, process=54)).ok


# lpc-f22: CPUs and caches.


def f22(ns_per_cpu: int) -> dict[str, Any]:
    sizes, kib = (8, 16, 32, 64), (16, 64, 256, 512, 1024)
    return {
        "stops": {
            f"{way}-{cpus}": {"cpus": cpus, "way": way, "stop_ns": 20_000, "halted_ns": 0}
            for way in ("fast", "riscv_fast", "riscv_sng")
            for cpus in sizes
        },
        "flushes": [
            {"cpus": cpus, "l1_kib": l1_kib, "time_ns": ns_per_cpu * cpus * l1_kib}
            for cpus in sizes
            for l1_kib in kib
        ],
    }


def test_f22_as_in_the_paper_passes() -> None:
    assert verdict("lpc-f22", f22(800)).ok


def test_f22_caches_of_the_papers_largest_machine_count() -> None:
    """512 KiB for each of 64 CPUs still fit 55 ms here, but the paper has 40 MiB in all."""
    ns_per_kib = 1000
    raw, small_ns = f22(ns_per_kib), ns_per_kib * 64 * 512
    assert small_ns < 55 * MS
    assert counted(verdict("lpc-f22", raw)) == (0, 3)


def test_f22_longer_stop_by_lightpcs_own_way_is_accepted_only_if_it_waits() -> None:
    raw = f22(800)
    stop = raw["stops"]["riscv_sng-32"]
    stop |= {"stop_ns": 18 * MS, "halted_ns": 10 * MS}
    assert counted(verdict("lpc-f22", raw)) == (1, 0)
    stop["halted_ns"] = 0
    assert counted(verdict("lpc-f22", raw)) == (0, 1)


@pytest.mark.parametrize("way", ["fast", "riscv_fast", "riscv_sng"])
def test_f22_number_of_cpus_that_was_not_run_is_red(way: str) -> None:
    raw = f22(800)
    raw["stops"][f"{way}-64"] |= {"stop_ns": None, "why_not": "it hung"}
    result = verdict("lpc-f22", raw)
    assert not result.ok
    assert result.figures["not_run"].value == 1
    assert result.figures[f"not run, {way}-64"].value == "it hung"


# off-f10: the jump past 64 KB.


def f10(jump_ns: int) -> dict[str, Any]:
    from lab.bench.off2f import DISK_BYTES_PER_NS, READ_NS

    disk_ns = READ_NS + round((32 << 10) / DISK_BYTES_PER_NS)
    raw = {}
    for place, size in enumerate(("32k", "64k", "96k", "128k")):
        ways = ("elf_disk", "elf_reset", "elf_cache", "dax_cold", "dax_warm", "off2f_cold",
                "off2f_reset", "off2f_warm", "off2f_dax_cold")  # fmt: skip
        rows = {
            way: {
                "cpu_ns": 100_000 + place * (10 if way.startswith("off2f") else 1000),
                "disk_reads": 1 if way.startswith("off2f") else 3,
                "disk_bytes": 4096,
                "text_dram_pages": 0,
            }
            for way in ways
        }
        rows["elf_cache"]["cpu_ns"] = 100_000 + (jump_ns - disk_ns if place >= 2 else 0)
        raw[size] = rows
    return raw


def test_f10_as_in_the_paper_passes() -> None:
    result = verdict("off-f10", f10(3 * MS))
    assert result.ok
    assert counted(result) == (0, 0)


def test_f10_jump_is_held_to_a_quarter() -> None:
    assert counted(verdict("off-f10", f10(2_300_000))) == (0, 0)
    assert counted(verdict("off-f10", f10(2_200_000))) == (1, 0)


def test_f10_jump_that_no_slower_disk_explains_is_red() -> None:
    assert counted(verdict("off-f10", f10(9 * MS))) == (0, 1)


# wsp-f5: ratios over plain memory.

WAITS_NS = (300, 1000, 3000)


def f5() -> dict[str, Any]:
    raw: dict[str, Any] = {
        f"{one}_instructions": [100.0, 0.0] for one in ("fof", "glibc", "mimalloc")
    }
    for prefix in ("", "small_"):
        for share in range(0, 101, 10):
            ratios = {
                "foc_stm": 6 + 7 * share / 100,
                "foc_ul": 1.6 + 8.4 * share / 100,
                "foc_rl": 1.5,
                "pmdk": 12.0,
                "fof_stm": 1.4,
                "fof_ul": 1.2,
                "glibc": 1.0,
            }
            for name, ratio in ratios.items():
                raw[f"{prefix}u{share}_{name}_vs_fof"] = [ratio, 1.0]
                raw[f"{prefix}u{share}_{name}_ns"] = [ratio * 100, 1.0]
            for policy in ("stm", "ul"):
                raw[f"{prefix}u{share}_foc_vs_fof_{policy}"] = [3.0, 1.0]
    for share in range(0, 101, 10):
        for policy in ("foc_stm", "foc_ul"):
            for wait_ns in WAITS_NS:
                raw[f"u{share}_{policy}_wait{wait_ns}_vs_fof"] = [8.0, 1.0]
    return raw


def test_f5_as_in_the_paper_passes() -> None:
    result = verdict("wsp-f5", f5())
    assert result.ok
    assert counted(result) == (0, 0)
    assert result.figures["paper_values_held"].value == 4


def test_f5_updates_ask_for_their_sweep() -> None:
    raw = f5()
    raw["u100_foc_stm_vs_fof"] = [3.0, 1.0]
    assert counted(verdict("wsp-f5", raw)) == (1, 0)
    for wait_ns in WAITS_NS:
        raw[f"u100_foc_stm_wait{wait_ns}_vs_fof"] = [3.0, 1.0]
    assert counted(verdict("wsp-f5", raw)) == (0, 1)


def test_f5_lookups_that_slower_fences_explain_are_not_excused() -> None:
    raw = f5()
    raw["u0_foc_stm_vs_fof"] = [3.0, 1.0]
    assert counted(verdict("wsp-f5", raw)) == (0, 1)
    for name in ("small_u0_foc_stm_vs_fof", "u0_foc_stm_wait3000_vs_fof"):
        raw[name] = [3.0, 1.0]
    assert counted(verdict("wsp-f5", raw)) == (1, 0)


def test_f5_transactions_in_the_cache_are_in_between() -> None:
    raw = f5()
    raw["u100_fof_ul_vs_fof"] = [0.9, 1.0]
    assert not verdict("wsp-f5", raw).ok


# wsp-f9: devices.


def f9(dpm_ns: int, halted_ns: int) -> dict[str, Any]:
    def way(stop_ns: int, halted_ns: int) -> list[dict[str, Any]]:
        return [
            {"load": load, "stop_ns": stop_ns, "stop_halted_ns": halted_ns}
            for load in ("idle", "fsync")
        ]

    return {"fast": way(20_000, 0), "dpm": way(dpm_ns, halted_ns)}


def test_f9_as_in_the_paper_passes() -> None:
    result = verdict("wsp-f9", f9(150 * MS, 140 * MS))
    assert result.ok
    assert counted(result) == (0, 0)


def test_f9_shorter_stop_is_accepted_only_if_it_waits() -> None:
    assert counted(verdict("wsp-f9", f9(20 * MS, 19 * MS))) == (2, 0)
    assert counted(verdict("wsp-f9", f9(20 * MS, 0))) == (0, 2)


# wsp-t2: flushes of whole caches.


def t2(wbinvd_ns: int, clflush_ns: int, write_ns: int) -> dict[str, Any]:
    def row(wbinvd_ns: int, clflush_ns: int, best_ns: int) -> dict[str, Any]:
        times = {"wbinvd": wbinvd_ns, "clflush": clflush_ns, "best": best_ns}
        return {how: {"time_ns": ns, "write_ns": write_ns} for how, ns in times.items()}

    return {
        "wsp-c5528": row(wbinvd_ns, clflush_ns, 790_000),
        "wsp-4180": row(1_300_000, 1_600_000, 650_000),
    }


def test_t2_is_held_to_a_quarter() -> None:
    assert counted(verdict("wsp-t2", t2(2_800_000, 2_300_000, 700_000))) == (0, 0)
    assert counted(verdict("wsp-t2", t2(3_600_000, 2_300_000, 700_000))) == (0, 1)


def test_t2_has_no_excuse_for_a_slow_clflush() -> None:
    assert counted(verdict("wsp-t2", t2(2_800_000, 3_100_000, 700_000))) == (0, 1)


# wsp-t1: OpenLDAP.


def t1(plain_ns: float, slapd_ns: float, stm_times: float) -> dict[str, Any]:
    times = {"foc_stm": stm_times, "foc_ul": 1.5, "foc_rl": 1.4, "fof": 1.0, "plain": 1.0}
    return {
        "entries": 10,
        "servers": {
            name: {
                "client_ns": [slapd_ns + time * plain_ns] * 4,
                "back_end_ns": time * plain_ns,
                "entries": 11,
            }
            for name, time in times.items()
        },
    }


def test_t1_as_in_the_paper_passes() -> None:
    result = verdict("wsp-t1", t1(1000, 0, 2.4))
    assert result.ok
    assert counted(result) == (0, 0)


def test_t1_deviation_is_accepted_only_if_slapd_is_why() -> None:
    assert counted(verdict("wsp-t1", t1(1000, 50_000, 2.4))) == (1, 0)
    assert counted(verdict("wsp-t1", t1(1000, 0, 1.6))) == (0, 1)


# lpc-eadr: what a cut loses, and what the next power-on finds.


def eadr(resumed: bool, keys: int, adr_lines: int, eadr_lines: int) -> dict[str, Any]:
    """*resumed*, *keys* and *eadr_lines* are of eADR without a Stop."""

    def case(lines: int, resumed: bool, keys: int) -> dict[str, Any]:
        reason = "RESUME" if resumed else "COLD_NOT_COMMITTED"
        caches = {"differ_lines": lines}
        return {"caches": caches, "resumed": resumed, "keys": keys, "reason": reason}

    return {
        "ADR, no Stop": case(adr_lines, False, 0),
        "eADR, no Stop": case(eadr_lines, resumed, keys),
        "ADR, Stop": case(2, True, 1000),
        "eADR, Stop": case(0, True, 1000),
    }


def test_eadr_passes_only_if_the_stop_makes_the_difference() -> None:
    assert verdict("lpc-eadr", eadr(False, 0, 500_000, 0)).ok
    assert not verdict("lpc-eadr", eadr(True, 0, 500_000, 0)).ok
    assert not verdict("lpc-eadr", eadr(False, 1000, 500_000, 0)).ok
    assert not verdict("lpc-eadr", eadr(False, 0, 0, 0)).ok
    assert not verdict("lpc-eadr", eadr(False, 0, 500_000, 7)).ok


@pytest.mark.parametrize("lost", ["resumed", "keys"])
def test_eadr_machine_that_is_lost_with_a_stop_is_red(lost: str) -> None:
    raw = eadr(False, 0, 500_000, 0)
    raw["ADR, Stop"][lost] = 0
    assert not verdict("lpc-eadr", raw).ok


# lpc-f14: cycles that wait, by clock.


def f14(latency_cycles: float, slope: float) -> dict[str, Any]:
    """A wait of so many cycles per instruction at 1 GHz, which grows by *slope* with the clock."""

    def one(mhz: int, cycles: float) -> dict[str, float]:
        stalled_ns = cycles * (1 + slope * (mhz / 1000 - 1)) * 1000 / mhz
        times_ns = {"active_ns": 1000 / mhz, "stalled_ns": stalled_ns}
        return {"time_ns": sum(times_ns.values()), "instructions": 1, **times_ns}

    clocks = (400, 800, 1000, 1200, 1400, 1600, 1800)
    rows = {name: {str(mhz): one(mhz, latency_cycles) for mhz in clocks}
            for name in ("dram", "lightpc")}  # fmt: skip
    sweep = {
        misses: {str(mhz): one(mhz, latency_cycles / int(misses)) for mhz in (800, 1800)}
        for misses in ("1", "4", "8")
    }
    whole = rows | {"sweep": sweep}
    return {name: deepcopy(whole) for name in ("redis", "redis, RISC-V", "hash table")}


def test_f14_stalls_that_slow_cores_keep_are_as_in_the_paper() -> None:
    result = verdict("lpc-f14", f14(10.0, 0.5))
    assert result.ok
    assert counted(result) == (0, 0)


def test_f14_stalls_that_slow_cores_hide_are_named() -> None:
    assert counted(verdict("lpc-f14", f14(0.3, 1.0))) == (3, 0)


def test_f14_is_red_if_another_number_of_misses_keeps_them_or_stalls_shrink() -> None:
    raw = f14(0.3, 1.0)
    raw["redis"]["sweep"]["1"] = f14(10.0, 0.5)["redis"]["sweep"]["1"]
    assert counted(verdict("lpc-f14", raw)) == (2, 1)
    assert not verdict("lpc-f14", f14(10.0, -0.1)).ok


# wsp-scm: flush-on-commit over flush-on-fail, by how slow writes are.


def scm(gain: dict[int, float], slow_pj: int = 2000) -> dict[str, Any]:
    modes = {}
    for slower, ratio in gain.items():
        for name, times in (("fof", 1.0), ("foc_ul", ratio), ("foc_stm", ratio)):
            modes[f"{name}-{slower}"] = {"time_ns": 1000 * times, "energy_pj": 1000 * times}
    flushes = {
        str(slower): {"time_ns": slower * 7e5, "energy_pj": 1000 if slower == 1 else slow_pj}
        for slower in gain
    }
    return {"operations": 1, "modes": modes, "flushes": flushes}


def test_scm_passes_only_if_slow_writes_widen_the_gap_and_take_more_energy() -> None:
    wider = {1: 3.0, 2: 2.9, 5: 4.0, 10: 6.0, 30: 7.0, 100: 8.0}
    result = verdict("wsp-scm", scm(wider))
    assert result.ok
    assert result.figures["slowest_within_10_ms"].value == 10
    assert result.figures["slowest_within_33_ms"].value == 30
    assert not verdict("wsp-scm", scm(wider | {30: 2.9})).ok
    assert not verdict("wsp-scm", scm(wider, slow_pj=1000)).ok


# wsp-storm: what a server reads until it has its keys.


def storm(cold_share: float, go_share: float, keys: int = 4000) -> dict[str, Any]:
    def server(held: int, after_go: int) -> dict[str, Any]:
        state_bytes = held * 1000
        cold_bytes, go_bytes = (int(state_bytes * share) for share in (cold_share, go_share))
        return {
            "keys": held,
            "state_bytes": state_bytes,
            "go": {"resumed": True, "keys": after_go, "read_bytes": go_bytes + 4096},
            "cold": {"keys": held, "boot_bytes": 0, "read_bytes": cold_bytes},
        }

    return {"small": server(1000, 1000), "large": server(4000, keys)}


def test_storm_passes_only_if_go_asks_hardly_anything_of_the_back_end() -> None:
    result = verdict("wsp-storm", storm(1.0, 0.0))
    assert result.ok
    assert result.figures["servers_of_the_outage"].value == 17.6
    assert not verdict("wsp-storm", storm(1.0, 0.02)).ok
    assert not verdict("wsp-storm", storm(1.0, 0.0, keys=3999)).ok
    assert not verdict("wsp-storm", storm(0.9, 0.0)).ok
    assert counted(verdict("wsp-storm", storm(2.0, 0.0))) == (0, 1)


# wsp-catch-up: what a member that was away receives.


def catch_up(long_bytes: int, copies: int = 0, cold_bytes: int = 2000) -> dict[str, Any]:
    def outage(off_s: float, sent_bytes: int) -> dict[str, Any]:
        found = {"off_s": off_s, "resumed": True, "copies": copies, "back_s": 0.5}
        return found | {"redis_bytes": sent_bytes, "etcd_bytes": 10}

    cold = {"resumed": False, "copies": 1, "redis_bytes": cold_bytes, "etcd_bytes": 9}
    outages = [outage(1.0, 100), outage(11.0, long_bytes)]
    return {"held_bytes": 1000, "outages": outages, "cold": cold | {"back_s": 20.0}}


def test_catch_up_passes_only_if_what_was_missed_is_sent_and_no_more() -> None:
    result = verdict("wsp-catch-up", catch_up(200))
    assert result.ok
    assert result.figures["break_even_s"].value == 100
    assert result.figures["cold_vs_resumed"].value == 40.0
    assert not verdict("wsp-catch-up", catch_up(200, copies=1)).ok
    assert not verdict("wsp-catch-up", catch_up(1000)).ok
    assert not verdict("wsp-catch-up", catch_up(100)).ok
    assert not verdict("wsp-catch-up", catch_up(200, cold_bytes=900)).ok


# wsp-block: space and time of a second copy.


def block(dax_files_bytes: int, log_ns: int = 3000, keys: int = 100) -> dict[str, Any]:
    def way(files_bytes: int, updates_ns: int, keys: int) -> dict[str, int]:
        found = {"memory_bytes": 1000, "files_bytes": files_bytes, "cached_bytes": 0}
        return found | {"updates_ns": updates_ns, "back_ns": 5, "keys": keys}

    ways = {
        "memory": way(0, 1000, 0),
        "log": way(1000, log_ns, keys),
        "log, DAX": way(dax_files_bytes, 2000, 100),
        "snapshot": way(1000, 1500, 100),
    }
    return {"keys": 100, "updates": 10, "ways": ways}


def test_block_passes_only_if_the_copy_doubles_space_costs_time_and_comes_back() -> None:
    assert verdict("wsp-block", block(1000)).ok
    assert counted(verdict("wsp-block", block(300))) == (0, 1)
    assert not verdict("wsp-block", block(1000, log_ns=1000)).ok
    assert not verdict("wsp-block", block(1000, keys=99)).ok


# lpc-pram: what DRAM writes, and STREAM.


def pram(
    stream_ratio: float, rows_opened: int, refresh_pj: int = 0, hit_share: float = 0.88
) -> dict[str, Any]:
    def kernel(ratio: float) -> dict[str, float]:
        return {"reads": 1000 * ratio, "writes": 1000, "load_hit_share": hit_share}

    names = ("copy", "scale", "add", "triad")
    by_kernel = {name: kernel(stream_ratio + 0.1 * (name in ("add", "triad"))) for name in names}
    served = {"time_ns": 1000.0, "reads": 9000, "writes": 1000, "energy_refresh_pj": refresh_pj}
    dram = served | {"energy_activate_pj": rows_opened * 4000}
    return {
        "stream": by_kernel,
        "redis": {"dram": dram, "lightpc": served | {"energy_activate_pj": 0}},
    }


def test_pram_passes_only_if_dram_writes_more_and_stream_reads_less() -> None:
    assert verdict("lpc-pram", pram(1.6, 100)).ok
    assert counted(verdict("lpc-pram", pram(9.0, 100))) == (0, 1)
    assert counted(verdict("lpc-pram", pram(1.6, 100, hit_share=0.8))) == (0, 1)
    assert not verdict("lpc-pram", pram(1.6, 0)).ok
    assert not verdict("lpc-pram", pram(1.6, 100, refresh_pj=1)).ok


# off-x: a census, and starts of real programs.


def off_x(text: int, small: int, reads: int = 1, printed: str = "a") -> dict[str, Any]:
    """100 programs with 100 bytes of data, five of them of FreeBSD's /bin with 2,000 of text.

    In *small* of them data is a tenth of what is loaded, and not of the file.
    """

    def row(name: str, text: int, is_small: bool) -> dict[str, Any]:
        return {
            "name": name,
            "file_bytes": 100_000,
            "text_bytes": text,
            "read_only_bytes": text,
            "data_bytes": 100,
            "relocated_bytes": 50,
            "zeroed_bytes": 0,
            "loaded_bytes": 1000 if is_small else 100_000,
        }

    rows = [row(name, 2000, False) for name in ("cat", "cp", "ls", "mv", "rm")]
    rows += [row(f"p{number}", text, number < small) for number in range(95)]
    scan = {
        "elf_files": 100, "convert": 100, "refused": {}, "no_elf": 1, "dram_saved_pages": 1,
        "disk_bytes_saved": 1, "convert_percent": 100.0, "text_bytes": 5 * 2000 + 95 * text,
        "data_bytes": 100 * 100, "much_data": 0,
    }  # fmt: skip
    census = {"debian": "12", "packages": {"a": "1"}, "scan": scan, "programs": rows}

    def sample(reads: int) -> dict[str, int]:
        return {"cpu_ns": 1000, "disk_reads": reads, "disk_bytes": reads * 4096,
                "minor_faults": 3, "major_faults": reads}  # fmt: skip

    def start() -> dict[str, Any]:
        found: dict[str, Any] = {}
        for kind, cold, pages in (("elf", 3, 9), ("off2f", reads, 0), ("off2f_bound", 0, 0)):
            found |= {f"{kind}_cold": sample(cold), f"{kind}_warm": sample(0)}
            found |= {f"{kind}_text": {"text_dram_pages": pages}, f"{kind}_printed": "a"}
        return found | {"off2f_printed": printed}

    rows_ = {name: {"start": start(), "work": start()} for name in ("cc1", "busybox")}
    return {"census": census, "starts": {"busybox": "1.35", "rows": rows_}}


def test_off_x_deviation_is_accepted_only_where_the_layout_is_why() -> None:
    assert verdict("off-x", off_x(1000, small=80)).ok
    assert counted(verdict("off-x", off_x(1000, small=80))) == (1, 0)
    assert not verdict("off-x", off_x(2200, small=80)).ok  # not between the layouts
    assert not verdict("off-x", off_x(1000, small=20)).ok  # padding is not why


def test_off_x_sweep_over_other_files_is_red() -> None:
    raw = off_x(1000, small=80)
    raw["census"]["scan"]["text_bytes"] += 4096
    assert not verdict("off-x", raw).ok
    raw = off_x(1000, small=80)
    raw["census"]["scan"] |= {"convert": 99, "refused": {}}
    assert not verdict("off-x", raw).ok


@pytest.mark.parametrize("wrong", [{"reads": 3}, {"printed": "b"}])
def test_off_x_start_that_saves_nothing_or_differs_is_red(wrong: dict[str, Any]) -> None:
    assert not verdict("off-x", off_x(1000, small=80, **wrong)).ok


def test_off_x_static_program_with_text_in_dram_is_red() -> None:
    raw = off_x(1000, small=80)
    raw["starts"]["rows"]["cc1"]["work"]["off2f_text"]["text_dram_pages"] = 1  # of its libraries
    assert verdict("off-x", raw).ok
    raw["starts"]["rows"]["busybox"]["work"]["off2f_text"]["text_dram_pages"] = 1
    assert not verdict("off-x", raw).ok


# off-raw: texts alone, copies of their partition, overwritten memory.


def off_raw() -> dict[str, Any]:
    def sizes(name: str, file_bytes: int, data_bytes: int, xyz: int) -> dict[str, Any]:
        return {"name": name, "file_bytes": file_bytes, "data_bytes": data_bytes,
                "text_bytes": xyz - 4096, "xyz": xyz, "abc": 4096}  # fmt: skip

    def look(started: str, text: bool = True, mounted: bool = True) -> dict[str, Any]:
        one = {"file": text, "text": text, "verified": text, "started": started}
        said = ["/root/o/a: no (-ENOENT)", "/root/o/b: no (-ENOENT)"]
        return {"mounted": mounted, "said": said, "programs": {"a": dict(one), "b": dict(one)}}

    copies = {
        "elsewhere in NVRAM": look("same"),
        "under another path": look("ENOENT", text=False),
        "without direct access": look("ENOEXEC"),
        "on the disk": look("ENOEXEC"),
    }
    places = [look("same"), look("EBADMSG", text=False), look("ENOENT", text=False, mounted=False)]
    guest = {
        "copies": copies,
        "overwritten": [{"at": at, **one} for at, one in enumerate(places)],
        "short": [{"at": 0, **look("ENOENT", text=False, mounted=False)}],
        "reset": look("same"),
        "reset, overwritten": look("EBADMSG", text=False),
    }
    rows = [sizes("a", 1 << 20, 1 << 10, 700 << 10), sizes("b", 1 << 20, 1 << 18, 400 << 10)]
    return {"census": rows, "guest": guest}


def test_off_raw_passes_only_if_text_alone_is_smaller() -> None:
    result = verdict("off-raw", off_raw())
    assert result.ok
    assert result.figures["texts_overwritten"].value == 2
    raw = off_raw()
    raw["census"][0]["xyz"] = 2 << 20
    assert not verdict("off-raw", raw).ok


@pytest.mark.parametrize("way", ["verified", "started"])
@pytest.mark.parametrize("place", ["overwritten", "short", "reset, overwritten"])
def test_off_raw_overwritten_text_that_is_not_found_is_red(place: str, way: str) -> None:
    raw = off_raw()
    look = raw["guest"][place]
    look = look[-1] if isinstance(look, list) else look
    look["programs"]["b"][way] = {"verified": True, "started": "other"}[way]
    assert not verdict("off-raw", raw).ok


def test_off_raw_whole_program_that_is_blamed_is_red() -> None:
    for wrong in ({"verified": False}, {"started": "EBADMSG"}):
        raw = off_raw()
        raw["guest"]["overwritten"][0]["programs"]["a"] |= wrong
        assert not verdict("off-raw", raw).ok


@pytest.mark.parametrize("copy", ["under another path", "without direct access", "on the disk"])
def test_off_raw_copy_that_starts_or_is_refused_without_a_name_is_red(copy: str) -> None:
    raw = off_raw()
    raw["guest"]["copies"][copy]["programs"]["a"]["started"] = "same"
    assert not verdict("off-raw", raw).ok
    raw = off_raw()
    raw["guest"]["copies"][copy]["said"].pop()
    assert not verdict("off-raw", raw).ok


def test_off_raw_that_hits_no_text_or_all_is_red() -> None:
    raw = off_raw()
    raw["guest"]["overwritten"] = raw["guest"]["overwritten"][:1]
    assert not verdict("off-raw", raw).ok
    raw = off_raw()
    raw["guest"]["overwritten"] = raw["guest"]["overwritten"][1:]
    assert not verdict("off-raw", raw).ok
    raw = off_raw()
    raw["guest"]["reset"] = raw["guest"]["reset, overwritten"]
    assert not verdict("off-raw", raw).ok


# pm-db: a row in a segment, in files, and after a cut.


def pm_db(segment_ns: int = 220) -> dict[str, Any]:
    rows = 20_000
    ways = {"memory": 200, "segment": segment_ns, "pmramd": 6000, "plain": 5000, "dax": 4000,
            "disk": 5000, "cache": 1200, "mapped": 210}  # fmt: skip

    def filled(way: str, ns: int) -> dict[str, int]:
        count = rows // 10 if way == "disk" else rows
        asked = count if way == "disk" else 0
        found = {"lines": 3 * 2 * rows if way == "segment" else 0,
                 "rows": count, "changed": count, "wrong": 0}  # fmt: skip
        for does in ("insert", "change"):
            found |= {f"{does}_wall_ns": ns * rows, f"{does}_writes": asked,
                      f"{does}_flushes": asked}  # fmt: skip
        return found

    def kept(count: int, open_ns: int) -> dict[str, int]:
        return {"rows": count, "changed": count, "wrong": 0, "open_ns": open_ns}

    return {
        "rows": rows,
        "filled": {way: filled(way, ns) for way, ns in ways.items()},
        "kept": {
            "segment": kept(rows, 100), "dax": kept(rows, 900), "pmramd": kept(rows, 900),
            "disk": kept(rows // 10, 900), "cache": kept(0, 1), "mapped": {"rows": 0},
        },
        "caches": {"flushed": kept(300, 1), "not flushed": {"rows": 0}},
    }  # fmt: skip


def test_db_as_in_the_paper_passes() -> None:
    result = verdict("pm-db", pm_db())
    assert result.ok
    assert counted(result) == (0, 0)
    assert result.figures["lines_per_row"].value == 3
    assert result.figures["disk_insert_row"].value == 5000 + 20_000 + 100_000
    assert result.figures["segment_insert_row, a line takes 100 ns"].value == 220 + 300


def test_db_dearer_row_is_accepted_only_if_it_is_a_small_part_of_one_with_work() -> None:
    assert counted(verdict("pm-db", pm_db(segment_ns=400))) == (2, 0)
    assert not verdict("pm-db", pm_db(segment_ns=1300)).ok  # slower than the page cache
    assert not verdict("pm-db", pm_db(segment_ns=6100)).ok  # slower than the disk interface


@pytest.mark.parametrize("way", ["segment", "dax", "pmramd", "disk"])
@pytest.mark.parametrize("what", ["rows", "changed", "wrong"])
def test_db_acknowledged_row_that_is_lost_or_wrong_is_red(way: str, what: str) -> None:
    raw = pm_db()
    raw["kept"][way][what] += 1 if what == "wrong" else -1
    assert not verdict("pm-db", raw).ok


@pytest.mark.parametrize("way", ["cache", "mapped"])
def test_db_page_cache_that_loses_nothing_is_red(way: str) -> None:
    raw = pm_db()
    raw["kept"][way] = raw["kept"]["segment"]
    assert not verdict("pm-db", raw).ok


def test_db_flushes_that_make_no_difference_are_red() -> None:
    raw = pm_db()
    raw["caches"]["not flushed"] = raw["caches"]["flushed"]
    assert not verdict("pm-db", raw).ok
    raw = pm_db()
    raw["caches"]["flushed"] = {"rows": 299, "changed": 299, "wrong": 0}
    assert not verdict("pm-db", raw).ok
    raw = pm_db()
    raw["filled"]["segment"]["lines"] = 0
    assert not verdict("pm-db", raw).ok
    raw = pm_db()
    raw["kept"]["segment"]["open_ns"] = 1000
    assert not verdict("pm-db", raw).ok


@pytest.mark.parametrize(
    ("name", "raw"),
    [
        ("lpc-f8", f8(9 * MS, 12, 38, 0)),
        ("lpc-f14", f14(10.0, 0.5)),
        ("lpc-f22", f22(800)),
        ("lpc-sng", sng(9 * MS, 0)),
        ("lpc-pram", pram(1.6, 100)),
        ("off-f10", f10(3 * MS)),
        ("off-x", off_x(1000, small=80)),
        ("pm-db", pm_db()),
        ("wsp-block", block(1000)),
        ("wsp-f5", f5()),
        ("wsp-f9", f9(150 * MS, 140 * MS)),
        ("wsp-storm", storm(1.0, 0.0)),
        ("wsp-t1", t1(1000, 0, 2.4)),
    ],
)
def test_each_expected_value_is_a_figure_and_missing_it_is_red(name: str, raw: Any) -> None:
    assert_missing_is_red(name, raw)


# lpc-f19 to f21: ways to survive a power failure, with the paper's values.

GHZ = 1.6


def way_cost(cycles: float, ipc: float = 0.5, mw: float = 1000) -> dict[str, int]:
    ns = cycles / GHZ
    return {
        "ns": round(ns),
        "pj": round(ns * mw),
        "insns": round(cycles * ipc),
        "halted_ns": 0,
        "stalled_ns": round(ns / 4),
    }


def way_run(cycles: float, ipc: float = 0.5, **others: Any) -> dict[str, Any]:
    return {"cost": way_cost(cycles, ipc), "digest": 17, "dumps_ns": [], **others}


def paper_ways() -> dict[str, Any]:
    """Runs of 37 G cycles, their saves and returns, as LightPC reports them."""
    run = 37e9
    dumps = {
        "dumps_ns": [MS, 77 * MS],
        "copies_ns": [3 * MS, 2 * MS, 4 * MS],
        "dump_counts": {"frozen_us": 60_000, "memwrite_us": 2000, "pages_written": 700},
    }
    stop, go = way_cost(20e6, 0.66, 4500), way_cost(12.5e6, 0.64, 4400)
    save, load = way_cost(6.6e9, 0.5, 20_000), way_cost(4.4e9, 0.59)
    ways = {
        "ours": {"whole": way_run(run), "cut": way_run(run + 1e6, save=stop, back=go)},
        "sng": {"whole": way_run(run), "cut": way_run(run + 32e6, save=stop, back=go)},
        "syspc": {
            "whole": way_run(run),
            "cut": way_run(run * 1.6, save=save, back=load),
        },
        "acheckpc": {
            "whole": way_run(run * 8, 0.23),
            "cut": way_run(run * 8.8, save=way_cost(0), back=way_cost(1e9, 0.23)),
        },
        "scheckpc": {
            "whole": way_run(run * 2, 0.3, **dumps),
            "cut": way_run(run * 2.4, save=way_cost(0), back=way_cost(1e9, 0.19)),
        },
    }
    return {"ours": {"plain": way_run(run), **ways.pop("ours")}, **ways}


def f19_raw() -> dict[str, Any]:
    """With the sweeps of the full tier, which reach what the paper has."""
    ways = paper_ways()
    ways["scheckpc-fuller"] = {"cut": deepcopy(ways["scheckpc"]["cut"])}
    short = {
        "table-short": {"whole": way_run(1e9)},
        "table-short-acheckpc": {"whole": way_run(8.8e9)},
    }
    return {"ways": ways, "short": short}


def f20_raw() -> dict[str, Any]:
    raw = {"windows_ns": {"atx": 22 * MS, "server": 55 * MS}, "ways": paper_ways()}
    # Between 172 times the one window and 112 times the other, within 25% of both.
    raw["ways"]["syspc"]["cut"]["save"]["ns"] = 4700 * MS
    raw["ways"]["syspc-fuller"] = {"cut": deepcopy(raw["ways"]["syspc"]["cut"])}
    raw["ways"]["syspc-fuller"]["cut"]["save"]["ns"] = 5500 * MS
    return raw


def test_ways_as_the_paper_has_them() -> None:
    assert counted(verdict("lpc-f19", f19_raw())) == (0, 0)
    assert counted(verdict("lpc-f20", f20_raw())) == (0, 0)
    assert counted(verdict("lpc-f21", paper_ways())) == (0, 0)


@pytest.mark.parametrize("name", ["lpc-f19", "lpc-f21"])
def test_way_that_does_not_come_back_is_red(name: str) -> None:
    def whole(ways: dict[str, Any]) -> dict[str, Any]:
        return {**f19_raw(), "ways": ways} if name == "lpc-f19" else ways

    result = verdict(name, whole({**paper_ways(), "syspc": {"failed": "no hibernation"}}))
    assert not result.ok
    assert counted(result)[1] > 0  # the paper's values of it were not measured
    ways = paper_ways()
    ways["scheckpc"]["cut"]["digest"] = 18
    assert not verdict(name, whole(ways)).ok


def test_f19_other_times_are_accepted_only_if_their_mechanism_is_why() -> None:
    raw = f19_raw()
    raw["ways"]["acheckpc"]["cut"]["cost"] = way_cost(37e9 * 3)
    # Over ours, over SysPC, S-CheckPC over it, and the mean of the three.
    assert counted(verdict("lpc-f19", raw)) == (4, 0)
    raw["short"]["table-short-acheckpc"]["whole"]["cost"] = way_cost(2e9)
    assert counted(verdict("lpc-f19", raw)) == (0, 4)  # it is not how much a function does
    assert counted(verdict("lpc-f19", raw, tier="ci")) == (0, 0)  # a short run's are not compared
    raw["short"]["table-short-acheckpc"]["whole"]["digest"] = 18
    assert not verdict("lpc-f19", raw, tier="ci").ok
    raw = f19_raw()
    raw["ways"]["scheckpc"]["cut"]["cost"] = way_cost(37e9 * 1.79)
    assert counted(verdict("lpc-f19", raw)) == (2, 0)  # over ours, over SysPC
    raw["ways"]["scheckpc-fuller"]["cut"]["cost"] = way_cost(37e9 * 1.7)  # nor how much it has
    assert counted(verdict("lpc-f19", raw)) == (0, 2)


def test_f20_other_times_are_accepted_only_if_their_mechanism_is_why() -> None:
    raw = f20_raw()
    raw["ways"]["scheckpc"]["whole"]["dumps_ns"] = [260 * MS]
    assert counted(verdict("lpc-f20", raw)) == (2, 0)
    raw["ways"]["scheckpc"]["whole"]["copies_ns"] = [270 * MS]  # it is not what CRIU does besides
    assert counted(verdict("lpc-f20", raw)) == (0, 2)
    raw = f20_raw()
    raw["ways"]["syspc"]["cut"]["save"]["ns"] = 4000 * MS
    assert counted(verdict("lpc-f20", raw)) == (1, 0)
    raw["ways"]["syspc-fuller"]["cut"]["save"]["ns"] = 3900 * MS  # not how much memory holds
    assert counted(verdict("lpc-f20", raw)) == (0, 1)
    del raw["ways"]["syspc-fuller"]
    assert not verdict("lpc-f20", raw).ok


def test_f21_other_cycles_are_accepted_only_if_their_mechanism_is_why() -> None:
    raw = paper_ways()
    save = raw["sng"]["cut"]["save"] = way_cost(20e6, 0.3)
    save["stalled_ns"] = round(save["ns"] * 0.8)
    assert counted(verdict("lpc-f21", raw)) == (1, 0)
    save["stalled_ns"] = 0  # it does not wait for memory
    assert counted(verdict("lpc-f21", raw)) == (0, 1)
    raw = paper_ways()
    run = raw["scheckpc"]["whole"]["cost"] = way_cost(37e9 * 2, 0.5)
    run["stalled_ns"] = run["ns"]
    assert counted(verdict("lpc-f21", raw)) == (1, 0)
    run["stalled_ns"] = 0  # wrong predictions could be why
    assert counted(verdict("lpc-f21", raw)) == (0, 1)
    raw = paper_ways()
    raw["sng"]["cut"]["back"] = way_cost(100e6, 0.64)  # and the ratio over it
    assert counted(verdict("lpc-f21", raw)) == (0, 2)


def test_f21_shorter_save_is_accepted_only_if_more_in_memory_is_why() -> None:
    raw = paper_ways()
    raw["syspc"]["cut"]["save"] = way_cost(4.6e9, 0.5, 20_000)
    assert not verdict("lpc-f21", raw).ok  # nothing was measured with more
    raw["syspc-fuller"] = deepcopy(raw["syspc"])
    raw["syspc-fuller"]["cut"]["save"] = way_cost(6.2e9, 0.5)
    assert counted(verdict("lpc-f21", raw)) == (1, 0)
    raw["syspc-fuller"]["cut"]["save"] = way_cost(4.5e9, 0.5)
    assert counted(verdict("lpc-f21", raw)) == (0, 1)
